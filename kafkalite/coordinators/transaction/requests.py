"""What the transaction machine is asked, what it replies, and what it sends, free of API versions; names are the wire's, times in ms."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

from kafkalite.coordinators.transaction.transaction_record import Partitions
from kafkalite.errors import ErrorCode

NO_PRODUCER_ID = -1
NO_PRODUCER_EPOCH = -1


class ProducerIdAndEpoch(NamedTuple):
    producer_id: int
    producer_epoch: int


class InitProducerId(NamedTuple):
    """Answered with an InitProducerIdReply.

    `expected` is what a producer that goes on has (KIP-360). `fresh_producer_id` is one that nobody has had, where the caller has got one.
    """

    transactional_id: str
    timeout_ms: int
    expected: ProducerIdAndEpoch | None = None
    fresh_producer_id: int = NO_PRODUCER_ID


class InitProducerIdReply(NamedTuple):
    """`needs_producer_id`: nothing was done; the same request is to come back with a `fresh_producer_id`."""

    error: ErrorCode = ErrorCode.NONE
    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_PRODUCER_EPOCH
    needs_producer_id: bool = False


class AddPartitions(NamedTuple):
    """Answered with an ErrorCode."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    partitions: Partitions


class EndTransaction(NamedTuple):
    """Answered with an ErrorCode, NONE once it is decided; markers follow."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    commit: bool


class MarkersWritten(NamedTuple):
    """Every partition of the transaction has its marker, or is gone. Answered with None."""

    transactional_id: str
    producer_id: int
    producer_epoch: int


Request: TypeAlias = InitProducerId | AddPartitions | EndTransaction | MarkersWritten


class WriteMarkers(NamedTuple):
    """Sent: these partitions are to get the transaction's marker; then MarkersWritten is to come back."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    commit: bool
    partitions: Partitions


class DescribedTransaction(NamedTuple):
    """For administrators; `start_ms` is -1 before the first partition."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    state: str
    timeout_ms: int
    start_ms: int
    partitions: Partitions
