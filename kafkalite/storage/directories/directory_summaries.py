"""The files of summaries of all log directories while the broker runs: logs that changed are summarized once they are left alone."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from kafkalite.clock import Clock
from kafkalite.storage.directories.log_summaries import LogSummaries, fingerprint_of
from kafkalite.storage.directories.upkeep_pause import UpkeepPause
from kafkalite.storage.log.partition_log import PartitionLog
from kafkalite.storage.log_directory import LogDirectory

_LOGS_AT_ONCE: Final = 40
_PAUSE_S: Final = 0.02
"""Between summaries of so many logs, which take two milliseconds."""


class DirectorySummaries:
    """The summaries of each directory."""

    def __init__(self, clock: Clock, pause: UpkeepPause) -> None:
        self._clock = clock
        self._pause = pause
        self._files: dict[LogDirectory, LogSummaries] = {}
        self._changed: dict[PartitionLog, int] = {}
        """Fingerprints of the logs that were not as summarized when `summarize_changed` was last called."""
        self._rewriting: asyncio.Future[None] | None = None
        """The rewrite of a file, in the executor."""

    def of(self, directory: LogDirectory) -> LogSummaries:
        if directory not in self._files:
            self._files[directory] = LogSummaries(directory, self._clock)
        return self._files[directory]

    async def summarize_changed(
        self, changed: Iterable[PartitionLog], is_current: Callable[[PartitionLog], bool]
    ) -> None:
        """Summarize the logs that changed before the last call and not since, so that a start after a kill need not read them.

        `changed` are those that may have changed since. Some at a time, with the event loop left to others in between; those that are not
        current any more by then are left out.
        """
        before, self._changed = self._changed, {}
        logs = list({**before, **dict.fromkeys(changed)})
        for first in range(0, len(logs), _LOGS_AT_ONCE):
            await self._pause.wait()
            due: dict[LogDirectory, list[PartitionLog]] = {}
            for log in logs[first : first + _LOGS_AT_ONCE]:
                if not log.has_files or not is_current(log):
                    continue
                fingerprint = fingerprint_of(log)
                if fingerprint == log.summarized_as:
                    continue
                if before.get(log) == fingerprint:
                    due.setdefault(log.log_directory, []).append(log)
                else:
                    self._changed[log] = fingerprint
            for directory, quiet in due.items():
                self.of(directory).add(quiet)
                self._changed.update((log, fp) for log in quiet if log.summarized_as != (fp := fingerprint_of(log)))
            await asyncio.sleep(_PAUSE_S if due else 0)
        for summaries in self._files.values():
            if summaries.is_overgrown:
                self._rewriting = asyncio.get_running_loop().run_in_executor(None, summaries.rewrite)
                await asyncio.shield(self._rewriting)

    async def write_at_stop(self, directory: LogDirectory, logs: Sequence[PartitionLog], marker: str | None) -> None:
        """Write the summaries of closed logs in the executor, once nobody else writes the file."""
        if self._rewriting is not None:
            await asyncio.wait([self._rewriting])
        if marker is not None:
            await asyncio.get_running_loop().run_in_executor(None, self.of(directory).write_at_stop, logs, marker)
