"""The transactions of a segment that were aborted, so that readers of committed records can leave them out (KIP-98).

`.txnindex`: entries of 34 bytes, i16 version 0, i64 producer id, i64 first offset, i64 last offset (the marker's), i64 last
stable offset when the marker was written. The file exists only where a transaction was aborted. Entries lie in the
segment of their marker, in the order of the markers.
"""

from __future__ import annotations

import struct
from bisect import bisect_left
from collections.abc import Iterator
from typing import Final, NamedTuple

from kafkalite.storage.open_files import OpenFiles

_VERSION: Final = 0
_ENTRY = struct.Struct(">hqqqq")
ENTRY_SIZE: Final = _ENTRY.size
_ENTRIES_AT_ONCE: Final = 100


class AbortedTransaction(NamedTuple):
    """Records of this producer from `first_offset` to the marker at `last_offset` were aborted."""

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


class TransactionIndex:
    """The index at `path`, of `size` bytes; 0 when there is no file."""

    __slots__ = ("files", "path", "size")

    def __init__(self, files: OpenFiles, path: str, size: int) -> None:
        self.files = files
        self.path = path
        self.size = size - size % _ENTRY.size

    def append(self, entry: AbortedTransaction) -> None:
        """Add an entry, creating the file for the first one. Raises OSError."""
        file = self.files.get(self.path) if self.size else self.files.create(self.path)
        file.write_at(self.size, [_ENTRY.pack(_VERSION, *entry)])
        self.size += _ENTRY.size

    def entries(self) -> list[AbortedTransaction]:
        """Return all entries. Raises OSError, also for a version that is unknown."""
        return self._read(0, self.size // ENTRY_SIZE)

    def entries_from(self, offset: int) -> Iterator[AbortedTransaction]:
        """Yield the entries whose marker lies at `offset` or behind, read as they are wanted. Raises OSError as `entries`."""
        count = self.size // ENTRY_SIZE
        number = bisect_left(range(count), offset, key=lambda each: self._read(each, 1)[0].last_offset)
        while number < count:
            yield from self._read(number, min(_ENTRIES_AT_ONCE, count - number))
            number += _ENTRIES_AT_ONCE

    def _read(self, number: int, count: int) -> list[AbortedTransaction]:
        found = []
        data = self.files.read(self.path, number * ENTRY_SIZE, count * ENTRY_SIZE) if count else b""
        for version, *fields in _ENTRY.iter_unpack(data):
            if version > _VERSION:
                raise OSError(f"{self.path}: entry of unknown version {version}")
            found.append(AbortedTransaction(*fields))
        return found

    def truncate_to(self, offset: int) -> None:
        """Remove the entries whose marker lies at `offset` or behind."""
        self.truncate_to_size(sum(entry.last_offset < offset for entry in self.entries()) * _ENTRY.size)

    def truncate_to_size(self, size: int) -> None:
        """Keep the entries in the first `size` bytes."""
        if size < self.size:
            self.files.get(self.path).truncate(size)
            self.size = size

    def clear(self) -> None:
        """Remove the file."""
        self.files.forget(self.path)
        self.files.disk.remove(self.path)
        self.size = 0
