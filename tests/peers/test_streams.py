"""Kafka Streams with exactly_once_v2 on our brokers: a count behind a repartition, with a changelog, by two instances; one is killed.

Every count of every word must be committed once: a transaction that the killed instance left open is aborted by its timeout, and those
that take its tasks over, the other instance and its successor, go on from offsets and a store that agree, which they learn by waiting
for stable ones (KIP-447).
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from kafkalite.local.cluster import LocalCluster
from tests.peers import apache_kafka

pytestmark = [pytest.mark.peer, pytest.mark.timeout(300)]

SETTINGS: Final = {
    "auto.create.topics.enable": "false",
    "offsets.topic.num.partitions": "3",
    "transaction.state.log.num.partitions": "3",
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "1000",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
}
SOURCE: Final = Path(__file__).with_name("CountWords.java")
WORDS: Final = [f"word-{number % 7}" for number in range(1400)]


@pytest.fixture
def cluster() -> Iterator[LocalCluster]:
    apache_kafka.fetch_streams()
    with LocalCluster(brokers=3, properties=SETTINGS) as running:
        admin = AdminClient({"bootstrap.servers": running.bootstrap_servers})
        for created in admin.create_topics([NewTopic("words", 2, 3), NewTopic("counts", 2, 3)]).values():
            created.result(60)
        yield running


def instance(cluster: LocalCluster, folder: Path) -> subprocess.Popen[bytes]:
    folder.mkdir()
    with (folder / "log").open("wb") as log:
        command = apache_kafka.streams_command(SOURCE, cluster.bootstrap_servers, str(folder))
        return subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)


class Counts:
    """What a reader of committed records sees of topic "counts"."""

    def __init__(self, servers: str) -> None:
        self._consumer = Consumer(
            {
                "bootstrap.servers": servers,
                "group.id": "counts",
                "auto.offset.reset": "earliest",
                "isolation.level": "read_committed",
            }
        )
        self._consumer.assign([TopicPartition("counts", partition, 0) for partition in range(2)])
        self.by_word: dict[str, list[int]] = {}
        self.count = 0

    def read(self, wanted: int, timeout_s: float) -> None:
        """Until there are so many, or the time is over."""
        deadline_s = time.monotonic() + timeout_s
        while self.count < wanted and time.monotonic() < deadline_s:
            message = self._consumer.poll(0.2)
            if message is not None and message.error() is None:
                key, value = message.key(), message.value()
                assert key is not None and value is not None
                self.by_word.setdefault(key.decode(), []).append(int(value))
                self.count += 1

    def close(self) -> None:
        self._consumer.close()


def test_a_count_is_exact_though_one_of_its_instances_is_killed(cluster: LocalCluster, tmp_path: Path) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers})

    def say(words: list[str]) -> None:
        for word in words:
            producer.produce("words", word)
        producer.flush(60)

    half = len(WORDS) // 2
    say(WORDS[:half])
    counts = Counts(cluster.bootstrap_servers)
    instances = [instance(cluster, tmp_path / name) for name in ("killed", "other")]
    try:
        counts.read(half // 3, 90)
        assert counts.count >= half // 3, (tmp_path / "killed/log").read_text()[-3000:]
        instances[0].kill()
        instances[0].wait()
        instances.append(instance(cluster, tmp_path / "successor"))
        say(WORDS[half:])
        counts.read(len(WORDS), 120)
        for each in instances[1:]:
            each.terminate()
            each.wait(60)
        counts.read(len(WORDS) + 1, 1)  # nothing may come behind the last one
    finally:
        for each in instances:
            each.kill()
            each.wait()
        counts.close()
    expected = {word: list(range(1, WORDS.count(word) + 1)) for word in set(WORDS)}
    assert counts.by_word == expected, (tmp_path / "other/log").read_text()[-3000:]
