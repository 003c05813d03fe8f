"""Logs on their way to another directory (KIP-113): copies that catch up with the current log and then take its place.

    <topic>-<partition>.<32 hex>-future/        the copy, in the directory the partition moves to
    <topic>-<partition>.<32 hex>-delete/        what was the current log, once the copy took its place

The current log is renamed first, then the copy, which is complete and on the medium by then. A start that finds a copy without a
current log, with all directories working, finishes the move. A copy has the batches of the current log, but nothing of its own:
truncation reaches both (`PartitionLog.future`), and its leader epochs are replaced by the current log's at the end.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from random import Random
from typing import Protocol

from kafkalite.clock import Clock
from kafkalite.errors import InvariantBroken
from kafkalite.storage.log.partition_log import PartitionLog
from kafkalite.storage.log.recovery import LoadOptions, create_log, load_log
from kafkalite.storage.log_directory import LogDirectory
from kafkalite.storage.log_files import FUTURE_DIRECTORY, suffixed_directory
from kafkalite.types import TopicPartition

logger = logging.getLogger(__name__)


class CurrentLogs(Protocol):
    """The logs that are served, as their owner (`LogStore`) gives them to the copies."""

    @property
    def clock(self) -> Clock: ...

    @property
    def rng(self) -> Random: ...

    @property
    def producer_id_expiration_ms(self) -> int: ...

    @property
    def offline_directories(self) -> list[LogDirectory]: ...

    def get(self, topic_partition: TopicPartition) -> PartitionLog | None: ...

    def put(self, log: PartitionLog) -> None: ...

    def delete_directory(self, log: PartitionLog) -> None: ...

    def checkpoint_recovery_points(self, directories: Iterable[LogDirectory] | None = None) -> None: ...


class FutureLogs:
    """The copies by partition, at most one each; `logs` may be read by everybody."""

    def __init__(self, store: CurrentLogs) -> None:
        self._store = store
        self.logs: dict[TopicPartition, PartitionLog] = {}

    def create(self, topic_partition: TopicPartition, directory: LogDirectory) -> PartitionLog:
        """Make an empty copy of the partition's log in `directory`; one in another directory is given up.

        Raises KafkaError KAFKA_STORAGE_ERROR; the partition has a log, which lies elsewhere.
        """
        store = self._store
        current = store.get(topic_partition)
        if current is None or current.log_directory is directory:
            raise InvariantBroken(f"{topic_partition} has no log outside {directory}")
        known = self.logs.get(topic_partition)
        if known is not None:
            if known.log_directory is directory:
                return known
            self.remove(topic_partition)
        directory.require_online()
        name = suffixed_directory(topic_partition, f"{store.rng.getrandbits(128):032x}", FUTURE_DIRECTORY)
        try:
            future = create_log(
                topic_partition,
                directory,
                directory.file(name),
                topic_id=current.topic_id,
                config=current.config,
                rng=store.rng,
                now_ms=store.clock.now_ms(),
            )
            future.make_files()
        except OSError as problem:
            raise directory.failure(problem) from problem
        if current.log_start_offset:
            future.truncate_fully_and_start_at(current.log_start_offset)
        self.add(future)
        return future

    def add(self, future: PartitionLog) -> None:
        """Add a copy that was made, or found at the start."""
        self.logs[future.topic_partition] = future
        current = self._store.get(future.topic_partition)
        if current is not None:
            current.future = future

    def remove(self, topic_partition: TopicPartition) -> None:
        """Give up a copy, if there is one. Raises KafkaError KAFKA_STORAGE_ERROR."""
        future = self.logs.pop(topic_partition, None)
        current = self._store.get(topic_partition)
        if current is not None:
            current.future = None
        if future is not None:
            future.note_change()
            if future.log_directory.offline_reason is None:
                self._store.delete_directory(future)

    def forget(self, directory: LogDirectory) -> None:
        """Remove the copies in a directory that failed; the current logs go on."""
        for topic_partition in [tp for tp, log in self.logs.items() if log.log_directory is directory]:
            self.remove(topic_partition)

    def promote(self, topic_partition: TopicPartition) -> PartitionLog:
        """Put the copy, which has caught up, in the place of the current log. Raises KafkaError KAFKA_STORAGE_ERROR."""
        store, future = self._store, self.logs[topic_partition]
        current = store.get(topic_partition)
        if current is None or current.log_end_offset != future.log_end_offset:
            raise InvariantBroken(f"the copy of {topic_partition} has not caught up")
        directory = future.log_directory
        if current.log_start_offset > future.log_start_offset:
            future.delete_records(current.log_start_offset)
        future.close()
        current.log_directory.require_online()
        store.delete_directory(current)
        log = self._rename_and_open(future, current.log_start_offset)
        log.inherit(current)
        del self.logs[topic_partition]
        store.put(log)
        store.checkpoint_recovery_points([current.log_directory, directory])
        logger.info("%s moved from %s to %s", topic_partition, current.log_directory.path, directory.path)
        return log

    def finish_interrupted(self) -> None:
        """Put copies without a current log in its place at the start, unless that may lie in a directory that failed."""
        if self._store.offline_directories:
            return
        for topic_partition, future in list(self.logs.items()):
            if self._store.get(topic_partition) is None:
                logger.warning("%s: finishing its move to %s", topic_partition, future.log_directory.path)
                future.close()
                del self.logs[topic_partition]
                self._store.put(self._rename_and_open(future, future.log_start_offset))

    def _rename_and_open(self, future: PartitionLog, log_start_offset: int) -> PartitionLog:
        """Open the log of a copy, which was closed, under the name of a current one. Raises KafkaError KAFKA_STORAGE_ERROR."""
        store, directory = self._store, future.log_directory
        path = directory.file(str(future.topic_partition))
        options = LoadOptions(
            clean=True,
            recovery_point=future.log_end_offset,
            log_start_offset=log_start_offset,
            now_ms=store.clock.now_ms(),
            producer_expiration_ms=store.producer_id_expiration_ms,
        )
        try:
            directory.disk.rename(future.directory, path)
            directory.disk.sync(directory.path)
            return load_log(
                future.topic_partition, directory, path, config=future.config, rng=store.rng, options=options
            )
        except OSError as problem:
            raise directory.failure(problem) from problem
