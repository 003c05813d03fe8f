"""One segment of a log: record batches end to end in `.log`, from its base offset on, with its three indexes.

Among the batches, mostly before them, may lie messages of the formats before (magic 0 and 1), each with a header as if it were a batch.

Bytes are written at the position that this object knows to be the end, so a write that failed half-way leaves nothing
visible: the rest is cut off at once, or, when even that fails, before the next write. No batch lies in two segments.
"""

from __future__ import annotations

import logging
import os
import struct
from collections.abc import Container, Iterator, Sequence
from typing import Final, NamedTuple

from kafkalite.errors import KafkaError, ensure
from kafkalite.failpoints import reach
from kafkalite.protocol.record_batches.legacy_records import first_offset
from kafkalite.protocol.record_batches.records import (
    HEADER_SIZE,
    LOG_OVERHEAD,
    MAGIC,
    NO_TIMESTAMP,
    BatchHeader,
    header_at,
)
from kafkalite.storage.disk import Disk
from kafkalite.storage.log_files import (
    DELETED,
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
from kafkalite.storage.segments.transaction_index import AbortedTransaction, TransactionIndex
from kafkalite.types import Buffer

logger = logging.getLogger(__name__)

_HEADER_START = struct.Struct(">qi4xb6xi")
"""Base offset, batch length, magic and last offset delta."""

_SCAN_BYTES: Final = 8192
"""Read at a time when headers are looked at one by one; more than the bytes between two entries of the offset index."""

RELATIVE_OFFSET_LIMIT: Final = (1 << 31) - 1
"""Largest difference between an offset in a segment and the segment's base offset."""

_NO_BATCH = -1


class FileSizes(NamedTuple):
    """Sizes of a segment's files in a directory listing: those of `.log`, `.index`, `.timeindex`, `.txnindex`."""

    log: int = 0
    offset_index: int = 0
    time_index: int = 0
    transaction_index: int = 0


class _Extent(NamedTuple):
    """The end of each file of a segment."""

    size: int
    offset_entries: int
    time_entries: int
    transaction_bytes: int


class Segment:
    """A segment in `directory`. The largest timestamp is looked up when it is first needed."""

    __slots__ = (
        "_bytes_since_entry",
        "_files",
        "_first_timestamp",
        "_largest",
        "_suffix",
        "_torn",
        "base_offset",
        "created_ms",
        "directory",
        "has_files",
        "modified_ms",
        "offset_index",
        "path",
        "roll_jitter_ms",
        "searched",
        "size",
        "time_index",
        "transaction_index",
    )

    def __init__(
        self,
        files: OpenFiles,
        directory: str,
        base_offset: int,
        sizes: FileSizes,
        *,
        created_ms: int,
        modified_ms: int,
        roll_jitter_ms: int = 0,
        suffix: str = "",
        is_complete: bool = True,
    ) -> None:
        def path(kind: str) -> str:
            return os.path.join(directory, offset_name(base_offset, kind + suffix))

        self._files = files
        self.has_files = is_complete
        """True if the segment has indexes. Batches appended before they were made are not in them."""
        self._suffix = suffix
        self.directory = directory
        self.base_offset = base_offset
        self.path = path(LOG)
        self.size = sizes.log
        self.created_ms = created_ms
        self.modified_ms = modified_ms
        self.roll_jitter_ms = roll_jitter_ms
        self.offset_index = OffsetIndex(files, path(OFFSET_INDEX), base_offset, sizes.offset_index)
        self.time_index = TimeIndex(files, path(TIME_INDEX), base_offset, sizes.time_index)
        self.transaction_index = TransactionIndex(files, path(TRANSACTION_INDEX), sizes.transaction_index)
        self._bytes_since_entry = 0
        self._first_timestamp: int | None = None
        self._largest: tuple[int, int] | None = None if sizes.log else (NO_TIMESTAMP, base_offset)
        self._torn: _Extent | None = None
        self.searched: dict[tuple[int, int, int, int], tuple[int, int] | KafkaError | None] = {}
        """Outcomes of long searches through records (`timestamp_search`)."""

    @property
    def disk(self) -> Disk:
        return self._files.disk

    @property
    def may_wait(self) -> bool:
        """True if a reader may wait for the medium now."""
        return self._files.may_wait

    @classmethod
    def create(
        cls,
        files: OpenFiles,
        directory: str,
        base_offset: int,
        now_ms: int,
        roll_jitter_ms: int = 0,
        suffix: str = "",
        *,
        is_complete: bool = True,
    ) -> Segment:
        """Return a new, empty segment with its files, whose names end in `suffix`, or with `.log` only.

        Raises OSError; then there may be some of the files, all empty.
        """
        reach("log.rolling")
        segment = cls(
            files,
            directory,
            base_offset,
            FileSizes(),
            created_ms=now_ms,
            modified_ms=now_ms,
            roll_jitter_ms=roll_jitter_ms,
            suffix=suffix,
            is_complete=False,
        )
        files.create(segment.path)
        if is_complete:
            segment.make_files()
        return segment

    def make_files(self) -> None:
        """Make the indexes, if there is only `.log`. Raises OSError."""
        if not self.has_files:
            self._files.create(self.offset_index.path)
            self._files.create(self.time_index.path)
            self.has_files = True

    def use(self, files: OpenFiles) -> None:
        """Open files through `files` from now on."""
        self._files = files
        for index in (self.offset_index, self.time_index, self.transaction_index):
            index.files = files

    def __repr__(self) -> str:
        return f"Segment({self.path}, {self.size} bytes)"

    # Timestamps

    @property
    def largest_timestamp(self) -> int:
        """Return the largest timestamp of the records in ms, NO_TIMESTAMP without any.

        Of a segment that was loaded it is what the last entry of the time index says: that covers all of a sealed segment; behind
        that of another one `last_header` has to look first.
        """
        return self._largest_known()[0]

    @property
    def first_timestamp(self) -> int | None:
        """Return the largest timestamp of the first batch; None in an empty segment. By it a segment's age is judged."""
        if self._first_timestamp is None and self.size:
            first = header_at(self.read(0, HEADER_SIZE))
            self._first_timestamp = NO_TIMESTAMP if first is None else first.max_timestamp
        return self._first_timestamp

    @property
    def first_magic(self) -> int | None:
        """Return the format of the first batch; None when there is none."""
        if not self.size:
            return None
        first = header_at(self.read(0, HEADER_SIZE))
        return None if first is None else first.magic

    def _largest_known(self) -> tuple[int, int]:
        if self._largest is None:
            self._largest = self.time_index.last
        return self._largest

    # Writing

    def append(
        self,
        buffers: Sequence[Buffer],
        headers: Sequence[BatchHeader],
        index_interval_bytes: int,
        aborted: Sequence[AbortedTransaction] = (),
    ) -> None:
        """Write whole batches, whose headers have positions relative to the first buffer's beginning, and index them.

        `aborted` are the transactions that markers among them aborted. Raises OSError; then the segment is as it was before.
        """
        if self._torn is not None:
            self._restore(self._torn)
        start, largest, since = self.size, self._largest_known(), self._bytes_since_entry
        before = start, self.offset_index.count, self.time_index.count, self.transaction_index.size
        try:
            self._files.get(self.path).write_at(start, buffers)
            for header in headers:
                if header.max_timestamp > largest[0]:
                    largest = (header.max_timestamp, header.last_offset)
                if since > index_interval_bytes and self.has_files:
                    self.offset_index.append(header.last_offset, start + header.position)
                    self.time_index.append_if_later(*largest)
                    since = 0
                since += header.batch_length + LOG_OVERHEAD
            for entry in aborted:
                self.transaction_index.append(entry)
        except OSError:
            self._torn = _Extent(*before)
            try:
                self._restore(self._torn)
            except OSError as problem:
                logger.warning("%s: what a failed write left is cut off before the next one: %s", self.path, problem)
            raise
        self._bytes_since_entry = since
        if not start:
            self._first_timestamp = headers[0].max_timestamp
        self._largest = largest
        self.size = start + headers[-1].end

    def _restore(self, extent: _Extent) -> None:
        """Cut off what a failed write left behind. Raises OSError."""
        self._files.get(self.path).truncate(extent.size)
        if self.has_files:
            self.offset_index.cut(extent.offset_entries)
            self.time_index.cut(extent.time_entries)
        self.transaction_index.truncate_to_size(extent.transaction_bytes)
        self._torn = None

    def has_index_room(self, index_bytes: int) -> bool:
        """True if each index of `index_bytes` has room for one more entry and for the one at the segment's end."""
        return self.offset_index.count < index_bytes // 8 and self.time_index.count < index_bytes // 12 - 1

    def seal(self) -> None:
        """Add the time index's last entry, which tells the segment's largest timestamp."""
        if self.size:
            self.make_files()
            self.time_index.append_if_later(*self._largest_known())

    # Reading

    def read(self, position: int, size: int) -> Buffer:
        return self._files.read(self.path, position, min(size, self.size - position))

    def headers(self, position: int = 0) -> Iterator[BatchHeader]:
        """Yield the headers of the batches from the one at `position` on, each with its position in the segment.

        Stops where no whole header follows; raises OSError.
        """
        chunk: Buffer = b""
        start = 0
        while position < self.size:
            if position + HEADER_SIZE > start + len(chunk):
                chunk, start = self.read(position, _SCAN_BYTES), position
            header = header_at(chunk, position - start, start)
            if header is None:
                return
            yield header
            position += header.batch_length + LOG_OVERHEAD

    def find(self, offset: int) -> int | None:
        """Return the position of the first batch whose last offset is `offset` or later; None when there is none.

        An index is not read at the start after a clean stop: where it points at no batch, the search begins again without it.
        """
        position = self.offset_index.lookup(offset).position
        found = self._find_from(position, offset) if position >= 0 else _NO_BATCH
        if found == _NO_BATCH and position:
            found = self._find_from(0, offset)
        return None if found == _NO_BATCH else found

    def _find_from(self, position: int, offset: int) -> int | None:
        """Search as `find` does from this position on; return _NO_BATCH when the search comes to bytes that are none."""
        chunk: Buffer = b""
        start = 0
        wanted = _HEADER_START.size
        while position + HEADER_SIZE <= self.size:
            if position + _HEADER_START.size > start + len(chunk):
                chunk, start = self.read(position, wanted), position
                if len(chunk) < _HEADER_START.size:
                    return _NO_BATCH
            base_offset, length, magic, last_offset_delta = _HEADER_START.unpack_from(chunk, position - start)
            if magic != MAGIC or length < HEADER_SIZE - LOG_OVERHEAD:
                break
            if base_offset + last_offset_delta >= offset:
                return position
            position += length + LOG_OVERHEAD
            wanted = _SCAN_BYTES if length < _SCAN_BYTES // 4 else _HEADER_START.size
        return self._find_among_old(position, offset) if position < self.size else None

    def _find_among_old(self, position: int, offset: int) -> int | None:
        """Search as `_find_from` does where messages of older formats may lie."""
        for header in self.headers(position):
            if header.last_offset >= offset:
                return header.position
            position = header.end
        return None if position == self.size else _NO_BATCH

    def can_follow(self, header: BatchHeader, next_offset: int) -> bool:
        """True if a batch with this header may stand here behind one that ends before `next_offset`: offsets grow and fit the indexes."""
        return (
            header.base_offset >= next_offset
            and header.last_offset_delta >= 0
            and header.last_offset <= self.base_offset + RELATIVE_OFFSET_LIMIT
        )

    def last_header(self) -> BatchHeader | None:
        """Return the header of the last batch, found from the last index entry on; also learns the largest timestamp on the way.

        The search ends at a batch that cannot follow the one before it.
        """
        last, next_offset = None, self.base_offset
        largest: tuple[int, int] = self.time_index.last
        for header in self.headers(self.offset_index.last.position if self.offset_index.count else 0):
            if not self.can_follow(header, next_offset):
                break
            last, next_offset = header, header.next_offset
            if header.max_timestamp > largest[0]:
                largest = (header.max_timestamp, header.last_offset)
        self._largest = largest
        return last

    # Maintenance

    def truncate_to(self, offset: int) -> int:
        """Remove the batch that holds `offset` and all behind it; returns the first offset removed, else `offset`.

        Raises OSError.
        """
        position = self.find(offset)
        removed = offset
        if position is not None:
            removed = min(offset, self._first_offset_at(position, offset))
            self.offset_index.truncate_to(removed)
            self.time_index.truncate_to(removed)
            self._files.truncate(self.path, position)
            self.size = position
        self.transaction_index.truncate_to(removed)
        if not self.size:
            self._first_timestamp = None
        self._bytes_since_entry = 0
        self.last_header()
        return removed

    def _first_offset_at(self, position: int, otherwise: int) -> int:
        """Return the first offset of the batch at `position`; `otherwise` for a wrapper that cannot be opened."""
        header = header_at(self.read(position, HEADER_SIZE))
        if header is None or header.magic == MAGIC:
            return header.base_offset if header is not None else otherwise
        try:
            return first_offset(self.read(position, header.size), header)
        except KafkaError as problem:
            logger.warning("%s: cut within a message that cannot be read: %s", self.path, problem)
            return otherwise

    def rebuild_indexes(
        self, headers: Iterator[BatchHeader], index_interval_bytes: int, blank: Container[str] = ()
    ) -> int:
        """Index again the batches that `headers` yields, cut the segment behind them; returns the bytes cut off.

        The transaction index is emptied: the caller that follows the producers through the batches writes it again.
        `blank` names the suffixes of indexes that are known to have no content: their files need not be touched for that.
        """
        size = self._files.get(self.path).size()
        for suffix, path in ((OFFSET_INDEX, self.offset_index.path), (TIME_INDEX, self.time_index.path)):
            if suffix not in blank:
                self._files.create(path)
        self.offset_index = OffsetIndex(self._files, self.offset_index.path, self.base_offset, 0)
        self.time_index = TimeIndex(self._files, self.time_index.path, self.base_offset, 0)
        if TRANSACTION_INDEX not in blank:
            self.transaction_index.clear()
        largest = (NO_TIMESTAMP, self.base_offset)
        position = since = 0
        self._first_timestamp = None
        for header in headers:
            ensure(header.position == position, f"{self.path}: batch at {header.position} where {position} is next")
            if header.max_timestamp > largest[0]:
                largest = (header.max_timestamp, header.last_offset)
            if since > index_interval_bytes:
                self.offset_index.append(header.last_offset, position)
                self.time_index.append_if_later(*largest)
                since = 0
            since += header.size
            position += header.size
        self._largest = largest
        self._bytes_since_entry = since
        self.size = position
        if position != size:  # otherwise the file was not changed, and the time of its last change may count
            self._files.get(self.path).truncate(position)
        self.seal()
        return size - position

    def sizes(self) -> FileSizes:
        """Return how large the files are."""
        return FileSizes(
            self.size, 8 * self.offset_index.count, 12 * self.time_index.count, self.transaction_index.size
        )

    def paths(self) -> list[str]:
        """Return all files that exist."""
        paths = [self.path, self.offset_index.path, self.time_index.path] if self.has_files else [self.path]
        return [*paths, self.transaction_index.path] if self.transaction_index.size else paths

    def mark_deleted(self) -> list[str]:
        """Rename the files to `.deleted`; returns their new names. Raises OSError."""
        renamed = []
        for path in self.paths():
            self._files.forget(path)
            if self._files.disk.exists(path):
                self._files.disk.rename(path, path + DELETED)
                renamed.append(path + DELETED)
        return renamed

    def remove(self) -> None:
        """Remove the files. Raises OSError."""
        for kind in SEGMENT_SUFFIXES:
            path = os.path.join(self.directory, offset_name(self.base_offset, kind + self._suffix))
            self._files.forget(path)
            self._files.disk.remove(path)
