"""Markers, which end transactions in partitions led here (KIP-98): appended as control batches, answered when they are committed.

A marker of a producer epoch that was fenced is refused with INVALID_PRODUCER_EPOCH, one that an older coordinator sent late with
TRANSACTION_COORDINATOR_FENCED. A marker where no transaction is open is appended all the same, as in Kafka, because a coordinator
that had no answer sends it again. An operator who ends a hanging transaction (KIP-664) sends one too.

What a transaction committed to a group counts when its marker in `__consumer_offsets` is committed, also where that takes longer than
the coordinator was ready to wait.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from kafkalite.errors import ErrorCode, KafkaError
from kafkalite.portions import Portions, Work
from kafkalite.protocol.record_batches.records import MAGIC, build_marker
from kafkalite.storage.log.append_checks import AppendOrigin
from kafkalite.storage.log.message_format import stored_magic
from kafkalite.types import OFFSETS_TOPIC, TopicPartition

if TYPE_CHECKING:
    from kafkalite.broker.replication.replicas import Replicas
    from kafkalite.clock import Clock

_COMMITTED: Final = frozenset({ErrorCode.NONE, ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND})


class TransactionMarker(NamedTuple):
    """The end of a producer's transaction in these partitions; `coordinator_epoch` is that of the coordinator that decided."""

    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    committed: bool
    partitions: Sequence[TopicPartition]


class _Awaited:
    """The markers of one request that are not committed yet. Until one is, its outcome is that it took too long."""

    def __init__(self) -> None:
        self.left = 0
        self.future: asyncio.Future[None] | None = None

    def complete(
        self, codes: dict[TopicPartition, ErrorCode], topic_partition: TopicPartition, code: ErrorCode
    ) -> None:
        codes[topic_partition] = code
        self.left -= 1
        if not self.left and self.future is not None and not self.future.done():
            self.future.set_result(None)

    async def wait(self, timeout_ms: float) -> None:
        """Wait until all are committed or `timeout_ms` have passed."""
        if not self.left:
            return
        self.future = asyncio.get_running_loop().create_future()
        await asyncio.wait([self.future], timeout=timeout_ms / 1000)


class MarkerWriter:
    """Appends markers to partitions led here.

    `timeout_ms()` is request.timeout.ms; `offsets_ended(partition, offset, producer id, committed)`
    notifies the group coordinator of a marker in its topic.
    """

    def __init__(
        self,
        replicas: Replicas,
        clock: Clock,
        timeout_ms: Callable[[], int],
        offsets_ended: Callable[[int, int, int, bool], None],
    ) -> None:
        self._replicas, self._clock = replicas, clock
        self._timeout_ms, self._offsets_ended = timeout_ms, offsets_ended

    async def write(
        self, markers: Sequence[TransactionMarker], portions: Portions
    ) -> list[dict[TopicPartition, ErrorCode]]:
        """Append markers; return the outcome for each partition of each, NONE once it is committed."""
        awaited = _Awaited()
        outcomes = await portions.finish(self._append_all(markers, awaited))
        await awaited.wait(self._timeout_ms())
        return [dict(codes) for codes in outcomes]

    def _append_all(
        self, markers: Sequence[TransactionMarker], awaited: _Awaited
    ) -> Work[list[dict[TopicPartition, ErrorCode]]]:
        outcomes = []
        for marker in markers:
            codes: dict[TopicPartition, ErrorCode] = {}
            for topic_partition in marker.partitions:
                yield
                code = self._append(marker, topic_partition, codes, awaited)
                if code:
                    codes[topic_partition] = code
            outcomes.append(codes)
        return outcomes

    def _append(
        self,
        marker: TransactionMarker,
        topic_partition: TopicPartition,
        codes: dict[TopicPartition, ErrorCode],
        awaited: _Awaited,
    ) -> ErrorCode:
        """Append one marker; return why it was not appended, or NONE, and `codes` gets the outcome."""
        partition = self._replicas.partitions.get(topic_partition)
        if partition is None:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        config = partition.log.config
        if config.message_format_acts and stored_magic(config) != MAGIC:
            return ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT
        wall_ms = self._clock.now_ms()
        batch = build_marker(
            commit=marker.committed,
            producer_id=marker.producer_id,
            producer_epoch=marker.producer_epoch,
            coordinator_epoch=marker.coordinator_epoch,
            timestamp=wall_ms,
        )
        try:
            partition.require_leader()
            result = partition.append(batch, -1, self._clock.monotonic_ms(), wall_ms, origin=AppendOrigin.COORDINATOR)
        except KafkaError as problem:
            return problem.code
        codes[topic_partition] = ErrorCode.REQUEST_TIMED_OUT
        awaited.left += 1
        partition.when_committed(
            result.last_offset + 1,
            partial(self._complete_marker, marker, topic_partition, result.last_offset, codes, awaited),
        )
        return ErrorCode.NONE

    def _complete_marker(
        self,
        marker: TransactionMarker,
        topic_partition: TopicPartition,
        offset: int,
        codes: dict[TopicPartition, ErrorCode],
        awaited: _Awaited,
        code: ErrorCode,
    ) -> None:
        """Record the outcome of a marker: it is committed, or its partition has another leader, which reads it if it is still there."""
        try:
            if topic_partition.topic == OFFSETS_TOPIC and code in _COMMITTED:
                self._offsets_ended(topic_partition.partition, offset, marker.producer_id, marker.committed)
        finally:
            awaited.complete(codes, topic_partition, code)
