"""Topics with message.format.version 0.9 and 0.10 on a broker of ours and one of Apache Kafka, which follow each other byte for byte."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic  # type: ignore[attr-defined]

from kafkalite.client import SyncAdmin
from kafkalite.local.broker_process import wait_until
from kafkalite.local.cluster import LocalCluster
from kafkalite.protocol.record_batches.records import iter_batches
from kafkalite.types import TopicPartition
from tests.peers import apache_kafka
from tests.peers.pair import APACHE, OURS, Pair
from tests.wire.conftest import wait_until_led

pytestmark = [pytest.mark.peer, pytest.mark.timeout(400)]

SETTINGS = {
    "inter.broker.protocol.version": "2.8",
    "log.message.format.version": "0.10.2",
    "zookeeper.session.timeout.ms": "3000",
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "1",
}
TOPICS = {
    f"{name}-{version}": (broker, version, magic)
    for name, broker in (("ours", OURS), ("apache", APACHE))
    for version, magic in (("0.9.0", 0), ("0.10.2", 1))
}
COUNT = 30


class OldFormats(Pair):
    """The topics of both in old formats."""

    def set_format(self, topic: str, version: str) -> None:
        """Returns when both brokers say so; only the one that was asked obeys by then, the other by its notification."""
        admin = AdminClient({"bootstrap.servers": self.servers})
        entry = ConfigEntry("message.format.version", version, incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=[entry])
        for future in admin.incremental_alter_configs([resource]).values():
            future.result(30)

        def is_said() -> bool:
            found = admin.describe_configs([ConfigResource(ConfigResource.Type.TOPIC, topic)])
            return all(each.result(30)["message.format.version"].value == version for each in found.values())

        wait_until(is_said, f"{topic} in format {version}", 30)

    def write_records(self, topic: str, codec: str) -> None:
        self.write(topic, [b"value-%d" % number for number in range(COUNT)], **{"compression.type": codec})

    def write_until_stored_as(self, magic: int, topic: str) -> int:
        """How often it wrote until the leader stored it so."""
        leader = TOPICS[topic][0]
        written = 0

        def is_stored_so() -> bool:
            nonlocal written
            self.write_records(topic, "gzip")
            written += 1
            return list(iter_batches(self.content(leader, topic)))[-1].magic == magic

        wait_until(is_stored_so, f"{topic} stores magic {magic}", 30)
        return written


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[OldFormats]:
    apache_kafka.fetch()
    with LocalCluster(brokers=0, directory=tmp_path) as cluster:
        pair = OldFormats(tmp_path, cluster, apache_kafka.broker_command(), SETTINGS)
        try:
            for number in pair.brokers:  # ours first: it makes the znodes that Apache Kafka's reads when it starts
                pair.start(number)
            apache_kafka.wait_for_controller(pair.servers)
            yield pair
        finally:
            pair.close()


def test_they_follow_each_other_in_the_old_formats(pair: OldFormats) -> None:
    admin = AdminClient({"bootstrap.servers": pair.servers})
    topics = [
        NewTopic(name, 1, config={"message.format.version": version}, replica_assignment=[[broker]])
        for name, (broker, version, _) in TOPICS.items()
    ]
    for future in admin.create_topics(topics, request_timeout=30).values():
        future.result(30)
    for topic in TOPICS:
        wait_until_led(pair.servers, topic, 1)
        for codec in ("none", "gzip"):
            pair.write_records(topic, codec)
    with SyncAdmin(bootstrap_servers=pair.servers) as ours:
        wanted = {TopicPartition(topic, 0): [broker, OURS + APACHE - broker] for topic, (broker, *_) in TOPICS.items()}
        ours.alter_partition_reassignments(wanted)
    for topic, (_, _, magic) in TOPICS.items():
        pair.await_isr(topic, {OURS, APACHE})
        assert {header.magic for header in iter_batches(pair.await_same(topic))} == {magic}
        pair.write_records(topic, "snappy")
        pair.await_same(topic)
    for stopped, other in ((APACHE, OURS), (OURS, APACHE)):
        assert pair.brokers[stopped].stop() in (0, 143)
        for topic in TOPICS:
            pair.await_isr(topic, {other})
            pair.write_records(topic, "none")
        pair.start(stopped)
        for topic, (_, _, magic) in TOPICS.items():
            pair.await_isr(topic, {OURS, APACHE})
            assert {header.magic for header in iter_batches(pair.await_same(topic))} == {magic}
    written = dict.fromkeys(TOPICS, 5)
    for version, magic in (("2.8", 2), ("0.10.2", 1)):
        for topic in TOPICS:
            pair.set_format(topic, version)
        for topic in TOPICS:
            written[topic] += pair.write_until_stored_as(magic, topic)
        for topic in TOPICS:
            pair.await_same(topic)
            pair.await_isr(topic, {OURS, APACHE})
    for topic in TOPICS:
        assert len(pair.read(topic)) == written[topic] * COUNT
