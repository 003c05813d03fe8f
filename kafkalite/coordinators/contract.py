"""What a coordinator's machine is: it decides, without I/O, and its durable state is what its log says.

A machine has one partition of an internal topic to itself. Asked something, it returns a `Decision`: answers, records to append, timers,
and what is to be sent to others. It changes durable state in `apply(record)` only, which the runtime calls for each record once that is
committed, in the order of the log; loading the partition calls the same `apply` for every record from the log's start. So a machine that
took over knows what the one before had acknowledged.

A machine may keep what need not outlive it (who waits, whose timer runs) outside the log, and change that while it decides.

Rules of the game:
- `decide` and `on_timer` never wait. A request that is to be answered later is parked by keeping its `Ticket`.
- What depends on an append goes into its `then`, which gets NONE, or why the records are not known to be committed. After
  REQUEST_TIMED_OUT they may be committed yet: then `apply` is called for them all the same, as it would be after a takeover.
- When the partition is lost the machine is dropped. The runtime refuses all open tickets with NOT_COORDINATOR; the machine is not asked.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol, TypeAlias

from kafkalite.errors import ErrorCode
from kafkalite.storage.producers.verification import UNGUARDED, VerificationGuard

TimerKey: TypeAlias = Hashable
"""Names a timer within its machine; setting a timer again moves it."""


class Now(NamedTuple):
    """The time of a decision: `monotonic_ms` for what is measured, `wall_ms` for what is stored."""

    monotonic_ms: int
    wall_ms: int


class Ticket:
    """Stands for one request that awaits its reply; whoever decides hands it back with the reply."""

    __slots__ = ()


class LogRecord(NamedTuple):
    """A record of the internal topic at `offset`; `producer_id` is -1 unless it belongs to a transaction."""

    offset: int
    key: bytes
    value: bytes | None
    producer_id: int = -1


class DraftRecord(NamedTuple):
    """A record to be appended; a value of None is a tombstone."""

    key: bytes
    value: bytes | None


Continuation: TypeAlias = Callable[[ErrorCode, "Decision"], None]
"""What follows an append: its outcome, and a fresh decision to fill."""


@dataclass(frozen=True, slots=True)
class Transaction:
    """The producer in whose transaction records are appended, with what shows that it may begin one here (KIP-890)."""

    producer_id: int
    producer_epoch: int
    guard: VerificationGuard = UNGUARDED


@dataclass(frozen=True, slots=True)
class Append:
    """Records that become one batch; `then` follows when they are committed, refused, or took too long."""

    records: list[DraftRecord]
    then: Continuation
    base_sequence: int = -1
    transaction: Transaction | None = None


@dataclass(slots=True)
class Decision:
    """What is to happen, made at `now`. Machines fill it; the runtime carries it out in this order: answers, timers, appends, sends."""

    now: Now
    answers: list[tuple[Ticket, Any]] = field(default_factory=list)
    timers: list[tuple[TimerKey, int | None]] = field(default_factory=list)
    appends: list[Append] = field(default_factory=list)
    sends: list[Any] = field(default_factory=list)

    def answer(self, ticket: Ticket, reply: Any) -> None:
        self.answers.append((ticket, reply))

    def set_timer(self, key: TimerKey, delay_ms: int) -> None:
        """Have `on_timer(key)` called `delay_ms` from now, and not at the time that was set before."""
        self.timers.append((key, self.now.monotonic_ms + delay_ms))

    def cancel_timer(self, key: TimerKey) -> None:
        self.timers.append((key, None))

    def append(
        self,
        records: list[DraftRecord],
        then: Continuation,
        *,
        base_sequence: int = -1,
        transaction: Transaction | None = None,
    ) -> None:
        self.appends.append(Append(records, then, base_sequence, transaction))

    def send(self, message: Any) -> None:
        """Have the host of the machine deliver this; what comes of it comes back as a request."""
        self.sends.append(message)


class Machine(Protocol):
    """One partition's coordinator; see the module."""

    def decide(self, request: Any, ticket: Ticket, now: Now) -> Decision:
        """Serve a request, whose reply goes to `ticket` at once or later."""

    def on_timer(self, key: TimerKey, now: Now) -> Decision:
        """A timer is due; it is forgotten already."""

    def apply(self, record: LogRecord) -> None:
        """A record is committed, or was found in the log."""

    def apply_marker(self, producer_id: int, committed: bool) -> None:
        """A transaction ended in this partition."""

    def on_loaded(self, now: Now) -> Decision:
        """Everything in the log was applied; serving begins."""


class InternalLog(Protocol):
    """The partition that a machine lives on, led by this broker; the port to storage and replication."""

    @property
    def start_offset(self) -> int: ...

    @property
    def end_offset(self) -> int: ...

    def read(self, offset: int, max_bytes: int) -> bytes:
        """Whole batches from the one that holds `offset` on, at least one unless the log ends; the last may be cut. KafkaError."""

    def append(self, batch: bytearray, guard: VerificationGuard) -> int:
        """Append in the leader's epoch; returns the offset of the batch's first record. KafkaError, and then nothing was written."""

    def when_committed(self, end_offset: int, done: Callable[[ErrorCode], None]) -> None:
        """Call `done` once all below `end_offset` is committed, maybe at once.

        With NONE or NOT_ENOUGH_REPLICAS_AFTER_APPEND it is; any other error means that this broker does not lead any more.
        """
