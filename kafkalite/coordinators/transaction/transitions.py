"""The transitions of transactional ids: for each request the next stored state, or an error.

The errors and their order are those of Kafka's TransactionCoordinator and TransactionMetadata (3.9). An epoch of 32766 counts as
exhausted, so one is always left to fence its owner.
"""

from __future__ import annotations

from dataclasses import replace
from enum import Enum
from typing import Final, NamedTuple

from kafkalite.coordinators.transaction.requests import (
    NO_PRODUCER_EPOCH,
    AddPartitions,
    EndTransaction,
    InitProducerId,
    ProducerIdAndEpoch,
)
from kafkalite.coordinators.transaction.transaction import Transaction
from kafkalite.coordinators.transaction.transaction_record import (
    NO_PARTITIONS,
    Partitions,
    StoredTransaction,
    TransactionState,
)
from kafkalite.errors import ErrorCode, ensure

_EPOCH_MAX: Final = 32_767
_TOPICS_MAX: Final = 5000
"""Topics of one transaction: each of its steps writes them all, which takes milliseconds for a thousand."""
_PREPARED: Final = frozenset({TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT})
_AT_REST: Final = frozenset({TransactionState.EMPTY, TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT})
_COMPLETED: Final = {
    TransactionState.PREPARE_COMMIT: TransactionState.COMPLETE_COMMIT,
    TransactionState.PREPARE_ABORT: TransactionState.COMPLETE_ABORT,
}


def is_exhausted(producer_epoch: int) -> bool:
    return producer_epoch >= _EPOCH_MAX - 1


class Initialized(NamedTuple):
    """The next stored state; `last` is the id and epoch with which the producer may repeat a request whose reply was lost."""

    stored: StoredTransaction
    last: ProducerIdAndEpoch


class Prerequisite(Enum):
    """A step that is required before a producer can be initialized."""

    GET_PRODUCER_ID = "the request must be repeated with a fresh producer id"
    FENCE = "the ongoing transaction must be aborted"


def prepare_init_producer_id(
    transaction: Transaction, request: InitProducerId, now_ms: int
) -> Initialized | Prerequisite | ErrorCode:
    """Return the state with the producer's next id and epoch for InitProducerId."""
    stored, expected = transaction.stored, request.expected
    if transaction.pending is not None:
        return ErrorCode.CONCURRENT_TRANSACTIONS
    if expected is not None and not _is_same_producer(transaction, expected):
        return ErrorCode.PRODUCER_FENCED
    if stored.state in _PREPARED:
        return ErrorCode.CONCURRENT_TRANSACTIONS
    if stored.state is TransactionState.ONGOING:
        return Prerequisite.FENCE
    if is_exhausted(stored.producer_epoch) and (expected is None or expected.producer_epoch == stored.producer_epoch):
        if request.fresh_producer_id < 0:
            return Prerequisite.GET_PRODUCER_ID
        producer = ProducerIdAndEpoch(request.fresh_producer_id, 0)
        last_epoch = stored.producer_epoch if expected is not None else NO_PRODUCER_EPOCH
    else:
        bumped = _bump_epoch(transaction, expected)
        if isinstance(bumped, ErrorCode):
            return bumped
        epoch, last_epoch = bumped
        producer = ProducerIdAndEpoch(stored.producer_id, epoch)
    following = StoredTransaction(*producer, request.timeout_ms, last_update_ms=now_ms)
    return Initialized(following, ProducerIdAndEpoch(stored.producer_id, last_epoch))


def _is_same_producer(transaction: Transaction, expected: ProducerIdAndEpoch) -> bool:
    """True if `expected` is the present producer, or the one before whose epochs were exhausted and whose reply was lost."""
    return (
        transaction.is_new
        or expected.producer_id == transaction.stored.producer_id
        or (expected.producer_id == transaction.last_producer_id and is_exhausted(expected.producer_epoch))
    )


def _bump_epoch(transaction: Transaction, expected: ProducerIdAndEpoch | None) -> tuple[int, int] | ErrorCode:
    """Return the next epoch, and the one with which the producer may repeat the request."""
    current = transaction.stored.producer_epoch
    if expected is not None and not transaction.is_new and expected.producer_epoch != current:
        if expected.producer_epoch == transaction.last_producer_epoch:  # repeated after a lost reply
            return current, transaction.last_producer_epoch
        return ErrorCode.PRODUCER_FENCED
    ensure(not is_exhausted(current), "there is no epoch left to hand out")
    return current + 1, NO_PRODUCER_EPOCH if expected is None else current


def _check_producer(transaction: Transaction | None, producer_id: int, producer_epoch: int) -> ErrorCode | None:
    """Return an error if the producer is not the transaction's."""
    if transaction is None or transaction.stored.producer_id != producer_id:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    return ErrorCode.PRODUCER_FENCED if transaction.stored.producer_epoch != producer_epoch else None


def prepare_add_partitions(
    transaction: Transaction | None, request: AddPartitions, now_ms: int
) -> StoredTransaction | ErrorCode:
    """Return the state with added partitions for AddPartitionsToTxn and AddOffsetsToTxn, NONE if it has them all."""
    refusal = _check_producer(transaction, request.producer_id, request.producer_epoch)
    if refusal is not None or transaction is None:
        return refusal or ErrorCode.INVALID_PRODUCER_ID_MAPPING
    stored = transaction.stored
    if transaction.pending is not None or stored.state in _PREPARED:
        return ErrorCode.CONCURRENT_TRANSACTIONS
    is_ongoing = stored.state is TransactionState.ONGOING
    known = stored.partitions if is_ongoing else NO_PARTITIONS
    none: frozenset[int] = frozenset()
    if is_ongoing and all(added <= known.get(topic, none) for topic, added in request.partitions.items()):
        return ErrorCode.NONE
    partitions = {**known, **{topic: known.get(topic, none) | added for topic, added in request.partitions.items()}}
    if len(partitions) > _TOPICS_MAX:
        return ErrorCode.POLICY_VIOLATION
    return replace(
        stored,
        state=TransactionState.ONGOING,
        partitions=partitions,
        last_update_ms=now_ms,
        start_ms=stored.start_ms if is_ongoing else now_ms,
    )


def verify_partitions(
    transaction: Transaction | None, producer_id: int, producer_epoch: int, partitions: Partitions
) -> Partitions | ErrorCode:
    """Return those partitions that are in the transaction, for AddPartitionsToTxn with verify only (KIP-890)."""
    refusal = _check_producer(transaction, producer_id, producer_epoch)
    if refusal is not None or transaction is None:
        return refusal or ErrorCode.INVALID_PRODUCER_ID_MAPPING
    stored = transaction.stored
    if stored.state in _PREPARED:
        return ErrorCode.CONCURRENT_TRANSACTIONS
    known = stored.partitions if stored.state is TransactionState.ONGOING else NO_PARTITIONS
    return {topic: asked & known.get(topic, frozenset()) for topic, asked in partitions.items()}


def prepare_end(transaction: Transaction | None, request: EndTransaction, now_ms: int) -> StoredTransaction | ErrorCode:
    """Return the prepared state for EndTxn, NONE if the transaction is complete with the same result."""
    refusal = _check_producer(transaction, request.producer_id, request.producer_epoch)
    if refusal is not None or transaction is None:
        return refusal or ErrorCode.INVALID_PRODUCER_ID_MAPPING
    if transaction.pending is not None:
        return ErrorCode.CONCURRENT_TRANSACTIONS
    stored = transaction.stored
    prepared = TransactionState.PREPARE_COMMIT if request.commit else TransactionState.PREPARE_ABORT
    if stored.state is TransactionState.ONGOING:
        return replace(stored, state=prepared, last_update_ms=now_ms)
    if stored.state is prepared:
        return ErrorCode.CONCURRENT_TRANSACTIONS
    return ErrorCode.NONE if stored.state is _COMPLETED[prepared] else ErrorCode.INVALID_TXN_STATE


def prepare_fence(transaction: Transaction, now_ms: int) -> StoredTransaction:
    """Return the state that aborts an ongoing transaction with a bumped epoch, which fences its producer (KIP-588)."""
    stored = transaction.stored
    ensure(
        stored.state is TransactionState.ONGOING and transaction.pending is None,
        "only an ongoing transaction is fenced",
    )
    return replace(
        stored,
        producer_epoch=min(stored.producer_epoch + 1, _EPOCH_MAX),
        state=TransactionState.PREPARE_ABORT,
        last_update_ms=now_ms,
    )


def prepare_complete(transaction: Transaction, now_ms: int) -> StoredTransaction:
    """Return the state after all markers are written."""
    stored = transaction.stored
    return replace(stored, state=_COMPLETED[stored.state], partitions=NO_PARTITIONS, last_update_ms=now_ms)


def is_timed_out(transaction: Transaction, now_ms: int) -> bool:
    stored = transaction.stored
    return (
        stored.state is TransactionState.ONGOING
        and transaction.pending is None
        and stored.start_ms + stored.timeout_ms < now_ms
    )


def is_expired(transaction: Transaction, expiration_ms: int, now_ms: int) -> bool:
    """True if the id was not used for `expiration_ms` (transactional.id.expiration.ms)."""
    stored = transaction.stored
    return stored.state in _AT_REST and transaction.pending is None and stored.last_update_ms <= now_ms - expiration_ms


def is_prepared(transaction: Transaction) -> bool:
    return transaction.stored.state in _PREPARED
