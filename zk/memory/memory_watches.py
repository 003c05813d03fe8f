"""The watches of a session with a ZooKeeper in memory, and the events of those that fired."""

from __future__ import annotations

from zk.listeners import notify
from zk.store import EventType, Watcher, WatchEvent

_CHILD_EVENTS = (EventType.CHILDREN, EventType.DELETED)


class MemoryWatches:
    """Armed watches by path, of data and of children, and events that have not reached their watchers yet."""

    def __init__(self) -> None:
        self.data: dict[str, dict[Watcher, None]] = {}
        self.children: dict[str, dict[Watcher, None]] = {}
        self._undelivered: list[tuple[Watcher, WatchEvent]] = []

    def disarm(self, event: WatchEvent) -> list[Watcher]:
        """Remove the watches that an event fires, and return their watchers, each once."""
        watchers: dict[Watcher, None] = {}
        if event.type is not EventType.CHILDREN:
            watchers |= self.data.pop(event.path, {})
        if event.type in _CHILD_EVENTS:
            watchers |= self.children.pop(event.path, {})
        return list(watchers)

    def keep(self, watcher: Watcher, event: WatchEvent) -> None:
        """Keep an event until it is delivered."""
        self._undelivered.append((watcher, event))

    def deliver_oldest(self) -> None:
        """Notify one watcher, unless all events were delivered or dropped meanwhile."""
        if self._undelivered:
            watcher, event = self._undelivered.pop(0)
            notify([watcher], event)

    def deliver_all(self) -> None:
        """Notify all watchers that have waited for a connection."""
        undelivered, self._undelivered = self._undelivered, []
        for watcher, event in undelivered:
            notify([watcher], event)

    def clear(self) -> None:
        """Drop everything, at the end of the session."""
        self.data.clear()
        self.children.clear()
        self._undelivered.clear()
