"""The coordinator of the transactional ids in one partition of `__transaction_state`.

The states of a transaction, each a record that is committed before the next:

    Empty → Ongoing (partitions are added) → PrepareCommit or PrepareAbort: decided → markers are sent → CompleteCommit or CompleteAbort
"""

from __future__ import annotations

import logging
import struct
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import islice
from typing import Any, Final

from kafkalite.coordinators.contract import Decision, DraftRecord, LogRecord, Now, Ticket
from kafkalite.coordinators.store_errors import transaction_store_error
from kafkalite.coordinators.transaction import transaction_record, transitions
from kafkalite.coordinators.transaction.requests import (
    NO_PRODUCER_EPOCH,
    AddPartitions,
    DescribedTransaction,
    EndTransaction,
    InitProducerId,
    InitProducerIdReply,
    MarkersWritten,
    ProducerIdAndEpoch,
    Request,
    WriteMarkers,
)
from kafkalite.coordinators.transaction.settings import TransactionSettings
from kafkalite.coordinators.transaction.transaction import Transaction
from kafkalite.coordinators.transaction.transaction_record import Partitions, StoredTransaction, TransactionState
from kafkalite.errors import ErrorCode

logger = logging.getLogger("kafkalite.coordinators.transaction")

_ABORT: Final = ("abort",)
_EXPIRE: Final = ("expire",)
_IDS_AT_ONCE: Final = 100
"""Ids that are checked for expiry before other events of the loop are served."""
_TOMBSTONES_BYTES: Final = 16_384
"""Size of the keys in one batch."""
_LATE_MS: Final = 500
"""Interval of checking a record whose append timed out."""
_RETRY_MS: Final = 100
"""Backoff after the completion of a transaction could not be written."""

_ON_ITS_WAY: Final = frozenset(
    {ErrorCode.NONE, ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND, ErrorCode.REQUEST_TIMED_OUT}
)
"""Outcomes with which the record is in the log and is, or may yet be, applied."""

Continuation = Callable[[ErrorCode, Decision], None]


class TransactionMachine:
    """Carries out the decisions of `transitions` and applies the log; a `contract.Machine`.

    - While a record of an id is being appended its requests get CONCURRENT_TRANSACTIONS, also after the append timed out, for which the
      client got COORDINATOR_NOT_AVAILABLE: the record may still be committed. Kafka accepts requests then, on a state that the log may
      contradict a moment later.
    - A fencing that cannot be written leaves the state as it was; Kafka keeps the bumped epoch in memory.
    - After a takeover the markers of all prepared transactions are sent again.
    """

    def __init__(self, settings: TransactionSettings) -> None:
        self.settings = settings
        self.transactions: dict[str, Transaction] = {}
        self._ongoing: dict[str, None] = {}
        self._prepared: dict[str, None] = {}
        self._rounds: dict[tuple[str], Iterator[str]] = {}

    # Deciding

    def decide(self, request: Request, ticket: Ticket, now: Now) -> Decision:
        """Decide about a request of `requests`, which describes the replies."""
        decision = Decision(now)
        _DECISIONS[type(request)](self, request, ticket, decision)
        return decision

    def _init_producer_id(self, request: InitProducerId, ticket: Ticket, decision: Decision) -> None:
        transaction = self.transactions.get(request.transactional_id)
        if transaction is None:
            if request.fresh_producer_id < 0:
                decision.answer(ticket, InitProducerIdReply(needs_producer_id=True))
                return
            blank = StoredTransaction(request.fresh_producer_id, NO_PRODUCER_EPOCH, request.timeout_ms)
            transaction = Transaction(request.transactional_id, blank)
        outcome = transitions.prepare_init_producer_id(transaction, request, decision.now.wall_ms)
        if outcome is transitions.Prerequisite.GET_PRODUCER_ID:
            decision.answer(ticket, InitProducerIdReply(needs_producer_id=True))
        elif outcome is transitions.Prerequisite.FENCE:
            self._fence(transaction, decision, partial(_answer_fenced, ticket))
        elif isinstance(outcome, transitions.Initialized):
            stored, last = outcome
            self._write(transaction, stored, decision, partial(_answer_initialized, transaction, stored, last, ticket))
        else:
            decision.answer(ticket, InitProducerIdReply(ErrorCode(outcome)))

    def _add_partitions(self, request: AddPartitions, ticket: Ticket, decision: Decision) -> None:
        transaction = self.transactions.get(request.transactional_id)
        outcome = transitions.prepare_add_partitions(transaction, request, decision.now.wall_ms)
        if transaction is None or isinstance(outcome, ErrorCode):
            decision.answer(ticket, outcome)
        else:
            self._write(transaction, outcome, decision, lambda code, then: then.answer(ticket, code))

    def _end_transaction(self, request: EndTransaction, ticket: Ticket, decision: Decision) -> None:
        transaction = self.transactions.get(request.transactional_id)
        outcome = transitions.prepare_end(transaction, request, decision.now.wall_ms)
        if transaction is None or isinstance(outcome, ErrorCode):
            decision.answer(ticket, outcome)
        else:
            self._prepare(transaction, outcome, decision, lambda code, then: then.answer(ticket, code))

    def _fence(self, transaction: Transaction, decision: Decision, then: Continuation) -> None:
        self._prepare(transaction, transitions.prepare_fence(transaction, decision.now.wall_ms), decision, then)

    def _prepare(
        self, transaction: Transaction, stored: StoredTransaction, decision: Decision, then: Continuation
    ) -> None:
        def on_write(code: ErrorCode, following: Decision) -> None:
            then(code, following)
            self._send_markers(transaction, following)

        self._write(transaction, stored, decision, on_write)

    # Markers

    def _send_markers(self, transaction: Transaction, decision: Decision) -> None:
        """Send the markers of a prepared transaction, unless they are being sent."""
        if not transitions.is_prepared(transaction) or transaction.is_sending:
            return
        transaction.is_sending = True
        stored = transaction.stored
        decision.send(
            WriteMarkers(
                transaction.transactional_id,
                stored.producer_id,
                stored.producer_epoch,
                stored.state is TransactionState.PREPARE_COMMIT,
                stored.partitions,
            )
        )

    def _complete_after_markers(self, request: MarkersWritten, ticket: Ticket, decision: Decision) -> None:
        decision.answer(ticket, None)
        transaction = self.transactions.get(request.transactional_id)
        if transaction is not None and transaction.is_sending and request[1:] == _producer_of(transaction):
            self._write_completion(transaction, decision)

    def _write_completion(self, transaction: Transaction, decision: Decision) -> None:
        def on_write(code: ErrorCode, following: Decision) -> None:
            if transaction.pending is None and transitions.is_prepared(transaction):
                following.set_timer(("complete", transaction.transactional_id), _RETRY_MS)

        if transaction.pending is None and transitions.is_prepared(transaction):
            self._write(
                transaction, transitions.prepare_complete(transaction, decision.now.wall_ms), decision, on_write
            )

    # Writing

    def _write(
        self, transaction: Transaction, stored: StoredTransaction, decision: Decision, then: Continuation
    ) -> None:
        """Append a transaction's next state; `then` gets the error for the client."""
        self.transactions[transaction.transactional_id] = transaction
        transaction.pending = stored.state

        def on_append(code: ErrorCode, following: Decision) -> None:
            if code is ErrorCode.REQUEST_TIMED_OUT:
                following.set_timer(("late", transaction.transactional_id), _LATE_MS)
            elif code not in _ON_ITS_WAY:
                transaction.pending = None
                self._forget_if_new(transaction)
            then(transaction_store_error(code), following)

        value = transaction_record.encode_value(stored)
        transaction.draft = (value, stored)
        decision.append([DraftRecord(transaction_record.encode_key(transaction.transactional_id), value)], on_append)

    def _forget_if_new(self, transaction: Transaction) -> None:
        if transaction.is_new:
            self.transactions.pop(transaction.transactional_id, None)

    # Timers

    def on_timer(self, key: Any, now: Now) -> Decision:
        """Abort timed-out transactions, remove expired ids, or retry an append."""
        decision = Decision(now)
        if key == _ABORT:
            ids = self._next_batch(_ABORT, self._ongoing, self.settings.abort_timed_out_interval_ms, decision)
            self._abort_timed_out(ids, decision)
        elif key == _EXPIRE:
            ids = self._next_batch(_EXPIRE, self.transactions, self.settings.remove_expired_interval_ms, decision)
            self._remove_expired(ids, decision)
        else:
            kind, transactional_id = key
            transaction = self.transactions.get(transactional_id)
            if transaction is not None and kind == "late":
                self._check_pending(transaction, decision)
            elif transaction is not None:
                self._write_completion(transaction, decision)
        return decision

    def _next_batch(
        self, key: tuple[str], ids: Iterable[str], interval_ms: int, decision: Decision
    ) -> list[Transaction]:
        """Return the next ids of a round, and set the timer for the rest of it or for the next round."""
        left = self._rounds.get(key)
        if left is None:
            left = self._rounds[key] = iter(tuple(ids))
        some = list(islice(left, _IDS_AT_ONCE))
        if len(some) < _IDS_AT_ONCE:
            del self._rounds[key]
        decision.set_timer(key, interval_ms if len(some) < _IDS_AT_ONCE else 0)
        return [self.transactions[each] for each in some if each in self.transactions]

    def _check_pending(self, transaction: Transaction, decision: Decision) -> None:
        """Check a record whose append timed out: wait on, or send the markers if it was committed."""
        if transaction.pending is not None:
            decision.set_timer(("late", transaction.transactional_id), _LATE_MS)
        else:
            self._send_markers(transaction, decision)

    def _abort_timed_out(self, transactions: list[Transaction], decision: Decision) -> None:
        for each in transactions:
            if transitions.is_timed_out(each, decision.now.wall_ms):
                logger.info(
                    "transactional id %s: a transaction of producer %d.%d timed out",
                    each.transactional_id,
                    *_producer_of(each),
                )
                self._fence(each, decision, lambda code, then: None)

    def _remove_expired(self, transactions: list[Transaction], decision: Decision) -> None:
        batch: list[Transaction] = []
        records: list[DraftRecord] = []
        size = 0
        for each in transactions:
            if not transitions.is_expired(each, self.settings.id_expiration_ms, decision.now.wall_ms):
                continue
            key = transaction_record.encode_key(each.transactional_id)
            if size + len(key) > _TOMBSTONES_BYTES and records:
                decision.append(records, partial(_on_removal, batch))
                batch, records, size = [], [], 0
            each.pending = TransactionState.DEAD
            batch.append(each)
            records.append(DraftRecord(key, None))
            size += len(key)
        if records:
            decision.append(records, partial(_on_removal, batch))

    # The log

    def apply(self, record: LogRecord) -> None:
        """Apply a record; unreadable ones are logged and skipped."""
        try:
            version = record.key[0] << 8 | record.key[1] if len(record.key) >= 2 else -1
            if version != transaction_record.KEY_VERSION:
                logger.warning("offset %d: the key has the unknown version %d", record.offset, version)
                return
            transactional_id = transaction_record.decode_key(record.key)
            transaction = self.transactions.get(transactional_id)
            draft = transaction.draft if transaction is not None else None
            if draft is not None and draft[0] is record.value:
                stored: StoredTransaction | None = draft[1]
            else:
                stored = None if record.value is None else transaction_record.decode_value(record.value)
        except (ValueError, IndexError, struct.error) as problem:
            logger.error("offset %d: the record is unreadable and skipped: %s", record.offset, problem)
            return
        self._ongoing.pop(transactional_id, None)
        self._prepared.pop(transactional_id, None)
        if stored is None:
            self.transactions.pop(transactional_id, None)
            return
        if transaction is None:
            transaction = self.transactions[transactional_id] = Transaction(transactional_id, stored)
        transaction.set_stored(stored)
        if stored.state is TransactionState.ONGOING:
            self._ongoing[transactional_id] = None
        if transitions.is_prepared(transaction):
            self._prepared[transactional_id] = None
        else:
            transaction.is_sending = False

    def apply_marker(self, producer_id: int, committed: bool) -> None:
        """Ignore the marker: no records of `__transaction_state` are transactional."""

    def on_loaded(self, now: Now) -> Decision:
        """Send the markers of prepared transactions again, and start the timers."""
        decision = Decision(now)
        for transactional_id in self._prepared:
            self._send_markers(self.transactions[transactional_id], decision)
        decision.set_timer(_ABORT, self.settings.abort_timed_out_interval_ms)
        decision.set_timer(_EXPIRE, self.settings.remove_expired_interval_ms)
        return decision

    # Queries

    def verify(
        self, transactional_id: str, producer_id: int, producer_epoch: int, partitions: Partitions
    ) -> Partitions | ErrorCode:
        """Return those partitions that are in the producer's ongoing transaction (KIP-890), or an error."""
        return transitions.verify_partitions(
            self.transactions.get(transactional_id), producer_id, producer_epoch, partitions
        )

    def describe(self, transactional_id: str) -> DescribedTransaction | None:
        """Describe a transactional id; None if it is unknown or being removed."""
        transaction = self.transactions.get(transactional_id)
        return None if transaction is None or transaction.pending is TransactionState.DEAD else _describe(transaction)

    def list_transactions(self) -> Iterator[DescribedTransaction]:
        """Yield all ids; those added or removed during the iteration may be missing."""
        for transaction in tuple(self.transactions.values()):
            if transaction.pending is not TransactionState.DEAD:
                yield _describe(transaction)

    def statistics(self) -> dict[str, int]:
        """Return counts for metrics and tests."""
        return {"ids": len(self.transactions), "ongoing": len(self._ongoing), "prepared": len(self._prepared)}


def _producer_of(transaction: Transaction) -> tuple[int, int]:
    return transaction.stored.producer_id, transaction.stored.producer_epoch


def _describe(transaction: Transaction) -> DescribedTransaction:
    stored = transaction.stored
    return DescribedTransaction(
        transaction.transactional_id,
        *_producer_of(transaction),
        stored.state.label,
        stored.timeout_ms,
        stored.start_ms,
        stored.partitions,
    )


def _answer_fenced(ticket: Ticket, code: ErrorCode, decision: Decision) -> None:
    """Answer an error with which the client retries until the transaction is aborted."""
    decision.answer(ticket, InitProducerIdReply(code or ErrorCode.CONCURRENT_TRANSACTIONS))


def _answer_initialized(
    transaction: Transaction,
    stored: StoredTransaction,
    last: ProducerIdAndEpoch,
    ticket: Ticket,
    code: ErrorCode,
    decision: Decision,
) -> None:
    if code:
        decision.answer(ticket, InitProducerIdReply(code))
        return
    transaction.last_producer_id, transaction.last_producer_epoch = last
    decision.answer(ticket, InitProducerIdReply(ErrorCode.NONE, stored.producer_id, stored.producer_epoch))


def _on_removal(batch: list[Transaction], code: ErrorCode, decision: Decision) -> None:
    """Keep ids whose tombstones could not be appended for the next round."""
    if code not in _ON_ITS_WAY:
        for each in batch:
            each.pending = None


_DECISIONS: Final[dict[type, Callable[[TransactionMachine, Any, Ticket, Decision], None]]] = {
    InitProducerId: TransactionMachine._init_producer_id,
    AddPartitions: TransactionMachine._add_partitions,
    EndTransaction: TransactionMachine._end_transaction,
    MarkersWritten: TransactionMachine._complete_after_markers,
}
