"""The disk as a port: all that storage asks of files and directories, and the operating system's answer to it.

Paths are text. Everything raises OSError as the operating system does. Nothing is durable before `sync`; `replace` is
atomic in any case: after a crash the file has its old content or its new one.
"""

from __future__ import annotations

import errno
import fcntl
import os
import resource
import shutil
import stat
from collections.abc import Sequence
from typing import Final, NamedTuple, Protocol, TypeAlias

from kafkalite.buffer_pool import BufferPool
from kafkalite.types import Buffer

_BUFFERS_PER_WRITE: Final = 512
"""Below IOV_MAX of every system."""

_READ_BYTES: Final = 256 * 1024
_POOLED_FROM_BYTES: Final = 64 * 1024
_POOL_BYTES: Final = 32 * 1024 * 1024
"""Half of what a fetch may bring of several partitions, twice over."""

_NO_WAIT: Final[int] = getattr(os, "RWF_NOWAIT", 0)
"""Linux: a read that fails instead of waiting for the medium; 0 where the system has no such thing."""

_BOOT_ID: Final = "/proc/sys/kernel/random/boot_id"

OUT_OF_SPACE: Final = frozenset({errno.ENOSPC, errno.EDQUOT})
"""Error numbers of a disk that works but is full."""

OUT_OF_FILES: Final = frozenset({errno.EMFILE, errno.ENFILE})
"""Error numbers that say nothing of the disk: this process, or the machine, has no more files."""


FileVersion: TypeAlias = tuple[int, int, int]
"""Number of a file, when its content was changed last, and when anything of it, in ns of wall time. A change changes it, as far as file
systems tell times apart; a copy has another one, also one that keeps the time of modification, because nobody can set the last one."""


class Entry(NamedTuple):
    """One name in a directory; `modified_ms` is wall time."""

    name: str
    size: int
    modified_ms: int
    is_directory: bool
    version: FileVersion


class File(Protocol):
    """An open file. Positions are absolute: a file has no cursor."""

    def write_at(self, position: int, buffers: Sequence[Buffer]) -> None:
        """Write all buffers one behind the other. When it raises, any part of them may have been written."""

    def read_at(self, position: int, size: int) -> bytes:
        """Return up to `size` bytes; fewer only at the end of the file."""

    def read_in_memory(self, position: int, size: int) -> Buffer | None:
        """Return up to `size` bytes, fewer only at the end of the file; None if the medium would have to be waited for."""

    def truncate(self, size: int) -> None: ...

    def size(self) -> int: ...

    def close(self) -> None: ...


class Lock(Protocol):
    """An exclusive lock that lasts until it is released or its process ends."""

    def release(self) -> None: ...


class Disk(Protocol):
    """Files and directories by path."""

    def open(self, path: str, *, create: bool = False) -> File:
        """Return the file for reading and writing; FileNotFoundError unless it exists or `create` is set."""

    def read(self, path: str) -> bytes:
        """Return the whole content. FileNotFoundError."""

    def replace(self, path: str, content: bytes, *, durable: bool = True, only_for_owner: bool = False) -> None:
        """Give the file this content, atomically; when `durable`, on the medium before this returns.

        One that is `only_for_owner` can be read by this user alone, from its creation on.
        """

    def list(self, path: str) -> list[Entry]:
        """Return the entries of a directory, in no particular order."""

    def status(self, path: str) -> Entry:
        """Return the entry of one file or directory. FileNotFoundError."""

    def exists(self, path: str) -> bool: ...

    def make_directory(self, path: str) -> None:
        """Create the directory and its parents where they are missing."""

    def rename(self, path: str, new_path: str) -> None: ...

    def remove(self, path: str) -> None:
        """Remove a file; a missing one is no error."""

    def remove_tree(self, path: str) -> None:
        """Remove a directory with all in it; a missing one is no error."""

    def room(self, path: str) -> tuple[int, int]:
        """Return (bytes in all, bytes free for us) on the file system that holds `path`."""

    def files_max(self) -> int:
        """Return how many files this process may have open at once, connections included."""

    def set_modified(self, path: str, modified_ms: int) -> None:
        """Let the file have been changed at that wall time."""

    def sync(self, path: str) -> None:
        """Bring a file's content, or a directory's names, to the medium."""

    def lock(self, path: str, *, create: bool = True) -> Lock:
        """Take the lock at `path`, creating its file if allowed. BlockingIOError when another process holds it, FileNotFoundError."""

    def file_id(self, path: str) -> str:
        """Return a text that no other file has, nor a copy of this one, nor this one after the machine has started again.

        Empty where the system cannot tell one start of the machine from another. FileNotFoundError.
        """


class _OsFile:
    __slots__ = ("_buffers", "_descriptor")

    def __init__(self, descriptor: int, buffers: BufferPool) -> None:
        self._descriptor, self._buffers = descriptor, buffers

    def write_at(self, position: int, buffers: Sequence[Buffer]) -> None:
        if len(buffers) == 1:
            buffer = buffers[0]
            written = os.pwrite(self._descriptor, buffer, position)
            if written == len(buffer):
                return
            buffers = [memoryview(buffer)[written:]]
            position += written
        pending = [memoryview(buffer) for buffer in buffers if len(buffer)]
        while pending:
            written = os.pwritev(self._descriptor, pending[:_BUFFERS_PER_WRITE], position)
            position += written
            while pending and written >= len(pending[0]):
                written -= len(pending.pop(0))
            if written:
                pending[0] = pending[0][written:]

    def read_at(self, position: int, size: int) -> bytes:
        data = os.pread(self._descriptor, size, position)
        if len(data) == size or not data:
            return data
        parts = [data]
        missing = size - len(data)
        while missing and (data := os.pread(self._descriptor, missing, position + size - missing)):
            parts.append(data)
            missing -= len(data)
        return b"".join(parts)

    def read_in_memory(self, position: int, size: int) -> Buffer | None:
        if not _NO_WAIT:
            return self.read_at(position, size)
        buffer = bytearray(size) if size < _POOLED_FROM_BYTES else self._buffers.borrow(size, size)
        try:
            count = os.preadv(self._descriptor, [buffer], position, _NO_WAIT)
        except BlockingIOError:
            return None
        except OSError as problem:
            if problem.errno != errno.EOPNOTSUPP:  # some file systems cannot tell what is in memory
                raise
            return self.read_at(position, size)
        if count < size:
            if position + count < self.size():
                return None
            return buffer[:count]
        return buffer

    def truncate(self, size: int) -> None:
        os.ftruncate(self._descriptor, size)

    def size(self) -> int:
        return os.fstat(self._descriptor).st_size

    def close(self) -> None:
        os.close(self._descriptor)


class _OsLock:
    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def release(self) -> None:
        os.close(self._descriptor)


class OsDisk:
    """The machine's own file systems. What is read in memory, by one thread, is read into buffers that are used again."""

    def __init__(self) -> None:
        self._buffers = BufferPool(_POOL_BYTES)

    def open(self, path: str, *, create: bool = False) -> File:
        flags = os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if create else 0)
        return _OsFile(os.open(path, flags, 0o644), self._buffers)

    def read(self, path: str) -> bytes:
        # Not by Python's own files, which ask five times as much of the system: a start reads thousands of files of a few bytes.
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            parts = []
            while part := os.read(descriptor, _READ_BYTES):
                parts.append(part)
            return b"".join(parts)
        finally:
            os.close(descriptor)

    def replace(self, path: str, content: bytes, *, durable: bool = True, only_for_owner: bool = False) -> None:
        temporary = path + ".tmp"
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
        if only_for_owner:
            self.remove(temporary)  # one that somebody else has open, or may open
            flags |= os.O_EXCL
        descriptor = os.open(temporary, flags, 0o600 if only_for_owner else 0o666)
        try:
            left = memoryview(content)
            while left:
                left = left[os.write(descriptor, left) :]
            if durable:
                os.fsync(descriptor)
        except OSError:
            self.remove(temporary)  # room that a full disk needs
            raise
        finally:
            os.close(descriptor)
        os.replace(temporary, path)
        if durable:
            self.sync(os.path.dirname(path))

    def list(self, path: str) -> list[Entry]:
        entries = []
        with os.scandir(path) as found:
            for item in found:
                try:
                    status = item.stat()
                except FileNotFoundError:  # gone since the directory was read
                    continue
                entries.append(_entry(item.name, status))
        return entries

    def status(self, path: str) -> Entry:
        return _entry(path[path.rfind(os.sep) + 1 :], os.stat(path))

    def exists(self, path: str) -> bool:
        return os.path.exists(path)

    def make_directory(self, path: str) -> None:
        try:
            os.mkdir(path)
        except OSError:  # it is there, or its parents are not
            os.makedirs(path, exist_ok=True)

    def rename(self, path: str, new_path: str) -> None:
        os.rename(path, new_path)

    def remove(self, path: str) -> None:
        try:
            os.remove(path)
        except FileNotFoundError:
            pass

    def remove_tree(self, path: str) -> None:
        try:
            shutil.rmtree(path)
        except FileNotFoundError:
            pass

    def room(self, path: str) -> tuple[int, int]:
        status = os.statvfs(path)
        return status.f_blocks * status.f_frsize, status.f_bavail * status.f_frsize

    def files_max(self) -> int:
        return resource.getrlimit(resource.RLIMIT_NOFILE)[0]

    def set_modified(self, path: str, modified_ms: int) -> None:
        os.utime(path, ns=(modified_ms * 1_000_000, modified_ms * 1_000_000))

    def release_unused(self) -> None:
        """Give memory back that was kept for reads, and not used since the last call."""
        self._buffers.release_unused()

    def sync(self, path: str) -> None:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def lock(self, path: str, *, create: bool = True) -> Lock:
        descriptor = os.open(path, os.O_RDWR | (os.O_CREAT if create else 0) | os.O_CLOEXEC, 0o644)
        try:
            # Java's FileChannel.lock is a POSIX record lock, so this keeps a Kafka broker out too.
            fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as problem:
            os.close(descriptor)
            if problem.errno in (errno.EACCES, errno.EAGAIN):
                raise BlockingIOError(problem.errno, "locked by another process", path) from problem
            raise
        return _OsLock(descriptor)

    def file_id(self, path: str) -> str:
        status = os.stat(path)
        boot_id = _read_boot_id()
        return f"{boot_id}:{status.st_ino:x}-{status.st_ctime_ns:x}" if boot_id else ""


def _entry(name: str, status: os.stat_result) -> Entry:
    modified_ns = status.st_mtime_ns
    version = (status.st_ino, modified_ns, status.st_ctime_ns)
    return Entry(name, status.st_size, modified_ns // 1_000_000, stat.S_ISDIR(status.st_mode), version)


def _read_boot_id() -> str:
    """Return what Linux calls this start of the machine; empty elsewhere."""
    try:
        with open(_BOOT_ID, encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        return ""
