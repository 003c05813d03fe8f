"""Searches over the segments of a log: by timestamp, and for aborted transactions.

Where a search must not wait (`OpenFiles`), neither does it go through the records of a large batch: a few hundred kB may hold millions. It
raises `LongSearch` then, which whoever awaits the medium runs in another thread in the same way; the segment keeps what was found.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from kafkalite.config.topic import LONG_MAX
from kafkalite.errors import ErrorCode, KafkaError
from kafkalite.protocol.record_batches.compiled_records import DecodedRecord, decode_plain, is_loaded, unreadable
from kafkalite.protocol.record_batches.compression import DECOMPRESSED_LIMIT_BYTES, DecompressedTooLarge
from kafkalite.protocol.record_batches.legacy_records import legacy_records
from kafkalite.protocol.record_batches.record_walk import record_at
from kafkalite.protocol.record_batches.records import MAGIC, NO_TIMESTAMP, BatchHeader, records_of
from kafkalite.protocol.record_batches.varint import wrapped
from kafkalite.storage.log.leader_epochs import LeaderEpochs
from kafkalite.storage.log.log_read import LogRead
from kafkalite.storage.open_files import NotInMemory
from kafkalite.storage.segments.segment import Segment
from kafkalite.storage.segments.segment_list import SegmentList
from kafkalite.storage.segments.transaction_index import AbortedTransaction
from kafkalite.types import Buffer

_RECORDS_AT_ONCE: Final = 10_000
_PLAIN_BYTES_AT_ONCE: Final = 1 << 20
_COMPILED_BYTES: Final = 4 * 1024 * 1024
"""More is not copied in one go, which holds other threads."""
_MESSAGE_BYTES_AT_ONCE: Final = 128 * 1024
"""Of messages of older formats, which are read in Python."""
_SEARCHES_KEPT: Final = 16


class LongSearch(NotInMemory):
    """A search through the records of one large batch. `load` makes it, and notes the outcome in the segment."""

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


def first_record_from(segments: Iterable[Segment], timestamp: int, start_offset: int) -> tuple[int, int] | None:
    """(timestamp, offset) of the first record at or behind `start_offset` with at least `timestamp` ms; None without any."""
    for segment in segments:
        if segment.largest_timestamp < timestamp:
            continue
        entry = segment.time_index.lookup(timestamp)
        position = segment.offset_index.lookup(entry.offset).position
        for header in segment.headers(position):
            if header.max_timestamp >= timestamp and header.last_offset >= start_offset:
                found = _first_in_batch(segment, header, timestamp, start_offset)
                if found is not None:
                    return found
    return None


def record_of_largest_timestamp(segments: Iterable[Segment], start_offset: int) -> tuple[int, int] | None:
    """(timestamp, offset) of the first record that has the largest timestamp of the log; None without timestamps."""
    largest = max(segment.largest_timestamp for segment in segments)
    return first_record_from(segments, largest, start_offset) if largest != NO_TIMESTAMP else None


def located(found: tuple[int, int] | None, epochs: LeaderEpochs, upper_bound: int) -> tuple[int, int, int] | None:
    """(timestamp, offset, leader epoch or -1) of a record that was found below `upper_bound`."""
    if found is None or found[1] >= upper_bound:
        return None
    epoch = epochs.epoch_for_offset(found[1])
    return found[0], found[1], -1 if epoch is None else epoch


def _first_in_batch(segment: Segment, header: BatchHeader, timestamp: int, start_offset: int) -> tuple[int, int] | None:
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
    """(timestamp, offset) of the first record of a batch at or behind `start_offset` with at least `timestamp` ms. KafkaError."""
    if header.magic != MAGIC:
        return _first_of(legacy_records(data, header, limit_bytes), timestamp, start_offset)
    plain = records_of(data, header, limit_bytes)
    if len(plain) > _COMPILED_BYTES or not is_loaded():
        return _walk(plain, header, timestamp, start_offset)
    try:
        return _first_of(decode_plain(plain, header), timestamp, start_offset)
    except unreadable():
        return _walk(plain, header, timestamp, start_offset)


def _first_of(records: Iterable[DecodedRecord], timestamp: int, start_offset: int) -> tuple[int, int] | None:
    for record in records:
        if record.timestamp >= timestamp and record.offset >= start_offset:
            return record.timestamp, record.offset
    return None


def _walk(plain: bytes | bytearray, header: BatchHeader, timestamp: int, start_offset: int) -> tuple[int, int] | None:
    """As `_search` for decompressed records that compiled code would copy at once, or refuses: names of headers, which it decodes, may
    be any bytes. Also as long as it is not there."""
    position = 0
    for number in range(header.records_count):
        try:
            delta, offset_delta, *_, position = record_at(plain, position)
        except (IndexError, ValueError) as problem:
            raise KafkaError(ErrorCode.INVALID_RECORD, f"record {number} cannot be read: {problem}") from None
        found = wrapped(header.base_timestamp + delta), header.base_offset + offset_delta
        if found[0] >= timestamp and found[1] >= start_offset:
            return found
    return None


def aborted_between(
    segments: SegmentList, from_offset: int, upper_bound: int, read: LogRead | None = None
) -> list[AbortedTransaction]:
    """Aborted transactions that overlap [`from_offset`, `upper_bound`), or what was read of that, and perhaps some behind it.

    Entries come in the order of their markers; once one has a last stable offset at the upper bound, every later one is of a
    transaction that began behind it.
    """
    following = segments.from_offset(from_offset)
    if not any(segment.transaction_index.size for segment in following):
        return []
    if read is not None:
        upper_bound = min(upper_bound, _bound_of(read, following))
    found = []
    for segment in following:
        for entry in segment.transaction_index.entries_from(from_offset):
            if entry.first_offset < upper_bound:
                found.append(entry)
            if entry.last_stable_offset >= upper_bound:
                return found
    return found


def _bound_of(read: LogRead, following: Sequence[Segment]) -> int:
    """An offset behind what was read, as Kafka takes it: that of the next entry of the offset index, else where the next segment begins.

    Without it a consumer far behind would get all that was aborted up to the log's end, with each fetch.
    """
    if read.end is None:
        return 0
    segment, position = read.end
    entry = segment.offset_index.first_at(position)
    if entry is not None:
        return entry.offset
    return next((each.base_offset for each in following if each.base_offset > segment.base_offset), LONG_MAX)
