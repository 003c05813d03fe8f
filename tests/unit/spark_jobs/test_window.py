"""Days in time."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest

from spark_jobs.batch.failures import BadRequestError
from spark_jobs.batch.window import dates_between, day_start_ms, parse_date, time_zone

NEW_YORK = ZoneInfo("America/New_York")
HOUR_MS = 3_600_000


def unix_ms(*parts: int) -> int:
    return int(datetime(*parts, tzinfo=UTC).timestamp() * 1000)  # type: ignore[misc, arg-type]


def test_days_follow_each_other_without_gaps_or_overlaps() -> None:
    for zone in (ZoneInfo("UTC"), NEW_YORK, ZoneInfo("Asia/Kathmandu"), ZoneInfo("Africa/Cairo")):
        starts = [day_start_ms(day, zone) for day in dates_between(date(2013, 1, 1), date(2014, 12, 31))]
        assert all(22 * HOUR_MS < other - one < 26 * HOUR_MS for one, other in pairwise(starts))
        shown = [datetime.fromtimestamp(start / 1000, zone).date() for start in starts]
        before = [datetime.fromtimestamp((start - 1) / 1000, zone).date() for start in starts]
        assert shown[:-1] == before[1:]


def test_days_where_clocks_change_have_23_and_25_hours() -> None:
    lengths = [
        (day_start_ms(day + timedelta(days=1), NEW_YORK) - day_start_ms(day, NEW_YORK)) // HOUR_MS
        for day in (date(2013, 3, 10), date(2013, 6, 15), date(2013, 11, 3))
    ]
    assert lengths == [23, 24, 25]


def test_a_day_begins_in_its_zone() -> None:
    assert day_start_ms(date(2013, 6, 15), ZoneInfo("UTC")) == unix_ms(2013, 6, 15)
    assert day_start_ms(date(2013, 6, 15), NEW_YORK) == unix_ms(2013, 6, 15, 4)


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


def test_the_first_and_the_last_date_have_a_beginning() -> None:
    assert day_start_ms(date.max, ZoneInfo("UTC")) == unix_ms(9999, 12, 31)
    assert day_start_ms(date.min, ZoneInfo("UTC")) == -62_135_596_800_000
