"""Finds offsets by timestamp in a log, as ListOffsets asks for them.

Where a search must not wait for the medium (`OpenFiles`), it does not go through the records of a large batch either, since a few hundred
kB may hold millions. It raises `LongSearch` then, which is run in another thread as a load is; the segment keeps the outcome.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from kafkalite.errors import ErrorCode, KafkaError
from kafkalite.protocol.record_batches.compiled_records import DecodedRecord
from kafkalite.protocol.record_batches.compression import DECOMPRESSED_LIMIT_BYTES, DecompressedTooLarge
from kafkalite.protocol.record_batches.legacy_records import legacy_records
from kafkalite.protocol.record_batches.record_code import read_columns, readable, skip_records
from kafkalite.protocol.record_batches.records import MAGIC, NO_TIMESTAMP, BatchHeader, records_of
from kafkalite.storage.log.partition_log import PartitionLog
from kafkalite.storage.log_directory import uses_disk
from kafkalite.storage.open_files import NotInMemory
from kafkalite.storage.segments.segment import Segment
from kafkalite.types import Buffer

_RECORDS_AT_ONCE: Final = 10_000
_PLAIN_BYTES_AT_ONCE: Final = 1 << 20
_MESSAGE_BYTES_AT_ONCE: Final = 128 * 1024
"""Bound for messages of older formats, which are read in Python."""
_SEARCHES_KEPT: Final = 16


class LongSearch(NotInMemory):
    """A search through the records of one large batch, which `load` makes; the segment keeps its outcome."""

    def __init__(self, segment: Segment, header: BatchHeader, data: Buffer, timestamp: int, start_offset: int) -> None:
        super().__init__(segment.disk, segment.path, header.position, header.size)
        self.key = header.position, header.crc, timestamp, start_offset
        self.args = (segment.path, *self.key)
        self._outcomes, self._header, self._data = segment.searched, header._replace(position=0), data

    def load(self) -> None:
        _, _, timestamp, start_offset = self.key
        outcome: tuple[int, int] | KafkaError | None
        try:
            outcome = _search(self._data, self._header, timestamp, start_offset, DECOMPRESSED_LIMIT_BYTES)
        except KafkaError as problem:
            outcome = problem.as_outcome()
        while len(self._outcomes) >= _SEARCHES_KEPT:
            self._outcomes.pop(next(iter(self._outcomes)), None)
        self._outcomes[self.key] = outcome


@uses_disk
def find_offset_for_timestamp(log: PartitionLog, timestamp: int, upper_bound: int) -> tuple[int, int, int] | None:
    """Return (timestamp, offset, leader epoch or -1) of the first record with at least `timestamp` ms, if that is below `upper_bound`.

    Raises KafkaError KAFKA_STORAGE_ERROR, or LongSearch or NotInMemory where it must not wait.
    """
    return _find_record(log, timestamp, upper_bound)


@uses_disk
def find_offset_of_max_timestamp(log: PartitionLog) -> tuple[int, int, int] | None:
    """Return (timestamp, offset, leader epoch or -1) of the record with the largest timestamp, the first among equals (KIP-734).

    Raises as `find_offset_for_timestamp`.
    """
    largest = max(segment.largest_timestamp for segment in log.segments)
    return _find_record(log, largest, log.log_end_offset) if largest != NO_TIMESTAMP else None


def _find_record(log: PartitionLog, timestamp: int, upper_bound: int) -> tuple[int, int, int] | None:
    record = _find_in_segments(log.segments, timestamp, log.log_start_offset)
    if record is None or record[1] >= upper_bound:
        return None
    epoch = log.epochs.epoch_for_offset(record[1])
    return *record, -1 if epoch is None else epoch


def _find_in_segments(segments: Iterable[Segment], timestamp: int, start_offset: int) -> tuple[int, int] | None:
    """Return (timestamp, offset) of the first record at or behind `start_offset` with at least `timestamp` ms."""
    for segment in segments:
        if segment.largest_timestamp < timestamp:
            continue
        entry = segment.time_index.lookup(timestamp)
        position = segment.offset_index.lookup(entry.offset).position
        for header in segment.headers(position):
            if header.max_timestamp >= timestamp and header.last_offset >= start_offset:
                record = _find_in_batch(segment, header, timestamp, start_offset)
                if record is not None:
                    return record
    return None


def _find_in_batch(segment: Segment, header: BatchHeader, timestamp: int, start_offset: int) -> tuple[int, int] | None:
    is_old = header.magic != MAGIC
    if header.uses_log_append_time and not is_old:
        return header.max_timestamp, max(header.base_offset, start_offset)
    data = segment.read(header.position, header.size)
    if segment.may_wait:
        return _search(data, header._replace(position=0), timestamp, start_offset, DECOMPRESSED_LIMIT_BYTES)
    if header.records_count <= _RECORDS_AT_ONCE:
        try:
            limit_bytes = _MESSAGE_BYTES_AT_ONCE if is_old else _PLAIN_BYTES_AT_ONCE
            return _search(data, header._replace(position=0), timestamp, start_offset, limit_bytes)
        except DecompressedTooLarge:
            pass
    search = LongSearch(segment, header, data, timestamp, start_offset)
    if search.key not in segment.searched:
        raise search
    outcome = segment.searched[search.key]
    if isinstance(outcome, KafkaError):
        raise outcome
    return outcome


def _search(
    data: Buffer, header: BatchHeader, timestamp: int, start_offset: int, limit_bytes: int
) -> tuple[int, int] | None:
    """Return (timestamp, offset) of the first record of a batch at or behind `start_offset` with at least `timestamp` ms.

    Raises KafkaError where the records cannot be read.
    """
    if header.magic != MAGIC:
        return _find_first(legacy_records(data, header, limit_bytes), timestamp, start_offset)
    plain = readable(records_of(data, header, limit_bytes))
    base, count = (header.base_offset, header.base_timestamp), header.records_count
    position, skipped = skip_records(plain, 0, len(plain), count, *base, start_offset, timestamp)
    if skipped >= count:
        return None
    try:
        _, ((offset,), (found,), *_) = read_columns(plain, position, len(plain), 1, *base, None, 0)
    except ValueError as problem:
        raise KafkaError(ErrorCode.INVALID_RECORD, f"record {skipped} cannot be read: {problem}") from None
    return found, offset


def _find_first(records: Iterable[DecodedRecord], timestamp: int, start_offset: int) -> tuple[int, int] | None:
    for record in records:
        if record.timestamp >= timestamp and record.offset >= start_offset:
            return record.timestamp, record.offset
    return None
