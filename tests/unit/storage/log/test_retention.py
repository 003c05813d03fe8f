"""Which segments go, by start offset, size and time; never what is not below the high watermark."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from kafkalite.config.topic import TopicConfig
from kafkalite.storage.log.retention import count_deletable

HOUR_MS = 3_600_000
NOW_MS = 100 * HOUR_MS


class Facts(NamedTuple):
    size: int
    largest_timestamp: int
    modified_ms: int = NOW_MS


def count(segments, *, high_watermark=1000, log_start_offset=0, **settings):
    """Segments of ten offsets each."""
    ends = [10 * (number + 1) for number in range(len(segments))]
    config = TopicConfig(**({"retention_ms": -1} | settings))
    return count_deletable(
        segments,
        ends,
        config=config,
        log_start_offset=log_start_offset,
        high_watermark=high_watermark,
        now_ms=NOW_MS,
    )


THREE = [Facts(100, NOW_MS - 3 * HOUR_MS), Facts(100, NOW_MS - 2 * HOUR_MS), Facts(100, NOW_MS)]


@pytest.mark.parametrize(("start", "gone"), [(0, 0), (9, 0), (10, 1), (29, 2), (30, 3)])
def test_what_lies_below_the_log_start_goes(start, gone):
    assert count(THREE, log_start_offset=start) == gone
    assert count(THREE, log_start_offset=start, cleanup_policy=("compact",), retention_ms=1, retention_bytes=1) == gone


@pytest.mark.parametrize(("limit", "gone"), [(-1, 0), (300, 0), (299, 0), (201, 0), (200, 1), (100, 2), (1, 2), (0, 3)])
def test_by_size(limit, gone):
    assert count(THREE, retention_bytes=limit) == gone


@pytest.mark.parametrize(
    ("limit_ms", "gone"), [(-1, 0), (4 * HOUR_MS, 0), (3 * HOUR_MS, 0), (3 * HOUR_MS - 1, 1), (HOUR_MS, 2), (0, 2)]
)
def test_by_time(limit_ms, gone):
    assert count(THREE, retention_ms=limit_ms) == gone


def test_timestamps_of_the_future_keep_a_segment_and_all_behind_it():
    future = [Facts(1, NOW_MS + HOUR_MS), Facts(1, 0), Facts(1, 0)]
    assert count(future, retention_ms=1) == 0


def test_without_timestamps_the_file_tells_the_age():
    assert count([Facts(1, -1, NOW_MS - 2 * HOUR_MS), Facts(1, -1, NOW_MS)], retention_ms=HOUR_MS) == 1


@pytest.mark.parametrize(("high_watermark", "gone"), [(0, 0), (9, 0), (10, 1), (29, 2), (30, 3)])
def test_nothing_goes_that_is_not_safe_elsewhere(high_watermark, gone):
    assert count(THREE, retention_bytes=0, high_watermark=high_watermark) == gone


def test_an_empty_active_segment_stays():
    assert count([Facts(100, 0), Facts(0, -1, 0)], retention_ms=1, retention_bytes=0) == 1
    assert count([Facts(0, -1, 0)], retention_ms=1, retention_bytes=0) == 0


def test_both_policies_delete_too():
    assert count(THREE, retention_ms=1, cleanup_policy=("compact", "delete")) == 2
