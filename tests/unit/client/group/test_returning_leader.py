"""A static leader that comes back to a stable group (KIP-814): which partitions it lets the group assign, and when the group rests."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from kafkalite.client.consumer.consumer import Consumer
from kafkalite.client.group.consumer_protocol import (
    Assignment,
    Subscription,
    decode_assignment,
    encode_assignment,
    encode_subscription,
)
from kafkalite.errors import ErrorCode
from kafkalite.protocol import messages
from kafkalite.protocol.apis import ApiKey
from kafkalite.types import TopicPartition
from tests.unit.client.fake_broker import HANG, FakeCluster
from tests.unit.client.group.scripted_group import group_cluster, joined
from tests.unit.client.hostile_broker import T0, consumer, run

OTHER_0 = TopicPartition("other", 0)


def described(*partitions: TopicPartition, **facts: Any) -> Any:
    """Return a DescribeGroups response: `partitions` are assigned to a member each."""
    m = messages.describe_groups_response
    members = [
        m.DescribedGroupMember(member_id=f"m{number}", member_assignment=encode_assignment(Assignment((each,))))
        for number, each in enumerate(partitions, start=1)
    ]
    return m.DescribeGroupsResponse(groups=[m.DescribedGroup(group_id="g", members=members, **facts)])


def returning_cluster(assigned: Any, partitions: int = 1) -> FakeCluster:
    """Return a cluster whose coordinator lets "m1" lead again, beside "m2" which reads the topic "other", and keeps what is `assigned`;
    when "m1" joins once more, it is to assign."""
    joins = 0

    def lead(_: int, request: Any) -> Any:
        nonlocal joins
        joins += 1
        member = messages.join_group_response.JoinGroupResponseMember
        other = encode_subscription(Subscription(("other",)))
        members = [
            member(member_id="m1", metadata=request.protocols[0].metadata),
            member(member_id="m2", metadata=other),
        ]
        return joined(leader="m1", members=members, generation_id=joins, skip_assignment=joins == 1)

    cluster = group_cluster(join_group=lead, describe_groups=assigned)
    for number in range(1, partitions):
        add_partition(cluster, TopicPartition("t", number))
    return cluster


def add_partition(cluster: FakeCluster, partition: TopicPartition) -> None:
    cluster.topics[partition.topic], cluster.leaders[partition] = partition.partition + 1, 1


@asynccontextmanager
async def reading(cluster: FakeCluster) -> AsyncIterator[Consumer]:
    """Have a program read as the static member that came back; it has its assignment."""
    target = consumer(cluster, group_id="g", group_instance_id="i", enable_auto_commit=False, request_timeout_ms=2000)
    await target.connect()
    target.subscribe(["t"])
    program = asyncio.create_task(target.getone())
    try:
        async with asyncio.timeout(5):
            while target.assignment() != {T0}:
                await asyncio.sleep(0.01)
        yield target
    finally:
        program.cancel()
        await target.close(commit=False)


async def joins_after(cluster: FakeCluster, wait_s: float = 10.0) -> int:
    """Return how often the member has joined after some virtual time, in which metadata is looked at again."""
    await asyncio.sleep(wait_s)
    return len(cluster.requests_of(ApiKey.JOIN_GROUP))


def test_the_group_rests_when_everything_is_assigned() -> None:
    """It used to rebalance at the first look at metadata, whenever a static leader came back."""

    async def scenario(cluster: FakeCluster) -> None:
        async with reading(cluster) as target:
            await target._cluster.refresh()
            assert await joins_after(cluster) == 1
            first = cluster.requests_of(ApiKey.SYNC_GROUP)[0]
            assert first.assignments == []

    run(scenario, returning_cluster(described(T0, OTHER_0)))


def test_partitions_that_came_while_the_leader_was_away_are_assigned() -> None:
    """Seed 411414 of the lies: it took all that it found for assigned, and no member read the new partition."""

    async def scenario(cluster: FakeCluster) -> None:
        async with reading(cluster):
            assert await joins_after(cluster) == 2
            given = cluster.requests_of(ApiKey.SYNC_GROUP)[1].assignments
            assigned = {each.member_id: decode_assignment(each.assignment).partitions for each in given}
            assert assigned == {"m1": (T0, TopicPartition("t", 1)), "m2": (OTHER_0,)}
            assert await joins_after(cluster) == 2, "all is assigned now"
            assert len(cluster.requests_of(ApiKey.DESCRIBE_GROUPS)) == 1, "who assigns knows what is assigned"

    run(scenario, returning_cluster(described(T0, OTHER_0), partitions=2))


@pytest.mark.parametrize("topic", ["t", "other"])
def test_partitions_that_come_later_are_assigned(topic: str) -> None:
    """Of topics too that only other members read."""

    async def scenario(cluster: FakeCluster) -> None:
        async with reading(cluster) as target:
            assert await joins_after(cluster) == 1
            add_partition(cluster, TopicPartition(topic, 1))
            await target._cluster.refresh()
            assert await joins_after(cluster) == 2

    run(scenario, returning_cluster(described(T0, OTHER_0)))


@pytest.mark.parametrize(
    "answer",
    [
        lambda *_: described(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED),
        lambda *_: messages.describe_groups_response.DescribeGroupsResponse(),
        lambda *_: described_by_bytes(b"\x00"),
        lambda *_: ConnectionError("the broker is gone"),
        lambda *_: HANG,
    ],
    ids=["refused", "empty", "unreadable", "broken", "silent"],
)
def test_a_coordinator_that_does_not_say_what_is_assigned_has_the_group_rebalance_once(answer: Any) -> None:
    async def scenario(cluster: FakeCluster) -> None:
        async with reading(cluster):
            assert await joins_after(cluster) == 2
            assert await joins_after(cluster) == 2, "it knows what it assigned"

    run(scenario, returning_cluster(answer))


def described_by_bytes(assignment: bytes) -> Any:
    m = messages.describe_groups_response
    member = m.DescribedGroupMember(member_id="m1", member_assignment=assignment)
    return m.DescribeGroupsResponse(groups=[m.DescribedGroup(group_id="g", members=[member])])
