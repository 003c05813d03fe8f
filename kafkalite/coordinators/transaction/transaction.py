"""One transactional id: what its log says, and what need not outlive this coordinator."""

from __future__ import annotations

from dataclasses import dataclass, field

from kafkalite.coordinators.transaction.requests import NO_PRODUCER_EPOCH, NO_PRODUCER_ID
from kafkalite.coordinators.transaction.transaction_record import StoredTransaction, TransactionState


@dataclass(slots=True)
class Transaction:
    """`stored` changes only when a record is applied. An id whose first record is not committed yet has the producer epoch -1.

    `pending` is the state that a record on its way leads to: until it is committed, or was refused, nothing else may be decided.
    `last_producer_id` and `last_producer_epoch` are those before the last bump by a producer that went on (KIP-360): it may repeat that.
    """

    transactional_id: str
    stored: StoredTransaction
    pending: TransactionState | None = None
    draft: tuple[bytes, StoredTransaction] | None = None
    """The record on its way, and what it says: what was just written need not be read."""
    last_producer_id: int = field(default=NO_PRODUCER_ID)
    last_producer_epoch: int = field(default=NO_PRODUCER_EPOCH)
    is_sending: bool = False
    """Are its markers on their way?"""

    @property
    def state(self) -> TransactionState:
        return self.stored.state

    @property
    def is_new(self) -> bool:
        """Is nothing of it in the log?"""
        return self.stored.producer_epoch == NO_PRODUCER_EPOCH

    def set_stored(self, stored: StoredTransaction) -> None:
        """A record says so."""
        before, self.stored, self.pending, self.draft = self.stored, stored, None, None
        if (before.producer_id, before.producer_epoch) != (stored.producer_id, stored.producer_epoch):
            self.last_producer_id, self.last_producer_epoch = NO_PRODUCER_ID, NO_PRODUCER_EPOCH
