"""Days as half-open windows of time: a record belongs to the date on which its timestamp lies, in one time zone.

A day begins at midnight in its zone and ends where the next one begins, so days have 23 or 25 hours where clocks change, and every
timestamp belongs to exactly one date.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

from spark_jobs.batch.failures import BadRequestError

_DAYS_BY_NAME = {"today": 0, "yesterday": 1}
_MAX_DAYS = 100 * 366
_DAY_MS = 86_400_000


@dataclass(frozen=True, slots=True)
class DayWindow:
    """Timestamps from `start_ms` to before `end_ms` belong to `date`."""

    date: date
    start_ms: int
    end_ms: int


def time_zone(name: str) -> ZoneInfo:
    """A zone of the IANA database. BadRequestError."""
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        raise BadRequestError(f"there is no time zone {name!r}; give one like UTC or America/New_York") from None


def day_window(day: date, zone: ZoneInfo) -> DayWindow:
    """The window of a date in a zone."""
    start_ms = _midnight_ms(day, zone)
    return DayWindow(
        day, start_ms, start_ms + _DAY_MS if day == date.max else _midnight_ms(day + timedelta(days=1), zone)
    )


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
    """All dates from `first` to `last`, both included. BadRequestError when there is none, or there are more than in 100 years."""
    if last < first:
        raise BadRequestError(f"the last date {last} is before the first one {first}")
    days = (last - first).days + 1
    if days > _MAX_DAYS:
        raise BadRequestError(f"{first} to {last} are {days} days; that is more than 100 years")
    return [first + timedelta(days=number) for number in range(days)]


def _midnight_ms(day: date, zone: ZoneInfo) -> int:
    """The first instant of the day; where midnight is left out by a change of clocks, what comes instead of it."""
    instant = datetime(day.year, day.month, day.day, tzinfo=zone)
    return round(instant.timestamp() * 1000)
