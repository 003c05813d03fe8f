"""Requests, replies and messages of the transaction machine, free of API versions; names are those of the protocol, times in ms."""

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

    `expected` is the id and epoch of a producer that continues (KIP-360). `fresh_producer_id` is newly allocated, if the caller has one.
    """

    transactional_id: str
    timeout_ms: int
    expected: ProducerIdAndEpoch | None = None
    fresh_producer_id: int = NO_PRODUCER_ID


class InitProducerIdReply(NamedTuple):
    """The reply to InitProducerId; with `needs_producer_id` it must be repeated with a `fresh_producer_id`."""

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
    """Answered with an ErrorCode, NONE once the decision is committed; markers follow."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    commit: bool


class MarkersWritten(NamedTuple):
    """Sent when every partition of the transaction has its marker or is deleted. Answered with None."""

    transactional_id: str
    producer_id: int
    producer_epoch: int


Request: TypeAlias = InitProducerId | AddPartitions | EndTransaction | MarkersWritten


class WriteMarkers(NamedTuple):
    """A message to write the transaction's markers to partitions, followed by the request MarkersWritten."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    commit: bool
    partitions: Partitions


class DescribedTransaction(NamedTuple):
    """A transaction for administrators; `start_ms` is -1 before the first partition."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    state: str
    timeout_ms: int
    start_ms: int
    partitions: Partitions
