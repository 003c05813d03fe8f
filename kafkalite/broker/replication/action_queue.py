"""Completions that one request causes for others, run after it in an event-loop iteration of their own (Kafka's DelayedActionQueue).

A follower's fetch commits what producers and coordinators wait for. Were they served within that fetch, their errors would be its
errors, and a coordinator would append to the partition whose high watermark is just moving. Actions run in the order in which they were
added; one that fails is reported and keeps none from running.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import TypeAlias

from kafkalite.errors import ErrorCode
from kafkalite.lifecycle import report

Done: TypeAlias = Callable[[ErrorCode], None]
"""Callback that receives the outcome of a wait."""


def _next_turn(run: Callable[[], None]) -> None:
    asyncio.get_running_loop().call_soon(run)


class ActionQueue:
    """The completions that are due, of all partitions. `schedule(run)` calls `run` soon, once for all that is added until then."""

    def __init__(self, schedule: Callable[[Callable[[], None]], object] = _next_turn) -> None:
        self._schedule = schedule
        self._actions: deque[tuple[Done, ErrorCode]] = deque()
        self._is_scheduled = False

    def add(self, done: Done, code: ErrorCode) -> None:
        """Call `done(code)` soon."""
        self._actions.append((done, code))
        if not self._is_scheduled:
            self._is_scheduled = True
            self._schedule(self._run)

    @property
    def is_empty(self) -> bool:
        """True if everything that was added has run, so that a direct call overtakes nothing."""
        return not self._actions

    def _run(self) -> None:
        """Run the actions that are queued now; what they add waits for the next iteration."""
        try:
            for _ in range(len(self._actions)):
                done, code = self._actions.popleft()
                try:
                    done(code)
                except Exception as problem:
                    report("a completion of an append failed", problem)
        finally:
            self._is_scheduled = bool(self._actions)
            if self._is_scheduled:
                self._schedule(self._run)
