"""`kafkalite consume -o jsonl | kafkalite produce --input jsonl` as a shell runs it: what comes out is what went in."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from typing import Final

import confluent_kafka
import pytest

from tests.wire.conftest import TopicMaker

pytestmark = pytest.mark.wire

TIMEOUT_S: Final = 60
PARTITIONS: Final = 3
Copied = tuple[int, bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...], int]
"""Partition, key, value, headers, timestamp."""

ODD: Final[list[Copied]] = [
    (0, b"k", b"v", (("h", b"1"), ("h", b"2"), ("h", b"1"), ("H", b"1")), 1),
    (0, None, None, (), 2),
    (0, b"", b"", (("empty", b""), ("null", None), ("", b"no name")), 3),
    (1, b"\xff\xfe", b"\x00\n\r\n\x80", (("bytes", b"\xff\x00"),), 1356998400000),
    (
        1,
        "ключ".encode(),
        "\u2028 line, \x00 nul, \x85, \U0001f600".encode(),
        (("имя", "значение".encode()),),
        4_000_000_000_000,
    ),
    (1, b'{"base64": "AA=="}', b'{"a": [1, null]}\n{"b": 2}\n', (), 5),
    (2, b"large", random.Random(1).randbytes(700_000), (), 6),
    (2, b"same", b"same", (), 7),
    (2, b"same", b"same", (), 7),
]


def send(servers: str, topic: str, records: list[Copied]) -> None:
    problems: list[object] = []
    producer = confluent_kafka.Producer({"bootstrap.servers": servers, "acks": "all"})
    for partition, key, value, headers, timestamp in records:
        producer.produce(
            topic,
            value,
            key,
            partition,
            on_delivery=lambda problem, _: problems.append(problem),
            timestamp=timestamp,
            headers=list(headers),
        )
    assert producer.flush(TIMEOUT_S) == 0 and problems == [None] * len(records)


def read(servers: str, topic: str, count: int) -> list[Copied]:
    """The records of each partition in order, partition after partition."""
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": servers, "group.id": "unused", "enable.auto.commit": False}
    )
    consumer.assign([confluent_kafka.TopicPartition(topic, number, 0) for number in range(PARTITIONS)])
    found = []
    try:
        for message in consumer.consume(count, TIMEOUT_S):
            assert message.error() is None
            place, timestamp = (message.partition(), message.offset()), message.timestamp()[1]
            headers = tuple(message.headers() or ())
            found.append((place, (place[0], message.key(), message.value(), headers, timestamp)))
    finally:
        consumer.close()
    return [record for _, record in sorted(found, key=lambda each: each[0])]


def copy(servers: str, source: str, target: str, *options: str) -> None:
    kafkalite = f"{sys.executable} -m kafkalite"
    line = f"{kafkalite} consume {source} -e -o jsonl | {kafkalite} produce {target} --input jsonl {' '.join(options)}"
    # An encoding that cannot say most of what is copied: the lines are UTF-8 nevertheless.
    environment = {**os.environ, "KAFKALITE_BOOTSTRAP_SERVERS": servers, "PYTHONIOENCODING": "ascii"}
    done = subprocess.run(["bash", "-c", f"set -o pipefail; {line}"], capture_output=True, env=environment, timeout=120)
    assert done.returncode == 0, done.stderr


def test_every_record_is_the_same_in_the_same_place(servers: str, make_topic: TopicMaker) -> None:
    source, target = make_topic(PARTITIONS), make_topic(PARTITIONS)
    many = [(number % PARTITIONS, b"%d" % number, b"x" * (number % 300), (), number + 1) for number in range(3000)]
    send(servers, source, ODD + many)
    copy(servers, source, target, "--keep-partition")
    sent = sorted(ODD + many, key=lambda record: record[0])
    assert read(servers, source, len(sent)) == sent, "the test's own reader"
    assert read(servers, target, len(sent)) == sent


def test_partitions_may_be_chosen_again(servers: str, make_topic: TopicMaker) -> None:
    source, target = make_topic(PARTITIONS), make_topic(1)
    send(servers, source, ODD)
    copy(servers, source, target, "--partition", "0")
    assert [record[1:] for record in read_one(servers, target, len(ODD))] == [record[1:] for record in in_order(ODD)]


def read_one(servers: str, topic: str, count: int) -> list[Copied]:
    """Like `read`, of a topic with one partition, whose records may come in any order of their partitions of before."""
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": servers, "group.id": "unused", "enable.auto.commit": False}
    )
    consumer.assign([confluent_kafka.TopicPartition(topic, 0, 0)])
    try:
        messages = consumer.consume(count, TIMEOUT_S)
    finally:
        consumer.close()
    return in_order(
        [(0, each.key(), each.value(), tuple(each.headers() or ()), each.timestamp()[1]) for each in messages]
    )


def in_order(records: list[Copied]) -> list[Copied]:
    return sorted(records, key=lambda record: (record[4], record[1] or b""))
