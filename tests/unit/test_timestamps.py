"""A timestamp of a record can be any 64-bit number, and each is shown."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkalite.timestamps import (
    LARGEST_INT64,
    LEAST_INT64,
    check_int64,
    java_date_text,
    parse_time,
    timestamp_text,
)

ANY = st.integers(LEAST_INT64, LARGEST_INT64)


@pytest.fixture(autouse=True)
def utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.parametrize(
    ("ms", "text"),
    [
        (1371254400001, "2013-06-15T00:00:00.001Z"),
        (0, "1970-01-01T00:00:00.000Z"),
        (-1, "-"),
        (-2, "1969-12-31T23:59:59.998Z"),
        (1371254400002000, "1371254400002000 ms"),
        (1371254400002000000, "1371254400002000000 ms"),
        (LARGEST_INT64, "9223372036854775807 ms"),
        (LEAST_INT64, "-9223372036854775808 ms"),
    ],
)
def test_a_time_is_a_date_or_the_number(ms: int, text: str) -> None:
    assert timestamp_text(ms) == text


@given(ANY)
def test_whatever_a_topic_holds_is_shown(ms: int) -> None:
    assert timestamp_text(ms)
    assert java_date_text(ms)


@pytest.mark.parametrize(
    ("ms", "text"),
    [
        (1371254400001, "Sat Jun 15 00:00:00 UTC 2013"),
        # What Java 17 prints of them.
        (1371254400002000, "Tue Apr 29 00:00:02 UTC 45423"),
        (LARGEST_INT64, "Sun Aug 17 07:12:55 UTC 292278994"),
    ],
)
def test_javas_dates_have_any_year(ms: int, text: str) -> None:
    assert java_date_text(ms) == text


def test_times_are_read_as_utc() -> None:
    assert parse_time("2013-06-15") == parse_time("2013-06-15T02:00+02:00") == 1371254400000
    assert parse_time("0001-01-01") < 0
    with pytest.raises(ValueError):
        parse_time("soon")


def test_numbers_have_64_bits() -> None:
    assert check_int64(LARGEST_INT64) == LARGEST_INT64 and check_int64(LEAST_INT64) == LEAST_INT64
    for number in (LARGEST_INT64 + 1, LEAST_INT64 - 1):
        with pytest.raises(ValueError, match="64-bit"):
            check_int64(number)
