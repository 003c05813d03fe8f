"""The time index of a segment: up to which timestamp the records before an offset go.

`.timeindex`: entries of 12 bytes, i64 timestamp, i32 offset minus the segment's base offset. An entry (largest timestamp so far,
last offset of the batch that has it) is added along with an entry of the offset index, when a segment is sealed and when
the log is closed, if its timestamp is larger than the last entry's. So no record before an entry's offset has a later
timestamp than the entry, and the last entry of a sealed segment tells its largest timestamp. Rebuildable from the segment.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from kafkalite.protocol.record_batches.records import NO_TIMESTAMP
from kafkalite.storage.open_files import OpenFiles

ENTRY_SIZE: Final = 12
_ENTRY = struct.Struct(">qi")


class TimeEntry(NamedTuple):
    """A timestamp in ms and the absolute last offset of the batch that has it."""

    timestamp: int
    offset: int


_LARGEST_DELTA = (1 << 31) - 1


class TimeIndex:
    """The index at `path` of the segment that begins at `base_offset`."""

    __slots__ = ("_last", "base_offset", "count", "files", "path")

    def __init__(self, files: OpenFiles, path: str, base_offset: int, size: int) -> None:
        self.files = files
        self.path = path
        self.base_offset = base_offset
        self.count = size // ENTRY_SIZE
        self._last: TimeEntry | None = None

    @property
    def last(self) -> TimeEntry:
        """Return the last entry; (NO_TIMESTAMP, base offset) of an empty index."""
        if self._last is None:
            self._last = self._read(self.count - 1) if self.count else TimeEntry(NO_TIMESTAMP, self.base_offset)
        return self._last

    def set_last(self, entry: TimeEntry) -> None:
        """Set what `last` returns, which is known from before."""
        self._last = entry

    def append_if_later(self, timestamp: int, offset: int) -> None:
        """Add an entry if its timestamp is larger than the last one's. Raises OSError.

        None for an offset that no segment of this base can have: a damaged batch claims it, and the next segment could not be begun.
        """
        if timestamp <= self.last.timestamp or not 0 <= offset - self.base_offset <= _LARGEST_DELTA:
            return
        entry = _ENTRY.pack(timestamp, offset - self.base_offset)
        self.files.get(self.path).write_at(self.count * ENTRY_SIZE, [entry])
        self.count += 1
        self._last = TimeEntry(timestamp, offset)

    def lookup(self, timestamp: int) -> TimeEntry:
        """Return the last entry with a timestamp below `timestamp`; (NO_TIMESTAMP, base offset) when there is none."""
        low, high = 0, self.count
        while low < high:
            middle = (low + high) // 2
            if _ENTRY.unpack(self.files.read(self.path, middle * ENTRY_SIZE, ENTRY_SIZE))[0] >= timestamp:
                high = middle
            else:
                low = middle + 1
        return self._read(low - 1) if low else TimeEntry(NO_TIMESTAMP, self.base_offset)

    def truncate_to(self, offset: int) -> None:
        """Remove the entries for offsets from `offset` on."""
        count = self.count
        while count and self._read(count - 1).offset >= offset:
            count -= 1
        self.truncate_to_count(count)

    def truncate_to_count(self, count: int) -> None:
        """Keep the first `count` entries."""
        if count < self.count:
            self.cut(count)

    def cut(self, count: int) -> None:
        """End the file behind the first `count` entries, whatever a failed write left there."""
        self.files.get(self.path).truncate(count * ENTRY_SIZE)
        self.count = count
        self._last = None

    def is_sane(self, size: int) -> bool:
        """True if the file of `size` bytes may be trusted after a clean stop, as Kafka checks."""
        if size % ENTRY_SIZE:
            return False
        return not self.count or (
            self.last.timestamp >= self._read(0).timestamp and self.last.offset >= self.base_offset
        )

    def entries(self) -> list[TimeEntry]:
        """Return all entries, for checks and dumps."""
        data = self.files.read(self.path, 0, self.count * ENTRY_SIZE) if self.count else b""
        return [TimeEntry(timestamp, self.base_offset + relative) for timestamp, relative in _ENTRY.iter_unpack(data)]

    def _read(self, number: int) -> TimeEntry:
        data = self.files.read(self.path, number * ENTRY_SIZE, ENTRY_SIZE)
        timestamp, relative = _ENTRY.unpack(data)
        return TimeEntry(timestamp, self.base_offset + relative)
