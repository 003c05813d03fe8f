"""Work that grows with a request or with the cluster, cut into portions between which the event loop serves others.

Work is a generator that yields after each unit: a partition, a topic, a group, some microseconds of computing. Units are counted and not
timed, so that simulated runs repeat exactly. State may change between two portions: work iterates over a copy, and checks again at its
end what must still hold.

There is one portion in each turn of the loop, however many requests are in progress, and the oldest work is finished first: so the loop
is held for one portion only, and of a hundred large answers one is in memory half made, not a hundred. The units that work does before it
has to wait are bounded for each turn, too: when several works had to wait in a turn, later ones start in the next turns, before the works
that are known to be long.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Generator
from typing import Any, Final, TypeAlias, TypeVar

T = TypeVar("T")
PauseT = TypeVar("PauseT")

Work: TypeAlias = Generator[None, None, T]

AT_ONCE_UNITS: Final = 100
"""Units that are done without waiting: each of a hundred clients that ask at the same time may have as many."""
PORTION_UNITS: Final = 500
"""Units of a portion, which takes a few milliseconds: a unit takes at most some 20 µs."""
_LONG_AT_ONCE: Final = 8
"""After so many works of one turn that have to wait, the others of this turn do `_LITTLE_UNITS` before they wait."""
_LITTLE_UNITS: Final = 8


class Portions:
    """Runs works in portions. The caller awaits the end of its work; when the caller is cancelled, so is the rest of the work."""

    def __init__(self) -> None:
        self._waiting: deque[tuple[Work[Any], asyncio.Future[Any]]] = deque()
        self._fresh: deque[tuple[Work[Any], asyncio.Future[Any]]] = deque()
        """Works that may be short: less was done of them than `AT_ONCE_UNITS`."""
        self._at_once = AT_ONCE_UNITS
        self._begun = 0
        """Works that had to wait in this turn."""
        self._turn_is_due = False
        self._thread = asyncio.Lock()
        self.in_threads = 0
        """Functions that are under way in another thread, or wait for it."""
        self.turns = 0
        """Portions that were done after others had their turn, for metrics and tests."""

    @property
    def is_busy(self) -> bool:
        """True if some work is not done yet."""
        return bool(self._waiting or self._fresh)

    @property
    def works(self) -> int:
        """Return the number of long works that are not done yet."""
        return len(self._waiting)

    def run(self, work: Work[T]) -> T | asyncio.Future[T]:
        """Return the result of `work`, or a future of it when it is long. Raises what the work raises."""
        try:
            for _ in range(self._at_once):
                next(work)
        except StopIteration as end:
            result: T = end.value
            return result
        return self._queue(work, self._at_once < AT_ONCE_UNITS)

    async def finish(self, work: Work[T]) -> T:
        """Return the result of `work`. Raises what it raises."""
        result = self.run(work)
        return await result if isinstance(result, asyncio.Future) else result

    async def in_thread(self, function: Callable[[], T]) -> T:
        """Return the result of a function that cannot be cut, run in another thread, one at a time: a hundred of them would need a
        hundred times the memory, and the interpreter runs one of them at a time anyway. Raises what it raises.
        """
        self.in_threads += 1
        try:
            async with self._thread:
                return await asyncio.get_running_loop().run_in_executor(None, function)
        finally:
            self.in_threads -= 1

    def pace(self) -> Pace:
        """Return a pace for work that awaits something itself."""
        return Pace(self)

    def turn(self) -> asyncio.Future[None]:
        """Return a future that is done after the turns of those that waited before."""
        return self._queue(idle_units(0))

    def short_turn(self, units: int) -> asyncio.Future[None]:
        """Return a future for the turn of a work of about so many units, before works that are known to be long."""
        return self._queue(idle_units(min(units, AT_ONCE_UNITS - 1)), True)

    def _queue(self, work: Work[T], is_fresh: bool = False) -> asyncio.Future[T]:
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        (self._fresh if is_fresh else self._waiting).append((work, future))
        self._begun += 1
        if self._begun >= _LONG_AT_ONCE:
            self._at_once = _LITTLE_UNITS
        self._have_a_turn()
        return future

    def _have_a_turn(self) -> None:
        if self.is_busy and not self._turn_is_due:
            self._turn_is_due = True
            asyncio.get_running_loop().call_soon(self._portion)

    def _portion(self) -> None:
        self._turn_is_due = False
        self.turns += 1
        self._at_once, self._begun = AT_ONCE_UNITS, 0
        left = PORTION_UNITS
        while self._fresh and left > 0:
            each = self._fresh.popleft()
            left -= _advance(*each, AT_ONCE_UNITS)
            if not each[1].done():
                self._waiting.append(each)
        if self._waiting:
            _advance(*self._waiting[0], PORTION_UNITS)
            if self._waiting[0][1].done():
                self._waiting.popleft()
        self._have_a_turn()


class Pace:
    """Counts the units of one piece of work that awaits something itself."""

    __slots__ = ("_left", "_portions")

    def __init__(self, portions: Portions) -> None:
        self._portions, self._left = portions, AT_ONCE_UNITS

    async def unit(self, units: int = 1) -> None:
        """Wait, if necessary, before a unit, or before work of `units` of them."""
        if self._left <= 0:
            await self._portions.turn()
            self._left = PORTION_UNITS
        self._left -= units


def in_one_go(work: Work[T]) -> T:
    """Return the result of work that is known to be short."""
    try:
        while True:
            next(work)
    except StopIteration as end:
        result: T = end.value
        return result


def with_pauses(work: Work[T], units: int, pause: PauseT) -> Generator[PauseT, Any, T]:
    """Return the result of work, and yield a pause after so many units each: for procedures that are generators themselves."""
    try:
        while True:
            for _ in range(units):
                next(work)
            yield pause
    except StopIteration as end:
        result: T = end.value
        return result


def idle_units(count: int) -> Work[None]:
    """Do nothing for so many units; without units it only waits for a turn."""
    for _ in range(count):
        yield


def _advance(work: Work[Any], future: asyncio.Future[Any], units: int) -> int:
    """Do at most so many units, and return their number."""
    if future.done():  # nobody waits for it any more
        work.close()
        return 0
    left = units
    try:
        while left:
            left -= 1
            next(work)
    except StopIteration as end:
        future.set_result(end.value)
    except Exception as problem:
        future.set_exception(problem)
        del work, future  # a failure holds this frame in its traceback, and would hold itself
    return units - left
