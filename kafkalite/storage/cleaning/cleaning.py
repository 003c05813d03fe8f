"""One compaction pass over a log: reads sealed segments, writes `.cleaned` ones beside them, and changes nothing else.

`clean` is an iterator that does a little work at each step and yields what it did, so the caller decides where the work
runs, how fast it goes and when it ends:

    Progress(bytes)      that many bytes were read and written; pause as the throttle demands
    CleanedSegment       a group of old segments has a successor, safe on the medium as `.cleaned` files: swap it in
    CleanedUpTo          the pass is over; up to there the log is compacted

Task and results are plain data, because a pass may run in another process. Closing the iterator early removes the files
that are not finished. A batch with a wrong CRC or offset ends the pass with CorruptSegment: nothing is derived from broken data.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeAlias

from kafkalite.protocol.record_batches.compiled_records import DecodedRecord
from kafkalite.protocol.record_batches.records import (
    HEADER_SIZE,
    LOG_OVERHEAD,
    MAGIC,
    BatchHeader,
    has_valid_crc,
    header_at,
    iter_batches,
    read_marker,
)
from kafkalite.storage.cleaning.batch_filter import OpenBatch, OpenMessage, empty_batch, open_batch
from kafkalite.storage.cleaning.compaction import (
    BatchFate,
    LastOfProducer,
    SourceSegment,
    Transactions,
    fate_of,
    group_segments,
    keeps_tombstones,
    old_tombstones_from_ms,
)
from kafkalite.storage.cleaning.key_map import KeyMap
from kafkalite.storage.disk import Disk
from kafkalite.storage.log_files import CLEANED
from kafkalite.storage.open_files import OpenFiles
from kafkalite.storage.segments.segment import Segment
from kafkalite.storage.segments.segment_files import FileSizes
from kafkalite.storage.segments.transaction_index import AbortedTransaction
from kafkalite.types import Buffer

_OPEN_FILES: Final = 8


class PassInterrupted(Exception):
    """Raised when a pass ended early through no fault of the log: its process was killed, or there was no memory."""


class CorruptSegment(OSError):
    """Raised when a segment to be compacted holds bytes that are no valid batch."""


@dataclass(frozen=True, slots=True)
class CleaningTask:
    """The input of a pass: the segments from the oldest up to where the dirty part ends, and the settings.

    `end_offset` is that of the last segment; `first_dirty_offset` where the keys begin to count. Times in ms.
    """

    directory: str
    segments: tuple[SourceSegment, ...]
    first_dirty_offset: int
    end_offset: int
    aborted: tuple[AbortedTransaction, ...]
    last_of_producers: dict[int, LastOfProducer]
    now_ms: int
    delete_retention_ms: int
    segment_bytes: int
    segment_index_bytes: int
    index_interval_bytes: int
    key_map_bytes: int
    key_map_load_factor: float
    io_buffer_bytes: int


class Progress(NamedTuple):
    """Bytes read and written since the last step."""

    bytes: int


class CleanedSegment(NamedTuple):
    """The successor of `sources`: its files lie beside them as `.cleaned`, of these sizes."""

    sources: tuple[SourceSegment, ...]
    sizes: FileSizes

    @property
    def base_offset(self) -> int:
        return self.sources[0].base_offset

    @property
    def modified_ms(self) -> int:
        return max(source.modified_ms for source in self.sources)


class CleanedUpTo(NamedTuple):
    """The end of a pass: the first offset that is dirty now, and what went through."""

    first_dirty_offset: int
    keys: int
    records_read: int
    records_kept: int
    bytes_read: int
    bytes_written: int


Step: TypeAlias = Progress | CleanedSegment | CleanedUpTo


def clean(task: CleaningTask, disk: Disk) -> Generator[Step, None, None]:
    """Yield the steps of a pass. Raises OSError, CorruptSegment among them, and KafkaError for records that cannot be read."""
    return _Pass(task, disk).steps()


class _Pass:
    def __init__(self, task: CleaningTask, disk: Disk) -> None:
        self.task = task
        self.disk = disk
        self.keys = KeyMap(task.key_map_bytes, task.key_map_load_factor, task.end_offset - task.first_dirty_offset)
        self.mapped_end = task.first_dirty_offset
        """Offset behind the last record that the key map knows of."""
        self.old_tombstones_from_ms = old_tombstones_from_ms(
            task.segments, task.first_dirty_offset, task.delete_retention_ms
        )
        self.records_read = self.records_kept = self.bytes_read = self.bytes_written = 0

    def steps(self) -> Generator[Step, None, None]:
        try:
            yield from self._map_keys()
            transactions = Transactions(self.task.aborted)
            sources = [each for each in self.task.segments if each.base_offset < self.mapped_end]
            for group in group_segments(sources, self.task.segment_bytes, self.task.segment_index_bytes):
                yield from self._clean_group(group, transactions)
        finally:
            size = self.keys.size
            self.keys.close()
        yield CleanedUpTo(
            self.mapped_end, size, self.records_read, self.records_kept, self.bytes_read, self.bytes_written
        )

    # First read: the last offset of each key

    def _map_keys(self) -> Iterator[Progress]:
        task = self.task
        transactions = Transactions(task.aborted)
        for source in task.segments:
            if source.end_offset <= task.first_dirty_offset:
                continue
            for data, headers in _chunks(self.disk, source, task.io_buffer_bytes):
                for header in headers:
                    if header.next_offset <= task.first_dirty_offset:
                        _follow(transactions, data, header)
                    elif not self._map_batch(data, header, transactions):
                        return
                yield Progress(len(data))
            self.mapped_end = max(self.mapped_end, source.end_offset)

    def _map_batch(self, data: Buffer, header: BatchHeader, transactions: Transactions) -> bool:
        """Note the keys of a batch; False when the map has no room for one of them."""
        first_dirty, put = self.task.first_dirty_offset, self.keys.put
        is_aborted = _follow(transactions, data, header)
        if not header.is_control and not is_aborted and header.records_count:
            keys, offsets = open_batch(data, header).keys()
            latest = dict(zip(keys, offsets, strict=True))
            first = header.base_offset if header.magic == MAGIC else offsets[0]
            if first_dirty <= first and self.keys.size + len(latest) <= self.keys.capacity:
                latest.pop(None, None)
                for key, offset in latest.items():
                    put(key, offset)  # type: ignore[arg-type]
            else:
                for key, offset in zip(keys, offsets, strict=True):
                    if key is not None and offset >= first_dirty and not put(key, offset):
                        return False
                    self.mapped_end = max(self.mapped_end, offset + 1)
        self.mapped_end = max(self.mapped_end, header.next_offset)
        return True

    # Second read: what stays

    def _clean_group(self, group: Sequence[SourceSegment], transactions: Transactions) -> Iterator[Step]:
        writer = _Writer(self.disk, self.task, group[0].base_offset)
        try:
            for source in group:
                keeps_old_tombstones = source.modified_ms > self.old_tombstones_from_ms
                for data, headers in _chunks(self.disk, source, self.task.io_buffer_bytes):
                    for header in headers:
                        if header.magic == MAGIC:
                            writer.add(self._successor(data, header, transactions))
                        else:
                            writer.add(self._of_message(data, header, keeps_old_tombstones))
                    written = writer.write(transactions)
                    self.bytes_read += len(data)
                    self.bytes_written += written
                    yield Progress(len(data) + written)
            writer.finish(max(source.modified_ms for source in group))
        except BaseException:
            writer.discard()
            raise
        yield CleanedSegment(tuple(group), writer.segment.sizes())

    def _successor(self, data: Buffer, header: BatchHeader, transactions: Transactions) -> Buffer | None:
        """Return the successor of a batch; None when nothing of it stays."""
        self.records_read += header.records_count
        may_go = _follow(transactions, data, header)
        last = self.task.last_of_producers.get(header.producer_id) if header.has_producer_id else None
        keeps_header = header.next_offset == self.task.end_offset or (last is not None and last.is_in(header))
        fate = fate_of(header, may_go=may_go, keeps_header=keeps_header, now_ms=self.task.now_ms)
        whole = memoryview(data)[header.position : header.end]
        if fate is BatchFate.DISCARD:
            return None
        if fate is BatchFate.EMPTY:
            return empty_batch(header)
        if fate is BatchFate.FILTER and header.base_offset < self.mapped_end:
            return self._filter_batch(OpenBatch(data, header), whole, keeps_header)
        self.records_kept += header.records_count
        if header.is_control and may_go and header.records_count and header.delete_horizon_ms is None:
            return OpenBatch(data, header).rewrite(
                [True] * header.records_count, header.max_timestamp, self._new_horizon_ms
            )
        return whole

    def _of_message(self, data: Buffer, header: BatchHeader, keeps_tombstones: bool) -> Buffer | None:
        """Return the successor of a message of an older format; None when nothing of it stays."""
        message = OpenMessage(data, header)
        self.records_read += len(message.records())
        stays = self._staying(message.records(), keeps_tombstones)
        self.records_kept += sum(stays)
        if all(stays):
            return memoryview(data)[header.position : header.end]
        return message.rewrite(stays) if any(stays) else None

    def _staying(self, records: Sequence[DecodedRecord], keeps_tombstones: bool) -> list[bool]:
        """Return for each record whether it stays."""
        mapped_end = self.mapped_end
        latest = {key: self.keys.get(key) for key in {record.key for record in records} if key is not None}
        return [
            record.offset >= mapped_end
            or (
                record.key is not None
                and record.offset >= latest[record.key]
                and (keeps_tombstones or record.value is not None)
            )
            for record in records
        ]

    def _filter_batch(self, batch: OpenBatch, whole: Buffer, keeps_header: bool) -> Buffer | None:
        header, records = batch.header, batch.records()
        stays = self._staying(records, keeps_tombstones(header, self.task.now_ms))
        kept = sum(stays)
        self.records_kept += kept
        if not kept:
            return empty_batch(header) if keeps_header else None
        has_tombstone = any(stay and record.value is None for record, stay in zip(records, stays, strict=True))
        horizon_ms = self._new_horizon_ms if has_tombstone and header.delete_horizon_ms is None else None
        if kept == len(stays) and horizon_ms is None:
            return whole
        max_timestamp = max(record.timestamp for record, stay in zip(records, stays, strict=True) if stay)
        return batch.rewrite(stays, max_timestamp, horizon_ms)

    @property
    def _new_horizon_ms(self) -> int:
        return self.task.now_ms + self.task.delete_retention_ms


def _follow(transactions: Transactions, data: Buffer, header: BatchHeader) -> bool:
    """Pass a batch to `transactions`. True if it may be removed: aborted data, or a marker without data."""
    if header.is_control:
        return transactions.sees_marker(header, read_marker(data, header))
    return transactions.sees_data(header)


class _Writer:
    """The `.cleaned` segment of a group."""

    def __init__(self, disk: Disk, task: CleaningTask, base_offset: int) -> None:
        self._disk = disk
        self._index_interval_bytes = task.index_interval_bytes
        self._files = OpenFiles(disk, _OPEN_FILES)
        self._pending: list[Buffer] = []
        self.segment = Segment(
            self._files,
            task.directory,
            base_offset,
            FileSizes(),
            created_ms=task.now_ms,
            modified_ms=task.now_ms,
            suffix=CLEANED,
        )
        self.segment.remove()
        self.segment = Segment.create(self._files, task.directory, base_offset, task.now_ms, suffix=CLEANED)

    def add(self, batch: Buffer | None) -> None:
        if batch is not None:
            self._pending.append(batch)

    def write(self, transactions: Transactions) -> int:
        """Write what was added; returns the bytes. Raises OSError."""
        retained, transactions.retained = transactions.retained, []
        if not self._pending:
            return 0
        headers, position = [], 0
        for batch in self._pending:
            header = next(iter_batches(batch))._replace(position=position)
            headers.append(header)
            position = header.end
        self.segment.append(self._pending, headers, self._index_interval_bytes, retained)
        self._pending = []
        return position

    def finish(self, modified_ms: int) -> None:
        """Seal the segment and bring it to the medium, changed when the last of its sources was. Raises OSError."""
        self.segment.seal()
        self._disk.set_modified(self.segment.path, modified_ms)
        for path in self.segment.paths():
            self._disk.sync(path)
        self._files.close()

    def discard(self) -> None:
        try:
            self.segment.remove()
        except OSError:  # the medium failed, or the directory is gone; the next start removes what is left
            pass
        self._files.close()


def _chunks(disk: Disk, source: SourceSegment, chunk_bytes: int) -> Iterator[tuple[bytes, list[BatchHeader]]]:
    """Yield the bytes of a segment in pieces of whole batches, with their headers. Raises OSError, CorruptSegment among them."""
    file = disk.open(source.path)
    try:
        position, next_offset = 0, source.base_offset
        wanted = max(chunk_bytes, HEADER_SIZE)
        while position < source.size:
            data = file.read_at(position, min(wanted, source.size - position))
            headers = list(_whole_batches(source, data, position, next_offset))
            if headers:
                end, next_offset = headers[-1].end, headers[-1].next_offset
                yield data[:end], headers
                position += end
                wanted = max(chunk_bytes, HEADER_SIZE)
            elif len(data) < min(wanted, source.size - position) or wanted >= source.size - position:
                raise CorruptSegment(f"{source.path} ends within a batch, at {position}")
            else:
                wanted = int.from_bytes(data[8:LOG_OVERHEAD], "big") + LOG_OVERHEAD
    finally:
        file.close()


def _whole_batches(source: SourceSegment, data: bytes, start: int, next_offset: int) -> Iterator[BatchHeader]:
    position = 0
    while (header := header_at(data, position)) is not None:
        if header.end > len(data):
            return
        if not has_valid_crc(data, header):
            raise CorruptSegment(f"{source.path}: wrong CRC at {start + position}, offset {header.base_offset}")
        if header.base_offset < next_offset or not header.base_offset <= header.last_offset < source.end_offset:
            raise CorruptSegment(f"{source.path}: offset {header.base_offset} at {start + position}")
        yield header
        position, next_offset = header.end, header.next_offset
    if position + HEADER_SIZE <= len(data):
        raise CorruptSegment(f"{source.path} holds no batch at {start + position}")


def discard_cleaned(disk: Disk, directory: str, cleaned: CleanedSegment) -> None:
    """Remove the files of a successor that is not wanted any more. Raises OSError."""
    files = OpenFiles(disk, 1)
    base = cleaned.base_offset
    Segment(files, directory, base, FileSizes(), created_ms=0, modified_ms=0, suffix=CLEANED).remove()
