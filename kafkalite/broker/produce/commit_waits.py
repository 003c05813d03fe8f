"""Produce requests of one turn that wait together for replicas: those of each partition until all their records are committed.

As a `DelayedProduce` for each partition, but with one timer for all that have the same timeout and without futures, for the fast path.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import NamedTuple

from kafkalite.broker.replication.action_queue import Done
from kafkalite.broker.replication.append_pace import AppendPace
from kafkalite.broker.replication.effects import AckWait
from kafkalite.broker.replication.partition import Partition
from kafkalite.errors import ErrorCode
from kafkalite.lifecycle import report


class _Waiting(NamedTuple):
    partition: Partition
    wait: AckWait | None
    done: Done
    requests: int


class CommitWaits:
    """The requests of one turn with one timeout. First `add` all, then `start`."""

    def __init__(self, timeout_ms: int, pace: AppendPace) -> None:
        self._timeout_ms, self._pace = timeout_ms, pace
        self._pending: dict[int, _Waiting] = {}
        self._added = 0
        self._timer: asyncio.TimerHandle | None = None

    def add(self, partition: Partition, required_offset: int, done: Done, requests: int) -> None:
        """Call `done(error)` once, for so many requests: at `required_offset`, or when that is never reached, or too late."""
        self._added += 1
        number = self._added
        self._pending[number] = _Waiting(partition, None, done, requests)
        self._pace.waiting += requests
        wait = partition.when_committed(required_offset, partial(self._complete, number))
        if wait is not None:
            self._pending[number] = _Waiting(partition, wait, done, requests)

    def start(self) -> None:
        """Start the timeout."""
        if self._pending:
            delay_s = max(0, self._timeout_ms) / 1000
            self._timer = asyncio.get_running_loop().call_later(delay_s, self._expire)

    def _complete(self, number: int, code: ErrorCode) -> None:
        found = self._pending.pop(number, None)
        if found is None:  # it timed out
            return
        self._pace.waiting -= found.requests
        if self._timer is not None and not self._pending:
            self._timer.cancel()
        found.done(code)

    def _expire(self) -> None:
        expired, self._pending = self._pending, {}
        for each in expired.values():
            self._pace.waiting -= each.requests
            try:
                if each.wait is not None:
                    each.partition.forget_wait(each.wait)
                each.done(ErrorCode.REQUEST_TIMED_OUT)
            except Exception as problem:
                report("a produce request could not be given up", problem)
