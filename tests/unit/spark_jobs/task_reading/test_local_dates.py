"""Dates of timestamps: as Python's clocks have them, record by record, also in minutes in which the date changes."""

from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.task_reading.local_dates import LocalDates

ZONES = [
    "UTC",
    "America/New_York",
    "America/St_Johns",
    "Pacific/Apia",
    "Asia/Kathmandu",
    "America/Sao_Paulo",
    "Europe/Dublin",
]
EPOCH_DAY = datetime(1970, 1, 1).toordinal()
FIRST_MS, LAST_MS = -62_135_596_800_000, 253_402_300_799_999


def day_of(time_ms: int, zone: str) -> int:
    at = datetime.fromtimestamp(time_ms // 1000, UTC).astimezone(ZoneInfo(zone))
    return at.toordinal() - EPOCH_DAY


def ms(text: str) -> int:
    return round(datetime.fromisoformat(text).timestamp() * 1000)


@given(st.sampled_from(ZONES), st.lists(st.integers(ms("1700-01-01T00:00Z"), ms("2200-01-01T00:00Z")), max_size=20))
def test_dates_are_those_of_each_time(zone: str, times_ms: list[int]) -> None:
    dates = LocalDates(zone)
    for _ in range(2):  # as found, and as kept
        assert dates.find_days(np.array(times_ms, np.int64)).tolist() == [day_of(each, zone) for each in times_ms]


@pytest.mark.parametrize(
    ("zone", "around"),
    [
        ("America/St_Johns", "2010-11-07T02:31:00Z"),  # clocks went from 00:01 back to 23:01 of the day before
        ("Pacific/Apia", "2011-12-30T10:00:00Z"),  # a day that never was
        ("America/Sao_Paulo", "2018-11-04T03:00:00Z"),  # a day that began at one o'clock
        ("America/New_York", "1883-11-18T17:00:00Z"),
        ("America/New_York", "1880-05-01T04:56:02Z"),  # midnight by the sun, in the middle of a minute
    ],
)
def test_dates_around_a_change(zone: str, around: str) -> None:
    times_ms = [ms(around) + after * 250 for after in range(-600, 600)]
    assert LocalDates(zone).find_days(np.array(times_ms, np.int64)).tolist() == [
        day_of(each, zone) for each in times_ms
    ]


def test_dates_at_the_ends_of_time() -> None:
    ends = np.array([FIRST_MS, LAST_MS], np.int64)
    first, last = datetime(1, 1, 1).toordinal() - EPOCH_DAY, datetime(9999, 12, 31).toordinal() - EPOCH_DAY
    assert LocalDates("UTC").find_days(ends).tolist() == [first, last]
    assert LocalDates("Pacific/Kiritimati").find_days(ends).tolist()[1] == last + 1
    assert LocalDates("America/New_York").find_days(ends).tolist()[0] == first - 1
    assert LocalDates("UTC").find_days(np.array([], np.int64)).tolist() == []
