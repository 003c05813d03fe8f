"""One cluster of three brokers for all tests of foreign clients, and topics made for one test each.

`pytest tests/wire --apache` runs the same tests against Apache Kafka: that is how the tests themselves are checked.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from kafkalite.local.broker_process import BROKER_COMMAND, wait_until
from kafkalite.local.cluster import LocalCluster
from kafkalite.net.connection import Connection
from kafkalite.protocol import messages
from kafkalite.protocol.apis import ApiKey

TopicMaker = Callable[..., str]


@pytest.fixture(scope="session")
def broker_command(pytestconfig: pytest.Config) -> Sequence[str]:
    """What runs a broker when the path of a properties file is appended."""
    if pytestconfig.getoption("--apache"):
        from tests.peers import apache_kafka

        return apache_kafka.broker_command()
    return BROKER_COMMAND


@pytest.fixture(scope="session")
def cluster(broker_command: Sequence[str]) -> Iterator[LocalCluster]:
    settings = {
        "auto.create.topics.enable": "false",
        "offsets.topic.num.partitions": "1",
        "transaction.state.log.num.partitions": "3",
        "log.cleaner.backoff.ms": "1000",
        "log.initial.task.delay.ms": str(24 * 60 * 60 * 1000),  # retention: some tests write records of 1970
        "group.min.session.timeout.ms": "1000",
        "group.initial.rebalance.delay.ms": "500",
    }
    is_ours = broker_command == BROKER_COMMAND
    with LocalCluster(brokers=3, properties=settings, command=broker_command, http=is_ours) as running:
        if not is_ours:  # ours have a controller when they say that they are started
            from tests.peers import apache_kafka

            apache_kafka.wait_for_controller(running.bootstrap_servers)
        yield running


@pytest.fixture(scope="session")
def servers(cluster: LocalCluster) -> str:
    return cluster.bootstrap_servers


@pytest.fixture(scope="session")
def admin(servers: str) -> AdminClient:
    return AdminClient({"bootstrap.servers": servers})


_numbers = itertools.count(1)


@pytest.fixture
def make_topic(admin: AdminClient, servers: str) -> TopicMaker:
    """`make_topic(partitions=1, replication=3, config={})`: a new topic's name, once every broker knows it and every leader serves it."""

    def make(partitions: int = 1, replication: int = 3, config: dict[str, str] | None = None) -> str:
        name = f"wire-{next(_numbers)}"
        wanted = NewTopic(name, num_partitions=partitions, replication_factor=replication, config=config or {})
        admin.create_topics([wanted], request_timeout=30)[name].result(30)
        wait_until_known(servers, name, partitions)
        wait_until_led(servers, name, partitions)
        return name

    return make


def wait_until_known(servers: str, topic: str, partitions: int, timeout_s: float = 30) -> None:
    """Until each broker tells of so many partitions with a leader, 0 for no such topic: the controller tells them one after the other."""

    async def count(server: str) -> int:
        host, port = server.rsplit(":", 1)
        connection = await Connection.open(host, int(port), client_id="known", timeout_s=timeout_s)
        try:
            await connection.negotiate()
            m = messages.metadata_request
            request = m.MetadataRequest(topics=[m.MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False)
            response = await connection.request(request, connection.version_of(ApiKey.METADATA))
        finally:
            connection.close()
        return sum(each.leader_id >= 0 for found in response.topics for each in found.partitions)

    async def counts() -> list[int]:
        return await asyncio.gather(*map(count, servers.split(",")))

    with ThreadPoolExecutor(1) as beside_any_loop:
        wait_until(
            lambda: set(beside_any_loop.submit(asyncio.run, counts()).result()) == {partitions},
            f"{topic} at every broker",
            timeout_s,
        )


def wait_until_led(servers: str, topic: str, partitions: int, timeout_s: float = 30) -> None:
    """Until every partition's leader answers for it: an unacknowledged produce before that would be lost."""
    deadline = time.monotonic() + timeout_s
    for partition in range(partitions):
        asked = confluent_kafka.TopicPartition(topic, partition)
        while True:
            # A new client each time: one that was told of fewer partitions does not ask again for minutes.
            consumer = confluent_kafka.Consumer({"bootstrap.servers": servers, "group.id": "unused"})
            try:
                consumer.get_watermark_offsets(asked, timeout=5, cached=False)
                break
            except confluent_kafka.KafkaException:
                if time.monotonic() > deadline:
                    raise
            finally:
                consumer.close()
