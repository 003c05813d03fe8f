"""Clients of the target who ask the mirror: Apache Kafka 4's own tool and librdkafka know its address only. With --long."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Iterator
from pathlib import Path

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from kafkalite.errors import ErrorCode
from kafkalite.local.broker_process import wait_until
from kafkalite.local.cluster import LocalCluster
from kafkalite.local.ports import ReservedPort
from kafkalite.net.connection import Connection
from kafkalite.protocol import messages
from kafkalite.protocol.record_batches.records import NewRecord, build_batch
from tests.peers import kraft
from tests.peers.apache_kafka import class_command, wait_for_controller
from tests.peers.kraft import KraftCluster
from tests.peers.mirror_program import MIRROR, TIMEOUT_S, Program

pytestmark = [pytest.mark.peer, pytest.mark.timeout(400)]

OTHERS = {"single": 1, "double": 2}
PARTITIONS = 6
RECORDS = 60


@pytest.fixture
def mirror(tmp_path: Path, long: bool) -> Iterator[tuple[Program, str, str]]:
    """A mirror at work, the address of its listener, and those of the brokers."""
    if not long:
        pytest.skip("two Java machines start one after the other: with --long")
    kraft.fetch()
    with (
        LocalCluster(brokers=1, directory=tmp_path / "source") as source,
        KraftCluster(tmp_path, 2) as target,
        ReservedPort() as port,
    ):
        wait_for_controller(source.bootstrap_servers)
        admin = AdminClient({"bootstrap.servers": source.bootstrap_servers})
        admin.create_topics([NewTopic("mirrored", 1, 1)])["mirrored"].result(TIMEOUT_S)
        program = Program(tmp_path / "mirror", source.bootstrap_servers, target, port.number)
        program.start()
        try:
            wait_until(lambda: program.is_level({("mirrored", 0): 0}), "a mirror that is level", TIMEOUT_S)
            yield program, f"127.0.0.1:{port.number}", target.bootstrap_servers
        finally:
            program.kill()


def run_topics(servers: str, *words: str) -> str:
    """kafka-topics.sh of Apache Kafka 4."""
    main = "org.apache.kafka.tools.TopicCommand"
    command = class_command(kraft.fetch(), main, "256m", "WARN", [], "--bootstrap-server", servers, *words)
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def produce(servers: str, topic: str) -> None:
    errors: list[object] = []
    producer = confluent_kafka.Producer({"bootstrap.servers": servers, "enable.idempotence": True})
    for number in range(RECORDS):
        producer.produce(
            topic, b"%d" % number, partition=number % PARTITIONS, on_delivery=lambda error, _: errors.append(error)
        )
    assert producer.flush(TIMEOUT_S) == 0 and errors == [None] * RECORDS


def check_refusal(address: str) -> None:
    """Nothing of a client of the target gets into a mirrored topic."""
    m = messages.produce_request
    part = m.PartitionProduceData(index=0, records=build_batch([NewRecord(None, b"v", 1000)]))
    topic = m.TopicProduceData(name="mirrored", partition_data=[part])
    request = m.ProduceRequest(acks=-1, timeout_ms=1000, topic_data=[topic])

    async def ask() -> messages.ProduceResponse:
        host, port = address.split(":")
        connection = await Connection.open(host, int(port))
        try:
            return await connection.request(request, 9, TIMEOUT_S)
        finally:
            connection.close()

    (answer,) = asyncio.run(ask()).responses[0].partition_responses
    assert answer.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


def read_all(servers: str, topic: str) -> list[int]:
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": servers, "group.id": f"of-{topic}", "auto.offset.reset": "earliest"}
    )
    consumer.subscribe([topic])
    found: list[int] = []

    def has_read() -> bool:
        for each in consumer.consume(RECORDS, 0.2):
            assert each.error() is None
            found.append(int(each.value() or b""))
        return len(found) >= RECORDS

    wait_until(has_read, f"all records of {topic}", TIMEOUT_S)
    consumer.commit(asynchronous=False)
    consumer.close()
    return sorted(found)


def test_clients_of_the_target_may_ask_the_mirror(mirror: tuple[Program, str, str]) -> None:
    program, servers, brokers = mirror
    for name, replicas in OTHERS.items():
        count = ("--partitions", str(PARTITIONS), "--replication-factor", str(replicas))
        assert f"Created topic {name}" in run_topics(servers, "--create", "--topic", name, *count)
    assert "Topic: mirrored" in run_topics(servers, "--describe", "--topic", "mirrored")
    check_refusal(servers)
    admin = AdminClient({"bootstrap.servers": servers})
    for name, replicas in OTHERS.items():
        produce(servers, name)
        assert read_all(servers, name) == list(range(RECORDS))

        def has_left(name: str = name, replicas: int = replicas) -> bool:
            found = admin.list_topics(timeout=TIMEOUT_S).topics[name].partitions.values()
            return all(
                MIRROR not in each.replicas
                and sorted(each.isrs) == sorted(each.replicas)
                and len(each.isrs) == replicas
                for each in found
            )

        wait_until(has_left, f"topic {name} at brokers", TIMEOUT_S)
    assert {each.group_id for each in admin.list_consumer_groups().result(TIMEOUT_S).valid} == {
        "of-single",
        "of-double",
    }
    admin.delete_topics(["single"])["single"].result(TIMEOUT_S)
    assert program.is_level({("mirrored", 0): 0})
    admin.create_topics([NewTopic("late", PARTITIONS, 1)])["late"].result(TIMEOUT_S)
    switched = program.call("switch", str(program.directory), "--yes", "--wait", str(TIMEOUT_S - 10))
    assert switched.returncode == 0 and program.wait_ended() == 0, switched.stderr
    found = AdminClient({"bootstrap.servers": brokers})
    for topic in found.list_topics(timeout=TIMEOUT_S).topics.values():
        assert all(MIRROR not in each.replicas and each.leader > 0 for each in topic.partitions.values()), topic
