"""OffsetCommit and TxnOffsetCommit: validation of the member, and one batch of offsets for each request.

A transactional commit is fenced by member and generation if it has them (KIP-447); it is accepted during a rebalance, because it
completes the processing of records consumed before.
"""

from __future__ import annotations

from kafkalite.coordinators.contract import Decision, DraftRecord, Ticket
from kafkalite.coordinators.group.group import Group, GroupState
from kafkalite.coordinators.group.group_record import NO_TIMESTAMP
from kafkalite.coordinators.group.offset_record import NO_EXPIRY, CommittedOffset, encode_key, encode_value
from kafkalite.coordinators.group.rebalance import restart_session
from kafkalite.coordinators.group.requests import NO_MEMBER_ID, CommitOffsets, OffsetToCommit
from kafkalite.coordinators.store_errors import offset_store_error
from kafkalite.errors import ErrorCode
from kafkalite.types import TopicPartition

_OFFSET_BATCH_SEQUENCE = 0
"""Base sequence of offset batches, which Kafka writes although they have no producer."""


def commit_offsets(group: Group, request: CommitOffsets, ticket: Ticket, decision: Decision) -> None:
    """Append the offsets, and answer an ErrorCode for each once they are committed."""
    refusal = _check_request(group, request)
    if refusal:
        decision.answer(ticket, [refusal] * len(request.offsets))
        return
    transaction = request.transaction
    member = group.members.get(request.member_id)
    if member is not None and transaction is None:
        restart_session(group, member, decision)
    limit = group.settings.offset_metadata_max_bytes
    codes = [
        ErrorCode.OFFSET_METADATA_TOO_LARGE if len(each.metadata) > limit else ErrorCode.NONE
        for each in request.offsets
    ]
    accepted = [each for each, code in zip(request.offsets, codes, strict=True) if not code]
    if not accepted:
        decision.answer(ticket, codes)
        return
    partitions = [TopicPartition(each.topic, each.partition) for each in accepted]

    def then(code: ErrorCode, later: Decision) -> None:
        if transaction is None:
            group.offsets.remove_pending(partitions)
        elif code is not ErrorCode.REQUEST_TIMED_OUT:
            group.offsets.remove_pending_transactional(transaction.producer_id, partitions)
        outcome = offset_store_error(code)
        later.answer(ticket, [before or outcome for before in codes])

    if transaction is None:
        group.offsets.add_pending(partitions)
    else:
        group.offsets.add_pending_transactional(transaction.producer_id, partitions)
    wall_ms = decision.now.wall_ms
    expiry = NO_EXPIRY if request.retention_ms == -1 else wall_ms + request.retention_ms
    records = [_build_record(group, each, wall_ms, expiry) for each in accepted]
    decision.append(records, then, base_sequence=_OFFSET_BATCH_SEQUENCE, transaction=transaction)


def _check_request(group: Group, request: CommitOffsets) -> ErrorCode:
    if group.state is GroupState.DEAD:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    if request.generation < 0 and group.state is GroupState.EMPTY:
        return ErrorCode.NONE  # a consumer that assigns itself, or an administrator
    if request.generation < 0 and request.member_id == NO_MEMBER_ID and request.instance_id is None:
        return ErrorCode.NONE if request.transaction else ErrorCode.UNKNOWN_MEMBER_ID
    code = group.check_member(request.member_id, request.instance_id)
    if code:
        return code
    if request.generation != group.generation:
        return ErrorCode.ILLEGAL_GENERATION
    if request.transaction:
        return ErrorCode.NONE
    # The member knows the new generation but not its assignment, so the offsets are of the old one.
    return ErrorCode.REBALANCE_IN_PROGRESS if group.state is GroupState.COMPLETING else ErrorCode.NONE


def _build_record(group: Group, each: OffsetToCommit, wall_ms: int, expiry: int) -> DraftRecord:
    committed_ms = wall_ms if each.timestamp_ms == NO_TIMESTAMP else each.timestamp_ms
    committed = CommittedOffset(each.offset, each.leader_epoch, each.metadata, committed_ms, expiry)
    return DraftRecord(
        encode_key(group.group_id, each.topic, each.partition),
        encode_value(committed, group.settings.offset_value_version),
    )
