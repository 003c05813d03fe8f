"""The checkpoints of one log directory, with a line for each log: recovery points, log starts, high watermarks, first dirty offsets.

A broker may have a hundred thousand logs of which few change between two checkpoints, so nothing here looks at all logs. The text of a
checkpoint is kept in blocks, each with the lines of some logs, the same logs in all checkpoints. A log that changes in whatever way,
vanishes or appears notes itself with its directory, and its block is stale from then on. Only stale blocks are made again, and a checkpoint
is written only if one of them says something else than before.

The medium may take long, so periodic checkpoints are written in the executor. Meanwhile a log may be deleted:

1. The event loop hands the text to the executor.
2. A log is deleted, and the checkpoint is written without it, on the loop.
3. The executor would write its text, and the next log of that name would begin with its predecessor's offset.

So writes are numbered, and in step 3 one that is not the latest is left out. A write that has begun is waited for in step 2.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Iterable
from functools import partial
from typing import Final, NamedTuple

from kafkalite.portions import Work, in_one_go
from kafkalite.storage import checkpoints
from kafkalite.storage.log.noted_log import LogBlock
from kafkalite.storage.log.partition_log import PartitionLog
from kafkalite.storage.log_directory import LogDirectory

logger = logging.getLogger(__name__)

_BLOCK_LOGS: Final = 32
"""With more, a change costs more; with fewer, a partition takes more memory."""


class _Checkpoint(NamedTuple):
    """A checkpoint file and the offset of a log that it has, None for a log without a line."""

    name: str
    offset_of: Callable[[PartitionLog], int | None]


CHECKPOINTS: Final = (
    _Checkpoint(checkpoints.RECOVERY_POINT, lambda log: log.recovery_point),
    _Checkpoint(
        checkpoints.LOG_START,
        lambda log: log.log_start_offset if log.log_start_offset > log.segments.first_base_offset else None,
    ),
    _Checkpoint(checkpoints.HIGH_WATERMARK, lambda log: log.flush_state.limit_high_watermark(log.high_watermark)),
    _Checkpoint(checkpoints.CLEANER, lambda log: log.first_dirty_offset),
)


class _KeptText:
    """The text of a checkpoint as of the last `refresh`, and whether the file says the same."""

    def __init__(self, offset_of: Callable[[PartitionLog], int | None]) -> None:
        self.offset_of = offset_of
        self.lines: dict[LogBlock[PartitionLog], bytes] = {}
        self.stale: dict[LogBlock[PartitionLog], None] = {}
        self.is_written = self.is_durable = False
        self.is_changed = False
        """True if lines changed since the latest write began."""
        self.writes = 0
        """Number of the latest write."""
        self.writing = threading.Lock()

    def replace_lines(self, block: LogBlock[PartitionLog], lines: bytes) -> None:
        """Replace the lines of a block. If they differ, the checkpoint has to be written again."""
        if lines != self.lines.get(block, b""):
            self.lines[block] = lines
            self.is_written = self.is_durable = False
            self.is_changed = True


class DirectoryCheckpoints:
    """The checkpoints of `directory`."""

    def __init__(self, directory: LogDirectory) -> None:
        self._directory = directory
        self._with_room: dict[LogBlock[PartitionLog], None] = {}
        self._texts = {each.name: _KeptText(each.offset_of) for each in CHECKPOINTS}
        self._stale = [each.stale for each in self._texts.values()]

    def note_changed(self, log: PartitionLog, *, is_here: bool) -> None:
        """Note that a log here has changed, or appeared, or (not `is_here`) that it is not one of the directory's logs any more."""
        block = log.checkpoint_block
        if is_here and block is None:
            block = self._enter(log)
        elif not is_here and block is not None:
            self._remove(log, block)
        if block is None:
            return
        for stale in self._stale:
            stale[block] = None

    def _enter(self, log: PartitionLog) -> LogBlock[PartitionLog]:
        block = next(iter(self._with_room), None)
        if block is None:
            block = LogBlock()
            self._with_room[block] = None
        log.checkpoint_block = block
        block.logs.append(log)
        if len(block.logs) == _BLOCK_LOGS:
            del self._with_room[block]
        return block

    def _remove(self, log: PartitionLog, block: LogBlock[PartitionLog]) -> None:
        log.checkpoint_block = None
        block.logs.remove(log)
        self._with_room[block] = None

    def refresh(self, name: str) -> Work[None]:
        """Make the lines of logs that changed, a block in each unit; those that change meanwhile are left for the next time."""
        text = self._texts[name]
        for block in tuple(text.stale):
            if block in text.stale:
                del text.stale[block]
                text.replace_lines(block, _make_lines(block, text.offset_of))
            yield
        if not text.stale:
            text.stale.clear()  # a dict that is emptied key by key keeps its memory

    def write(self, name: str, *, durable: bool = True) -> None:
        """Replace a checkpoint, unless the file says all of it. Raises OSError; the next call tries again.

        One that is not `durable` survives the end of the process, but perhaps not that of the machine.
        """
        text = self._texts[name]
        if (lines := self._begin_write(name, durable=durable)) is not None:
            self._replace_file(name, text.writes, lines, durable)
            self._note_written(text, text.writes, durable)

    def start_writing(self, name: str) -> asyncio.Future[None] | None:
        """Write a checkpoint in another thread; return a future that raises OSError, None if the file says all of it."""
        text = self._texts[name]
        if (lines := self._begin_write(name, durable=True)) is None:
            return None
        written = asyncio.get_running_loop().run_in_executor(None, self._replace_file, name, text.writes, lines, True)
        written.add_done_callback(partial(self._finish_writing, text, text.writes))
        return written

    def _begin_write(self, name: str, *, durable: bool) -> bytes | None:
        """Return the lines of a checkpoint that is written next; None if the file says all of it."""
        in_one_go(self.refresh(name))
        text = self._texts[name]
        is_there = text.is_written and (text.is_durable or not durable)
        if is_there and self._directory.disk.exists(self._directory.file(name)):
            return None
        text.is_written = text.is_durable = text.is_changed = False
        text.writes += 1
        return b"".join(text.lines.values())

    def _replace_file(self, name: str, number: int, lines: bytes, durable: bool) -> None:
        """Replace a file unless a later write of it has begun."""
        text = self._texts[name]
        with text.writing:
            if number == text.writes:
                checkpoints.write_lines(self._directory.disk, self._directory.file(name), lines, durable=durable)

    def _finish_writing(self, text: _KeptText, number: int, written: asyncio.Future[None]) -> None:
        if not written.cancelled() and written.exception() is None:
            self._note_written(text, number, True)

    def _note_written(self, text: _KeptText, number: int, durable: bool) -> None:
        if number == text.writes and not text.is_changed:
            text.is_written, text.is_durable = True, durable

    def report_failure(self, problem: OSError) -> None:
        """Log that a checkpoint was not written; the directory is taken offline unless its disk is just full."""
        logger.warning("Checkpoint not written: %s", self._directory.failure(problem))


async def write_in_threads(directories: Iterable[DirectoryCheckpoints], name: str) -> None:
    """Write a checkpoint in each directory that takes it, and leave the event loop to others meanwhile."""
    for directory, written in [(each, each.start_writing(name)) for each in directories]:
        try:
            if written is not None:
                await written
        except OSError as problem:
            directory.report_failure(problem)


def _make_lines(block: LogBlock[PartitionLog], offset_of: Callable[[PartitionLog], int | None]) -> bytes:
    lines = []
    for log in block.logs:
        offset = offset_of(log)
        if offset is not None:
            lines.append(checkpoints.offset_line(log.topic_partition, offset))
    return "".join(lines).encode()
