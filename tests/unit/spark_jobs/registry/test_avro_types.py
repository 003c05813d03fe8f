"""Avro schemas become the types that Spark's own from_avro gives them."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from spark_jobs.registry.avro_types import ParsedAvro
from spark_jobs.registry.schemas import Reference, Schema, SchemaError


def type_of(schema: Any, *references: Any) -> str:
    parsed = ParsedAvro(
        Schema(
            json.dumps(schema),
            references=tuple(Reference(f"r{index}", json.dumps(each)) for index, each in enumerate(references)),
        )
    )
    return str(parsed.type.simpleString())


def record(*fields: Any, name: str = "R") -> dict[str, Any]:
    return {
        "type": "record",
        "name": name,
        "fields": [{"name": f"f{index}", "type": kind} for index, kind in enumerate(fields)],
    }


def logical(kind: str, name: str, **more: int) -> dict[str, Any]:
    return {"type": kind, "logicalType": name, **more}


@pytest.mark.parametrize(
    ("schema", "kind"),
    [
        ("boolean", "boolean"),
        ("int", "int"),
        ("long", "bigint"),
        ("float", "float"),
        ("double", "double"),
        ("bytes", "binary"),
        ("string", "string"),
        ({"type": "string"}, "string"),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, "string"),
        ({"type": "fixed", "name": "F", "size": 4}, "binary"),
        ({"type": "array", "items": ["null", "int"]}, "array<int>"),
        ({"type": "map", "values": "long"}, "map<string,bigint>"),
        (logical("int", "date"), "date"),
        (logical("long", "timestamp-millis"), "timestamp"),
        (logical("long", "timestamp-micros"), "timestamp"),
        (logical("long", "local-timestamp-micros"), "timestamp_ntz"),
        (logical("bytes", "decimal", precision=9, scale=2), "decimal(9,2)"),
        ({"type": "fixed", "name": "F", "size": 4, "logicalType": "decimal", "precision": 5}, "decimal(5,0)"),
        (logical("string", "uuid"), "string"),
        (logical("int", "time-millis"), "int"),
        (logical("long", "time-micros"), "bigint"),
        (logical("long", "timestamp-nanos"), "bigint"),
        (logical("bytes", "decimal", precision=2, scale=3), "binary"),
        (logical("string", "colour"), "string"),
        (["null", "int"], "int"),
        (["int"], "int"),
        (["int", "long"], "bigint"),
        (["null", "double", "float"], "double"),
        (["null", "int", "string"], "struct<member0:int,member1:string>"),
        (["int", "long", "string"], "struct<member0:int,member1:bigint,member2:string>"),
        (record("int", record("string", name="I")), "struct<f0:int,f1:struct<f0:string>>"),
        (record(record("string", name="I"), "I"), "struct<f0:struct<f0:string>,f1:struct<f0:string>>"),
    ],
)
def test_types(schema: Any, kind: str) -> None:
    assert type_of(schema) == kind


def test_only_what_may_be_null_is_nullable() -> None:
    parsed = ParsedAvro(
        Schema(json.dumps(record("int", ["null", "int"], ["int", "string"], ["string", "null", "int"])))
    )
    assert [field.nullable for field in parsed.type.fields] == [False, True, False, True]  # type: ignore[attr-defined]


def test_schemas_that_refer_to_others() -> None:
    inner = {"type": "record", "name": "a.Inner", "fields": [{"name": "x", "type": "int"}]}
    middle = {"type": "record", "name": "a.Middle", "fields": [{"name": "inner", "type": "a.Inner"}]}
    outer = {"type": "record", "name": "b.Outer", "fields": [{"name": "middle", "type": "a.Middle"}]}
    assert type_of(outer, inner, middle) == "struct<middle:struct<inner:struct<x:int>>>"
    with pytest.raises(SchemaError, match=r"not an Avro schema: UnknownType: a\.Middle"):
        type_of(outer)


TREE = record("int", {"type": "array", "items": "R"})


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        (record("int", ["null", "R"]), "field f1 is of the type R, which contains itself"),
        (TREE, "field f1 is of the type R, which contains itself"),
        (record("int", record(["null", "I"], name="I")), r"field f1\.f0 is of the type I, which contains itself"),
        (record(logical("bytes", "decimal", precision=39)), "field f0 is a decimal of 39 digits; Spark's have 38"),
        (record("null"), "field f0 is of the type null, for which there is no column"),
        (record(["null"]), "field f0 is a union of nothing but null"),
        (record(record(name="I")), "field f0 is a record without fields"),
        (record({"type": "array", "items": "null"}), "field f0 is an array whose items take no bytes"),
        (
            record({"type": "array", "items": record("null", name="I")}),
            "field f0 is an array whose items take no bytes",
        ),
        (
            {"type": "record", "name": "R", "fields": [{"name": "a", "type": "int"}, {"name": "A", "type": "int"}]},
            "field A differs from the field a in case alone",
        ),
        ({"type": "record"}, "not an Avro schema"),
        (record("colour"), "not an Avro schema: UnknownType: colour"),
    ],
)
def test_schemas_that_cannot_be_columns_name_the_field(schema: Any, message: str) -> None:
    with pytest.raises(SchemaError, match=message):
        type_of(schema)


def doubled(count: int, leaf: Any) -> list[Any]:
    """A union of records of which each has two fields of the one before it: 2 ** count leaves in a few kilobytes."""
    first = {"type": "record", "name": "N0", "fields": [{"name": "f", "type": leaf}]}
    others = [
        {"type": "record", "name": f"N{n}", "fields": [{"name": name, "type": f"N{n - 1}"} for name in "ab"]}
        for n in range(1, count)
    ]
    return [first, *others]


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        (doubled(60, "int"), "has more than 10000 fields, members and items"),
        (doubled(9, "null"), "has more than 100 fields that take no bytes"),
        (record(*["null"] * 101), "the schema has more than 100 fields that take no bytes"),
        (
            [
                {"type": "record", "name": f"N{n}", "fields": [{"name": "f", "type": f"N{n - 1}" if n else "int"}]}
                for n in range(150)
            ],
            "is nested too deeply: more than 100 levels",
        ),
        ({"type": "fixed", "name": "F", "size": -1}, "the schema is a fixed type of -1 bytes, which is no size"),
        (
            {"type": "array", "items": {"type": "fixed", "name": "F", "size": 0}},
            "is an array whose items take no bytes",
        ),
    ],
)
def test_a_small_schema_that_stands_for_a_large_one_is_refused_at_once(schema: Any, message: str) -> None:
    started_s = time.process_time()
    with pytest.raises(SchemaError, match=message):
        type_of(schema)
    assert time.process_time() - started_s < 5


def test_references_that_stand_for_a_large_schema_are_refused() -> None:
    first, *others = doubled(60, "int")
    with pytest.raises(SchemaError, match="has more than 10000 fields, members and items"):
        type_of("N59", first, *others)
    chain = [
        {"type": "record", "name": f"N{n}", "fields": [{"name": "f", "type": f"N{n - 1}"}]} for n in range(1, 2000)
    ]
    with pytest.raises(SchemaError, match="is nested too deeply: more than 100 levels"):
        type_of("N1999", first, *chain)


def test_what_is_within_the_bounds_is_taken() -> None:
    assert type_of(record("int", *[["null", "int"]] * 3000)).count(":int") == 3001
    nested: Any = "int"
    for _ in range(45):
        nested = {"type": "array", "items": ["null", nested]}
    assert type_of(nested).count("array") == 45


def test_text_that_is_no_schema() -> None:
    with pytest.raises(SchemaError, match="not an Avro schema: JSONDecodeError"):
        ParsedAvro(Schema("{"))
    with pytest.raises(SchemaError, match=r"nested too deeply|not an Avro schema"):
        ParsedAvro(Schema('{"type":"array","items":' * 5000 + '"int"' + "}" * 5000))
