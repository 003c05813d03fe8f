"""The records of one batch, read piece by piece: as record objects, or as arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kafkalite.client.consumer_record import ConsumerRecord
from kafkalite.client.errors import ClientError, RecordDeserializationError
from kafkalite.client.record_batches import RecordBatch, find_batch
from kafkalite.client.record_codec import make_records, unreadable_batch
from kafkalite.errors import KafkaError
from kafkalite.protocol.record_batches.compiled_records import encoded_records
from kafkalite.protocol.record_batches.compression import DECOMPRESSED_LIMIT_BYTES, DecompressedTooLarge
from kafkalite.protocol.record_batches.record_code import (
    EVERYTHING,
    LEAST_TIMESTAMP,
    Columns,
    read_columns,
    skip_records,
)
from kafkalite.protocol.record_batches.records import BatchHeader
from kafkalite.types import Buffer, TopicPartition

Decode = Callable[[bytes], Any]


class RecordReader:
    """The records of the batch at `header`, from `from_offset` on, read piece by piece: a piece stays in the processor's cache.

    `remaining` is how many records are left at most, `next_offset` the offset behind the last one that was read. Keys and values are bytes,
    or what `to_key` and `to_value` make of them.
    """

    __slots__ = (
        "_append_time",
        "_header",
        "_plain",
        "_position",
        "_problem",
        "_topic_partition",
        "next_offset",
        "remaining",
    )

    def __init__(
        self,
        data: Buffer,
        header: BatchHeader,
        topic_partition: TopicPartition,
        from_offset: int,
        limit_bytes: int = DECOMPRESSED_LIMIT_BYTES,
    ) -> None:
        """ClientError for a batch that cannot be read; DecompressedTooLarge for one that becomes more than a lower limit."""
        self._header = header
        self._topic_partition = topic_partition
        self._problem: Exception | None = None
        self._append_time = header.max_timestamp if header.uses_log_append_time else None
        self._position, self.remaining = 0, max(header.records_count, 0)
        self.next_offset = header.base_offset
        try:
            self._plain = encoded_records(data, header, limit_bytes)
        except KafkaError as problem:
            if limit_bytes < DECOMPRESSED_LIMIT_BYTES and isinstance(problem, DecompressedTooLarge):
                raise
            raise self._unreadable(problem) from problem
        if from_offset > header.base_offset:
            self._skip_to(from_offset)

    def _skip_to(self, from_offset: int) -> None:
        base_offset, base_timestamp = self._header.base_offset, self._header.base_timestamp
        self._position, skipped = skip_records(
            self._plain, 0, len(self._plain), self.remaining, base_offset, base_timestamp, from_offset, LEAST_TIMESTAMP
        )
        self.remaining -= skipped

    def read(self, limit: int, to_key: Decode | None = None, to_value: Decode | None = None) -> list[ConsumerRecord]:
        """Return up to `limit` records, [] at the end of the batch.

        ClientError, naming the partition, for a batch that cannot be read (CORRUPT_MESSAGE, or the code of the failed decompression);
        RecordDeserializationError for a record that cannot be decoded. Records before it are returned first; it is raised by
        every call after that.
        """
        if self._problem is not None:
            raise self._problem
        limit = min(limit, self.remaining)
        if limit <= 0:
            return []
        header, plain = self._header, self._plain
        base_offset, base_timestamp = header.base_offset, header.base_timestamp
        try:
            self._position, columns = read_columns(
                plain, self._position, len(plain), limit, base_offset, base_timestamp, self._append_time, EVERYTHING
            )
        except ValueError as problem:
            self._problem = self._unreadable(problem)
            raise self._problem from problem
        if to_key is not None or to_value is not None:
            columns = self._decode(columns, to_key, to_value)
        found = make_records(columns, self._header, self._topic_partition)
        self.remaining -= len(found)
        if found:
            self.next_offset = found[-1].offset + 1
        return found

    def take_batch(self, limit: int) -> RecordBatch | None:
        """Return up to `limit` records as arrays, None at the end of the batch. ClientError as `read`."""
        if self._problem is not None:
            raise self._problem
        limit = min(limit, self.remaining)
        if limit <= 0:
            return None
        try:
            found, position = find_batch(self._plain, self._header, self._topic_partition, self._position, limit)
        except ValueError as problem:
            self._problem = self._unreadable(problem)
            raise self._problem from problem
        self._position = position
        self.remaining -= len(found)
        self.next_offset = found.offsets[-1] + 1
        return found

    def _decode(self, columns: Columns, to_key: Decode | None, to_value: Decode | None) -> Columns:
        """Return the columns with decoded keys and values, up to the first record that cannot be decoded.

        RecordDeserializationError where that is the first; else it is raised by every later `read`.
        """
        offsets, timestamps, keys, values, headers = columns
        decoded_keys: list[Any] = []
        decoded_values: list[Any] = []
        for offset, key, value in zip(offsets, keys, values, strict=True):
            part = "key"
            try:
                decoded_key = key if to_key is None or key is None else to_key(key)
                part = "value"
                decoded_values.append(value if to_value is None or value is None else to_value(value))
            except Exception as problem:
                self._problem = RecordDeserializationError(self._topic_partition, offset, part, problem)
                self._problem.__cause__ = problem
                if not decoded_keys:
                    raise self._problem from problem
                break
            decoded_keys.append(decoded_key)
        taken = len(decoded_keys)
        return offsets[:taken], timestamps[:taken], decoded_keys, decoded_values, headers[:taken]

    def _unreadable(self, problem: Exception) -> ClientError:
        return unreadable_batch(f"{self._topic_partition}: batch at offset {self._header.base_offset}", problem)


def read_records(
    data: Buffer, header: BatchHeader, topic: str, partition: int, from_offset: int
) -> list[ConsumerRecord]:
    """Return all records of the batch at `header` from `from_offset` on, with keys and values as bytes. Errors as `RecordReader.read`."""
    reader = RecordReader(data, header, TopicPartition(topic, partition), from_offset)
    found = reader.read(max(header.records_count, 1))
    if reader.remaining:
        reader.read(reader.remaining)
    return found
