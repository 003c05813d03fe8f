"""Records on their way to brokers: batches per partition, by size and linger, within a bound of memory. Pure; time comes as `now_ms`.

The life of a batch: open (records are appended) → sealed (full, lingered long enough, or flushed) → in flight → done, or back in its
queue to be sent again. Invariants:
- A partition's queue holds its batches in the order in which they were opened; only the last may be open, and is `open_batch` then.
- Batches in flight are never in the queue; a batch that comes back goes before all that were opened later, and is sent again
  only when nothing of its partition is in flight.
- `used_bytes` is the sum over all batches that are not done, and passes `buffer_memory` by at most one record.
"""

from __future__ import annotations

import bisect
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING

from kafkalite.client.producer.sequence_numbers import SEQUENCES
from kafkalite.client.record_codec import AddRecord, BatchWriter, Row
from kafkalite.client.records import Header
from kafkalite.errors import ensure
from kafkalite.protocol.record_batches.record_code import new_memory
from kafkalite.protocol.record_batches.records import BatchHeader
from kafkalite.types import Buffer, TopicPartition

if TYPE_CHECKING:
    from kafkalite.client.consumer_record import ConsumerRecord

DeliveryCallback = Callable[["Batch", int], None]


class BatchState(Enum):
    """Where a batch is in its life."""

    OPEN = "open"
    SEALED = "sealed"
    IN_FLIGHT = "in flight"
    DONE = "done"


_OPEN = BatchState.OPEN
_VARLONG_BYTES = 10
_ANY_BYTES = (1 << 63) - 1

_ORDINAL_GAP = 1.0
"""Between the ordinals of two batches; the second half of a split batch gets one in between."""


@dataclass(slots=True, eq=False, repr=False)
class Batch:
    """Records of one partition that travel together.

    After success `base_offset` and `log_append_time` (ms, -1 when the broker keeps the producer's timestamps) are set, after failure
    `error`. `size_bytes`, which counts against the memory bound, is without compression. `base_sequence` is -1 until the batch is first
    sent idempotently; `ordinal` orders the batches of a partition. `may_be_written` is true once an attempt's outcome stayed unknown.
    """

    topic_partition: TopicPartition
    ordinal: float
    writer: BatchWriter
    add: AddRecord
    """That of `writer`."""
    created_ms: float
    not_before_ms: float = 0.0
    state: BatchState = BatchState.OPEN
    attempts: int = 0
    may_be_written: bool = False
    sent_to: int = -1
    """The broker of the last attempt."""
    encoded: Buffer | None = None
    producer_id: int = -1
    producer_epoch: int = -1
    base_sequence: int = -1
    base_offset: int = -1
    log_append_time: int = -1
    error: Exception | None = None
    callbacks: list[tuple[int, DeliveryCallback]] = field(default_factory=list)
    on_done: list[Callable[[], None]] = field(default_factory=list)
    parts: tuple[Batch, Batch] | None = None

    def __repr__(self) -> str:
        return f"Batch({self.topic_partition} #{self.ordinal}, {self.record_count} records, {self.state.value})"

    @property
    def record_count(self) -> int:
        return self.writer.record_count

    @property
    def size_bytes(self) -> int:
        return self.writer.size_bytes

    def part_of(self, index: int) -> tuple[Batch, int]:
        """Return the batch in which record `index` travelled, and its place there: itself, or a part after a split."""
        if self.parts is None:
            return self, index
        first, second = self.parts
        return first.part_of(index) if index < first.record_count else second.part_of(index - first.record_count)

    def finish(self, error: Exception | None, base_offset: int = -1, log_append_time: int = -1) -> None:
        """Make the outcome known: set it, then run the callbacks in the order of the records."""
        ensure(self.state is not BatchState.DONE, f"{self} is finished twice")
        self.state = BatchState.DONE
        self.error, self.base_offset, self.log_append_time = error, base_offset, log_append_time
        for index, callback in self.callbacks:
            callback(self, index)
        for each in self.on_done:
            each()


class PartitionQueue:
    """The batches of one partition that wait, oldest first, and those in flight, oldest first."""

    __slots__ = ("in_flight", "next_ordinal", "open_batch", "topic_partition", "waiting")

    def __init__(self, topic_partition: TopicPartition) -> None:
        self.topic_partition = topic_partition
        self.waiting: deque[Batch] = deque()
        self.open_batch: Batch | None = None
        self.in_flight: list[Batch] = []
        self.next_ordinal = 0


class Accumulator:
    """The batches of all partitions of a producer, bounded by `buffer_memory`. `batch_size` and `buffer_memory` in bytes,
    `linger_ms` in ms; a batch's own `add` takes up to `content_limit_bytes` of key and value, and asks `now_ms` for timestamps.

    `max_in_flight_per_partition` is 1 where order could not be kept otherwise (no idempotence, KIP-98), since of two requests in
    flight the first may fail and be sent again after the second.
    """

    def __init__(
        self,
        *,
        batch_size: int,
        linger_ms: float,
        buffer_memory: int,
        max_in_flight_per_partition: int = 1,
        is_transactional: bool = False,
        content_limit_bytes: int = _ANY_BYTES,
        now_ms: Callable[[], int] | None = None,
    ) -> None:
        self.batch_size = batch_size
        self.linger_ms = linger_ms
        self.buffer_memory = buffer_memory
        self._memory = new_memory(buffer_memory, content_limit_bytes, now_ms)
        self.max_in_flight_per_partition = max_in_flight_per_partition
        self.is_transactional = is_transactional
        self._queues: dict[TopicPartition, PartitionQueue] = {}
        self._active: dict[TopicPartition, PartitionQueue] = {}
        self._flushing = 0

    @property
    def used_bytes(self) -> int:
        return self._memory.used_bytes

    @property
    def unfinished(self) -> int:
        """Return the number of batches that are not done."""
        return sum(len(queue.in_flight) + len(queue.waiting) for queue in self._active.values())

    @property
    def has_room(self) -> bool:
        """True if a record may be appended now, which passes `buffer_memory` by that one record at most."""
        return self._memory.used_bytes < self.buffer_memory

    def queue(self, topic_partition: TopicPartition) -> PartitionQueue:
        """Return the queue of a partition; it is the same one for ever."""
        queue = self._queues.get(topic_partition)
        if queue is None:
            queue = self._queues[topic_partition] = PartitionQueue(topic_partition)
        return queue

    def append_to_new(
        self,
        queue: PartitionQueue,
        timestamp: int,
        key: bytes | None,
        value: bytes | None,
        headers: Sequence[Header],
        now_ms: float,
    ) -> Batch:
        """Put a record into a new batch, where the open one takes it no more; that is complete with this.

        Raises as `RecordsWriter.append`; then there is no new batch.
        """
        batch = self._enqueue(
            queue, now_ms, BatchState.OPEN, lambda writer: writer.append(timestamp, key, value, headers)
        )
        queue.open_batch = batch
        return batch

    def add_complete(self, queue: PartitionQueue, rows: Sequence[Row], now_ms: float) -> Batch:
        """Put as many of the rows, one at least, as a batch takes into one of their own, which is complete with that.

        TypeError, OverflowError and UnicodeEncodeError for a row that is no record; then there is no batch.
        """
        return self._enqueue(queue, now_ms, BatchState.SEALED, lambda writer: writer.extend(rows))

    def _enqueue(
        self, queue: PartitionQueue, now_ms: float, state: BatchState, fill: Callable[[BatchWriter], int]
    ) -> Batch:
        """Return a batch with the records that `fill` writes, behind all others, none of which is open any more. Raises as `fill`; then
        there is no new batch."""
        writer = BatchWriter(self.batch_size, self._memory, is_transactional=self.is_transactional)
        try:
            fill(writer)
        except BaseException:
            if writer.record_count:
                self._memory.used_bytes -= writer.size_bytes
            raise
        self._close_open(queue)
        batch = Batch(queue.topic_partition, queue.next_ordinal, writer, writer.add, now_ms, state=state)
        queue.next_ordinal += 1
        self._active[queue.topic_partition] = queue
        queue.waiting.append(batch)
        return batch

    @staticmethod
    def _close_open(queue: PartitionQueue) -> None:
        """Let the open batch of a queue, if there is one, take no more records."""
        if queue.open_batch is not None:
            queue.open_batch.state = BatchState.SEALED
            queue.open_batch = None

    # what can be sent

    def _sendable(self, queue: PartitionQueue, now_ms: float) -> bool:
        if not queue.waiting or len(queue.in_flight) >= self.max_in_flight_per_partition:
            return False
        batch = queue.waiting[0]
        if now_ms < batch.not_before_ms or (batch.attempts and queue.in_flight):
            return False
        return self._ripe_at_ms(batch) <= now_ms

    def _ripe_at_ms(self, batch: Batch) -> float:
        """Return the time at which an open batch has lingered long enough; sealed ones, flushes and full memory do not linger."""
        if batch.state is not BatchState.OPEN or self._flushing or self.used_bytes >= self.buffer_memory // 2:
            return 0.0
        return batch.created_ms + self.linger_ms

    def ready_partitions(self, now_ms: float) -> list[TopicPartition]:
        """Return partitions whose first batch can be sent now."""
        return [tp for tp, queue in self._active.items() if self._sendable(queue, now_ms)]

    def complete_among(self, among: Iterable[TopicPartition], now_ms: float) -> list[TopicPartition]:
        """Return those of which the first batch can be sent now and takes no more records."""
        return [
            tp for tp in among if self._sendable(self._queues[tp], now_ms) and self.first_batch(tp).state is not _OPEN
        ]

    def next_event_ms(self, now_ms: float, delivery_timeout_ms: float) -> float | None:
        """Return the first moment after `now_ms` at which a waiting batch becomes ripe, ends its backoff or expires; None without one."""
        moments = []
        for queue in self._active.values():
            if queue.waiting:
                batch = queue.waiting[0]
                moments.append(max(self._ripe_at_ms(batch), batch.not_before_ms))
                moments.append(batch.created_ms + delivery_timeout_ms)
        return min((moment for moment in moments if moment > now_ms), default=None)

    def first_batch(self, topic_partition: TopicPartition) -> Batch:
        """Return the batch that `take_batch` would give."""
        return self._queues[topic_partition].waiting[0]

    def take_batch(self, topic_partition: TopicPartition) -> Batch:
        """Move the partition's first batch from waiting to in flight."""
        queue = self._queues[topic_partition]
        batch = queue.waiting.popleft()
        if batch is queue.open_batch:
            self._close_open(queue)
        batch.state = BatchState.IN_FLIGHT
        batch.attempts += 1
        queue.in_flight.append(batch)
        self._active[topic_partition] = self._active.pop(topic_partition)  # the next request begins with another one
        return batch

    def in_flight(self, topic_partition: TopicPartition) -> list[Batch]:
        """Return the partition's batches in flight, oldest first."""
        queue = self._queues.get(topic_partition)
        return list(queue.in_flight) if queue else []

    # what came back

    def requeue(self, batch: Batch, not_before_ms: float) -> None:
        """A batch in flight failed and is to be sent again, before all that were opened later."""
        queue = self._queues[batch.topic_partition]
        queue.in_flight.remove(batch)
        batch.state = BatchState.SEALED
        batch.not_before_ms = not_before_ms
        position = bisect.bisect_left([each.ordinal for each in queue.waiting], batch.ordinal)
        queue.waiting.insert(position, batch)

    def finish(self, batch: Batch, error: Exception | None, base_offset: int = -1, log_append_time: int = -1) -> None:
        """A batch is delivered, or given up; its memory is free."""
        queue = self._queues[batch.topic_partition]
        if batch.state is BatchState.IN_FLIGHT:
            queue.in_flight.remove(batch)
        else:
            queue.waiting.remove(batch)
            if batch is queue.open_batch:
                self._close_open(queue)
        self._memory.used_bytes -= batch.size_bytes
        if not queue.waiting and not queue.in_flight:
            self._active.pop(batch.topic_partition, None)
        batch.finish(error, base_offset, log_append_time)

    def split(self, batch: Batch) -> None:
        """A batch in flight is too large for the broker: its halves take its place, with its sequence numbers.

        The batch is done when both are; its records' fates are those of the halves.
        """
        from kafkalite.client.record_reader import read_records  # brokers refuse few batches

        ensure(batch.encoded is not None and batch.record_count > 1, f"{batch} cannot be split")
        records = read_records(batch.encoded, BatchHeader.read(batch.encoded), *batch.topic_partition, 0)  # type: ignore[arg-type]
        middle = len(records) // 2
        gap = _ORDINAL_GAP / 2 ** (batch.attempts + 1)
        first = self._part(batch, records[:middle], batch.ordinal, 0)
        second = self._part(batch, records[middle:], batch.ordinal + gap, middle)
        queue = self._queues[batch.topic_partition]
        queue.in_flight.remove(batch)
        position = bisect.bisect_left([each.ordinal for each in queue.waiting], batch.ordinal)
        queue.waiting.insert(position, first)
        queue.waiting.insert(position + 1, second)
        self._memory.used_bytes -= batch.size_bytes
        batch.parts = (first, second)

        def part_done() -> None:
            if first.state is second.state is BatchState.DONE:
                batch.finish(first.error or second.error, first.base_offset, first.log_append_time)

        first.on_done.append(part_done)
        second.on_done.append(part_done)

    def _part(self, batch: Batch, records: Sequence[ConsumerRecord], ordinal: float, skipped: int) -> Batch:
        # A part's first timestamp is another one, from which others may be further away.
        room_bytes = batch.size_bytes + _VARLONG_BYTES * len(records)
        writer = BatchWriter(room_bytes, self._memory, is_transactional=self.is_transactional)
        part = Batch(batch.topic_partition, ordinal, writer, writer.add, batch.created_ms)
        writer.extend((each.timestamp, each.key, each.value, each.headers) for each in records)
        part.state = BatchState.SEALED
        part.attempts, part.may_be_written = batch.attempts, batch.may_be_written
        if batch.base_sequence >= 0:
            part.producer_id, part.producer_epoch = batch.producer_id, batch.producer_epoch
            part.base_sequence = (batch.base_sequence + skipped) % SEQUENCES
        return part

    def expired_batches(self, now_ms: float, delivery_timeout_ms: float) -> list[Batch]:
        """Return waiting batches whose time for delivery is over, oldest first in each partition."""
        limit_ms = now_ms - delivery_timeout_ms
        found = []
        for queue in self._active.values():
            for batch in queue.waiting:
                if batch.created_ms > limit_ms:
                    break
                found.append(batch)
        return found

    def has_earlier(self, batch: Batch) -> bool:
        """True if a batch of the same partition that was opened before this one is not done."""
        queue = self._queues[batch.topic_partition]
        return any(each.ordinal < batch.ordinal for each in (*queue.in_flight, *queue.waiting))

    def waiting(self, topic_partition: TopicPartition) -> list[Batch]:
        """Return the partition's batches that wait, oldest first."""
        queue = self._queues.get(topic_partition)
        return list(queue.waiting) if queue else []

    def batches(self) -> Iterator[Batch]:
        """Yield all batches that are not done."""
        for queue in list(self._active.values()):
            yield from list(queue.in_flight)
            yield from list(queue.waiting)

    # flush

    def begin_flush(self) -> list[Batch]:
        """Let nothing linger until `end_flush`; the batches that the flush waits for."""
        self._flushing += 1
        pending = list(self.batches())
        self.seal(pending)
        return pending

    def end_flush(self) -> None:
        self._flushing -= 1

    def seal(self, batches: Iterable[Batch]) -> None:
        """Close open batches; later records go into new ones."""
        for batch in batches:
            if batch.state is BatchState.OPEN:
                self._close_open(self._queues[batch.topic_partition])
