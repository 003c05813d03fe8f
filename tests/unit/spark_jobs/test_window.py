"""Days as windows of time."""

from __future__ import annotations

from datetime import UTC, date, datetime
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest

from spark_jobs.batch.failures import BadRequestError
from spark_jobs.batch.window import dates_between, day_window, parse_date, time_zone

NEW_YORK = ZoneInfo("America/New_York")
HOUR_MS = 3_600_000


def unix_ms(*parts: int) -> int:
    return int(datetime(*parts, tzinfo=UTC).timestamp() * 1000)  # type: ignore[misc, arg-type]


def test_a_day_ends_where_the_next_begins() -> None:
    for zone in (ZoneInfo("UTC"), NEW_YORK, ZoneInfo("Asia/Kathmandu"), ZoneInfo("Africa/Cairo")):
        days = dates_between(date(2013, 1, 1), date(2014, 12, 31))
        windows = [day_window(day, zone) for day in days]
        assert all(one.end_ms == other.start_ms for one, other in pairwise(windows))


def test_days_where_clocks_change_have_23_and_25_hours() -> None:
    lengths = {
        day: (window.end_ms - window.start_ms) // HOUR_MS
        for day in (date(2013, 3, 10), date(2013, 6, 15), date(2013, 11, 3))
        for window in [day_window(day, NEW_YORK)]
    }
    assert list(lengths.values()) == [23, 24, 25]


def test_window_is_in_its_zone() -> None:
    assert day_window(date(2013, 6, 15), ZoneInfo("UTC")).start_ms == unix_ms(2013, 6, 15)
    assert day_window(date(2013, 6, 15), NEW_YORK).start_ms == unix_ms(2013, 6, 15, 4)


def test_names_of_days_go_by_the_zone() -> None:
    now_ms = unix_ms(2013, 6, 15, 2)
    assert parse_date("today", now_ms, ZoneInfo("UTC")) == date(2013, 6, 15)
    assert parse_date("yesterday", now_ms, NEW_YORK) == date(2013, 6, 13)
    assert parse_date("2013-02-28", now_ms, NEW_YORK) == date(2013, 2, 28)


@pytest.mark.parametrize("text", ["", "tomorrow", "2013-02-29", "15.6.2013"])
def test_no_date(text: str) -> None:
    with pytest.raises(BadRequestError, match="is no date; give one like 2013-06-15"):
        parse_date(text, 0, ZoneInfo("UTC"))


@pytest.mark.parametrize("name", ["", "Mars/Olympus", "../etc/passwd"])
def test_no_time_zone(name: str) -> None:
    with pytest.raises(BadRequestError, match="there is no time zone"):
        time_zone(name)


def test_ending_before_starting_is_refused() -> None:
    with pytest.raises(BadRequestError, match="the last date 2013-01-01 is before the first one 2013-01-02"):
        dates_between(date(2013, 1, 2), date(2013, 1, 1))
    assert dates_between(date(2013, 1, 2), date(2013, 1, 2)) == [date(2013, 1, 2)]


def test_the_last_date_has_a_window_too() -> None:
    window = day_window(date.max, ZoneInfo("UTC"))
    assert window.end_ms - window.start_ms == 86_400_000
    assert day_window(date.min, ZoneInfo("UTC")).start_ms == -62_135_596_800_000
