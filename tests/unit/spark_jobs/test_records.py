"""How records are cut into files, whatever batches they come in."""

from __future__ import annotations

from datetime import date
from itertools import groupby
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.batch.failures import BadRequestError
from spark_jobs.batch.formats import Format, Formats
from spark_jobs.batch.records import Pieces

HEADER = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
SCHEMA = pa.schema(
    [("key", pa.binary()), ("value", pa.binary()), ("headers", HEADER), ("date", pa.date32()), ("run", pa.date32())]
)
OVERHEAD_BYTES = 40


def row(size: int, day: int = 1, headers: Any = None) -> dict[str, Any]:
    return {"key": None, "value": bytes(size), "headers": headers, "date": date(2013, 6, day), "run": date(2013, 6, 9)}


def numbers(rows: list[dict[str, Any]], max_bytes: int, batch_rows: int = 100) -> list[int]:
    pieces = Pieces(max_bytes)
    table = pa.Table.from_pylist(rows, SCHEMA)
    return [number for batch in table.to_batches(batch_rows) for number in pieces.number(batch).to_pylist()]


@given(st.lists(st.tuples(st.integers(0, 300), st.integers(1, 3))), st.integers(100, 1000), st.integers(1, 7))
def test_no_piece_is_too_large(rows: list[tuple[int, int]], max_bytes: int, batch_rows: int) -> None:
    records = [row(size, day) for size, day in rows]
    found = numbers(records, max_bytes, batch_rows)
    assert found == numbers(records, max_bytes), "batches do not matter"
    for _, members in groupby(sorted(zip((day for _, day in rows), found, rows, strict=True)), lambda each: each[:2]):
        sizes = [size + OVERHEAD_BYTES for _, _, (size, _) in members]
        assert sum(sizes) <= max_bytes or len(sizes) == 1
    for day in (1, 2, 3):
        of_day = [number for number, (_, each) in zip(found, rows, strict=True) if each == day]
        assert of_day == sorted(of_day), "the order of records is kept"


def test_headers_count() -> None:
    large = [{"key": "h", "value": bytes(500)}, {"key": "none", "value": None}]
    assert numbers([row(1, headers=large), row(1, headers=large), row(1)], 1000) == [0, 1, 1]


@pytest.mark.parametrize("name", ["json", "msgpack"])
def test_formats_that_need_a_schema(name: str) -> None:
    with pytest.raises(BadRequestError, match=f"the format {name} needs a schema"):
        Formats(value=Format(name)).validate()
    with pytest.raises(BadRequestError, match="the format string has no schema"):
        Formats(key=Format("string", "a int")).validate()
    assert Formats(Format("string"), Format(name, "a int")).validate() == Formats(
        Format("string"), Format(name, "a int")
    )
