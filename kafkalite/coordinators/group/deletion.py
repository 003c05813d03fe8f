"""Deletion of offsets and groups: by OffsetDelete and DeleteGroups, with their topics, and by expiry.

Deletions are tombstones, applied when they are committed. They are also answered then, unlike in Kafka, which answers when they are
appended and may lose them with the leader.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from kafkalite.coordinators.contract import Decision, DraftRecord, Ticket
from kafkalite.coordinators.group import group_record, offset_record
from kafkalite.coordinators.group.group import Group, GroupState
from kafkalite.coordinators.group.group_record import NO_TIMESTAMP
from kafkalite.coordinators.group.offset_record import NO_EXPIRY, CommittedOffset
from kafkalite.coordinators.group.requests import DeleteOffsets, DeleteOffsetsReply
from kafkalite.coordinators.store_errors import offset_store_error
from kafkalite.errors import ErrorCode
from kafkalite.types import TopicPartition

logger = logging.getLogger("kafkalite.coordinators.group")

_BATCH_RECORDS = 1000
_BATCH_KEY_BYTES = 256 * 1024
"""Bounds of a batch of tombstones, which must stay below max.message.bytes: a group id alone may take 32 KiB of each key."""


def delete_group(group: Group, ticket: Ticket, decision: Decision, forget: Callable[[Group], None]) -> None:
    """Delete a group and answer an ErrorCode. `forget(group)` drops it from memory once the log has nothing of it."""
    if group.state is GroupState.DEAD:
        decision.answer(ticket, ErrorCode.GROUP_ID_NOT_FOUND)
        return
    if group.state is not GroupState.EMPTY:
        decision.answer(ticket, ErrorCode.NON_EMPTY_GROUP)
        return

    tombstone_group(group, decision, forget, lambda code, later: later.answer(ticket, offset_store_error(code)))


def tombstone_group(
    group: Group,
    decision: Decision,
    forget: Callable[[Group], None],
    done: Callable[[ErrorCode, Decision], None],
) -> None:
    """Make a group dead and append tombstones for all its records; if that fails the group is empty again."""

    def on_append(code: ErrorCode, later: Decision) -> None:
        if code not in (ErrorCode.NONE, ErrorCode.REQUEST_TIMED_OUT):
            group.state = GroupState.EMPTY
        forget(group)
        done(code, later)

    for member_id in sorted(group.pending_ids):
        decision.cancel_timer(group.pending_timer(member_id))
    group.pending_ids.clear()
    group.transition_to(GroupState.DEAD, decision.now.wall_ms)
    records = _offset_tombstones(group, sorted(group.offsets.partitions()))
    if group.stored_value is not None or group.generation > 0:
        records.append(DraftRecord(group_record.encode_key(group.group_id), None))
    append_tombstones(records, decision, on_append)


def _is_unused_after(group: Group, gone: Collection[TopicPartition]) -> bool:
    """True if nothing is left of the group after these offsets are deleted."""
    return (
        group.state is GroupState.EMPTY
        and len(group.offsets) <= len(gone)  # a cheap test before the sets are compared
        and not group.pending_ids
        and not group.offsets.has_transactions
        and group.offsets.partitions() <= set(gone)
    )


def delete_offsets(
    group: Group, request: DeleteOffsets, ticket: Ticket, decision: Decision, forget: Callable[[Group], None]
) -> None:
    """Delete offsets of topics without subscribers, an empty group with its last offset; answer a DeleteOffsetsReply."""
    if group.state is GroupState.DEAD:
        decision.answer(ticket, DeleteOffsetsReply(ErrorCode.GROUP_ID_NOT_FOUND))
        return
    is_used = group.state is not GroupState.EMPTY
    if is_used and not group.uses_consumer_protocol:
        decision.answer(ticket, DeleteOffsetsReply(ErrorCode.NON_EMPTY_GROUP))
        return
    codes = [
        ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC if is_used and group.is_subscribed(each.topic) else ErrorCode.NONE
        for each in request.partitions
    ]
    gone = [
        each
        for each, code in zip(request.partitions, codes, strict=True)
        if not code and group.offsets.has_offset(each)
    ]

    def complete_deletion(code: ErrorCode, later: Decision) -> None:
        outcome = offset_store_error(code)
        later.answer(ticket, DeleteOffsetsReply(ErrorCode.NONE, [before or outcome for before in codes]))

    if _is_unused_after(group, gone):
        tombstone_group(group, decision, forget, complete_deletion)
    else:
        append_tombstones(_offset_tombstones(group, gone), decision, complete_deletion)


def _offset_tombstones(group: Group, partitions: Iterable[TopicPartition]) -> list[DraftRecord]:
    return [DraftRecord(offset_record.encode_key(group.group_id, *each), None) for each in partitions]


def append_tombstones(
    records: list[DraftRecord], decision: Decision, done: Callable[[ErrorCode, Decision], None]
) -> None:
    """Append in batches of bounded size; `done` gets the first error after all of them, or NONE at once without records."""
    if not records:
        done(ErrorCode.NONE, decision)
        return
    portions = _divide_tombstones(records)
    outcomes: list[ErrorCode] = []

    def then(code: ErrorCode, later: Decision) -> None:
        outcomes.append(code)
        if len(outcomes) == len(portions):
            done(next((each for each in outcomes if each), ErrorCode.NONE), later)

    for portion in portions:
        decision.append(portion, then)


def _divide_tombstones(records: Iterable[DraftRecord]) -> list[list[DraftRecord]]:
    portions: list[list[DraftRecord]] = [[]]
    room = _BATCH_KEY_BYTES
    for record in records:
        room -= len(record.key)
        if room < 0 or len(portions[-1]) == _BATCH_RECORDS:
            portions.append([])
            room = _BATCH_KEY_BYTES - len(record.key)
        portions[-1].append(record)
    return portions


# Expiry and deleted topics


def expire_offsets(groups: Iterable[Group], decision: Decision, forget: Callable[[Group], None]) -> None:
    """Delete expired offsets; what fails is retried at the next check."""
    wall_ms = decision.now.wall_ms
    _delete_offsets_and_groups(((group, find_expired_offsets(group, wall_ms)) for group in groups), decision, forget)


def forget_partitions(
    groups: Iterable[Group],
    by_topic: Mapping[str, Sequence[TopicPartition]],
    decision: Decision,
    forget: Callable[[Group], None],
) -> None:
    """Delete the offsets of deleted partitions in all groups."""
    found = ((group, group.offsets.find_offsets_of(by_topic)) for group in groups)
    _delete_offsets_and_groups(((group, gone) for group, gone in found if gone), decision, forget)


def _delete_offsets_and_groups(
    groups: Iterable[tuple[Group, list[TopicPartition]]], decision: Decision, forget: Callable[[Group], None]
) -> None:
    """Delete offsets, and the groups that are unused without them."""
    records: list[DraftRecord] = []
    for group, gone in groups:
        if group.is_blank or group.is_finished:
            forget(group)
        elif _is_unused_after(group, gone):
            tombstone_group(group, decision, forget, lambda code, _: _log_failure(code))
        else:
            records += _offset_tombstones(group, gone)
    append_tombstones(records, decision, lambda code, _: _log_failure(code))


def _log_failure(code: ErrorCode) -> None:
    if code:
        logger.warning("expired offsets or those of deleted topics were not deleted: %s", code.name)


def find_expired_offsets(group: Group, wall_ms: int) -> list[TopicPartition]:
    """Return the partitions whose offset has expired (KIP-186, KIP-211).

    Offsets expire offsets.retention.minutes after

    - the group became empty, if it has a protocol type;
    - their commit, for topics that a stable group of consumers is not subscribed to;
    - their commit, in a group without a protocol type (a consumer that assigns itself);

    or at their own expiry, which old clients could set.
    """
    retention_ms = group.settings.offsets_retention_ms
    since: int | None = None
    spared: frozenset[str] = frozenset()
    if group.protocol_type is None:
        pass
    elif group.state is GroupState.EMPTY:
        since = None if group.state_timestamp == NO_TIMESTAMP else group.state_timestamp
    elif group.state is GroupState.STABLE and group.uses_consumer_protocol and group.subscribed_topics is not None:
        spared = group.subscribed_topics
    else:
        return []

    def has_expired(committed: CommittedOffset) -> bool:
        if committed.expire_timestamp != NO_EXPIRY:
            return wall_ms >= committed.expire_timestamp
        return wall_ms - (committed.commit_timestamp if since is None else since) >= retention_ms

    return [
        topic_partition
        for topic_partition, committed in group.offsets.items()
        if topic_partition.topic not in spared
        and has_expired(committed)
        and not group.offsets.is_unstable(topic_partition)
    ]
