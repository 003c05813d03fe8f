"""Retention: the segments that a log deletes by size, time and offset (retention.bytes, retention.ms). Pure.

Oldest first, and never one that holds a record at or above the high watermark, for that one is not safe elsewhere yet:

1. What lies below the log start offset goes, whatever the policy is.
2. By size: as long as the log is larger than retention.bytes by at least the next segment.
3. By time: as long as the largest timestamp in the segment is older than retention.ms. A segment without timestamps goes
   by the time its file was changed. A timestamp in the future keeps its segment, as in Kafka.

The active segment may go too; a new one is begun first. An empty active segment never goes.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from kafkalite.config.topic import TopicConfig
from kafkalite.protocol.record_batches.records import NO_TIMESTAMP

if TYPE_CHECKING:
    from kafkalite.storage.segments.segment_list import SegmentList


class RetainedSegment(Protocol):
    """Properties of a segment on which retention depends; times in ms."""

    @property
    def size(self) -> int: ...

    @property
    def largest_timestamp(self) -> int: ...

    @property
    def modified_ms(self) -> int: ...


class RetainedLog(Protocol):
    """Properties of a log on which retention depends."""

    log_start_offset: int
    log_end_offset: int
    high_watermark: int

    @property
    def config(self) -> TopicConfig: ...

    @property
    def segments(self) -> SegmentList: ...


def find_deletable(log: RetainedLog, now_ms: int) -> int:
    """Return how many of the oldest segments of a log are to go."""
    segments = log.segments
    if len(segments) == 1 and not segments.active.size:
        return 0  # most logs of a broker may be empty
    return count_deletable(
        list(segments),
        segments.ends(log.log_end_offset),
        config=log.config,
        log_start_offset=log.log_start_offset,
        high_watermark=log.high_watermark,
        now_ms=now_ms,
    )


def count_deletable(
    segments: Sequence[RetainedSegment],
    ends: Sequence[int],
    *,
    config: TopicConfig,
    log_start_offset: int,
    high_watermark: int,
    now_ms: int,
) -> int:
    """Return how many of the oldest segments are to go; `ends` has the offset at which each one's successor, or the log's end, lies."""
    safe = bisect_right(ends, high_watermark)
    if safe == len(segments) and not segments[-1].size:
        safe -= 1
    count = 0
    while count < safe and ends[count] <= log_start_offset:
        count += 1
    if not config.deletes:
        return count
    if config.retention_bytes >= 0:
        excess = sum(segment.size for segment in segments[count:]) - config.retention_bytes
        while count < safe and excess >= segments[count].size:
            excess -= segments[count].size
            count += 1
    if config.retention_ms >= 0:
        while count < safe and now_ms - _age_from(segments[count]) > config.retention_ms:
            count += 1
    return count


def _age_from(segment: RetainedSegment) -> int:
    timestamp = segment.largest_timestamp
    return segment.modified_ms if timestamp == NO_TIMESTAMP else timestamp
