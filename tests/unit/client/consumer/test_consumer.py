"""The consumer against a scripted cluster: positions, resets, leaders, order, bounds, decoding."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from kafkalite.client.errors import (
    NoOffsetForPartitionError,
)
from kafkalite.protocol.apis import ApiKey
from kafkalite.types import TopicPartition
from tests.unit.client.consumer.scripted_consumer import T0, T1, consumer, fill, offsets, run
from tests.unit.client.fake_broker import TOPIC_ID, FakeCluster


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


def test_a_topic_that_brokers_do_not_know_after_their_start_is_waited_for() -> None:
    """A broker that has just started knows no topic yet, and says so when the time for the question is over."""
    cluster = FakeCluster({"t": 1})
    fill(cluster, T0, 3)

    def restart(_: int, __: Any) -> Exception:
        asyncio.get_running_loop().call_later(0.25, cluster.topics.update, dict(cluster.topics))
        cluster.topics.clear()
        return ConnectionError("closed")

    cluster.script[ApiKey.LIST_OFFSETS].append(restart)

    async def scenario() -> None:
        async with consumer(cluster, request_timeout_ms=200) as target:
            target.assign([T0])
            assert await offsets(target, 3) == [0, 1, 2]
        assert len(cluster.requests_of(ApiKey.LIST_OFFSETS)) == 2

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
