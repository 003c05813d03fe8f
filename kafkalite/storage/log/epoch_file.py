"""leader-epoch-checkpoint of one log, written with flushes and not when an epoch begins: an election begins one in thousands of logs.

What the file must say at a crash follows from what a start does with it (`recovery`):

1. It forgets epochs that begin at the log end or behind it. So an epoch without records need not be written, whoever began it: a broker
   that starts learns its roles and their epochs from the controller.
2. It reads all batches from the recovery point on, and they carry their epochs. So an epoch that begins there or later need not be in
   the file. It is written before the recovery point moves (`PartitionLog.flush_work`) and before a compaction, which may remove batches.
3. It keeps an epoch that the file has before the log end. So one that was truncated is removed at once; or, where the log ends before it,
   no later than the next append.

Power cuts always left such files, because an unsynced write may be lost. Kafka writes and syncs the file at each new epoch and defers what
is cut off (KAFKA-15046), on the same grounds.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from kafkalite.storage import checkpoints
from kafkalite.storage.disk import OUT_OF_FILES, OUT_OF_SPACE, Disk
from kafkalite.storage.log.flush_work import FlushState
from kafkalite.storage.log.leader_epochs import LeaderEpochs
from kafkalite.storage.log_files import LEADER_EPOCH_CHECKPOINT

_Entries = tuple[tuple[int, int], ...]


class EpochFile:
    """The file of the log in `directory`, which says `on_disk` now where `epochs` are known.

    `is_wrong`: it has entries that the log does not have, to be removed before the next append. They begin at the log end, or the disk was
    full when they should have been removed.
    """

    __slots__ = ("_directory", "_disk", "_flush_state", "_is_short", "_on_disk", "is_wrong")

    def __init__(
        self,
        disk: Disk,
        directory: str,
        flush_state: FlushState,
        epochs: LeaderEpochs,
        on_disk: Sequence[tuple[int, int]],
    ) -> None:
        self._disk = disk
        self._directory = directory
        self._flush_state = flush_state
        entries, known = epochs.table, tuple(on_disk)
        self._on_disk: _Entries | None = entries if entries == known else known
        """None if a write failed."""
        self._is_short = entries != known
        self.is_wrong = entries[: len(known)] != known

    @property
    def on_disk(self) -> Sequence[tuple[int, int]] | None:
        """Return the entries in the file; None if a write failed."""
        return self._on_disk

    def update(self, epochs: LeaderEpochs, log_end_offset: int) -> None:
        """Take note of a change: write the file if it has epochs with records that are no history any more. Raises OSError."""
        known, entries = self._on_disk, epochs.table
        self._is_short = entries != known
        if known is None:
            self._write(entries)
        elif entries[: len(known)] == known:
            self.is_wrong = False
        elif _first_other(known, entries) >= log_end_offset:
            self.is_wrong = True
        else:
            self._write(entries)

    def save(self, epochs: LeaderEpochs) -> None:
        """Write all entries, unless they are there. On a full disk that is put off. Raises OSError."""
        entries = epochs.table
        if entries == self._on_disk:
            self.is_wrong = self._is_short = False
        else:
            self._write(entries)

    def complete(self, epochs: LeaderEpochs, log_end_offset: int) -> bool:
        """Write all entries if one with records is not there; return False if the disk is full. Raises OSError."""
        if self._is_short:
            known = self._on_disk
            if known is None or _with_records(known, log_end_offset) != _with_records(epochs.table, log_end_offset):
                self._write(epochs.table)
        return self._on_disk is not None

    def _write(self, entries: _Entries) -> None:
        """Write all entries. It may be put off, because batches have their epochs too."""
        self._flush_state.note_file(LEADER_EPOCH_CHECKPOINT)
        self._on_disk, self.is_wrong, self._is_short = None, True, True
        try:
            path = os.path.join(self._directory, LEADER_EPOCH_CHECKPOINT)
            checkpoints.write_epochs(self._disk, path, entries, durable=False)
        except OSError as problem:
            if problem.errno not in OUT_OF_SPACE | OUT_OF_FILES:
                raise
        else:
            self._on_disk, self.is_wrong, self._is_short = entries, False, False


def _first_other(known: _Entries, entries: _Entries) -> int:
    """Return where the first of the known entries begins that the log does not have."""
    held = len(entries)
    for place, each in enumerate(known):
        if place >= held or entries[place] != each:
            return each[1]
    raise ValueError("the log has all known entries")


def _with_records(entries: _Entries, log_end_offset: int) -> list[tuple[int, int]]:
    return [each for each in entries if each[1] < log_end_offset]
