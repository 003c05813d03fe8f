"""Topic ids that a broker does not know yet, and those of logs whose topic was removed from ZooKeeper by hand, on a running broker."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Any
from urllib.request import urlopen

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from kazoo.client import KazooClient

from kafkalite.errors import ErrorCode
from kafkalite.local.broker_process import wait_until
from kafkalite.local.cluster import LocalCluster
from kafkalite.net.connection import Connection
from kafkalite.protocol import messages
from kafkalite.types import topic_id_to_text

pytestmark = [pytest.mark.system, pytest.mark.timeout(240)]

f = messages.fetch_request
LATE, AGAIN = b"an id to come  .", b"made again     ."


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster(brokers=1, properties={"auto.create.topics.enable": "false"}, http=True) as running:
        yield running


@pytest.fixture
def znodes(cluster: LocalCluster) -> Iterator[KazooClient]:
    client = KazooClient(cluster.zookeeper_connect)
    client.start()
    yield client
    client.stop()
    client.close()


class Consumer:
    """Fetches partition 0 of topics by id, in one session: {id: (error, whether there are records)}."""

    def __init__(self, connection: Connection) -> None:
        self._connection, self._session_id, self._epoch = connection, 0, 0

    async def fetch(self, *topic_ids: bytes) -> dict[bytes, tuple[ErrorCode, bool]]:
        part = f.FetchPartition(partition=0, partition_max_bytes=1000)
        request = f.FetchRequest(
            max_wait_ms=200,
            min_bytes=1,
            max_bytes=10_000,
            session_id=self._session_id,
            session_epoch=self._epoch,
            topics=[f.FetchTopic(topic_id=each, partitions=[part]) for each in topic_ids],
        )
        response = await self._connection.request(request, 13)
        assert response.error_code == 0
        self._session_id, self._epoch = response.session_id, self._epoch + 1
        return {
            topic.topic_id: (ErrorCode(data.error_code), bool(data.records))
            for topic in response.responses
            for data in topic.partitions
        }


def make(cluster: LocalCluster, name: str) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    admin.create_topics([NewTopic(name, 1, 1)])[name].result(30)


def produce(
    cluster: LocalCluster, name: str, value: str, timeout_ms: int = 30_000
) -> confluent_kafka.KafkaError | None:
    """The outcome of one record."""
    outcomes: list[Any] = []
    settings = {"bootstrap.servers": cluster.bootstrap_servers, "message.timeout.ms": timeout_ms, "acks": "all"}
    producer = confluent_kafka.Producer(settings)
    producer.produce(name, value, on_delivery=lambda error, message: outcomes.append(error))
    producer.flush(60)
    (outcome,) = outcomes
    return outcome


def values(cluster: LocalCluster, name: str, count: int) -> list[bytes]:
    settings = {"bootstrap.servers": cluster.bootstrap_servers, "group.id": "values", "enable.auto.commit": False}
    consumer = confluent_kafka.Consumer(settings)
    consumer.assign([confluent_kafka.TopicPartition(name, 0, 0)])
    try:
        found = consumer.consume(count, 30)
        return [each.value() for each in found if each.error() is None]
    finally:
        consumer.close()


def write_topic(znodes: KazooClient, cluster: LocalCluster, name: str, topic_id: bytes) -> None:
    """As a tool that writes the topic's znode itself."""
    (broker,) = cluster.brokers
    value = {
        "version": 3,
        "topic_id": topic_id_to_text(topic_id),
        "partitions": {"0": [broker]},
        "adding_replicas": {},
        "removing_replicas": {},
    }
    if not znodes.exists(f"/config/topics/{name}"):
        znodes.create(f"/config/topics/{name}", b'{"version":1,"config":{}}')
    znodes.create(f"/brokers/topics/{name}", json.dumps(value).encode())


def page(cluster: LocalCluster, path: str) -> str:
    (broker,) = cluster.brokers.values()
    with urlopen(f"{broker.http_url}{path}", timeout=10) as answer:
        return str(answer.read().decode())


def conflicts(cluster: LocalCluster) -> dict[str, str]:
    found = json.loads(page(cluster, "health"))["topic_id_conflicts"]
    assert isinstance(found, dict)
    return found


def test_a_session_serves_a_topic_id_once_the_broker_knows_it(cluster: LocalCluster, znodes: KazooClient) -> None:
    """A consumer of Java's stalled without an error: it had been told UNKNOWN_TOPIC_ID once, and named the partition no more."""
    make(cluster, "known")
    known = asyncio.run(_id_of(cluster, "known"))

    async def scenario() -> None:
        host, port = cluster.bootstrap_servers.rsplit(":", 1)
        connection = await Connection.open(host, int(port), client_id="session", timeout_s=30)
        try:
            await connection.negotiate()
            consumer = Consumer(connection)
            unknown = {LATE: (ErrorCode.UNKNOWN_TOPIC_ID, False)}
            assert await consumer.fetch(known, LATE) == {known: (ErrorCode.NONE, False)} | unknown
            assert await consumer.fetch() == unknown
            await asyncio.to_thread(write_topic, znodes, cluster, "late", LATE)
            assert await asyncio.to_thread(produce, cluster, "late", "a record") is None
            for _ in range(100):
                found = await consumer.fetch()
                if found == {LATE: (ErrorCode.NONE, True)}:
                    break
            else:
                raise AssertionError(found)
        finally:
            connection.close()

    asyncio.run(scenario())


async def _id_of(cluster: LocalCluster, name: str) -> bytes:
    host, port = cluster.bootstrap_servers.rsplit(":", 1)
    connection = await Connection.open(host, int(port), client_id="ids", timeout_s=30)
    try:
        await connection.negotiate()
        m = messages.metadata_request
        request = m.MetadataRequest(topics=[m.MetadataRequestTopic(name=name)], allow_auto_topic_creation=False)
        (topic,) = (await connection.request(request, 12)).topics
        return bytes(topic.topic_id)
    finally:
        connection.close()


def test_a_topic_that_was_removed_by_hand_is_not_mixed_up_with_a_new_one(
    cluster: LocalCluster, znodes: KazooClient
) -> None:
    make(cluster, "rmr")
    former = asyncio.run(_id_of(cluster, "rmr"))
    assert produce(cluster, "rmr", "old") is None
    znodes.delete("/brokers/topics/rmr", recursive=True)
    znodes.delete("/config/topics/rmr")
    _elect_another(cluster, znodes)
    with pytest.raises(confluent_kafka.KafkaException, match="already exists"):
        make(cluster, "rmr")
    write_topic(znodes, cluster, "rmr", AGAIN)
    wait_until(lambda: list(conflicts(cluster)) == ["rmr-0"], "the conflict in /health", 30)
    for _ in range(2):
        assert topic_id_to_text(former) in conflicts(cluster)["rmr-0"]
        assert topic_id_to_text(AGAIN) in conflicts(cluster)["rmr-0"]
        assert produce(cluster, "rmr", "new", timeout_ms=2000) is not None, (
            "acknowledged into the log of the former topic"
        )
        metrics = page(cluster, "metrics").splitlines()
        assert "kafkalite_topic_id_conflicts 1" in metrics
        wait_until(
            lambda: "kafkalite_controller_refused_replicas 1" in page(cluster, "metrics").splitlines(),
            "refused roles",
            30,
        )
        (broker,) = cluster.brokers
        cluster.stop(broker)
        cluster.start_broker(broker)
        wait_until(lambda: list(conflicts(cluster)) == ["rmr-0"], "the conflict after a restart", 60)
    path = "/brokers/topics/rmr"
    value, _ = znodes.get(path)
    znodes.set(path, value.replace(topic_id_to_text(AGAIN).encode(), topic_id_to_text(former).encode()))
    _elect_another(cluster, znodes)
    wait_until(lambda: not conflicts(cluster), "the log's own id", 30)
    assert produce(cluster, "rmr", "newer") is None
    assert values(cluster, "rmr", 2) == [b"old", b"newer"]


def _elect_another(cluster: LocalCluster, znodes: KazooClient) -> None:
    """A new term of the only broker, which reads ZooKeeper again."""
    before = int(znodes.get("/controller_epoch")[0])
    znodes.delete("/controller")

    def governs() -> bool:
        later = int(znodes.get("/controller_epoch")[0])
        lines = page(cluster, "metrics").splitlines()
        return later > before and {f"kafkalite_controller_epoch {later}", "kafkalite_controller_active 1"} <= {*lines}

    wait_until(governs, "a controller of another epoch", 30)
