"""A scripted cluster with the coordinator of a group that has one member, "m1", which reads partition 0 of the topic "t"."""

from __future__ import annotations

from typing import Any

from kafkalite.client.group.consumer_protocol import Assignment, encode_assignment
from kafkalite.protocol import messages
from kafkalite.protocol.apis import ApiKey
from tests.unit.client.fake_broker import FakeCluster
from tests.unit.client.hostile_broker import T0, Always


def group_cluster(**answers: Any) -> FakeCluster:
    cluster = FakeCluster({"t": 1, "other": 1}, brokers=1)
    m = messages
    join = m.join_group_response.JoinGroupResponse
    coordinator = m.find_coordinator_response.Coordinator(key="g", node_id=1, host="fake", port=9001)
    mine = encode_assignment(Assignment((T0,)))
    normal = {
        "find_coordinator": m.find_coordinator_response.FindCoordinatorResponse(coordinators=[coordinator]),
        "join_group": join(generation_id=1, protocol_name="range", leader="other", member_id="m1"),
        "sync_group": m.sync_group_response.SyncGroupResponse(assignment=mine),
        "heartbeat": m.heartbeat_response.HeartbeatResponse(),
        "leave_group": m.leave_group_response.LeaveGroupResponse(),
        "offset_fetch": committed,
        "offset_commit": m.offset_commit_response.OffsetCommitResponse(),
        **answers,
    }
    for name, answer in normal.items():
        cluster.script[ApiKey[name.upper()]] = Always(answer)
    return cluster


def committed(_: int, request: Any, offset: int = -1) -> Any:
    """Answer OffsetFetch with `offset` for all partitions, -1 for none."""
    m = messages.offset_fetch_response
    topics = [
        m.OffsetFetchResponseTopics(
            name=topic.name,
            partitions=[
                m.OffsetFetchResponsePartitions(partition_index=n, committed_offset=offset)
                for n in topic.partition_indexes
            ],
        )
        for topic in request.groups[0].topics
    ]
    return m.OffsetFetchResponse(groups=[m.OffsetFetchResponseGroup(group_id="g", topics=topics)])


def joined(**facts: Any) -> Any:
    given = {"generation_id": 1, "protocol_name": "range", "leader": "other", "member_id": "m1", **facts}
    return messages.join_group_response.JoinGroupResponse(**given)


def synced(**facts: Any) -> Any:
    return messages.sync_group_response.SyncGroupResponse(**facts)


def beat(*codes: int) -> Always:
    """Heartbeats answered with these codes, and then with none."""
    left = list(codes)
    m = messages.heartbeat_response
    return Always(lambda *_: m.HeartbeatResponse(error_code=left.pop(0) if left else 0))


def commit_answer(code: int = 0) -> Any:
    """Answer OffsetCommit requests with `code` for all partitions."""
    m = messages.offset_commit_response

    def answer(_: int, request: Any) -> Any:
        return m.OffsetCommitResponse(
            topics=[
                m.OffsetCommitResponseTopic(
                    name=topic.name,
                    partitions=[
                        m.OffsetCommitResponsePartition(partition_index=each.partition_index, error_code=code)
                        for each in topic.partitions
                    ],
                )
                for topic in request.topics
            ]
        )

    return answer


def commits(cluster: FakeCluster) -> list[tuple[int, str, int]]:
    """Return the generation, the member id and the first offset of each OffsetCommit so far."""
    return [
        (each.generation_id_or_member_epoch, each.member_id, each.topics[0].partitions[0].committed_offset)
        for each in cluster.requests_of(ApiKey.OFFSET_COMMIT)
    ]
