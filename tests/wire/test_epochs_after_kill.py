"""kill -9 of a lone broker, and a client that lives through it: what its metadata says of leader epochs is what the broker obeys.

A client that heard of an epoch which ended at once kept it: librdkafka's ListOffsets was refused with FENCED_LEADER_EPOCH again and
again, since it refreshes no metadata for that reason.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec

from kafkalite.local.cluster import LocalCluster
from kafkalite.net.connection import open_unauthenticated
from kafkalite.protocol import messages
from kafkalite.protocol.apis import ApiKey
from kafkalite.types import Endpoint
from tests.wire.conftest import wait_until_led

pytestmark = pytest.mark.system

TOPICS = 14
LARGE_BYTES = 40_000_000
VALUE = bytes(100_000)
START_S = 90


def test_offsets_are_listed_after_a_kill_by_a_client_that_lived_through_it(
    broker_command: Sequence[str], pytestconfig: pytest.Config
) -> None:
    if pytestconfig.getoption("--apache"):
        pytest.skip("Apache Kafka does not start while its own old session lives")
    settings = {"zookeeper.session.timeout.ms": "2000", "zookeeper.connection.timeout.ms": "20000"}
    with LocalCluster(brokers=1, properties=settings, command=broker_command) as cluster:
        servers = cluster.bootstrap_servers
        names = [f"t{number}" for number in range(TOPICS)]
        admin = AdminClient({"bootstrap.servers": servers, "reconnect.backoff.ms": 1, "reconnect.backoff.max.ms": 5})
        for future in admin.create_topics([NewTopic(name, 1, 1) for name in names], request_timeout=30).values():
            future.result(30)
        for name in names:
            wait_until_led(servers, name, 1)
        written = _fill(servers, names)
        for life in (1, 2):
            cluster.kill(1)
            stop, told = threading.Event(), set[tuple[str, int]]()
            with ThreadPoolExecutor() as threads:
                watching = [
                    threads.submit(_list_topics, admin, names, stop),
                    threads.submit(asyncio.run, _note_epochs(servers, names, life, told, stop)),
                ]
                try:
                    cluster.start_broker(1)
                    for each in watching:
                        each.result(START_S)
                finally:
                    stop.set()
            assert told == {(name, life) for name in names}, (
                "who was killed leads in a new epoch, and tells of no other"
            )
            listed = admin.list_offsets(
                {confluent_kafka.TopicPartition(name, 0): OffsetSpec.latest() for name in names}, request_timeout=20
            )
            assert {each.topic: future.result(30).offset for each, future in listed.items()} == written


async def _note_epochs(
    servers: str, names: Sequence[str], last: int, told: set[tuple[str, int]], stop: threading.Event
) -> None:
    """Note each topic's leader epoch in every answer, until all are in the epoch `last`."""
    host, _, port = servers.partition(":")
    endpoint = Endpoint("PLAINTEXT", host, int(port))
    while not stop.is_set():
        try:
            connection = await open_unauthenticated(endpoint, "watcher", START_S)
        except OSError:
            await asyncio.sleep(0.001)
            continue
        try:
            await connection.negotiate(START_S)
            version = connection.version_of(ApiKey.METADATA)
            while not stop.is_set():
                response = await connection.request(
                    messages.metadata_request.MetadataRequest(topics=None), version, START_S
                )
                known = {each.name: each.partitions[0].leader_epoch for each in response.topics if each.name in names}
                told.update(known.items())
                if len(known) == len(names) and set(known.values()) == {last}:
                    return
        except OSError:
            continue
        finally:
            connection.close()


def _fill(servers: str, names: Sequence[str]) -> dict[str, int]:
    """One record in each topic, very many in the first; where each ends."""
    failures: list[object] = []
    producer = confluent_kafka.Producer({"bootstrap.servers": servers, "acks": "all", "linger.ms": 5})
    written = dict.fromkeys(names, 1) | {names[0]: LARGE_BYTES // len(VALUE)}
    for name, count in written.items():
        for _ in range(count):
            producer.produce(name, VALUE, partition=0, on_delivery=lambda error, _: error and failures.append(error))
            producer.poll(0)
    assert producer.flush(60) == 0
    assert not failures
    return written


def _list_topics(admin: AdminClient, names: Sequence[str], stop: threading.Event) -> None:
    """Ask for metadata until every topic has a leader."""
    while not stop.is_set():
        try:
            known = admin.list_topics(timeout=10).topics
        except confluent_kafka.KafkaException:
            continue
        if all(name in known and known[name].partitions[0].leader >= 0 for name in names):
            return
