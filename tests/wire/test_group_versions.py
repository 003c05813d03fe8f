"""Every version of every group API, spoken to a live coordinator: a member's whole life, and an administrator's questions."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from kafkalite.errors import ErrorCode
from kafkalite.net.connection import Connection
from kafkalite.protocol import messages
from kafkalite.protocol.apis import APIS, ApiKey
from tests.wire.conftest import TopicMaker

pytestmark = pytest.mark.wire

TIMEOUT_S = 20.0
LONGEST = 10
_groups = (f"versions-{number}" for number in itertools.count(1))


def version_of(key: ApiKey, step: int) -> int:
    """The version of an API in one walk through all: from the oldest with offsets in Kafka to the newest, then that."""
    return min(APIS[key].kept_from + step, APIS[key].max_version)


class Speaker:
    """Asks in the versions of step `step`."""

    def __init__(self, connection: Connection, step: int) -> None:
        self._connection, self.step = connection, step

    async def ask(self, request: Any) -> Any:
        return await self._connection.request(request, version_of(request.API.key, self.step), TIMEOUT_S)


@asynccontextmanager
async def coordinator_of(servers: str, group: str, step: int) -> AsyncIterator[Speaker]:
    """A connection to the group's coordinator, found in this step's version."""
    first = await connect(servers.split(",")[0])
    request = messages.find_coordinator_request.FindCoordinatorRequest(coordinator_keys=[group])
    while True:
        (found,) = (await Speaker(first, step).ask(request)).coordinators
        if not found.error_code:
            break
        assert found.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
        await asyncio.sleep(0.1)
    first.close()
    connection = await connect(f"{found.host}:{found.port}")
    yield Speaker(connection, step)
    connection.close()


async def connect(address: str) -> Connection:
    host, port = address.split(":")
    return await Connection.open(host, int(port), client_id="versions", timeout_s=TIMEOUT_S)


async def join(speaker: Speaker, group: str) -> Any:
    m = messages.join_group_request
    member_id = ""
    while True:
        reply = await speaker.ask(
            m.JoinGroupRequest(
                group_id=group,
                session_timeout_ms=10_000,
                rebalance_timeout_ms=10_000,
                member_id=member_id,
                protocol_type="consumer",
                protocols=[m.JoinGroupRequestProtocol(name="range", metadata=b"\0\0\0\0\0\1\0\1t")],
            )
        )
        if reply.error_code not in (ErrorCode.MEMBER_ID_REQUIRED, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS):
            return reply
        member_id = reply.member_id
        await asyncio.sleep(0.05)


def committed(reply: Any) -> list[tuple[int, str | None, int]]:
    (group,) = reply.groups
    assert not group.error_code
    return [(p.committed_offset, p.metadata, p.error_code) for topic in group.topics for p in topic.partitions]


@pytest.mark.parametrize("step", range(LONGEST))
def test_a_members_life(servers: str, make_topic: TopicMaker, step: int) -> None:
    topic, group = make_topic(2), next(_groups)

    async def life() -> None:
        async with coordinator_of(servers, group, step) as speaker:
            joined = await join(speaker, group)
            assert (joined.error_code, joined.generation_id, joined.protocol_name) == (0, 1, "range")
            assert joined.leader == joined.member_id and len(joined.members) == 1
            identity = {"group_id": group, "generation_id": 1, "member_id": joined.member_id}

            s = messages.sync_group_request
            share = s.SyncGroupRequestAssignment(member_id=joined.member_id, assignment=b"share")
            named = {"protocol_type": "consumer", "protocol_name": "range"}
            synced = await speaker.ask(s.SyncGroupRequest(**identity, **named, assignments=[share]))
            assert (synced.error_code, bytes(synced.assignment)) == (0, b"share")
            assert not (await speaker.ask(messages.heartbeat_request.HeartbeatRequest(**identity))).error_code

            c = messages.offset_commit_request
            place = c.OffsetCommitRequestPartition(partition_index=1, committed_offset=7, committed_metadata="m")
            topics = [
                c.OffsetCommitRequestTopic(name=topic, partitions=[place]),
                c.OffsetCommitRequestTopic(name="no-such-topic", partitions=[place]),
            ]
            wanted = c.OffsetCommitRequest(
                group_id=group, generation_id_or_member_epoch=1, member_id=joined.member_id, topics=topics
            )
            codes = {t.name: [p.error_code for p in t.partitions] for t in (await speaker.ask(wanted)).topics}
            assert codes == {topic: [ErrorCode.NONE], "no-such-topic": [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]}

            f = messages.offset_fetch_request
            asked = f.OffsetFetchRequestTopics(name=topic, partition_indexes=[0, 1])
            some = f.OffsetFetchRequest(groups=[f.OffsetFetchRequestGroup(group_id=group, topics=[asked])])
            assert committed(await speaker.ask(some)) == [(-1, "", 0), (7, "m", 0)]
            if version_of(ApiKey.OFFSET_FETCH, step) >= 2:
                everything = f.OffsetFetchRequest(groups=[f.OffsetFetchRequestGroup(group_id=group, topics=None)])
                assert committed(await speaker.ask(everything)) == [(7, "m", 0)]

            d = messages.describe_groups_request
            (described,) = (await speaker.ask(d.DescribeGroupsRequest(groups=[group]))).groups
            assert (described.group_state, described.protocol_data, len(described.members)) == ("Stable", "range", 1)
            listed = await speaker.ask(messages.list_groups_request.ListGroupsRequest())
            assert group in {each.group_id for each in listed.groups}
            doomed = messages.delete_groups_request.DeleteGroupsRequest(groups_names=[group, "no-such-group"])
            codes = {each.group_id: each.error_code for each in (await speaker.ask(doomed)).results}
            assert codes == {group: ErrorCode.NON_EMPTY_GROUP, "no-such-group": ErrorCode.GROUP_ID_NOT_FOUND}

            m = messages.leave_group_request
            leaving = m.LeaveGroupRequest(group_id=group, members=[m.MemberIdentity(member_id=joined.member_id)])
            left = await speaker.ask(leaving)
            assert not left.error_code and not any(each.error_code for each in left.members)
            o = messages.offset_delete_request
            partitions = [o.OffsetDeleteRequestPartition(partition_index=1)]
            gone = o.OffsetDeleteRequest(
                group_id=group, topics=[o.OffsetDeleteRequestTopic(name=topic, partitions=partitions)]
            )
            assert not (await speaker.ask(gone)).error_code
            assert committed(await speaker.ask(some)) == [(-1, "", 0)] * 2
            (described,) = (await speaker.ask(d.DescribeGroupsRequest(groups=[group]))).groups
            assert described.group_state == "Dead", "an empty group goes with its last offset"

    asyncio.run(life())


@pytest.mark.parametrize("step", range(LONGEST))
def test_refusals_have_the_shape_of_their_version(servers: str, step: int) -> None:
    """Of members that are none, and of groups without a name."""

    async def refusals() -> None:
        async with coordinator_of(servers, group := next(_groups), step) as speaker:
            for group_id, code in ((group, ErrorCode.UNKNOWN_MEMBER_ID), ("", ErrorCode.INVALID_GROUP_ID)):
                identity = {"group_id": group_id, "generation_id": 1, "member_id": "nobody"}
                assert (await speaker.ask(messages.heartbeat_request.HeartbeatRequest(**identity))).error_code == code
                s = messages.sync_group_request
                named = {"protocol_type": "consumer", "protocol_name": "range"}
                assert (await speaker.ask(s.SyncGroupRequest(**identity, **named))).error_code == code
                nameless = (await speaker.ask(s.SyncGroupRequest(**identity))).error_code
                is_named = version_of(ApiKey.SYNC_GROUP, step) >= 5
                assert nameless == (ErrorCode.INCONSISTENT_GROUP_PROTOCOL if is_named else code)
                m = messages.join_group_request
                joining = m.JoinGroupRequest(
                    group_id=group_id,
                    session_timeout_ms=10_000,
                    member_id="nobody",
                    protocol_type="consumer",
                    protocols=[m.JoinGroupRequestProtocol(name="range")],
                )
                joined = await speaker.ask(joining)
                assert (joined.error_code, joined.member_id, joined.generation_id) == (code, "nobody", -1)
                leave = messages.leave_group_request
                left = await speaker.ask(
                    leave.LeaveGroupRequest(group_id=group_id, members=[leave.MemberIdentity(member_id="nobody")])
                )
                assert code in (left.error_code, *(each.error_code for each in left.members))

    asyncio.run(refusals())
