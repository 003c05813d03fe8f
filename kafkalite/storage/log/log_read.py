"""The result of one read of a log: bytes from the batch that holds an offset on, bounded by size and by an offset."""

from __future__ import annotations

from typing import Final, NamedTuple

from kafkalite.protocol.record_batches.records import LOG_OVERHEAD
from kafkalite.storage.log.file_records import HEAD_BYTES, LARGE_BYTES, FileRecords
from kafkalite.storage.log_directory import LogDirectory
from kafkalite.storage.open_files import NotInMemory
from kafkalite.storage.segments.segment import Segment
from kafkalite.storage.segments.segment_list import SegmentList
from kafkalite.types import Buffer

_LENGTH_END: Final = 12
_LARGE_BATCH_BYTES: Final = LARGE_BYTES // 2
"""A batch of this size is not sent if it would be cut: it would be sent twice. To look where smaller ones end costs more than that."""


class LogRead(NamedTuple):
    """Bytes from the batch that holds the wanted offset on; the last batch may be cut. `end` is (segment, position behind them).

    Of `large` ones `records` are only the first. `is_full`: a large batch did not fit behind them.
    """

    records: Buffer
    end: tuple[Segment, int] | None = None
    large: FileRecords | None = None
    is_full: bool = False


NOTHING_READ: Final = LogRead(b"")


def read_from(
    segments: SegmentList,
    offset: int,
    max_bytes: int,
    *,
    upper_bound: int,
    log_end_offset: int,
    min_one_batch: bool,
    read_later_in: LogDirectory | None,
) -> LogRead:
    """Return the bytes of one segment, none of a batch at or above `upper_bound`, at most `max_bytes`.

    The last batch may be cut by `max_bytes`; a first batch larger than that is left out, or with `min_one_batch` read whole.
    What is large is read later, in the directory that is given for that. Raises OSError.
    """
    if offset >= upper_bound or (max_bytes <= 0 and not min_one_batch):
        return NOTHING_READ
    place = segments.place_of(offset)
    if place is None:
        return NOTHING_READ
    segment, position = place
    limit = segment.size
    if upper_bound < log_end_offset:
        bound = segments.place_of(upper_bound)
        if bound is not None and bound[0] is segment:
            limit = bound[1]
        elif bound is not None and bound[0].base_offset < segment.base_offset:
            return NOTHING_READ
    available = limit - position
    if available <= 0:
        return NOTHING_READ
    size, is_full = min(available, max_bytes), False
    large_bytes = LARGE_BYTES if read_later_in is not None else available + 1
    data = segment.read(position, max(size, _LENGTH_END) if size < large_bytes else HEAD_BYTES)
    if size < available:
        first_size = int.from_bytes(data[8:_LENGTH_END], "big") + LOG_OVERHEAD
        if first_size > max_bytes:
            if not min_one_batch:
                return NOTHING_READ
            size = first_size
            data = segment.read(position, size if size < large_bytes else HEAD_BYTES)
        elif first_size >= _LARGE_BATCH_BYTES:
            size = _of_whole_batches(segment, position, first_size, size)
            is_full = size < max_bytes
    end = segment, position + size
    if read_later_in is None or size <= len(data):
        return LogRead(data[:size], end, is_full=is_full)
    return LogRead(data, end, FileRecords(read_later_in, segment.path, position, data, size), is_full)


def _of_whole_batches(segment: Segment, position: int, first_size: int, max_bytes: int) -> int:
    """Return the size of the large batches from `position` on that end within `max_bytes`, or that if there are small ones."""
    size, next_size = 0, first_size
    while size + next_size <= max_bytes:
        size += next_size
        try:
            begin = segment.read(position + size, _LENGTH_END)
        except NotInMemory:
            return max_bytes
        next_size = int.from_bytes(begin[8:], "big") + LOG_OVERHEAD
        if next_size < _LARGE_BATCH_BYTES:
            return max_bytes
    return size
