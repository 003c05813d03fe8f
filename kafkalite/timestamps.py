"""Timestamps of records in readable form. A topic may hold any 64-bit number: producers confuse ms with microseconds or nanoseconds."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

NO_TIMESTAMP: Final = -1
LEAST_INT64: Final = -(1 << 63)
LARGEST_INT64: Final = (1 << 63) - 1

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_EARLIEST: Final = datetime.min.replace(tzinfo=UTC) + timedelta(days=1)
_LATEST: Final = datetime.max.replace(tzinfo=UTC) - timedelta(days=1)
_CYCLE_YEARS: Final = 400
_CYCLE_MS: Final = 146_097 * 86_400_000


def timestamp_text(ms: int) -> str:
    """Return a time in ms since 1970 as "2013-06-15T00:00:00.001Z", "-" for none.

    What lies outside the years 1 to 9999 is no date that anybody meant: it is shown as the number, "1371254400002000000 ms".
    """
    if ms == NO_TIMESTAMP:
        return "-"
    moment = _moment(ms)
    if moment is None:
        return f"{ms} ms"
    return moment.replace(tzinfo=None).isoformat(timespec="milliseconds") + "Z"


def java_date_text(ms: int) -> str:
    """Return a time in ms since 1970 as `java.util.Date` prints it, in local time, whatever its year."""
    years = 0
    if _moment(ms) is None:  # the calendar, with its days of the week, repeats itself
        cycles, within_ms = divmod(ms, _CYCLE_MS)
        years, ms = cycles * _CYCLE_YEARS, within_ms
    moment = (_EPOCH + timedelta(milliseconds=ms)).astimezone()
    year = moment.year + years
    return f"{moment:%a %b %d %H:%M:%S %Z} {year if year > 0 else 1 - year:04}"


def _moment(ms: int) -> datetime | None:
    """Return the time, None outside of the years 1 to 9999 in any time zone."""
    try:
        moment = _EPOCH + timedelta(milliseconds=ms)
    except OverflowError:
        return None
    return moment if _EARLIEST < moment < _LATEST else None


def parse_time(text: str) -> int:
    """Return the ms since 1970 of a time in ISO 8601, UTC where it names no zone. Raises ValueError for another text."""
    found = datetime.fromisoformat(text)
    aware = found if found.tzinfo is not None else found.replace(tzinfo=UTC)
    return (aware - _EPOCH) // timedelta(milliseconds=1)


def check_int64(number: int) -> int:
    """Return the number. Raises ValueError for one that no 64-bit field can hold."""
    if not LEAST_INT64 <= number <= LARGEST_INT64:
        raise ValueError(f"{number} is not a 64-bit number")
    return number
