"""The open files of one log directory: opened when first used, and never more than a fixed number at a time.

Thousands of partitions have tens of thousands of files; a process may hold far fewer. When there is no room the file
that was opened longest ago is closed; whoever needs it again pays one open. Used by one thread only: another one's use
could close a file that is being read.
"""

from __future__ import annotations

from kafkalite.storage.disk import Disk, File


class OpenFiles:
    """Files by path; `limit` bounds how many are open."""

    def __init__(self, disk: Disk, limit: int) -> None:
        self.disk = disk
        self.limit = limit
        self._files: dict[str, File] = {}

    def __len__(self) -> int:
        return len(self._files)

    def get(self, path: str) -> File:
        """The file at `path`, which must exist. Raises OSError."""
        file = self._files.get(path)
        return file if file is not None else self._open(path, create=False)

    def create(self, path: str) -> File:
        """The file at `path`, empty."""
        self.forget(path)
        file = self._open(path, create=True)
        if file.size():
            file.truncate(0)
        return file

    def forget(self, path: str) -> None:
        """Close the file, because it is about to be renamed or removed."""
        file = self._files.pop(path, None)
        if file is not None:
            file.close()

    def close(self) -> None:
        while self._files:
            self._files.popitem()[1].close()

    def _open(self, path: str, *, create: bool) -> File:
        while len(self._files) >= self.limit:
            self._files.pop(next(iter(self._files))).close()
        file = self._files[path] = self.disk.open(path, create=create)
        return file
