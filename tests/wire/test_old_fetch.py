"""A client that is told to speak as for brokers of 0.9 and 0.10 reads what new ones wrote, and new ones what it wrote."""

from __future__ import annotations

import pytest
from kafka import KafkaConsumer, KafkaProducer
from kafka import TopicPartition as Place

from kafkalite.protocol.record_batches.records import NO_TIMESTAMP
from tests.wire.clients import CLIENTS, Record
from tests.wire.conftest import TopicMaker

pytestmark = pytest.mark.wire

VERSIONS = [(0, 9), (0, 10)]
CODECS = {(0, 9): ["none", "gzip", "snappy"], (0, 10): ["none", "gzip", "snappy", "lz4"]}
"""Without xxhash kafka-python has no lz4 for 0.9."""


def consume(servers: str, topic: str, version: tuple[int, int], offset: int, count: int) -> list[tuple[object, ...]]:
    """(offset, timestamp, key, value) of the records from an offset on; it takes them in small portions."""
    consumer = KafkaConsumer(
        bootstrap_servers=servers, api_version=version, group_id=None, enable_auto_commit=False,
        max_partition_fetch_bytes=4096, consumer_timeout_ms=30_000,
    )  # fmt: skip
    place = Place(topic, 0)
    consumer.assign([place])
    consumer.seek(place, offset)
    found: list[tuple[object, ...]] = []
    try:
        for message in consumer:
            found.append((message.offset, message.timestamp, message.key, message.value))
            if len(found) == count:
                break
    finally:
        consumer.close()
    return found


@pytest.mark.parametrize("version", VERSIONS, ids=str)
def test_an_old_consumer_reads_every_codec(servers: str, make_topic: TopicMaker, version: tuple[int, int]) -> None:
    topic, written, now = make_topic(), [], 1_700_000_000_000
    for codec in CODECS[version]:
        records = [Record(b"%d" % n if n % 3 else None, b"%d" % n * 40, (("h", b"x"),), now + n) for n in range(70)]
        CLIENTS[0].produce(servers, topic, records, codec=codec)
        written += records
    expected = [
        (number, NO_TIMESTAMP if version < (0, 10) else each.timestamp_ms, each.key, each.value)
        for number, each in enumerate(written)
    ]
    found = consume(servers, topic, version, 0, len(written))
    assert [each[2:] for each in found] == [each[2:] for each in expected]
    assert [each[0] for each in found] == [each[0] for each in expected]
    if version >= (0, 10):
        assert found == expected
    assert [each[0] for each in consume(servers, topic, version, 100, 5)] == [100, 101, 102, 103, 104]


@pytest.mark.parametrize("version", VERSIONS, ids=str)
def test_what_an_old_producer_wrote_is_read_by_new_and_old(
    servers: str, make_topic: TopicMaker, version: tuple[int, int]
) -> None:
    topic = make_topic()
    for codec in CODECS[version]:
        producer = KafkaProducer(
            bootstrap_servers=servers, api_version=version, compression_type=None if codec == "none" else codec,
            linger_ms=50, enable_idempotence=False, acks=1,
        )  # fmt: skip
        for number in range(20):
            producer.send(topic, b"%d" % number * 30, codec.encode())
        producer.flush(30)
        producer.close()
    keys = [codec.encode() for codec in CODECS[version] for _ in range(20)]
    read = CLIENTS[0].consume(servers, topic, len(keys))
    assert [each.key for each in read] == keys
    assert [each.offset for each in read] == list(range(len(keys)))
    assert [each[2] for each in consume(servers, topic, version, 0, len(keys))] == keys
