"""State of a log's producers: sequence numbers for idempotence (KIP-98, KIP-360) and transactions still open.

Pure: it gets each batch in the order of offsets and reads no file. For each producer id it keeps the epoch, the last five
batches (a client may have five requests under way, and any of them may be sent again) and the start of the open
transaction. `check` says whether a client's batch may be appended; `update` and `complete` change the state once it was.

The last stable offset is the least of the high watermark and the first offset of a transaction that is open or whose
marker is not yet below the high watermark: a follower may still lose that marker.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, NamedTuple

from kafkalite.errors import ErrorCode, KafkaError
from kafkalite.protocol.record_batches.records import (
    ABORT_MARKER,
    NO_PRODUCER_EPOCH,
    NO_SEQUENCE,
    SEQUENCE_LIMIT,
    TRANSACTIONAL,
    BatchHeader,
    Marker,
)
from kafkalite.storage.producers.verification import (
    NO_TRANSACTION,
    NO_VERIFICATIONS,
    NOT_VERIFIED,
    UNGUARDED,
    VerificationGuard,
    Verifications,
)
from kafkalite.storage.segments.transaction_index import AbortedTransaction

BATCHES_KEPT: Final = 5
NO_OFFSET: Final = -1


class ProducedRange(NamedTuple):
    """A batch as far as duplicates of it are recognised; `offset_delta` is last offset minus first."""

    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int

    @property
    def first_sequence(self) -> int:
        if self.last_sequence == NO_SEQUENCE:
            return NO_SEQUENCE
        return (self.last_sequence - self.offset_delta) % SEQUENCE_LIMIT

    @property
    def first_offset(self) -> int:
        return self.last_offset - self.offset_delta


@dataclass(slots=True, eq=False)
class Producer:
    """One producer id in one log; times in ms. `batches` are the last `BATCHES_KEPT`."""

    producer_id: int
    epoch: int = NO_PRODUCER_EPOCH
    last_timestamp: int = -1
    coordinator_epoch: int = -1
    transaction_first_offset: int | None = None
    batches: tuple[ProducedRange, ...] = ()

    @property
    def last_sequence(self) -> int:
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE

    @property
    def last_offset(self) -> int:
        """Return the last offset of data, NO_OFFSET without any."""
        return self.batches[-1].last_offset if self.batches else NO_OFFSET

    def enter_epoch(self, epoch: int) -> None:
        """Begin a new epoch, in which sequence numbers start again."""
        if epoch != self.epoch:
            self.batches = ()
            self.epoch = epoch

    def add_batch(self, batch: ProducedRange) -> None:
        """Note the batch that was appended last."""
        self.batches = (*self.batches[1 - BATCHES_KEPT :], batch)


_NO_PRODUCERS: Final[dict[int, Producer]] = {}
_NO_TRANSACTIONS: Final[dict[int, int]] = {}
"""What all logs without producers, or without transactions, share; always empty."""


class ProducerState:
    """The producers of one log up to `end_offset`."""

    __slots__ = ("_open", "_unreplicated", "_verifications", "end_offset", "producers")

    def __init__(self, producers: Iterable[Producer] = (), end_offset: int = 0) -> None:
        self.producers = {each.producer_id: each for each in producers} or _NO_PRODUCERS
        self.end_offset = end_offset
        self._verifications = NO_VERIFICATIONS
        open_starts = sorted(
            (each.transaction_first_offset, each.producer_id)
            for each in self.producers.values()
            if each.transaction_first_offset is not None
        )
        self._open = dict(open_starts) or _NO_TRANSACTIONS
        """Producer id by first offset of the open transactions, in the order of offsets."""
        self._unreplicated = _NO_TRANSACTIONS
        """Marker offset by first offset of completed transactions whose marker is not below the high watermark."""

    # Transactions

    @property
    def first_unstable_offset(self) -> int | None:
        """Return where the first transaction begins whose outcome is open or not yet safe; None without any."""
        if not self._open and not self._unreplicated:
            return None
        starts = list(self._unreplicated)
        if self._open:
            starts.append(next(iter(self._open)))
        return min(starts)

    @property
    def open_transactions(self) -> dict[int, int]:
        """Return the first offset of the open transaction by producer id."""
        return {producer_id: first for first, producer_id in self._open.items()}

    def advance_high_watermark(self, high_watermark: int) -> None:
        """Forget the completed transactions whose marker is below the high watermark."""
        if self._unreplicated:
            remaining = {first: marker for first, marker in self._unreplicated.items() if marker >= high_watermark}
            self._unreplicated = remaining or _NO_TRANSACTIONS

    # Clients' batches

    def begin_verification(self, producer_id: int, epoch: int, sequence: int, now_ms: int) -> VerificationGuard:
        """Return the guard for an append that may begin a transaction; NOT_VERIFIED where one is open, which needs no verification."""
        producer = self.producers.get(producer_id)
        if producer is not None and producer.transaction_first_offset is not None:
            return NOT_VERIFIED
        if self._verifications is NO_VERIFICATIONS:
            self._verifications = Verifications()
        return self._verifications.start(producer_id, epoch, sequence, now_ms)

    def check(
        self, header: BatchHeader, guard: VerificationGuard = UNGUARDED, log_start_offset: int = 0
    ) -> ProducedRange | None:
        """Check a client's batch before it is appended; a batch that was appended before is returned as it lies in the log.

        A producer whose batches are all below `log_start_offset` may begin with 0 again in its epoch: brokers before 2.4 forget it then and
        say so (UNKNOWN_PRODUCER_ID), and clients before 2.5 begin again. This broker may be the next leader. Such a batch is told from one
        that is sent again by its timestamp.

        Raises KafkaError INVALID_PRODUCER_EPOCH, OUT_OF_ORDER_SEQUENCE_NUMBER or INVALID_TXN_STATE; for a transactional batch in a request
        that names no transaction TRANSACTIONAL_ID_AUTHORIZATION_FAILED.
        """
        producer = self.producers.get(header.producer_id)
        is_transactional = header.attributes & TRANSACTIONAL
        if is_transactional and guard is NO_TRANSACTION:
            raise KafkaError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, "the request names no transactional id")
        if producer is None:
            if is_transactional:
                self._verifications.check(header, guard, checks_sequence=True)
            if header.producer_epoch < NO_PRODUCER_EPOCH:
                raise KafkaError(
                    ErrorCode.INVALID_PRODUCER_EPOCH,
                    f"epoch {header.producer_epoch} of producer {header.producer_id} is none",
                )
            return None
        first, epoch = header.base_sequence, header.producer_epoch
        begins_again = epoch == producer.epoch and first == 0 and producer.last_offset < log_start_offset
        if epoch == producer.epoch:
            for batch in producer.batches:
                is_repeated = batch.first_sequence == first and batch.last_sequence == header.last_sequence
                if is_repeated and not (begins_again and batch.timestamp != header.max_timestamp):
                    return batch
        if is_transactional and producer.transaction_first_offset is None:
            self._verifications.check(header, guard, checks_sequence=epoch >= producer.epoch)
        self._check_epoch(producer, epoch)
        if epoch != producer.epoch:
            if first != 0 and producer.epoch != NO_PRODUCER_EPOCH:
                raise _out_of_order(header, f"its epoch {epoch} is new, so that 0 is expected")
        elif not begins_again:
            expected = (producer.last_sequence + 1) % SEQUENCE_LIMIT
            if first != expected:
                raise _out_of_order(header, f"{expected} is expected")
        if producer.transaction_first_offset is not None and not header.is_transactional:
            raise KafkaError(
                ErrorCode.INVALID_TXN_STATE,
                f"producer {producer.producer_id} writes without its transaction, which began at "
                f"{producer.transaction_first_offset}",
            )
        return None

    def check_marker(self, header: BatchHeader, marker: Marker) -> None:
        """Raise KafkaError unless a marker may be appended: INVALID_PRODUCER_EPOCH or TRANSACTION_COORDINATOR_FENCED."""
        producer = self.producers.get(header.producer_id)
        if producer is not None:
            self._check_epoch(producer, header.producer_epoch)
            if marker.coordinator_epoch < producer.coordinator_epoch:
                raise KafkaError(
                    ErrorCode.TRANSACTION_COORDINATOR_FENCED,
                    f"coordinator epoch {marker.coordinator_epoch} is below {producer.coordinator_epoch}",
                )

    def check_own(self, header: BatchHeader, guard: VerificationGuard = UNGUARDED) -> None:
        """Raise KafkaError for a coordinator's batch of a producer that was fenced (INVALID_PRODUCER_EPOCH) or not verified."""
        producer = self.producers.get(header.producer_id)
        if header.is_transactional and (producer is None or producer.transaction_first_offset is None):
            self._verifications.check(header, guard, checks_sequence=False)
        if producer is not None:
            self._check_epoch(producer, header.producer_epoch)

    def _check_epoch(self, producer: Producer, epoch: int) -> None:
        if epoch < producer.epoch:
            raise KafkaError(
                ErrorCode.INVALID_PRODUCER_EPOCH,
                f"epoch {epoch} of producer {producer.producer_id} is below {producer.epoch}",
            )

    # Changes

    def apply(self, header: BatchHeader, marker: Marker | None) -> AbortedTransaction | None:
        """Follow an appended batch with a producer id; `marker` is that of a control batch. Returns as `complete` does."""
        if header.attributes & TRANSACTIONAL:
            self._verifications.forget(header.producer_id)
        if header.is_control:
            return self.complete(header, marker) if marker is not None else None
        self.update(header)
        return None

    def update(self, header: BatchHeader) -> None:
        """Follow an appended batch of data with a producer id."""
        producer = self._enter_producer(header)
        if header.base_sequence == 0 and producer.last_sequence != SEQUENCE_LIMIT - 1:
            producer.batches = ()  # it begins, or begins again: what has the same numbers is no repetition of an older batch
        producer.add_batch(
            ProducedRange(header.last_sequence, header.last_offset, header.last_offset_delta, header.max_timestamp)
        )
        producer.last_timestamp = header.max_timestamp
        if header.is_transactional and producer.transaction_first_offset is None:
            producer.transaction_first_offset = header.base_offset
            if self._open is _NO_TRANSACTIONS:
                self._open = {}
            self._open[header.base_offset] = header.producer_id

    def complete(self, header: BatchHeader, marker: Marker) -> AbortedTransaction | None:
        """Follow an appended marker, and return the entry for the index when it ended a transaction by aborting it."""
        producer = self._enter_producer(header)
        producer.coordinator_epoch = marker.coordinator_epoch
        producer.last_timestamp = header.max_timestamp
        first = producer.transaction_first_offset
        if first is None:
            return None
        producer.transaction_first_offset = None
        self._open.pop(first, None)
        if self._unreplicated is _NO_TRANSACTIONS:
            self._unreplicated = {}
        self._unreplicated[first] = header.last_offset
        if marker.type != ABORT_MARKER:
            return None
        stable = next(iter(self._open), header.last_offset + 1)
        return AbortedTransaction(header.producer_id, first, header.last_offset, stable)

    def expire(self, now_ms: int, expiration_ms: int) -> int:
        """Forget the producers without an open transaction that were silent for longer; returns how many."""
        silent = [
            each.producer_id
            for each in self.producers.values()
            if each.transaction_first_offset is None and now_ms - each.last_timestamp > expiration_ms
        ]
        for producer_id in silent:
            del self.producers[producer_id]
        self._verifications.expire(now_ms, expiration_ms)
        return len(silent)

    def _enter_producer(self, header: BatchHeader) -> Producer:
        producer = self.producers.get(header.producer_id)
        if producer is None:
            if self.producers is _NO_PRODUCERS:
                self.producers = {}
            producer = self.producers[header.producer_id] = Producer(header.producer_id)
        producer.enter_epoch(header.producer_epoch)
        return producer


def _out_of_order(header: BatchHeader, reason: str) -> KafkaError:
    return KafkaError(
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        f"producer {header.producer_id} sent sequence number {header.base_sequence}; {reason}",
    )
