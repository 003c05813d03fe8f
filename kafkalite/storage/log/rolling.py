"""Rules for beginning a new segment, as Kafka's `LogSegment.shouldRoll`: by size, age, full indexes and offsets out of reach."""

from __future__ import annotations

from collections.abc import Sequence

from kafkalite.config.topic import TopicConfig
from kafkalite.protocol.record_batches.records import BatchHeader
from kafkalite.storage.segments.segment import RELATIVE_OFFSET_LIMIT, Segment


def can_append(active: Segment, headers: Sequence[BatchHeader], size: int, config: TopicConfig, now_ms: int) -> bool:
    """True if the active segment may take these batches of `size` bytes; an empty one takes what its relative offsets can express."""
    if headers[-1].last_offset - active.base_offset > RELATIVE_OFFSET_LIMIT:
        return False
    return not active.size or (
        active.size + size <= config.segment_bytes
        and not _is_over_age(active, config, max([header.max_timestamp for header in headers]), now_ms)
        and active.has_index_room(config.segment_index_bytes)
    )


def _is_over_age(segment: Segment, config: TopicConfig, max_timestamp: int, now_ms: int) -> bool:
    limit_ms = min(config.segment_ms, config.max_compaction_lag_ms) if config.compacts else config.segment_ms
    first = segment.first_timestamp
    age_ms = max_timestamp - first if first is not None and first >= 0 else now_ms - segment.created_ms
    return age_ms > limit_ms - segment.roll_jitter_ms
