"""A transactional producer's states and what leads from one to another (KIP-98, KIP-360; Kafka's TransactionManager). Pure.

`TRANSITIONS` is the whole of it: the state after each event, for each state in which the event may happen. What a program does in a
state that does not allow it is its mistake and changes nothing. An error of the cluster is fatal or can be aborted; where the table has
no row for `ABORTABLE`, it is one too many: the transaction is being aborted already, or is over.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from kafkalite.client.errors import AbortableTransactionError, ClientError, FatalTransactionError, TransactionStateError


class State(Enum):
    """Where a transactional producer is."""

    UNINITIALIZED = "not initialized"
    INITIALIZING = "being initialized"
    READY = "not in a transaction"
    IN_TRANSACTION = "in a transaction"
    PREPARED = "waiting for somebody to end a transaction"
    COMMITTING = "committing a transaction"
    ABORTING = "aborting a transaction"
    ABORTABLE_ERROR = "in a transaction that failed"
    FATAL_ERROR = "broken for good"


class Event(Enum):
    """What a program asks for, or the cluster answers."""

    INIT = "init_transactions"
    INITIALIZED = "the producer id is there"
    BEGIN = "begin_transaction"
    OFFSETS = "send_offsets_to_transaction"
    PREPARE = "prepare_transaction"
    COMMIT = "commit_transaction"
    ABORT = "abort_transaction"
    ENDED = "the coordinator has the end"
    ABORTABLE = "an error that an abort mends"
    FATAL = "an error that nothing mends"


TRANSITIONS: dict[Event, dict[State, State]] = {
    Event.INIT: {State.UNINITIALIZED: State.INITIALIZING},
    Event.INITIALIZED: {State.INITIALIZING: State.READY},
    Event.BEGIN: {State.READY: State.IN_TRANSACTION},
    Event.OFFSETS: {State.IN_TRANSACTION: State.IN_TRANSACTION},
    Event.PREPARE: {State.IN_TRANSACTION: State.PREPARED},
    Event.COMMIT: dict.fromkeys((State.IN_TRANSACTION, State.PREPARED), State.COMMITTING),
    Event.ABORT: dict.fromkeys((State.IN_TRANSACTION, State.PREPARED, State.ABORTABLE_ERROR), State.ABORTING),
    Event.ENDED: {State.COMMITTING: State.READY, State.ABORTING: State.READY},
    Event.ABORTABLE: dict.fromkeys(
        (State.IN_TRANSACTION, State.PREPARED, State.COMMITTING, State.ABORTABLE_ERROR), State.ABORTABLE_ERROR
    ),
    Event.FATAL: dict.fromkeys(State, State.FATAL_ERROR),
}

_HINTS = {
    State.UNINITIALIZED: "init_transactions comes first",
    State.READY: "begin_transaction comes first",
    State.IN_TRANSACTION: "commit_transaction or abort_transaction comes first",
}


@dataclass(frozen=True, slots=True)
class PreparedTransaction:
    """A transaction that has all its records, and waits for `Admin.end_transaction`; plain data, to be sent to whoever decides."""

    transactional_id: str
    producer_id: int
    producer_epoch: int


@dataclass(slots=True)
class Lifecycle:
    """The state of one producer, and the first error of its transaction, or the one that broke it."""

    state: State = State.UNINITIALIZED
    error: AbortableTransactionError | FatalTransactionError | None = None

    def request_event(self, event: Event) -> None:
        """The program asks for `event`. TransactionStateError where the state does not allow it, the error of a transaction that failed."""
        following = TRANSITIONS[event].get(self.state)
        if following is None:
            raise self.error or self.refusal_of(event)
        self.state = following
        if event is Event.ABORT:
            self.error = None

    def refusal_of(self, event: Event) -> TransactionStateError:
        """Return the error for a program that asks for `event` now."""
        return TransactionStateError(event.value, self.state.value, _HINTS.get(self.state))

    def complete_event(self, event: Event) -> None:
        """The cluster has done what was asked for; nothing where the producer broke meanwhile."""
        self.state = TRANSITIONS[event].get(self.state, self.state)

    def record_failure(self, problem: ClientError, *, fatal: bool) -> None:
        """The cluster refused; the first error of a transaction is the one that is raised, a fatal one tops it."""
        if fatal:
            if not isinstance(self.error, FatalTransactionError):
                self.error = (
                    problem if isinstance(problem, FatalTransactionError) else FatalTransactionError.of(problem)
                )
            self.state = State.FATAL_ERROR
        elif (following := TRANSITIONS[Event.ABORTABLE].get(self.state)) is not None:
            self.state = following
            self.error = self.error or AbortableTransactionError.of(problem)

    @property
    def refusal(self) -> ClientError | None:
        """Return the reason why records cannot be sent now; None in a transaction."""
        if self.state is State.IN_TRANSACTION:
            return None
        return self.error or TransactionStateError("send", self.state.value, _HINTS.get(self.state))
