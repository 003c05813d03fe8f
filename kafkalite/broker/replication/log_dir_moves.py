"""Moves of logs between the directories of this broker (KIP-113): copy, catch up, take the place of the old log.

One task for each partition that moves. It reads the current log like a follower, without waiting for the medium on the event loop,
and appends to the copy, at most replica.alter.log.dirs.io.max.bytes.per.second over all moves. Once the copy has everything it is
brought to the medium, and, as soon as nothing was appended meanwhile, takes over: in between nobody else gets a turn.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final

from kafkalite.broker.replication.follower_truncation import truncation_offset
from kafkalite.errors import ErrorCode, KafkaError
from kafkalite.storage.cleaning.throttle import Throttle
from kafkalite.storage.cold_reads import in_memory
from kafkalite.types import TopicPartition

if TYPE_CHECKING:
    from kafkalite.broker.replication.replicas import Replicas
    from kafkalite.config.broker import LiveConfig
    from kafkalite.lifecycle import Jobs
    from kafkalite.storage.directories.log_store import LogStore
    from kafkalite.storage.log.partition_log import PartitionLog

logger = logging.getLogger("kafkalite.broker.replication.log_dir_moves")

_CHUNK_BYTES: Final = 1 << 20
_RETRY_S: Final = 0.5


class LogDirMoves:
    """The moves in progress, a task for each partition."""

    def __init__(self, replicas: Replicas, logs: LogStore, jobs: Jobs, config: LiveConfig) -> None:
        self._replicas, self._logs, self._jobs, self._config = replicas, logs, jobs, config
        self._throttle = Throttle(self._bytes_per_second(), 0.0)
        self._tasks: dict[TopicPartition, asyncio.Task[None]] = {}

    def resume(self) -> None:
        """Continue the copies that were found at the start."""
        for topic_partition in self._logs.future.logs:
            self._start_task(topic_partition)

    def move(self, topic_partition: TopicPartition, path: str) -> None:
        """Start to move a partition to the directory at `path`; if it is there already, abandon the move.

        Raises KafkaError LOG_DIR_NOT_FOUND; KAFKA_STORAGE_ERROR; REPLICA_NOT_AVAILABLE when there is no log yet, which will then be
        made in that directory.
        """
        directory = self._logs.directory_at(path)
        directory.require_online()
        if self._logs.is_offline(topic_partition):
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"the directory of {topic_partition} failed")
        log = self._logs.get(topic_partition)
        if log is None or topic_partition not in self._replicas.partitions:
            self._logs.preferred_directories[topic_partition] = directory
            raise KafkaError(ErrorCode.REPLICA_NOT_AVAILABLE, f"{topic_partition} is not on this broker")
        if log.log_directory is directory:
            self._logs.future.remove(topic_partition)
            return
        self._logs.future.create(topic_partition, directory)
        self._start_task(topic_partition)

    def _start_task(self, topic_partition: TopicPartition) -> None:
        if topic_partition not in self._tasks:
            task = self._jobs.retry(lambda: self._move(topic_partition), f"move {topic_partition}")
            self._tasks[topic_partition] = task
            task.add_done_callback(lambda _: self._tasks.pop(topic_partition, None))

    async def _move(self, topic_partition: TopicPartition) -> None:
        compared: PartitionLog | None = None
        while (future := self._logs.future.logs.get(topic_partition)) is not None:
            partition = self._replicas.partitions.get(topic_partition)
            if partition is None:  # a restart: its role is not known yet
                await asyncio.sleep(_RETRY_S)
                continue
            try:
                if compared is not future:
                    _cut_to_common(partition.log, future)
                    compared = future
                copied = await self._copy(partition.log, future)
                if not copied and await self._is_complete(partition.log, future):
                    partition.log = self._logs.future.promote(topic_partition)
                    return
            except KafkaError as problem:
                logger.warning("moving %s to %s: %s", topic_partition, future.log_directory.path, problem)
                await asyncio.sleep(_RETRY_S)

    async def _copy(self, log: PartitionLog, future: PartitionLog) -> int:
        """Copy a chunk; return its bytes, 0 if the copy has everything. Raises KafkaError."""
        if future.log_end_offset < log.log_start_offset:
            future.truncate_fully_and_start_at(log.log_start_offset)
        records = await in_memory(
            log,
            lambda: (
                log.read(
                    future.log_end_offset, _CHUNK_BYTES, upper_bound=log.log_end_offset, min_one_batch=True
                ).records
            ),
        )
        if self._logs.future.logs.get(log.topic_partition) is not future or not records:
            return 0
        future.append_as_follower(records, now_ms=self._logs.clock.now_ms())
        await asyncio.sleep(self.pause_s(len(records)))
        return len(records)

    def pause_s(self, size: int) -> float:
        """Return for how long to pause after `size` more bytes, so that all moves together obey their rate."""
        self._throttle.bytes_per_second = self._bytes_per_second()
        return self._throttle.pause_s(size, asyncio.get_running_loop().time())

    def _bytes_per_second(self) -> float:
        return max(1.0, self._config.current.replica_alter_log_dirs_io_max_bytes_per_second)

    async def _is_complete(self, log: PartitionLog, future: PartitionLog) -> bool:
        """Flush the copy; return True if it has everything then."""
        work = future.flush_work()
        if work is not None:
            try:
                await asyncio.get_running_loop().run_in_executor(None, work.run)
            except OSError as problem:
                raise future.log_directory.failure(problem) from problem
            future.mark_flushed(work)
        return (
            self._logs.future.logs.get(log.topic_partition) is future
            and self._logs.get(log.topic_partition) is log
            and future.log_end_offset == log.log_end_offset
        )


def _cut_to_common(log: PartitionLog, future: PartitionLog) -> None:
    """Truncate what the copy of an earlier run has and the log has not. Raises KafkaError."""
    epoch = future.latest_epoch
    if epoch is not None:
        leader_epoch, leader_end = log.end_offset_for_epoch(epoch)
        end = truncation_offset(
            future.end_offset_for_epoch, leader_epoch, leader_end, future.log_end_offset, log.high_watermark
        )
        future.truncate_to(min(end, log.log_end_offset))
