"""A group machine driven by hand: its timers, its log, and members that speak to it, in virtual milliseconds."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from kafkalite.coordinators.contract import Append, Decision, LogRecord, Now, Ticket
from kafkalite.coordinators.group.group import Group
from kafkalite.coordinators.group.machine import GroupMachine
from kafkalite.coordinators.group.offset_record import CommittedOffset
from kafkalite.coordinators.group.requests import (
    CommitOffsets,
    Heartbeat,
    Join,
    JoinReply,
    Leave,
    LeavingMember,
    OffsetToCommit,
    Sync,
)
from kafkalite.coordinators.group.settings import GroupSettings
from kafkalite.coordinators.timers import TimerQueue
from kafkalite.errors import ErrorCode

WALL_MS = 1_700_000_000_000
QUICK = GroupSettings(initial_rebalance_delay_ms=0)
GROUP = "g"


class Call(Ticket):
    """One request; `reply` is None while it is parked."""

    def __init__(self) -> None:
        self.reply: Any = None


@dataclass
class Scene:
    """Appends are committed at once, unless `holding`: then `commit`, `refuse` and `time_out` say what becomes of the oldest."""

    settings: GroupSettings = QUICK
    holding: bool = False
    now_ms: int = 0
    log: list[LogRecord] = field(default_factory=list)
    held: deque[tuple[Append, int]] = field(default_factory=deque)

    def __post_init__(self) -> None:
        self.machine = GroupMachine(self.settings)
        self.timers: TimerQueue[Any] = TimerQueue()
        self._ids = count(1)
        self._end_offset = 0
        self._carry_out(self.machine.loaded(self.now()))

    def now(self) -> Now:
        return Now(self.now_ms, WALL_MS + self.now_ms)

    # Asking

    def ask(self, request: Any) -> Call:
        call = Call()
        self._carry_out(self.machine.decide(request, call, self.now()))
        return call

    def group(self, group_id: str = GROUP) -> Group:
        return self.machine.groups[group_id]

    def join(
        self,
        member_id: str = "",
        *,
        instance: str | None = None,
        protocols: tuple[str, ...] = ("range",),
        session_ms: int = 10_000,
        rebalance_ms: int = 60_000,
        group_id: str = GROUP,
        client: str = "c",
        version: int = 9,
        metadata: bytes = b"",
        protocol_type: str = "consumer",
    ) -> Call:
        return self.ask(
            Join(
                group_id=group_id,
                member_id=member_id,
                instance_id=instance,
                client_id=client,
                client_host="/127.0.0.1",
                session_timeout_ms=session_ms,
                rebalance_timeout_ms=rebalance_ms,
                protocol_type=protocol_type,
                protocols=[(name, metadata or b"\0\0\0\0\0\1\0\1t" + name.encode()) for name in protocols],
                fresh_id=str(next(self._ids)),
                requires_member_id=version >= 4,
                skips_assignment=version >= 9,
            )
        )

    def enter(self, **settings: Any) -> tuple[str, Call]:
        """Join as a newcomer does: get an id, come back with it. The id and the second call."""
        if settings.get("instance") is not None or settings.get("version", 9) < 4:
            call = self.join(**settings)
            return "", call
        first: JoinReply = self.join(**settings).reply
        assert first.error is ErrorCode.MEMBER_ID_REQUIRED
        return first.member_id, self.join(first.member_id, **settings)

    def sync(self, member_id: str, generation: int | None = None, /, **assignments: bytes) -> Call:
        """With the group's present generation unless another is given."""
        known = self.machine.groups.get(GROUP)
        generation = generation if generation is not None else (known.generation if known else 1)
        named = {name.replace("_", "-"): content for name, content in assignments.items()}
        return self.ask(Sync(GROUP, generation, member_id, assignments=named))

    def heartbeat(self, member_id: str, generation: int | None = None, instance: str | None = None) -> ErrorCode:
        generation = self.group().generation if generation is None else generation
        reply: ErrorCode = self.ask(Heartbeat(GROUP, generation, member_id, instance)).reply
        return reply

    def leave(self, member_id: str = "", instance: str | None = None) -> ErrorCode:
        reply = self.ask(Leave(GROUP, [LeavingMember(member_id, instance)])).reply
        return reply.error or reply.member_errors[0]

    def commit_offsets(
        self,
        *offsets: tuple[str, int, int],
        member_id: str = "",
        generation: int = -1,
        group_id: str = GROUP,
        metadata: str = "",
        retention_ms: int = -1,
    ) -> Call:
        wanted = [OffsetToCommit(topic, partition, offset, 5, metadata) for topic, partition, offset in offsets]
        return self.ask(CommitOffsets(group_id, generation, member_id, None, wanted, retention_ms))

    def offset(self, topic: str, partition: int, group_id: str = GROUP) -> int | None:
        found: CommittedOffset | None = self.machine.offsets_of(group_id).get(topic, {}).get(partition)
        return None if found is None else found.offset

    def balance(self, *calls: tuple[str, Call]) -> dict[str, bytes]:
        """The joins are answered: everybody syncs, the leader assigns each member its own id. The assignments by member."""
        replies = [call.reply for _, call in calls]
        assert all(reply is not None and not reply.error for reply in replies)
        leader = replies[0].leader
        ids = [reply.member_id for reply in replies]
        assigned = {member_id: member_id.encode() for member_id in ids}
        generation = replies[0].generation
        syncs = {
            each: self.ask(Sync(GROUP, generation, each, assignments=assigned if each == leader else {}))
            for each in ids
        }
        return {member_id: call.reply.assignment for member_id, call in syncs.items()}

    # Time

    def advance(self, ms: int) -> None:
        """Let time pass; timers ring at their own moments."""
        end_ms = self.now_ms + ms
        while (next_ms := self.timers.next_ms()) is not None and next_ms <= end_ms:
            self.now_ms = max(self.now_ms, next_ms)
            for key in self.timers.pop_due(self.now_ms):
                self._carry_out(self.machine.on_timer(key, self.now()))
        self.now_ms = end_ms

    # The log

    def commit(self) -> None:
        """The oldest held append is committed."""
        append, first = self.held.popleft()
        self._apply(append, first)
        self._continue(append, ErrorCode.NONE)

    def refuse(self, code: ErrorCode) -> None:
        """The oldest held append was never written."""
        append, _ = self.held.popleft()
        self._continue(append, code)

    def time_out(self) -> Append:
        """The oldest held append takes too long, but stays in flight: `commit_late` ends it."""
        append, _ = self.held[0]
        self._continue(append, ErrorCode.REQUEST_TIMED_OUT)
        return append

    def commit_late(self) -> None:
        append, first = self.held.popleft()
        self._apply(append, first)

    def fail_over(self) -> Scene:
        """Another broker's coordinator, which knows what the log says."""
        successor = Scene(self.settings, now_ms=self.now_ms)
        successor.machine = GroupMachine(self.settings)
        for record in self.log:
            successor.machine.apply(record)
        successor.log = list(self.log)
        successor._end_offset = self._end_offset
        successor._ids = count(1000)
        successor.timers = TimerQueue()
        successor._carry_out(successor.machine.loaded(successor.now()))
        return successor

    def _carry_out(self, decision: Decision) -> None:
        for ticket, reply in decision.answers:
            assert isinstance(ticket, Call) and ticket.reply is None, "answered twice"
            ticket.reply = reply
        for key, due_ms in decision.timers:
            if due_ms is None:
                self.timers.cancel(key)
            else:
                self.timers.set(key, due_ms)
        for append in decision.appends:
            first = self._end_offset
            self._end_offset += len(append.records)
            self.held.append((append, first))
            if not self.holding:
                self.commit()

    def _apply(self, append: Append, first: int) -> None:
        for offset, record in enumerate(append.records, first):
            kept = LogRecord(offset, record.key, record.value)
            self.log.append(kept)
            self.machine.apply(kept)

    def _continue(self, append: Append, code: ErrorCode) -> None:
        decision = Decision(self.now())
        append.then(code, decision)
        self._carry_out(decision)
