"""Passes of the log cleaner in one line, without an event loop."""

from __future__ import annotations

from dataclasses import dataclass

from kafkalite.storage.cleaning.cleaning import CleanedSegment, CleanedUpTo, clean
from kafkalite.storage.cleaning.compaction import DirtyPart, dirty_part
from kafkalite.storage.directories.cleaner import task_for
from kafkalite.storage.log.partition_log import PartitionLog
from tests.unit.storage.logs import NOW_MS


@dataclass
class Settings:
    """log.cleaner.*"""

    log_cleaner_threads: int = 1
    log_cleaner_dedupe_buffer_size: int = 1 << 20
    log_cleaner_io_buffer_size: int = 8192
    log_cleaner_io_buffer_load_factor: float = 0.9
    log_cleaner_backoff_ms: int = 15_000
    log_cleaner_io_max_bytes_per_second: float = 1e18


def part_of(log: PartitionLog, now_ms: int = NOW_MS) -> DirtyPart:
    return dirty_part(
        list(log.segments),
        config=log.config,
        first_dirty_offset=log.first_dirty_offset,
        log_start_offset=log.log_start_offset,
        log_end_offset=log.log_end_offset,
        last_stable_offset=log.last_stable_offset,
        now_ms=now_ms,
    )


def compact(log: PartitionLog, now_ms: int = NOW_MS, **settings: int | float) -> CleanedUpTo:
    """One pass over everything that may be compacted, swapped in."""
    task = task_for(log, part_of(log, now_ms), Settings(**settings), now_ms)
    for step in clean(task, log.log_directory.disk):
        if isinstance(step, CleanedSegment):
            assert log.replace_segments(step, now_ms)
        elif isinstance(step, CleanedUpTo):
            log.first_dirty_offset = step.first_dirty_offset
            return step
    raise AssertionError("a pass without an end")
