"""The watches of one session, kept through changes of connection: which to arm again, and which events were missed."""

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
    """A one-shot watch; `present` is True if the znode existed when it was armed.

    `as_of_zxid` is the last zxid that the client had seen when the connection broke; None while the watch is armed.
    """

    kind: WatchKind
    path: str
    present: bool
    watchers: dict[Watcher, None] = field(default_factory=dict)
    as_of_zxid: int | None = None

    def find_missed_event(self, changed_zxid: int | None) -> EventType | None:
        """Return the event since `as_of_zxid`, if any; `changed_zxid` is the znode's mzxid (DATA) or pzxid, None when absent."""
        if changed_zxid is None:
            return EventType.DELETED if self.present else None
        if not self.present:
            return EventType.CREATED
        if self.as_of_zxid is not None and changed_zxid > self.as_of_zxid:
            return EventType.CHANGED if self.kind is WatchKind.DATA else EventType.CHILDREN
        return None


class WatchTable:
    """All watches of a session: which to arm again after a reconnection, and which events were missed, by the znodes' new stats."""

    def __init__(self) -> None:
        self._watches: dict[tuple[WatchKind, str], ArmedWatch] = {}

    def arm(self, kind: WatchKind, path: str, watcher: Watcher, *, present: bool) -> None:
        """Add a watch after its read was answered; a watcher added twice is called once."""
        watch = self._watches.setdefault((kind, path), ArmedWatch(kind, path, present))
        watch.watchers[watcher] = None

    def fire(self, event: WatchEvent) -> None:
        """Call and remove the watchers of an event."""
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
        """Disarm every watch; those that were not armed again since an earlier loss keep their older zxid."""
        for watch in self._watches.values():
            if watch.as_of_zxid is None:
                watch.as_of_zxid = last_zxid

    def list_disarmed(self) -> Iterator[ArmedWatch]:
        """Return the watches to be armed again."""
        return iter([watch for watch in self._watches.values() if watch.as_of_zxid is not None])

    def complete_rearm(self, watch: ArmedWatch, changed_zxid: int | None) -> None:
        """Note that a watch is armed again, and call its watchers if they missed an event."""
        if self._watches.get((watch.kind, watch.path)) is not watch:
            return
        missed = watch.find_missed_event(changed_zxid)
        if missed is not None:
            self.fire(WatchEvent(missed, watch.path))
        elif watch.kind is WatchKind.DATA or watch.present:
            watch.as_of_zxid = None

    def give_up(self, watch: ArmedWatch) -> None:
        """Call the watchers of a watch that cannot be armed again: they read and get the error, instead of waiting for ever."""
        if self._watches.get((watch.kind, watch.path)) is watch:
            event_type = EventType.CHANGED if watch.kind is WatchKind.DATA else EventType.CHILDREN
            self.fire(WatchEvent(event_type, watch.path))

    def clear(self) -> None:
        """Remove all watches at the end of the session."""
        self._watches.clear()
