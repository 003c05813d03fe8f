"""The log cleaner: finds the dirtiest log, has a pass made over it, swaps the results in, notes how far it came.

Decisions are `compaction`'s and the reading and writing is `cleaning`'s, done elsewhere than on the event loop: in its executor
(`in_executor`) or in a process of its own (`cleaning_process`). On the loop happen the choice, which reads no data, and the
swap of each finished segment: a handful of renames. A log that was deleted, truncated or moved meanwhile is noticed then,
because its segments are not those that were read; the finished files are removed and nothing else happened.

A pass that was interrupted (its process was killed, there was no memory) says nothing about the log: it is made again, after
log.cleaner.backoff.ms, and after twice as long each time it is interrupted in a row. A log whose pass failed for a reason of its own (a
wrong CRC, records that cannot be read) is set aside until the next start (Kafka's uncleanable partitions). The others go on.
"""

from __future__ import annotations

import asyncio
import errno
import logging
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import aclosing
from functools import partial
from typing import Any, Final, NamedTuple, Protocol, TypeAlias

from kafkalite.clock import Clock
from kafkalite.config.live import Current
from kafkalite.errors import InvariantBroken, KafkaError
from kafkalite.lifecycle import report
from kafkalite.storage.cleaning.cleaning import (
    CleanedSegment,
    CleanedUpTo,
    CleaningTask,
    CorruptSegment,
    PassInterrupted,
    Progress,
    Step,
    clean,
    discard_cleaned,
)
from kafkalite.storage.cleaning.compaction import DirtyPart, LastOfProducer, SourceSegment, dirty_part
from kafkalite.storage.cleaning.throttle import Throttle
from kafkalite.storage.directories.log_store import LogStore
from kafkalite.storage.disk import Disk
from kafkalite.storage.log.partition_log import PartitionLog
from kafkalite.types import TopicPartition

logger = logging.getLogger(__name__)

_BUFFER_SHARE_OF_READS = 2
"""Half of log.cleaner.io.buffer.size is for what is read, half for what is written."""


_LAST_PAUSE_MS: Final = 600_000
_SHORT_OF_RESOURCES: Final = frozenset({errno.ENOMEM, errno.EAGAIN, errno.EMFILE, errno.ENFILE})


class _Interruptions(NamedTuple):
    """Number of passes over a log interrupted in a row, and the time until which the log is left out."""

    times: int
    until_ms: float


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
    """Return a function that makes passes step by step in the executor of the running event loop."""

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
    """Compacts the logs of a store in as many workers as log.cleaner.threads, each with one pass at a time."""

    def __init__(self, logs: LogStore, config: Current[CleanerConfig], clock: Clock, run_pass: RunPass) -> None:
        self.logs = logs
        self.config = config
        self.clock = clock
        self.run_pass = run_pass
        self._set_aside: dict[TopicPartition, tuple[PartitionLog, str]] = {}
        self._interrupted: dict[TopicPartition, _Interruptions] = {}
        self._in_progress: set[TopicPartition] = set()
        self._workers: set[int] = set()

    @property
    def uncleanable(self) -> dict[TopicPartition, str]:
        """Return why logs are set aside, by partition; a log that was deleted meanwhile, and maybe made again, is left out."""
        self._set_aside = {tp: aside for tp, aside in self._set_aside.items() if self.logs.get(tp) is aside[0]}
        return {topic_partition: reason for topic_partition, (_, reason) in self._set_aside.items()}

    def start_workers(self, start: Callable[[Callable[[], Coroutine[Any, Any, None]], str], object]) -> None:
        """Start those that are missing, again when log.cleaner.threads changed. One too many ends after its pass.

        `start(work, name)` runs a worker, and runs it again if it fails.
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
            is_clean = await self._clean(log, part)
            self._interrupted.pop(topic_partition, None)
            return is_clean
        except (InvariantBroken, asyncio.CancelledError):
            raise
        except FileNotFoundError as problem:
            if self.logs.get(topic_partition) is log:
                logger.info("%s changed while it was compacted: %s", topic_partition, problem)
        except (PassInterrupted, MemoryError) as problem:
            self._try_again_later(topic_partition, problem)
        except (CorruptSegment, KafkaError) as problem:
            self._give_up(log, problem)
        except OSError as problem:
            if problem.errno in _SHORT_OF_RESOURCES:  # before the log was touched: no process could be made
                self._try_again_later(topic_partition, problem)
            else:
                log.log_directory.failure(problem)
        except Exception as problem:
            report(f"compacting {topic_partition} failed", problem)
            self._give_up(log, problem)
        finally:
            self._in_progress.discard(topic_partition)
        return False

    def _try_again_later(self, topic_partition: TopicPartition, problem: Exception) -> None:
        """Leave the log out for a while, because the pass was interrupted; the log is as good as before."""
        times = self._interrupted[topic_partition].times + 1 if topic_partition in self._interrupted else 1
        pause_ms = min(_LAST_PAUSE_MS, self.config.current.log_cleaner_backoff_ms << min(times - 1, 16))
        self._interrupted[topic_partition] = _Interruptions(times, self.clock.monotonic_ms() + pause_ms)
        logger.warning("compacting %s was interrupted: %r; again in %d s", topic_partition, problem, pause_ms // 1000)

    def _is_left_out(self, topic_partition: TopicPartition, now_ms: float) -> bool:
        interrupted = self._interrupted.get(topic_partition)
        return topic_partition in self._in_progress or (interrupted is not None and interrupted.until_ms > now_ms)

    def _give_up(self, log: PartitionLog, problem: Exception) -> None:
        if log.log_directory.offline_reason is None:
            self._set_aside[log.topic_partition] = log, str(problem) or repr(problem)
            logger.error("%s is not compacted until the next start: %r", log.topic_partition, problem)

    def _dirtiest(self) -> tuple[PartitionLog, DirtyPart] | None:
        dirtiest: tuple[PartitionLog, DirtyPart] | None = None
        uncleanable, now_ms = self.uncleanable, self.clock.monotonic_ms()
        for log in self.logs.upkeep.find_dirty():
            topic_partition = log.topic_partition
            if topic_partition not in uncleanable and not self._is_left_out(topic_partition, now_ms):
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
        log.note_change()
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
    """Return the task of a pass over `log` up to the end of `part`. Raises OSError, KafkaError KAFKA_STORAGE_ERROR."""
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
