"""The offset index of a segment: where in the segment a batch begins that is near an offset.

`.index`: entries of 8 bytes, i32 offset minus the segment's base offset, i32 position. An entry is added for a batch when more
than index.interval.bytes were appended since the last one; its offset is the batch's last one, its position the batch's
first byte. Entries grow strictly in both. The index is rebuildable from the segment.

Kafka allots the file of the active segment in advance, full of zeros, because it maps it into memory. Here the file always
ends behind its last entry: that is what Kafka's file looks like once a segment is sealed, so Kafka reads it either way.
Nothing is kept in memory but the last entry; a lookup is a binary search that reads the file.
"""

from __future__ import annotations

import struct
import sys
from array import array
from bisect import bisect_right
from typing import Final, NamedTuple

from kafkalite.storage.open_files import OpenFiles

ENTRY_SIZE: Final = 8
_BLOCK_ENTRIES: Final = 256
"""Searched in memory once that few are left; one read of a file costs as much as ten steps there."""

_ENTRY = struct.Struct(">ii")


class OffsetEntry(NamedTuple):
    """Absolute last offset of a batch and the position where that batch begins."""

    offset: int
    position: int


class OffsetIndex:
    """The index at `path` of the segment that begins at `base_offset`."""

    def __init__(self, files: OpenFiles, path: str, base_offset: int, size: int) -> None:
        self.files = files
        self.path = path
        self.base_offset = base_offset
        self.count = size // ENTRY_SIZE
        self._last: OffsetEntry | None = None

    @property
    def last(self) -> OffsetEntry:
        """The last entry; (base offset, 0) of an empty index."""
        if self._last is None:
            self._last = self._read(self.count - 1) if self.count else OffsetEntry(self.base_offset, 0)
        return self._last

    def append(self, offset: int, position: int) -> None:
        """Add an entry behind the last one. Raises OSError."""
        entry = _ENTRY.pack(offset - self.base_offset, position)
        self.files.get(self.path).write_at(self.count * ENTRY_SIZE, [entry])
        self.count += 1
        self._last = OffsetEntry(offset, position)

    def lookup(self, offset: int) -> OffsetEntry:
        """The entry with the greatest offset up to `offset`; (base offset, 0) when there is none."""
        if not self.count:
            return self.last
        if offset >= self.last.offset:
            return self.last
        below = self._first_above(offset)
        return self._read(below - 1) if below else OffsetEntry(self.base_offset, 0)

    def truncate_to(self, offset: int) -> None:
        """Remove the entries from `offset` on."""
        self.truncate_to_count(self._first_above(offset - 1))

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
        """May the file of `size` bytes be trusted after a clean stop? As Kafka's own check: whole entries, none before the base."""
        if size % ENTRY_SIZE:
            return False
        return not self.count or (self.last.offset >= self.base_offset and self.last.position >= 0)

    def entries(self) -> list[OffsetEntry]:
        """All entries, for checks and dumps."""
        data = self.files.read(self.path, 0, self.count * ENTRY_SIZE)
        return [OffsetEntry(self.base_offset + relative, position) for relative, position in _ENTRY.iter_unpack(data)]

    def _first_above(self, offset: int) -> int:
        """Number of the first entry whose offset is greater than `offset`."""
        relative = offset - self.base_offset
        low, high = 0, self.count
        while high - low > _BLOCK_ENTRIES:
            middle = (low + high) // 2
            if _ENTRY.unpack(self.files.read(self.path, middle * ENTRY_SIZE, ENTRY_SIZE))[0] > relative:
                high = middle
            else:
                low = middle + 1
        block = array("i", self.files.read(self.path, low * ENTRY_SIZE, (high - low) * ENTRY_SIZE))
        if sys.byteorder == "little":
            block.byteswap()
        return low + bisect_right(block[::2], relative)

    def _read(self, number: int) -> OffsetEntry:
        data = self.files.read(self.path, number * ENTRY_SIZE, ENTRY_SIZE)
        relative, position = _ENTRY.unpack(data)
        return OffsetEntry(self.base_offset + relative, position)
