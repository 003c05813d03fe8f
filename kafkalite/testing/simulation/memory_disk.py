"""A disk in memory: `kafkalite.storage.disk.Disk` with what a power failure does to it.

A process that is killed loses nothing, because what it wrote is the operating system's. `lose_power` takes back what was not brought to
the medium, as far as chance decides: of the writes to each file since its last `sync` the first ones stay, the last of them perhaps torn;
of the changes of names since the last `sync` of a directory the first ones stay (file systems with a journal keep their order). What
`replace` wrote is whole wherever its name is there. A disk may also be `full`, `fail` operations, and `swap_back` what a file was before
its last `replace`. After a power failure, and at the start, no file is in memory: `read_in_memory`
gives None until something was read from it or written to it.
"""

from __future__ import annotations

import errno
import os
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol, TypeAlias

from kafkalite.clock import Clock
from kafkalite.storage.disk import Entry, File, Lock
from kafkalite.types import Buffer

_CAPACITY_BYTES: Final = 1 << 40
_FILES_MAX: Final = 1 << 16
HOLES: Final = 2
"""Of three torn writes one is as long as it was, and reads as zeros behind what arrived: its length was on the medium already."""

OnWrite: TypeAlias = Callable[[str, int, bytes], None]
"""Called with the path by which a file was opened, a position, and what is written there."""


class Chance(Protocol):
    """What decides how much a power failure leaves: `random.Random`, or somebody who knows."""

    def randint(self, a: int, b: int, /) -> int:
        """Return a number from a to b, both included."""


@dataclass(slots=True, eq=False)
class _FileNode:
    number: int
    content: bytearray
    modified_ms: int
    changed_ms: int
    in_memory: bool = True
    unsynced: list[tuple[int, bytes, bool]] = field(default_factory=list)
    """Undoes each change: from this position on, the file ended with these bytes; True for a write."""


@dataclass(slots=True, eq=False)
class _DirectoryNode:
    number: int
    modified_ms: int
    changed_ms: int
    entries: dict[str, _Node] = field(default_factory=dict)


_Node: TypeAlias = _FileNode | _DirectoryNode
_NameChange: TypeAlias = tuple[tuple[_DirectoryNode, str, _Node | None], ...]
"""What each name in a directory stood for before."""


@dataclass(slots=True, eq=False)
class _OpenFile:
    _disk: MemoryDisk
    _path: str
    _node: _FileNode | None

    def _open_node(self) -> _FileNode:
        if self._node is None:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))
        return self._node

    def write_at(self, position: int, buffers: Sequence[Buffer]) -> None:
        self._disk.write(self._open_node(), self._path, position, b"".join(buffers))

    def read_at(self, position: int, size: int) -> bytes:
        node = self._open_node()
        self._disk.may_read(self._path)
        node.in_memory = True
        return bytes(node.content[position : position + size])

    def read_in_memory(self, position: int, size: int) -> bytes | bytearray | None:
        node = self._open_node()
        return node.content[position : position + size] if node.in_memory else None

    def truncate(self, size: int) -> None:
        self._disk.truncate(self._open_node(), size)

    def size(self) -> int:
        return len(self._open_node().content)

    def close(self) -> None:
        self._open_node()
        self._node = None


@dataclass(slots=True)
class _MemoryLock:
    _disk: MemoryDisk
    _path: str

    def release(self) -> None:
        self._disk.locks.pop(self._path, None)


class MemoryDisk:
    """A disk in memory that can lose power. Paths are absolute; `process_ended` releases the `locks` of a killed process."""

    def __init__(self, clock: Clock, on_write: OnWrite = lambda path, position, data: None) -> None:
        self.locks: dict[str, None] = {}
        self.full = False
        """Writes are refused with ENOSPC, after some of their bytes were written."""
        self.gone = False
        """The process that used it is dead: what is unwound of it changes nothing."""
        self._failing: dict[str, None] = {}
        self._replaced: dict[str, bytes] = {}
        self._clock = clock
        self._on_write = on_write
        self._boots = 1
        """Starts of the machine."""
        self._files_made = 0
        self._root = self._make_directory()
        self._unsynced_names: list[_NameChange] = []
        self._unsynced_files: dict[_FileNode, None] = {}

    # kafkalite.storage.disk.Disk

    def open(self, path: str, *, create: bool = False) -> File:
        directory, name = self._parent(path)
        node = directory.entries.get(name)
        if node is None:
            if not create:
                raise _error(errno.ENOENT, path)
            node = self._make_file(b"")
            self._change_names((directory, name, node))
        return _OpenFile(self, path, _file(node, path))

    def read(self, path: str) -> bytes:
        self._may("read", path)
        node = _file(self._find(path), path)
        node.in_memory = True
        return bytes(node.content)

    def replace(self, path: str, content: bytes, *, durable: bool = True, only_for_owner: bool = False) -> None:
        self._may("write", path)
        directory, name = self._parent(path)
        before = directory.entries.get(name)
        if isinstance(before, _DirectoryNode):
            raise _error(errno.EISDIR, path)
        if self.full:
            raise _error(errno.ENOSPC, path)
        if before is not None:
            self._replaced[path] = bytes(before.content)
        self._on_write(path, 0, content)
        self._change_names((directory, name, self._make_file(content)))
        if durable:
            self._unsynced_names.clear()

    def list(self, path: str) -> list[Entry]:
        return [_entry(name, node) for name, node in _directory(self._find(path), path).entries.items()]

    def status(self, path: str) -> Entry:
        return _entry(os.path.basename(path), self._find(path))

    def exists(self, path: str) -> bool:
        try:
            self._find(path)
        except OSError:
            return False
        return True

    def make_directory(self, path: str) -> None:
        node: _Node = self._root
        for name in _names(path):
            directory = _directory(node, path)
            if name not in directory.entries:
                self._change_names((directory, name, self._make_directory()))
            node = directory.entries[name]
        if isinstance(node, _FileNode):
            raise _error(errno.EEXIST, path)

    def rename(self, path: str, new_path: str) -> None:
        self._may("write", path)
        node = self._find(path)
        old_parent, old_name = self._parent(path)
        new_parent, new_name = self._parent(new_path)
        target = new_parent.entries.get(new_name)
        if target is node:
            return
        if isinstance(target, _DirectoryNode) and isinstance(node, _FileNode):
            raise _error(errno.EISDIR, new_path)
        if isinstance(target, _DirectoryNode) and target.entries:
            raise _error(errno.ENOTEMPTY, new_path)
        if isinstance(target, _FileNode) and isinstance(node, _DirectoryNode):
            raise _error(errno.ENOTDIR, new_path)
        self._change_names((old_parent, old_name, None), (new_parent, new_name, node))

    def remove(self, path: str) -> None:
        self._take_away(path, wants_directory=False)

    def remove_tree(self, path: str) -> None:
        self._take_away(path, wants_directory=True)

    def room(self, path: str) -> tuple[int, int]:
        self._find(path)
        return _CAPACITY_BYTES, _CAPACITY_BYTES - _size(self._root)

    def files_max(self) -> int:
        return _FILES_MAX

    def set_modified(self, path: str, modified_ms: int) -> None:
        node = self._find(path)
        node.modified_ms, node.changed_ms = modified_ms, self._clock.now_ms()

    def sync(self, path: str) -> None:
        self._may("sync", path)
        node = self._find(path)
        if isinstance(node, _DirectoryNode):
            self._unsynced_names.clear()
        else:
            node.unsynced.clear()
            self._unsynced_files.pop(node, None)

    def lock(self, path: str, *, create: bool = True) -> Lock:
        self.open(path, create=create).close()
        if path in self.locks:
            raise BlockingIOError(errno.EAGAIN, "locked by another process", path)
        self.locks[path] = None
        return _MemoryLock(self, path)

    def file_id(self, path: str) -> str:
        return f"{self._boots}:{_file(self._find(path), path).number}"

    # faults

    def process_ended(self) -> None:
        """Release the locks of the process that used the disk, which is gone."""
        self.locks.clear()

    def lose_power(self, chance: Chance) -> None:
        """Keep what was brought to the medium, and of the rest what chance decides."""
        self.process_ended()
        self._boots += 1
        for node in self._unsynced_files:
            _lose_writes(node, chance)
        self._unsynced_files.clear()
        kept = chance.randint(0, len(self._unsynced_names))
        for change in reversed(self._unsynced_names[kept:]):
            for directory, name, before in change:
                _set_name(directory, name, before)
        self._unsynced_names.clear()
        _forget_memory(self._root)

    def fail(self, *operations: str) -> None:
        """Fail every `read` from the medium, `write` or `sync` from now on with EIO, as named; without a name none any more."""
        self._failing = dict.fromkeys(operations)

    def swap_back(self, chance: random.Random) -> str | None:
        """Let one file be again what it was before its last `replace`; its path, or None where there was no such file."""
        there = [path for path in self._replaced if self.exists(path)]
        if not there:
            return None
        path = chance.choice(there)
        _file(self._find(path), path).content[:] = self._replaced.pop(path)
        return path

    def may_read(self, path: str) -> None:
        """Raise OSError while reads from the medium fail."""
        self._may("read", path)

    def _may(self, operation: str, path: str) -> None:
        if operation in self._failing or self.gone:
            raise _error(errno.EIO, path)

    # what open files do

    def write(self, node: _FileNode, path: str, position: int, data: bytes) -> None:
        """Write bytes of an open file; those beyond the end are preceded by zeros."""
        self._may("write", path)
        size = len(node.content)
        if self.full:
            data = data[: len(data) // 2]
        self._on_write(path, position, data)
        self._remember(node, min(position, size), was_write=True)
        if position > size:
            node.content += bytes(position - size)
        node.content[position : position + len(data)] = data
        node.modified_ms = node.changed_ms = self._clock.now_ms()
        if self.full:
            raise _error(errno.ENOSPC, path)

    def truncate(self, node: _FileNode, size: int) -> None:
        """Make a file shorter, or longer by zeros."""
        self._may("write", "")
        before = len(node.content)
        self._remember(node, min(size, before), was_write=False)
        del node.content[size:]
        node.content += bytes(max(0, size - before))
        node.modified_ms = node.changed_ms = self._clock.now_ms()

    def _remember(self, node: _FileNode, position: int, *, was_write: bool) -> None:
        node.unsynced.append((position, bytes(node.content[position:]), was_write))
        self._unsynced_files[node] = None

    # names

    def _make_file(self, content: bytes) -> _FileNode:
        self._files_made += 1
        now_ms = self._clock.now_ms()
        return _FileNode(self._files_made, bytearray(content), now_ms, now_ms)

    def _make_directory(self) -> _DirectoryNode:
        self._files_made += 1
        now_ms = self._clock.now_ms()
        return _DirectoryNode(self._files_made, now_ms, now_ms)

    def _find(self, path: str) -> _Node:
        node: _Node = self._root
        for name in _names(path):
            found = _directory(node, path).entries.get(name)
            if found is None:
                raise _error(errno.ENOENT, path)
            node = found
        return node

    def _parent(self, path: str) -> tuple[_DirectoryNode, str]:
        directory, name = os.path.split(path)
        return _directory(self._find(directory), path), name

    def _change_names(self, *changes: tuple[_DirectoryNode, str, _Node | None]) -> None:
        self._unsynced_names.append(
            tuple((directory, name, directory.entries.get(name)) for directory, name, _ in changes)
        )
        for directory, name, node in changes:
            _set_name(directory, name, node)
            directory.modified_ms = directory.changed_ms = self._clock.now_ms()
            if node is not None:
                node.changed_ms = directory.changed_ms

    def _take_away(self, path: str, *, wants_directory: bool) -> None:
        self._may("write", path)
        try:
            directory, name = self._parent(path)
        except FileNotFoundError:
            return
        node = directory.entries.get(name)
        if node is None:
            return
        if isinstance(node, _DirectoryNode) is not wants_directory:
            raise _error(errno.ENOTDIR if wants_directory else errno.EISDIR, path)
        self._change_names((directory, name, None))


def _entry(name: str, node: _Node) -> Entry:
    version = (node.number, node.modified_ms * 1_000_000, node.changed_ms * 1_000_000)
    if isinstance(node, _DirectoryNode):
        return Entry(name, 0, node.modified_ms, True, version)
    return Entry(name, len(node.content), node.modified_ms, False, version)


def _lose_writes(node: _FileNode, chance: Chance) -> None:
    kept = chance.randint(0, len(node.unsynced))
    for number in reversed(range(kept, len(node.unsynced))):
        position, tail, was_write = node.unsynced[number]
        written = bytes(node.content[position:])
        node.content[position:] = tail
        if number == kept and was_write:
            torn = written[: chance.randint(0, len(written))]
            node.content[position : position + len(torn)] = torn
            if chance.randint(0, HOLES) == HOLES:
                node.content.extend(bytes(max(0, position + len(written) - len(node.content))))
    node.unsynced.clear()


def _forget_memory(node: _Node) -> None:
    if isinstance(node, _FileNode):
        node.in_memory = False
    else:
        for each in node.entries.values():
            _forget_memory(each)


def _size(node: _Node) -> int:
    return len(node.content) if isinstance(node, _FileNode) else sum(map(_size, node.entries.values()))


def _set_name(directory: _DirectoryNode, name: str, node: _Node | None) -> None:
    if node is None:
        directory.entries.pop(name, None)
    else:
        directory.entries[name] = node


def _names(path: str) -> list[str]:
    return [name for name in path.split("/") if name]


def _directory(node: _Node, path: str) -> _DirectoryNode:
    if isinstance(node, _FileNode):
        raise _error(errno.ENOTDIR, path)
    return node


def _file(node: _Node, path: str) -> _FileNode:
    if isinstance(node, _DirectoryNode):
        raise _error(errno.EISDIR, path)
    return node


def _error(number: int, path: str) -> OSError:
    return OSError(number, os.strerror(number), path)
