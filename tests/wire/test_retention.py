"""Retention as clients and the file system see it: settings of a topic that change while the broker runs, in every log directory."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import confluent_kafka
import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)

from kafkalite.local.broker_process import wait_until
from kafkalite.local.cluster import LocalCluster
from tests.wire.conftest import wait_until_led

pytestmark = [pytest.mark.system, pytest.mark.timeout(180)]

PARTITIONS = 4
SEGMENT_BYTES = 20_000
VALUE = bytes(1000)
HOUR_MS = 3_600_000
PROPERTIES = {
    "log.retention.check.interval.ms": "200",
    "log.segment.delete.delay.ms": "200",
    "log.initial.task.delay.ms": "0",
    "log.retention.hours": "168",
    "auto.create.topics.enable": "false",
}


@pytest.fixture(scope="module")
def disks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that `disk-1` and `disk-2` are in."""
    return tmp_path_factory.mktemp("disks")


@pytest.fixture(scope="module")
def cluster(disks: Path) -> Iterator[LocalCluster]:
    """One broker with two log directories; each test has topics of its own."""
    directories = f"{disks}/disk-1,{disks}/disk-2"
    with LocalCluster(brokers=1, properties={**PROPERTIES, "log.dirs": directories}) as running:
        yield running


class Topic:
    """A topic on the cluster's only broker, with what the tests ask of it."""

    def __init__(self, cluster: LocalCluster, name: str, **config: str) -> None:
        self.servers, self.name = cluster.bootstrap_servers, name
        self.admin = AdminClient({"bootstrap.servers": self.servers})
        settings = {
            "segment.bytes": str(SEGMENT_BYTES),
            **{key.replace("_", "."): text for key, text in config.items()},
        }
        wanted = NewTopic(name, PARTITIONS, 1, config=settings)
        self.admin.create_topics([wanted], request_timeout=30)[name].result(30)
        wait_until_led(self.servers, name, PARTITIONS)

    def write(self, count: int, timestamp_ms: int) -> None:
        """`count` records of 1 kB to each partition, one batch each, so that segments fill up evenly."""
        producer = confluent_kafka.Producer({"bootstrap.servers": self.servers, "batch.num.messages": 1})
        for _ in range(count):
            for partition in range(PARTITIONS):
                producer.produce(self.name, VALUE, partition=partition, timestamp=timestamp_ms)
        assert producer.flush(60) == 0

    def set(self, name: str, value: str) -> None:
        entry = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ResourceType.TOPIC, self.name, incremental_configs=[entry])
        self.admin.incremental_alter_configs([resource])[resource].result(30)

    def spans(self) -> list[tuple[int, int]]:
        """(first offset, end offset) of each partition."""
        consumer = confluent_kafka.Consumer({"bootstrap.servers": self.servers, "group.id": "unused"})
        try:
            places = [TopicPartition(self.name, partition) for partition in range(PARTITIONS)]
            return [consumer.get_watermark_offsets(place, timeout=20, cached=False) for place in places]
        finally:
            consumer.close()

    def read_from_the_beginning(self, partition: int, count: int) -> list[int]:
        settings = {"bootstrap.servers": self.servers, "group.id": "unused", "auto.offset.reset": "earliest"}
        consumer = confluent_kafka.Consumer(settings)
        try:
            consumer.assign([TopicPartition(self.name, partition, 0)])
            found: list[int] = []
            deadline_s = time.monotonic() + 30
            while len(found) < count and time.monotonic() < deadline_s:
                found += [each.offset() for each in consumer.consume(count, 0.5) if each.error() is None]
            return found
        finally:
            consumer.close()


def segments(disks: Path, topic: str) -> dict[str, list[int]]:
    """Base offsets of the segments of each partition's folder, deleted ones that wait for their end included."""
    folders = disks.glob(f"disk-*/{topic}-*")
    return {
        f"{folder.parent.name}/{folder.name}": sorted(int(file.name[:20]) for file in folder.glob("*.log*"))
        for folder in folders
    }


def test_a_shorter_time_counts_at_once_and_in_every_directory(cluster: LocalCluster, disks: Path) -> None:
    topic = Topic(cluster, "by-time")
    now_ms = int(time.time() * 1000)
    topic.write(60, now_ms - 10 * HOUR_MS)
    topic.write(5, now_ms)
    assert topic.spans() == [(0, 65)] * PARTITIONS, "a week is the default"
    found = segments(disks, "by-time")
    assert {name.split("/")[0] for name in found} == {"disk-1", "disk-2"}
    assert all(len(bases) >= 3 for bases in found.values())

    topic.set("retention.ms", str(HOUR_MS))
    wait_until(lambda: all(first > 0 for first, _ in topic.spans()), "the old segments to go", 20)
    spans = topic.spans()
    # The segment that holds a young record stays, with the old ones in it.
    assert all(40 <= first <= 60 and end == 65 for first, end in spans), spans
    wait_until(
        lambda: sorted(min(bases) for bases in segments(disks, "by-time").values()) == sorted(f for f, _ in spans),
        "the files of the old segments to be removed",
        20,
    )
    for partition, (first, end) in enumerate(spans):
        assert topic.read_from_the_beginning(partition, end - first) == list(range(first, end))


def test_a_smaller_size_counts_at_once(cluster: LocalCluster) -> None:
    topic = Topic(cluster, "by-size")
    topic.write(100, int(time.time() * 1000))
    assert topic.spans() == [(0, 100)] * PARTITIONS
    topic.set("retention.bytes", str(3 * SEGMENT_BYTES))
    wait_until(lambda: all(first > 0 for first, _ in topic.spans()), "the first segments to go", 20)
    # Whole segments go, and only while as much as is to be kept is left.
    kept = {end - first for first, end in topic.spans()}
    assert all(3 * SEGMENT_BYTES <= count * 1100 <= 4 * SEGMENT_BYTES + 2200 for count in kept), kept


def test_one_topic_s_setting_is_not_another_s_and_the_start_survives_a_restart(cluster: LocalCluster) -> None:
    old_ms = int(time.time() * 1000) - 10 * HOUR_MS
    short, long = Topic(cluster, "short", retention_ms=str(HOUR_MS)), Topic(cluster, "long")
    for topic in (short, long):
        topic.write(30, old_ms)
    # All of it is too old: the active segment is rolled and goes too.
    wait_until(lambda: short.spans() == [(30, 30)] * PARTITIONS, "everything to go", 20)
    assert long.spans() == [(0, 30)] * PARTITIONS
    (broker,) = cluster.brokers
    cluster.stop(broker)
    cluster.start_broker(broker)
    for topic in (short, long):
        wait_until_led(cluster.bootstrap_servers, topic.name, PARTITIONS)
    assert short.spans() == [(30, 30)] * PARTITIONS
    short.write(1, int(time.time() * 1000))
    assert short.spans() == [(30, 31)] * PARTITIONS
    assert long.spans() == [(0, 30)] * PARTITIONS
