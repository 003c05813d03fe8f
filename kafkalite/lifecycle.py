"""Background tasks with an owner, and the one place where unexpected errors end.

That place is the exception handler of the event loop, `UnexpectedErrors.handle`: asyncio calls it for callbacks and protocols that
raise and for tasks whose failure nobody took, `report` for everything that is caught on the way. Its rule: a broken invariant stops
the broker; anything else is logged with its traceback and counted. Whoever reports an error answers or retries what it was about:

- a request is answered with UNKNOWN_SERVER_ERROR (`broker.dispatch`), also when it waits (delayed fetches and produces),
- a periodic job goes on at its next turn, a job that must be done is tried again (`Jobs.every`, `Jobs.retry`),
- a task of `start_task` or `Jobs.spawn` ends, which its owner must be able to bear.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from typing import Any, Final, TypeVar

from kafkalite.backoff import Backoff
from kafkalite.errors import InvariantBroken

logger = logging.getLogger("kafkalite.lifecycle")

_T = TypeVar("_T")

RETRIES: Final = Backoff(100, 10_000)
"""Delays before failed background work is retried: 0.1 s, then twice as long each time, at most 10 s."""
_CANCEL_AGAIN_S: Final = 5.0


class UnexpectedErrors:
    """Handles and counts unexpected errors. `stop(reason)` is called when the broker cannot go on."""

    def __init__(self, stop: Callable[[str], None]) -> None:
        self._stop = stop
        self.count = 0
        """Errors that were no broken invariants."""

    def handle(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Handle an error; the function for `loop.set_exception_handler`."""
        problem, message = context.get("exception"), context["message"]
        if isinstance(problem, InvariantBroken):
            self._stop(f"invariant broken: {problem} ({message})")
        elif isinstance(problem, asyncio.CancelledError):
            pass  # asyncio's streams ask their tasks for an exception even when these were cancelled (Python 3.11)
        elif problem is None:
            logger.warning("%s", message)
        else:
            self.count += 1
            logger.error("%s", message, exc_info=problem)


def report(message: str, problem: BaseException) -> None:
    """Pass an unexpected error to the loop's exception handler; `message` says what failed."""
    asyncio.get_running_loop().call_exception_handler({"message": message, "exception": problem})


def start_task(coroutine: Coroutine[Any, Any, _T], name: str) -> asyncio.Task[_T]:
    """Start a task whose failure is reported as soon as it ends, also while somebody holds the task."""
    task = asyncio.get_running_loop().create_task(coroutine, name=name)
    task.add_done_callback(_report_failure)
    return task


def _report_failure(task: asyncio.Task[Any]) -> None:
    if not task.cancelled() and (problem := task.exception()) is not None:
        report(f"{task.get_name()} failed", problem)


async def end_tasks(tasks: Iterable[asyncio.Task[Any]]) -> None:
    """Cancel these tasks, in this order, and wait until all of them have ended.

    One that goes on, because what it awaits has swallowed the cancellation, is named and cancelled again every 5 s: the caller would wait
    for ever.
    """
    tasks = list(tasks)
    left = tasks
    while left:
        for task in left:
            task.cancel()
        await asyncio.wait(left, timeout=_CANCEL_AGAIN_S)
        left = [task for task in left if not task.done()]
        for task in left:
            logger.warning("%s was cancelled and goes on; it is cancelled again", task.get_name())
    for task in tasks:
        if not task.cancelled():
            task.exception()  # retrieved, so that nobody is warned


class Jobs:
    """Tasks of one owner, supervised and stopped together. A broken invariant ends any of them, and the broker."""

    def __init__(self) -> None:
        self._tasks: dict[asyncio.Task[Any], None] = {}

    def every(
        self, interval_s: float, name: str, job: Callable[[], Awaitable[None] | None], first_s: float | None = None
    ) -> None:
        """Run `job` every `interval_s` seconds, for the first time after `first_s`; one that fails is run again at its next turn."""
        self.spawn(self._repeat(interval_s, interval_s if first_s is None else first_s, name, job), name)

    def retry(self, job: Callable[[], Coroutine[Any, Any, None]], name: str) -> asyncio.Task[None]:
        """Run `job` until it has ended without an error, with a growing pause after each failure (`RETRIES`)."""
        return self.spawn(self._until_done(job, name), name)

    def spawn(self, coroutine: Coroutine[Any, Any, _T], name: str) -> asyncio.Task[_T]:
        """Run a coroutine until it ends or `stop`; for work that is harmless to lose when it fails."""
        task = start_task(coroutine, name)
        self._tasks[task] = None
        task.add_done_callback(self._tasks.pop)
        return task

    async def stop(self) -> None:
        """Cancel everything and wait for it to end."""
        await end_tasks(self._tasks)

    async def _repeat(
        self, interval_s: float, first_s: float, name: str, job: Callable[[], Awaitable[None] | None]
    ) -> None:
        await asyncio.sleep(first_s)
        while True:
            try:
                result = job()
                if inspect.isawaitable(result):
                    await result
            except InvariantBroken:
                raise
            except Exception as problem:
                report(f"{name} failed; it is tried again in {interval_s:g} s", problem)
            await asyncio.sleep(interval_s)

    async def _until_done(self, job: Callable[[], Coroutine[Any, Any, None]], name: str) -> None:
        failures = 0
        while True:
            try:
                return await job()
            except InvariantBroken:
                raise
            except Exception as problem:
                failures += 1
                delay_s = RETRIES.delay_ms(failures) / 1000
                report(f"{name} failed; it is tried again in {delay_s:g} s", problem)
                await asyncio.sleep(delay_s)
