"""What logs leave to be done later: flushes of sealed segments, after flush.ms and of truncations, removal of former files, summaries.

A broker may have ten thousand logs of which none has anything to do, so nothing here looks at all of them. A log that changes, in whatever
way, notes itself with its directory (`changes_disk`), once until it is looked at. Each job looks at those first, and enters a log where it
has, or will have, something to do. A job that failed for lack of room has changed its log, too, and is tried again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Final, cast

from kafkalite.clock import Clock
from kafkalite.errors import KafkaError
from kafkalite.portions import Portions, Work, in_one_go
from kafkalite.storage.cleaning.compaction import has_dirty_segments
from kafkalite.storage.directories.directory_checkpoints import DirectoryCheckpoints
from kafkalite.storage.directories.directory_summaries import DirectorySummaries
from kafkalite.storage.log.flush_work import FlushWork
from kafkalite.storage.log.partition_log import PartitionLog
from kafkalite.storage.log_directory import LogDirectory
from kafkalite.timer_queue import TimerQueue
from kafkalite.types import TopicPartition

logger = logging.getLogger(__name__)

_FAR_MS: Final = 1 << 60
"""Later than any time of day: what is due then is never due."""


def _set_due(timers: TimerQueue[PartitionLog], log: PartitionLog, due_ms: int | None) -> None:
    """Let the log be due then and at no other time; None: not at all."""
    if due_ms is None or due_ms > _FAR_MS:
        timers.cancel(log)
    else:
        timers.set(log, due_ms)


class LogUpkeep:
    """The jobs of the logs in `directories`; `get_log` and `get_copy` return the current and the future log of a partition."""

    def __init__(
        self,
        directories: Mapping[LogDirectory, DirectoryCheckpoints],
        get_log: Callable[[TopicPartition], PartitionLog | None],
        get_copy: Callable[[TopicPartition], PartitionLog | None],
        summaries: DirectorySummaries,
        clock: Clock,
        portions: Portions,
    ) -> None:
        self._directories = directories
        self._get_log, self._get_copy = get_log, get_copy
        self._summaries = summaries
        self._clock = clock
        self._portions = portions
        self._unflushed: dict[PartitionLog, None] = {}
        """Logs with sealed segments that are not on the medium."""
        self._flushes: TimerQueue[PartitionLog] = TimerQueue()
        self._removals: TimerQueue[PartitionLog] = TimerQueue()
        self._changed: dict[PartitionLog, None] = {}
        """Logs that changed since they were last summarized."""
        self._dirty: dict[PartitionLog, None] = {}
        """Logs to compact that have sealed segments behind their first dirty offset."""

    async def look_at_opened(self) -> None:
        """Look at the logs that a start opened, of which most are as they were summarized."""
        await self.look_in_portions()
        self._changed = {log: None for log in self._changed if log.summarized_as is None}

    async def flush_sealed(self) -> None:
        """Bring what lies in sealed segments to the medium, in the executor."""
        await self.look_in_portions()
        self._unflushed = {
            log: None for log in self._unflushed if _has_unflushed_segments(log) and self._is_current(log)
        }
        await self._flush(list(self._unflushed))

    async def flush_overdue(self, now_ms: int) -> None:
        """Flush the logs whose flush.ms is over, and those that were truncated."""
        await self.look_in_portions()
        due = [log for log in self._flushes.pop_due(now_ms) if self._is_current(log)]
        for log in due:
            log.note_change()  # it is due until it is flushed
        await self._flush(due)

    async def remove_files(self, now_ms: int) -> None:
        """Remove the files of former segments whose file.delete.delay.ms is over."""
        await self.look_in_portions()
        for log in self._removals.pop_due(now_ms):
            if self._is_current(log):
                log.summarized_as = None  # until now the directory had more files than a summary tells
                log.note_change()
                try:
                    log.local.delete_due_files(now_ms)
                except KafkaError as problem:
                    logger.warning("%s: %s", log.topic_partition, problem)

    async def summarize_changed(self) -> None:
        """Summarize the logs that changed and were then left alone, see `DirectorySummaries`."""
        await self.look_in_portions()
        changed, self._changed = self._changed, {}
        await self._summaries.summarize_changed(changed, self._is_current)

    def find_dirty(self) -> list[PartitionLog]:
        """Return the logs of which compaction may have something to read."""
        self.look_at_changed()
        self._dirty = {log: None for log in self._dirty if self._is_current(log)}
        return list(self._dirty)

    def _is_current(self, log: PartitionLog) -> bool:
        return self._get_log(log.topic_partition) is log

    def look_at_changed(self) -> None:
        """Look at the logs that changed since this was last done, before what has to know them all at once."""
        in_one_go(self._look_at_changed(self._clock.now_ms()))

    async def look_in_portions(self) -> None:
        """Do what `look_at_changed` does before a job. A new controller may change a hundred thousand logs in a second."""
        await self._portions.finish(self._look_at_changed(self._clock.now_ms()))

    def _is_copy(self, log: PartitionLog) -> bool:
        return self._get_copy(log.topic_partition) is log

    def _look_at_changed(self, now_ms: int) -> Work[None]:
        """Enter the current logs that changed where they have something to do; a copy that takes over is opened, and notes itself then."""
        for directory, checkpoints in self._directories.items():
            while (noted := directory.take_changed()) is not None:
                log = cast(PartitionLog, noted)
                is_current = self._is_current(log)
                checkpoints.note_changed(log, is_here=is_current or self._is_copy(log))
                if is_current:
                    self._changed[log] = None
                    _set_due(self._flushes, log, log.flush_due_ms(now_ms))
                    if _has_unflushed_segments(log):
                        self._unflushed[log] = None
                    _set_due(self._removals, log, log.local.removal_due_ms)
                    if log.config.compacts and has_dirty_segments(log):
                        self._dirty[log] = None
                    else:
                        self._dirty.pop(log, None)
                yield

    async def _flush(self, logs: Iterable[PartitionLog]) -> None:
        loop = asyncio.get_running_loop()
        for log in logs:
            work: FlushWork | None = None
            try:
                work = log.flush_work()
                if work is not None:
                    await loop.run_in_executor(None, work.run)
                    log.mark_flushed(work)
            except OSError as problem:
                log.log_directory.failure(problem)


def _has_unflushed_segments(log: PartitionLog) -> bool:
    """True if records in sealed segments are not on the medium."""
    return log.recovery_point < log.segments.active.base_offset
