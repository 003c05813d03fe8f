"""Client quotas: clients that exceed theirs are told, are slowed down to it, and lose nothing (KIP-13, KIP-219)."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import confluent_kafka
import pytest

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
def quota(servers: str, client_id: str, key: str) -> Iterator[None]:
    alter(servers, client_id, key, BYTES_PER_S)
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
