"""An asyncio loop on a thread of its own, shared by everything of the process that blocks on coroutines: blocking clients, locks.

The thread starts with the first user and ends with the last. After a fork the child starts its own.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

Result = TypeVar("Result")


class LoopThread:
    """An event loop on a thread, one per process. `acquire` returns it and counts a user; `release` ends the thread after the last."""

    _lock = threading.Lock()
    _shared: LoopThread | None = None

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self._pid = os.getpid()
        self._users = 0
        self._thread = threading.Thread(target=self._run, name="kafkalite-client", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        self.loop.run_forever()
        self.loop.close()

    @classmethod
    def acquire(cls) -> LoopThread:
        """Return the process's loop thread, for one more user."""
        with cls._lock:
            if cls._shared is None or cls._shared._pid != os.getpid():
                cls._shared = cls()
            cls._shared._users += 1
            return cls._shared

    def release(self) -> None:
        """One user less; the last one ends the thread."""
        with self._lock:
            self._users -= 1
            if self._users:
                return
            if LoopThread._shared is self:
                LoopThread._shared = None
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()

    @property
    def is_current(self) -> bool:
        """True on the loop's own thread, where callbacks run."""
        return threading.current_thread() is self._thread

    def check_caller(self, coroutine: Coroutine[Any, Any, Any]) -> None:
        """Close `coroutine` and raise RuntimeError on the loop's own thread, which would wait for itself for ever."""
        if self.is_current:
            coroutine.close()
            name = getattr(coroutine, "__qualname__", "a call").partition(".<locals>")[0]
            raise RuntimeError(
                f"{name} waits for the thread on which it was called, that of callbacks; "
                "call it on another thread, or use the client for asyncio"
            )

    def call(self, coroutine: Coroutine[Any, Any, Result]) -> Result:
        """Run `coroutine` on the loop and return what it returns; an interrupt of the caller cancels it.

        RuntimeError on the loop's own thread.
        """
        self.check_caller(coroutine)
        future = asyncio.run_coroutine_threadsafe(coroutine, self.loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def call_function(self, function: Callable[[], Result]) -> Result:
        """Run a plain function on the loop; callbacks may do so too."""
        if self.is_current:
            return function()

        async def run() -> Result:
            return function()

        return self.call(run())
