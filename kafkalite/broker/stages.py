"""Times of the stages of a broker's start and stop, for `kafkalite broker --timings`.

A stage ends where the next begins; noting one costs a microsecond, so it is done whether anybody asks or not.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

_STARTED_FIELD: Final = 19
"""Field behind the name in /proc/self/stat: when the process began, in ticks since the machine did."""


class Stage(NamedTuple):
    """Seconds by the clock, and of the processor in all threads."""

    name: str
    wall_s: float
    cpu_s: float


class Stages:
    """Times of the stages of a start.

    The first stage begins with this object, unless `since` says how long ago, by the clock and the processor.
    """

    def __init__(
        self,
        now_s: Callable[[], float] = time.perf_counter,
        cpu_s: Callable[[], float] = time.process_time,
        since: tuple[float, float] = (0.0, 0.0),
    ) -> None:
        self._now_s, self._cpu_s = now_s, cpu_s
        self._began = now_s() - since[0], cpu_s() - since[1]
        self.passed: list[Stage] = []

    def end(self, name: str) -> None:
        """End a stage of this name, which began with the last call."""
        before, self._began = self._began, (self._now_s(), self._cpu_s())
        self.passed.append(Stage(name, self._began[0] - before[0], self._began[1] - before[1]))

    def begin(self) -> None:
        """Begin a stage now; the time since the last call belongs to none."""
        self._began = self._now_s(), self._cpu_s()

    def table(self) -> str:
        """Return the stages since the last table as text, with their sum."""
        told, self.passed = self.passed, []
        total = Stage("together", sum(each.wall_s for each in told), sum(each.cpu_s for each in told))
        rows = [f"{each.name:40}{each.wall_s * 1000:8.0f} ms{each.cpu_s * 1000:12.0f} ms" for each in (*told, total)]
        return "\n".join([f"{'stage':40}{'clock':>11}{'processor':>15}", *rows])


def since_process_began() -> tuple[float, float]:
    """Return the age of this process and the processor time that it has used, in seconds; the latter twice where the age is unknown."""
    used_s = time.process_time()
    try:
        fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
        began_s = int(fields[_STARTED_FIELD]) / os.sysconf("SC_CLK_TCK")
        return time.clock_gettime(time.CLOCK_BOOTTIME) - began_s, used_s
    except (OSError, AttributeError):
        return used_s, used_s
