"""Producer ids for idempotent producers, handed out of blocks that ZooKeeper gives (1,000 ids each), through the controller.

With an inter.broker.protocol.version below 3.0 the broker takes its blocks from ZooKeeper itself, as Kafka does. The next block is
fetched when the current one is nearly used up.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

_PREFETCH_AT = 0.9


class ProducerIds:
    """See the module. `allocate()` gives (first id, number of ids) of a fresh block."""

    def __init__(self, allocate: Callable[[], Awaitable[tuple[int, int]]]) -> None:
        self._allocate = allocate
        self._next, self._end, self._prefetch_from = 0, 0, 0
        self._coming: asyncio.Task[tuple[int, int]] | None = None

    async def next(self) -> int:
        """An id that no producer of this cluster has had."""
        while self._next >= self._end:
            task = self._fetch()
            first, length = await asyncio.shield(task)
            if self._coming is task:  # the first of those who waited takes the block over
                self._coming = None
                self._next, self._end = first, first + length
                self._prefetch_from = first + int(length * _PREFETCH_AT)
        producer_id = self._next
        self._next += 1
        if self._next >= self._prefetch_from:
            self._fetch()
        return producer_id

    def _fetch(self) -> asyncio.Task[tuple[int, int]]:
        failed = (
            self._coming is not None
            and self._coming.done()
            and (self._coming.cancelled() or self._coming.exception() is not None)
        )
        if self._coming is None or failed:
            self._coming = asyncio.get_running_loop().create_task(self._get(), name="a block of producer ids")
        return self._coming

    async def _get(self) -> tuple[int, int]:
        """What fails is the answer of whoever waits; the next request tries again."""
        return await self._allocate()
