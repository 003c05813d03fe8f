"""Which loops of a simulation have something to do, so that finding the next one costs the same with five processes and with a hundred.

A loop is due while it has callbacks that are ready or a timer that has run out. Whoever gives it either calls `add` or `note_timer`; loops
that are due are kept in the order in which their processes were started, because the seed chooses by their place.
"""

from __future__ import annotations

import heapq
import math
from bisect import bisect_left
from typing import Any, Protocol

from kafkalite.testing.simulation.virtual_time import VirtualTime


class SteppedLoop(Protocol):
    """The loop of a process (`kafkalite.testing.simulation.processes.ProcessLoop`), as whoever chooses among loops knows it."""

    process: Any
    timers: list[tuple[float, int, Any]]
    is_due: bool
    _ready: Any

    def step(self) -> None:
        """Run what is due."""


class Turns:
    """The loops that are due, and the moments at which others will be. Loops of paused and dead processes are not among them."""

    def __init__(self, time: VirtualTime) -> None:
        self.due: list[tuple[int, SteppedLoop]] = []
        """Each with the place of its process in the order of starts."""
        self.rounds = 1
        """How often a loop whose turn it is does what it has made due itself. More cost less, and change the order only of what is done in
        one moment, in which processes do not hear of each other."""
        self._time = time
        self._moments: list[tuple[float, int, SteppedLoop]] = []
        """A heap of the first timer of each loop that is not due; what is not its first timer any more is passed over."""

    def add(self, loop: SteppedLoop) -> None:
        """Note that a loop has a callback that is ready."""
        process = loop.process
        if not loop.is_due and process.alive and not process.paused:
            loop.is_due = True
            entry = (process.place, loop)
            self.due.insert(bisect_left(self.due, entry[:1]), entry)

    def note_timer(self, loop: SteppedLoop) -> None:
        """Note that a loop has another first timer than before."""
        if not loop.is_due:
            at_s = loop.timers[0][0]
            if at_s <= self._time.now_s:
                self.add(loop)
            else:
                heapq.heappush(self._moments, (at_s, loop.process.place, loop))

    def remove(self, loop: SteppedLoop) -> None:
        """Take a loop out that is paused, dead, or has done what was due."""
        if loop.is_due:
            loop.is_due = False
            del self.due[bisect_left(self.due, (loop.process.place,))]

    def review(self, loop: SteppedLoop) -> None:
        """Note what a loop has to do after its turn, or when its process goes on after a pause."""
        timers, process = loop.timers, loop.process
        if not process.alive or process.paused:
            return
        if loop._ready or (timers and timers[0][0] <= self._time.now_s):
            self.add(loop)
        else:
            self.remove(loop)
            if timers:
                self.note_timer(loop)

    def find_next_s(self) -> float:
        """Return the moment at which the next loop will be due that is not yet; infinite when none will be."""
        moments = self._moments
        while moments:
            at_s, _, loop = moments[0]
            process, timers = loop.process, loop.timers
            if not loop.is_due and process.alive and not process.paused and timers and timers[0][0] == at_s:
                return at_s
            heapq.heappop(moments)
        return math.inf

    def add_due(self) -> None:
        """Add the loops whose timers have run out by now, because time has passed."""
        while self.find_next_s() <= self._time.now_s:
            self.add(heapq.heappop(self._moments)[2])
