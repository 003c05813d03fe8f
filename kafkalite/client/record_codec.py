"""Records between Python objects and batches.

`kafkalite.protocol.record_batches.record_code` packs records one by one, and unpacks many in one call, in 0.1 µs each. What is around
them (header, CRC-32C, compression) is `kafkalite.protocol.record_batches.records`', which has the layout.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import repeat
from typing import TYPE_CHECKING

from kafkalite.client.errors import ClientError, error_of
from kafkalite.client.records import CREATE_TIME, LOG_APPEND_TIME, Header
from kafkalite.errors import ErrorCode, KafkaError
from kafkalite.portions import Work
from kafkalite.protocol.record_batches.compression import DECOMPRESSED_LIMIT_BYTES, DecompressedTooLarge
from kafkalite.protocol.record_batches.record_code import Columns, RecordMemory, new_writer
from kafkalite.protocol.record_batches.records import (
    CODEC_MASK,
    HEADER_SIZE,
    LOG_OVERHEAD,
    TRANSACTIONAL,
    BatchHeader,
    assemble_batch,
    complete_batch,
    records_of,
)
from kafkalite.protocol.record_batches.varint import read_varint32
from kafkalite.types import Buffer, TopicPartition

if TYPE_CHECKING:
    from kafkalite.client.consumer_record import ConsumerRecord
    from kafkalite.protocol.record_batches.record_digest import RangeDigest, Times

UNREADABLE: tuple[type[Exception], ...] = (ValueError, IndexError, MemoryError, OverflowError)
"""What reading bytes that are no records raises."""

_UNREADABLE_BATCH: tuple[type[Exception], ...] = (KafkaError, *UNREADABLE)

_PART_FACTOR = 4
"""To find where parts begin takes as long as to read them, which is too much where a batch is only a little too long."""

Row = tuple[int, bytes | None, bytes | None, Sequence[Header]]
"""Timestamp in ms, key, value and headers of a record."""
AddRecord = Callable[[int | None, bytes | None, bytes | None, Sequence[Header]], int]
"""`RecordsWriter.add`."""

RECORD_OVERHEAD_BYTES = 31
"""The most that a record takes beside the contents of key, value and headers."""


def record_bytes_bound(key: bytes | None, value: bytes | None, headers: Sequence[Header]) -> int:
    """Return an upper bound of the bytes that the record takes in a batch, without compression."""
    size = RECORD_OVERHEAD_BYTES + len(key or b"") + len(value or b"")
    for name, content in headers:
        size += 10 + 4 * len(name) + len(content or b"")
    return size


def check_record_size(
    topic: str, key: bytes | None, value: bytes | None, headers: Sequence[Header], most_bytes: int
) -> None:
    """Raise ClientError MESSAGE_TOO_LARGE for a record that fits into no request."""
    size = HEADER_SIZE + record_bytes_bound(key, value, headers)
    if size > most_bytes:
        raise ClientError(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"a record of about {size} bytes for {topic} is larger than max_request_size ({most_bytes})",
        )


class BatchWriter:
    """A batch under construction, of up to `target_bytes`: what `RecordsWriter` says, whose `add` is a compiled function where there is
    one, and what is around the records."""

    __slots__ = ("_attributes", "_writer", "add", "add_queued", "append", "extend", "timestamp_at")

    def __init__(
        self, target_bytes: int, memory: RecordMemory | None = None, *, is_transactional: bool = False
    ) -> None:
        self._writer = writer = new_writer(target_bytes, memory)
        self._attributes = TRANSACTIONAL if is_transactional else 0
        self.add: AddRecord = writer.add
        self.add_queued = writer.add_queued
        self.append = writer.append
        self.extend: Callable[[Iterable[Row]], int] = writer.extend
        self.timestamp_at = writer.timestamp_at

    @property
    def size_bytes(self) -> int:
        """Return the bytes of the batch so far, without compression."""
        return self._writer.size

    @property
    def record_count(self) -> int:
        """Return the number of records."""
        return self._writer.count

    def build(self, codec: int, producer_id: int = -1, producer_epoch: int = -1, base_sequence: int = -1) -> Buffer:
        """Return the finished batch, compressed with `codec` where that makes it smaller. The writer is spent."""
        return complete_batch(
            self._writer,
            codec=codec,
            attributes=self._attributes,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            base_sequence=base_sequence,
            if_smaller=True,
        )


def reassemble_batch(header: BatchHeader, body: Buffer, **changes: int) -> bytearray:
    """Return a batch of `header` with `changes` around `body`, with right length and CRC."""
    facts = {
        "records_count": header.records_count,
        "last_offset_delta": header.last_offset_delta,
        "base_timestamp": header.base_timestamp,
        "max_timestamp": header.max_timestamp,
        "base_offset": header.base_offset,
        "leader_epoch": header.partition_leader_epoch,
        "attributes": header.attributes,
        "producer_id": header.producer_id,
        "producer_epoch": header.producer_epoch,
        "base_sequence": header.base_sequence,
    }
    return assemble_batch(body, **{**facts, **changes})


def with_producer_state(batch: Buffer, producer_id: int, producer_epoch: int, base_sequence: int) -> bytearray:
    """Return the batch under another producer id, epoch and sequence."""
    return reassemble_batch(
        BatchHeader.read(batch),
        memoryview(batch)[HEADER_SIZE:],
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
    )


def make_records(columns: Columns, header: BatchHeader, topic_partition: TopicPartition) -> list[ConsumerRecord]:
    """Return a record of the batch at `header` for each row of the columns; no step of this is taken in Python."""
    from kafkalite.client.consumer_record import ConsumerRecord  # producers do without

    topic, partition = topic_partition
    offsets, timestamps, keys, values, headers = columns
    time_type = LOG_APPEND_TIME if header.uses_log_append_time else CREATE_TIME
    epoch = header.partition_leader_epoch
    return list(
        map(
            ConsumerRecord,
            repeat(topic),
            repeat(partition),
            offsets,
            timestamps,
            repeat(time_type),
            keys,
            values,
            headers,
            repeat(epoch),
        )
    )


class BatchRecords:
    """The batch at `header` of `data`, for readers that take columns (`record_columns`)."""

    __slots__ = ("_plain", "data", "header", "topic_partition")

    def __init__(self, data: Buffer, header: BatchHeader, topic_partition: TopicPartition) -> None:
        self._plain: Buffer | None = None
        self.data = data
        self.header = header
        self.topic_partition = topic_partition

    @property
    def span(self) -> tuple[int, int]:
        """Return begin and end of its encoded records in `data`."""
        return self.header.position + HEADER_SIZE, self.header.end

    def decompress(self, limit_bytes: int = DECOMPRESSED_LIMIT_BYTES) -> None:
        """Decompress the records, once. ClientError when that fails; DecompressedTooLarge for more than a limit below the largest."""
        if self.header.codec and self._plain is None:
            with self.naming_errors():
                try:
                    self._plain = records_of(self.data, self.header, limit_bytes)
                except DecompressedTooLarge:
                    if limit_bytes == DECOMPRESSED_LIMIT_BYTES:
                        raise
            if self._plain is None:
                raise DecompressedTooLarge(limit_bytes)

    def decompressed_size(self) -> int:
        """Decompress the records now; returns their bytes, which headers may lie about. ClientError."""
        return len(self.plain_body()) if self.header.codec else self.header.size

    def plain_body(self) -> Buffer:
        """Return the encoded records, decompressed; ClientError when that fails."""
        self.decompress()
        return memoryview(self.data)[slice(*self.span)] if self._plain is None else self._plain

    def digest(self, start: int, end: int, times: Times) -> Work[RangeDigest]:
        """Return the digest of the records from `start` to before `end`, within `times`. Raises what `naming_errors` names."""
        from kafkalite.protocol.record_batches.record_digest import digest_batch

        return digest_batch(self.data, self.header, start, end, plain=self._plain, times=times)

    def parts(self, rows: int, size_bytes: int) -> Iterator[BatchRecords]:
        """Yield the batch, or where it has more records than `rows` or many more bytes than `size_bytes`, parts of at most so much, of one
        record at least: a megabyte may hold ten million records. ClientError."""
        left = self.header.records_count
        if left <= rows and self.decompressed_size() <= _PART_FACTOR * size_bytes:
            yield self
            return
        if self.header.codec:
            data = self.plain_body()
            position, end = 0, len(data)
        else:
            data, (position, end) = self.data, self.span
        while left > 0:
            begin, taken = position, 0
            with self.naming_errors():
                while taken < min(rows, left) and position - begin < size_bytes:
                    length, position = read_varint32(data, position)
                    position += length
                    taken += 1
                    if length < 0 or position > end:
                        raise ValueError("a record that is longer than its batch, or negative")
            left -= taken
            yield self.part(data, begin, position if left else end, taken)

    def part(self, data: Buffer, begin: int, end: int, count: int) -> BatchRecords:
        """Return `count` records of this batch that lie decompressed in `data[begin:end]`."""
        position = begin - HEADER_SIZE
        header = self.header._replace(
            attributes=self.header.attributes & ~CODEC_MASK,
            records_count=count,
            position=position,
            batch_length=end - position - LOG_OVERHEAD,
        )
        return BatchRecords(data, header, self.topic_partition)

    @contextmanager
    def naming_errors(self) -> Iterator[None]:
        """Makes what goes wrong in reading a ClientError that names the batch, as `RecordReader.read`."""
        try:
            yield
        except _UNREADABLE_BATCH as problem:
            where = f"{self.topic_partition}: batch at offset {self.header.base_offset}"
            raise unreadable_batch(where, problem) from problem


def unreadable_batch(where: str, problem: Exception) -> ClientError:
    """Return the error of a batch, named by `where`, that cannot be read."""
    if isinstance(problem, KafkaError):
        return error_of(problem.code, where, problem.message)
    return ClientError(ErrorCode.CORRUPT_MESSAGE, f"{where} cannot be read: {problem}")
