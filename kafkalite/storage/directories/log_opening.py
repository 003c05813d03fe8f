"""Opening all logs of a directory when the broker starts: several threads, a line of progress every few seconds.

Each directory has num.recovery.threads.per.data.dir threads, which take the next log from one queue. A log whose summary
counts (`log_summary`) is not read. After a clean stop another one takes a few reads. After a crash what lies behind its
recovery point is read and checked, which takes as long as the medium needs for it.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Final, NamedTuple

from kafkalite.config.topic import TopicConfig
from kafkalite.storage import checkpoints
from kafkalite.storage.directories.log_summaries import LogSummaries, fingerprint_of
from kafkalite.storage.disk import FileVersion
from kafkalite.storage.log.log_summary import decode_summary, open_summarized, tells_later_changes
from kafkalite.storage.log.partition_log import PartitionLog
from kafkalite.storage.log.recovery import LoadOptions, LoadProgress, load_log
from kafkalite.storage.log_directory import LogDirectory
from kafkalite.storage.open_files import OpenFiles
from kafkalite.types import TopicPartition

logger = logging.getLogger(__name__)

_PROGRESS_S: Final = 5.0
_MB: Final = 1_000_000


class _WaitingLog(NamedTuple):
    """A log to be opened; `summary` as in the file of summaries, and the version of its directory."""

    topic_partition: TopicPartition
    path: str
    options: LoadOptions
    first_dirty_offset: int | None
    summary: str | None
    version: FileVersion


@dataclass(slots=True)
class DirectoryOpening:
    """Opens the logs of one directory; `high_watermarks`, `to_delete` and `is_clean` are known once `run` is over."""

    directory: LogDirectory
    summaries: LogSummaries
    configs: Mapping[str, TopicConfig]
    default_config: TopicConfig
    rng: Random
    now_ms: int
    producer_expiration_ms: int
    high_watermarks: dict[TopicPartition, int] = field(default_factory=dict)
    to_delete: list[str] = field(default_factory=list)
    is_clean: bool = False
    """True if the directory was left in good order."""
    total: int = 0
    _waiting: deque[_WaitingLog] = field(default_factory=deque)
    _progress: list[LoadProgress] = field(default_factory=list)

    @property
    def opened(self) -> int:
        return sum(each.logs for each in self._progress)

    @property
    def checked_bytes(self) -> int:
        return sum(each.checked_bytes for each in self._progress)

    async def run(self, threads: int) -> list[PartitionLog]:
        """Open all logs in the executor. Raises OSError, WrongDirectory."""
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(None, self._scan)
        self._progress = [LoadProgress() for _ in range(min(threads, max(1, self.total)))]
        loads = [loop.run_in_executor(None, self._open_next, progress) for progress in self._progress]
        opened = await asyncio.gather(*loads, return_exceptions=True)
        for result in opened:
            if isinstance(result, BaseException):
                raise result
        logs = [log for each in opened if not isinstance(each, BaseException) for log in each]
        await loop.run_in_executor(None, self.summaries.write_at_start, logs)
        return logs

    def _scan(self) -> None:
        """List the logs that are there, and read the checkpoints."""
        directory = self.directory
        marker = directory.clean_marker_id()
        clean = self.is_clean = directory.consume_clean_marker()
        found = directory.scan()
        live, self.to_delete = found.live, found.to_delete
        recovery_points = directory.read_offsets(checkpoints.RECOVERY_POINT)
        log_starts = directory.read_offsets(checkpoints.LOG_START)
        first_dirty = directory.read_offsets(checkpoints.CLEANER)
        self.high_watermarks = directory.read_offsets(checkpoints.HIGH_WATERMARK)
        self.total = len(live) + len(found.future)
        summaries = self.summaries.read(marker)
        if live and not clean:
            logger.info("%s was not left in good order: checking %d logs", directory.path, len(live))
        for topic_partition, path in (*live.items(), *found.future.items()):
            options = LoadOptions(
                clean,
                recovery_points.get(topic_partition, 0),
                log_starts.get(topic_partition, 0),
                self.now_ms,
                self.producer_expiration_ms,
            )
            summary = summaries.get(path[path.rfind(os.sep) + 1 :])
            version, dirty = found.versions[path], first_dirty.get(topic_partition)
            self._waiting.append(_WaitingLog(topic_partition, path, options, dirty, summary, version))

    def _open_next(self, progress: LoadProgress) -> list[PartitionLog]:
        """Open logs in this thread until none waits, or one failed, after which the directory is of no use."""
        directory = self.directory
        files = OpenFiles(directory.disk, directory.files.limit)
        logs = []
        try:
            while self._waiting:
                try:
                    waiting = self._waiting.popleft()
                except IndexError:
                    break
                log = self._open_summarized(waiting)
                if log is None:
                    log = self._load(waiting, files, progress)
                else:
                    progress.logs += 1
                log.set_high_watermark(self.high_watermarks.get(waiting.topic_partition, 0))
                log.first_dirty_offset = waiting.first_dirty_offset
                logs.append(log)
        except BaseException:
            self._waiting.clear()
            raise
        finally:
            files.close()
        return logs

    def _open_summarized(self, waiting: _WaitingLog) -> PartitionLog | None:
        """Open a log without reading it, if it has not changed since it was summarized."""
        if waiting.summary is None or (summary := decode_summary(waiting.summary)) is None:
            return None
        log = open_summarized(
            waiting.topic_partition,
            self.directory,
            waiting.path,
            summary,
            directory=waiting.version,
            config=self._config_of(waiting.topic_partition),
            rng=self.rng,
            options=waiting.options,
        )
        if log is not None and tells_later_changes(summary, self.now_ms):
            log.summarized_as = fingerprint_of(log)
        return log

    def _load(self, waiting: _WaitingLog, files: OpenFiles, progress: LoadProgress) -> PartitionLog:
        return load_log(
            waiting.topic_partition,
            self.directory,
            waiting.path,
            config=self._config_of(waiting.topic_partition),
            rng=self.rng,
            options=waiting.options,
            files=files,
            progress=progress,
        )

    def _config_of(self, topic_partition: TopicPartition) -> TopicConfig:
        return self.configs.get(topic_partition.topic, self.default_config)


async def open_all(
    openings: Sequence[DirectoryOpening], threads_per_directory: int
) -> list[list[PartitionLog] | BaseException]:
    """Return the logs of each directory, or why it cannot be used, and log the progress meanwhile."""
    loop = asyncio.get_running_loop()
    tasks = [loop.create_task(opening.run(threads_per_directory)) for opening in openings]
    waiting: set[asyncio.Task[list[PartitionLog]]] = set(tasks)
    began_s = loop.time()
    while waiting:
        _, waiting = await asyncio.wait(waiting, timeout=_PROGRESS_S)
        if waiting:
            logger.info(
                "opening logs: %d of %d done after %.0f s, %d MB checked",
                sum(opening.opened for opening in openings),
                sum(opening.total for opening in openings),
                loop.time() - began_s,
                sum(opening.checked_bytes for opening in openings) // _MB,
            )
    return list(await asyncio.gather(*tasks, return_exceptions=True))
