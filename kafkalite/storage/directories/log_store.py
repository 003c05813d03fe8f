"""All logs of a broker, in all its log directories: opening, creating, deleting, checkpointing and closing them.

A directory that fails is left out from then on and its partitions are offline; the others go on. Blocking work that takes
long (opening, closing, flushing) runs in the event loop's executor, one task for each directory.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Iterable, Mapping
from random import Random
from typing import Final, Protocol

from kafkalite.clock import Clock
from kafkalite.config.live import Current
from kafkalite.config.topic import TopicConfig
from kafkalite.errors import ErrorCode, KafkaError
from kafkalite.portions import Portions
from kafkalite.storage import checkpoints
from kafkalite.storage.directories.directory_checkpoints import CHECKPOINTS, DirectoryCheckpoints, write_in_threads
from kafkalite.storage.directories.directory_summaries import DirectorySummaries
from kafkalite.storage.directories.future_logs import FutureLogs
from kafkalite.storage.directories.log_closing import DirectoryClosing
from kafkalite.storage.directories.log_opening import DirectoryOpening, open_all
from kafkalite.storage.directories.log_upkeep import LogUpkeep
from kafkalite.storage.directories.log_walks import attempt, delete_old_segments, expire_producers
from kafkalite.storage.directories.upkeep_pause import UpkeepPause
from kafkalite.storage.disk import Disk
from kafkalite.storage.log.partition_log import PartitionLog
from kafkalite.storage.log.recovery import create_log
from kafkalite.storage.log_directory import LogDirectory
from kafkalite.storage.log_files import DELETE_DIRECTORY, FUTURE_DIRECTORY, suffixed_directory
from kafkalite.storage.meta_properties import WrongDirectory
from kafkalite.storage.open_files import FEWEST
from kafkalite.types import NO_TOPIC_ID, TopicPartition

logger = logging.getLogger(__name__)

OPEN_FILES_LIMIT: Final = 4096
"""Bound of open files, shared by all directories, and never more than half of what the process may open: the rest is for connections.

To open a file again takes as long as half an append, so there is room for thousands of partitions that are written by turns.
"""


class StorageConfig(Protocol):
    """The broker settings that storage reads."""

    @property
    def log_dirs(self) -> Iterable[str]: ...

    @property
    def topic_defaults(self) -> TopicConfig: ...

    @property
    def producer_id_expiration_ms(self) -> int: ...

    @property
    def num_recovery_threads_per_data_dir(self) -> int: ...

    @property
    def log_deletion_max_segments_per_run(self) -> int: ...


class LogStore:
    """The logs of a broker by partition; it is opened before anything else."""

    def __init__(
        self,
        config: Current[StorageConfig],
        disk: Disk,
        clock: Clock,
        rng: Random,
    ) -> None:
        self.config = config
        self.clock = clock
        self.rng = rng
        paths = [os.path.abspath(path) for path in config.current.log_dirs]
        files_max = min(OPEN_FILES_LIMIT, disk.files_max() // 2)
        self.directories = [LogDirectory(disk, path, max(FEWEST, files_max // len(paths))) for path in paths]
        self.on_directory_failure: Callable[[LogDirectory], None] = lambda directory: None
        for directory in self.directories:
            directory.on_failure = self._handle_directory_failure
        self._disk = disk
        self._logs: dict[TopicPartition, PartitionLog] = {}
        self.lost_nothing = False
        """True if all directories were left in good order, so that every record that was here before the start is here now."""
        self.future = FutureLogs(self)
        self._closings: list[DirectoryClosing] | None = None
        """Closings in progress, once `close` was called."""
        self.preferred_directories: dict[TopicPartition, LogDirectory] = {}
        """Directories for logs that do not exist yet (AlterReplicaLogDirs)."""
        self.offline_partitions: dict[TopicPartition, None] = {}
        """Partitions whose log is known to lie in a directory that failed."""
        self._to_delete: list[tuple[int, LogDirectory, str]] = []
        self._has_deleted = False
        """True if logs were deleted that may still be in the checkpoints."""
        self._without_files: dict[TopicPartition, PartitionLog] = {}
        self.upkeep_pause = UpkeepPause(clock)
        self._summaries = DirectorySummaries(clock, self.upkeep_pause)
        self._checkpoints = {each: DirectoryCheckpoints(each) for each in self.directories}
        self._portions = Portions()
        get_log, get_copy = self._logs.get, self.future.logs.get
        self.upkeep = LogUpkeep(self._checkpoints, get_log, get_copy, self._summaries, clock, self._portions)

    # Facts

    def get(self, topic_partition: TopicPartition) -> PartitionLog | None:
        return self._logs.get(topic_partition)

    def all_logs(self) -> list[PartitionLog]:
        """Return the logs on working directories."""
        return list(self._logs.values())

    @property
    def online_directories(self) -> list[LogDirectory]:
        return [each for each in self.directories if each.offline_reason is None]

    @property
    def producer_id_expiration_ms(self) -> int:
        """Return producer.id.expiration.ms, as it is now."""
        return self.config.current.producer_id_expiration_ms

    @property
    def offline_directories(self) -> list[LogDirectory]:
        return [each for each in self.directories if each.offline_reason is not None]

    def is_offline(self, topic_partition: TopicPartition) -> bool:
        """True if the partition's log is known to lie in a directory that failed."""
        return topic_partition in self.offline_partitions

    # Opening

    def acquire(self) -> None:
        """Make and lock the directories, so that their `identity` can be read and claimed before any log is opened.

        Raises WrongDirectory when another process has one of them, KafkaError KAFKA_STORAGE_ERROR when none works.
        """
        for directory in self.directories:
            try:
                directory.open()
            except OSError as problem:
                directory.take_offline(problem)
            except WrongDirectory:
                self._release()
                raise
        self._require_a_directory()

    def _require_a_directory(self) -> None:
        if not self.online_directories:
            self._release()
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "none of the directories in log.dirs works")

    async def open(self, topic_configs: Mapping[str, TopicConfig] | None = None) -> None:
        """Open every log in the directories, `acquire` first if need be; those of `topic_configs` with the settings given there.

        Raises WrongDirectory when a directory belongs to another process or holds what is no log, or when a partition lies
        in two directories; KafkaError KAFKA_STORAGE_ERROR when no directory works.
        """
        if not any(directory.is_locked for directory in self.directories):
            self.acquire()
        config, now_ms = self.config.current, self.clock.now_ms()
        openings = [
            DirectoryOpening(
                directory,
                self._summaries.of(directory),
                dict(topic_configs or {}),
                config.topic_defaults,
                self.rng,
                now_ms,
                config.producer_id_expiration_ms,
            )
            for directory in self.online_directories
        ]
        results = await open_all(openings, config.num_recovery_threads_per_data_dir)
        for opening, result in zip(openings, results, strict=True):
            if isinstance(result, OSError):
                opening.directory.take_offline(result)
            elif isinstance(result, BaseException):
                self._release()
                raise result
            else:
                self._to_delete += [(now_ms, opening.directory, path) for path in opening.to_delete]
                self._add_opened(result)
        self.lost_nothing = not self.offline_directories and all(opening.is_clean for opening in openings)
        self._require_a_directory()
        for future in list(self.future.logs.values()):
            self.future.add(future)  # the current log may have been opened later
        self.future.finish_interrupted()
        await self.upkeep.look_at_opened()
        await self.purge_deleted(now_ms)

    def _add_opened(self, logs: Iterable[PartitionLog]) -> None:
        for log in logs:
            if log.directory.endswith(FUTURE_DIRECTORY):
                self.future.add(log)
                continue
            other = self._logs.get(log.topic_partition)
            if other is not None:
                self._release()
                raise WrongDirectory(f"{log.topic_partition} lies both in {other.directory} and in {log.directory}")
            self.put(log)
            if not log.has_files:
                self._without_files[log.topic_partition] = log

    def _release(self) -> None:
        for directory in self.directories:
            directory.close()

    # Creating and deleting

    def create(
        self, topic_partition: TopicPartition, topic_id: bytes = NO_TOPIC_ID, config: TopicConfig | None = None
    ) -> PartitionLog:
        """Return the log of a partition; one that does not exist is made on the working directory with the fewest logs.

        Raises KafkaError KAFKA_STORAGE_ERROR; INCONSISTENT_TOPIC_ID when it exists and belongs to another topic id.
        """
        config = config if config is not None else self.config.current.topic_defaults
        known = self._logs.get(topic_partition)
        if known is not None:
            known.config = config
            if topic_id != NO_TOPIC_ID:
                known.set_topic_id(topic_id)
            return known
        if topic_partition in self.offline_partitions:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"{topic_partition} lies on a directory that failed")
        for directory in self._directories_for(topic_partition):
            try:
                log = create_log(
                    topic_partition,
                    directory,
                    directory.file(str(topic_partition)),
                    topic_id=topic_id,
                    config=config,
                    rng=self.rng,
                    now_ms=self.clock.now_ms(),
                )
            except OSError as problem:
                directory.failure(problem)
                continue
            self.put(log)
            self._without_files[topic_partition] = log
            return log
        raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"no directory takes a log for {topic_partition}")

    def make_files(self) -> bool:
        """Make the other files of the new log that has waited longest for them; False when none does.

        To make a file takes a tenth of a millisecond and more, and a log has five; it is made with that of its records.
        """
        while self._without_files:
            topic_partition = next(iter(self._without_files))
            log = self._without_files.pop(topic_partition)
            if self._is_current(log):
                attempt(log, log.make_files)
                return True
        self._without_files.clear()  # a dict that is emptied key by key keeps its memory
        return False

    def leave_files_to_close(self) -> None:
        """Make no other files of new logs one by one any more; the flush that closes a log makes those that are missing."""
        self._without_files.clear()

    def _directories_for(self, topic_partition: TopicPartition) -> list[LogDirectory]:
        """Return the working directories, the preferred one and those with the fewest logs first."""
        preferred = self.preferred_directories.pop(topic_partition, None)
        directories = self.online_directories
        if len(directories) > 1:
            directories.sort(key=lambda each: (each is not preferred, each.logs))
        return directories

    def delete(self, topic_partition: TopicPartition) -> None:
        """Delete a log: its directory is renamed now and removed by `purge_deleted`. Raises KafkaError KAFKA_STORAGE_ERROR.

        `checkpoint_deletions` is to follow, before a log of that name may be made again.
        """
        log = self._logs.get(topic_partition)
        if log is None:
            return
        self.future.remove(topic_partition)
        self.delete_directory(log)
        self._remove(topic_partition)
        self._has_deleted = True

    def checkpoint_deletions(self) -> None:
        """Take the logs that were deleted out of the checkpoints, whose offsets would be taken for those of their successors.

        A successor would begin at the log start offset of its predecessor when it is opened after a kill: what was acknowledged before that
        offset would be lost. A log may have lines in each directory in which it, or a copy of it, has lain since the last checkpoint.
        """
        has_deleted, self._has_deleted = self._has_deleted, False
        for each in CHECKPOINTS if has_deleted else ():
            self._checkpoint(each.name)

    def delete_directory(self, log: PartitionLog) -> None:
        """Rename the directory of a log, and queue it for deletion. Raises KafkaError KAFKA_STORAGE_ERROR."""
        directory = log.log_directory
        directory.require_online()
        name = suffixed_directory(log.topic_partition, f"{self.rng.getrandbits(128):032x}", DELETE_DIRECTORY)
        log.local.close_files()
        try:
            self._disk.rename(log.directory, directory.file(name))
        except OSError as problem:
            raise directory.failure(problem) from problem
        self._to_delete.append((self.clock.now_ms() + log.config.file_delete_delay_ms, directory, directory.file(name)))

    def put(self, log: PartitionLog) -> None:
        """Make `log` the current log of its partition."""
        former = self._logs.get(log.topic_partition)
        if former is not None:
            former.log_directory.logs -= 1
            former.note_change()
        self._logs[log.topic_partition] = log
        log.log_directory.logs += 1

    def _remove(self, topic_partition: TopicPartition) -> None:
        log = self._logs.pop(topic_partition)
        log.log_directory.logs -= 1
        log.note_change()

    def directory_at(self, path: str) -> LogDirectory:
        """Return the directory of log.dirs at `path`. Raises KafkaError LOG_DIR_NOT_FOUND."""
        for directory in self.directories:
            if directory.path == os.path.abspath(path):
                return directory
        raise KafkaError(ErrorCode.LOG_DIR_NOT_FOUND, f"{path} is not in log.dirs")

    async def purge_deleted(self, now_ms: int) -> None:
        """Remove the directories of deleted logs and the files of old segments whose file.delete.delay.ms is over.

        The directories in the executor, one after the other: there may be thousands, of some files each.
        """
        due = [each for each in self._to_delete if each[0] <= now_ms]
        self._to_delete = [each for each in self._to_delete if each[0] > now_ms]
        for _, directory, path in due:
            if directory.offline_reason is None:
                try:
                    await asyncio.get_running_loop().run_in_executor(None, self._disk.remove_tree, path)
                except OSError as problem:
                    directory.failure(problem)
        await self.upkeep.remove_files(now_ms)

    # Upkeep

    async def delete_old_segments(self, now_ms: int) -> int:
        """Apply retention to every log, up to log.deletion.max.segments.per.run; returns how many segments went."""
        most = self.config.current.log_deletion_max_segments_per_run
        return await self._portions.finish(delete_old_segments(self.all_logs(), self._is_current, now_ms, most))

    async def expire_producers(self, now_ms: int) -> None:
        """Forget producers that were silent for longer than producer.id.expiration.ms."""
        await self._portions.finish(expire_producers(self.all_logs(), now_ms, self.producer_id_expiration_ms))

    async def flush_sealed(self) -> None:
        """Bring what lies in sealed segments to the medium, in the executor; call it about every second."""
        await self.upkeep.flush_sealed()

    async def flush_overdue(self, now_ms: int) -> None:
        """Flush the logs whose flush.ms is over or that were truncated; call it about every second."""
        await self.upkeep.flush_overdue(now_ms)

    def _is_current(self, log: PartitionLog) -> bool:
        return self._logs.get(log.topic_partition) is log

    # Checkpoints

    def checkpoint_recovery_points(self, directories: Iterable[LogDirectory] | None = None) -> None:
        """Write up to where each log is on the medium."""
        self._checkpoint(checkpoints.RECOVERY_POINT, directories)

    def checkpoint_log_start_offsets(self) -> None:
        """Write where the logs start that start later than their first segment."""
        self._checkpoint(checkpoints.LOG_START)

    def note_log_starts(self, logs: Iterable[PartitionLog]) -> None:
        """Write where these logs start now, so that a kill of this process does not undo it; durable with the next checkpoint."""
        self._checkpoint(checkpoints.LOG_START, dict.fromkeys(log.log_directory for log in logs), durable=False)

    def checkpoint_first_dirty_offsets(self, directories: Iterable[LogDirectory]) -> None:
        """Write where compaction goes on in the logs that were compacted."""
        self._checkpoint(checkpoints.CLEANER, directories)

    def checkpoint_high_watermarks(self) -> None:
        """Write the high watermarks; of logs that nobody spoke of since the start the old one is kept."""
        self._checkpoint(checkpoints.HIGH_WATERMARK)

    async def save_checkpoint_later(self, name: str) -> None:
        """Do what `save_checkpoint` does once no roles of many replicas change."""
        await self.upkeep_pause.wait()
        await self.save_checkpoint(name)

    async def save_checkpoint(self, name: str) -> None:
        """Write a checkpoint where something changed: lines are made in portions, and the event loop does not wait for the medium."""
        await self.upkeep.look_in_portions()
        for directory in self.online_directories:
            await self._portions.finish(self._checkpoints[directory].refresh(name))
        self.upkeep.look_at_changed()
        await write_in_threads([self._checkpoints[each] for each in self.online_directories], name)

    def _checkpoint(
        self, name: str, directories: Iterable[LogDirectory] | None = None, *, durable: bool = True
    ) -> None:
        """Write a checkpoint where something changed; not in a directory that failed, whose logs are not known any more."""
        self.upkeep.look_at_changed()
        for directory in self.directories if directories is None else directories:
            if directory.offline_reason is None:
                try:
                    self._checkpoints[directory].write(name, durable=durable)
                except OSError as problem:
                    self._checkpoints[directory].report_failure(problem)

    async def summarize_changed(self) -> None:
        """Summarize logs that changed and were left alone; call it every log.flush.offset.checkpoint.interval.ms."""
        await self.upkeep.summarize_changed()

    # Closing

    async def close(self, *, may_mark: bool = True) -> None:
        """Flush and close every log, write the checkpoints, and, if it `may_mark` them, mark directories as left in good order."""
        logs = (*self.all_logs(), *self.future.logs.values())
        self.leave_files_to_close()
        self._closings = [
            DirectoryClosing(directory, [log for log in logs if log.log_directory is directory], self._portions)
            for directory in self.online_directories
        ]
        await asyncio.gather(*(closing.run() for closing in self._closings))
        for name in (checkpoints.RECOVERY_POINT, checkpoints.LOG_START, checkpoints.HIGH_WATERMARK):
            await self.save_checkpoint(name)
        for closing in self._closings:
            if may_mark and closing.in_good_order and closing.directory.offline_reason is None:
                try:
                    closing.directory.write_clean_marker()
                    marker = closing.directory.clean_marker_id()
                except OSError as problem:
                    closing.directory.failure(problem)
                else:
                    of_directory = [log for log in logs if log.log_directory is closing.directory]
                    await self._summaries.write_at_stop(closing.directory, of_directory, marker)
        self._release()

    @property
    def left_to_close(self) -> int:
        """Return how many logs `close` has not closed yet."""
        if self._closings is None:
            return len(self._logs) + len(self.future.logs)
        return sum(closing.left for closing in self._closings)

    def _handle_directory_failure(self, directory: LogDirectory) -> None:
        gone = [tp for tp, log in self._logs.items() if log.log_directory is directory]
        for topic_partition in gone:
            self._remove(topic_partition)
        self.offline_partitions.update(dict.fromkeys(gone))
        self._summaries.of(directory).discard()
        self.future.forget(directory)
        self.on_directory_failure(directory)
