"""What one read of a log returns: bytes from the batch that holds an offset on, bounded by size and by an offset."""

from __future__ import annotations

from typing import Final, NamedTuple

from kafkalite.protocol.records import LOG_OVERHEAD
from kafkalite.storage.segment import Segment
from kafkalite.storage.segment_list import SegmentList
from kafkalite.types import Buffer

_LENGTH_END: Final = 12


class LogRead(NamedTuple):
    """Bytes from the batch that holds the wanted offset on; the last batch may be cut. `end` is (segment, position behind them)."""

    records: Buffer
    end: tuple[Segment, int] | None = None


NOTHING_READ: Final = LogRead(b"")


def read_from(
    segments: SegmentList,
    offset: int,
    max_bytes: int,
    *,
    upper_bound: int,
    log_end_offset: int,
    min_one_batch: bool,
) -> LogRead:
    """Bytes of one segment, none of a batch at or above `upper_bound`, at most `max_bytes`.

    The last batch may be cut by `max_bytes`; a first batch larger than that is left out, or with `min_one_batch` read whole.
    Raises OSError.
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
    if available <= max_bytes:
        return LogRead(segment.read(position, available), (segment, limit)) if available > 0 else NOTHING_READ
    data = segment.read(position, max(max_bytes, _LENGTH_END))
    first_size = int.from_bytes(data[8:_LENGTH_END], "big") + LOG_OVERHEAD
    if first_size <= max_bytes:
        return LogRead(data, (segment, position + len(data)))
    if not min_one_batch:
        return NOTHING_READ
    return LogRead(segment.read(position, first_size), (segment, position + first_size))
