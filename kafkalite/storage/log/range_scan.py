"""The records of a range of offsets on their way to a digest: kept blocks are added up, and what lies between them is read in pieces.

A scan goes from offset to offset. `next_piece` takes in the blocks that are kept (`segments/segment_digests`) and returns the next batches
whose records are to be digested, some at a time; `add` takes their digests. Between the two others may have their turn: where a batch
lies is found again by its offset, so that compaction, retention and new segments do no harm. A block that was read to its end is kept
for later scans, if nothing of what was read lies outside of the range.

What readers of committed records do not see is left out: control batches, and the records of aborted transactions. The range ends below
the last stable offset, so no transaction in it is open. Records of older message formats are digested, and their blocks not kept.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeAlias

from kafkalite.errors import ErrorCode, KafkaError
from kafkalite.protocol.record_batches.record_digest import (
    ALL_TIMES,
    NO_RECORDS,
    RangeDigest,
    Run,
    Times,
    add_digests,
    find_runs,
)
from kafkalite.protocol.record_batches.records import (
    CONTROL,
    LOG_OVERHEAD,
    MAGIC,
    TRANSACTIONAL,
    BatchHeader,
    iter_batches,
)
from kafkalite.storage.log.partition_log import PartitionLog
from kafkalite.storage.log_directory import uses_disk
from kafkalite.storage.segments.digest_files import load_digests, save_digests
from kafkalite.storage.segments.segment import Segment
from kafkalite.storage.segments.segment_digests import BLOCK_BYTES, DigestBlock, SegmentDigests
from kafkalite.types import Buffer

PIECE_BYTES: Final = 1024 * 1024
"""As much as there can be of a block."""
_BEHIND_BYTES: Final = 32 * 1024
"""Read behind the end of a block, as most batches that lie across it end within them."""
_LENGTH_AT: Final = 8
_BLOCKS_MAX: Final = 32_768
"""Blocks in memory, of 32 GiB of logs: some 10 MB."""
_SEGMENTS_MAX: Final = 256


class Piece(NamedTuple):
    """Whole batches of one block of a segment: their bytes from `position` on, and the headers of those in the range, relative to that.

    `is_committed` says of which batches readers of committed records get the records. Where there are `runs`, these are all batches, each
    committed, and only the headers of the first and the last one were read.
    """

    segment: Segment
    position: int
    data: Buffer
    headers: list[BatchHeader]
    is_committed: list[bool]
    runs: list[Run]

    @property
    def size_bytes(self) -> int:
        return self.headers[-1].end


SomeDigests: TypeAlias = tuple[RangeDigest, RangeDigest | None]
"""Of some batches, and of their records within the times of a scan where those are neither all nor none of them."""


class DigestCache:
    """The digests of the segments that scans read last, within bounds of memory. A segment that is changed forgets its own."""

    def __init__(self, blocks_max: int = _BLOCKS_MAX, segments_max: int = _SEGMENTS_MAX) -> None:
        self._blocks_max, self._segments_max = blocks_max, segments_max
        self._segments: OrderedDict[Segment, None] = OrderedDict()

    def of(self, segment: Segment, *, is_sealed: bool) -> SegmentDigests:
        """Return the digests of a segment, read from the file beside it where they are not in memory."""
        self._segments[segment] = None
        self._segments.move_to_end(segment)
        if segment.digests is None:
            segment.digests = load_digests(segment, is_sealed=is_sealed)
            self._shrink()
        return segment.digests

    def _shrink(self) -> None:
        blocks = sum(len(each.digests.blocks) for each in self._segments if each.digests is not None)
        while len(self._segments) > 1 and (len(self._segments) > self._segments_max or blocks > self._blocks_max):
            oldest, _ = self._segments.popitem(last=False)
            if oldest.digests is not None:
                blocks -= len(oldest.digests.blocks)
                oldest.digests = None


@dataclass(slots=True)
class _OpenBlock:
    """A block that is being read; `is_whole` while all that was read of it is in the range. It is kept if the segment has the same digests
    then: it forgets them before bytes of it are changed.
    """

    segment: Segment
    digests: SegmentDigests
    begin: int
    end: int
    end_offset: int
    digest: RangeDigest
    is_whole: bool


class _Place(NamedTuple):
    """Where the batch behind `offset` begins, as long as the segment is in the log and has the same digests."""

    segment: Segment
    digests: SegmentDigests
    position: int
    offset: int


class RangeScan:
    """The scan of `log` from offset `start` to before `end`, which is at most the last stable offset.

    `digest` is that of the records before `offset`, as far as their timestamps lie within `times`. A scan that is `fresh` reads all
    records, whatever is kept.
    """

    def __init__(
        self,
        log: PartitionLog,
        start: int,
        end: int,
        cache: DigestCache,
        *,
        times: Times = ALL_TIMES,
        fresh: bool = False,
    ) -> None:
        self.log, self.end, self.times = log, end, times
        self.offset = start
        self.digest = NO_RECORDS
        self._start, self._cache, self._fresh = start, cache, fresh
        self._open: _OpenBlock | None = None
        self._next: _Place | None = None
        self._digests = SegmentDigests({})
        """Those of the segment that was read last, when it was read."""

    @property
    def is_done(self) -> bool:
        return self.offset >= self.end

    @property
    def is_between_blocks(self) -> bool:
        """True if what is next begins a block, so that a scan from there keeps it."""
        return self._open is None or not self._open.is_whole or self._is_complete(self._open)

    def next_piece(self) -> Piece | None:
        """Return the next batches to be digested; None where kept blocks were enough, for one segment at a time, or nothing is left.

        May be called again when it raised NotInMemory. Raises KafkaError OFFSET_OUT_OF_RANGE, CORRUPT_MESSAGE, KAFKA_STORAGE_ERROR.
        """
        return _next_piece(self.log, self)

    def find_place(self) -> tuple[Segment, int] | None:
        """Return (segment, position) of the batch that holds the offset where the scan goes on, or of the first one behind it."""
        place = self._next
        if place is None or place.offset != self.offset or place.digests is not place.segment.digests:
            return self.log.segments.place_of(self.offset)
        is_there = place.position < place.segment.size and place.segment in self.log.segments
        return (place.segment, place.position) if is_there else self.log.segments.place_of(self.offset)

    def take_blocks(self, segment: Segment, position: int) -> int:
        """Add the kept blocks from this position of a segment on; return the position behind them."""
        digests = self._digests = self._cache.of(segment, is_sealed=segment is not self.log.segments.active)
        while not self._fresh and (block := digests.blocks.get(position // BLOCK_BYTES)) is not None:
            is_cut = 0 <= block.digest.first_offset < self.offset or block.end_offset > self.end
            is_parted = not (block.digest.is_within(self.times) or block.digest.is_outside(self.times))
            if block.begin != position or is_cut or is_parted or self._reads(segment, position):
                break
            if not block.digest.is_outside(self.times):
                self.digest += block.digest
            self.offset, position = block.end_offset, block.end
        return position

    def find_committed(self, headers: Sequence[BatchHeader]) -> list[bool]:
        """Return which batches have records that readers of committed records get."""
        aborted: dict[int, tuple[list[int], list[int]]] = {}
        if not any(header.attributes & (TRANSACTIONAL | CONTROL) for header in headers):
            return [True] * len(headers)
        for each in self.log.aborted_transactions(self.offset, headers[-1].next_offset):
            begins, ends = aborted.setdefault(each.producer_id, ([], []))
            begins.append(each.first_offset)
            ends.append(each.last_offset)
        return [
            not (header.is_control or (header.is_transactional and _is_within(aborted, header))) for header in headers
        ]

    def add(self, piece: Piece, digests: Sequence[SomeDigests]) -> None:
        """Add the digests of all batches of a piece whose records are not left out."""
        first, last, segment = piece.headers[0], piece.headers[-1], piece.segment
        begin, end = piece.position + first.position, piece.position + last.end
        is_inside = self._start <= first.base_offset and last.next_offset <= self.end
        is_inside = is_inside and all(header.magic == MAGIC for header in piece.headers)
        digest = add_digests([whole for whole, _ in digests])
        if digest.is_within(self.times):
            self.digest += digest
        elif not digest.is_outside(self.times):
            parts = [whole if part is None else part for whole, part in digests]
            self.digest += add_digests([each for each in parts if not each.is_outside(self.times)])
        self.offset = max(self.offset, min(last.next_offset, self.end))
        if self.offset == last.next_offset:
            self._next = _Place(segment, self._digests, end, self.offset)
        block = self._open
        if block is not None and self._reads(segment, begin):
            block.end, block.end_offset, block.digest = end, last.next_offset, block.digest + digest
            block.is_whole = block.is_whole and is_inside
        else:
            if block is not None and block.segment is not segment:
                self.finish()
            self._keep_open()
            self._open = _OpenBlock(segment, self._digests, begin, end, last.next_offset, digest, is_inside)
        if end == segment.size and segment is not self.log.segments.active:
            self.finish()

    def finish(self) -> None:
        """Keep the block that was read to its end, if any, and write what is known of a sealed segment beside it."""
        block = self._open
        if block is None:
            return
        self._keep_open()
        segment, log = block.segment, self.log
        is_sealed = segment is not log.segments.active and segment in log.segments
        if is_sealed and segment.digests is not None and not segment.digests.is_saved:
            save_digests(segment, segment.digests)
            log.summarized_as = None  # what was noted of the directory is no longer true
            log.note_change()

    def _reads(self, segment: Segment, position: int) -> bool:
        """True if the block that is being read goes on at this position."""
        block = self._open
        if block is None or block.segment is not segment or block.end != position:
            return False
        return not self._is_complete(block)

    def _is_complete(self, block: _OpenBlock) -> bool:
        """True if the block is known to have no more batches."""
        if block.segment.size <= block.end:
            return block.segment is not self.log.segments.active
        return block.end // BLOCK_BYTES > block.begin // BLOCK_BYTES

    def _keep_open(self) -> None:
        """Keep the block that was read, if that was to its end."""
        block, self._open = self._open, None
        if block is None or not block.is_whole or block.end > block.segment.size or not self._is_complete(block):
            return
        if block.segment.digests is block.digests:
            block.digests.keep(DigestBlock(block.begin, block.end, block.end_offset, block.digest))


def _is_within(aborted: Mapping[int, tuple[Sequence[int], Sequence[int]]], header: BatchHeader) -> bool:
    """True if the batch is of one of the aborted transactions, of which each producer's are in order."""
    begins, ends = aborted.get(header.producer_id, ((), ()))
    number = bisect_right(begins, header.base_offset) - 1
    return number >= 0 and header.base_offset <= ends[number]


@uses_disk
def _next_piece(log: PartitionLog, scan: RangeScan) -> Piece | None:
    if scan.offset < log.log_start_offset:
        raise KafkaError(
            ErrorCode.OFFSET_OUT_OF_RANGE,
            f"{log.topic_partition} begins at offset {log.log_start_offset}, behind {scan.offset}",
        )
    place = scan.find_place()
    if place is None:
        scan.offset = scan.end
        return None
    segment, position = place
    position = scan.take_blocks(segment, position)
    if scan.is_done or position >= segment.size:
        return None
    block_bytes = BLOCK_BYTES - position % BLOCK_BYTES
    data = segment.read(position, min(PIECE_BYTES, block_bytes + _BEHIND_BYTES))
    length = int.from_bytes(data[_LENGTH_AT:LOG_OVERHEAD], "big", signed=True) + LOG_OVERHEAD
    if length > len(data):
        data = segment.read(position, length)
    if runs := find_runs(data, block_bytes, scan.end):
        ends = [BatchHeader.read(data, each) for each in (0, runs[-1].last_position)]
        return Piece(segment, position, data, ends, [True, True], runs)
    headers, reached, are_batches = [], scan.offset, False
    for header in iter_batches(data):
        are_batches = True
        is_behind = (header.base_offset if header.magic == MAGIC else reached) >= scan.end
        if is_behind or header.position >= block_bytes:
            break
        headers.append(header)
        reached = header.next_offset
    if not are_batches:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"{segment.path}: no batch at position {position}")
    if not headers:
        scan.offset = scan.end
        return None
    return Piece(segment, position, data, headers, scan.find_committed(headers), [])
