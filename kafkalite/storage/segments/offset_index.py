"""The offset index of a segment: where in the segment a batch begins that is near an offset.

`.index`: entries of 8 bytes, i32 offset minus the segment's base offset, i32 position. An entry is added for a batch when more
than index.interval.bytes were appended since the last one; its offset is the batch's last one, its position the batch's
first byte. Entries grow strictly in both. The index is rebuildable from the segment.

Kafka allots the file of the active segment in advance, full of zeros, because it maps it into memory. Here the file always
ends behind its last entry: that is what Kafka's file looks like once a segment is sealed, so Kafka reads it either way.
A lookup is a binary search in memory over the first offset of each block of 64 entries (4 bytes for each block, 16 KiB for a segment of
1 GiB), then one small read and a search in what it brought; a binary search of the file would take ten reads and more as it grows. The
first offsets are noted as entries are appended, or read as a whole when an index that was there before is first searched. The
file is read and not mapped into memory, because a fault in a mapping would stop the event loop until the medium has answered,
whereas a read can say that it would have to wait.
"""

from __future__ import annotations

import struct
import sys
from array import array
from bisect import bisect_left, bisect_right
from typing import Final, NamedTuple

from kafkalite.storage.open_files import OpenFiles

ENTRY_SIZE: Final = 8
_BLOCK_ENTRIES: Final = 64
"""Entries that a lookup reads."""

_ENTRY = struct.Struct(">ii")


class OffsetEntry(NamedTuple):
    """Absolute last offset of a batch and the position where that batch begins."""

    offset: int
    position: int


class OffsetIndex:
    """The index at `path` of the segment that begins at `base_offset`."""

    __slots__ = ("_first_of_block", "_last", "base_offset", "count", "files", "path")

    def __init__(self, files: OpenFiles, path: str, base_offset: int, size: int) -> None:
        self.files = files
        self.path = path
        self.base_offset = base_offset
        self.count = size // ENTRY_SIZE
        self._last: OffsetEntry | None = None
        self._first_of_block: array[int] | None = None if self.count else array("i")
        """Relative offset of the first entry of each block; None as long as nobody searched an index that was there before."""

    @property
    def last(self) -> OffsetEntry:
        """Return the last entry; (base offset, 0) of an empty index."""
        if self._last is None:
            self._last = self._read(self.count - 1) if self.count else OffsetEntry(self.base_offset, 0)
        return self._last

    def append(self, offset: int, position: int) -> None:
        """Add an entry behind the last one. Raises OSError."""
        relative = offset - self.base_offset
        self.files.get(self.path).write_at(self.count * ENTRY_SIZE, [_ENTRY.pack(relative, position)])
        if not self.count % _BLOCK_ENTRIES and self._first_of_block is not None:
            self._first_of_block.append(relative)
        self.count += 1
        self._last = OffsetEntry(offset, position)

    def lookup(self, offset: int) -> OffsetEntry:
        """Return the entry with the greatest offset up to `offset`; (base offset, 0) when there is none."""
        if not self.count or offset >= self.last.offset:
            return self.last
        number, block = self._block_of(offset)
        within = bisect_right(block[::2], offset - self.base_offset)
        if not number and not within:
            return OffsetEntry(self.base_offset, 0)
        return OffsetEntry(self.base_offset + block[2 * within - 2], block[2 * within - 1])

    def first_at(self, position: int) -> OffsetEntry | None:
        """Return the first entry of a batch that begins at `position` or behind; None when there is none."""
        number = bisect_left(range(self.count), position, key=lambda each: self._read(each).position)
        return self._read(number) if number < self.count else None

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
        if self._first_of_block is not None:
            del self._first_of_block[-(-count // _BLOCK_ENTRIES) :]

    def is_sane(self, size: int) -> bool:
        """True if the file of `size` bytes may be trusted after a clean stop, as Kafka checks: whole entries, none before the base."""
        if size % ENTRY_SIZE:
            return False
        return not self.count or (self.last.offset >= self.base_offset and self.last.position >= 0)

    def entries(self) -> list[OffsetEntry]:
        """Return all entries, for checks and dumps."""
        data = self.files.read(self.path, 0, self.count * ENTRY_SIZE) if self.count else b""
        return [OffsetEntry(self.base_offset + relative, position) for relative, position in _ENTRY.iter_unpack(data)]

    def _first_above(self, offset: int) -> int:
        """Return the number of the first entry whose offset is greater than `offset`."""
        if not self.count:
            return 0
        number, block = self._block_of(offset)
        return number * _BLOCK_ENTRIES + bisect_right(block[::2], offset - self.base_offset)

    def _block_of(self, offset: int) -> tuple[int, array[int]]:
        """Return the last block whose first entry is up to `offset`, else block 0: its number; relative offset, position of each entry."""
        if self._first_of_block is None:
            self._first_of_block = self._words(0, self.count)[:: 2 * _BLOCK_ENTRIES]
        number = max(bisect_right(self._first_of_block, offset - self.base_offset) - 1, 0)
        first = number * _BLOCK_ENTRIES
        return number, self._words(first, min(_BLOCK_ENTRIES, self.count - first))

    def _words(self, first: int, count: int) -> array[int]:
        """Return relative offset and position of each of `count` entries."""
        words = array("i", self.files.read(self.path, first * ENTRY_SIZE, count * ENTRY_SIZE))
        if sys.byteorder == "little":
            words.byteswap()
        return words

    def _read(self, number: int) -> OffsetEntry:
        data = self.files.read(self.path, number * ENTRY_SIZE, ENTRY_SIZE)
        relative, position = _ENTRY.unpack(data)
        return OffsetEntry(self.base_offset + relative, position)
