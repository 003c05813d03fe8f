"""Waiting, on the event loop, for a condition on state that others change."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class ChangeSignal:
    """The owner of the state calls `notify`. Like `asyncio.Condition`, but without its lock, so that plain functions can call it."""

    def __init__(self) -> None:
        self._waiters: dict[asyncio.Future[None], Callable[[], bool]] = {}

    def notify(self) -> None:
        """Wake the waiters whose condition holds now."""
        for future, condition in tuple(self._waiters.items()):
            if not future.done() and condition():
                future.set_result(None)

    async def wait_until(self, condition: Callable[[], bool], timeout_s: float) -> bool:
        """True as soon as `condition()` holds, now or after some change; False when it does not in time."""
        if condition():
            return True
        if timeout_s <= 0:
            return False
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters[future] = condition
        try:
            async with asyncio.timeout(timeout_s):
                await future
            return True
        except TimeoutError:
            return False
        finally:
            del self._waiters[future]
