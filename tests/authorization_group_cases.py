"""Requests of the matrix that are about one group or one transactional id each: see `authorization_cases`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kafkalite.protocol import messages
from kafkalite.protocol.apis import ApiKey
from tests.authorization_callers import NAMES, OPEN, Case


def topics(kind: Any, items: str, *partitions: Any, name: str = "name") -> list[Any]:
    """One item for each name."""
    return [kind(**{name: each, items: list(partitions)}) for each in NAMES]


def of_names() -> Iterator[Case]:
    """One request for each name, where a request has one."""
    m = messages
    commit, fetched, txn_commit = m.offset_commit_request, m.offset_fetch_request, m.txn_offset_commit_request
    adding, joining, finding = m.add_partitions_to_txn_request, m.join_group_request, m.find_coordinator_request
    for key_type, kind in enumerate(("of groups", "of ids")):
        request = finding.FindCoordinatorRequest(key_type=key_type, coordinator_keys=list(NAMES))
        yield Case(ApiKey.FIND_COORDINATOR, request, 4, kind)
    for name in NAMES:
        for key_type, kind in enumerate(("of group", "of id")):
            request = finding.FindCoordinatorRequest(key_type=key_type, coordinator_keys=[name])
            yield Case(ApiKey.FIND_COORDINATOR, request, key_type, f"{kind} {name}", 3)
        yield from (
            Case(
                ApiKey.OFFSET_COMMIT,
                commit.OffsetCommitRequest(
                    group_id=name,
                    generation_id_or_member_epoch=5,
                    member_id="x",
                    topics=topics(
                        commit.OffsetCommitRequestTopic,
                        "partitions",
                        commit.OffsetCommitRequestPartition(partition_index=0),
                    ),
                ),
                0,
                name,
            ),
            Case(
                ApiKey.OFFSET_FETCH,
                fetched.OffsetFetchRequest(
                    groups=[
                        fetched.OffsetFetchRequestGroup(
                            group_id=name, topics=topics(fetched.OffsetFetchRequestTopics, "partition_indexes", 0)
                        )
                    ]
                ),
                0,
                name,
            ),
            Case(
                ApiKey.JOIN_GROUP,
                joining.JoinGroupRequest(
                    group_id=name,
                    member_id="x",
                    session_timeout_ms=10_000,
                    rebalance_timeout_ms=10_000,
                    protocol_type="consumer",
                    protocols=[joining.JoinGroupRequestProtocol(name="p", metadata=b"")],
                ),
                0,
                name,
            ),
            Case(ApiKey.HEARTBEAT, m.heartbeat_request.HeartbeatRequest(group_id=name, member_id="x"), 0, name),
            Case(
                ApiKey.LEAVE_GROUP,
                m.leave_group_request.LeaveGroupRequest(
                    group_id=name, members=[m.leave_group_request.MemberIdentity(member_id="x")]
                ),
                0,
                name,
            ),
            Case(
                ApiKey.SYNC_GROUP,
                m.sync_group_request.SyncGroupRequest(
                    group_id=name, member_id="x", protocol_type="consumer", protocol_name="p"
                ),
                0,
                name,
            ),
            Case(
                ApiKey.INIT_PRODUCER_ID,
                m.init_producer_id_request.InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=1000),
                0,
                name,
            ),
            Case(
                ApiKey.ADD_OFFSETS_TO_TXN,
                m.add_offsets_to_txn_request.AddOffsetsToTxnRequest(
                    transactional_id=name, producer_id=77, producer_epoch=0, group_id=OPEN
                ),
                0,
                name,
            ),
            Case(
                ApiKey.END_TXN,
                m.end_txn_request.EndTxnRequest(transactional_id=name, producer_id=77, producer_epoch=0),
                0,
                name,
            ),
            Case(
                ApiKey.TXN_OFFSET_COMMIT,
                txn_commit.TxnOffsetCommitRequest(
                    transactional_id=name,
                    group_id=OPEN,
                    producer_id=77,
                    producer_epoch=0,
                    topics=topics(
                        txn_commit.TxnOffsetCommitRequestTopic,
                        "partitions",
                        txn_commit.TxnOffsetCommitRequestPartition(partition_index=0),
                    ),
                ),
                0,
                name,
            ),
            Case(
                ApiKey.DELETE_TOPICS,
                m.delete_topics_request.DeleteTopicsRequest(
                    topics=[m.delete_topics_request.DeleteTopicState(name=f"{name}-absent")], timeout_ms=1000
                ),
                0,
                name,
            ),
        )
        yield Case(
            ApiKey.ADD_PARTITIONS_TO_TXN,
            adding.AddPartitionsToTxnRequest(
                v3_and_below_transactional_id=name,
                v3_and_below_producer_id=77,
                v3_and_below_topics=topics(adding.AddPartitionsToTxnTopic, "partitions", 0),
            ),
            0,
            f"of id {name}",
            3,
        )
        yield Case(
            ApiKey.CONSUMER_GROUP_HEARTBEAT,
            m.consumer_group_heartbeat_request.ConsumerGroupHeartbeatRequest(
                group_id=name, member_id="x", member_epoch=1
            ),
            0,
            name,
        )
    yield Case(
        ApiKey.ADD_PARTITIONS_TO_TXN,
        adding.AddPartitionsToTxnRequest(
            transactions=[
                adding.AddPartitionsToTxnTransaction(
                    transactional_id=OPEN,
                    producer_id=77,
                    verify_only=True,
                    topics=topics(adding.AddPartitionsToTxnTopic, "partitions", 0),
                )
            ]
        ),
        4,
    )
