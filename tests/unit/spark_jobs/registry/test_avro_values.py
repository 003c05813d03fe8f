"""Avro values to columns, compared with fastavro's own reader, and what becomes of those that do not fit."""

from __future__ import annotations

import json
import pickle
from datetime import UTC, date, datetime
from decimal import Decimal
from io import BytesIO
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.registry.avro_values import AvroDecoder
from spark_jobs.registry.schemas import Decoding, Reference, Schema, SchemaError
from spark_jobs.registry.wire_format import with_header


def fields(**kinds: Any) -> dict[str, Any]:
    return {"type": "record", "name": "R", "fields": [{"name": name, "type": kind} for name, kind in kinds.items()]}


def packed(number: int, schema: Any, value: Any) -> bytes:
    stream = BytesIO()
    fastavro.schemaless_writer(stream, fastavro.parse_schema(schema), value)
    return with_header(number, stream.getvalue())


def decoder(reader: Any, **writers: Any) -> AvroDecoder:
    """Keywords are `s` and an id."""
    found = {int(name[1:]): Schema(json.dumps(schema)) for name, schema in writers.items()}
    decoding = Decoding(Schema(json.dumps(reader)), found, "subject t-value")
    return AvroDecoder(pickle.loads(pickle.dumps(decoding)))


def decode(made: AvroDecoder, *values: bytes | None) -> tuple[list[Any], list[str | None]]:
    found, reasons = made.decode(pa.array(values, pa.binary()))
    assert found.type == made.type
    return found.to_pylist(), reasons


FLIGHT = fields(
    carrier="string",
    delay=["null", "int"],
    day={"type": "int", "logicalType": "date"},
    at={"type": "long", "logicalType": "timestamp-millis"},
    exact={"type": "long", "logicalType": "timestamp-micros"},
    local={"type": "long", "logicalType": "local-timestamp-millis"},
    price={"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2},
    id={"type": "string", "logicalType": "uuid"},
    time={"type": "int", "logicalType": "time-millis"},
    state={"type": "enum", "name": "E", "symbols": ["ON_TIME", "LATE"]},
    raw={"type": "fixed", "name": "F", "size": 2},
    tags={"type": "array", "items": "string"},
    counts={"type": "map", "values": ["null", "long"]},
)
ROW = {
    "carrier": "UA",
    "delay": None,
    "day": date(2013, 6, 15),
    "at": datetime(2013, 6, 15, 10, 0, 0, 5000, tzinfo=UTC),
    "exact": datetime(2013, 6, 15, 10, 0, 0, 5, tzinfo=UTC),
    "local": datetime(2013, 6, 15, 10),
    "price": Decimal("-12.50"),
    "id": "00000000-0000-0000-0000-000000000001",
    "time": 5,
    "state": "LATE",
    "raw": b"ab",
    "tags": ["a", "b"],
    "counts": {"x": 1, "y": None},
}


def test_all_types_and_tombstones() -> None:
    plain = {**FLIGHT, "fields": [dict(each) for each in FLIGHT["fields"]]}
    plain["fields"][7]["type"], plain["fields"][8]["type"] = "string", "int"
    found, reasons = decode(decoder(FLIGHT, s7=FLIGHT), packed(7, plain, ROW), None)
    assert reasons == [None, None]
    assert found == [{**ROW, "counts": [("x", 1), ("y", None)]}, None]


@pytest.mark.parametrize("schema", ["string", "long", {"type": "string"}, ["null", "string"]])
def test_keys_need_not_be_records(schema: Any) -> None:
    value: Any = 5 if schema == "long" else "k"
    assert decode(decoder(schema, s1=schema), packed(1, schema, value)) == ([value], [None])


V1 = fields(carrier="string", delay="int", gone="string")
V2 = {
    "type": "record",
    "name": "R",
    "fields": [
        {"name": "operator", "aliases": ["carrier"], "type": "string"},
        {"name": "delay", "type": ["null", "long"]},
        {"name": "source", "type": "string", "default": "unknown"},
    ],
}


def test_old_and_new_records_are_resolved_to_the_readers_schema() -> None:
    old = packed(1, V1, {"carrier": "UA", "delay": -3, "gone": "x"})
    new = packed(2, V2, {"operator": "AA", "delay": 1 << 40, "source": "radar"})
    made = decoder(V2, s1=V1, s2=V2)
    found, reasons = decode(made, old, new)
    assert found == [
        {"operator": "UA", "delay": -3, "source": "unknown"},
        {"operator": "AA", "delay": 1 << 40, "source": "radar"},
    ]
    assert reasons == [None, None]
    assert made.type == pa.struct(
        [
            pa.field("operator", pa.string(), False),
            pa.field("delay", pa.int64()),
            pa.field("source", pa.string(), False),
        ]
    )


def test_a_schema_that_cannot_be_resolved_is_a_reason() -> None:
    found, reasons = decode(decoder(V1, s1=V1, s2=V2), packed(2, V2, {"operator": "AA", "delay": 1, "source": "x"}))
    assert found == [None]
    assert (
        reasons[0] is not None and "not Avro of the schema 2: it cannot be read with the reader's schema" in reasons[0]
    )


UNION = fields(
    u=[
        "null",
        "int",
        "string",
        {"type": "enum", "name": "E", "symbols": ["X"]},
        {"type": "record", "name": "I", "fields": [{"name": "q", "type": ["null", "string", "boolean"]}]},
        {"type": "fixed", "name": "F", "size": 2},
        {"type": "map", "values": "int"},
        {"type": "array", "items": "int"},
        {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 1},
    ]
)


@pytest.mark.parametrize(
    ("value", "members"),
    [
        (None, None),
        (3, {"member0": 3}),
        ("s", {"member1": "s"}),
        (("E", "X"), {"member2": "X"}),
        (("I", {"q": True}), {"member3": {"q": {"member0": None, "member1": True}}}),
        (("F", b"ab"), {"member4": b"ab"}),
        ({"m": 1}, {"member5": [("m", 1)]}),
        ([1, 2], {"member6": [1, 2]}),
        (Decimal("1.5"), {"member7": Decimal("1.5")}),
    ],
)
def test_general_unions_are_structs_of_their_members(value: Any, members: Any) -> None:
    found, reasons = decode(decoder(UNION, s1=UNION), packed(1, UNION, {"u": value}))
    assert reasons == [None]
    none: dict[str, Any] = dict.fromkeys((f"member{index}" for index in range(8)), None)
    assert found == [{"u": members and {**none, **members}}]


INNER = {"type": "record", "name": "I", "fields": [{"name": "q", "type": "int"}]}
OTHER = {"type": "record", "name": "J", "fields": [{"name": "q", "type": "int"}]}
ENUM = {"type": "enum", "name": "E", "symbols": ["X", "Y"]}
MAP = {"type": "map", "values": "int"}


@pytest.mark.parametrize(
    ("reader", "writer", "value", "expected"),
    [
        # One type with a name: fastavro gives it with its name too.
        (["null", "string", INNER], None, ("I", {"q": 1}), {"member0": None, "member1": {"q": 1}}),
        (["string", ENUM], None, ("E", "X"), {"member0": None, "member1": "X"}),
        (["string", ENUM], None, "X", {"member0": "X", "member1": None}),
        ([MAP, INNER], None, ("I", {"q": 1}), {"member0": None, "member1": {"q": 1}}),
        ([MAP, INNER], None, {"r": 1}, {"member0": [("r", 1)], "member1": None}),
        (["null", INNER], None, ("I", {"q": 1}), {"q": 1}),
        (["null", ENUM], None, ("E", "Y"), "Y"),
        # The writer's field is a union and the reader's is none, or the other way round.
        (INNER, [OTHER, INNER], ("I", {"q": 1}), {"q": 1}),
        (ENUM, ["null", ENUM], ("E", "X"), "X"),
        (["null", INNER, OTHER], OTHER, {"q": 1}, {"member0": {"q": 1}, "member1": None}),
        ([MAP, INNER], INNER, {"q": 1}, {"member0": None, "member1": {"q": 1}}),
        (["null", "string", "long"], "int", 3, {"member0": None, "member1": 3}),
        ({"type": "array", "items": ["null", INNER]}, None, [("I", {"q": 1}), None], [{"q": 1}, None]),
    ],
)
def test_members_with_names_are_told_apart(reader: Any, writer: Any, value: Any, expected: Any) -> None:
    written, read = fields(u=reader if writer is None else writer), fields(u=reader)
    found, reasons = decode(decoder(read, s1=written), packed(1, written, {"u": value}))
    assert (found, reasons) == ([{"u": expected}], [None])


def defaulted(**kinds: Any) -> dict[str, Any]:
    """A record of `a` and of fields with defaults."""
    added = [{"name": name, "type": kind, "default": default} for name, (kind, default) in kinds.items()]
    return {"type": "record", "name": "R", "fields": [{"name": "a", "type": "int"}, *added]}


@pytest.mark.parametrize(
    ("kind", "default", "expected"),
    [
        ("bytes", "\u00ff", b"\xff"),
        ("double", 1, 1.0),
        ({"type": "double"}, 1, 1.0),
        ({"type": "long", "logicalType": "timestamp-millis"}, 1000, datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)),
        ({"type": "int", "logicalType": "date"}, 1, date(1970, 1, 2)),
        ({"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2}, "\u0001", Decimal("0.01")),
        (["null", INNER], None, None),
        ([INNER, "null"], {"q": 3}, {"q": 3}),
        (["string", "null"], None, None),
        (["int", "string"], 5, {"member0": 5, "member1": None}),
        (["int", "string", ENUM], "x", {"member0": None, "member1": "x", "member2": None}),
        (["int", ENUM], "X", {"member0": None, "member1": "X"}),
        ({"type": "array", "items": ["int", "string"]}, [1], [{"member0": 1, "member1": None}]),
        ({"type": "map", "values": ["int", "string"]}, {"k": 1}, [("k", {"member0": 1, "member1": None})]),
        (
            {"type": "record", "name": "K", "fields": [{"name": "u", "type": ["int", "string"], "default": 7}]},
            {},
            {"u": {"member0": 7, "member1": None}},
        ),
        ({"type": "fixed", "name": "F", "size": 2}, "\u0001\u00fe", b"\x01\xfe"),
    ],
)
def test_defaults_are_values_of_their_types_in_every_row(kind: Any, default: Any, expected: Any) -> None:
    old = fields(a="int")
    values = [packed(1, old, {"a": 1}), packed(1, old, {"a": 2})]
    found, reasons = decode(decoder(defaulted(b=(kind, default)), s1=old), *values)
    assert (found, reasons) == ([{"a": 1, "b": expected}, {"a": 2, "b": expected}], [None, None])


@pytest.mark.parametrize(
    ("kind", "default"),
    [
        ("int", "x"),
        ("int", 1 << 31),
        ("boolean", 1),
        (["int", "null"], "x"),
        (ENUM, "Z"),
        (INNER, {}),
        ("bytes", "\u0100"),
    ],
)
def test_a_default_of_another_type_names_the_field(kind: Any, default: Any) -> None:
    with pytest.raises(SchemaError, match=r"the default .* of field b of R is not of the field's type"):
        decoder(defaulted(b=(kind, default)))


def test_defaults_that_stand_for_many_values_are_refused() -> None:
    long = {"type": "record", "name": "L", "fields": [{"name": "s", "type": "string", "default": "x" * 100_000}]}
    many = defaulted(b0=(long, {}), **{f"b{n}": ("L", {}) for n in range(1, 100)})
    with pytest.raises(SchemaError, match="the schema's defaults have more than 4194304 bytes"):
        decoder(many)


def test_a_writers_defaults_are_not_looked_at() -> None:
    written = defaulted(b=("string", 5))
    value = with_header(1, b"\x02\x02x")
    assert decode(decoder(fields(a="int"), s1=written), value) == ([{"a": 1}], [None])


def test_unions_of_schemas_that_are_referred_to() -> None:
    references = (
        Reference("I", json.dumps(INNER)),
        Reference("J", json.dumps({**OTHER, "fields": [{"name": "i", "type": "I"}]})),
    )
    schema = Schema('["I", "J"]', references=references)
    made = AvroDecoder(Decoding(schema, {1: schema}))
    found, reasons = decode(made, with_header(1, b"\x00\x02"), with_header(1, b"\x02\x04"))
    assert found == [{"member0": {"q": 1}, "member1": None}, {"member0": None, "member1": {"i": {"q": 2}}}]
    assert reasons == [None, None]


def test_numbers_of_two_widths_are_one_column() -> None:
    schema = fields(n=["int", "long"], x=["null", "float", "double"])
    found, _ = decode(decoder(schema, s1=schema), packed(1, schema, {"n": 1 << 40, "x": 0.5}))
    assert found == [{"n": 1 << 40, "x": 0.5}]


SMALL = fields(a="int", b="string")


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (b"", "not in the schema registry's wire format: 0 bytes"),
        (b'{"a": 1}', "not in the schema registry's wire format: the first byte is 0x7b"),
        (with_header(9, b"\x02\x02x"), "unknown schema id 9: subject t-value has no such schema"),
        (with_header(1, b""), "not Avro of the schema 1: it ends in the middle"),
        (with_header(1, b"\x02\x0ax"), "not Avro of the schema 1: it ends in the middle"),
        (with_header(1, b"\x02\x02xyz"), "not Avro of the schema 1: 2 bytes are left behind its end"),
        (with_header(1, b"\x02\x02\xff"), "not Avro of the schema 1: UnicodeDecodeError"),
        (with_header(1, b"\xff" * 12), "not Avro of the schema 1"),
        (with_header(2, b"\x02\x00"), "the schema 2 cannot be decoded with: field next is of the type R"),
        (with_header(3, b"\x02"), "the schema 3 cannot be decoded with: not an Avro schema"),
    ],
)
def test_each_kind_of_damage_has_a_reason_of_its_own(value: bytes, reason: str) -> None:
    list_ = fields(a="int", next=["null", "R"])
    good = packed(1, SMALL, {"a": 1, "b": "x"})
    found, reasons = decode(decoder(SMALL, s1=SMALL, s2=list_, s3={"type": "colour"}), good, value, good)
    assert [each is None for each in found] == [False, True, False]
    assert reasons[0] is None and reasons[2] is None
    assert reasons[1] is not None and reasons[1].startswith(reason)


def test_numbers_that_do_not_fit_the_column_are_found_row_by_row() -> None:
    schema = fields(price={"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2})
    wide = fields(price={"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2})
    good = packed(1, schema, {"price": Decimal("1.50")})
    found, reasons = decode(decoder(schema, s1=schema), good, packed(1, wide, {"price": Decimal("99999.00")}), good)
    assert [each is None for each in found] == [False, True, False]
    assert reasons[1] is not None and reasons[1].startswith(("does not fit the schema", "not Avro of the schema 1"))


def test_a_readers_schema_that_is_no_column() -> None:
    with pytest.raises(SchemaError, match="field next is of the type R, which contains itself"):
        decoder(fields(a="int", next=["null", "R"]))


@given(st.lists(st.binary(max_size=30)))
def test_no_bytes_stop_a_decoder(payloads: list[bytes]) -> None:
    values = [with_header(1, each) for each in payloads] + payloads
    found, reasons = decode(decoder(UNION, s1=UNION), *values)
    assert all((value is None) == (reason is not None) for value, reason in zip(found, reasons, strict=True))


ROWS = st.fixed_dictionaries(
    {
        "i": st.integers(-(1 << 31), (1 << 31) - 1),
        "l": st.none() | st.integers(-(1 << 63), (1 << 63) - 1),
        "d": st.floats(allow_nan=False),
        "s": st.text(max_size=6).filter(lambda text: text.isprintable()),
        "a": st.lists(st.none() | st.binary(max_size=4), max_size=3),
    }
)
GENERAL = fields(i="int", l=["null", "long"], d="double", s="string", a={"type": "array", "items": ["null", "bytes"]})


@given(st.lists(ROWS))
def test_rows_are_those_of_fastavros_reader(rows: list[dict[str, Any]]) -> None:
    values = [packed(1, GENERAL, row) for row in rows]
    found, reasons = decode(decoder(GENERAL, s1=GENERAL), *values)
    assert reasons == [None] * len(rows)
    parsed = fastavro.parse_schema(GENERAL)
    assert found == [fastavro.schemaless_reader(BytesIO(value[5:]), parsed, parsed) for value in values]
