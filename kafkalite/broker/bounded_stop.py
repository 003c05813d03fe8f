"""The stop of a broker, bounded as a whole: steps that have a share of the time, and words for what each of them waits for.

`kafkalite.shutdown.timeout.ms` bounds the stop. A step that takes longer than its share, or fails, is left behind and named as a problem,
and the next one begins: whatever hangs, the logs are closed while there is time. Every few seconds the log says which step is waited for,
and where the broker's tasks stand.

A `Watchdog` is for what no event loop can bound: a loop that is blocked, or threads that do not end. It is a thread of its own, which
ends the process.
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from collections.abc import Callable, Coroutine
from typing import Any, Final

from kafkalite.lifecycle import report

logger = logging.getLogger("kafkalite.broker.shutdown")

TELL_EVERY_S: Final = 5.0
STEP_SHARE: Final = 0.1
"""Share of the whole time for a step that waits only for tasks that end when they are cancelled."""
HAND_OVER_SHARE: Final = 0.5
LAST_SHARE: Final = 1.0
"""Share of a step that may take all the time left."""
_RESERVED_SHARE: Final = 0.25
"""Share that the steps before the last leave to it in any case."""
_LEAST_S: Final = 0.1
"""A step has so much even when the time is over: most take no time at all."""
_SHORTEST_S: Final = 0.001
"""Nobody waits for less, which may be too little to move a clock."""
_TASKS_TOLD: Final = 8
_LAST_WORDS_S: Final = 1.0


class UncleanStop(Exception):
    """The stop has come to its end, but some of its steps failed or were left behind; the message names them."""


class BoundedStop:
    """One stop, which begins now and is to take `timeout_s` at most. `problems` says what went wrong."""

    def __init__(self, timeout_s: float) -> None:
        self._timeout_s = timeout_s
        self._end_s = asyncio.get_running_loop().time() + timeout_s
        self.step_name = ""
        """The step in progress."""
        self.problems: list[str] = []

    async def step(self, name: str, work: Coroutine[Any, Any, object], share: float = STEP_SHARE) -> None:
        """Run a step of the stop within its share of the time. Log lines and `problems` call it `name`."""
        loop = asyncio.get_running_loop()
        self.step_name, began_s = name, loop.time()
        reserved_s = _RESERVED_SHARE * self._timeout_s if share < LAST_SHARE else 0.0
        limit_s = max(_LEAST_S, min(share * self._timeout_s, self._end_s - reserved_s - began_s))
        task = loop.create_task(work, name=f"stop: {name}")
        try:
            while not task.done() and (left_s := began_s + limit_s - loop.time()) > _SHORTEST_S:
                if (waited_s := limit_s - left_s) >= TELL_EVERY_S:
                    logger.warning("stopping: %s: waited for since %.0f s; %s", name, waited_s, summarize_tasks())
                await asyncio.wait([task], timeout=min(TELL_EVERY_S, left_s))
        finally:
            if not task.done():
                tasks = summarize_tasks()
                task.cancel()
        if not task.done():
            self.problems.append(f"{name}: not done within {limit_s:.0f} s")
            logger.error("stopping: %s: given up after %.0f s; %s", name, limit_s, tasks)
        elif task.cancelled():
            self.problems.append(f"{name}: cancelled")
        elif (problem := task.exception()) is not None:
            self._record_failure(name, problem)

    def call(self, name: str, function: Callable[[], object]) -> None:
        """Run a step of the stop that waits for nothing."""
        self.step_name = name
        try:
            function()
        except Exception as problem:
            self._record_failure(name, problem)

    def end(self) -> None:
        """Raise UncleanStop if anything went wrong."""
        if self.problems:
            raise UncleanStop("; ".join(self.problems))

    def _record_failure(self, name: str, problem: BaseException) -> None:
        self.problems.append(f"{name}: {problem!r}")
        report(f"stopping: {name} failed", problem)


def summarize_tasks() -> str:
    """Return the names of the tasks that have not ended, some of them, each with the place of its innermost await."""
    described = describe_tasks()
    more = f" and {len(described) - _TASKS_TOLD} more" if len(described) > _TASKS_TOLD else ""
    return f"tasks: {', '.join(described[:_TASKS_TOLD])}{more}"


def describe_tasks() -> list[str]:
    """Return "name in function:line" of each task but the current one, sorted."""
    current = asyncio.current_task()
    return sorted(f"{task.get_name()} in {_place(task)}" for task in asyncio.all_tasks() if task is not current)


def _place(task: asyncio.Task[Any]) -> str:
    """Return "function:line" of the innermost coroutine that a task awaits."""
    place = "?"
    awaited: Any = task.get_coro()
    while awaited is not None:
        frame = next((f for kind in ("cr", "gi", "ag") if (f := getattr(awaited, f"{kind}_frame", None))), None)
        if frame is not None:
            place = f"{frame.f_code.co_qualname}:{frame.f_lineno}"
        awaited = next(
            (a for a in (getattr(awaited, each, None) for each in ("cr_await", "gi_yieldfrom", "ag_await")) if a), None
        )
    return place


class Watchdog:
    """Ends the process when it has not ended by itself in time; the status is 1, or what `limit` was told."""

    def __init__(self, end_process: Callable[[int], object] = os._exit) -> None:
        self._end_process = end_process
        self._timer: threading.Timer | None = None

    def limit(self, timeout_s: float, tell: Callable[[], str], status: int = 1) -> None:
        """End the process after `timeout_s` with this status, unless this is called again or `cancel`; `tell()` is its last line."""
        self.cancel()
        self._timer = threading.Timer(timeout_s, self._end, (tell, status))
        self._timer.daemon = True
        self._timer.start()

    def cancel(self) -> None:
        """Stop the timer, because the process ends by itself."""
        if self._timer is not None:
            self._timer.cancel()

    def _end(self, tell: Callable[[], str], status: int) -> None:
        # In a thread again: whoever reads the log may have stopped reading, which may be what the event loop hangs in.
        telling = threading.Thread(target=lambda: os.write(2, f"{tell()}\n".encode()), daemon=True)
        telling.start()
        telling.join(_LAST_WORDS_S)
        self._end_process(status)
