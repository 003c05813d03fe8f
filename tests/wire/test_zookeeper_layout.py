"""A program that knows only Apache Kafka's znodes finds brokers, controller, topics and partition states."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from confluent_kafka.admin import AdminClient
from kazoo.client import KazooClient

from kafkalite.local.cluster import LocalCluster
from tests.wire.conftest import TopicMaker

pytestmark = pytest.mark.wire


@pytest.fixture
def zookeeper(cluster: LocalCluster) -> Iterator[KazooClient]:
    client = KazooClient(hosts=cluster.zookeeper_connect)
    client.start(30)
    yield client
    client.stop()
    client.close()


def read(zookeeper: KazooClient, path: str) -> dict[str, object]:
    data, _ = zookeeper.get(path)
    value = json.loads(data)
    assert isinstance(value, dict)
    return value


def test_brokers_register_with_ephemeral_znodes(cluster: LocalCluster, zookeeper: KazooClient) -> None:
    assert sorted(map(int, zookeeper.get_children("/brokers/ids"))) == sorted(cluster.brokers)
    for broker in cluster.brokers.values():
        data, stat = zookeeper.get(f"/brokers/ids/{broker.id}")
        registration = json.loads(data)
        assert registration["endpoints"] == [f"PLAINTEXT://{broker.address}"]
        assert registration["listener_security_protocol_map"] == {"PLAINTEXT": "PLAINTEXT"}
        assert (registration["host"], registration["port"]) == ("127.0.0.1", broker.port)
        assert registration["version"] == 5
        assert stat.ephemeralOwner != 0


def test_the_controller_is_one_of_the_brokers(
    cluster: LocalCluster, zookeeper: KazooClient, admin: AdminClient
) -> None:
    controller = read(zookeeper, "/controller")
    assert controller["brokerid"] in cluster.brokers
    assert admin.describe_cluster(request_timeout=30).result(30).controller.id == controller["brokerid"]
    assert int(zookeeper.get("/controller_epoch")[0]) >= 1
    assert str(read(zookeeper, "/cluster/id")["id"]) == admin.list_topics(timeout=30).cluster_id


def test_topics_and_partition_states(zookeeper: KazooClient, admin: AdminClient, make_topic: TopicMaker) -> None:
    topic = make_topic(partitions=3, config={"retention.ms": "600000"})
    assignment = read(zookeeper, f"/brokers/topics/{topic}")
    assert assignment["version"] == 3
    assert assignment["adding_replicas"] == assignment["removing_replicas"] == {}
    replicas = assignment["partitions"]
    assert isinstance(replicas, dict) and sorted(replicas) == ["0", "1", "2"]
    seen = admin.list_topics(topic, timeout=30).topics[topic].partitions
    for number, metadata in seen.items():
        state = read(zookeeper, f"/brokers/topics/{topic}/partitions/{number}/state")
        assert state["leader"] == metadata.leader
        assert sorted(state["isr"]) == sorted(metadata.isrs)  # type: ignore[call-overload]
        assert state["leader_epoch"] == 0
        assert metadata.replicas == replicas[str(number)]
    assert read(zookeeper, f"/config/topics/{topic}")["config"] == {"retention.ms": "600000"}
