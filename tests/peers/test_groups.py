"""Apache Kafka's own tools on our groups: kafka-consumer-groups over the wire, the offsets decoder on our files."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from kafkalite.local.broker_process import wait_until
from kafkalite.local.cluster import LocalCluster
from tests.peers.apache_kafka import fetch
from tests.peers.tool_server import run_tool

pytestmark = [pytest.mark.peer, pytest.mark.timeout(300)]

TOPIC, GROUP, LIVE = "group-tools", "idle-group", "live-group"
PARTITIONS = 3
RECORDS = 30


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    fetch()
    settings = {"group.initial.rebalance.delay.ms": "0", "offsets.topic.num.partitions": "2"}
    with LocalCluster(brokers=1, properties=settings) as running:
        yield running


@pytest.fixture(scope="module")
def servers(cluster: LocalCluster) -> str:
    """With a topic of records, and a group without members that has committed the offset 4 everywhere."""
    servers = cluster.bootstrap_servers
    admin = AdminClient({"bootstrap.servers": servers})
    admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)], request_timeout=30)[TOPIC].result(30)
    producer = confluent_kafka.Producer({"bootstrap.servers": servers})
    for number in range(RECORDS):
        producer.produce(TOPIC, b"v", partition=number % PARTITIONS)
    producer.flush(30)
    consumer = confluent_kafka.Consumer({"bootstrap.servers": servers, "group.id": GROUP, "log_level": 0})
    consumer.commit(offsets=places(4), asynchronous=False)
    consumer.close()
    return servers


def places(offset: int = -1001) -> list[confluent_kafka.TopicPartition]:
    return [confluent_kafka.TopicPartition(TOPIC, number, offset) for number in range(PARTITIONS)]


def groups_tool(servers: str, *arguments: str) -> str:
    return run_tool("kafka-consumer-groups", "--bootstrap-server", servers, "--timeout", "20000", *arguments)


def rows(text: str, group: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines() if line.split()[:1] == [group]]


@pytest.fixture(scope="module")
def member(servers: str) -> Iterator[confluent_kafka.Consumer]:
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": LIVE,
            "client.id": "somebody",
            "partition.assignment.strategy": "roundrobin",
            "auto.offset.reset": "earliest",
            "log_level": 0,
        }
    )
    consumer.subscribe([TOPIC])
    read = 0

    def read_all() -> bool:
        nonlocal read
        message = consumer.poll(0.1)
        read += message is not None and message.error() is None
        return read == RECORDS

    wait_until(read_all, "all records", 30)
    consumer.commit(asynchronous=False)
    yield consumer
    consumer.close()


def test_the_group_tool_lists_and_describes(servers: str, member: confluent_kafka.Consumer) -> None:
    assert {GROUP, LIVE} <= set(groups_tool(servers, "--list").split())
    idle = rows(groups_tool(servers, "--describe", "--group", GROUP), GROUP)
    assert sorted(row[2:6] for row in idle) == [[str(n), "4", "10", "6"] for n in range(PARTITIONS)]
    live = rows(groups_tool(servers, "--describe", "--group", LIVE), LIVE)
    assert {(row[5], row[7], row[8]) for row in live} == {("0", "/127.0.0.1", "somebody")}
    state = rows(groups_tool(servers, "--describe", "--state", "--group", LIVE), LIVE)
    assert state[0][-2:] == ["Stable", "1"] and "roundrobin" in state[0]
    stable = groups_tool(servers, "--list", "--state", "Stable")
    assert rows(stable, LIVE) and not rows(stable, GROUP)


def test_the_group_tool_resets_and_deletes(servers: str) -> None:
    groups_tool(servers, "--reset-offsets", "--to-earliest", "--execute", "--topic", TOPIC, "--group", GROUP)
    consumer = confluent_kafka.Consumer({"bootstrap.servers": servers, "group.id": GROUP, "log_level": 0})
    assert [each.offset for each in consumer.committed(places(), timeout=20)] == [0] * PARTITIONS
    groups_tool(servers, "--delete-offsets", "--group", GROUP, "--topic", f"{TOPIC}:0")
    assert [each.offset for each in consumer.committed(places(), timeout=20)] == [-1001, 0, 0]
    groups_tool(servers, "--delete", "--group", GROUP)
    assert [each.offset for each in consumer.committed(places(), timeout=20)] == [-1001] * PARTITIONS
    consumer.close()
    assert GROUP not in groups_tool(servers, "--list").split()


def decoded(cluster: LocalCluster) -> list[tuple[dict[str, Any], dict[str, Any] | None]]:
    """Keys and values of all records of the internal topic, as the offsets decoder prints them."""
    found = []
    for segment in sorted(cluster.broker(1).log_dir.glob("__consumer_offsets-*/*.log")):
        if not segment.stat().st_size:
            continue
        output = run_tool("kafka-dump-log", "--offsets-decoder", "--files", str(segment))
        for line in output.splitlines():
            match = re.search(r" key: (\{.*?\}) payload: (.*)$", line)
            assert match or not line.startswith("|"), f"not decoded: {line}"
            if match:
                value = match[2].strip()
                found.append((json.loads(match[1]), json.loads(value) if value.startswith("{") else None))
    return found


def test_the_offsets_decoder_reads_what_we_wrote(
    cluster: LocalCluster, servers: str, member: confluent_kafka.Consumer
) -> None:
    records = decoded(cluster)
    offsets = {
        (key["data"]["group"], key["data"]["partition"]): value["data"]["offset"]
        for key, value in records
        if key["type"] == "1" and value is not None
    }
    assert {offsets[LIVE, number] for number in range(PARTITIONS)} == {RECORDS // PARTITIONS}
    balanced = [v["data"] for k, v in records if k["type"] == "2" and k["data"]["group"] == LIVE and v is not None]
    (seen,) = balanced[-1]["members"]
    assert (balanced[-1]["protocol"], seen["clientId"], seen["clientHost"]) == ("roundrobin", "somebody", "/127.0.0.1")
    assert seen["subscription"]["topics"] == [TOPIC]
    assert seen["assignment"]["assignedPartitions"] == [{"topic": TOPIC, "partitions": [0, 1, 2]}]
