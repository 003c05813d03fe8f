"""Client quotas: clients that exceed theirs are told, are slowed down to it, and lose nothing (KIP-13, KIP-219)."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import confluent_kafka
import pytest

from kafkalite.errors import ErrorCode
from kafkalite.local.broker_process import wait_until
from kafkalite.net.connection import Connection
from kafkalite.protocol import messages
from tests.wire.clients import CLIENTS, Record
from tests.wire.conftest import TopicMaker

pytestmark = pytest.mark.wire

TIMEOUT_S = 30
BYTES_PER_S = 50_000
WINDOW_BYTES = 10 * BYTES_PER_S
"""What a client may send at once: it is judged over ten seconds from its first byte on."""


def alter(servers: str, client_id: str, key: str, value: float | None) -> None:
    async def run() -> None:
        host, port = servers.split(",")[0].split(":")
        connection = await Connection.open(host, int(port))
        try:
            m = messages.alter_client_quotas_request
            op = m.OpData(key=key, value=value or 0.0, remove=value is None)
            entity = m.EntityData(entity_type="client-id", entity_name=client_id)
            reply = await connection.request(
                m.AlterClientQuotasRequest(entries=[m.EntryData(entity=[entity], ops=[op])]), 1
            )
            assert [each.error_code for each in reply.entries] == [0]
        finally:
            connection.close()

    asyncio.run(run())


@contextmanager
def quota(servers: str, client_id: str, key: str, value: float = BYTES_PER_S) -> Iterator[None]:
    alter(servers, client_id, key, value)
    try:
        yield
    finally:
        alter(servers, client_id, key, None)


def produce(servers: str, topic: str, client_id: str, count: int, size: int) -> tuple[float, list[Any]]:
    """(seconds it took, what the broker said of throttling)."""
    told: list[Any] = []
    options: dict[str, Any] = {
        "bootstrap.servers": servers,
        "client.id": client_id,
        "throttle_cb": told.append,
        "enable.idempotence": True,
        "batch.size": size,
    }
    producer = confluent_kafka.Producer(options)
    failed: list[Any] = []
    began_s = time.monotonic()
    for _ in range(count):
        producer.produce(topic, bytes(size), on_delivery=lambda problem, message: problem and failed.append(problem))
        producer.poll(0)
    assert producer.flush(TIMEOUT_S) == 0 and not failed
    return time.monotonic() - began_s, told


def test_a_producer_is_slowed_down_to_its_quota(servers: str, make_topic: TopicMaker) -> None:
    topic, client_id = make_topic(replication=1), "slow producer"
    with quota(servers, client_id, "producer_byte_rate"):
        wait_until(lambda: bool(produce(servers, topic, client_id, 20, WINDOW_BYTES // 15)[1]), "the quota", TIMEOUT_S)
        took_s, told = produce(servers, topic, client_id, 20, 10_000)
    assert took_s > 2, "200 kB at 50 kB/s, of a window that is used up"
    assert any(each.throttle_time > 0 for each in told), told
    CLIENTS[0].consume(servers, topic, 40)


def test_other_clients_are_not_slowed_down(servers: str, make_topic: TopicMaker) -> None:
    topic = make_topic(replication=1)
    with quota(servers, "somebody else", "producer_byte_rate"):
        assert produce(servers, topic, "free", 40, 40_000)[1] == []


def consume(servers: str, topic: str, client_id: str, count: int) -> tuple[list[int], list[Any]]:
    """(offsets of the records, what the broker said of throttling)."""
    told: list[Any] = []
    options: dict[str, Any] = {
        "bootstrap.servers": servers,
        "client.id": client_id,
        "group.id": "unused",
        "enable.auto.commit": False,
        "throttle_cb": told.append,
        "fetch.message.max.bytes": 100_000,
        "queued.max.messages.kbytes": 200,
    }
    consumer = confluent_kafka.Consumer(options)
    offsets: list[int] = []
    try:
        consumer.assign([confluent_kafka.TopicPartition(topic, 0, 0)])
        deadline = time.monotonic() + TIMEOUT_S
        while len(offsets) < count and time.monotonic() < deadline:
            offsets += [message.offset() for message in consumer.consume(100, 0.2)]
    finally:
        consumer.close()
    return offsets, told


def test_a_consumer_is_slowed_down_to_its_quota_and_gets_everything(servers: str, make_topic: TopicMaker) -> None:
    topic, client_id = make_topic(replication=1), "slow consumer"
    size, count = 20_000, 6 * WINDOW_BYTES // 5 // 20_000
    produce(servers, topic, "its producer", count, size)
    read: list[list[int]] = []

    def throttled() -> bool:
        offsets, told = consume(servers, topic, client_id, count)
        read.append(offsets)
        return bool(told)

    with quota(servers, client_id, "consumer_byte_rate"):
        wait_until(throttled, "the quota", 2 * TIMEOUT_S)
    assert read[-1] == list(range(count))


def test_a_batch_that_no_window_of_the_quota_allows_is_delivered(servers: str, make_topic: TopicMaker) -> None:
    """Apache Kafka never delivers it: each time the consumer asks, it is throttled and gets nothing."""
    topic, client_id = make_topic(replication=1), "consumer of a large batch"
    size, count = 20_000, 6 * WINDOW_BYTES // 5 // 20_000
    CLIENTS[0].produce(servers, topic, [Record(b"%d" % number, bytes(size)) for number in range(count)])
    with quota(servers, client_id, "consumer_byte_rate"):
        for _ in range(2):
            assert consume(servers, topic, client_id, count)[0] == list(range(count))


def test_a_client_that_asks_too_much_waits_for_its_answers(servers: str) -> None:
    """request_percentage (KIP-124): by what the broker's handlers take, whatever is asked."""

    async def asked(client_id: str) -> tuple[int, float]:
        """(the longest throttle time in an answer, how long the next answer took after it)."""
        host, port = servers.split(",")[0].split(":")
        connection = await Connection.open(host, int(port), client_id=client_id)
        request = messages.metadata_request.MetadataRequest(topics=None)
        try:
            for _ in range(200):
                throttle_ms = (await connection.request(request, 12)).throttle_time_ms
                if throttle_ms:
                    began_s = time.monotonic()
                    await connection.request(request, 12)
                    return throttle_ms, time.monotonic() - began_s
            return 0, 0.0
        finally:
            connection.close()

    with quota(servers, "asks too much", "request_percentage", 0.001):
        wait_until(lambda: asyncio.run(asked("asks too much"))[0] > 0, "the quota", TIMEOUT_S)
        throttle_ms, took_s = asyncio.run(asked("asks too much"))
        assert took_s >= 0.9 * throttle_ms / 1000, "the connection is not read meanwhile"
        assert asyncio.run(asked("somebody else")) == (0, 0.0)


def test_a_client_that_creates_too_many_partitions_is_refused_until_its_debt_is_paid(servers: str) -> None:
    """controller_mutation_rate (KIP-599): eleven seconds' worth at once, and more only when that is paid."""
    m = messages.create_topics_request

    async def outcome() -> tuple[list[int], int]:
        """(error codes of two topics with six partitions each, the throttle time)."""
        host, port = servers.split(",")[0].split(":")
        asked = await Connection.open(host, int(port))
        cluster = await asked.request(messages.metadata_request.MetadataRequest(topics=[]), 12)
        asked.close()
        (controller,) = [each for each in cluster.brokers if each.node_id == cluster.controller_id]
        connection = await Connection.open(controller.host, controller.port, client_id="creates too much")
        try:
            names = [f"quota-{time.monotonic_ns()}-{each}" for each in "ab"]
            topics = [m.CreatableTopic(name=name, num_partitions=6, replication_factor=1) for name in names]
            reply = await connection.request(m.CreateTopicsRequest(topics=topics, timeout_ms=30_000), 7, TIMEOUT_S)
            return sorted(each.error_code for each in reply.topics), reply.throttle_time_ms
        finally:
            connection.close()

    with quota(servers, "creates too much", "controller_mutation_rate", 0.5):
        outcomes: list[tuple[list[int], int]] = []

        def is_refused() -> bool:
            outcomes.append(asyncio.run(outcome()))
            return outcomes[-1][1] > 0

        wait_until(is_refused, "the quota", TIMEOUT_S)
    assert outcomes[-1][0] == [ErrorCode.NONE, ErrorCode.THROTTLING_QUOTA_EXCEEDED]
    assert all(codes == [ErrorCode.NONE] * 2 for codes, throttle_ms in outcomes[:-1])
