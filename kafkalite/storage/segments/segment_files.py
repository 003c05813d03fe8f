"""The files of one segment: where they lie, and its three indexes.

A broker has a hundred thousand segments to which nothing is ever appended. So paths and indexes are made when they are first needed.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

from kafkalite.storage.disk import Disk
from kafkalite.storage.log_files import (
    DELETED,
    DIGESTS,
    LOG,
    OFFSET_INDEX,
    SEGMENT_SUFFIXES,
    TIME_INDEX,
    TRANSACTION_INDEX,
    offset_name,
)
from kafkalite.storage.open_files import OpenFiles
from kafkalite.storage.segments.offset_index import OffsetIndex
from kafkalite.storage.segments.time_index import TimeIndex
from kafkalite.storage.segments.transaction_index import TransactionIndex
from kafkalite.types import Buffer

if TYPE_CHECKING:
    from kafkalite.storage.segments.segment_digests import SegmentDigests


class FileSizes(NamedTuple):
    """Sizes of a segment's files in a directory listing: those of `.log`, `.index`, `.timeindex`, `.txnindex`."""

    log: int = 0
    offset_index: int = 0
    time_index: int = 0
    transaction_index: int = 0


class SegmentFiles:
    """The files of the segment from `base_offset` on in `directory`, of which `.log` has `size` bytes; their names end in `suffix`."""

    __slots__ = (
        "_files",
        "_offset_index",
        "_path",
        "_suffix",
        "_time_index",
        "_transaction_index",
        "base_offset",
        "digests",
        "directory",
        "has_files",
        "size",
    )

    def __init__(
        self, files: OpenFiles, directory: str, base_offset: int, sizes: FileSizes, suffix: str, *, is_complete: bool
    ) -> None:
        self._files = files
        self.has_files = is_complete
        """True if the segment has indexes. Batches appended before they were made are not in them."""
        self._suffix = suffix
        self.directory = directory
        self.base_offset = base_offset
        self.size = sizes.log
        self.digests: SegmentDigests | None = None
        """Digests of its records, while they are in memory; see `log/range_scan`."""
        self._path: str | None = None
        self._offset_index: OffsetIndex | None = None
        self._time_index: TimeIndex | None = None
        self._transaction_index: TransactionIndex | None = None
        """An index is None until it has an entry or somebody asks for it."""
        if sizes.offset_index:
            self._offset_index = OffsetIndex(files, self.path_of(OFFSET_INDEX), base_offset, sizes.offset_index)
        if sizes.time_index:
            self._time_index = TimeIndex(files, self.path_of(TIME_INDEX), base_offset, sizes.time_index)
        if sizes.transaction_index:
            path = self.path_of(TRANSACTION_INDEX)
            self._transaction_index = TransactionIndex(files, path, sizes.transaction_index)

    @property
    def disk(self) -> Disk:
        return self._files.disk

    @property
    def may_wait(self) -> bool:
        """True if a reader may wait for the medium now."""
        return self._files.may_wait

    def path_of(self, kind: str) -> str:
        return f"{self.directory}{os.sep}{offset_name(self.base_offset, kind)}{self._suffix}"

    @property
    def path(self) -> str:
        """Return the path of `.log`."""
        if self._path is None:
            self._path = self.path_of(LOG)
        return self._path

    @property
    def offset_index(self) -> OffsetIndex:
        if self._offset_index is None:
            self._offset_index = OffsetIndex(self._files, self.path_of(OFFSET_INDEX), self.base_offset, 0)
        return self._offset_index

    @property
    def time_index(self) -> TimeIndex:
        if self._time_index is None:
            self._time_index = TimeIndex(self._files, self.path_of(TIME_INDEX), self.base_offset, 0)
        return self._time_index

    @property
    def transaction_index(self) -> TransactionIndex:
        if self._transaction_index is None:
            self._transaction_index = TransactionIndex(self._files, self.path_of(TRANSACTION_INDEX), 0)
        return self._transaction_index

    @property
    def has_aborted_transactions(self) -> bool:
        """True if there are entries in the transaction index."""
        return self._transaction_index is not None and self._transaction_index.size > 0

    def has_sane_indexes(self, sizes: FileSizes) -> bool:
        """True if the indexes, in files of these sizes, may be trusted after a clean stop."""
        offset_index, time_index = self._offset_index, self._time_index
        return (offset_index is None or offset_index.is_sane(sizes.offset_index)) and (
            time_index is None or time_index.is_sane(sizes.time_index)
        )

    def make_files(self) -> None:
        """Make the indexes, if there is only `.log`. Raises OSError."""
        if not self.has_files:
            for kind in (OFFSET_INDEX, TIME_INDEX):
                path = self.path_of(kind)
                self._files.create(path)
                self._files.forget(path)  # the first entry may be far off
            self.has_files = True

    def use(self, files: OpenFiles) -> None:
        """Open files through `files` from now on."""
        self._files = files
        self._path = None
        for index in (self._offset_index, self._time_index, self._transaction_index):
            if index is not None:
                index.files = files

    def sizes(self) -> FileSizes:
        """Return how large the files are."""
        offset_index, time_index, transaction_index = self._offset_index, self._time_index, self._transaction_index
        return FileSizes(
            self.size,
            0 if offset_index is None else 8 * offset_index.count,
            0 if time_index is None else 12 * time_index.count,
            0 if transaction_index is None else transaction_index.size,
        )

    def paths(self) -> list[str]:
        """Return all files that exist."""
        kinds = (LOG, OFFSET_INDEX, TIME_INDEX) if self.has_files else (LOG,)
        if self.has_aborted_transactions:
            kinds = (*kinds, TRANSACTION_INDEX)
        return [self.path_of(kind) for kind in kinds]

    def close_files(self) -> None:
        """Close the files, until they are used again."""
        for path in self.paths():
            self._files.forget(path)

    def read_digests_file(self) -> Buffer | None:
        """Return the content of the file of digests, None without one. Raises OSError, and NotInMemory as `OpenFiles.read`."""
        path = self.path_of(DIGESTS)
        try:
            size = self._files.disk.status(path).size
            return self._files.read(path, 0, size)
        except FileNotFoundError:
            return None
        finally:
            self._files.forget(path)

    def forget_digests(self) -> None:
        """Forget the digests of its records, also those in a file, because it is about to be changed. Raises OSError."""
        self.digests = None
        self._files.disk.remove(self.path_of(DIGESTS))

    def mark_deleted(self) -> list[str]:
        """Rename the files to `.deleted`; returns their new names. Raises OSError."""
        renamed = []
        self.digests = None
        for path in (*self.paths(), self.path_of(DIGESTS)):
            self._files.forget(path)
            if self._files.disk.exists(path):
                self._files.disk.rename(path, path + DELETED)
                renamed.append(path + DELETED)
        return renamed

    def remove(self) -> None:
        """Remove the files. Raises OSError."""
        self.digests = None
        for kind in (*SEGMENT_SUFFIXES, DIGESTS):
            path = self.path_of(kind)
            self._files.forget(path)
            self._files.disk.remove(path)
