"""The interface of coordinator machines (Kafka's CoordinatorShard): decisions without I/O, with the log as durable state.

A machine owns one partition of an internal topic. For a request it returns a `Decision`: replies, records to append, timers and messages.
It changes durable state in `apply(record)` only, which the runtime calls for each record once it is committed, in the order of the log;
loading calls the same `apply` for every record from the log's start. So a machine after a takeover knows all that was acknowledged.
State that need not survive (parked requests, timers) is kept outside the log and changes during decisions.

- `decide` and `on_timer` never wait. A request is parked by keeping its `Ticket`.
- What depends on an append goes into its `then`, which gets NONE or the error. After REQUEST_TIMED_OUT the records may still be committed:
  `apply` is called for them all the same, as it would be after a takeover.
- When the partition is lost the machine is dropped, and the runtime refuses all open tickets with NOT_COORDINATOR.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol, TypeAlias

from kafkalite.errors import ErrorCode
from kafkalite.storage.producers.verification import UNGUARDED, VerificationGuard

TimerKey: TypeAlias = Hashable
"""The name of a timer within its machine; setting a timer again moves it."""


class Now(NamedTuple):
    """The time of a decision: `monotonic_ms` for durations, `wall_ms` for timestamps in records."""

    monotonic_ms: int
    wall_ms: int


class Ticket:
    """One request that awaits its reply; a decision returns it with the reply."""

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
"""Called after an append with its outcome and a new decision to fill."""


@dataclass(frozen=True, slots=True)
class Transaction:
    """The producer in whose transaction records are appended, with its guard of verification (KIP-890)."""

    producer_id: int
    producer_epoch: int
    guard: VerificationGuard = UNGUARDED


@dataclass(frozen=True, slots=True)
class Append:
    """Records of one batch; `then` is called when they are committed, refused or timed out."""

    records: list[DraftRecord]
    then: Continuation
    base_sequence: int = -1
    transaction: Transaction | None = None


@dataclass(slots=True)
class Decision:
    """The effects of a decision at `now`, carried out by the runtime in this order: answers, timers, appends, sends."""

    now: Now
    answers: list[tuple[Ticket, Any]] = field(default_factory=list)
    timers: list[tuple[TimerKey, int | None]] = field(default_factory=list)
    appends: list[Append] = field(default_factory=list)
    sends: list[Any] = field(default_factory=list)

    def answer(self, ticket: Ticket, reply: Any) -> None:
        self.answers.append((ticket, reply))

    def set_timer(self, key: TimerKey, delay_ms: int) -> None:
        """Set the timer `key` to `delay_ms` from now, replacing its earlier time."""
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
        """Add a message for the runtime to deliver; its outcome comes back as a request."""
        self.sends.append(message)


class Machine(Protocol):
    """The coordinator of one partition."""

    def decide(self, request: Any, ticket: Ticket, now: Now) -> Decision:
        """Decide about a request, whose reply goes to `ticket` at once or later."""

    def on_timer(self, key: TimerKey, now: Now) -> Decision:
        """Decide after a timer, which is no longer set."""

    def apply(self, record: LogRecord) -> None:
        """Apply a record that is committed, or that is read while loading."""

    def apply_marker(self, producer_id: int, committed: bool) -> None:
        """Apply the end of a producer's transaction in this partition."""

    def on_loaded(self, now: Now) -> Decision:
        """Decide after the whole log was applied, before the first request."""


class InternalLog(Protocol):
    """A machine's partition, led by this broker; the port to storage and replication."""

    @property
    def start_offset(self) -> int: ...

    @property
    def end_offset(self) -> int: ...

    def read(self, offset: int, max_bytes: int) -> bytes:
        """Read batches from the one with `offset` on, at least one unless the log ends; the last may be cut. Raises KafkaError."""

    def append(self, batch: bytearray, guard: VerificationGuard) -> int:
        """Append a batch in the leader's epoch and return its base offset. Raises KafkaError if nothing was written."""

    def when_committed(self, end_offset: int, done: Callable[[ErrorCode], None]) -> None:
        """Call `done`, perhaps at once, when all records below `end_offset` are committed.

        They are with NONE and NOT_ENOUGH_REPLICAS_AFTER_APPEND; after any other error this broker is no longer the leader.
        """
