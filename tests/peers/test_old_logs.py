"""Logs with messages of formats 0 and 1, written by Apache Kafka 0.9 and 0.10.2: read, compacted and given back."""

from __future__ import annotations

from pathlib import Path

import confluent_kafka
import pytest

from kafkalite.client import SyncConsumer
from kafkalite.local.broker_process import BROKER_COMMAND, BrokerProcess, wait_until
from kafkalite.local.cluster import LocalCluster
from kafkalite.local.cluster_facts import ClusterFacts
from kafkalite.local.ports import ReservedPort
from kafkalite.types import TopicPartition
from tests.peers import apache_kafka, old_brokers
from tests.peers.face_server import run_ours
from tests.peers.tool_server import shared_tools
from tests.peers.vectors.record_old_logs import RECORDS, fill, settings_for
from tests.unit.storage.old_logs import CODECS, FORMATS, contents, unpack
from tests.wire.conftest import wait_until_led

pytestmark = [pytest.mark.peer, pytest.mark.timeout(400)]


def test_the_dump_tools_print_the_same(tmp_path: Path) -> None:
    logs = [unpack(release, tmp_path) / f"{topic}-0" for release in FORMATS for topic in CODECS]
    files = ",".join(str(each) for log in logs for each in sorted(log.glob("*[gx]")))
    for arguments in (
        ["--files", files, "--print-data-log"],
        ["--files", files],
        ["--files", files, "--deep-iteration"],
    ):
        expected = shared_tools().run("kafka-dump-log", *arguments)
        ours = run_ours("kafka-dump-log", *arguments)
        assert ours.stdout == expected.stdout and ours.status == expected.status
        assert sorted(ours.stderr.splitlines()) == sorted(expected.stderr.splitlines())


def read(servers: str, topic: str, end: int = RECORDS, **settings: str | bool) -> list[tuple[int, bytes, bytes | None]]:
    """As librdkafka reads it: offset, key, value."""
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": servers, "group.id": "reader", "enable.auto.commit": False} | settings
    )
    consumer.assign([confluent_kafka.TopicPartition(topic, 0, 0)])
    found: list[tuple[int, bytes, bytes | None]] = []

    def all_read() -> bool:
        for message in consumer.consume(1000, 0.2):
            assert message.error() is None, message.error()
            found.append((message.offset(), message.key(), message.value()))
        return bool(found) and found[-1][0] >= end - 1

    wait_until(all_read, f"{topic} up to {end}", 60)
    consumer.close()
    return found


def read_by_us(servers: str, topic: str) -> None:
    """Record by record, and as the Spark source reads."""
    expected = contents("0.10.2", topic)
    place = TopicPartition(topic, 0)
    with SyncConsumer(bootstrap_servers=servers) as consumer:
        consumer.assign([place])
        consumer.seek_to_beginning()
        found: list[tuple[int, int, bytes | None, bytes | None]] = []
        while len(found) < RECORDS:
            for each in consumer.getmany(timeout_ms=30_000).get(place, ()):
                found.append((each.offset, each.timestamp, each.key, each.value))
        assert found == expected
        columns = [batch.to_pydict() for batch in consumer.read_range(place, 3, RECORDS)]
        assert [each for batch in columns for each in batch["offset"]] == list(range(3, RECORDS))
        assert [each for batch in columns for each in batch["value"]] == [value for *_, value in expected[3:]]


OLD_FORMAT = {"inter.broker.protocol.version": "2.8", "log.message.format.version": "0.10.2"}
MORE = [b"more-%d" % number for number in range(25)]


def write_more(servers: str, topic: str) -> None:
    producer = confluent_kafka.Producer({"bootstrap.servers": servers, "compression.type": topic, "linger.ms": 5})
    for value in MORE:
        producer.produce(topic, value, b"key", partition=0)
    assert producer.flush(30) == 0


def commit(servers: str, offset: int) -> None:
    consumer = confluent_kafka.Consumer({"bootstrap.servers": servers, "group.id": "group"})
    consumer.commit(offsets=[confluent_kafka.TopicPartition("gzip", 0, offset)], asynchronous=False)
    consumer.close()


def committed(servers: str) -> int:
    consumer = confluent_kafka.Consumer({"bootstrap.servers": servers, "group.id": "group"})
    found = consumer.committed([confluent_kafka.TopicPartition("gzip", 0)], timeout=60)[0].offset
    consumer.close()
    return int(found)


def test_a_directory_of_0_10_goes_on_as_ours_as_3_9_and_back(tmp_path: Path) -> None:
    """Ours is told to write the old format, so 0.10.2 reads all of it at the end."""
    apache_kafka.fetch()
    port = ReservedPort()
    servers = f"127.0.0.1:{port.number}"
    with LocalCluster(brokers=0, directory=tmp_path) as cluster:
        facts = ClusterFacts(cluster.zookeeper_connect)
        old = old_brokers.WITH_TIMESTAMPS
        fill(old, tmp_path, cluster.zookeeper_connect, port.number, lambda: commit(servers, 17))
        settings = settings_for(tmp_path, cluster.zookeeper_connect, port.number)
        for command, own in ((BROKER_COMMAND, OLD_FORMAT), (apache_kafka.broker_command(), {})):
            broker = BrokerProcess(1, tmp_path, settings | own, command, port.number)
            try:
                broker.start()
                broker.wait_started(90)
                apache_kafka.wait_for_controller(servers)
                assert committed(servers) == 17
                for topic in CODECS:
                    wait_until_led(servers, topic, 1)
                    expected = [(offset, key, value) for offset, _, key, value in contents("0.10.2", topic)]
                    if command is BROKER_COMMAND:
                        assert read(servers, topic) == expected
                        read_by_us(servers, topic)
                        write_more(servers, topic)
                    expected += [(RECORDS + number, b"key", value) for number, value in enumerate(MORE)]
                    assert read(servers, topic, RECORDS + len(MORE)) == expected
                assert broker.stop() in (0, 143)
            finally:
                broker.close()
            wait_until(lambda: not facts.brokers(), "the end of the broker's session", 30)
        with old_brokers.running(old, tmp_path, settings):
            for topic in CODECS:
                wait_until_led(servers, topic, 1)
                found = read(servers, topic, RECORDS + len(MORE))
                assert [value for *_, value in found[RECORDS:]] == MORE and len(found) == RECORDS + len(MORE)
        facts.close()
    port.release()
