"""Records as arrays, for programs that look at many at once: nothing is made for a single record until it is asked for."""

from __future__ import annotations

from array import array
from collections.abc import Collection
from typing import Any, Final

from kafkalite.client.consumer_record import ConsumerRecord
from kafkalite.client.record_codec import BatchRecords, make_records
from kafkalite.client.records import CREATE_TIME, LOG_APPEND_TIME
from kafkalite.protocol.record_batches.record_code import EVERYTHING, KEYS, VALUES, Columns, find_places, read_columns
from kafkalite.protocol.record_batches.records import BatchHeader
from kafkalite.types import Buffer, TopicPartition

_OFFSETS: Final = -(1 << 63), 1 << 63
"""Bounds that no offset is outside of."""


class RecordBatch:
    """Records of one partition, in order, as they lie in a record batch of the log or a part of it.

    `offsets`, `timestamps` (ms since 1970 UTC), `key_starts`, `key_ends`, `value_starts` and `value_ends` are `array("q")`, 64-bit integers
    with one element for each record, which numpy and Arrow take without a copy. A key or value is `data[start:end]`, and null where its
    start is -1. `timestamp_type` is CREATE_TIME (0) or LOG_APPEND_TIME (1) for all of them.

    `data` is read-only memory that stays as long as the batch or a view of it does: the whole response of the broker, or what was
    decompressed. Copy what is kept for long.
    """

    __slots__ = (
        "_begin",
        "_end",
        "_header",
        "data",
        "key_ends",
        "key_starts",
        "offsets",
        "timestamps",
        "topic_partition",
        "value_ends",
        "value_starts",
    )

    _header: BatchHeader
    _begin: int
    _end: int
    topic_partition: TopicPartition
    data: memoryview
    offsets: array[int]
    timestamps: array[int]
    key_starts: array[int]
    key_ends: array[int]
    value_starts: array[int]
    value_ends: array[int]

    def __len__(self) -> int:
        return len(self.offsets)

    def __repr__(self) -> str:
        return f"RecordBatch({self.topic_partition}, {len(self)} records from offset {self.offsets[0]})"

    @property
    def timestamp_type(self) -> int:
        """CREATE_TIME (0) if producers set the timestamps, LOG_APPEND_TIME (1) if brokers did."""
        return LOG_APPEND_TIME if self._header.uses_log_append_time else CREATE_TIME

    @property
    def leader_epoch(self) -> int:
        """Return the epoch of the leader that appended the records."""
        return self._header.partition_leader_epoch

    def copy_keys(self) -> list[bytes | None]:
        """Return all keys as bytes."""
        return self._read(KEYS)[2]

    def copy_values(self) -> list[bytes | None]:
        """Return all values as bytes."""
        return self._read(VALUES)[3]

    def make_records(self) -> list[ConsumerRecord]:
        """Return a `ConsumerRecord` for each record, with key and value as bytes, and headers."""
        return make_records(self._read(EVERYTHING), self._header, self.topic_partition)

    def to_arrow(self, columns: Collection[str] | None = None) -> Any:
        """Return a `pyarrow.RecordBatch` as `Consumer.read_range` does: key, value, partition, offset, timestamp, timestamp_type, headers,
        or those of them that are in `columns`. ValueError for another column; ImportError without pyarrow and numpy."""
        from kafkalite.client.consumer.record_columns import FIELDS, record_batch, schema_of

        whole = BatchRecords(self.data, self._header, self.topic_partition)
        part = whole.part(self.data, self._begin, self._end, len(self))
        return record_batch([part], *_OFFSETS, schema_of(FIELDS if columns is None else columns))

    def _read(self, wanted: int) -> Columns:
        header, count = self._header, len(self)
        append_time = header.max_timestamp if header.uses_log_append_time else None
        bases = header.base_offset, header.base_timestamp
        return read_columns(self.data, self._begin, self._end, count, *bases, append_time, wanted)[1]


def find_batch(
    plain: Buffer, header: BatchHeader, topic_partition: TopicPartition, begin: int, limit: int
) -> tuple[RecordBatch, int]:
    """Return up to `limit` records from byte `begin` of the decompressed records of a batch, and the position behind them.

    ValueError where there is no well-formed one.
    """
    found = RecordBatch()
    found._header, found._begin, found.topic_partition = header, begin, topic_partition
    found.data = memoryview(plain).toreadonly()
    found._end, places = find_places(plain, begin, len(plain), limit, header.base_offset, header.base_timestamp)
    found.offsets, timestamps, found.key_starts, found.key_ends, found.value_starts, found.value_ends, *_ = places
    by_broker = header.uses_log_append_time
    found.timestamps = array("q", [header.max_timestamp]) * len(timestamps) if by_broker else timestamps
    return found, found._end
