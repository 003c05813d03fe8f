"""Requests to coordinators of groups and transactions, in any version: rows of `test_sick_clusters`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from kafkalite.protocol import messages
from kafkalite.protocol.apis import ApiKey
from tests.peers.sick_cluster import (
    ASKED,
    CONTROLLER,
    DEAD,
    DELETED,
    GROUPS,
    TRANSACTIONAL_IDS,
    UNKNOWN,
    Known,
    partitions_of,
)

Named = tuple[str, Any]
Rows = Callable[[Known], Iterator[Named]]


def _find_coordinator(known: Known) -> Iterator[Named]:
    m = messages.find_coordinator_request.FindCoordinatorRequest
    for broker_id, group in GROUPS.items():
        yield group, m(coordinator_keys=[group])
        if known.version:
            yield TRANSACTIONAL_IDS[broker_id], m(coordinator_keys=[TRANSACTIONAL_IDS[broker_id]], key_type=1)
    yield "the empty group", m(coordinator_keys=[""])
    if known.version >= 4:
        yield "all groups", m(coordinator_keys=list(GROUPS.values()))
    if known.version:
        yield "an odd type", m(coordinator_keys=["x"], key_type=7)


def _offset_commit(_: Known) -> Iterator[Named]:
    m = messages.offset_commit_request
    for broker_id, group in GROUPS.items():
        for generation, member in ((-1, ""), (1, "nobody")):
            topics = [
                m.OffsetCommitRequestTopic(
                    name=topic,
                    partitions=[
                        m.OffsetCommitRequestPartition(partition_index=p, committed_offset=7, committed_metadata="m")
                        for p in partitions_of(topic)
                    ],
                )
                for topic in ASKED
            ]
            yield (
                f"{group}, generation {generation}",
                m.OffsetCommitRequest(
                    group_id=group, generation_id_or_member_epoch=generation, member_id=member, topics=topics
                ),
            )
        yield f"{broker_id} nothing", m.OffsetCommitRequest(group_id=group, topics=[])


def _offset_fetch(known: Known) -> Iterator[Named]:
    m = messages.offset_fetch_request

    def asked(group: str, *topics: str) -> Any:
        made = [
            m.OffsetFetchRequestTopics(name=topic, partition_indexes=list(partitions_of(topic))) for topic in topics
        ]
        return m.OffsetFetchRequestGroup(group_id=group, topics=made)

    for group in GROUPS.values():
        yield group, m.OffsetFetchRequest(groups=[asked(group, *ASKED)])
        yield f"{group}, stable", m.OffsetFetchRequest(groups=[asked(group, *ASKED)], require_stable=True)
        if known.version >= 2:
            everything = m.OffsetFetchRequestGroup(group_id=group, topics=None)
            yield f"all of {group}", m.OffsetFetchRequest(groups=[everything])
    if known.version >= 8:
        yield "all groups", m.OffsetFetchRequest(groups=[asked(group, "moved") for group in GROUPS.values()])


def _group_members(key: ApiKey) -> Callable[[Known], Iterator[Named]]:
    def rows(known: Known) -> Iterator[Named]:
        for group in GROUPS.values():
            yield group, _member_request(key, group)
            if known.version >= 5 and key is ApiKey.JOIN_GROUP:
                request = _member_request(key, group)
                request.group_instance_id = "static"
                request.member_id = "nobody"
                yield f"{group}, static", request

    return rows


def _member_request(key: ApiKey, group: str) -> Any:
    j, s, v = messages.join_group_request, messages.sync_group_request, messages.leave_group_request
    if key is ApiKey.JOIN_GROUP:
        return j.JoinGroupRequest(
            group_id=group,
            session_timeout_ms=10_000,
            rebalance_timeout_ms=10_000,
            member_id="nobody",
            protocol_type="consumer",
            protocols=[j.JoinGroupRequestProtocol(name="range", metadata=b"")],
        )
    if key is ApiKey.SYNC_GROUP:
        return s.SyncGroupRequest(
            group_id=group, generation_id=1, member_id="nobody", protocol_type="consumer", protocol_name="range"
        )
    if key is ApiKey.LEAVE_GROUP:
        return v.LeaveGroupRequest(group_id=group, members=[v.MemberIdentity(member_id="nobody")])
    return messages.heartbeat_request.HeartbeatRequest(group_id=group, generation_id=1, member_id="nobody")


def _describe_groups(_: Known) -> Iterator[Named]:
    m = messages.describe_groups_request.DescribeGroupsRequest
    yield "all groups", m(groups=[*GROUPS.values(), ""])
    yield "nothing", m(groups=[])


def _list_groups(known: Known) -> Iterator[Named]:
    m = messages.list_groups_request.ListGroupsRequest
    yield "all", m()
    if known.version >= 4:
        yield "empty ones", m(states_filter=["Empty"])


def _delete_groups(_: Known) -> Iterator[Named]:
    m = messages.delete_groups_request.DeleteGroupsRequest
    yield "groups", m(groups_names=[GROUPS[DEAD], "group-that-there-is-not", ""])


def _offset_delete(_: Known) -> Iterator[Named]:
    m = messages.offset_delete_request
    for group in (*GROUPS.values(), ""):
        topics = [
            m.OffsetDeleteRequestTopic(
                name=topic,
                partitions=[m.OffsetDeleteRequestPartition(partition_index=p) for p in partitions_of(topic)],
            )
            for topic in (DELETED, UNKNOWN)
        ]
        yield group or "the empty group", m.OffsetDeleteRequest(group_id=group, topics=topics)


def _init_producer_id(_: Known) -> Iterator[Named]:
    m = messages.init_producer_id_request.InitProducerIdRequest
    yield TRANSACTIONAL_IDS[DEAD], m(transactional_id=TRANSACTIONAL_IDS[DEAD], transaction_timeout_ms=60_000)
    yield (
        "a timeout that is too long",
        m(transactional_id=TRANSACTIONAL_IDS[CONTROLLER], transaction_timeout_ms=1 << 30),
    )
    yield "the empty id", m(transactional_id="", transaction_timeout_ms=60_000)


def _transactions(known: Known) -> Iterator[tuple[str, str, int, int]]:
    for name in TRANSACTIONAL_IDS.values():
        producer_id, epoch = known.producers.get(name, (0, 0))
        yield name, name, producer_id, epoch
        yield f"{name}, an old epoch", name, producer_id, epoch - 1


def _add_partitions(known: Known) -> Iterator[Named]:
    m = messages.add_partitions_to_txn_request
    for name, transactional_id, producer_id, epoch in _transactions(known):
        for topics in (ASKED, (DELETED,), ("leaderless",), ("moved",)):
            made = [m.AddPartitionsToTxnTopic(name=topic, partitions=list(partitions_of(topic))) for topic in topics]
            if known.version >= 4:
                transaction = m.AddPartitionsToTxnTransaction(
                    transactional_id=transactional_id, producer_id=producer_id, producer_epoch=epoch, topics=made
                )
                yield f"{name}, {topics}", m.AddPartitionsToTxnRequest(transactions=[transaction])
            else:
                yield (
                    f"{name}, {topics}",
                    m.AddPartitionsToTxnRequest(
                        v3_and_below_transactional_id=transactional_id,
                        v3_and_below_producer_id=producer_id,
                        v3_and_below_producer_epoch=epoch,
                        v3_and_below_topics=made,
                    ),
                )


def _add_offsets(known: Known) -> Iterator[Named]:
    m = messages.add_offsets_to_txn_request.AddOffsetsToTxnRequest
    for name, transactional_id, producer_id, epoch in _transactions(known):
        for group in GROUPS.values():
            yield (
                f"{name}, {group}",
                m(
                    transactional_id=transactional_id,
                    producer_id=producer_id,
                    producer_epoch=epoch,
                    group_id=group,
                ),
            )


def _end_txn(known: Known) -> Iterator[Named]:
    m = messages.end_txn_request.EndTxnRequest
    for name, transactional_id, producer_id, epoch in _transactions(known):
        if transactional_id != TRANSACTIONAL_IDS[CONTROLLER]:
            yield name, m(transactional_id=transactional_id, producer_id=producer_id, producer_epoch=epoch)


def _txn_offset_commit(known: Known) -> Iterator[Named]:
    m = messages.txn_offset_commit_request
    for group in GROUPS.values():
        topics = [
            m.TxnOffsetCommitRequestTopic(
                name=topic,
                partitions=[
                    m.TxnOffsetCommitRequestPartition(partition_index=p, committed_offset=1)
                    for p in partitions_of(topic)
                ],
            )
            for topic in (DELETED, UNKNOWN)
        ]
        transactional_id = TRANSACTIONAL_IDS[CONTROLLER]
        producer_id, epoch = known.producers[transactional_id]
        yield (
            group,
            m.TxnOffsetCommitRequest(
                transactional_id=transactional_id,
                group_id=group,
                producer_id=producer_id,
                producer_epoch=epoch,
                topics=topics,
            ),
        )


def _describe_transactions(_: Known) -> Iterator[Named]:
    m = messages.describe_transactions_request.DescribeTransactionsRequest
    yield "all", m(transactional_ids=[*TRANSACTIONAL_IDS.values(), "transactions-that-there-are-not"])


def _list_transactions(_: Known) -> Iterator[Named]:
    yield "all", messages.list_transactions_request.ListTransactionsRequest()


COORDINATORS_ROWS: Final[Mapping[ApiKey, Rows]] = {
    ApiKey.FIND_COORDINATOR: _find_coordinator,
    ApiKey.OFFSET_COMMIT: _offset_commit,
    ApiKey.OFFSET_FETCH: _offset_fetch,
    ApiKey.OFFSET_DELETE: _offset_delete,
    **{
        key: _group_members(key) for key in (ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP, ApiKey.HEARTBEAT, ApiKey.LEAVE_GROUP)
    },
    ApiKey.DESCRIBE_GROUPS: _describe_groups,
    ApiKey.LIST_GROUPS: _list_groups,
    ApiKey.DELETE_GROUPS: _delete_groups,
    ApiKey.INIT_PRODUCER_ID: _init_producer_id,
    ApiKey.ADD_PARTITIONS_TO_TXN: _add_partitions,
    ApiKey.ADD_OFFSETS_TO_TXN: _add_offsets,
    ApiKey.TXN_OFFSET_COMMIT: _txn_offset_commit,
    ApiKey.END_TXN: _end_txn,
    ApiKey.DESCRIBE_TRANSACTIONS: _describe_transactions,
    ApiKey.LIST_TRANSACTIONS: _list_transactions,
}
