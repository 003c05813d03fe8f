"""An asyncio loop on a thread of its own, shared by everything of the process that blocks on coroutines: blocking clients, locks.

The thread starts with the first user and ends with the last. After a fork the child starts its own. What takes no waiting may be done on
another thread while the loop stands still (`at_once`, `loop_turns`).
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import CancelledError
from contextlib import suppress
from typing import Any, TypeVar

from kafkalite.client.blocking.loop_turns import LoopTurns, YieldingSelector
from kafkalite.client.errors import ClientClosedError
from kafkalite.lifecycle import end_tasks

Result = TypeVar("Result")


class LoopThread:
    """An event loop on a thread, one per process. `acquire` returns it and counts a user; `release` ends the thread after the last."""

    _lock = threading.Lock()
    _shared: LoopThread | None = None

    def __init__(self) -> None:
        self.turns = LoopTurns()
        self.loop = asyncio.SelectorEventLoop(YieldingSelector(self.turns))
        self._pid = os.getpid()
        self._users = 0
        self._entry = threading.RLock()
        self._is_ended = False
        """True once nothing more is called; changed under `_entry`."""
        self._thread = threading.Thread(target=self._run, name="kafkalite-client", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        self.turns.begin()
        self.loop.run_forever()
        with self._entry:
            self._is_ended = True
        self.loop.run_until_complete(self._end_calls())
        self.loop.close()
        self.turns.end()

    async def _end_calls(self) -> None:
        """Cancel what other threads still wait for."""
        await end_tasks(asyncio.all_tasks() - {asyncio.current_task()})

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
        """True on the loop's own thread, where callbacks run, and in functions of the program that `at_once` calls."""
        return threading.current_thread() is self._thread or self.turns.holder == threading.get_ident()

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

        ClientClosedError where the last user releases the loop meanwhile; RuntimeError on the loop's own thread.
        """
        self.check_caller(coroutine)
        is_done = threading.Lock()
        is_done.acquire()
        tasks: list[asyncio.Task[Result]] = []

        def start() -> None:
            tasks.append(self.loop.create_task(coroutine))
            tasks[0].add_done_callback(end)

        def end(task: asyncio.Task[Result]) -> None:
            if not task.cancelled():
                task.exception()  # which nobody asks for after an interrupt
            is_done.release()

        def cancel() -> None:
            if tasks:
                tasks[0].cancel()
            else:
                coroutine.close()  # the interrupt came before the loop heard of it

        try:
            self._call_soon(start)
            is_done.acquire()
        except ClientClosedError:
            coroutine.close()
            raise
        except BaseException:
            with suppress(ClientClosedError):
                self._call_soon(cancel)
            raise
        if tasks[0].cancelled():
            raise ClientClosedError("the client") if self._is_ended else CancelledError
        return tasks[0].result()

    def _call_soon(self, callback: Callable[[], None]) -> None:
        """Have the loop call it. ClientClosedError once the last user has released the loop, which would never call it."""
        with self._entry:
            if self._is_ended:
                raise ClientClosedError("the client")
            self.loop.call_soon_threadsafe(callback)

    def at_once(self, function: Callable[[], Result], otherwise: Result) -> Result:
        """Return what `function` returns, called on this thread while the loop stands still; `otherwise` where it does not soon.

        The function has no running loop, and leaves what is to be done by the loop to `call_soon_threadsafe`. Wherever a signal handler
        raises in it, it must leave things in order.
        """
        turns = self.turns
        try:
            if not turns.enter() or turns.holder:
                return otherwise
            turns.holder = threading.get_ident()
            try:
                return function()
            finally:
                turns.holder = 0
        finally:
            try:
                turns.lock.release()
            except RuntimeError:  # not acquired
                pass

    def call_function(self, function: Callable[[], Result]) -> Result:
        """Run a plain function on the loop; callbacks may do so too."""
        if self.is_current:
            return function()

        async def run() -> Result:
            return function()

        return self.call(run())
