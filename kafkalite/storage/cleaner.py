"""The log cleaner: finds the dirtiest log, has a pass made over it, swaps the results in, notes how far it came.

Decisions are `compaction`'s and the reading and writing is `cleaning`'s, done elsewhere than on the event loop: in its executor
(`in_executor`) or in a process of its own (`cleaning_process`). On the loop happen the choice, which reads no data, and the
swap of each finished segment: a handful of renames. A log that was deleted, truncated or moved meanwhile is noticed then,
because its segments are not those that were read; the finished files are removed and nothing else happened.

A log whose pass failed for a reason of its own (a wrong CRC, records that cannot be read) is left alone until the next start.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import aclosing
from functools import partial
from typing import Any, Protocol, TypeAlias

from kafkalite.clock import Clock
from kafkalite.config.live import Current
from kafkalite.errors import InvariantBroken
from kafkalite.storage.cleaning import (
    CleanedSegment,
    CleanedUpTo,
    CleaningTask,
    CorruptSegment,
    Progress,
    Step,
    clean,
    discard_cleaned,
)
from kafkalite.storage.compaction import DirtyPart, LastOfProducer, SourceSegment, dirty_part
from kafkalite.storage.disk import Disk
from kafkalite.storage.log_store import LogStore
from kafkalite.storage.partition_log import PartitionLog
from kafkalite.storage.throttle import Throttle
from kafkalite.types import TopicPartition

logger = logging.getLogger(__name__)

_BUFFER_SHARE_OF_READS = 2
"""Half of log.cleaner.io.buffer.size is for what is read, half for what is written."""


class CleanerConfig(Protocol):
    """The broker settings of the cleaner."""

    @property
    def log_cleaner_threads(self) -> int: ...
    @property
    def log_cleaner_dedupe_buffer_size(self) -> int: ...
    @property
    def log_cleaner_io_buffer_size(self) -> int: ...
    @property
    def log_cleaner_io_buffer_load_factor(self) -> float: ...
    @property
    def log_cleaner_backoff_ms(self) -> int: ...
    @property
    def log_cleaner_io_max_bytes_per_second(self) -> float: ...


RunPass: TypeAlias = Callable[[CleaningTask, float], AsyncGenerator[Step, None]]
"""Makes a pass with that many bytes a second; yields at least its cleaned segments and its end. Raises as `clean` does."""


def in_executor(disk: Disk) -> RunPass:
    """Passes made step by step in the executor of the running event loop."""

    async def run(task: CleaningTask, bytes_per_second: float) -> AsyncGenerator[Step, None]:
        loop = asyncio.get_running_loop()
        throttle = Throttle(bytes_per_second, loop.time())
        steps = clean(task, disk)
        try:
            while True:
                future = loop.run_in_executor(None, next, steps, None)
                try:
                    step = await asyncio.shield(future)
                except asyncio.CancelledError:
                    await asyncio.wait([future])
                    raise
                if step is None:
                    return
                if isinstance(step, Progress):
                    await asyncio.sleep(throttle.pause_s(step.bytes, loop.time()))
                else:
                    yield step
        finally:
            steps.close()

    return run


class LogCleaner:
    """See the module. As many workers as log.cleaner.threads make passes at once."""

    def __init__(self, logs: LogStore, config: Current[CleanerConfig], clock: Clock, run_pass: RunPass) -> None:
        self.logs = logs
        self.config = config
        self.clock = clock
        self.run_pass = run_pass
        self.uncleanable: dict[TopicPartition, str] = {}
        """Why logs are left alone, by partition."""
        self._in_progress: set[TopicPartition] = set()
        self._workers: set[int] = set()

    def start_workers(self, start: Callable[[Callable[[], Coroutine[Any, Any, None]], str], object]) -> None:
        """Start those that are missing, again when log.cleaner.threads changed. One too many ends after its pass.

        `start(work, name)` runs a worker, and runs it anew if it fails.
        """
        for number in set(range(self.config.current.log_cleaner_threads)) - self._workers:
            self._workers.add(number)
            start(partial(self._work, number), f"log cleaner {number}")

    async def _work(self, number: int) -> None:
        """Compact logs, with a pause of log.cleaner.backoff.ms when there is nothing to do."""
        while number < self.config.current.log_cleaner_threads:
            if not await self.clean_dirtiest():
                await asyncio.sleep(self.config.current.log_cleaner_backoff_ms / 1000)
        self._workers.discard(number)

    async def clean_dirtiest(self) -> bool:
        """Make a pass over the dirtiest log; False when no log is due, or the pass failed."""
        found = self._dirtiest()
        if found is None:
            return False
        log, part = found
        topic_partition = log.topic_partition
        self._in_progress.add(topic_partition)
        try:
            return await self._clean(log, part)
        except (InvariantBroken, asyncio.CancelledError):
            raise
        except FileNotFoundError as problem:
            if self.logs.get(topic_partition) is log:
                logger.info("%s changed while it was compacted: %s", topic_partition, problem)
        except CorruptSegment as problem:
            self._give_up(log, problem)
        except OSError as problem:
            log.log_directory.failure(problem)
        except Exception as problem:
            self._give_up(log, problem)
        finally:
            self._in_progress.discard(topic_partition)
        return False

    def _give_up(self, log: PartitionLog, problem: Exception) -> None:
        if log.log_directory.offline_reason is None:
            self.uncleanable[log.topic_partition] = str(problem)
            logger.error("%s is not compacted until the next start: %r", log.topic_partition, problem)

    def _dirtiest(self) -> tuple[PartitionLog, DirtyPart] | None:
        dirtiest: tuple[PartitionLog, DirtyPart] | None = None
        for log in self.logs.all_logs():
            topic_partition = log.topic_partition
            if log.config.compacts and topic_partition not in self._in_progress | self.uncleanable.keys():
                try:
                    part = self._dirty_part(log)
                except OSError as problem:
                    log.log_directory.failure(problem)
                    continue
                if part.is_due(log.config) and (dirtiest is None or part.ratio > dirtiest[1].ratio):
                    dirtiest = log, part
        return dirtiest

    def _dirty_part(self, log: PartitionLog) -> DirtyPart:
        return dirty_part(
            list(log.segments),
            config=log.config,
            first_dirty_offset=log.first_dirty_offset,
            log_start_offset=log.log_start_offset,
            log_end_offset=log.log_end_offset,
            last_stable_offset=log.last_stable_offset,
            now_ms=self.clock.now_ms(),
        )

    async def _clean(self, log: PartitionLog, part: DirtyPart) -> bool:
        config = self.config.current
        task = task_for(log, part, config, self.clock.now_ms())
        disk = log.log_directory.disk
        rate = config.log_cleaner_io_max_bytes_per_second / max(1, config.log_cleaner_threads)
        loop = asyncio.get_running_loop()
        async with aclosing(self.run_pass(task, rate)) as steps:
            async for step in steps:
                if isinstance(step, CleanedSegment):
                    if self.logs.get(log.topic_partition) is not log or not log.replace_segments(
                        step, self.clock.now_ms()
                    ):
                        logger.info("%s changed while it was compacted", log.topic_partition)
                        discard_cleaned(disk, task.directory, step)
                        return False
                    await loop.run_in_executor(None, disk.sync, log.directory)
                elif isinstance(step, CleanedUpTo):
                    self._finish(log, part, step)
        return True

    def _finish(self, log: PartitionLog, part: DirtyPart, done: CleanedUpTo) -> None:
        log.first_dirty_offset = min(done.first_dirty_offset, log.log_end_offset)
        self.logs.checkpoint_first_dirty_offsets([log.log_directory])
        logger.info(
            "%s compacted from %d to %d: %d keys, %d of %d records kept, %d bytes read, %d written",
            log.topic_partition,
            part.first_offset,
            done.first_dirty_offset,
            done.keys,
            done.records_kept,
            done.records_read,
            done.bytes_read,
            done.bytes_written,
        )


def task_for(log: PartitionLog, part: DirtyPart, config: CleanerConfig, now_ms: int) -> CleaningTask:
    """What a pass over `log` up to the end of `part` needs to know. Raises OSError, KafkaError KAFKA_STORAGE_ERROR."""
    threads = max(1, config.log_cleaner_threads)
    segments = list(log.segments)
    ends = log.segments.ends(log.log_end_offset)
    sources = tuple(
        SourceSegment(
            segment.base_offset,
            end,
            segment.path,
            segment.size,
            segment.sizes().offset_index,
            segment.sizes().time_index,
            segment.modified_ms,
        )
        for segment, end in zip(segments, ends, strict=True)
        if end <= part.end_offset
    )
    return CleaningTask(
        directory=log.directory,
        segments=sources,
        first_dirty_offset=part.first_offset,
        end_offset=part.end_offset,
        aborted=tuple(log.aborted_transactions(log.segments.first_base_offset, part.end_offset)),
        last_of_producers={
            producer.producer_id: LastOfProducer(
                producer.epoch, producer.last_offset if producer.last_offset >= 0 else None
            )
            for producer in log.producers.producers.values()
        },
        now_ms=now_ms,
        delete_retention_ms=log.config.delete_retention_ms,
        segment_bytes=log.config.segment_bytes,
        segment_index_bytes=log.config.segment_index_bytes,
        index_interval_bytes=log.config.index_interval_bytes,
        key_map_bytes=config.log_cleaner_dedupe_buffer_size // threads,
        key_map_load_factor=config.log_cleaner_io_buffer_load_factor,
        io_buffer_bytes=config.log_cleaner_io_buffer_size // threads // _BUFFER_SHARE_OF_READS,
    )
