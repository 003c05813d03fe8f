"""The dates of timestamps in a time zone, for arrays of them. Pure.

Clocks are asked once for each minute that occurs. Offsets from UTC have changed at whole minutes since zones have offsets of whole minutes;
before, a minute in which the date changes is looked at record by record.
"""

from __future__ import annotations

from functools import cache
from typing import Any, Final
from zoneinfo import ZoneInfo

import numpy as np

from spark_jobs.batch.window import clock_offset_ms

_MINUTE_MS: Final = 60_000
_DAY_MS: Final = 86_400_000
_CHANGES: Final = -(1 << 31)
"""Instead of a date: it changes within this minute."""
_KEPT_MAX: Final = 100_000


class LocalDates:
    """Dates as days since 1970-01-01, in one zone, as java.time has them. Keeps what it has asked for."""

    def __init__(self, zone: str) -> None:
        self._zone = ZoneInfo(zone)
        self._days: dict[int, int] = {}

    def find_days(self, times_ms: Any) -> Any:
        """Return the day (numpy, int32) of each time (numpy, int64, milliseconds since 1970 in UTC)."""
        if not len(times_ms):
            return np.zeros(0, np.int32)
        minutes = np.floor_divide(times_ms, _MINUTE_MS)
        if minutes.min() == minutes.max():
            found, places = minutes[:1], np.zeros(len(minutes), np.int64)
        else:
            found, places = np.unique(minutes, return_inverse=True)
        days = np.array([self._find_day(each) for each in found.tolist()], np.int32)[places]
        for place in np.flatnonzero(days == _CHANGES).tolist():
            days[place] = self._day_at(int(times_ms[place]))
        return days

    def _find_day(self, minute: int) -> int:
        day = self._days.get(minute)
        if day is None:
            first, last = (self._day_at(minute * _MINUTE_MS + after) for after in (0, _MINUTE_MS - 1))
            day = first if first == last else _CHANGES
            if len(self._days) >= _KEPT_MAX:
                self._days.clear()
            self._days[minute] = day
        return day

    def _day_at(self, time_ms: int) -> int:
        return (time_ms + clock_offset_ms(time_ms, self._zone)) // _DAY_MS


@cache
def local_dates(zone: str) -> LocalDates:
    """Return what this process keeps of a zone."""
    return LocalDates(zone)
