"""Days in time: a record belongs to the date on which its timestamp lies, in one time zone.

A day begins at midnight in its zone and ends where the next one begins, so days have 23 or 25 hours where clocks change, and every
timestamp belongs to exactly one date.
"""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

from spark_jobs.batch.failures import BadRequestError

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
