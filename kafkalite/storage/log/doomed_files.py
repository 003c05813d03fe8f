"""Files of segments that a log gave up: readers may still be at them, so they stay for file.delete.delay.ms."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from kafkalite.storage.disk import Disk


class DoomedFiles:
    """Files and when they are due, oldest first."""

    __slots__ = ("_disk", "_files")

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self._files: deque[tuple[int, Sequence[str]]] = deque()

    def add(self, paths: Sequence[str], due_ms: int) -> None:
        """Remove these files at `due_ms`."""
        self._files.append((due_ms, paths))

    def remove_due(self, now_ms: int) -> None:
        """Remove the files whose time has come. Raises OSError."""
        while self._files and self._files[0][0] <= now_ms:
            for path in self._files.popleft()[1]:
                self._disk.remove(path)
