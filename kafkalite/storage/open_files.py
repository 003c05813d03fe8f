"""The open files of one log directory: opened when first used, and never more than a fixed number at a time.

Thousands of partitions have tens of thousands of files; a process may hold far fewer. When there is no room, here or because connections
have taken all that the process may have, the file that was opened longest ago is closed; whoever needs it again pays one open. Used by
one thread only: another one's use could close a file that is being read.
"""

from __future__ import annotations

from types import TracebackType
from typing import Final, Protocol
from weakref import WeakSet

from kafkalite.storage.disk import OUT_OF_FILES, Disk, File
from kafkalite.types import Buffer

FEWEST: Final = 8
"""Files that stay open in any case: work on one may open some others meanwhile."""

_LOADED_AT_ONCE_BYTES: Final = 1 << 17


class NotInMemory(Exception):
    """A read would have waited for the medium, where that is not allowed; `load`, in another thread, brings the bytes here."""

    def __init__(self, disk: Disk, path: str, position: int, size: int) -> None:
        super().__init__(path, position, size)
        self._disk, self._path, self._position, self._size = disk, path, position, size

    def __eq__(self, other: object) -> bool:
        return isinstance(other, NotInMemory) and self.args == other.args

    def __hash__(self) -> int:
        return hash(self.args)

    def load(self) -> None:
        """Read the bytes, so that they are in memory then. Errors are left to the next reader."""
        try:
            file = self._disk.open(self._path)
            try:
                file.read_at(self._position, max(self._size, _LOADED_AT_ONCE_BYTES))
            finally:
                file.close()
        except OSError:
            pass


class KeptFile:
    """A file without a path, open for as long as somebody reads from it."""

    __slots__ = ("file",)

    def __init__(self, file: File) -> None:
        self.file = file

    def __del__(self) -> None:
        self.file.close()


class LaterReader(Protocol):
    """A reader of a part of the file at `path` later on, as `FileRecords` is."""

    path: str

    def keep_file(self, file: KeptFile) -> None: ...

    def note_truncation(self, size: int) -> None: ...


class OpenFiles:
    """Files by path; `limit` bounds how many are open.

    In a `with` block, whatever is read must be in memory: NotInMemory is raised where the medium would be waited for.
    """

    def __init__(self, disk: Disk, limit: int) -> None:
        self.disk = disk
        self.limit = limit
        self._files: dict[str, File] = {}
        self._later_readers: WeakSet[LaterReader] = WeakSet()
        self.may_wait = True

    def __len__(self) -> int:
        return len(self._files)

    def get(self, path: str) -> File:
        """Return the file at `path`, which must exist. Raises OSError."""
        file = self._files.get(path)
        return file if file is not None else self._open(path, create=False)

    def read(self, path: str, position: int, size: int) -> Buffer:
        """Return up to `size` bytes of a file; fewer only at its end. Raises OSError, in a `with` block NotInMemory."""
        file = self._files.get(path) or self._open(path, create=False)
        if self.may_wait:
            return file.read_at(position, size)
        data = file.read_in_memory(position, size)
        if data is None:
            raise NotInMemory(self.disk, path, position, size)
        return data

    def __enter__(self) -> None:
        self.may_wait = False

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.may_wait = True

    def create(self, path: str) -> File:
        """Return the file at `path`, empty."""
        self.forget(path)
        file = self._open(path, create=True)
        if file.size():
            file.truncate(0)
        return file

    def forget(self, path: str) -> None:
        """Close the file, because it is about to be renamed or removed; for those who read later it stays open."""
        file = self._files.pop(path, None)
        if readers := self._readers_of(path):
            try:
                kept = KeptFile(file or self.disk.open(path))
            except OSError:
                for reader in readers:
                    reader.note_truncation(0)
            else:
                for reader in readers:
                    reader.keep_file(kept)
        elif file is not None:
            file.close()

    def lend(self, reader: LaterReader) -> None:
        """Notify `reader` before its file changes, for as long as somebody else refers to it."""
        self._later_readers.add(reader)

    def truncate(self, path: str, size: int) -> None:
        """End the file at `path` behind `size` bytes that are in use. Raises OSError."""
        for reader in self._readers_of(path):
            reader.note_truncation(size)
        self.get(path).truncate(size)

    def _readers_of(self, path: str) -> list[LaterReader]:
        return [each for each in self._later_readers if each.path == path] if self._later_readers else []

    def close(self) -> None:
        while self._files:
            self._files.popitem()[1].close()

    def _open(self, path: str, *, create: bool) -> File:
        while len(self._files) >= self.limit:
            self._close_oldest()
        while True:
            try:
                file = self._files[path] = self.disk.open(path, create=create)
                return file
            except OSError as problem:
                if problem.errno not in OUT_OF_FILES or len(self._files) <= FEWEST:
                    raise
                self._close_oldest()

    def _close_oldest(self) -> None:
        self._files.pop(next(iter(self._files))).close()
