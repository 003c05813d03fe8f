"""ZooKeeper's data tree in memory: znodes with stats, ephemerals and sequence numbers; no sessions, no watches."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from zk import paths
from zk.store import (
    ANY_VERSION,
    BadVersionError,
    Check,
    Create,
    Delete,
    EventType,
    NoChildrenForEphemeralsError,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    Operation,
    Result,
    RolledBackError,
    Stat,
    StoreError,
    WatchEvent,
    Write,
)

_Undo: TypeAlias = list[Callable[[], None]]


@dataclass(slots=True)
class _Znode:
    data: bytes
    czxid: int
    mzxid: int
    ctime_ms: int
    mtime_ms: int
    ephemeral_owner: int = 0
    version: int = 0
    cversion: int = 0
    children_created: int = 0
    children: set[str] = field(default_factory=set)

    def restorer(self) -> Callable[[], None]:
        """Return a function that restores the present data, version and time of change."""
        data, version, mzxid, mtime_ms = self.data, self.version, self.mzxid, self.mtime_ms

        def restore() -> None:
            self.data, self.version, self.mzxid, self.mtime_ms = data, version, mzxid, mtime_ms

        return restore

    def stat(self) -> Stat:
        return Stat(
            czxid=self.czxid,
            mzxid=self.mzxid,
            ctime_ms=self.ctime_ms,
            mtime_ms=self.mtime_ms,
            version=self.version,
            cversion=self.cversion,
            ephemeral_owner=self.ephemeral_owner,
            data_length=len(self.data),
            children_count=len(self.children),
        )


class ZnodeTree:
    """The znodes of a server, by paths that have passed `paths.check`.

    Each transaction, single operation or multi, takes one zxid, whether it succeeds or not, as on a server.
    """

    def __init__(self) -> None:
        self.zxid = 0
        self._znodes: dict[str, _Znode] = {"/": _Znode(b"", 0, 0, 0, 0)}

    def read(self, path: str) -> tuple[bytes, Stat]:
        """Return data and stat. Raises NoNodeError."""
        znode = self._find(path)
        return znode.data, znode.stat()

    def read_many(self, wanted: Sequence[str]) -> list[tuple[bytes, Stat] | None]:
        """Return data and stat of each znode, None for an absent one."""
        return [self.read(path) if path in self._znodes else None for path in wanted]

    def exists(self, path: str) -> Stat | None:
        znode = self._znodes.get(path)
        return None if znode is None else znode.stat()

    def children(self, path: str) -> list[str]:
        """Return the sorted names of the children. Raises NoNodeError."""
        return sorted(self._find(path).children)

    def ephemerals_of(self, session_id: int) -> list[str]:
        """Return the sorted paths of a session's ephemeral znodes."""
        return sorted(path for path, znode in self._znodes.items() if znode.ephemeral_owner == session_id)

    def walk(self) -> Iterator[tuple[str, bytes, Stat]]:
        """Yield every znode, in order of path."""
        for path in sorted(self._znodes):
            yield path, self._znodes[path].data, self._znodes[path].stat()

    def apply(
        self, operations: Sequence[Operation], session_id: int, now_ms: int
    ) -> tuple[list[Result], list[WatchEvent]]:
        """Carry out all operations or none, and return the results and the events for watches.

        When one fails, its result is its error and the others' are RolledBackError.
        """
        self.zxid += 1
        undo: _Undo = []
        results: list[Result] = []
        events: list[WatchEvent] = []
        for index, operation in enumerate(operations):
            try:
                results.append(self._apply_one(operation, session_id, now_ms, events, undo))
            except StoreError as error:
                for take_back in reversed(undo):
                    take_back()
                failed: list[Result] = [RolledBackError(other.path, "rolled back") for other in operations]
                failed[index] = error
                return failed, []
        return results, events

    def _apply_one(
        self,
        operation: Operation,
        session_id: int,
        now_ms: int,
        events: list[WatchEvent],
        undo: _Undo,
    ) -> Result:
        if isinstance(operation, Create):
            return self._create(operation, session_id, now_ms, events, undo)
        if isinstance(operation, Write):
            return self._write(operation, now_ms, events, undo)
        if isinstance(operation, Delete):
            self._delete(operation, events, undo)
        else:
            _check_version(operation, self._find(operation.path))
        return None

    def _create(
        self,
        operation: Create,
        session_id: int,
        now_ms: int,
        events: list[WatchEvent],
        undo: _Undo,
    ) -> str:
        path = operation.path
        parent_path = paths.parent(path)
        if path == "/":
            raise NodeExistsError(path, "the root is always there")
        parent = self._znodes.get(parent_path)
        if parent is None:
            raise NoNodeError(path, f"its parent {parent_path} is absent")
        if operation.sequence:
            path = f"{path}{parent.children_created:010d}"
        if path in self._znodes:
            raise NodeExistsError(path, "is there already")
        if parent.ephemeral_owner:
            raise NoChildrenForEphemeralsError(path, f"its parent {parent_path} is ephemeral")
        owner = session_id if operation.ephemeral else 0
        self._znodes[path] = _Znode(operation.data, self.zxid, self.zxid, now_ms, now_ms, owner)
        parent.children.add(paths.name(path))
        parent.cversion += 1
        parent.children_created += 1
        undo.append(lambda: self._take_back_create(path, parent))
        events.append(WatchEvent(EventType.CREATED, path))
        events.append(WatchEvent(EventType.CHILDREN, parent_path))
        return path

    def _take_back_create(self, path: str, parent: _Znode) -> None:
        del self._znodes[path]
        parent.children.remove(paths.name(path))
        parent.cversion -= 1
        parent.children_created -= 1

    def _write(self, operation: Write, now_ms: int, events: list[WatchEvent], undo: _Undo) -> Stat:
        znode = self._find(operation.path)
        _check_version(operation, znode)
        undo.append(znode.restorer())
        znode.data = operation.data
        znode.version += 1
        znode.mzxid = self.zxid
        znode.mtime_ms = now_ms
        events.append(WatchEvent(EventType.CHANGED, operation.path))
        return znode.stat()

    def _delete(self, operation: Delete, events: list[WatchEvent], undo: _Undo) -> None:
        path = operation.path
        if path == "/":
            raise NotEmptyError(path, "the root cannot be deleted")
        znode = self._find(path)
        _check_version(operation, znode)
        if znode.children:
            raise NotEmptyError(path, f"has {len(znode.children)} children")
        parent_path = paths.parent(path)
        parent = self._znodes[parent_path]
        del self._znodes[path]
        parent.children.remove(paths.name(path))
        parent.cversion += 1
        undo.append(lambda: self._take_back_delete(path, znode, parent))
        events.append(WatchEvent(EventType.DELETED, path))
        events.append(WatchEvent(EventType.CHILDREN, parent_path))

    def _take_back_delete(self, path: str, znode: _Znode, parent: _Znode) -> None:
        self._znodes[path] = znode
        parent.children.add(paths.name(path))
        parent.cversion -= 1

    def _find(self, path: str) -> _Znode:
        znode = self._znodes.get(path)
        if znode is None:
            raise NoNodeError(path, "is absent")
        return znode


def _check_version(operation: Write | Delete | Check, znode: _Znode) -> None:
    if operation.version not in (ANY_VERSION, znode.version):
        raise BadVersionError(operation.path, f"version is {znode.version}, expected {operation.version}")
