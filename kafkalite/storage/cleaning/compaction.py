"""Compaction decided: which log is next, up to where, in which groups of segments, and which records stay (KIP-58, KIP-354, KIP-534).

Pure. The dirty part of a log begins at its first dirty offset (what lies below was compacted before) and ends where records are
not to be touched yet: at the last stable offset, the active segment, and the first segment younger than
min.compaction.lag.ms. A pass notes the last offset of each key in the dirty part, then copies all segments up to there:

| record, in a batch of data                                   | stays                                         |
|--------------------------------------------------------------|-----------------------------------------------|
| behind what the key map knows                                | yes                                           |
| of an aborted transaction; without key; older than its key's | no                                            |
| the last one of its key, with a value                        | yes                                           |
| the last one of its key, without (a tombstone)               | until the batch's delete horizon, if it is set |

A marker stays as long as data of its transaction does, then until its own horizon. A batch left without records stays as a
mere header if it is the last one of an active producer or of the pass.

The first pass that meets a tombstone, or a marker without data, sets the batch's horizon to delete.retention.ms from then:
a client that reads the log from its beginning within that time learns of the deletion (KIP-534). Offsets never change.

Messages of the formats before batches have no place for a horizon. Tombstones among them stay in segments that were written less than
delete.retention.ms before the last segment that was compacted before (Kafka's legacyDeleteHorizonMs).
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Iterable, Sequence
from enum import Enum
from typing import NamedTuple, Protocol, TypeVar

from kafkalite.config.topic import LONG_MAX, TopicConfig
from kafkalite.protocol.record_batches.records import ABORT_MARKER, NO_TIMESTAMP, BatchHeader, Marker
from kafkalite.storage.segments.segment import RELATIVE_OFFSET_LIMIT
from kafkalite.storage.segments.transaction_index import AbortedTransaction

# Which log, and up to where


class DirtySegment(Protocol):
    """Properties of a segment on which the choice of a log depends; times in ms."""

    @property
    def base_offset(self) -> int: ...

    @property
    def size(self) -> int: ...

    @property
    def largest_timestamp(self) -> int: ...

    @property
    def first_timestamp(self) -> int | None: ...

    @property
    def modified_ms(self) -> int: ...


class _Segments(Protocol):
    @property
    def active(self) -> DirtySegment: ...


class DirtyLog(Protocol):
    """Properties of a log on which it depends if compaction has to look at it."""

    first_dirty_offset: int | None
    log_start_offset: int
    log_end_offset: int

    @property
    def segments(self) -> _Segments: ...


class DirtyPart(NamedTuple):
    """The part of a log that compaction would look at; `overdue` means max.compaction.lag.ms has passed for some of it."""

    first_offset: int
    end_offset: int
    clean_bytes: int
    dirty_bytes: int
    overdue: bool

    @property
    def ratio(self) -> float:
        """Return the share of the dirty bytes in what a pass would read."""
        total = self.clean_bytes + self.dirty_bytes
        return self.dirty_bytes / total if total else 0.0

    def is_due(self, config: TopicConfig) -> bool:
        return self.dirty_bytes > 0 and (self.overdue or self.ratio > config.min_cleanable_dirty_ratio)


def dirty_part(
    segments: Sequence[DirtySegment],
    *,
    config: TopicConfig,
    first_dirty_offset: int | None,
    log_start_offset: int,
    log_end_offset: int,
    last_stable_offset: int,
    now_ms: int,
) -> DirtyPart:
    """Return the dirty part of a log; `first_dirty_offset` is None for one that was never compacted."""
    first_dirty_offset = _first_dirty(first_dirty_offset, log_start_offset, log_end_offset)
    bases = [segment.base_offset for segment in segments]
    first = max(0, bisect_right(bases, first_dirty_offset) - 1)
    sealed = segments[first:-1]
    end = min(last_stable_offset, bases[-1])
    if config.min_compaction_lag_ms > 0:
        youngest = now_ms - config.min_compaction_lag_ms
        end = min([end, *(each.base_offset for each in sealed if _age_from(each) > youngest)])
    end_number = max(0, bisect_right(bases, max(end, first_dirty_offset)) - 1)
    clean = sum(segment.size for segment in segments[: min(first, end_number)])
    dirty = sum(segment.size for segment in segments[first:end_number])
    return DirtyPart(
        first_dirty_offset,
        max(first_dirty_offset, bases[end_number]),
        clean,
        dirty,
        dirty > 0 and _is_overdue(sealed, config, now_ms),
    )


def has_dirty_segments(log: DirtyLog) -> bool:
    """True if the log has a dirty part whose segments are sealed, whatever the time is; it is larger than that of `dirty_part`."""
    first = _first_dirty(log.first_dirty_offset, log.log_start_offset, log.log_end_offset)
    return first < log.segments.active.base_offset


def _first_dirty(offset: int | None, log_start_offset: int, log_end_offset: int) -> int:
    return log_start_offset if offset is None or not log_start_offset <= offset <= log_end_offset else offset


def _age_from(segment: DirtySegment) -> int:
    """Return the largest timestamp, or for messages of magic 0, which have none, the time at which the file was changed."""
    timestamp = segment.largest_timestamp
    return segment.modified_ms if timestamp == NO_TIMESTAMP else timestamp


def _is_overdue(sealed: Iterable[DirtySegment], config: TopicConfig, now_ms: int) -> bool:
    if config.max_compaction_lag_ms == LONG_MAX:
        return False
    firsts = (segment.first_timestamp for segment in sealed)
    return any(first is not None and 0 < first < now_ms - config.max_compaction_lag_ms for first in firsts)


class SourceSegment(NamedTuple):
    """A segment that a pass reads; `end_offset` is where the next one begins."""

    base_offset: int
    end_offset: int
    path: str
    size: int
    index_bytes: int
    time_index_bytes: int
    modified_ms: int


_Source = TypeVar("_Source", bound=SourceSegment)


def group_segments(segments: Iterable[_Source], segment_bytes: int, segment_index_bytes: int) -> list[list[_Source]]:
    """Return runs of neighbours that make one segment together, by their present sizes, so that small remains do not pile up."""
    groups: list[list[_Source]] = []
    log = index = time_index = 0
    for segment in segments:
        log += segment.size
        index += segment.index_bytes
        time_index += segment.time_index_bytes
        if (
            groups
            and log <= segment_bytes
            and max(index, time_index) <= segment_index_bytes
            and segment.end_offset - 1 - groups[-1][0].base_offset <= RELATIVE_OFFSET_LIMIT
        ):
            groups[-1].append(segment)
        else:
            groups.append([segment])
            log, index, time_index = segment.size, segment.index_bytes, segment.time_index_bytes
    return groups


# Which batches and records stay


class LastOfProducer(NamedTuple):
    """The newest thing that an active producer wrote: its last data, or, without any, a marker in its epoch."""

    epoch: int
    data_offset: int | None

    def is_in(self, header: BatchHeader) -> bool:
        if self.data_offset is not None:
            return header.last_offset == self.data_offset
        return header.is_control and header.producer_epoch == self.epoch


class Transactions:
    """Follows the transactions through the batches of a pass, in their order; knows the aborted ones from the start.

    `retained` collects the aborted transactions whose markers stay, for the new segment's transaction index.
    """

    def __init__(self, aborted: Iterable[AbortedTransaction]) -> None:
        self._coming = deque(sorted(set(aborted), key=lambda each: each.first_offset))
        self._aborted: dict[int, AbortedTransaction] = {}
        self._with_data: set[int] = set()
        self.retained: list[AbortedTransaction] = []

    def sees_data(self, header: BatchHeader) -> bool:
        """Follow a batch of data. True if it belongs to an aborted transaction."""
        if not header.is_transactional:
            return False
        self._start_transactions(header.last_offset)
        self._with_data.add(header.producer_id)
        return header.producer_id in self._aborted

    def sees_marker(self, header: BatchHeader, marker: Marker | None) -> bool:
        """Follow a control batch. True if it may be removed, because no data of its transaction is left before it."""
        self._start_transactions(header.last_offset)
        if marker is None:
            return not header.records_count
        had_data = header.producer_id in self._with_data
        self._with_data.discard(header.producer_id)
        if marker.type == ABORT_MARKER:
            transaction = self._aborted.pop(header.producer_id, None)
            if transaction is not None and had_data:
                self.retained.append(transaction)
        return not had_data

    def _start_transactions(self, offset: int) -> None:
        while self._coming and self._coming[0].first_offset <= offset:
            transaction = self._coming.popleft()
            if transaction.last_offset >= offset:
                self._aborted.setdefault(transaction.producer_id, transaction)


class BatchFate(Enum):
    """The treatment of a batch, decided before its records are read."""

    DISCARD = "discard"
    EMPTY = "keep the header"
    KEEP = "keep all records"
    FILTER = "keep the records that stay"


def fate_of(header: BatchHeader, *, may_go: bool, keeps_header: bool, now_ms: int) -> BatchFate:
    """Return what a pass does with a batch; `may_go` is the answer of `Transactions`.

    `keeps_header` says that the header must stay in any case: that of the last batch of an active producer, which tells its
    sequence numbers, and that of the last batch of the pass, which tells where the log ends.
    """
    horizon = header.delete_horizon_ms
    if may_go and (not header.is_control or not header.records_count or (horizon is not None and horizon <= now_ms)):
        return BatchFate.EMPTY if keeps_header else BatchFate.DISCARD
    return BatchFate.KEEP if header.is_control else BatchFate.FILTER


def keeps_tombstones(header: BatchHeader, now_ms: int) -> bool:
    """True if readers still have to see deletions in this batch."""
    horizon = header.delete_horizon_ms
    return horizon is None or now_ms < horizon


def old_tombstones_from_ms(segments: Sequence[SourceSegment], first_dirty_offset: int, delete_retention_ms: int) -> int:
    """Return the time in ms after which a segment must have been written to keep its tombstones of older formats."""
    compacted = [segment.modified_ms for segment in segments if segment.base_offset < first_dirty_offset]
    return compacted[-1] - delete_retention_ms if compacted else 0
