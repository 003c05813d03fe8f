"""Values to typed columns, and what becomes of those that do not fit."""

from __future__ import annotations

import json
import math
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import msgpack
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import types as T

from spark_jobs.batch.decoders import Decoder
from spark_jobs.batch.schemas import arrow_type

FLIGHT = pa.struct([pa.field("carrier", pa.string(), False), ("dep_delay", pa.int32()), ("air_time", pa.float64())])
PACK = {"json": lambda value: json.dumps(value).encode(), "msgpack": msgpack.packb}


def decode(format_name: str, schema: pa.StructType | None, *values: bytes | None) -> tuple[list[Any], list[str | None]]:
    found, reasons = Decoder(format_name, schema).decode(pa.array(values, pa.binary()))
    return found.to_pylist(), reasons


@pytest.mark.parametrize("form", ["json", "msgpack"])
def test_objects_become_structs(form: str) -> None:
    value = PACK[form]({"carrier": "UA", "dep_delay": -2, "air_time": 227, "unknown": [1]})
    short = PACK[form]({"carrier": "AA"})
    found, reasons = decode(form, FLIGHT, value, None, short)
    assert found == [
        {"carrier": "UA", "dep_delay": -2, "air_time": 227.0},
        None,
        {"carrier": "AA", "dep_delay": None, "air_time": None},
    ]
    assert reasons == [None, None, None]


@pytest.mark.parametrize("form", ["json", "msgpack"])
@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ({"carrier": 1}, "field carrier: 1 is no text"),
        ({"carrier": None}, "field carrier is missing"),
        ({}, "field carrier is missing"),
        ({"carrier": "UA", "dep_delay": 1.5}, "field dep_delay: 1.5 is no whole number"),
        ({"carrier": "UA", "dep_delay": "2"}, "field dep_delay: '2' is no whole number"),
        ({"carrier": "UA", "dep_delay": True}, "field dep_delay: True is no whole number"),
        ({"carrier": "UA", "dep_delay": 1 << 31}, "field dep_delay: 2147483648 is out of range of int32"),
        ({"carrier": "UA", "air_time": [1]}, r"field air_time: [1] is no number"),
        ([1], "a list where an object is due"),
        ("UA", "a str where an object is due"),
    ],
)
def test_reason_names_the_field_and_the_value(form: str, value: Any, reason: str) -> None:
    good = PACK[form]({"carrier": "UA"})
    found, reasons = decode(form, FLIGHT, good, PACK[form](value), good)
    assert [each is None for each in found] == [False, True, False]
    assert reasons == [None, reason, None]


@pytest.mark.parametrize(
    ("form", "value", "reason"),
    [
        ("json", b"{", "not JSON: "),
        ("json", b"", "not JSON: "),
        ("json", b"[" * 100_000, "not JSON: "),
        ("json", b"\xff\xfe\xff", "not JSON: "),
        ("msgpack", b"", "not msgpack: "),
        ("msgpack", b"\xc1", "not msgpack: "),
        ("msgpack", b"\x81\xa1a\x01\x00", "not msgpack: "),
        ("msgpack", b"\xdf\xff\xff\xff\xff", "not msgpack: "),
    ],
)
def test_damaged_values(form: str, value: bytes, reason: str) -> None:
    (found,), (why,) = decode(form, FLIGHT, value)
    assert found is None and why is not None and why.startswith(reason)


def test_strings_and_bytes() -> None:
    assert decode("string", None, b"caf\xc3\xa9", None, b"\xe9") == (
        ["café", None, None],
        [None, None, "not UTF-8: unexpected end of data at byte 0"],
    )
    assert decode("bytes", None, b"\xff", None) == ([b"\xff", None], [None, None])


def test_all_types_of_json() -> None:
    kind = arrow_type(
        T.StructType(
            [
                T.StructField("when", T.TimestampType()),
                T.StructField("day", T.DateType()),
                T.StructField("price", T.DecimalType(8, 2)),
                T.StructField("raw", T.BinaryType()),
                T.StructField("tags", T.ArrayType(T.StringType())),
                T.StructField("counts", T.MapType(T.StringType(), T.LongType())),
                T.StructField("inner", T.StructType([T.StructField("flag", T.BooleanType())])),
            ]
        )
    )
    value = {
        "when": "2013-01-01T10:00:00Z",
        "day": "2013-01-01",
        "price": "12.50",
        "raw": "AAE=",
        "tags": ["a", None],
        "counts": {"x": 1, "y": None},
        "inner": {"flag": True},
    }
    (found,), reasons = decode("json", kind, json.dumps(value).encode())
    assert reasons == [None]
    assert found == {
        "when": datetime(2013, 1, 1, 10, tzinfo=UTC),
        "day": date(2013, 1, 1),
        "price": Decimal("12.50"),
        "raw": b"\x00\x01",
        "tags": ["a", None],
        "counts": [("x", 1), ("y", None)],
        "inner": {"flag": True},
    }


@pytest.mark.parametrize(
    ("kind", "value", "reason"),
    [
        (T.TimestampType(), "yesterday", "'yesterday' is no timestamp"),
        (T.TimestampType(), 5, "5 is no timestamp"),
        (T.DateType(), "2013-02-30", "'2013-02-30' is no date"),
        (T.DecimalType(4, 2), "x", "'x' is no decimal"),
        (T.BinaryType(), "a", "'a' is no base64"),
        (T.BooleanType(), 1, "1 is no bool"),
        (T.ArrayType(T.LongType()), {"a": 1}, "{'a': 1} is no list"),
        (T.ArrayType(T.LongType()), ["a"], "'a' is no whole number"),
        (T.MapType(T.StringType(), T.LongType()), [1], "[1] is no object"),
        (T.StringType(), "\ud800", "'\\ud800' is no text that is Unicode"),
    ],
)
def test_values_that_are_not_of_their_type(kind: T.DataType, value: Any, reason: str) -> None:
    schema = arrow_type(T.StructType([T.StructField("f", kind)]))
    assert decode("json", schema, json.dumps({"f": value}).encode()) == ([None], [f"field f: {reason}"])


def test_what_only_arrow_refuses_is_found_row_by_row() -> None:
    schema = arrow_type(T.StructType([T.StructField("price", T.DecimalType(4, 2))]))
    values = [json.dumps({"price": price}).encode() for price in ("1.5", "12345.6", "2")]
    found, reasons = decode("json", schema, *values)
    assert found == [{"price": Decimal("1.50")}, None, {"price": Decimal("2.00")}]
    assert [reason is None for reason in reasons] == [True, False, True]
    assert reasons[1] is not None and reasons[1].startswith("does not fit the schema: ")


@given(st.lists(st.binary(max_size=40)), st.sampled_from(["json", "msgpack", "string"]))
def test_no_bytes_stop_a_decoder(values: list[bytes], form: str) -> None:
    schema = FLIGHT if form != "string" else None
    found, reasons = decode(form, schema, *values)
    assert len(found) == len(reasons) == len(values)
    assert all((value is None) == (reason is not None) for value, reason in zip(found, reasons, strict=True))


ITEMS = st.fixed_dictionaries(
    {"carrier": st.text(max_size=5).filter(lambda text: text.isprintable())},
    optional={
        "dep_delay": st.none() | st.integers(-(1 << 31), (1 << 31) - 1),
        "air_time": st.none() | st.floats(allow_nan=False),
    },
)


@given(st.lists(ITEMS))
def test_what_was_packed_comes_out(items: list[dict[str, Any]]) -> None:
    found, reasons = decode("msgpack", FLIGHT, *map(msgpack.packb, items))
    assert reasons == [None] * len(items)
    assert found == [{"dep_delay": None, "air_time": None, **item} for item in items]


def test_too_large_and_odd_numbers() -> None:
    schema = pa.struct([("air_time", pa.float64())])
    found, reasons = decode("json", schema, b'{"air_time": 1' + b"0" * 400 + b"}", b'{"air_time": NaN}')
    assert found[0] is None and reasons[0] is not None and "is no number of that size" in reasons[0]
    assert math.isnan(found[1]["air_time"])


@pytest.mark.parametrize(("form", "schema"), [("json", None), ("string", FLIGHT), ("avro", None)])
def test_formats_that_make_no_sense(form: str, schema: pa.StructType | None) -> None:
    with pytest.raises(ValueError, match="format"):
        Decoder(form, schema)
