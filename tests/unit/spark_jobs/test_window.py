"""Days in time."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

import numpy as np
import pytest

from spark_jobs.batch.failures import BadRequestError
from spark_jobs.batch.window import dates_between, day_start_ms, find_times, parse_date, time_zone
from spark_jobs.task_reading.local_dates import LocalDates

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


@pytest.mark.parametrize(
    ("zone", "first", "days"),
    [
        ("UTC", date(2013, 1, 1), 10),
        ("America/New_York", date(2013, 1, 1), 365),
        ("America/St_Johns", date(2010, 1, 1), 365),  # clocks went back from 00:01 to 23:01 of the day before
        ("America/Sao_Paulo", date(2018, 2, 1), 365),  # they went back at midnight, and forward at midnight
        ("Pacific/Apia", date(2011, 12, 20), 20),  # a day that never was
        ("America/New_York", date(1883, 11, 10), 20),  # midnight by the sun, in the middle of a minute
        ("Asia/Kathmandu", date(1985, 12, 20), 20),
    ],
)
def test_times_of_dates_are_those_that_records_are_dated_by(zone: str, first: date, days: int) -> None:
    """Digests of the log go by these spans of time, what is archived by the dates of records."""
    clock, dates = ZoneInfo(zone), LocalDates(zone)
    last, begin = first + timedelta(days - 1), (first - date(1970, 1, 1)).days
    ends_ms: list[int] = []
    for number in range(days):
        day = first + timedelta(number)
        spans = find_times(day, day, clock)
        assert [day_start_ms(day, clock)] == [since for since, _ in spans[:1]] or not spans
        for since_ms, until_ms in spans:
            times_ms = np.array([*range(since_ms, until_ms, 1_799_999), until_ms - 1], np.int64)
            assert set(dates.find_days(times_ms).tolist()) == {begin + number}
        ends_ms += [end for span in spans for end in span]
    ordered = sorted(ends_ms)
    assert ordered[1:-1:2] == ordered[2::2], "no time is on two dates, none on no date"
    whole = find_times(first, last, clock)
    assert whole == [(ordered[0], ordered[-1])]
    several = [day for number in range(days) if len(find_times(day := first + timedelta(number), day, clock)) > 1]
    assert several == ([date(2010, 11, 6), date(2010, 11, 7)] if zone == "America/St_Johns" else [])


def test_times_at_the_ends_of_time() -> None:
    utc = ZoneInfo("UTC")
    assert find_times(date.min, date.max, utc) == [(unix_ms(1, 1, 1), unix_ms(9999, 12, 31) + 24 * HOUR_MS)]
    assert find_times(date.max, date.max, NEW_YORK)[0][1] == unix_ms(9999, 12, 31) + 29 * HOUR_MS


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
