"""The transactional ids of one partition of `__transaction_state`: carries out what `transitions` decides, and takes in the log.

The life of a transaction, each step a record that is committed before the next:

    Empty → Ongoing (partitions are added) → PrepareCommit or PrepareAbort: decided → markers are sent → CompleteCommit or CompleteAbort

- While a record of an id is on its way nothing else is decided about it (CONCURRENT_TRANSACTIONS). That holds also when its append took
  too long: the client hears COORDINATOR_NOT_AVAILABLE, and the record may be committed yet. Kafka decides again then, on a state that the
  log may contradict a moment later.
- A fencing that cannot be written leaves the state as it was; Kafka keeps the bumped epoch in memory.
- A takeover sends the markers of everything that is prepared again.
"""

from __future__ import annotations

import logging
import struct
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import islice
from typing import Any, Final

from kafkalite.coordinators.contract import Decision, DraftRecord, LogRecord, Now, Ticket
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
"""Looked at before the loop serves others."""
_TOMBSTONES_BYTES: Final = 16_384
"""Of keys in one batch."""
_LATE_MS: Final = 500
"""How often to look what became of a record whose append took too long."""
_RETRY_MS: Final = 100
"""The end of a transaction that cannot be written is tried again."""
_STORE_ERRORS: Final = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
}
"""The answer to a client when a record cannot be appended."""
_ON_ITS_WAY: Final = frozenset(
    {ErrorCode.NONE, ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND, ErrorCode.REQUEST_TIMED_OUT}
)
"""The record is in the log: it was applied, or will be."""

Continuation = Callable[[ErrorCode, Decision], None]


class TransactionMachine:
    """A `contract.Machine`; see the module."""

    def __init__(self, settings: TransactionSettings) -> None:
        self.settings = settings
        self.transactions: dict[str, Transaction] = {}
        self._ongoing: dict[str, None] = {}
        self._prepared: dict[str, None] = {}
        self._rounds: dict[tuple[str], Iterator[str]] = {}

    # Deciding

    def decide(self, request: Request, ticket: Ticket, now: Now) -> Decision:
        """See `contract.Machine.decide`; `requests` describes the replies."""
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
        outcome = transitions.initialized(transaction, request, decision.now.wall_ms)
        if outcome is transitions.First.GET_PRODUCER_ID:
            decision.answer(ticket, InitProducerIdReply(needs_producer_id=True))
        elif outcome is transitions.First.FENCE:
            self._fence(transaction, decision, partial(_answer_fenced, ticket))
        elif isinstance(outcome, transitions.Initialized):
            stored, last = outcome
            self._write(transaction, stored, decision, partial(_answer_initialized, transaction, stored, last, ticket))
        else:
            decision.answer(ticket, InitProducerIdReply(ErrorCode(outcome)))

    def _add_partitions(self, request: AddPartitions, ticket: Ticket, decision: Decision) -> None:
        transaction = self.transactions.get(request.transactional_id)
        outcome = transitions.with_partitions(transaction, request, decision.now.wall_ms)
        if transaction is None or isinstance(outcome, ErrorCode):
            decision.answer(ticket, outcome)
        else:
            self._write(transaction, outcome, decision, lambda code, then: then.answer(ticket, code))

    def _end(self, request: EndTransaction, ticket: Ticket, decision: Decision) -> None:
        transaction = self.transactions.get(request.transactional_id)
        outcome = transitions.ended(transaction, request, decision.now.wall_ms)
        if transaction is None or isinstance(outcome, ErrorCode):
            decision.answer(ticket, outcome)
        else:
            self._prepare(transaction, outcome, decision, lambda code, then: then.answer(ticket, code))

    def _fence(self, transaction: Transaction, decision: Decision, then: Continuation) -> None:
        self._prepare(transaction, transitions.fenced(transaction, decision.now.wall_ms), decision, then)

    def _prepare(
        self, transaction: Transaction, stored: StoredTransaction, decision: Decision, then: Continuation
    ) -> None:
        def written(code: ErrorCode, following: Decision) -> None:
            then(code, following)
            self._send_markers(transaction, following)

        self._write(transaction, stored, decision, written)

    # Markers

    def _send_markers(self, transaction: Transaction, decision: Decision) -> None:
        """Once the end is decided, and that is committed."""
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

    def _markers_written(self, request: MarkersWritten, ticket: Ticket, decision: Decision) -> None:
        decision.answer(ticket, None)
        transaction = self.transactions.get(request.transactional_id)
        if transaction is not None and transaction.is_sending and request[1:] == _producer(transaction):
            self._complete(transaction, decision)

    def _complete(self, transaction: Transaction, decision: Decision) -> None:
        def written(code: ErrorCode, following: Decision) -> None:
            if transaction.pending is None and transitions.is_prepared(transaction):
                following.set_timer(("complete", transaction.transactional_id), _RETRY_MS)

        if transaction.pending is None and transitions.is_prepared(transaction):
            self._write(transaction, transitions.completed(transaction, decision.now.wall_ms), decision, written)

    # Writing

    def _write(
        self, transaction: Transaction, stored: StoredTransaction, decision: Decision, then: Continuation
    ) -> None:
        """`then` gets the answer to the client."""
        self.transactions[transaction.transactional_id] = transaction
        transaction.pending = stored.state

        def settled(code: ErrorCode, following: Decision) -> None:
            if code is ErrorCode.REQUEST_TIMED_OUT:
                following.set_timer(("late", transaction.transactional_id), _LATE_MS)
            elif code not in _ON_ITS_WAY:
                transaction.pending = None
                self._forget_if_new(transaction)
            then(_STORE_ERRORS.get(code, code), following)

        key, value = (
            transaction_record.encode_key(transaction.transactional_id),
            transaction_record.encode_value(stored),
        )
        transaction.draft = (value, stored)
        decision.append([DraftRecord(key, value)], settled)

    def _forget_if_new(self, transaction: Transaction) -> None:
        if transaction.is_new:
            self.transactions.pop(transaction.transactional_id, None)

    # Timers

    def on_timer(self, key: Any, now: Now) -> Decision:
        """See `contract.Machine.on_timer`."""
        decision = Decision(now)
        if key == _ABORT:
            ids = self._some(_ABORT, self._ongoing, self.settings.abort_timed_out_interval_ms, decision)
            self._abort_timed_out(ids, decision)
        elif key == _EXPIRE:
            ids = self._some(_EXPIRE, self.transactions, self.settings.remove_expired_interval_ms, decision)
            self._remove_expired(ids, decision)
        else:
            kind, transactional_id = key
            transaction = self.transactions.get(transactional_id)
            if transaction is not None and kind == "late":
                self._look_again(transaction, decision)
            elif transaction is not None:
                self._complete(transaction, decision)
        return decision

    def _some(self, key: tuple[str], ids: Iterable[str], interval_ms: int, decision: Decision) -> list[Transaction]:
        """Those of a round whose turn it is; the others are looked at when the loop has served others, the next round is later."""
        left = self._rounds.get(key)
        if left is None:
            left = self._rounds[key] = iter(tuple(ids))
        some = list(islice(left, _IDS_AT_ONCE))
        if len(some) < _IDS_AT_ONCE:
            del self._rounds[key]
        decision.set_timer(key, interval_ms if len(some) < _IDS_AT_ONCE else 0)
        return [self.transactions[each] for each in some if each in self.transactions]

    def _look_again(self, transaction: Transaction, decision: Decision) -> None:
        """Its append took too long: it is still on its way, or was committed and its markers are due."""
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
                    *_producer(each),
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
                decision.append(records, partial(_removed, batch))
                batch, records, size = [], [], 0
            each.pending = TransactionState.DEAD
            batch.append(each)
            records.append(DraftRecord(key, None))
            size += len(key)
        if records:
            decision.append(records, partial(_removed, batch))

    # The log

    def apply(self, record: LogRecord) -> None:
        """See `contract.Machine.apply`. A record that cannot be read is passed over, for the others must go on without it."""
        try:
            version = record.key[0] << 8 | record.key[1] if len(record.key) >= 2 else -1
            if version != transaction_record.KEY_VERSION:
                logger.warning("offset %d: a key of unknown version %d", record.offset, version)
                return
            transactional_id = transaction_record.decode_key(record.key)
            transaction = self.transactions.get(transactional_id)
            draft = transaction.draft if transaction is not None else None
            if draft is not None and draft[0] is record.value:
                stored: StoredTransaction | None = draft[1]
            else:
                stored = None if record.value is None else transaction_record.decode_value(record.value)
        except (ValueError, IndexError, struct.error) as problem:
            logger.error("offset %d: a record that cannot be read: %s", record.offset, problem)
            return
        self._ongoing.pop(transactional_id, None)
        self._prepared.pop(transactional_id, None)
        if stored is None:
            self.transactions.pop(transactional_id, None)
            return
        if transaction is None:
            transaction = self.transactions[transactional_id] = Transaction(transactional_id, stored)
        transaction.take(stored)
        if stored.state is TransactionState.ONGOING:
            self._ongoing[transactional_id] = None
        if transitions.is_prepared(transaction):
            self._prepared[transactional_id] = None
        else:
            transaction.is_sending = False

    def apply_marker(self, producer_id: int, committed: bool) -> None:
        """See `contract.Machine.apply_marker`. Nobody writes here in a transaction."""

    def loaded(self, now: Now) -> Decision:
        """What is decided is carried out: markers are sent again."""
        decision = Decision(now)
        for transactional_id in self._prepared:
            self._send_markers(self.transactions[transactional_id], decision)
        decision.set_timer(_ABORT, self.settings.abort_timed_out_interval_ms)
        decision.set_timer(_EXPIRE, self.settings.remove_expired_interval_ms)
        return decision

    # Questions that change nothing

    def verify(
        self, transactional_id: str, producer_id: int, producer_epoch: int, partitions: Partitions
    ) -> Partitions | ErrorCode:
        """Those of the partitions that are in the producer's ongoing transaction (KIP-890), or why none can be."""
        return transitions.verified(self.transactions.get(transactional_id), producer_id, producer_epoch, partitions)

    def describe(self, transactional_id: str) -> DescribedTransaction | None:
        """None for an id that is not known, or about to be removed."""
        transaction = self.transactions.get(transactional_id)
        return None if transaction is None or transaction.pending is TransactionState.DEAD else _described(transaction)

    def list_transactions(self) -> Iterator[DescribedTransaction]:
        """All of them; those that come or go meanwhile may be missing."""
        for transaction in tuple(self.transactions.values()):
            if transaction.pending is not TransactionState.DEAD:
                yield _described(transaction)

    def statistics(self) -> dict[str, int]:
        """Counts for metrics and tests."""
        return {"ids": len(self.transactions), "ongoing": len(self._ongoing), "prepared": len(self._prepared)}


def _producer(transaction: Transaction) -> tuple[int, int]:
    return transaction.stored.producer_id, transaction.stored.producer_epoch


def _described(transaction: Transaction) -> DescribedTransaction:
    stored = transaction.stored
    return DescribedTransaction(
        transaction.transactional_id,
        *_producer(transaction),
        stored.state.label,
        stored.timeout_ms,
        stored.start_ms,
        stored.partitions,
    )


def _answer_fenced(ticket: Ticket, code: ErrorCode, decision: Decision) -> None:
    """The client comes again until the transaction is aborted, and gets one epoch more then."""
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


def _removed(batch: list[Transaction], code: ErrorCode, decision: Decision) -> None:
    """What could not be removed is, some other time."""
    if code not in _ON_ITS_WAY:
        for each in batch:
            each.pending = None


_DECISIONS: Final[dict[type, Callable[[TransactionMachine, Any, Ticket, Decision], None]]] = {
    InitProducerId: TransactionMachine._init_producer_id,
    AddPartitions: TransactionMachine._add_partitions,
    EndTransaction: TransactionMachine._end,
    MarkersWritten: TransactionMachine._markers_written,
}
