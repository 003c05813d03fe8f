"""The watches of one session, kept through changes of connection.

A server forgets a client's watches with the connection, and kazoo does not set them again as the Java client does. So
`WatchTable` remembers every watch that is armed, and after a reconnection says which must be armed again and, from the
znode's new stat, whether what it waits for has happened meanwhile. `as_of_zxid` is the last transaction that the client
had seen when the connection broke: whatever has a higher one happened since.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum

from zk.listeners import notify
from zk.store import EventType, Watcher, WatchEvent


class WatchKind(Enum):
    """DATA is of one znode's existence and data, CHILDREN of the names below it."""

    DATA = "data"
    CHILDREN = "children"


@dataclass(slots=True)
class ArmedWatch:
    """One-shot; `present` tells if the znode was there when it was armed."""

    kind: WatchKind
    path: str
    present: bool
    watchers: dict[Watcher, None] = field(default_factory=dict)
    as_of_zxid: int | None = None

    def missed(self, changed_zxid: int | None) -> EventType | None:
        """What happened since `as_of_zxid`; `changed_zxid` is the znode's mzxid (DATA) or pzxid, None when absent."""
        if changed_zxid is None:
            return EventType.DELETED if self.present else None
        if not self.present:
            return EventType.CREATED
        if self.as_of_zxid is not None and changed_zxid > self.as_of_zxid:
            return EventType.CHANGED if self.kind is WatchKind.DATA else EventType.CHILDREN
        return None


class WatchTable:
    """See the module."""

    def __init__(self) -> None:
        self._watches: dict[tuple[WatchKind, str], ArmedWatch] = {}

    def arm(self, kind: WatchKind, path: str, watcher: Watcher, *, present: bool) -> None:
        """A read with a watch was answered. The same watcher twice is called once."""
        watch = self._watches.setdefault((kind, path), ArmedWatch(kind, path, present))
        watch.watchers[watcher] = None

    def fire(self, event: WatchEvent) -> None:
        """Call, and forget, the watchers that wait for this."""
        kinds = {
            EventType.CHILDREN: (WatchKind.CHILDREN,),
            EventType.DELETED: (WatchKind.DATA, WatchKind.CHILDREN),
        }.get(event.type, (WatchKind.DATA,))
        watchers: dict[Watcher, None] = {}
        for kind in kinds:
            watch = self._watches.pop((kind, event.path), None)
            if watch is not None:
                watchers |= watch.watchers
        notify(watchers, event)

    def connection_lost(self, last_zxid: int) -> None:
        """Every watch is disarmed; those that were not armed again since an earlier loss keep their older zxid."""
        for watch in self._watches.values():
            if watch.as_of_zxid is None:
                watch.as_of_zxid = last_zxid

    def disarmed(self) -> Iterator[ArmedWatch]:
        """What must be armed again."""
        return iter([watch for watch in self._watches.values() if watch.as_of_zxid is not None])

    def rearmed(self, watch: ArmedWatch, changed_zxid: int | None) -> None:
        """A disarmed watch was armed again; calls its watchers if they missed something."""
        if self._watches.get((watch.kind, watch.path)) is not watch:
            return
        missed = watch.missed(changed_zxid)
        if missed is not None:
            self.fire(WatchEvent(missed, watch.path))
        elif watch.kind is WatchKind.DATA or watch.present:
            watch.as_of_zxid = None

    def give_up(self, watch: ArmedWatch) -> None:
        """A watch cannot be armed again: its watchers are called, to read again and meet the error, or they would wait for ever."""
        if self._watches.get((watch.kind, watch.path)) is watch:
            event_type = EventType.CHANGED if watch.kind is WatchKind.DATA else EventType.CHILDREN
            self.fire(WatchEvent(event_type, watch.path))

    def clear(self) -> None:
        """The session is over, and its watches with it."""
        self._watches.clear()
