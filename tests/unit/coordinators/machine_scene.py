"""A coordinator's machine driven by hand: its timers and its log, in virtual milliseconds."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from dataclasses import dataclass, field
from typing import Any, Generic, Self, TypeVar

from kafkalite.coordinators.contract import Append, Decision, LogRecord, Machine, Now, Ticket
from kafkalite.errors import ErrorCode
from kafkalite.timer_queue import TimerQueue

WALL_MS = 1_700_000_000_000
MachineT = TypeVar("MachineT", bound=Machine)


class Call(Ticket):
    """One request; `reply` is None while it is parked."""

    def __init__(self) -> None:
        self.reply: Any = None


@dataclass(kw_only=True)
class MachineScene(ABC, Generic[MachineT]):
    """Appends are committed at once, unless `holding`: then `commit`, `refuse` and `time_out` say what becomes of the oldest."""

    holding: bool = False
    now_ms: int = 0
    log: list[LogRecord] = field(default_factory=list)
    held: deque[tuple[Append, int]] = field(default_factory=deque)
    sent: list[Any] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.machine = self.new_machine()
        self.timers: TimerQueue[Any] = TimerQueue()
        self._end_offset = len(self.log)
        for record in self.log:
            self.machine.apply(record)
        self._carry_out(self.machine.on_loaded(self.now()))

    @abstractmethod
    def new_machine(self) -> MachineT:
        """Return a machine that has replayed nothing."""

    def now(self) -> Now:
        return Now(self.now_ms, WALL_MS + self.now_ms)

    def ask(self, request: Any) -> Call:
        call = Call()
        self._carry_out(self.machine.decide(request, call, self.now()))
        return call

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
        self._call_continuation(append, ErrorCode.NONE)

    def refuse(self, code: ErrorCode) -> None:
        """The oldest held append was never written."""
        append, _ = self.held.popleft()
        self._call_continuation(append, code)

    def time_out(self) -> Append:
        """The oldest held append takes too long, but stays in flight: `commit_late` ends it."""
        append, _ = self.held[0]
        self._call_continuation(append, ErrorCode.REQUEST_TIMED_OUT)
        return append

    def commit_late(self) -> None:
        append, first = self.held.popleft()
        self._apply(append, first)

    def fail_over(self) -> Self:
        """Another broker's coordinator, which knows what the log says."""
        return self.successor(now_ms=self.now_ms, log=list(self.log))

    def successor(self, **arguments: Any) -> Self:
        """A scene of the same settings with another machine."""
        return type(self)(**arguments)

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
        self.sent += decision.sends

    def _apply(self, append: Append, first: int) -> None:
        producer_id = append.transaction.producer_id if append.transaction else -1
        for offset, record in enumerate(append.records, first):
            kept = LogRecord(offset, record.key, record.value, producer_id)
            self.log.append(kept)
            self.machine.apply(kept)

    def _call_continuation(self, append: Append, code: ErrorCode) -> None:
        decision = Decision(self.now())
        append.then(code, decision)
        self._carry_out(decision)
