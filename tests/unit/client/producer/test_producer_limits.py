"""The producer's limits of time and memory, closing, and topics that metadata lacks."""

from __future__ import annotations

from typing import Any

import pytest

from kafkalite.client.errors import (
    BufferFullError,
    ClientClosedError,
    ClientError,
    ClientTimeoutError,
)
from kafkalite.errors import ErrorCode
from kafkalite.protocol import messages
from kafkalite.protocol.apis import ApiKey
from kafkalite.types import TopicPartition
from tests.unit.client.fake_broker import HANG, FakeCluster, values_in
from tests.unit.client.producer.scripted_producer import T0, failing, producer, run


def test_time_for_delivery_ends_and_says_why() -> None:
    cluster = FakeCluster({"t": 1})
    cluster.script[ApiKey.PRODUCE].extend(failing(ErrorCode.NOT_ENOUGH_REPLICAS, 10_000))

    async def scenario() -> None:
        async with producer(cluster, request_timeout_ms=50, delivery_timeout_ms=120) as target:
            with pytest.raises(ClientTimeoutError, match=r"within 120 ms.*min.insync.replicas"):
                await target.send_and_wait("t", b"x")

    run(scenario())


def test_a_broker_that_does_not_answer_is_given_up() -> None:
    cluster = FakeCluster({"t": 1})
    cluster.script[ApiKey.PRODUCE].append(HANG)

    async def scenario() -> None:
        async with producer(cluster, request_timeout_ms=50, delivery_timeout_ms=5000) as target:
            assert (await target.send_and_wait("t", b"x")).offset == 0

    run(scenario())
    assert sum(each.closed for each in cluster.connections) >= 1, "a late answer could not be told from the next"


def test_records_wait_for_a_broker_that_is_away() -> None:
    cluster = FakeCluster({"t": 2})

    async def scenario() -> None:
        async with producer(cluster) as target:
            await target.send_and_wait("t", b"a", partition=0)
            cluster.unreachable.add(2)
            delivery = await target.send("t", b"b", partition=1)
            await target.send_and_wait("t", b"c", partition=0)
            assert not delivery.done()
            cluster.unreachable.clear()
            assert (await delivery).offset == 0

    run(scenario())


def test_memory_is_bounded_and_the_caller_waits() -> None:
    cluster = FakeCluster({"t": 1})
    cluster.script[ApiKey.PRODUCE].extend([HANG] * 100)

    async def scenario() -> None:
        target = producer(cluster, buffer_memory=2000, batch_size=500, max_block_ms=50)
        await target.connect()
        with pytest.raises(BufferFullError, match="no room"):
            for _ in range(1000):
                await target.send("t", b"x" * 100)
        assert 2000 <= target.statistics()["buffered_bytes"] < 2300
        await target.close(timeout=0)

    run(scenario())


def test_the_callers_wait_ends_when_brokers_catch_up() -> None:
    cluster = FakeCluster({"t": 1})

    async def scenario() -> None:
        async with producer(cluster, buffer_memory=2000, batch_size=500) as target:
            for _ in range(500):
                await target.send("t", b"x" * 100)

    run(scenario())
    assert len(values_in(cluster, T0)) == 500


def test_closing_delivers_what_was_sent_and_refuses_more() -> None:
    cluster = FakeCluster({"t": 1})

    async def scenario() -> None:
        target = producer(cluster, linger_ms=10_000)
        await target.connect()
        delivery = await target.send("t", b"x")
        await target.close()
        assert delivery.result().offset == 0
        with pytest.raises(ClientClosedError, match="the producer is closed"):
            await target.send("t", b"y")
        await target.close()

    run(scenario())


def test_closing_at_once_fails_what_is_left() -> None:
    cluster = FakeCluster({"t": 1})
    cluster.script[ApiKey.PRODUCE].append(HANG)

    async def scenario() -> None:
        target = producer(cluster)
        await target.connect()
        delivery = await target.send("t", b"x")
        await target.close(timeout=0)
        with pytest.raises(ClientClosedError):
            await delivery

    run(scenario())


def test_flush_gives_up_after_its_time() -> None:
    cluster = FakeCluster({"t": 1})
    cluster.script[ApiKey.PRODUCE].append(HANG)

    async def scenario() -> None:
        target = producer(cluster)
        await target.connect()
        await target.send("t", b"x")
        with pytest.raises(ClientTimeoutError, match=r"1 batches were not delivered within 0\.05 s"):
            await target.flush(0.05)
        await target.close(timeout=0)

    run(scenario())


def test_a_refused_producer_id_fails_records_at_once() -> None:
    cluster = FakeCluster({"t": 1})
    refusal = messages.init_producer_id_response.InitProducerIdResponse(error_code=31)
    cluster.script[ApiKey.INIT_PRODUCER_ID].append(refusal)

    async def scenario() -> None:
        async with producer(cluster) as target:
            with pytest.raises(ClientError, match="producer id") as raised:
                await target.send_and_wait("t", b"x")
            assert raised.value.code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED

    run(scenario())


def test_a_loading_coordinator_is_waited_for() -> None:
    cluster = FakeCluster({"t": 1})
    loading = messages.init_producer_id_response.InitProducerIdResponse(error_code=14)
    cluster.script[ApiKey.INIT_PRODUCER_ID].extend([loading, loading])

    async def scenario() -> None:
        async with producer(cluster) as target:
            await target.send_and_wait("t", b"x")

    run(scenario())


def test_unknown_topics_and_partitions() -> None:
    cluster = FakeCluster({"t": 2})

    async def scenario() -> None:
        async with producer(cluster, max_block_ms=50) as target:
            with pytest.raises(ClientError, match="topic nope: there is no such") as raised:
                await target.send("nope", b"x")
            assert raised.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            with pytest.raises(ClientError, match="partitions 0 to 1, not 7") as raised:
                await target.send("t", b"x", partition=7)
            assert raised.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            with pytest.raises(ClientError, match="cannot have a partition -1"):
                await target.send("t", b"x", partition=-1)
            assert await target.partitions_for("t") == {0, 1}

    run(scenario())


def test_a_record_for_a_partition_that_brokers_are_yet_to_learn_of_is_not_refused() -> None:
    cluster = FakeCluster({"t": 2})
    cluster.leaders[late := TopicPartition("t", 2)] = 1

    def not_yet(_: int, __: Any) -> None:
        """The broker that was asked has not heard of the new partition."""

    def by_now(_: int, __: Any) -> None:
        cluster.topics["t"] = 3

    async def scenario() -> None:
        async with producer(cluster) as target:
            assert await target.partitions_for("t") == {0, 1}
            cluster.script[ApiKey.METADATA].extend([not_yet, not_yet, by_now])
            await target.send_and_wait("t", b"x", partition=2)

    run(scenario())
    assert values_in(cluster, late) == [b"x"]


def test_a_topic_that_is_deleted_while_a_record_for_its_new_partition_waits_is_an_error_of_the_client() -> None:
    cluster = FakeCluster({"t": 1})

    async def scenario() -> None:
        async with producer(cluster, max_block_ms=50) as target:
            assert await target.partitions_for("t") == {0}
            del cluster.topics["t"]
            with pytest.raises(ClientError, match="topic t: there is no such") as raised:
                await target.send("t", b"x", partition=1)
            assert raised.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    run(scenario())
