"""Schedule of the garbage collector: it runs seldom, and over all objects between long requests, not during them.

Next to nothing here is garbage, because what a request needs is freed by counts of references. Still Python looks at young objects
whenever there are 700 more of them than were freed meanwhile, and while a thousand connections come and go that takes 5 ms twenty times
a second: the young ones are then 30,000, most of them alive. So it looks when there are `_YOUNG` more. Where these are few, but hold
much, a timer has them looked at, each second at most.

At older objects Python looks whenever enough were made, and takes 0.1 s for half a million, in which the loop stands still: a request that
names very much makes as many, and a thousand connections are still there at the second look; none of them is garbage. So these collections
are left to the timer, all generations at once and seldom, and wait for as long as long requests are in progress, at most a minute.

After a collection, whoever began it, the timer begins none until it was a five-hundredth of the time. A collection of 10 ms lets one of
those wait who ask each 10 ms, so it is nobody's p99.

What a collection of all generations found alive is set aside (`gc.freeze`), so that the next one looks at what was made since: of a hundred
thousand partitions it would take a second, in which nobody is served. What was set aside is looked at as well as seldom as that it takes a
five-thousandth of the time.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable
from time import perf_counter
from typing import Final, Literal, TypeAlias

_YOUNG: Final = 60_000
"""A collection of so many takes 7 to 30 ms, as they lie in memory; a flood of logins by a thousand clients makes one in five seconds."""
_FEW: Final = 700
"""Fewer young objects than this are not worth a collection by the timer."""
_FULL_AFTER: Final = 30
"""Collections of young objects, until all are looked at."""
_LOOK_S: Final = 1.0
_MANY_PORTIONS: Final = 20
"""Portions of long work in the time between two looks after which more are expected: a controller's requests come one after the other."""
_WAIT_S: Final = 60.0
_SHARE: Final = 0.002
_SHARE_OF_EVERYTHING: Final = 0.0002
_NEVER: Final = 1 << 30

Callback: TypeAlias = Callable[[Literal["start", "stop"], dict[str, int]], object]


class GarbageCollections:
    """The schedule from `start`, before a broker opens its logs, to `stop`.

    `is_busy` tells of long requests, `portions` how many portions of such were done until now, `now_s` of the time that a collection takes.
    """

    def __init__(
        self,
        is_busy: Callable[[], bool],
        portions: Callable[[], int],
        now_s: Callable[[], float] = perf_counter,
        collect: Callable[[int], object] = gc.collect,
        counts: Callable[[], tuple[int, int, int]] = gc.get_count,
        callbacks: list[Callback] = gc.callbacks,
        freeze: Callable[[], object] = gc.freeze,
        unfreeze: Callable[[], object] = gc.unfreeze,
    ) -> None:
        self._is_busy, self._portions, self._now_s, self._counts = is_busy, portions, now_s, counts
        self._collect, self._freeze, self._unfreeze, self._callbacks = collect, freeze, unfreeze, callbacks
        self._portions_before = 0
        self._thresholds = gc.get_threshold()
        self._began_s = self._took_s = self._not_before_s = self._everything_not_before_s = 0.0
        self._due_since_s: float | None = None
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        gc.set_threshold(_YOUNG, _NEVER, _NEVER)
        self._callbacks.append(self._collecting)
        self._schedule_check()

    def stop(self) -> None:
        gc.set_threshold(*self._thresholds)
        self._callbacks.remove(self._collecting)
        self._unfreeze()
        if self._timer is not None:
            self._timer.cancel()

    def _schedule_check(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(_LOOK_S, self._collect_if_due)

    def _collect_if_due(self) -> None:
        self._schedule_check()
        now_s, (young, collections, _) = self._now_s(), self._counts()
        before, self._portions_before = self._portions_before, self._portions()
        is_busy = self._is_busy() or self._portions_before > before + _MANY_PORTIONS
        if (young < _FEW and collections <= _FULL_AFTER) or now_s < self._not_before_s:
            return
        if self._due_since_s is None:
            self._due_since_s = now_s
        if is_busy and now_s - self._due_since_s < _WAIT_S:
            return
        if collections > _FULL_AFTER:
            self._collect_old()
        else:
            self._collect(0)
        self._due_since_s = None

    def _collect_old(self) -> None:
        """Look at what was made since the last time, or at everything if it is time for that, and set aside what is alive."""
        is_everything = self._now_s() >= self._everything_not_before_s
        if is_everything:
            self._unfreeze()
        self._collect(2)
        self._freeze()
        if is_everything:
            self._everything_not_before_s = self._now_s() + self._took_s / _SHARE_OF_EVERYTHING

    def _collecting(self, phase: Literal["start", "stop"], _: dict[str, int]) -> None:
        """Called by Python before and after each collection."""
        now_s = self._now_s()
        if phase == "start":
            self._began_s = now_s
        else:
            self._took_s = now_s - self._began_s
            self._not_before_s = now_s + self._took_s / _SHARE
