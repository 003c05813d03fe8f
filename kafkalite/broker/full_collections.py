"""When the garbage collector looks at all objects: between long requests, not during them.

Python does so whenever enough objects were made, and takes 0.1 s for half a million, in which the loop stands still: a request that names
very much makes as many, and none of them is garbage. So these collections are left to a timer, which waits for as long as long requests are
in progress, at most a minute. They take half a hundredth of the time at most, however much there is to look at, so they are nobody's p99.
Collections of what is young cost little, and go on as before.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable
from time import perf_counter
from typing import Final

_LOOK_S: Final = 1.0
_WAIT_S: Final = 60.0
_SHARE: Final = 0.005
_NEVER: Final = 1 << 30


class FullCollections:
    """From `start` to `stop`. `is_busy` tells of long requests, `now_s` of the time that a collection takes."""

    def __init__(
        self,
        is_busy: Callable[[], bool],
        now_s: Callable[[], float] = perf_counter,
        collect: Callable[[], object] = gc.collect,
        counts: Callable[[], tuple[int, int, int]] = gc.get_count,
    ) -> None:
        self._is_busy, self._now_s, self._collect, self._counts = is_busy, now_s, collect, counts
        self._thresholds = gc.get_threshold()
        self._not_before_s = 0.0
        self._due_since_s: float | None = None
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        gc.set_threshold(*self._thresholds[:2], _NEVER)
        self._look_later()

    def stop(self) -> None:
        gc.set_threshold(*self._thresholds)
        if self._timer is not None:
            self._timer.cancel()

    def _look_later(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(_LOOK_S, self._look)

    def _look(self) -> None:
        self._look_later()
        now_s = self._now_s()
        if self._counts()[2] <= self._thresholds[2] or now_s < self._not_before_s:
            return
        if self._due_since_s is None:
            self._due_since_s = now_s
        if self._is_busy() and now_s - self._due_since_s < _WAIT_S:
            return
        self._collect()
        self._due_since_s = None
        took_s = self._now_s() - now_s
        self._not_before_s = now_s + took_s / _SHARE
