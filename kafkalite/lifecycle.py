"""Background work with an owner: periodic jobs and event-driven tasks that are started, supervised and stopped together."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from kafkalite.errors import InvariantBroken

logger = logging.getLogger("kafkalite.lifecycle")


class Jobs:
    """Tasks of one owner. A job that fails is logged and goes on at its next turn; a broken invariant is passed to `fatal`."""

    def __init__(self, fatal: Callable[[str], None]) -> None:
        self._fatal = fatal
        self._tasks: set[asyncio.Task[Any]] = set()

    def every(
        self, interval_s: float, name: str, job: Callable[[], Awaitable[None] | None], first_s: float | None = None
    ) -> None:
        """Run `job` every `interval_s` seconds, for the first time after `first_s`."""
        self.spawn(self._repeat(interval_s, interval_s if first_s is None else first_s, name, job), name)

    def spawn(self, coroutine: Coroutine[Any, Any, Any], name: str) -> asyncio.Task[Any]:
        """Run a coroutine until it ends or `stop`."""
        task = asyncio.get_running_loop().create_task(self._guarded(coroutine, name), name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def stop(self) -> None:
        """Cancel everything and wait for it to end."""
        tasks = tuple(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _repeat(
        self, interval_s: float, first_s: float, name: str, job: Callable[[], Awaitable[None] | None]
    ) -> None:
        await asyncio.sleep(first_s)
        while True:
            try:
                result = job()
                if inspect.isawaitable(result):
                    await result
            except (asyncio.CancelledError, InvariantBroken):
                raise
            except Exception:
                logger.exception("%s failed; it is tried again in %g s", name, interval_s)
            await asyncio.sleep(interval_s)

    async def _guarded(self, coroutine: Coroutine[Any, Any, Any], name: str) -> Any:
        try:
            return await coroutine
        except InvariantBroken as problem:
            self._fatal(f"invariant broken in {name}: {problem}")
        except asyncio.CancelledError:
            raise
        except Exception:
            logger.exception("%s failed", name)
        return None
