"""The consumer against a scripted cluster: positions, resets, leaders, order, bounds, decoding."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from kafkalite.client.consumer.consumer import Consumer
from kafkalite.client.errors import (
    ClientClosedError,
    ClientError,
    ClientTimeoutError,
    NoOffsetForPartitionError,
    RecordDeserializationError,
)
from kafkalite.client.record_codec import BatchWriter
from kafkalite.errors import ErrorCode
from kafkalite.protocol import messages
from kafkalite.protocol.apis import ApiKey
from kafkalite.testing.simulation import virtual_time
from kafkalite.types import TopicPartition
from tests.unit.client.fake_broker import HANG, TOPIC_ID, FakeCluster

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def run(coroutine: Coroutine[Any, Any, None]) -> None:
    async def in_time() -> None:
        async with asyncio.timeout(20):
            await coroutine

    virtual_time.run(in_time())


def consumer(cluster: FakeCluster, **options: Any) -> Consumer:
    options = {
        "auto_offset_reset": "earliest",
        "retry_backoff_ms": 2,
        "retry_backoff_max_ms": 10,
        "fetch_max_wait_ms": 20,
        **options,
    }
    return Consumer(bootstrap_servers="fake:9001", opener=cluster.open, **options)


def fill(cluster: FakeCluster, tp: TopicPartition, count: int, *, batch_records: int = 3, first_ms: int = 0) -> None:
    """Records with values "0", "1", … and timestamps in seconds."""
    number = 0
    while number < count:
        writer = BatchWriter(1 << 20)
        for _ in range(min(batch_records, count - number)):
            writer.append(first_ms + number * 1000, b"k", b"%d" % number, [])
            number += 1
        cluster.append(tp, writer.build(0))


async def offsets(target: Consumer, count: int) -> list[int]:
    found = []
    async for record in target:
        found.append(record.offset)
        if len(found) == count:
            break
    return found


def test_all_records_come_once_and_in_order() -> None:
    cluster = FakeCluster({"t": 2})
    fill(cluster, T0, 20)
    fill(cluster, T1, 10)

    async def scenario() -> None:
        async with consumer(cluster, max_poll_records=4) as target:
            target.assign([T0, T1])
            seen: dict[TopicPartition, list[int]] = {T0: [], T1: []}
            while sum(map(len, seen.values())) < 30:
                found = await target.getmany(timeout_ms=1000)
                assert sum(map(len, found.values())) <= 4
                for tp, records in found.items():
                    seen[tp] += [record.offset for record in records]
            assert seen == {T0: list(range(20)), T1: list(range(10))}
            assert await target.getmany(timeout_ms=1) == {}
            assert (await target.position(T0), target.highwater(T0)) == (20, 20)

    run(scenario())


def test_a_record_says_what_it_is() -> None:
    cluster = FakeCluster({"t": 1})
    cluster.epochs[T0] = 4
    fill(cluster, T0, 1, first_ms=77)

    async def scenario() -> None:
        async with consumer(cluster) as target:
            target.assign([("t", 0)])
            record = await target.getone()
            assert record.to_dict() == {
                "topic": "t",
                "partition": 0,
                "offset": 0,
                "timestamp": 77,
                "timestamp_type": 0,
                "key": b"k",
                "value": b"0",
                "headers": (),
                "leader_epoch": 4,
            }
            with pytest.raises(AttributeError):
                record.offset = 5  # type: ignore[misc]

    run(scenario())


def test_seeks() -> None:
    cluster = FakeCluster({"t": 1})
    fill(cluster, T0, 9)

    async def scenario() -> None:
        async with consumer(cluster) as target:
            target.assign([T0])
            target.seek(T0, 4)
            assert await offsets(target, 2) == [4, 5]
            assert await target.position(T0) == 6
            await target.seek_to_beginning()
            assert await offsets(target, 2) == [0, 1]
            await target.seek_to_time(3500)
            assert await offsets(target, 1) == [3], "batches are searched whole by this broker"
            await target.seek_to_time(10**9, T0)
            assert await target.position(T0) == 9, "nothing is that young: the end"
            await target.seek_to_end(T0)
            assert await target.position(T0) == 9
            with pytest.raises(ValueError, match="negative"):
                target.seek(T0, -1)
            with pytest.raises(ValueError, match="t-1 is not assigned"):
                target.seek(T1, 0)

    run(scenario())


def test_the_latest_offset_is_where_a_new_reader_begins() -> None:
    cluster = FakeCluster({"t": 1})
    fill(cluster, T0, 5)

    async def scenario() -> None:
        async with consumer(cluster, auto_offset_reset="latest") as target:
            target.assign([T0])
            assert await target.position(T0) == 5
            fill(cluster, T0, 2)
            assert await offsets(target, 2) == [5, 6]

    run(scenario())


def test_without_a_reset_policy_the_reader_must_seek() -> None:
    cluster = FakeCluster({"t": 1})
    fill(cluster, T0, 5)

    async def scenario() -> None:
        async with consumer(cluster, auto_offset_reset="none") as target:
            target.assign([T0])
            with pytest.raises(NoOffsetForPartitionError, match="no position"):
                await target.getone()
            target.seek(T0, 99)
            with pytest.raises(NoOffsetForPartitionError, match="99, which is out of range"):
                await target.getone()
            target.seek(T0, 3)
            assert (await target.getone()).offset == 3

    run(scenario())


def test_an_offset_that_was_deleted_is_reset_by_the_policy() -> None:
    cluster = FakeCluster({"t": 1})
    cluster.log_starts[T0] = 100
    fill(cluster, T0, 3)

    async def scenario() -> None:
        async with consumer(cluster) as target:
            target.assign([T0])
            target.seek(T0, 7)
            assert (await target.getone()).offset == 100

    run(scenario())


def test_the_reader_follows_the_leader() -> None:
    cluster = FakeCluster({"t": 1})
    fill(cluster, T0, 3)

    async def scenario() -> None:
        async with consumer(cluster) as target:
            target.assign([T0])
            assert await offsets(target, 3) == [0, 1, 2]
            cluster.move_leader(T0, 2)
            fill(cluster, T0, 3)
            assert await offsets(target, 3) == [3, 4, 5]

    run(scenario())
    assert {broker for broker, request in cluster.requests if request.API.key == ApiKey.FETCH} == {1, 2}


def test_a_lost_connection_is_made_again() -> None:
    cluster = FakeCluster({"t": 1})
    fill(cluster, T0, 3)
    cluster.script[ApiKey.FETCH].extend([ConnectionError("reset")] * 3)

    async def scenario() -> None:
        async with consumer(cluster) as target:
            target.assign([T0])
            assert await offsets(target, 3) == [0, 1, 2]

    run(scenario())


def test_brokers_that_know_no_topic_ids_are_asked_by_name() -> None:
    cluster = FakeCluster({"t": 1})
    cluster.max_versions[ApiKey.FETCH] = 11
    fill(cluster, T0, 3)

    async def scenario() -> None:
        async with consumer(cluster) as target:
            target.assign([T0])
            assert await offsets(target, 3) == [0, 1, 2]

    run(scenario())
    assert cluster.requests_of(ApiKey.FETCH)[0].topics[0].topic == "t"


def test_new_brokers_are_asked_by_topic_id() -> None:
    cluster = FakeCluster({"t": 1})
    fill(cluster, T0, 3)

    async def scenario() -> None:
        async with consumer(cluster) as target:
            target.assign([T0])
            assert await offsets(target, 3) == [0, 1, 2]

    run(scenario())
    assert cluster.requests_of(ApiKey.FETCH)[0].topics[0].topic_id == TOPIC_ID


@pytest.mark.parametrize("policy", ["earliest", "latest", "none"])
def test_a_topic_that_was_made_anew_is_read_from_its_beginning(policy: str) -> None:
    """Also when it has as many records as were read of the old one: the old offset is a place in the new log, but means nothing there."""
    cluster = FakeCluster({"t": 1})
    fill(cluster, T0, 3)

    async def scenario() -> None:
        async with consumer(cluster, auto_offset_reset=policy) as target:
            target.assign([T0])
            target.seek(T0, 0)
            assert await offsets(target, 3) == [0, 1, 2]
            cluster.topic_id = bytes(range(1, 17))
            cluster.logs[T0].clear()
            fill(cluster, T0, 6)
            if policy != "none":
                assert await offsets(target, 6) == [0, 1, 2, 3, 4, 5]
                return
            with pytest.raises(NoOffsetForPartitionError):
                await target.getone()
            target.seek(T0, 4)
            assert await offsets(target, 2) == [4, 5]

    run(scenario())


def test_paused_partitions_are_left_out() -> None:
    cluster = FakeCluster({"t": 2})
    fill(cluster, T0, 3)
    fill(cluster, T1, 3)

    async def scenario() -> None:
        async with consumer(cluster) as target:
            target.assign([T0, T1])
            first = await target.getone(T0)
            target.pause(T0)
            assert target.paused() == {T0} and first.offset == 0
            assert await offsets(target, 3) == [0, 1, 2]
            target.resume(T0)
            assert await offsets(target, 2) == [1, 2]

    run(scenario())


def test_pausing_in_the_middle_of_an_iteration_loses_nothing() -> None:
    cluster = FakeCluster({"t": 1})
    fill(cluster, T0, 6, batch_records=6)

    async def scenario() -> None:
        async with consumer(cluster) as target:
            target.assign([T0])
            assert await offsets(target, 2) == [0, 1]
            target.pause(T0)
            assert await target.getmany(timeout_ms=30) == {}
            target.resume(T0)
            assert await offsets(target, 4) == [2, 3, 4, 5]

    run(scenario())


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
