"""Only producers whose coordinator says that the partition is in their transaction may begin it there (KIP-890).

A leader asks before the first append of a transaction. The guard that it makes before asking must still be there when it appends: a marker
that ends the transaction meanwhile takes it away, so an answer that comes late lets nobody begin a transaction that no coordinator knows,
and that therefore would never end.
"""

from __future__ import annotations

from typing import Final

from kafkalite.errors import ErrorCode, KafkaError
from kafkalite.protocol.record_batches.records import BatchHeader


class VerificationGuard:
    """A token for one verification by a coordinator, compared by identity."""

    __slots__ = ("name",)

    def __init__(self, name: str = "") -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"VerificationGuard({self.name or hex(id(self))})"


UNGUARDED: Final = VerificationGuard("nobody asks")
"""transaction.partition.verification.enable is off, or the other side cannot be asked: every producer may begin."""
NOT_VERIFIED: Final = VerificationGuard("not verified")
"""Only a transaction that is open in the partition may go on."""
NO_TRANSACTION: Final = VerificationGuard("no transaction")
"""The request names no transaction, so that nothing in it may be transactional."""


class _Verification:
    """A producer whose transaction is about to begin here; `lowest_sequence` is that of its first batch, which must come first."""

    __slots__ = ("epoch", "guard", "lowest_sequence", "since_ms")

    def __init__(self, epoch: int, lowest_sequence: int, since_ms: int) -> None:
        self.guard = VerificationGuard()
        self.epoch, self.lowest_sequence, self.since_ms = epoch, lowest_sequence, since_ms


class Verifications:
    """The verifications under way in one partition, by producer id."""

    def __init__(self) -> None:
        self._by_producer: dict[int, _Verification] = {}

    def start(self, producer_id: int, epoch: int, sequence: int, now_ms: int) -> VerificationGuard:
        """Return the guard for a producer that wants to begin with `sequence`; requests at the same time share one."""
        known = self._by_producer.get(producer_id)
        if known is None:
            known = self._by_producer[producer_id] = _Verification(epoch, sequence, now_ms)
        elif epoch > known.epoch:
            known.epoch, known.lowest_sequence = epoch, sequence
        elif epoch == known.epoch:
            known.lowest_sequence = min(known.lowest_sequence, sequence)
        return known.guard

    def forget(self, producer_id: int) -> None:
        """Forget a producer whose transaction has begun, or is over."""
        self._by_producer.pop(producer_id, None)

    def check(self, header: BatchHeader, guard: VerificationGuard, *, checks_sequence: bool) -> None:
        """Raise KafkaError INVALID_TXN_STATE or OUT_OF_ORDER_SEQUENCE_NUMBER unless this batch may begin a transaction."""
        known = self._by_producer.get(header.producer_id)
        if guard is not UNGUARDED and (known is None or known.guard is not guard):
            raise KafkaError(ErrorCode.INVALID_TXN_STATE, "Record was not part of an ongoing transaction")
        if checks_sequence and known is not None and header.base_sequence > known.lowest_sequence:
            raise KafkaError(
                ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"producer {header.producer_id} begins with sequence number {header.base_sequence} "
                f"where {known.lowest_sequence} was to be first",
            )

    def expire(self, now_ms: int, expiration_ms: int) -> None:
        """Forget those of producers that never came back."""
        if self._by_producer:
            self._by_producer = {
                producer_id: each
                for producer_id, each in self._by_producer.items()
                if now_ms - each.since_ms < expiration_ms
            }


NO_VERIFICATIONS: Final = Verifications()
"""The verifications of all partitions without transactional records, shared and always empty."""
