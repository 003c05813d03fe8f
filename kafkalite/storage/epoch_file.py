"""leader-epoch-checkpoint of one log: written whenever an epoch begins or is cut off; the log's next flush brings it to the medium."""

from __future__ import annotations

from kafkalite.storage import checkpoints
from kafkalite.storage.disk import OUT_OF_FILES, OUT_OF_SPACE, Disk
from kafkalite.storage.flush_work import FlushState
from kafkalite.storage.leader_epochs import LeaderEpochs


class EpochFile:
    """The file at `path`. `is_behind`: the disk was full, and what is in memory has yet to be written."""

    __slots__ = ("_disk", "_flush_state", "_path", "is_behind")

    def __init__(self, disk: Disk, path: str, flush_state: FlushState) -> None:
        self._disk = disk
        self._path = path
        self._flush_state = flush_state
        self.is_behind = False

    def save(self, epochs: LeaderEpochs) -> None:
        """Write all entries; on a full disk that is put off, for the batches tell their epochs themselves. Raises OSError."""
        self._flush_state.note(self._path)
        try:
            checkpoints.write_epochs(self._disk, self._path, epochs.entries(), durable=False)
            self.is_behind = False
        except OSError as problem:
            if problem.errno not in OUT_OF_SPACE | OUT_OF_FILES:
                raise
            self.is_behind = True
