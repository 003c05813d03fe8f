"""Records between Python objects and batches.

Compiled code (`kafkalite.protocol.record_batches.compiled_records`) packs and unpacks single records, 0.2 to 0.7 µs each. What is around
them (header, CRC-32C, compression) is `kafkalite.protocol.record_batches.records`', which has the layout.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain, islice
from typing import Any

from kafkalite.client.errors import ClientError, RecordDeserializationError, error_of
from kafkalite.client.records import CREATE_TIME, LOG_APPEND_TIME, ConsumerRecord, Header
from kafkalite.errors import ErrorCode, KafkaError
from kafkalite.portions import Work
from kafkalite.protocol.record_batches.compiled_records import builder, decode, unreadable
from kafkalite.protocol.record_batches.compression import DECOMPRESSED_LIMIT_BYTES, DecompressedTooLarge, compress
from kafkalite.protocol.record_batches.record_digest import RangeDigest, Times, digest_batch
from kafkalite.protocol.record_batches.records import (
    CODEC_MASK,
    HEADER_SIZE,
    LOG_OVERHEAD,
    BatchHeader,
    Record,
    assemble_batch,
    iter_records,
    records_of,
)
from kafkalite.protocol.record_batches.varint import read_varint32
from kafkalite.types import Buffer, TopicPartition

UNREADABLE: tuple[type[Exception], ...] = unreadable()
"""What decoders raise for bytes that are no records."""

_make_builder = builder()
_UNREADABLE_BATCH: tuple[type[Exception], ...] = (KafkaError, *UNREADABLE)

_NO_HEADERS: tuple[Header, ...] = ()
"""Shared by all records without headers: a list for each is an object more to make, and for the garbage collector to follow."""

_PART_FACTOR = 4
"""To find where parts begin takes as long as to read them, which is too much where a batch is only a little too long."""

RECORD_OVERHEAD_BYTES = 31
"""The most that a record takes beside the contents of key, value and headers."""


def record_bytes_bound(key: bytes | None, value: bytes | None, headers: Sequence[Header]) -> int:
    """Return an upper bound of the bytes that the record takes in a batch, without compression."""
    size = RECORD_OVERHEAD_BYTES + len(key or b"") + len(value or b"")
    for name, content in headers:
        size += 10 + 4 * len(name) + len(content or b"")
    return size


class BatchWriter:
    """A batch under construction. `add_record(number, timestamp, key, value, headers)`, a compiled function, returns something with
    the record's `size`, or None for a record that does not fit into `target_bytes` any more; the first one always does."""

    __slots__ = ("_builder", "add_record")

    def __init__(self, target_bytes: int, *, is_transactional: bool = False) -> None:
        self._builder: Any = _make_builder(batch_size=target_bytes, is_transactional=int(is_transactional))
        self.add_record: Callable[..., Any] = self._builder.append

    def build(self, codec: int, producer_id: int = -1, producer_epoch: int = -1, base_sequence: int = -1) -> Buffer:
        """Return the finished batch, compressed with `codec` where that makes it smaller. The writer is spent."""
        builder, self._builder = self._builder, None
        builder.set_producer_state(producer_id, producer_epoch, base_sequence)
        batch: Buffer = builder.build()
        if codec:
            packed = compress(codec, memoryview(batch)[HEADER_SIZE:])
            if len(packed) < len(batch) - HEADER_SIZE:
                header = BatchHeader.read(batch)
                return reassemble_batch(header, packed, attributes=header.attributes | codec)
        return batch


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


Decode = Callable[[bytes], Any]


class RecordReader:
    """The records of the batch at `header`, from `from_offset` on, read piece by piece: a piece stays in the processor's cache.

    `remaining` is how many records are left at most. Keys and values are bytes, or what `to_key` and `to_value` make of them.
    """

    __slots__ = ("_data", "_header", "_plain", "_problem", "_records", "_topic_partition", "remaining")

    def __init__(
        self,
        data: Buffer,
        header: BatchHeader,
        topic_partition: TopicPartition,
        from_offset: int,
        limit_bytes: int = DECOMPRESSED_LIMIT_BYTES,
    ) -> None:
        """ClientError for a batch that cannot be read; DecompressedTooLarge for one that becomes more than a lower limit."""
        self._data = data
        self._header = header
        self._topic_partition = topic_partition
        self._problem: Exception | None = None
        self.remaining = header.records_count
        try:
            records = decode(data, header, limit_bytes)
            for record in records if from_offset > header.base_offset else ():
                if record.offset >= from_offset:
                    records = chain((record,), records)
                    break
                self.remaining -= 1
        except UNREADABLE as problem:
            wanted = [record for record in self._leniently(problem, 0) if record.offset >= from_offset]
            self.remaining = len(wanted)
            records = iter(wanted)
        except KafkaError as problem:
            if limit_bytes < DECOMPRESSED_LIMIT_BYTES and isinstance(problem, DecompressedTooLarge):
                raise
            raise self._unreadable(problem) from problem
        self._records: Iterator[Any] = records

    def read(self, limit: int, to_key: Decode | None = None, to_value: Decode | None = None) -> list[ConsumerRecord]:
        """Return up to `limit` records, [] at the end of the batch.

        ClientError, naming the partition, for a batch that cannot be read (CORRUPT_MESSAGE, or the code of the failed decompression);
        RecordDeserializationError for a record that cannot be decoded. Records before it are returned first; it is raised by
        every call after that.
        """
        if self._problem is not None:
            raise self._problem
        found: list[ConsumerRecord] = []
        try:
            try:
                self._read_into(found, limit, to_key, to_value)
            except UNREADABLE as problem:
                index = self._header.records_count - self.remaining + len(found)
                self._records = iter(self._leniently(problem, index))
                self._read_into(found, limit - len(found), to_key, to_value)
        except ClientError as problem:
            self._fail(found, problem)
        self.remaining = self.remaining - len(found) if found else 0
        return found

    def _read_into(
        self, found: list[ConsumerRecord], limit: int, to_key: Decode | None, to_value: Decode | None
    ) -> None:
        if to_key is None and to_value is None:
            self._read_bytes(found, limit)
        else:
            self._read_decoded(found, limit, to_key, to_value)

    def _leniently(self, problem: Exception, index: int) -> list[Record]:
        """Return the records from the `index`-th on, as `iter_records` reads them; ClientError of `problem` when it cannot either.

        Brokers, Kafka's too, take what the compiled decoder does not (names of headers that are not UTF-8, odd varints), and what
        anybody may produce must not stop all who read the topic.
        """
        try:
            return list(islice(iter_records(self._data, self._header), index, None))
        except KafkaError:
            raise self._unreadable(problem) from problem

    def _fail(self, found: list[ConsumerRecord], problem: Exception) -> None:
        self._problem = problem
        if not found:
            raise problem

    def _unreadable(self, problem: Exception) -> ClientError:
        return _unreadable(f"{self._topic_partition}: batch at offset {self._header.base_offset}", problem)

    # The two loops below are written out: a call or a test more for each record would be felt.

    def _read_bytes(self, found: list[ConsumerRecord], limit: int) -> None:
        topic, partition = self._topic_partition
        epoch, time_type, append_time = self._common_fields()
        append = found.append
        for record in islice(self._records, limit):
            append(
                ConsumerRecord(
                    topic,
                    partition,
                    record.offset,
                    record.timestamp if append_time is None else append_time,
                    time_type,
                    record.key,
                    record.value,
                    record.headers or _NO_HEADERS,
                    epoch,
                )
            )

    def _read_decoded(
        self, found: list[ConsumerRecord], limit: int, to_key: Decode | None, to_value: Decode | None
    ) -> None:
        topic, partition = self._topic_partition
        epoch, time_type, append_time = self._common_fields()
        append = found.append
        for record in islice(self._records, limit):
            offset, key, value = record.offset, record.key, record.value
            part = "key"
            try:
                if to_key is not None and key is not None:
                    key = to_key(key)
                part = "value"
                if to_value is not None and value is not None:
                    value = to_value(value)
            except Exception as problem:
                raise RecordDeserializationError(self._topic_partition, offset, part, problem) from problem
            append(
                ConsumerRecord(
                    topic,
                    partition,
                    offset,
                    record.timestamp if append_time is None else append_time,
                    time_type,
                    key,
                    value,
                    record.headers or _NO_HEADERS,
                    epoch,
                )
            )

    def _common_fields(self) -> tuple[int, int, int | None]:
        """Return leader epoch, timestamp type and, if the broker set it, the timestamp of all records."""
        header = self._header
        if header.uses_log_append_time:
            return header.partition_leader_epoch, LOG_APPEND_TIME, header.max_timestamp
        return header.partition_leader_epoch, CREATE_TIME, None


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
            yield self._part(data, begin, position if left else end, taken)

    def _part(self, data: Buffer, begin: int, end: int, count: int) -> BatchRecords:
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
            raise _unreadable(where, problem) from problem


def _unreadable(where: str, problem: Exception) -> ClientError:
    if isinstance(problem, KafkaError):
        return error_of(problem.code, where, problem.message)
    return ClientError(ErrorCode.CORRUPT_MESSAGE, f"{where} cannot be read: {problem}")


def read_records(
    data: Buffer, header: BatchHeader, topic: str, partition: int, from_offset: int
) -> list[ConsumerRecord]:
    """Return all records of the batch at `header` from `from_offset` on, with keys and values as bytes. Errors as `RecordReader.read`."""
    reader = RecordReader(data, header, TopicPartition(topic, partition), from_offset)
    found = reader.read(max(header.records_count, 1))
    if reader.remaining:
        reader.read(reader.remaining)
    return found
