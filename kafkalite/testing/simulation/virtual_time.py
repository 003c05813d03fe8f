"""Event loops on virtual time: the clock jumps to the next timer when nothing else is to be done, so waiting costs nothing and
runs repeat exactly.

There are no sockets, no threads and no signals. `run_in_executor` calls the function at once. A loop that has nothing left to wait for
would hang for ever, so it raises `Deadlock` instead. `run` is for one loop; `kafkalite.testing.simulation.processes` steps many that
share one `VirtualTime`.
"""

from __future__ import annotations

import asyncio
import contextvars
import heapq
from asyncio import base_events
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, Final, TypeVar

from kafkalite.lifecycle import UnexpectedErrors

T = TypeVar("T")

_EPOCH_MS: Final = 1_700_000_000_000
"""The wall time at which virtual time begins."""


class Deadlock(AssertionError):
    """Somebody waits for something that nobody will do."""


class VirtualTime:
    """What the clocks of all loops that share it show: seconds since the beginning."""

    def __init__(self) -> None:
        self.now_s = 0.0


class VirtualClock:
    """`kafkalite.clock.Clock` on virtual time, by default that of the running loop."""

    def __init__(self, time: VirtualTime | None = None) -> None:
        self.wall_offset_ms = 0
        """By how much the wall clock is wrong; monotonic time never is."""
        self._time = time

    def now_ms(self) -> int:
        return _EPOCH_MS + int(self.monotonic_ms()) + self.wall_offset_ms

    def monotonic_ms(self) -> float:
        now_s = asyncio.get_running_loop().time() if self._time is None else self._time.now_s
        return now_s * 1000


class _NoSockets:
    """Stands where the selector would be; `select` is how a loop waits."""

    def __init__(self, time: VirtualTime) -> None:
        self._time = time

    def select(self, timeout_s: float | None) -> list[Any]:
        if timeout_s is None:
            raise Deadlock("every task waits, and no timer is set")
        self._time.now_s += timeout_s
        return []


class VirtualTimeLoop(base_events.BaseEventLoop):
    """An event loop on virtual time, which begins at 0 unless it is shared."""

    _ready: Any
    _scheduled: list[asyncio.TimerHandle]
    _timer_cancelled_count: int

    def __init__(self, time: VirtualTime | None = None) -> None:
        super().__init__()
        self._time = time or VirtualTime()
        self._selector = _NoSockets(self._time)

    def time(self) -> float:
        return self._time.now_s

    def now_ms(self) -> float:
        """Return the virtual time in milliseconds, for code that takes a clock."""
        return self.time() * 1000

    def due_s(self) -> float | None:
        """Return the moment at which something is to be done next; None when nothing is."""
        if self._ready:
            return self.time()
        scheduled = self._scheduled
        while scheduled and scheduled[0].cancelled():
            self._timer_cancelled_count -= 1
            heapq.heappop(scheduled)._scheduled = False  # type: ignore[attr-defined]
        return scheduled[0].when() if scheduled else None

    def step(self) -> None:
        """Run what is due now, and nothing that it makes due."""
        self.stop()
        self.run_forever()

    def run_in_executor(self, executor: Any, func: Callable[..., Any], *args: Any) -> Any:  # type: ignore[override]
        future = self.create_future()
        try:
            future.set_result(func(*args))
        except Exception as problem:
            future.set_exception(problem)
        return future

    def _process_events(self, event_list: list[Any]) -> None:
        """Process nothing: nothing ever happens outside."""

    def _write_to_self(self) -> None:
        """Write nothing: there is no other thread that would have to wake this one."""


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
    """Run a scenario to its end in virtual time. AssertionError for an error that nobody expected (see `expected_errors`)."""
    seen = SeenErrors()
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        runner.get_loop().set_exception_handler(seen.handle)
        result = runner.run(scenario, context=contextvars.copy_context())
    for context in seen.contexts:
        raise AssertionError(context["message"]) from context.get("exception")
    return result


@contextmanager
def expected_errors() -> Iterator[SeenErrors]:
    """Handle what goes wrong within the scenario as in production, and let the scenario go on."""
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
