"""What was fetched and not yet handed to the reader, and where each assigned partition stands. Pure.

Two offsets per partition: `position` is the next record for the reader, `fetch_offset` the next to be asked for; between them lie the
buffered chunks. A seek empties the buffer and raises `generation`, so that an answer to an older question is dropped. Invariants:
- `buffered_bytes` is the sum over the chunks of all partitions.
- `position` <= the first buffered offset <= `fetch_offset`.

Reading committed (KIP-98): the answer names the aborted transactions in its range; from the first offset of one, the transactional
batches of its producer are skipped until the abort marker.

Messages of the formats before batches are sent as they lie in the log; they are read as batches made of them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sized
from dataclasses import dataclass, field
from typing import Any, TypeAlias, TypeVar

from kafkalite.client.consumer_record import ConsumerRecord
from kafkalite.client.errors import ClientError
from kafkalite.client.record_batches import RecordBatch
from kafkalite.client.record_codec import BatchRecords
from kafkalite.client.record_reader import Decode, RecordReader
from kafkalite.errors import ErrorCode, InvariantBroken, KafkaError
from kafkalite.protocol.record_batches.compression import DECOMPRESSED_LIMIT_BYTES, DecompressedTooLarge
from kafkalite.protocol.record_batches.records import (
    ABORT_MARKER,
    MAGIC,
    BatchHeader,
    Record,
    has_valid_crc,
    iter_batches,
    read_marker,
)
from kafkalite.types import NO_TOPIC_ID, Buffer, TopicPartition

_LARGEST_OFFSET = (1 << 63) - 1
_MESSAGES_AT_ONCE = 500
AT_ONCE_BYTES = 4 * 1024 * 1024
"""Decompressed; a batch that becomes more, up to 40 ms of work for each 10 MiB, is deferred."""
_OLD_AT_ONCE_BYTES = 128 * 1024
"""Of messages of older formats, each of which is read and written again in Python."""
_RECORDS_AT_ONCE = 32_768
"""A position may be behind so many records of its batch."""

Taken = TypeVar("Taken", bound=Sized)

OpenedBatch: TypeAlias = tuple[RecordReader, int]
"""A reader, and the position behind the last of its records."""


class Chunk:
    """The record batches that one fetch brought for one partition, read batch by batch."""

    def __init__(self, topic_partition: TopicPartition, data: Buffer, aborted: Iterable[tuple[int, int]]) -> None:
        self.topic_partition = topic_partition
        self.data = data
        self.size_bytes = len(data)
        self.headers = deque(iter_batches(data))
        self.next_offset = self.headers[-1].next_offset if self.headers else -1
        self._reader: RecordReader | None = None
        self._reader_end = -1
        self._aborted = deque(sorted((first_offset, producer_id) for producer_id, first_offset in aborted))
        self._aborted_producers: set[int] = set()
        self._deferred: tuple[int, bool] | None = None
        """The offset from which the first batch is opened off the event loop, and whether its CRC is checked; None otherwise."""
        self._problem: BaseException | None = None
        self.leader_epoch = -1
        """That of the last batch which `read` passed or read from, whether its records are shown or not; -1 before the first."""

    @property
    def is_deferred(self) -> bool:
        """True if the first batch is to be opened by another thread (`open_deferred`)."""
        return self._deferred is not None

    def open_deferred(self) -> OpenedBatch:
        """Return a reader of the first batch, for `finish_opening`, without changing the buffer. Raises ClientError."""
        if self._deferred is None:
            raise InvariantBroken("only what is deferred is opened apart")
        position, check_crcs = self._deferred
        return self._reader_of(self.headers[0], position, check_crcs, DECOMPRESSED_LIMIT_BYTES)

    def finish_opening(self, outcome: OpenedBatch | BaseException) -> None:
        """Take what `open_deferred` returned or raised; an error is raised whenever it is this batch's turn."""
        self._deferred = None
        if isinstance(outcome, BaseException):
            self._problem = outcome
        else:
            self._reader, self._reader_end = outcome
            self.leader_epoch = self.headers.popleft().partition_leader_epoch

    def read(
        self, position: int, check_crcs: bool, take: Callable[[RecordReader], Taken | None]
    ) -> tuple[Taken | None, int]:
        """Return what `take` takes from the reader of one batch, from `position` on, and the position behind it; None at the end of the
        chunk, and where the next batch is deferred.

        ClientError CORRUPT_MESSAGE and others for a batch that cannot be read, and errors of `take`; the position stays before it.
        """
        while True:
            if self._reader is None:
                if self._problem is not None:
                    raise self._problem
                if not self.headers or self._deferred is not None:
                    return None, position
                header = self.headers[0]
                if header.next_offset > position and not self._is_skipped(header):
                    try:
                        self._open(header, position, check_crcs)
                    except DecompressedTooLarge:
                        self._deferred = position, check_crcs
                        return None, position
                else:
                    position = max(position, min(header.next_offset, self.next_offset))
                self.leader_epoch = header.partition_leader_epoch
                self.headers.popleft()
            if self._reader is not None:
                taken = take(self._reader)
                if self._reader.remaining:  # whatever offsets its records claim, the position stays within the batch
                    return taken, min(max(self._reader.next_offset, position), self._reader_end)
                self._reader = None
                if taken:
                    return taken, self._reader_end
                position = max(position, self._reader_end)

    def take_batch(self, position: int, check_crcs: bool, limit_bytes: int) -> BatchRecords | None:
        """Return the next batch with records from `position` on, decompressed; None at the end. Not together with `read`.

        ClientError CORRUPT_MESSAGE and others; DecompressedTooLarge for more than a limit below the largest, and the batch is
        still the next.
        """
        while self.headers:
            header, data = self.headers[0], self.data
            is_wanted = header.next_offset > position and not self._is_skipped(header)
            if is_wanted and header.magic != MAGIC:
                data, header = self._convert_to_batch(check_crcs, limit_bytes)
            elif is_wanted and check_crcs:
                self._check_crc(header)
            if is_wanted:
                batch = BatchRecords(data, header, self.topic_partition)
                batch.decompress(limit_bytes)
                self.headers.popleft()
                return batch
            self.headers.popleft()
        return None

    @property
    def is_exhausted(self) -> bool:
        return self._reader is None and not self.headers

    def _open(self, header: BatchHeader, position: int, check_crcs: bool) -> None:
        """DecompressedTooLarge when that is too much work for the event loop."""
        if header.records_count > _RECORDS_AT_ONCE and header.base_offset < position:
            raise DecompressedTooLarge(AT_ONCE_BYTES)
        self._reader, self._reader_end = self._reader_of(header, position, check_crcs, AT_ONCE_BYTES)

    def _reader_of(self, header: BatchHeader, position: int, check_crcs: bool, limit_bytes: int) -> OpenedBatch:
        """Return a reader of the batch at the front. ClientError; DecompressedTooLarge for more than a limit below the largest."""
        data = self.data
        if header.records_count < 0:
            if header.magic == MAGIC:
                raise self._unreadable(header, f"has {header.records_count} records and cannot be read")
            data, header = self._convert_to_batch(check_crcs, limit_bytes)
        elif header.base_offset < 0 or header.last_offset_delta < 0:
            raise self._unreadable(header, f"has offsets from {header.base_offset} to {header.last_offset}")
        elif check_crcs:
            self._check_crc(header)
        reader = RecordReader(data, header, self.topic_partition, position, limit_bytes)
        return reader, min(header.next_offset, self.next_offset)

    def _convert_to_batch(
        self, check_crcs: bool, limit_bytes: int = DECOMPRESSED_LIMIT_BYTES
    ) -> tuple[Buffer, BatchHeader]:
        """Return the message of an older format at the front as a batch; a plain one together with plain ones behind it.

        Of those, the last one is left at the front.
        """
        from kafkalite.protocol.record_batches.legacy_records import as_batch  # few topics have these formats

        headers, first = self.headers, self.headers[0]
        if limit_bytes < DECOMPRESSED_LIMIT_BYTES:
            limit_bytes = _OLD_AT_ONCE_BYTES
        records = self._old_records(first, check_crcs, limit_bytes)
        while not first.codec and len(headers) > 1 and len(records) < _MESSAGES_AT_ONCE:
            if headers[1].magic != first.magic or headers[1].attributes != first.attributes:
                break
            try:
                records += self._old_records(headers[1], check_crcs, limit_bytes)
            except ClientError:
                break  # it is said when that one is at the front
            headers.popleft()
        try:
            batch = as_batch(records, headers[0])
        except KafkaError as problem:
            raise self._unreadable(first, f"cannot be read: {problem}") from problem
        return batch, BatchHeader.read(batch)

    def _old_records(self, header: BatchHeader, check_crcs: bool, limit_bytes: int) -> list[Record]:
        from kafkalite.protocol.record_batches.legacy_records import legacy_records

        if check_crcs:
            self._check_crc(header)
        try:
            return legacy_records(self.data, header, limit_bytes)
        except KafkaError as problem:
            if limit_bytes < DECOMPRESSED_LIMIT_BYTES and isinstance(problem, DecompressedTooLarge):
                raise
            raise self._unreadable(header, f"cannot be read: {problem}") from problem

    def _check_crc(self, header: BatchHeader) -> None:
        if not has_valid_crc(self.data, header):
            raise self._unreadable(header, "has a wrong CRC")

    def _unreadable(self, header: BatchHeader, why: str) -> ClientError:
        what = f"{self.topic_partition}: the batch at offset {header.base_offset}"
        return ClientError(ErrorCode.CORRUPT_MESSAGE, f"{what} {why}")

    def _is_skipped(self, header: BatchHeader) -> bool:
        """Control batches are never shown; batches of aborted transactions are not when the answer names such."""
        while self._aborted and self._aborted[0][0] <= header.base_offset:
            self._aborted_producers.add(self._aborted.popleft()[1])
        if header.is_control:
            try:
                marker = read_marker(self.data, header)
            except KafkaError as problem:
                raise self._unreadable(header, f"is no marker: {problem}") from problem
            if marker is not None and marker.type == ABORT_MARKER:
                self._aborted_producers.discard(header.producer_id)
            return True
        return header.is_transactional and header.producer_id in self._aborted_producers


@dataclass(slots=True, eq=False, repr=False)
class PartitionState:
    """Where one assigned partition stands.

    `position` is None until a seek, a committed offset or a reset gives one; `reset_to` is the timestamp whose offset is wanted (or
    EARLIEST, LATEST). `position_epoch` is the leader epoch of the last batch before the position, whether its records are shown or
    not, `fetch_epoch` that of the last before `fetch_offset`, -1 when unknown; `checked_epoch` is the leader's for which that was
    found to be in its log (KIP-320).
    `topic_id` is that of the topic in which `fetch_offset` is a place, NO_TOPIC_ID before it was first fetched from.
    `by_group` is True where the group assigned the partition: its leader has seen that the partition exists.
    """

    topic_partition: TopicPartition
    by_group: bool = False
    topic_id: bytes = NO_TOPIC_ID
    position: int | None = None
    position_epoch: int = -1
    fetch_offset: int = -1
    fetch_epoch: int = -1
    checked_epoch: int = -1
    checking: bool = False
    awaits_committed: bool = False
    reset_to: int | None = None
    paused: bool = False
    generation: int = 0
    fetching: bool = False
    failures: int = 0
    not_before_s: float = 0.0
    error: Exception | None = None
    high_watermark: int | None = None
    last_stable_offset: int | None = None
    log_start_offset: int | None = None
    chunks: deque[Chunk] = field(default_factory=deque)
    buffered_bytes: int = 0


_Read: TypeAlias = Callable[[str, RecordReader, int], Taken | None]
"""Reads up to so many records of a batch of a topic."""

DecodersOf = Callable[[str], tuple[Decode | None, Decode | None]]


def _no_decoders(topic: str) -> tuple[None, None]:
    return None, None


class FetchBuffer:
    """The assigned partitions with what is buffered for them. `partition_bytes`: buffered above that, a partition is not fetched.

    `decoders_of` gives a topic's deserializers of keys and values, None to leave them as bytes.
    """

    def __init__(self, partition_bytes: int, check_crcs: bool = True, decoders_of: DecodersOf = _no_decoders) -> None:
        self.partition_bytes = partition_bytes
        self.decoders_of = decoders_of
        self.check_crcs = check_crcs
        self.states: dict[TopicPartition, PartitionState] = {}
        self.buffered_bytes = 0
        self._turn: deque[TopicPartition] = deque()
        self.deferred: Chunk | None = None
        """Begins with a batch that another thread is to open (`LargeBatches`)."""

    # assignment and positions

    def assign(
        self, partitions: Iterable[TopicPartition], awaits_committed: bool = False, by_group: bool = False
    ) -> None:
        """Replace the assignment, which the user or the group made; partitions that stay keep their position and buffer.

        With `awaits_committed` new partitions get no position by the reset policy until the committed offset is known.
        """
        wanted = dict.fromkeys(partitions)
        for topic_partition in [each for each in self.states if each not in wanted]:
            state = self.states.pop(topic_partition)
            self._drop_chunks(state)
            state.generation += 1  # an answer on its way must not move the state that may take this one's place
        for topic_partition in wanted:
            if topic_partition not in self.states:
                state = self.states[topic_partition] = PartitionState(topic_partition, by_group)
                state.awaits_committed = awaits_committed
        self._turn = deque(self.states)

    def seek(self, topic_partition: TopicPartition, offset: int, leader_epoch: int = -1) -> None:
        """The position is `offset`; `leader_epoch` is that of the record before it, -1 when unknown."""
        state = self.states[topic_partition]
        self._forget(state)
        state.position = state.fetch_offset = offset
        state.position_epoch = state.fetch_epoch = leader_epoch

    def seek_to_time(self, topic_partition: TopicPartition, timestamp: int) -> None:
        """The position is to be what `timestamp` (ms, or EARLIEST, LATEST) stands for, once that is known."""
        state = self.states[topic_partition]
        self._forget(state)
        state.position, state.reset_to = None, timestamp

    def _forget(self, state: PartitionState) -> None:
        self._drop_chunks(state)
        state.generation += 1
        state.reset_to, state.error, state.awaits_committed = None, None, False
        state.position_epoch = state.fetch_epoch = -1
        state.topic_id = NO_TOPIC_ID
        state.failures, state.not_before_s = 0, 0.0

    def _drop_chunks(self, state: PartitionState) -> None:
        self.buffered_bytes -= state.buffered_bytes
        state.buffered_bytes = 0
        if self.deferred in state.chunks:
            self.deferred = None
        state.chunks.clear()

    # fetching

    def is_full(self, state: PartitionState) -> bool:
        """True if more is buffered than one fetch brings: a full one brings exactly that, the last batch being cut, and the next is due."""
        return state.buffered_bytes > self.partition_bytes

    def wants_fetch(self, state: PartitionState, now_s: float) -> bool:
        """True if this partition may be part of a fetch request now."""
        return (
            state.position is not None
            and not state.paused
            and not state.fetching
            and not state.checking
            and state.error is None
            and not self.is_full(state)
            and now_s >= state.not_before_s
        )

    def add(self, state: PartitionState, generation: int, answer: Any) -> bool:
        """Take a partition's successful fetch answer; False when a seek made it obsolete, or it brought no batch.

        ClientError for data that cannot be split into batches.
        """
        if generation != state.generation or self.states.get(state.topic_partition) is not state:
            return False
        state.high_watermark = answer.high_watermark
        state.last_stable_offset = answer.last_stable_offset
        state.log_start_offset = answer.log_start_offset
        state.failures = 0
        data = answer.records
        if not data:
            return False
        aborted = [(each.producer_id, each.first_offset) for each in answer.aborted_transactions or ()]
        chunk = Chunk(state.topic_partition, data, aborted)
        if chunk.next_offset > _LARGEST_OFFSET:
            raise ClientError(
                ErrorCode.CORRUPT_MESSAGE, f"{state.topic_partition}: a batch that ends at offset {chunk.next_offset}"
            )
        if not chunk.headers or chunk.next_offset <= state.fetch_offset:
            raise ClientError(
                ErrorCode.MESSAGE_TOO_LARGE,
                f"{state.topic_partition}: the batch at offset {state.fetch_offset} does not fit into a fetch",
            )
        state.chunks.append(chunk)
        state.fetch_offset = chunk.next_offset
        state.fetch_epoch = chunk.headers[-1].partition_leader_epoch
        state.buffered_bytes += chunk.size_bytes
        self.buffered_bytes += chunk.size_bytes
        return True

    # reading

    def read_many(
        self, limit: int, only: Collection[TopicPartition] | None = None
    ) -> dict[TopicPartition, list[ConsumerRecord]]:
        """Return up to `limit` records of as many partitions as it takes; an error only where there are none before it."""
        return self._read_pieces(limit, only, self._read_records, list.extend)

    def read_batches(
        self, limit: int, only: Collection[TopicPartition] | None = None
    ) -> dict[TopicPartition, list[RecordBatch]]:
        """Return up to `limit` records as arrays, else as `read_many`."""
        return self._read_pieces(limit, only, _read_batch, list.append)

    def find_readable(
        self, limit: int, only: Collection[TopicPartition] | None = None
    ) -> dict[TopicPartition, list[None]]:
        """Return a partition that has records, as far as is known, or an error; else as `read_many`, which takes them."""
        for place, state in self.states.items():
            is_wanted = not state.paused and (only is None or place in only)
            if is_wanted and (state.error is not None or (state.chunks and not state.chunks[0].is_deferred)):
                return {place: [None]}
        return {}

    def _read_pieces(
        self,
        limit: int,
        only: Collection[TopicPartition] | None,
        read: _Read[Taken],
        put: Callable[[list[Any], Taken], None],
    ) -> dict[TopicPartition, list[Any]]:
        """Return what was read, or leave it to be read again where something else than an error of a partition is raised."""
        found: dict[TopicPartition, list[Any]] = {}
        begun: dict[PartitionState, tuple[int | None, int]] = {}
        try:
            while limit > 0 and (piece := self._read_next(limit, only, read, begun)) is not None:
                state, taken = piece
                limit -= len(taken)
                put(found.setdefault(state.topic_partition, []), taken)
        except ClientError:
            if not found:
                raise
        except BaseException:  # of a signal handler perhaps, in the midst of a change
            self._read_again(begun)
            raise
        return found

    def _read_again(self, begun: Mapping[PartitionState, tuple[int | None, int]]) -> None:
        for state, (position, leader_epoch) in begun.items():
            if position is not None and self.states.get(state.topic_partition) is state:
                self.seek(state.topic_partition, position, leader_epoch)
        self.buffered_bytes = sum(state.buffered_bytes for state in self.states.values())

    def read_next(
        self, limit: int, only: Collection[TopicPartition] | None = None
    ) -> tuple[PartitionState, list[ConsumerRecord]] | None:
        """Return up to `limit` records of the next partition in turn that has some; None when nothing is buffered.

        Raises the error of a partition whose turn it is and that has nothing else; positions are behind what is returned.
        """
        return self._read_next(limit, only, self._read_records, {})

    def _read_next(
        self,
        limit: int,
        only: Collection[TopicPartition] | None,
        read: _Read[Taken],
        begun: dict[PartitionState, tuple[int | None, int]],
    ) -> tuple[PartitionState, Taken] | None:
        for _ in range(len(self._turn)):
            state = self.states[self._turn[0]]
            if not state.paused and (only is None or state.topic_partition in only):
                if state.chunks:
                    begun.setdefault(state, (state.position, state.position_epoch))
                    if taken := self._read_from(state, limit, read):
                        return state, taken
                if state.error is not None:
                    raise state.error
            self._turn.rotate(-1)
        return None

    def _read_records(self, topic: str, reader: RecordReader, limit: int) -> list[ConsumerRecord]:
        return reader.read(limit, *self.decoders_of(topic))

    def _read_from(self, state: PartitionState, limit: int, read: _Read[Taken]) -> Taken | None:
        topic = state.topic_partition.topic
        while state.chunks and state.position is not None:
            chunk = state.chunks[0]
            before = state.position
            taken, state.position = chunk.read(before, self.check_crcs, lambda reader: read(topic, reader, limit))
            if state.position > before:
                state.position_epoch = chunk.leader_epoch
            if chunk.is_exhausted:
                state.chunks.popleft()
                state.buffered_bytes -= chunk.size_bytes
                self.buffered_bytes -= chunk.size_bytes
            if taken:
                return taken
            if chunk.is_deferred:
                self.deferred = chunk
                return None
        return None


def _read_batch(topic: str, reader: RecordReader, limit: int) -> RecordBatch | None:
    return reader.take_batch(limit)
