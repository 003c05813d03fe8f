"""A transactional id (Kafka's TransactionMetadata): its stored state, and the state that a takeover does not need."""

from __future__ import annotations

from dataclasses import dataclass, field

from kafkalite.coordinators.transaction.requests import NO_PRODUCER_EPOCH, NO_PRODUCER_ID
from kafkalite.coordinators.transaction.transaction_record import StoredTransaction, TransactionState


@dataclass(slots=True)
class Transaction:
    """`stored` changes only when a record is applied. An id whose first record is not committed yet has the producer epoch -1.

    `pending` is the state of a record being appended: until it is committed or refused, other requests are refused.
    `last_producer_id` and `last_producer_epoch` are those before the last bump by a continuing producer, which may repeat it (KIP-360).
    """

    transactional_id: str
    stored: StoredTransaction
    pending: TransactionState | None = None
    draft: tuple[bytes, StoredTransaction] | None = None
    """The record being appended and its state, which need not be decoded when it is applied."""
    last_producer_id: int = field(default=NO_PRODUCER_ID)
    last_producer_epoch: int = field(default=NO_PRODUCER_EPOCH)
    is_sending: bool = False
    """True while its markers are being written."""

    @property
    def state(self) -> TransactionState:
        return self.stored.state

    @property
    def is_new(self) -> bool:
        """True if the log has no record of the id."""
        return self.stored.producer_epoch == NO_PRODUCER_EPOCH

    def set_stored(self, stored: StoredTransaction) -> None:
        """Set the state of an applied record."""
        before, self.stored, self.pending, self.draft = self.stored, stored, None, None
        if (before.producer_id, before.producer_epoch) != (stored.producer_id, stored.producer_epoch):
            self.last_producer_id, self.last_producer_epoch = NO_PRODUCER_ID, NO_PRODUCER_EPOCH
