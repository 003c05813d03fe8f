"""Requests that create, enlarge and delete topics at the same time: those for one name, or for names that collide, take turns.

What a request checks before it writes is what it read when it began, so each learns what the others have written since. Others who write
to ZooKeeper (old tools, a controller that has just been succeeded) are not waited for, as in Apache Kafka, which waits for nobody.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager

from kafkalite.controller.topics.topic_validation import TopicNames, metric_name
from zk.store import StoreError

ReadNames = Callable[[], Awaitable[tuple[Sequence[str], Sequence[str]]]]
"""Gives the names of the topics that exist, and of those that are marked for deletion, as ZooKeeper has them."""


class TopicLocks:
    """See the module."""

    def __init__(self, read: ReadNames) -> None:
        self._read = read
        self._locks: dict[str, tuple[asyncio.Lock, int]] = {}
        """By metric name, with how many hold or wait for it."""
        self._in_use: dict[TopicNames, bool] = {}
        """Of the requests under way, with whether they must be read again."""

    @asynccontextmanager
    async def track_names(self) -> AsyncIterator[TopicNames]:
        """The names as they are, kept true until the request ends. StoreError."""
        names = TopicNames()
        self._in_use[names] = True  # from before they are read
        try:
            await self._refresh(names)
            yield names
        finally:
            del self._in_use[names]

    @asynccontextmanager
    async def lock(self, name: str, names: TopicNames | None = None) -> AsyncIterator[None]:
        """Hold all topics with this name or a colliding one; `names` hold for them until the end. StoreError.

        When a write of somebody's ends with an unknown outcome, `names` are read again by whoever needs them next.
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
        """A topic exists now, or is known to exist."""
        for names in self._in_use:
            names.add((name,))

    def add_marked(self, name: str) -> None:
        """A topic is being deleted now."""
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
