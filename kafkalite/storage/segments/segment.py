"""One segment of a log: record batches end to end in `.log`, from its base offset on, with its three indexes.

Among the batches, mostly before them, may lie messages of the formats before (magic 0 and 1), each with a header as if it were a batch.

Bytes are written at the position that this object knows to be the end, so a write that failed half-way leaves nothing
visible: the rest is cut off at once, or, when even that fails, before the next write. No batch lies in two segments.
"""

from __future__ import annotations

import logging
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
from kafkalite.storage.log_files import (
    LOG,
    OFFSET_INDEX,
    TIME_INDEX,
    TRANSACTION_INDEX,
)
from kafkalite.storage.open_files import OpenFiles
from kafkalite.storage.segments.segment_files import FileSizes, SegmentFiles
from kafkalite.storage.segments.time_index import TimeEntry
from kafkalite.storage.segments.transaction_index import AbortedTransaction
from kafkalite.types import Buffer

logger = logging.getLogger(__name__)

_HEADER_START = struct.Struct(">qi4xb6xi")
"""Base offset, batch length, magic and last offset delta."""

_SCAN_BYTES: Final = 8192
"""Read at a time when headers are looked at one by one; more than the bytes between two entries of the offset index."""

RELATIVE_OFFSET_LIMIT: Final = (1 << 31) - 1
"""Largest difference between an offset in a segment and the segment's base offset."""

_NO_BATCH = -1


class _Extent(NamedTuple):
    """The end of each file of a segment."""

    size: int
    offset_entries: int
    time_entries: int
    transaction_bytes: int


class Segment(SegmentFiles):
    """A segment in `directory`. The largest timestamp is looked up when it is first needed."""

    __slots__ = (
        "_bytes_since_entry",
        "_first_timestamp",
        "_largest",
        "_searched",
        "_torn",
        "created_ms",
        "modified_ms",
        "roll_jitter_ms",
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
        super().__init__(files, directory, base_offset, sizes, suffix, is_complete=is_complete)
        self.created_ms = created_ms
        self.modified_ms = modified_ms
        self.roll_jitter_ms = roll_jitter_ms
        self._bytes_since_entry = 0
        self._first_timestamp: int | None = None
        self._largest: tuple[int, int] | None = None
        self._torn: _Extent | None = None
        self._searched: dict[tuple[int, int, int, int], tuple[int, int] | KafkaError | None] | None = None

    @property
    def searched(self) -> dict[tuple[int, int, int, int], tuple[int, int] | KafkaError | None]:
        """Return the outcomes of long searches through records, for `timestamp_search` to add to."""
        if self._searched is None:
            self._searched = {}
        return self._searched

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
        files.create(segment.path_of(LOG))
        if is_complete:
            segment.make_files()
        return segment

    def __repr__(self) -> str:
        return f"Segment({self.path}, {self.size} bytes)"

    # Timestamps

    @property
    def largest_timestamp(self) -> int:
        """Return the largest timestamp of the records in ms, NO_TIMESTAMP without any.

        Of a segment that was loaded it is what the last entry of the time index says: that covers all of a sealed segment; behind
        that of another one `last_header` has to look first.
        """
        return self.largest_known[0]

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

    @property
    def largest_known(self) -> tuple[int, int]:
        """Return `largest_timestamp`, and the last offset of the batch that has it."""
        if self._largest is None:
            if not self.size:
                return NO_TIMESTAMP, self.base_offset  # not kept: most logs of a broker may be empty
            self._largest = self.last_time_entry
        return self._largest

    @property
    def last_time_entry(self) -> TimeEntry:
        """Return the last entry of the time index; (NO_TIMESTAMP, base offset) of an empty one."""
        return TimeEntry(NO_TIMESTAMP, self.base_offset) if self._time_index is None else self._time_index.last

    def set_largest(self, timestamp: int, offset: int, time_entry: TimeEntry) -> None:
        """Set what `largest_known` returns, and the last entry of the time index, which are known from before."""
        self._largest = timestamp, offset
        if self._time_index is not None:
            self._time_index.set_last(time_entry)

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
        start, largest, since = self.size, self.largest_known, self._bytes_since_entry
        extent: _Extent | None = None
        """As it was before the first entry of an index."""
        try:
            self._files.get(self._path or self.path).write_at(start, buffers)
            for header in headers:
                if header.max_timestamp > largest[0]:
                    largest = (header.max_timestamp, header.last_offset)
                if since > index_interval_bytes and self.has_files:
                    extent = extent or self._extent()
                    self.offset_index.append(header.last_offset, start + header.position)
                    self.time_index.append_if_later(*largest)
                    since = 0
                since += header.batch_length + LOG_OVERHEAD
            for entry in aborted:
                extent = extent or self._extent()
                self.transaction_index.append(entry)
        except OSError:
            self._torn = extent or self._extent()
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

    def _extent(self) -> _Extent:
        return _Extent(self.size, self.offset_index.count, self.time_index.count, self.transaction_index.size)

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
        index = self._offset_index
        if index is not None and index.count >= index_bytes // 8:
            return False
        times = self._time_index
        return times is None or times.count < index_bytes // 12 - 1

    def seal(self) -> bool:
        """Add the time index's last entry, which tells the segment's largest timestamp. True if it was not there."""
        before = self.sizes()
        if self.size:
            self.make_files()
            self.time_index.append_if_later(*self.largest_known)
        return self.sizes() != before

    # Reading

    def read(self, position: int, size: int) -> Buffer:
        return self._files.read(self._path or self.path, position, min(size, self.size - position))

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
        position = 0 if self._offset_index is None else self._offset_index.lookup(offset).position
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
        largest: tuple[int, int] = (NO_TIMESTAMP, self.base_offset)
        if self._time_index is not None:
            largest = self._time_index.last
        indexed = self._offset_index is not None and self._offset_index.count
        for header in self.headers(self.offset_index.last.position if indexed else 0):
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
            self.forget_digests()
            removed = min(offset, self._first_offset_at(position, offset))
            self.offset_index.truncate_to(removed)
            self.time_index.truncate_to(removed)
            self._files.truncate(self.path, position)
            self.size = position
        if self._transaction_index is not None:
            self._transaction_index.truncate_to(removed)
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
        for suffix in (OFFSET_INDEX, TIME_INDEX):
            if suffix not in blank:
                self._files.create(self.path_of(suffix))
        self._offset_index = self._time_index = None
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
