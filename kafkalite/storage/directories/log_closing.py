"""Closes the logs of one directory: all are left in good order, then several threads bring to the medium what is not there.

A medium that is asked by several at once answers them together: a thousand logs are synced in a tenth of the time.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Sequence
from typing import Final

from kafkalite.errors import KafkaError
from kafkalite.portions import Portions, Work
from kafkalite.storage.log.flush_work import FlushWork
from kafkalite.storage.log.partition_log import PartitionLog
from kafkalite.storage.log_directory import LogDirectory

logger = logging.getLogger(__name__)

_THREADS: Final = 8


class DirectoryClosing:
    """Closes `logs`, which lie in `directory`."""

    def __init__(self, directory: LogDirectory, logs: Sequence[PartitionLog], portions: Portions) -> None:
        self.directory = directory
        self._portions = portions
        self.in_good_order = True
        """True if all logs could be closed."""
        self._logs = logs
        self._waiting: deque[tuple[PartitionLog, FlushWork]] = deque()
        self._synced: list[tuple[PartitionLog, FlushWork, OSError | None]] = []
        self._left_early = 0

    @property
    def left(self) -> int:
        """Return how many logs are not closed yet."""
        return len(self._logs) - self._left_early - len(self._synced)

    async def run(self) -> None:
        """Close the logs in the executor; an error of the medium takes the directory offline."""
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(None, self._prepare)
        threads = min(_THREADS, len(self._waiting))
        await asyncio.gather(*(loop.run_in_executor(None, self._sync) for _ in range(threads)))
        await self._portions.finish(self._finish())

    def _finish(self) -> Work[None]:
        """Note what was synced, and close the files. A unit is a log."""
        for log, work, problem in self._synced:
            if problem is None:
                log.mark_flushed(work)
            else:
                self._note_failure(log, self.directory.failure(problem))
            yield
        for log in self._logs:
            log.local.close_files()
            yield

    def _prepare(self) -> None:
        """Leave all logs in good order, in one thread, because open files belong to one."""
        for log in self._logs:
            try:
                work = log.prepare_close()
            except KafkaError as problem:
                self._note_failure(log, problem)
                work = None
            if work is None:
                self._left_early += 1
            else:
                self._waiting.append((log, work))

    def _sync(self) -> None:
        """Sync logs until none waits, in one of several threads."""
        while self._waiting:
            try:
                log, work = self._waiting.popleft()
            except IndexError:
                return
            try:
                work.run()
            except OSError as problem:
                self._synced.append((log, work, problem))
            else:
                self._synced.append((log, work, None))

    def _note_failure(self, log: PartitionLog, problem: KafkaError) -> None:
        logger.warning("%s was not closed in good order: %s", log.topic_partition, problem)
        self.in_good_order = False
