"""The consumer's bounds, the errors that reach its reader, look-ups and closing."""

from __future__ import annotations

import asyncio

import pytest

from kafkalite.client.consumer.consumer import Consumer
from kafkalite.client.errors import (
    ClientClosedError,
    ClientError,
    ClientTimeoutError,
    RecordDeserializationError,
)
from kafkalite.client.record_codec import BatchWriter
from kafkalite.errors import ErrorCode
from kafkalite.protocol import messages
from kafkalite.protocol.apis import ApiKey
from kafkalite.types import TopicPartition
from tests.unit.client.consumer.scripted_consumer import T0, T1, consumer, fill, offsets, run
from tests.unit.client.fake_broker import HANG, TOPIC_ID, FakeCluster


def test_prefetching_is_bounded() -> None:
    cluster = FakeCluster({"t": 2})
    fill(cluster, T0, 3000, batch_records=10)
    fill(cluster, T1, 3000, batch_records=10)

    async def scenario() -> None:
        async with consumer(cluster, prefetch_max_bytes=5000, max_partition_fetch_bytes=2000) as target:
            target.assign([T0, T1])
            seen = 0
            while seen < 6000:
                found = await target.getmany(timeout_ms=1000, max_records=7)
                seen += sum(map(len, found.values()))
                assert target.statistics()["buffered_bytes"] <= 5000

    run(scenario())


def test_a_value_that_cannot_be_decoded_names_its_place_and_can_be_passed() -> None:
    cluster = FakeCluster({"t": 1})
    writer = BatchWriter(1000)
    for value in (b"1", b"{", b"3"):
        writer.append(0, None, value, [])
    cluster.append(T0, writer.build(0))

    async def scenario() -> None:
        async with consumer(cluster, value_deserializer="json") as target:
            target.assign([T0])
            assert (await target.getone()).value == 1
            with pytest.raises(RecordDeserializationError, match="value of t-0 at offset 1") as raised:
                await target.getmany(timeout_ms=1000)
            with pytest.raises(RecordDeserializationError):
                await target.getmany(timeout_ms=1000)
            target.seek(raised.value.topic_partition, raised.value.offset + 1)
            assert (await target.getone()).value == 3

    run(scenario())


def test_a_damaged_batch_is_reported_and_can_be_passed() -> None:
    cluster = FakeCluster({"t": 1})
    fill(cluster, T0, 6)
    cluster.logs[T0][0][70] ^= 0xFF

    async def scenario() -> None:
        async with consumer(cluster) as target:
            target.assign([T0])
            with pytest.raises(ClientError, match="batch at offset 0 has a wrong CRC") as raised:
                await target.getmany(timeout_ms=1000)
            assert raised.value.code is ErrorCode.CORRUPT_MESSAGE
            target.seek(T0, 3)
            assert await offsets(target, 3) == [3, 4, 5]

    run(scenario())


def test_errors_that_no_retry_can_cure_reach_the_reader() -> None:
    cluster = FakeCluster({"t": 1})
    m = messages.fetch_response
    refused = m.PartitionData(partition_index=0, error_code=29)
    topic = m.FetchableTopicResponse(topic="t", topic_id=TOPIC_ID, partitions=[refused])
    cluster.script[ApiKey.FETCH].append(m.FetchResponse(responses=[topic]))

    async def scenario() -> None:
        async with consumer(cluster) as target:
            target.assign([T0])
            with pytest.raises(ClientError) as raised:
                await target.getone()
            assert raised.value.code is ErrorCode.TOPIC_AUTHORIZATION_FAILED

    run(scenario())


def test_offsets_and_topics() -> None:
    cluster = FakeCluster({"t": 2, "u": 1})
    fill(cluster, T0, 5, batch_records=1)

    async def scenario() -> None:
        async with consumer(cluster) as target:
            assert await target.end_offsets([T0, T1]) == {T0: 5, T1: 0}
            assert await target.beginning_offsets([T0]) == {T0: 0}
            found = await target.offsets_for_times({T0: 2500, T1: 1})
            assert found[T0] is not None and found[T0].offset == 3 and found[T1] is None
            assert await target.topics() == {"t", "u"}
            assert await target.partitions_for_topic("t") == {0, 1}

    run(scenario())


def test_an_unknown_partition_has_no_position() -> None:
    cluster = FakeCluster({"t": 1})

    async def scenario() -> None:
        async with consumer(cluster) as target:
            target.assign([("nope", 0)])
            with pytest.raises(ClientTimeoutError, match="UNKNOWN_TOPIC_OR_PARTITION"):
                await target.position(TopicPartition("nope", 0), timeout=0.1)

    run(scenario())


def test_closing_wakes_the_reader() -> None:
    cluster = FakeCluster({"t": 1})
    cluster.script[ApiKey.FETCH].append(HANG)

    async def scenario() -> None:
        target = consumer(cluster)
        target.assign([T0])
        reading = asyncio.ensure_future(target.getone())
        while not cluster.requests_of(ApiKey.FETCH):
            await asyncio.sleep(0)
        await target.close()
        with pytest.raises(ClientClosedError):
            await reading

    run(scenario())


def test_options_that_cannot_be() -> None:
    for options in ({"auto_offset_reset": "middle"}, {"isolation_level": "dirty"}, {"value_deserializer": "avro"}):
        with pytest.raises(ValueError):
            Consumer(**options)  # type: ignore[arg-type]


def test_a_session_that_the_broker_forgot_begins_again() -> None:
    cluster = FakeCluster({"t": 1})
    fill(cluster, T0, 3)
    m = messages.fetch_response
    cluster.script[ApiKey.FETCH].append(m.FetchResponse(error_code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND))

    async def scenario() -> None:
        async with consumer(cluster) as target:
            target.assign([T0])
            assert await offsets(target, 3) == [0, 1, 2]

    run(scenario())
