"""leader-epoch-checkpoint of one log: written whenever an epoch begins or is cut off; the log's next flush brings it to the medium."""

from __future__ import annotations

import os
from collections.abc import Sequence

from kafkalite.storage import checkpoints
from kafkalite.storage.disk import OUT_OF_FILES, OUT_OF_SPACE, Disk
from kafkalite.storage.log.flush_work import FlushState
from kafkalite.storage.log.leader_epochs import LeaderEpochs
from kafkalite.storage.log_files import LEADER_EPOCH_CHECKPOINT


class EpochFile:
    """The file of the log in `directory`, which says `on_disk` now where `epochs` are known.

    `is_behind`: what is known has yet to be written, with the next change, append or flush. The disk was full; or a start found epochs
    without records, which it forgets: mostly the next leader epoch is the last of these, and nothing has to be written at all.
    """

    __slots__ = ("_disk", "_flush_state", "_on_disk", "_path", "is_behind")

    def __init__(
        self,
        disk: Disk,
        directory: str,
        flush_state: FlushState,
        epochs: LeaderEpochs,
        on_disk: Sequence[tuple[int, int]],
    ) -> None:
        self._disk = disk
        self._path = os.path.join(directory, LEADER_EPOCH_CHECKPOINT)
        self._flush_state = flush_state
        self._on_disk: list[tuple[int, int]] | None = list(on_disk)
        self.is_behind = epochs.entries() != self._on_disk

    def save(self, epochs: LeaderEpochs, *, later: bool = False) -> None:
        """Write all entries, or `later` with the other files of a new log. On a full disk that is put off. Raises OSError.

        It may be put off because batches have their epochs too.
        """
        if later:
            self.is_behind = True
            return
        entries = epochs.entries()
        if entries == self._on_disk:
            self.is_behind = False
            return
        self._flush_state.note_file(self._path)
        self._on_disk = None
        try:
            checkpoints.write_epochs(self._disk, self._path, entries, durable=False)
        except OSError as problem:
            if problem.errno not in OUT_OF_SPACE | OUT_OF_FILES:
                raise
            self.is_behind = True
        else:
            self._on_disk, self.is_behind = entries, False
