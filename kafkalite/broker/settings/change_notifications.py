"""Notices of changes, sequential znodes below one parent: all that exist at start are taken, later the new ones in order.

Each is read once, however often the children change meanwhile. Those older than fifteen minutes are removed by whoever sees them (Kafka's
`ZkNodeChangeNotificationListener`).
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence

from kafkalite.clock import Clock
from kafkalite.errors import InvariantBroken
from kafkalite.lifecycle import Jobs, report
from zk import paths
from zk.session import Session
from zk.store import SessionExpiredError, Store, StoreError
from zk.watches import ChildrenChanged, ChildWatch
from zk.znodes import MalformedZnodeError

logger = logging.getLogger("kafkalite.broker.settings.change_notifications")

_PURGE_AFTER_MS = 15 * 60 * 1000
_READ_TOGETHER = 250
"""Notices that are read in one request."""


def _sequence(name: str) -> int:
    """Return the number that ZooKeeper gave the znode; -1 without one, for a znode that is no change."""
    try:
        return paths.sequence_number(name)
    except ValueError:
        return -1


class ChangeNotifications:
    """Reads the sequential znodes by which brokers notify each other of a change.

    `take(data)` is called for each notice below `parent`, and raises MalformedZnodeError for what is none.

    A child watch says what is `seen`.
    """

    def __init__(self, store: Store, clock: Clock, parent: str, take: Callable[[bytes], Awaitable[None]]) -> None:
        self._store, self._clock, self.parent, self._take_data = store, clock, parent, take
        self._names: Sequence[str] = ()
        self._looking = False
        self._taken: dict[str, int] = {}
        """The notices that are there and were taken, with the times of their creation (Unix ms)."""

    def watch(self, session: Session, jobs: Jobs) -> ChildWatch:
        """Return the watch under which notices are taken, by a job that is tried again. The caller starts and stops it."""

        def look(change: ChildrenChanged) -> None:
            if self.seen(change.names):
                jobs.retry(self.look, f"changes in {self.parent}")

        return ChildWatch(session, self.parent, look)

    def seen(self, names: Sequence[str]) -> bool:
        """Note the present children. True if `look` has to be called, False while it runs."""
        self._names = names
        begun, self._looking = self._looking, True
        return not begun

    async def look(self) -> None:
        """Take what is new, until there is nothing new.

        Raises StoreError when ZooKeeper did not answer; to be called again then. A change that cannot be taken for another reason
        is reported, and those behind it are taken all the same.
        """
        names: Sequence[str] | None = None
        while names is not self._names:
            names = self._names
            try:
                await self._look(names)
            except SessionExpiredError:
                continue  # the watch reads again under the next session, if it has not done so yet
        self._looking = False

    async def _look(self, names: Sequence[str]) -> None:
        there = set(names)
        self._taken = {name: since_ms for name, since_ms in self._taken.items() if name in there}
        new = sorted((each for each in names if each not in self._taken), key=_sequence)
        for first in range(0, len(new), _READ_TOGETHER):
            some = new[first : first + _READ_TOGETHER]
            znodes = await self._store.read_many([paths.child(self.parent, name) for name in some])
            for name, znode in zip(some, znodes, strict=True):
                try:
                    if znode is not None:
                        await self._take(name, znode[0])
                except (StoreError, InvariantBroken):
                    raise
                except Exception as problem:
                    report(f"the change {name} in {self.parent} failed", problem)
                self._taken[name] = self._clock.now_ms() if znode is None else znode[1].ctime_ms
        await self._purge()

    async def _take(self, name: str, data: bytes) -> None:
        try:
            await self._take_data(data)
        except MalformedZnodeError as problem:
            path = paths.child(self.parent, name)
            logger.warning("%s is ignored: %s; what it announced has to be announced again", path, problem)

    async def _purge(self) -> None:
        old_ms = self._clock.now_ms() - _PURGE_AFTER_MS
        for name in [name for name, since_ms in self._taken.items() if since_ms < old_ms]:
            try:
                await self._store.delete(paths.child(self.parent, name))
            except StoreError:
                continue
