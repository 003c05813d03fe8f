"""What single records of `half_load --journeys` wait for, from the moment at which they are due to their acknowledgement.

The stations are those of `stamping_broker`, and of the producer's program. A leg is the time between two of them: what a record waits for
is what has to happen before it is at the next one.
"""

from __future__ import annotations

import statistics
from array import array
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Final, NamedTuple

from rich.table import Table

from tests.bench.stamping_broker import Station, read_doubles

LEGS: Final = (
    "the producer's program hands it over",
    "the leader has appended it",
    "both followers have appended it",
    "the leader has heard that, and commits it",
    "the producer's program hears of it",
)
"""What happens at the end of each leg."""

_FOLLOWERS: Final = 2
_MIDDLE: Final = (0.45, 0.55)
_SLOWEST: Final = (0.985, 0.995)


class Sent(NamedTuple):
    """A record of the producer: its place, and when it was due, handed to the client, and acknowledged, in seconds."""

    partition: int
    offset: int
    due_s: float
    handed_s: float
    acknowledged_s: float


class Passing:
    """When a log had which offsets: `passed_s(offset)` is the moment from which on it had the record."""

    def __init__(self) -> None:
        self._ends: list[float] = []
        self._moments_s: list[float] = []

    def note(self, end: float, moment_s: float) -> None:
        if not self._ends or end > self._ends[-1]:
            self._ends.append(end)
            self._moments_s.append(moment_s)

    def passed_s(self, offset: int) -> float | None:
        """None where it was never there."""
        place = bisect_right(self._ends, offset)
        return self._moments_s[place] if place < len(self._ends) else None


def read_sent(path: Path) -> list[Sent]:
    found = read_doubles(path)
    rows = zip(*(found[column::5] for column in range(5)), strict=True)
    return [Sent(int(partition), int(offset), *times) for partition, offset, *times in rows]


def legs_of(sent: Iterable[Sent], stamps: Sequence[array[float]]) -> list[tuple[float, ...]]:
    """Return for each record how long each leg took, in seconds; `stamps` are those of each broker. Those without all are left out."""
    passings: dict[tuple[Station, int], list[Passing]] = defaultdict(list)
    for broker in stamps:
        own: dict[tuple[Station, int], Passing] = {}
        for station, partition, end, moment_s in zip(*(broker[column::4] for column in range(4)), strict=True):
            own.setdefault((Station(int(station)), int(partition)), Passing()).note(end, moment_s)
        for key, passing in own.items():
            passings[key].append(passing)
    found = []
    for record in sent:
        moments = {
            station: sorted(
                moment_s
                for each in passings[station, record.partition]
                if (moment_s := each.passed_s(record.offset)) is not None
            )
            for station in Station
        }
        if not moments[Station.LEADER] or len(moments[Station.FOLLOWER]) < _FOLLOWERS or not moments[Station.COMMITTED]:
            continue
        stations_s = (
            record.due_s,
            record.handed_s,
            moments[Station.LEADER][0],
            moments[Station.FOLLOWER][_FOLLOWERS - 1],
            moments[Station.COMMITTED][0],
            record.acknowledged_s,
        )
        found.append(tuple(after_s - before_s for before_s, after_s in pairwise(stations_s)))
    return found


def shares(legs: Sequence[tuple[float, ...]], bounds: tuple[float, float]) -> list[float]:
    """Return the mean of each leg, in ms, of those records whose whole journey lies between two shares of all."""
    in_order = sorted(legs, key=sum)
    chosen = in_order[int(len(in_order) * bounds[0]) : int(len(in_order) * bounds[1])] or in_order[-1:]
    return [statistics.fmean(column) * 1e3 for column in zip(*chosen, strict=True)]


def table_of(legs: Sequence[tuple[float, ...]]) -> Table:
    """Return what a record waits for: one in the middle, and one of which 99 % are quicker."""
    table = Table("until", title="ms that a record waits", show_footer=True)
    middle, slow = shares(legs, _MIDDLE), shares(legs, _SLOWEST)
    for name, column in (("in the middle", middle), ("one of a hundred", slow)):
        table.add_column(name, footer=f"{sum(column):.1f}", justify="right")
    for name, one, other in zip(LEGS, middle, slow, strict=True):
        table.add_row(name, f"{one:.1f}", f"{other:.1f}")
    return table
