"""Days in time: a record belongs to the date on which its timestamp lies, in one time zone.

A day begins at midnight in its zone and ends where the next one begins, so days have 23 or 25 hours where clocks change. Every timestamp
belongs to exactly one date. Where clocks go back over midnight, as in Newfoundland until 2011 from 00:01 to 23:01, the earlier date goes
on after the later one has begun, so dates can be several spans of time.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime, timedelta
from itertools import pairwise
from typing import Final
from zoneinfo import ZoneInfo

from spark_jobs.batch.failures import BadRequestError

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_SECOND: Final = timedelta(seconds=1)
_HOUR_MS: Final = 3_600_000
_DAY_MS: Final = 86_400_000
_FIRST_MS: Final = -62_135_596_800_000 + 2 * _DAY_MS
_LAST_MS: Final = 253_402_300_799_999 - 2 * _DAY_MS
"""Between these, no clock of a zone leaves the years 1 to 9999, which is all that Python has."""
_OFFSET_HOURS_MAX: Final = 26
"""No clock is further from UTC."""
_DAYS_BY_NAME = {"today": 0, "yesterday": 1}
_MAX_DAYS = 100 * 366


def time_zone(name: str) -> ZoneInfo:
    """Return a zone of the IANA database. BadRequestError."""
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        raise BadRequestError(f"there is no time zone {name!r}; give one like UTC or America/New_York") from None


def day_start_ms(day: date, zone: ZoneInfo) -> int:
    """Return the first instant of a date in a zone; where midnight is left out by a change of clocks, what comes instead of it."""
    return round(datetime(day.year, day.month, day.day, tzinfo=zone).timestamp() * 1000)


def day_number(day: date) -> int:
    """Return the days since 1970-01-01."""
    return day.toordinal() - _EPOCH.toordinal()


def clock_offset_ms(time_ms: int, zone: ZoneInfo) -> int:
    """Return by how much clocks of a zone are ahead of UTC at a time: the one place that says which date a time is on."""
    at = _EPOCH + min(max(time_ms, _FIRST_MS), _LAST_MS) // 1000 * _SECOND
    return (at.astimezone(zone).utcoffset() or timedelta()) // _SECOND * 1000


def find_times(first: date, last: date, zone: ZoneInfo) -> list[tuple[int, int]]:
    """Return the spans of time, in order, of which all instants are on the dates `first` to `last`: first instant, and the one after."""
    # What is after the beginning of a date comprises what is after that of a later one, so all changes between in and out are theirs.
    changes = sorted([*_find_beginnings(day_number(first), zone), *_find_beginnings(day_number(last) + 1, zone)])
    return [(since, until) for since, until in zip(changes[::2], changes[1::2], strict=True) if since < until]


def _find_beginnings(day: int, zone: ZoneInfo) -> list[int]:
    """Return when clocks come to the midnight before a date, and where they go back over it, when they do and when they come again."""
    midnight_ms = day * _DAY_MS
    around = [midnight_ms + hours * _HOUR_MS for hours in range(-_OFFSET_HOURS_MAX, _OFFSET_HOURS_MAX + 1)]
    bounds = [around[0], *_find_changes(around, zone), around[-1]]
    found: list[int] = []
    for since, until in pairwise(bounds):
        begin = max(since, midnight_ms - clock_offset_ms(since, zone))
        has_begun = len(found) % 2 == 1
        if has_begun and begin > since:
            found.append(since)
        if begin < until and not (has_begun and begin == since):
            found.append(begin)
    return found


def _find_changes(times_ms: Sequence[int], zone: ZoneInfo) -> Iterator[int]:
    """Yield when clocks change; they do so at whole seconds, and no two times have two changes between them."""
    for before, after in pairwise(times_ms):
        offset = clock_offset_ms(before, zone)
        if clock_offset_ms(after, zone) != offset:
            seconds = range(before // 1000, after // 1000 + 1)
            yield seconds[bisect_left(seconds, True, key=lambda at: clock_offset_ms(at * 1000, zone) != offset)] * 1000


def parse_date(text: str, now_ms: int, zone: ZoneInfo) -> date:
    """ "2013-06-15", "today" or "yesterday" as of `now_ms` in `zone`. BadRequestError."""
    if text in _DAYS_BY_NAME:
        now = datetime.fromtimestamp(now_ms / 1000, UTC).astimezone(zone)
        return now.date() - timedelta(days=_DAYS_BY_NAME[text])
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise BadRequestError(f"{text!r} is no date; give one like 2013-06-15, or yesterday, or today") from None


def dates_between(first: date, last: date) -> list[date]:
    """Return the dates of `list_days`. BadRequestError when there is no date, or there are more than in 100 years."""
    if last < first:
        raise BadRequestError(f"the last date {last} is before the first one {first}")
    days = (last - first).days + 1
    if days > _MAX_DAYS:
        raise BadRequestError(f"{first} to {last} are {days} days; that is more than 100 years")
    return list_days(first, last)


def list_days(first: date, last: date) -> list[date]:
    """Return all dates from `first` to `last`, both included."""
    return [first + timedelta(days=number) for number in range((last - first).days + 1)]
