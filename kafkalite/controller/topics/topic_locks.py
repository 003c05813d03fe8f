"""Locks for concurrent requests that create, enlarge and delete topics: one for each name, shared by names that collide.

A request validates against the names that it read at its start, so each is notified of what the others have written since. Other
writers to ZooKeeper (old tools, a deposed controller) are not locked out; Apache Kafka has no such locks at all.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager

from kafkalite.controller.topics.topic_validation import TopicNames, metric_name
from zk.store import StoreError

ReadNames = Callable[[], Awaitable[tuple[Sequence[str], Sequence[str]]]]
"""Reads from ZooKeeper the names of the existing topics, and of those marked for deletion."""


class TopicLocks:
    """The locks by metric name, and the names that the requests under way validate against."""

    def __init__(self, read: ReadNames) -> None:
        self._read = read
        self._locks: dict[str, tuple[asyncio.Lock, int]] = {}
        """Locks by metric name, with the number of requests that hold or wait for each."""
        self._in_use: dict[TopicNames, bool] = {}
        """Names of the requests under way; True if they must be read again."""

    @asynccontextmanager
    async def track_names(self) -> AsyncIterator[TopicNames]:
        """Read the names for one request and keep them up to date until it ends. Raises StoreError."""
        names = TopicNames()
        self._in_use[names] = True  # from before they are read
        try:
            await self._refresh(names)
            yield names
        finally:
            del self._in_use[names]

    @asynccontextmanager
    async def lock(self, name: str, names: TopicNames | None = None) -> AsyncIterator[None]:
        """Lock a name and those that collide with it; `names` are up to date for them meanwhile. Raises StoreError.

        After a write with an unknown outcome all names are read again before their next use.
        """
        key = metric_name(name)
        lock, users = self._locks.get(key) or (asyncio.Lock(), 0)
        self._locks[key] = lock, users + 1
        try:
            async with lock:
                if names is not None and self._in_use[names]:
                    await self._refresh(names)
                yield
        except (StoreError, asyncio.CancelledError):
            self._in_use = dict.fromkeys(self._in_use, True)
            raise
        finally:
            lock, users = self._locks.pop(key)
            if users > 1:
                self._locks[key] = lock, users - 1

    def add_created(self, name: str) -> None:
        """Add a topic that exists to the names of all requests."""
        for names in self._in_use:
            names.add((name,))

    def add_marked(self, name: str) -> None:
        """Mark a topic as queued for deletion in the names of all requests."""
        for names in self._in_use:
            names.mark((name,))

    async def _refresh(self, names: TopicNames) -> None:
        self._in_use[names] = False
        try:
            existing, marked = await self._read()
        except BaseException:
            self._in_use[names] = True
            raise
        names.add(existing)
        names.mark(marked)
