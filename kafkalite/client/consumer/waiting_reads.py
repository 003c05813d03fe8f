"""Reads of what is buffered that wait until there is something, for a time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection
from typing import TypeAlias, TypeVar

from kafkalite.types import TopicPartition

Piece = TypeVar("Piece")

ReadBuffer: TypeAlias = Callable[[int, Collection[TopicPartition] | None], dict[TopicPartition, list[Piece]]]
"""Reads up to so many records of these partitions, of all if None."""


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
