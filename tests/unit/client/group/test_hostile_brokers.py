"""Coordinators that lie or refuse for ever, and assignors that fail: a member names the error or tries again with pauses."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from kafkalite.client.errors import ClientError
from kafkalite.client.group.consumer_protocol import Assignment, encode_assignment
from kafkalite.errors import ErrorCode
from kafkalite.protocol import messages
from kafkalite.protocol.apis import ApiKey
from kafkalite.types import TopicPartition
from tests.unit.client.consumer.scripted_consumer import fill
from tests.unit.client.fake_broker import FakeCluster
from tests.unit.client.group.scripted_group import group_cluster, joined, synced
from tests.unit.client.hostile_broker import REQUESTS_A_SECOND, SECONDS, T0, Always, consumer, run


def nowhere(**facts: Any) -> Any:
    m = messages.find_coordinator_response
    return m.FindCoordinatorResponse(
        coordinators=[m.Coordinator(**{"key": "g", "node_id": 9, "host": "nowhere", "port": 1, **facts})]
    )


RETRIED: dict[str, dict[str, Any]] = {
    "a coordinator nowhere": {"find_coordinator": nowhere()},
    "no coordinator": {"find_coordinator": messages.find_coordinator_response.FindCoordinatorResponse()},
    "a member nobody knows": {"join_group": joined(error_code=ErrorCode.UNKNOWN_MEMBER_ID)},
    "an id first, for ever": {"join_group": joined(error_code=ErrorCode.MEMBER_ID_REQUIRED)},
    "another generation": {"join_group": joined(error_code=ErrorCode.ILLEGAL_GENERATION)},
    "rebalancing": {"join_group": joined(error_code=ErrorCode.REBALANCE_IN_PROGRESS)},
    "rebalancing later": {"sync_group": synced(error_code=ErrorCode.REBALANCE_IN_PROGRESS)},
    "unknown later": {"sync_group": synced(error_code=ErrorCode.UNKNOWN_MEMBER_ID)},
    "a generation below zero": {"join_group": joined(generation_id=-1)},
    "no member id": {"join_group": joined(member_id="")},
    "joins that time out": {"join_group": joined(error_code=ErrorCode.REQUEST_TIMED_OUT)},
    "loading": {"join_group": joined(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)},
    "moved": {"join_group": joined(error_code=ErrorCode.NOT_COORDINATOR)},
    "no committed offsets of the group": {"offset_fetch": messages.offset_fetch_response.OffsetFetchResponse()},
    "committed offsets of no partition": {
        "offset_fetch": messages.offset_fetch_response.OffsetFetchResponse(
            groups=[messages.offset_fetch_response.OffsetFetchResponseGroup(group_id="g")]
        )
    },
    "heartbeats that say rebalance": {
        "heartbeat": messages.heartbeat_response.HeartbeatResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS)
    },
    "heartbeats that say unknown": {
        "heartbeat": messages.heartbeat_response.HeartbeatResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID)
    },
}


@pytest.mark.parametrize("kind", RETRIED)
def test_a_member_pauses_between_questions_that_lead_nowhere(kind: str) -> None:
    async def scenario(cluster: FakeCluster) -> None:
        async with consumer(cluster, group_id="g", enable_auto_commit=False) as target:
            target.subscribe(["t"])
            for _ in range(SECONDS):
                assert await target.getmany(timeout_ms=1000) == {}
            assert len(cluster.requests) < SECONDS * REQUESTS_A_SECOND

    run(scenario, group_cluster(**RETRIED[kind]))


ENDED: dict[str, tuple[dict[str, Any], str]] = {
    "an assignor that nobody offered": ({"join_group": joined(protocol_name="chosen")}, "chose chosen"),
    "an assignment that is none": ({"sync_group": synced(assignment=b"\0\1\0\0\0\5abc")}, "assignment cannot be read"),
    "a million topics in ten bytes": (
        {"sync_group": synced(assignment=b"\0\1\0\x0f\xff\xff" + bytes(4))},
        "cannot be read",
    ),
    "a code that nobody knows": ({"join_group": joined(error_code=999)}, "999"),
    "subscriptions that are none": (
        {
            "join_group": joined(
                leader="m1",
                members=[
                    messages.join_group_response.JoinGroupResponseMember(member_id="m1", metadata=b"\0\3\0\0\0\7x")
                ],
            )
        },
        "subscription",
    ),
}


@pytest.mark.parametrize("kind", ENDED)
def test_a_group_that_cannot_be_understood_is_named(kind: str) -> None:
    answers, words = ENDED[kind]

    async def scenario(cluster: FakeCluster) -> None:
        async with consumer(cluster, group_id="g", enable_auto_commit=False) as target:
            target.subscribe(["t"])
            with pytest.raises(ClientError, match=words):
                await target.getmany(timeout_ms=60_000)
            with pytest.raises(ClientError, match=words):
                await target.getmany(timeout_ms=60_000)

    run(scenario, group_cluster(**answers))


def test_only_topics_that_were_subscribed_to_are_read() -> None:
    given = encode_assignment(Assignment((TopicPartition("other", 0), T0, T0, TopicPartition("t", -4))))

    async def scenario(cluster: FakeCluster) -> None:
        async with consumer(cluster, group_id="g", enable_auto_commit=False) as target:
            target.subscribe(["t"])
            await target.getmany(timeout_ms=2000)
            assert target.assignment() == {T0}

    run(scenario, group_cluster(sync_group=synced(assignment=given)))


class Broken:
    """An assignor of the program that fails where `at` says."""

    name, cooperative = "broken", False

    def __init__(self, at: str) -> None:
        self.at = at

    def user_data(self, *_: Any) -> bytes | None:
        if self.at == "user_data":
            raise RuntimeError("mistake")
        return None

    def assign(self, counts: Any, members: Any) -> Any:
        if self.at == "assign":
            raise RuntimeError("mistake")
        return {member: [("nothing", "right")] for member in members}


@pytest.mark.parametrize("at", ["assign", "user_data", "result"])
@pytest.mark.parametrize("iterate", [False, True])
def test_an_assignor_that_raises_is_heard_of(at: str, iterate: bool) -> None:
    """It used to end the membership's task in silence, and the program waited for ever."""

    def lead(_: int, request: Any) -> Any:
        m = messages.join_group_response
        member = m.JoinGroupResponseMember(member_id="m1", metadata=request.protocols[0].metadata)
        return joined(leader="m1", protocol_name="broken", members=[member])

    async def scenario(cluster: FakeCluster) -> None:
        options = {"group_id": "g", "partition_assignment_strategy": [Broken(at)], "enable_auto_commit": False}
        async with consumer(cluster, **options) as target:
            target.subscribe(["t"])
            with pytest.raises(ClientError, match="assignor failed") as failed:
                if iterate:
                    await anext(target)
                else:
                    await target.getmany(timeout_ms=60_000)
            if at != "result":
                assert isinstance(failed.value.__cause__, RuntimeError)

    run(scenario, group_cluster(join_group=lead))


def test_a_commit_whose_answer_lacks_a_partition_is_no_success() -> None:
    async def scenario(cluster: FakeCluster) -> None:
        async with consumer(cluster, group_id="g", default_api_timeout_ms=3000) as target:
            target.assign([T0])
            with pytest.raises(ClientError, match="lacks t-0"):
                await target.commit({T0: 5})
            assert cluster.script[ApiKey.OFFSET_COMMIT].count < 3 * REQUESTS_A_SECOND
            await target.close(commit=False)

    run(scenario, group_cluster())


def test_an_assigned_partition_that_brokers_do_not_know_yet_is_waited_for() -> None:
    """The group's leader has seen it, so brokers that deny it have not heard of it yet; the lies found it (seed 240914)."""
    cluster = group_cluster()
    fill(cluster, T0, 3)

    def forget(_: int, __: Any) -> Exception:
        topics = dict(cluster.topics)
        cluster.topics.clear()
        cluster.script[ApiKey.LIST_OFFSETS].clear()
        asyncio.get_running_loop().call_later(2, cluster.topics.update, topics)
        return ConnectionError("closed")

    cluster.script[ApiKey.LIST_OFFSETS] = Always(forget)

    async def scenario(_: FakeCluster) -> None:
        async with consumer(cluster, group_id="g", auto_offset_reset="earliest", request_timeout_ms=200) as target:
            target.subscribe(["t"])
            records = await target.getmany(timeout_ms=10_000)
            assert [each.offset for each in records[T0]] == [0, 1, 2]
        assert len(cluster.requests_of(ApiKey.LIST_OFFSETS)) == 2

    run(scenario, cluster)
