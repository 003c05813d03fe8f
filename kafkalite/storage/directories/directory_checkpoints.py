"""The checkpoints of one log directory, with a line for each log: recovery points, log starts, high watermarks, first dirty offsets.

A broker may have a hundred thousand logs of which few change between two checkpoints, so nothing here looks at all logs. The text of a
checkpoint is kept in blocks, each with the lines of some logs, the same logs in all checkpoints. A log that changes in whatever way,
vanishes or appears notes itself with its directory, and its block is stale from then on. Only stale blocks are made again, and a checkpoint
is written only if one of them says something else than before.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from kafkalite.portions import Work, in_one_go
from kafkalite.storage import checkpoints
from kafkalite.storage.log.noted_log import LogBlock
from kafkalite.storage.log.partition_log import PartitionLog
from kafkalite.storage.log_directory import LogDirectory

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
    _Checkpoint(checkpoints.HIGH_WATERMARK, lambda log: log.high_watermark),
    _Checkpoint(checkpoints.CLEANER, lambda log: log.first_dirty_offset),
)


class _KeptText:
    """The text of a checkpoint as of the last `refresh`, and whether the file says the same."""

    def __init__(self, offset_of: Callable[[PartitionLog], int | None]) -> None:
        self.offset_of = offset_of
        self.lines: dict[LogBlock, bytes] = {}
        self.stale: dict[LogBlock, None] = {}
        self.is_written = self.is_durable = False

    def change(self, block: LogBlock, lines: bytes) -> None:
        if lines != self.lines.get(block, b""):
            self.lines[block] = lines
            self.is_written = self.is_durable = False


class DirectoryCheckpoints:
    """The checkpoints of `directory`."""

    def __init__(self, directory: LogDirectory) -> None:
        self._directory = directory
        self._with_room: dict[LogBlock, None] = {}
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

    def _enter(self, log: PartitionLog) -> LogBlock:
        block = next(iter(self._with_room), None)
        if block is None:
            block = LogBlock()
            self._with_room[block] = None
        log.checkpoint_block = block
        block.logs.append(log)
        if len(block.logs) == _BLOCK_LOGS:
            del self._with_room[block]
        return block

    def _remove(self, log: PartitionLog, block: LogBlock) -> None:
        log.checkpoint_block = None
        block.logs.remove(log)
        self._with_room[block] = None

    def refresh(self, name: str) -> Work[None]:
        """Make the lines of logs that changed, a block in each unit; those that change meanwhile are left for the next time."""
        text = self._texts[name]
        for block in tuple(text.stale):
            if block in text.stale:
                del text.stale[block]
                text.change(block, _make_lines(block, text.offset_of))
            yield
        if not text.stale:
            text.stale.clear()  # a dict that is emptied key by key keeps its memory

    def write(self, name: str, *, durable: bool = True) -> None:
        """Replace a checkpoint, unless the file says all of it. Raises OSError; the next call tries again.

        One that is not `durable` survives the end of the process, but perhaps not that of the machine.
        """
        in_one_go(self.refresh(name))
        text, disk, path = self._texts[name], self._directory.disk, self._directory.file(name)
        if text.is_written and (text.is_durable or not durable) and disk.exists(path):
            return
        text.is_written = text.is_durable = False
        checkpoints.write_lines(disk, path, b"".join(text.lines.values()), durable=durable)
        text.is_written, text.is_durable = True, durable


def _make_lines(block: LogBlock, offset_of: Callable[[PartitionLog], int | None]) -> bytes:
    lines = []
    for log in block.logs:
        offset = offset_of(log)
        if offset is not None:
            lines.append(checkpoints.offset_line(log.topic_partition, offset))
    return "".join(lines).encode()
