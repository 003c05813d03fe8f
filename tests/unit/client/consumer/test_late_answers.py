"""An error about a place that the consumer has left meanwhile is none: what was asked before a seek is forgotten."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any

import pytest

from kafkalite.client.consumer.consumer import Consumer
from kafkalite.client.errors import ClientError
from kafkalite.errors import ErrorCode
from kafkalite.protocol import messages
from kafkalite.protocol.apis import ApiKey
from kafkalite.types import TopicPartition
from tests.unit.client.consumer.scripted_consumer import T0, consumer, fill, offsets, run
from tests.unit.client.fake_broker import FakeCluster
from tests.unit.client.group.scripted_group import committed, group_cluster
from tests.unit.client.hostile_broker import run as run_against

REFUSED = ErrorCode.TOPIC_AUTHORIZATION_FAILED


def refused_offset() -> Any:
    m = messages.list_offsets_response
    answer = m.ListOffsetsPartitionResponse(partition_index=0, error_code=REFUSED)
    return m.ListOffsetsResponse(topics=[m.ListOffsetsTopicResponse(name="t", partitions=[answer])])


def refused_epoch() -> Any:
    m = messages.offset_for_leader_epoch_response
    answer = m.EpochEndOffset(partition=0, error_code=REFUSED)
    return m.OffsetForLeaderEpochResponse(topics=[m.OffsetForLeaderTopicResult(topic="t", partitions=[answer])])


def refused_group() -> Any:
    m = messages.offset_fetch_response
    group = m.OffsetFetchResponseGroup(group_id="g", error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
    return m.OffsetFetchResponse(groups=[group])


LATE: dict[str, tuple[ApiKey, Callable[[], Any]]] = {
    "a reset": (ApiKey.LIST_OFFSETS, refused_offset),
    "a fetch": (ApiKey.FETCH, lambda: messages.fetch_response.FetchResponse(error_code=REFUSED)),
    "an epoch": (ApiKey.OFFSET_FOR_LEADER_EPOCH, refused_epoch),
    "nonsense as a reset": (ApiKey.LIST_OFFSETS, lambda: RuntimeError("a bug")),
    "nonsense as an epoch": (ApiKey.OFFSET_FOR_LEADER_EPOCH, lambda: RuntimeError("a bug")),
    "nonsense as a fetch": (ApiKey.FETCH, lambda: RuntimeError("a bug")),
}


async def until(condition: Callable[[], Any]) -> None:
    while not condition():
        await asyncio.sleep(0.001)


async def reads_on_from_2(target: Consumer) -> None:
    assert await offsets(target, 4) == [2, 3, 4, 5]
    assert await target.getmany(timeout_ms=500) == {}


@pytest.mark.parametrize("kind", LATE)
def test_a_refusal_that_comes_after_a_seek_is_not_raised(kind: str) -> None:
    api, refusal = LATE[kind]
    cluster = FakeCluster({"t": 1})
    fill(cluster, T0, 6)

    async def scenario() -> None:
        late = asyncio.get_running_loop().create_future()
        async with consumer(cluster) as target:
            if api is ApiKey.OFFSET_FOR_LEADER_EPOCH:
                target.assign([T0])
                assert len(await offsets(target, 6)) == 6
                cluster.move_leader(T0, 2)
            cluster.script[api].append(late)
            target.assign([T0])
            await until(lambda: cluster.requests_of(api))
            target.seek(T0, 2)
            late.set_result(refusal())
            await reads_on_from_2(target)

    run(scenario())


def test_a_refusal_of_committed_offsets_that_comes_after_a_seek_is_not_raised() -> None:
    async def scenario(cluster: FakeCluster) -> None:
        fill(cluster, T0, 6)
        late = asyncio.get_running_loop().create_future()
        cluster.script[ApiKey.OFFSET_FETCH] = deque([late])
        async with consumer(cluster, group_id="g", enable_auto_commit=False) as target:
            target.assign([T0])
            await until(lambda: cluster.requests_of(ApiKey.OFFSET_FETCH))
            target.seek(T0, 2)
            late.set_result(refused_group())
            await reads_on_from_2(target)

    run_against(scenario, group_cluster())


def test_a_partition_that_came_during_a_refused_look_up_is_looked_up_too() -> None:
    """Nobody would begin another look-up for it."""
    other = TopicPartition("other", 0)

    async def scenario(cluster: FakeCluster) -> None:
        fill(cluster, other, 3)
        late = asyncio.get_running_loop().create_future()
        cluster.script[ApiKey.OFFSET_FETCH] = deque([late, committed])
        async with consumer(cluster, group_id="g", enable_auto_commit=False) as target:
            target.assign([T0])
            await until(lambda: cluster.requests_of(ApiKey.OFFSET_FETCH))
            target.assign([T0, other])
            late.set_result(refused_group())
            assert await target.position(other, 1) == 0
            with pytest.raises(ClientError, match="GROUP_AUTHORIZATION_FAILED"):
                await target.position(T0, 1)

    run_against(scenario, group_cluster())
