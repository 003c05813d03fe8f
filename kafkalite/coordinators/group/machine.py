"""The coordinator of the groups in one partition of `__consumer_offsets`."""

from __future__ import annotations

import logging
import struct
from collections.abc import Callable, Iterable
from typing import Any, Final

from kafkalite.coordinators.contract import Decision, LogRecord, Now, Ticket
from kafkalite.coordinators.group import group_record, offset_record
from kafkalite.coordinators.group.commits import commit_offsets
from kafkalite.coordinators.group.deletion import (
    delete_group,
    delete_offsets,
    expire_offsets,
    forget_partitions,
)
from kafkalite.coordinators.group.description import describe_group, describe_missing_group, summarize_group
from kafkalite.coordinators.group.group import Group, GroupState
from kafkalite.coordinators.group.joining import join
from kafkalite.coordinators.group.leaving import leave
from kafkalite.coordinators.group.offset_record import CommittedOffset
from kafkalite.coordinators.group.rebalance import (
    on_pending_timer,
    on_rebalance_timer,
    on_session_timer,
    on_sync_timer,
    restart_session,
)
from kafkalite.coordinators.group.requests import (
    NO_MEMBER_ID,
    CommitOffsets,
    DeleteGroup,
    DeleteOffsets,
    DeleteOffsetsReply,
    ForgetPartitions,
    GroupDescription,
    Heartbeat,
    Join,
    JoinReply,
    Leave,
    LeaveReply,
    ListedGroup,
    Request,
    Sync,
    SyncReply,
)
from kafkalite.coordinators.group.settings import GroupSettings
from kafkalite.coordinators.group.syncing import heartbeat, sync
from kafkalite.errors import ErrorCode
from kafkalite.types import TopicPartition

logger = logging.getLogger("kafkalite.coordinators.group")

_EXPIRE: Final = ("expire",)
_NO_OFFSETS: Final[dict[str, dict[int, CommittedOffset]]] = {}


class GroupMachine:
    """Finds the group of a request and applies the log; a `contract.Machine`.

    Records with unknown key versions, such as those of KIP-848, are skipped with a warning.
    """

    def __init__(self, settings: GroupSettings) -> None:
        self.settings = settings
        self.groups: dict[str, Group] = {}
        self._groups_of: dict[int, dict[str, None]] = {}
        """By producer id the groups to which it commits offsets in an open transaction."""

    # Deciding

    def decide(self, request: Request, ticket: Ticket, now: Now) -> Decision:
        """Decide about a request of `requests`, which describes the replies."""
        decision = Decision(now)
        if not self.settings.has_static_members and (refusal := _refuse_static_member(request)) is not None:
            decision.answer(ticket, refusal)
        else:
            _DECISIONS[type(request)](self, request, ticket, decision)
        return decision

    def _join(self, request: Join, ticket: Ticket, decision: Decision) -> None:
        settings = self.settings
        if not settings.min_session_timeout_ms <= request.session_timeout_ms <= settings.max_session_timeout_ms:
            decision.answer(ticket, JoinReply(ErrorCode.INVALID_SESSION_TIMEOUT, request.member_id))
            return
        group = self.groups.get(request.group_id)
        if group is None:
            if request.member_id != NO_MEMBER_ID:
                decision.answer(ticket, JoinReply(ErrorCode.UNKNOWN_MEMBER_ID, request.member_id))
                return
            group = self._create(request.group_id)
        join(group, request, ticket, decision)
        self._forget_if_unused(group)

    def _sync(self, request: Sync, ticket: Ticket, decision: Decision) -> None:
        group = self.groups.get(request.group_id)
        if group is None:
            decision.answer(ticket, SyncReply(ErrorCode.UNKNOWN_MEMBER_ID))
        else:
            sync(group, request, ticket, decision)

    def _heartbeat(self, request: Heartbeat, ticket: Ticket, decision: Decision) -> None:
        group = self.groups.get(request.group_id)
        code = ErrorCode.UNKNOWN_MEMBER_ID if group is None else heartbeat(group, request, decision)
        decision.answer(ticket, code)

    def _leave(self, request: Leave, ticket: Ticket, decision: Decision) -> None:
        group = self.groups.get(request.group_id)
        if group is None:
            decision.answer(ticket, LeaveReply(ErrorCode.NONE, [ErrorCode.UNKNOWN_MEMBER_ID] * len(request.members)))
        else:
            decision.answer(ticket, leave(group, request, decision))
            self._forget_if_unused(group)

    def _commit_offsets(self, request: CommitOffsets, ticket: Ticket, decision: Decision) -> None:
        group = self.groups.get(request.group_id)
        if group is None:
            if request.generation >= 0 and request.transaction is None:
                decision.answer(ticket, [ErrorCode.ILLEGAL_GENERATION] * len(request.offsets))
                return
            group = self._create(request.group_id)
        if request.transaction is not None:
            self._groups_of.setdefault(request.transaction.producer_id, {})[group.group_id] = None
        commit_offsets(group, request, ticket, decision)
        self._forget_if_unused(group)

    def _delete_offsets(self, request: DeleteOffsets, ticket: Ticket, decision: Decision) -> None:
        group = self.groups.get(request.group_id)
        if group is None:
            decision.answer(ticket, DeleteOffsetsReply(ErrorCode.GROUP_ID_NOT_FOUND))
        else:
            delete_offsets(group, request, ticket, decision, self._forget_if_unused)

    def _delete_group(self, request: DeleteGroup, ticket: Ticket, decision: Decision) -> None:
        group = self.groups.get(request.group_id)
        if group is None:
            decision.answer(ticket, ErrorCode.GROUP_ID_NOT_FOUND)
        else:
            delete_group(group, ticket, decision, self._forget_if_unused)

    def _forget_partitions(self, request: ForgetPartitions, ticket: Ticket, decision: Decision) -> None:
        forget_partitions(tuple(self.groups.values()), request.by_topic, decision, self._forget_if_unused)
        decision.answer(ticket, None)

    # Timers

    def on_timer(self, key: Any, now: Now) -> Decision:
        """Expire offsets, or call the group's timer function."""
        decision = Decision(now)
        if key == _EXPIRE:
            expire_offsets(tuple(self.groups.values()), decision, self._forget_if_unused)
            decision.set_timer(_EXPIRE, self.settings.offsets_retention_check_interval_ms)
            return decision
        kind, group_id, *member_id = key
        group = self.groups.get(group_id)
        if group is not None:
            _TIMERS[kind](group, *member_id, decision)
            self._forget_if_unused(group)
        return decision

    # The log

    def apply(self, record: LogRecord) -> None:
        """Apply a record; unreadable ones are logged and skipped."""
        version = record.key[0] << 8 | record.key[1] if len(record.key) >= 2 else -1
        try:
            if version in offset_record.KEY_VERSIONS:
                self._apply_offset(record)
            elif version == group_record.KEY_VERSION:
                self._apply_group(record)
            else:
                logger.warning("offset %d: the key has the unknown version %d", record.offset, version)
        except (ValueError, IndexError, struct.error) as problem:
            logger.error("offset %d: the record is unreadable and skipped: %s", record.offset, problem)

    def _apply_offset(self, record: LogRecord) -> None:
        group_id, topic, partition = offset_record.decode_key(record.key)
        group = self.groups.get(group_id)
        if record.value is None:
            if group is not None:
                group.offsets.apply(topic, partition, None, record.producer_id)
                self._forget_if_unused(group)
            return
        if group is None:
            group = self._create(group_id)
        if record.producer_id >= 0:
            self._groups_of.setdefault(record.producer_id, {})[group_id] = None
        committed = offset_record.decode_value(record.value)
        group.offsets.apply(topic, partition, committed, record.producer_id, record.offset)

    def _apply_group(self, record: LogRecord) -> None:
        group_id = group_record.decode_key(record.key)
        group = self.groups.get(group_id)
        if record.value is None:
            if group is not None:
                group.stored_value = None
                self._forget_if_unused(group)
            return
        if group is None:
            group = self._create(group_id)
        group.stored_value = record.value

    def apply_marker(self, producer_id: int, committed: bool) -> None:
        """Commit or drop the offsets of a producer's transaction."""
        for group_id in self._groups_of.pop(producer_id, ()):
            group = self.groups.get(group_id)
            if group is not None:
                group.offsets.end_transaction(producer_id, committed)
                self._forget_if_unused(group)

    def on_loaded(self, now: Now) -> Decision:
        """Restore the groups from their records, and start the session of every member."""
        decision = Decision(now)
        for group in self.groups.values():
            try:
                group.restore()
            except ValueError as problem:
                logger.error("group %s: its record is unreadable, it is empty now: %s", group.group_id, problem)
            for member in group.members.values():
                restart_session(group, member, decision)
        decision.set_timer(_EXPIRE, self.settings.offsets_retention_check_interval_ms)
        return decision

    # Creation and removal

    def _create(self, group_id: str) -> Group:
        group = self.groups[group_id] = Group(group_id, self.settings)
        return group

    def _forget_if_unused(self, group: Group) -> None:
        if self.groups.get(group.group_id) is group and (group.is_finished or group.is_blank):
            del self.groups[group.group_id]

    # Queries

    def describe(self, group_id: str) -> GroupDescription:
        """Describe a group; an unknown one has the state Dead."""
        group = self.groups.get(group_id)
        return describe_missing_group(group_id) if group is None else describe_group(group)

    def list_groups(self) -> Iterable[ListedGroup]:
        return map(summarize_group, tuple(self.groups.values()))

    def offsets_of(self, group_id: str) -> dict[str, dict[int, CommittedOffset]]:
        """Return a group's offsets by topic and partition, not to be changed."""
        group = self.groups.get(group_id)
        return _NO_OFFSETS if group is None or group.state is GroupState.DEAD else group.offsets.topics

    def is_unstable(self, group_id: str, topic: str, partition: int) -> bool:
        """True if a pending append or open transaction may change the offset (KIP-447)."""
        group = self.groups.get(group_id)
        return group is not None and group.offsets.is_unstable(TopicPartition(topic, partition))


def _refuse_static_member(request: Request) -> JoinReply | SyncReply | ErrorCode | list[ErrorCode] | None:
    """Return the reply to a request of a static member where the group could not keep its instance id; None to any other."""
    code = ErrorCode.UNSUPPORTED_VERSION
    match request:
        case Join() if request.instance_id is not None:
            return JoinReply(code, request.member_id)
        case Sync() if request.instance_id is not None:
            return SyncReply(code)
        case Heartbeat() if request.instance_id is not None:
            return code
        case CommitOffsets() if request.instance_id is not None and request.transaction is None:
            return [code] * len(request.offsets)
    return None


_DECISIONS: Final[dict[type, Callable[[GroupMachine, Any, Ticket, Decision], None]]] = {
    Join: GroupMachine._join,
    Sync: GroupMachine._sync,
    Heartbeat: GroupMachine._heartbeat,
    Leave: GroupMachine._leave,
    CommitOffsets: GroupMachine._commit_offsets,
    DeleteOffsets: GroupMachine._delete_offsets,
    DeleteGroup: GroupMachine._delete_group,
    ForgetPartitions: GroupMachine._forget_partitions,
}
_TIMERS: Final[dict[str, Callable[..., None]]] = {
    "session": on_session_timer,
    "pending": on_pending_timer,
    "rebalance": on_rebalance_timer,
    "sync": on_sync_timer,
}
