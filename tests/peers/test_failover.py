"""Apache Kafka's own producers and consumers while one of three kafkalite brokers is killed: nothing is lost, nothing twice.

`pytest tests/peers/test_failover.py --apache` runs the same against Apache Kafka's brokers.
"""

from __future__ import annotations

import json
import subprocess
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from kafkalite.local.broker_process import wait_until
from kafkalite.local.cluster import LocalCluster
from kafkalite.local.cluster_facts import ClusterFacts
from tests.peers import apache_kafka
from tests.peers.apache_kafka import tool_command
from tests.peers.tool_server import run_tool
from tests.wire.conftest import wait_until_known

pytestmark = [pytest.mark.peer, pytest.mark.timeout(300)]

PARTITIONS = 3
RECORDS, PER_SECOND, KILL_AFTER = 1500, 200, 300
PROPERTIES = {
    "zookeeper.session.timeout.ms": "2000",
    "replica.lag.time.max.ms": "4000",
    "auto.create.topics.enable": "false",
    "offsets.topic.num.partitions": "1",
}
IDEMPOTENT = "enable.idempotence=true\nretries=2147483647\nmax.in.flight.requests.per.connection=5\n"
NOT_IDEMPOTENT = "enable.idempotence=false\nretries=2147483647\nmax.in.flight.requests.per.connection=1\n"


@pytest.fixture(scope="module")
def cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    apache_kafka.fetch()
    more: dict[str, Any] = {}
    if request.config.getoption("--apache"):
        more["command"] = apache_kafka.broker_command()
    directory = tmp_path_factory.mktemp("cluster")
    with LocalCluster(brokers=3, properties=PROPERTIES, directory=directory, **more) as running:
        yield running


@pytest.fixture
def facts(cluster: LocalCluster) -> Iterator[ClusterFacts]:
    with ClusterFacts(cluster.zookeeper_connect) as facts:
        yield facts
    for broker in cluster.brokers.values():
        if not broker.running:
            cluster.start_broker(broker.id)


class Tool:
    """A tool of Apache Kafka that runs while the test goes on; `events` are the JSON lines that it printed so far."""

    def __init__(self, name: str, *arguments: str) -> None:
        self.events: list[dict[str, Any]] = []
        self.lines: list[str] = []
        self._process = subprocess.Popen(
            tool_command(name, *arguments),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        assert self._process.stdin is not None
        self.stdin = self._process.stdin
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.lines.append(line.rstrip("\n"))
            if line.startswith("{"):
                self.events.append(json.loads(line))

    def named(self, name: str) -> list[dict[str, Any]]:
        return [event for event in list(self.events) if event.get("name") == name]

    def wait(self, timeout_s: float) -> int:
        status = self._process.wait(timeout_s)
        self._reader.join(10)
        return status

    def close(self) -> None:
        """Ask it to end, then make it."""
        self._process.terminate()
        try:
            self._process.wait(15)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def make_topic(cluster: LocalCluster, facts: ClusterFacts, topic: str) -> str:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    wanted = NewTopic(topic, PARTITIONS, 3, config={"min.insync.replicas": "2"})
    admin.create_topics([wanted], request_timeout=30)[topic].result(30)
    wait_until(lambda: facts.fully_replicated(topic), f"replicas of {topic}", 30)
    wait_until_known(cluster.bootstrap_servers, topic, PARTITIONS)
    return topic


def read_all(cluster: LocalCluster, topic: str) -> list[str]:
    """Every value of the topic, by Apache Kafka's console consumer."""
    values: list[str] = []
    for partition, end in enumerate(end_offsets(cluster, topic)):
        if end:
            values += run_tool(
                "kafka-console-consumer",
                *("--bootstrap-server", cluster.bootstrap_servers, "--topic", topic, "--partition", str(partition)),
                *("--offset", "earliest", "--max-messages", str(end), "--timeout-ms", "30000"),
            ).splitlines()
    return values


def kill_leader(cluster: LocalCluster, facts: ClusterFacts, topic: str) -> int:
    victim = facts.leaders(topic)[0]
    cluster.kill(victim)
    return victim


def has_records(cluster: LocalCluster, topic: str) -> bool:
    try:
        return ends(cluster, topic) > 0
    except confluent_kafka.KafkaException:
        return False  # a broker that has just been told of the topic, or has not yet


def ends(cluster: LocalCluster, topic: str) -> int:
    """The sum of the partitions' end offsets."""
    return sum(end_offsets(cluster, topic))


def end_offsets(cluster: LocalCluster, topic: str) -> list[int]:
    """Of each partition."""
    consumer = confluent_kafka.Consumer({"bootstrap.servers": cluster.bootstrap_servers, "group.id": "unused"})
    try:
        places = [confluent_kafka.TopicPartition(topic, partition) for partition in range(PARTITIONS)]
        return [consumer.get_watermark_offsets(place, timeout=10, cached=False)[1] for place in places]
    finally:
        consumer.close()


@pytest.mark.parametrize("settings", [IDEMPOTENT, NOT_IDEMPOTENT], ids=["idempotent", "retries only"])
def test_verifiable_producer_while_a_leader_is_killed(
    cluster: LocalCluster, facts: ClusterFacts, tmp_path: Path, settings: str
) -> None:
    topic = make_topic(cluster, facts, "failover-" + ("idempotent" if settings == IDEMPOTENT else "plain"))
    config = tmp_path / "producer.properties"
    config.write_text(settings)
    producer = Tool(
        "kafka-verifiable-producer",
        *("--bootstrap-server", cluster.bootstrap_servers, "--topic", topic, "--acks", "-1"),
        *("--max-messages", str(RECORDS), "--throughput", str(PER_SECOND), "--producer.config", str(config)),
    )
    try:
        wait_until(lambda: len(producer.named("producer_send_success")) > KILL_AFTER, "the first records", 60)
        kill_leader(cluster, facts, topic)
        status = producer.wait(120)
    finally:
        producer.close()
    assert status == 0, producer.lines[-20:]
    assert not producer.named("producer_send_error")
    acknowledged = [event["value"] for event in producer.named("producer_send_success")]
    assert len(acknowledged) == RECORDS
    read = Counter(read_all(cluster, topic))
    lost = [value for value in acknowledged if value not in read]
    assert not lost, f"{len(lost)} acknowledged values are lost, first {lost[:5]}"
    assert not [value for value in read if not 0 <= int(value) < RECORDS]
    if settings == IDEMPOTENT:
        twice = [value for value, times in read.items() if times > 1]
        assert not twice, f"{len(twice)} values are there twice, first {twice[:5]}"


def test_performance_tool_while_a_leader_is_killed(cluster: LocalCluster, facts: ClusterFacts) -> None:
    """An idempotent producer: the end offsets are exactly the number of records."""
    topic, records = make_topic(cluster, facts, "failover-perf"), 10_000
    producer = Tool(
        "kafka-producer-perf-test",
        *("--topic", topic, "--num-records", str(records), "--record-size", "200", "--throughput", "1250"),
        *("--producer-props", f"bootstrap.servers={cluster.bootstrap_servers}", "acks=all", "enable.idempotence=true"),
    )
    try:
        wait_until(lambda: any("records sent" in line for line in producer.lines), "the first report", 60)
        kill_leader(cluster, facts, topic)
        status = producer.wait(120)
    finally:
        producer.close()
    assert status == 0, producer.lines[-20:]
    assert f"{records} records sent" in producer.lines[-1]
    failed = [line for line in producer.lines if line.startswith("org.apache.kafka.common.errors.")]
    assert not failed, f"{len(failed)} sends failed, first {failed[0]}"
    assert ends(cluster, topic) == records


def test_verifiable_consumer_reads_on_while_a_leader_is_killed(
    cluster: LocalCluster, facts: ClusterFacts, tmp_path: Path
) -> None:
    """Producer and consumer at once; the group's coordinator may be the one that dies."""
    topic = make_topic(cluster, facts, "failover-consumer")
    config = tmp_path / "producer.properties"
    config.write_text(IDEMPOTENT)
    base = ("--bootstrap-server", cluster.bootstrap_servers, "--topic", topic)
    consumer = Tool("kafka-verifiable-consumer", *base, "--group-id", "failover", "--verbose")
    try:
        wait_until(lambda: bool(consumer.named("partitions_assigned")), "an assignment", 60)
        producer = Tool(
            "kafka-verifiable-producer",
            *(*base, "--acks", "-1", "--max-messages", str(RECORDS), "--throughput", str(PER_SECOND)),
            *("--producer.config", str(config)),
        )
        try:
            wait_until(lambda: len(consumer.named("record_data")) > KILL_AFTER, "the first records", 60)
            kill_leader(cluster, facts, topic)
            assert producer.wait(120) == 0, producer.lines[-20:]
        finally:
            producer.close()
        acknowledged = {event["value"] for event in producer.named("producer_send_success")}
        assert len(acknowledged) == RECORDS

        def read() -> set[str]:
            return {event["value"] for event in consumer.named("record_data")}

        try:
            wait_until(lambda: acknowledged <= read(), "all acknowledged values at the consumer", 60)
        except TimeoutError as problem:
            missing = sorted(acknowledged - read(), key=int)
            raise AssertionError(f"{problem}: {len(missing)} missing, first {missing[:5]}") from None
    finally:
        consumer.close()
    places: dict[str, set[tuple[int, int]]] = {}
    for event in consumer.named("record_data"):
        places.setdefault(event["value"], set()).add((event["partition"], event["offset"]))
    twice = {value: found for value, found in places.items() if len(found) > 1}
    assert not twice, f"{len(twice)} values lie at two offsets, such as {next(iter(twice.items()))}"


def test_console_producer_and_consumer_performance_tool_while_a_leader_is_killed(
    cluster: LocalCluster, facts: ClusterFacts
) -> None:
    """Lines typed in while a leader dies, and a consumer that reads on: every line is there once, and the consumer gets all."""
    topic = make_topic(cluster, facts, "failover-console")
    base = ("--bootstrap-server", cluster.bootstrap_servers, "--topic", topic)
    consumer = Tool("kafka-consumer-perf-test", *base, "--messages", str(RECORDS), "--timeout", "60000")
    producer = Tool(
        "kafka-console-producer",
        *(*base, "--producer-property", "acks=all", "--producer-property", "enable.idempotence=true"),
        *("--producer-property", "retries=2147483647"),
    )
    try:
        for number in range(RECORDS):
            producer.stdin.write(f"{number}\n")
            if number % PER_SECOND == 0:
                producer.stdin.flush()
            if number == KILL_AFTER:
                wait_until(lambda: has_records(cluster, topic), "the first lines in the topic", 60)
                kill_leader(cluster, facts, topic)
        producer.stdin.close()
        assert producer.wait(120) == 0, producer.lines[-20:]
        assert consumer.wait(120) == 0, consumer.lines[-20:]
    finally:
        producer.close()
        consumer.close()
    assert Counter(read_all(cluster, topic)) == Counter(map(str, range(RECORDS)))
    # Between them may be warnings about the dead broker.
    names, figures = (line.split(", ") for line in consumer.lines if line.count(", ") == 9)
    assert int(figures[names.index("data.consumed.in.nMsg")]) >= RECORDS
