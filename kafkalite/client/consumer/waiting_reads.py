"""Reads of what is buffered: at once, or waiting until there is something, for a time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection
from typing import TypeAlias, TypeVar

from kafkalite.client.consumer.fetch_buffer import FetchBuffer
from kafkalite.client.consumer.fetcher import Fetcher
from kafkalite.client.consumer.large_batches import LargeBatches
from kafkalite.types import TopicPartition

Piece = TypeVar("Piece")

ReadBuffer: TypeAlias = Callable[[int, Collection[TopicPartition] | None], dict[TopicPartition, list[Piece]]]
"""Reads up to so many records of these partitions, of all if None."""


def _call(function: Callable[[], None]) -> None:
    function()


class BufferedReads:
    """Reads of the buffer, and what follows from them: large batches are opened, and freed room is filled.

    `call_soon` has `follow_up` called by the loop: at once on its thread, by `call_soon_threadsafe` on another one.
    """

    def __init__(self, buffer: FetchBuffer, large: LargeBatches, fetcher: Fetcher) -> None:
        self._buffer, self._large, self._fetcher = buffer, large, fetcher

    def follow_up(self) -> None:
        """Open what was deferred, and fetch into the room that there is."""
        self._large.open_deferred()
        self._fetcher.wake()

    def read(
        self,
        read: ReadBuffer[Piece],
        limit: int,
        only: Collection[TopicPartition] | None,
        call_soon: Callable[[Callable[[], None]], object] = _call,
    ) -> dict[TopicPartition, list[Piece]]:
        """Return what `read` finds. The fetcher hears of freed room only while it waits for some: another thread would be woken for it."""
        buffer = self._buffer
        buffered_bytes, has_failed = buffer.buffered_bytes, True
        try:
            found = read(limit, only)
            has_failed = False
            return found
        finally:
            is_wanted = buffer.buffered_bytes != buffered_bytes and (has_failed or self._fetcher.waits_for_reader)
            if is_wanted or buffer.deferred is not None:
                call_soon(self.follow_up)


async def read_within(
    timeout_ms: float,
    read: Callable[[], dict[TopicPartition, list[Piece]]],
    wait_for_news: Callable[[], Awaitable[None]],
) -> dict[TopicPartition, list[Piece]]:
    """Return what `read` finds, called again after each `wait_for_news` while that is nothing; {} after `timeout_ms`."""
    found = read()
    if not found and timeout_ms > 0:
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                while not found:
                    await wait_for_news()
                    found = read()
        except TimeoutError:
            pass
    elif not found:
        await asyncio.sleep(0)  # a caller that polls must not keep the fetcher from running
    return found
