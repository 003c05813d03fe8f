"""An asyncio loop whose clock jumps to the next timer when nothing else is to be done: waiting costs nothing, and runs repeat exactly.

There are no sockets, no threads and no signals. `run_in_executor` calls the function at once. A loop that has nothing left to wait for
would hang for ever, so it raises `Deadlock` instead.
"""

from __future__ import annotations

import asyncio
import contextvars
from asyncio import base_events
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from kafkalite.lifecycle import UnexpectedErrors

T = TypeVar("T")


class Deadlock(AssertionError):
    """Somebody waits for something that nobody will do."""


class _NoSockets:
    """Stands where the selector would be; `select` is how a loop waits."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def select(self, timeout_s: float | None) -> list[Any]:
        if timeout_s is None:
            raise Deadlock("every task waits, and no timer is set")
        self.now_s += timeout_s
        return []


class VirtualTimeLoop(base_events.BaseEventLoop):
    """See the module. Time begins at 0."""

    def __init__(self) -> None:
        super().__init__()
        self._selector = _NoSockets()

    def time(self) -> float:
        return self._selector.now_s

    def now_ms(self) -> float:
        """The same in milliseconds, for code that takes a clock."""
        return self.time() * 1000

    def run_in_executor(self, executor: Any, func: Callable[..., Any], *args: Any) -> Any:  # type: ignore[override]
        future = self.create_future()
        try:
            future.set_result(func(*args))
        except Exception as problem:
            future.set_exception(problem)
        return future

    def _process_events(self, event_list: list[Any]) -> None:
        """Nothing ever happens outside."""

    def _write_to_self(self) -> None:
        """There is no other thread that would have to wake us."""


class SeenErrors(UnexpectedErrors):
    """Production's handler of unexpected errors, which also remembers them, and why the broker would have stopped."""

    def __init__(self) -> None:
        self.stopped: list[str] = []
        self.contexts: list[dict[str, Any]] = []
        super().__init__(self.stopped.append)

    def handle(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        if not isinstance(context.get("exception"), asyncio.CancelledError):
            self.contexts.append(context)
        super().handle(loop, context)


def run(scenario: Coroutine[Any, Any, T]) -> T:
    """Run a scenario to its end in virtual time; an error that nobody expected fails the test (see `expected_errors`)."""
    seen = SeenErrors()
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        runner.get_loop().set_exception_handler(seen.handle)
        result = runner.run(scenario, context=contextvars.copy_context())
    for context in seen.contexts:
        raise AssertionError(context["message"]) from context.get("exception")
    return result


@contextmanager
def expected_errors() -> Iterator[SeenErrors]:
    """Within a scenario: what goes wrong meanwhile is handled as in production, and the test goes on."""
    loop = asyncio.get_running_loop()
    usual, seen = loop.get_exception_handler(), SeenErrors()
    loop.set_exception_handler(seen.handle)
    try:
        yield seen
    finally:
        loop.set_exception_handler(usual)


async def settle() -> None:
    """Let everything happen that needs no time to pass."""
    for _ in range(20):
        await asyncio.sleep(0)
