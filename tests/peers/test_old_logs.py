"""Logs with messages of formats 0 and 1, written by Apache Kafka 0.9 and 0.10.2: read, compacted and given back."""

from __future__ import annotations

import subprocess
from collections import Counter
from pathlib import Path
from typing import Final

import confluent_kafka
import pytest

from kafkalite.client import SyncConsumer
from kafkalite.local.broker_process import BROKER_COMMAND, BrokerProcess, wait_until
from kafkalite.local.cluster import LocalCluster
from kafkalite.local.cluster_facts import ClusterFacts
from kafkalite.local.ports import ReservedPort
from kafkalite.storage.checkpoints import CLEANER as CLEANER_CHECKPOINT
from kafkalite.types import TopicPartition
from tests.case import case
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


COMPACTED: Final = {"log.cleanup.policy": "compact", "log.segment.bytes": "500"}
CLEANER: Final = {
    "log.cleaner.enable": "true",
    "log.cleaner.backoff.ms": "200",
    "log.cleaner.min.cleanable.ratio": "0.01",
    "offsets.topic.segment.bytes": "1000000",
}
Kept = dict[str, list[tuple[bytes, bytes | None]]]
"""By topic: keys and values in the order of the log."""


def read_by_an_old_consumer(release: str, zookeeper_connect: str, expected: Kept) -> None:
    """By the console consumer of that release, which keeps its owners and offsets in ZooKeeper."""
    arguments = ["--whitelist", "|".join(CODECS), "--from-beginning", "--property", "print.key=true"]
    count = sum(map(len, expected.values()))
    command = old_brokers.java(
        release,
        "kafka.tools.ConsoleConsumer",
        "--zookeeper",
        zookeeper_connect,
        "--max-messages",
        str(count),
        *arguments,
    )
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    lines = Counter(line for line in done.stdout.splitlines() if "\t" in line)
    assert lines == Counter(
        f"{key.decode()}\t{'null' if value is None else value.decode()}"
        for records in expected.values()
        for key, value in records
    ), done.stderr[-3000:]


def kept(release: str, log_dir: Path) -> dict[str, list[tuple[int, bytes, bytes | None]]]:
    """What compaction up to where the cleaner has come leaves of each topic; empty before it has been at all of them."""
    checkpoint = log_dir / CLEANER_CHECKPOINT
    if not checkpoint.exists():
        return {}
    cleaned = {topic: int(offset) for topic, _, offset in map(str.split, checkpoint.read_text().splitlines()[2:])}
    if not cleaned.keys() >= set(CODECS):
        return {}
    found = {}
    for topic in CODECS:
        records = [(offset, key, value) for offset, _, key, value in contents(release, topic)]
        last = {key: offset for offset, key, _ in records if offset < cleaned[topic]}
        found[topic] = [each for each in records if each[0] >= cleaned[topic] or last[each[1]] == each[0]]
    return found


def test_compacted_topics_of_an_old_broker_are_compacted_further_and_given_back(
    tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """Their segments stay in their format: new and old consumers read what is left of them, here and on the old broker."""
    for release in FORMATS if request.config.getoption("--long") else ["0.9"]:
        with case(release):
            _compacted_and_given_back(release, tmp_path / release)


def _compacted_and_given_back(release: str, directory: Path) -> None:
    version = {"0.9": old_brokers.OLDEST, "0.10.2": old_brokers.WITH_TIMESTAMPS}[release]
    own = OLD_FORMAT | {"log.message.format.version": release}
    port = ReservedPort()
    servers = f"127.0.0.1:{port.number}"
    with LocalCluster(brokers=0, directory=directory) as cluster, ClusterFacts(cluster.zookeeper_connect) as facts:
        fill(version, directory, cluster.zookeeper_connect, port.number, more=COMPACTED)
        wait_until(lambda: not facts.brokers(), "the end of the old broker's session", 30)
        settings = settings_for(directory, cluster.zookeeper_connect, port.number) | COMPACTED
        broker = BrokerProcess(1, directory, settings | CLEANER | own, BROKER_COMMAND, port.number)
        try:
            broker.start()
            broker.wait_started(90)
            for topic in CODECS:
                wait_until_led(servers, topic, 1)
            wait_until(lambda: bool(kept(release, broker.log_dir)), "a pass over each topic", 60)
            expected = kept(release, broker.log_dir)
            assert all(len(expected[topic]) < RECORDS for topic in CODECS)
            for topic in CODECS:
                assert read(servers, topic) == expected[topic]
            texts = {topic: [(key, value) for _, key, value in records] for topic, records in expected.items()}
            read_by_an_old_consumer(version, cluster.zookeeper_connect, texts)
            assert broker.stop() in (0, 143)
        finally:
            broker.close()
        wait_until(lambda: not facts.brokers(), "the end of the broker's session", 30)
        with old_brokers.running(version, directory, settings):
            read_by_an_old_consumer(version, cluster.zookeeper_connect, texts)
    port.release()
