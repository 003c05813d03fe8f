"""Which columns a table takes, and which it refuses."""

from __future__ import annotations

import pytest
from pyspark.sql import types as T

from spark_jobs.batch.failures import OutputError
from spark_jobs.tables.schema_evolution import merge_schemas

SIMPLE = {
    "smallint": T.ShortType(),
    "int": T.IntegerType(),
    "bigint": T.LongType(),
    "float": T.FloatType(),
    "double": T.DoubleType(),
    "string": T.StringType(),
    "date": T.DateType(),
    "timestamp": T.TimestampType(),
}


def schema(fields: str) -> T.StructType:
    """Columns as `a int, b string`; Spark's own parser needs a Spark."""
    found = T.StructType()
    for field in split(fields):
        name, kind = field.split(" ", 1)
        found.add(name, parse(kind))
    return found


def parse(text: str) -> T.DataType:
    if text in SIMPLE:
        return SIMPLE[text]
    if text.startswith("decimal("):
        precision, scale = text[8:-1].split(",")
        return T.DecimalType(int(precision), int(scale))
    kind, inside = text[:-1].split("<", 1)
    parts = split(inside)
    if kind == "array":
        return T.ArrayType(parse(parts[0]))
    if kind == "map":
        return T.MapType(parse(parts[0]), parse(parts[1]))
    return T.StructType([T.StructField(name, parse(rest)) for name, rest in (part.split(":", 1) for part in parts)])


def split(text: str) -> list[str]:
    """The parts between commas that are in no brackets."""
    parts, depth = [""], 0
    for letter in text:
        depth += (letter in "<(") - (letter in ">)")
        if letter == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return [part.strip() for part in parts]


def merged(there: str, rows: str, can_widen: bool = False) -> str:
    found = merge_schemas("archive/topic=t", schema(there), schema(rows), can_widen)
    return found.simpleString().removeprefix("struct<").removesuffix(">")


@pytest.mark.parametrize(
    ("there", "rows", "after"),
    [
        ("a int", "a int", "a:int"),
        ("a int", "a int, b string", "a:int,b:string"),
        ("b string, a int", "c date, a int", "b:string,a:int,c:date"),
        ("a int, b string", "a int", "a:int,b:string"),
        ("a bigint", "a int", "a:bigint"),
        ("a int", "a smallint", "a:int"),
        ("a double", "a float", "a:double"),
        ("a decimal(12,2)", "a decimal(9,2)", "a:decimal(12,2)"),
        ("A int", "a int", "A:int"),
        ("d struct<a:int>", "d struct<b:string,a:int>", "d:struct<a:int,b:string>"),
        ("d array<struct<a:int>>", "d array<struct<b:int>>", "d:array<struct<a:int,b:int>>"),
        ("d map<string,bigint>", "d map<string,int>", "d:map<string,bigint>"),
    ],
)
def test_columns_are_added_and_none_is_taken_away(there: str, rows: str, after: str) -> None:
    assert merged(there, rows) == after


def test_everything_is_nullable_afterwards() -> None:
    there = T.StructType().add("a", T.IntegerType(), nullable=False)
    inner = T.StructType().add("x", T.ArrayType(T.IntegerType(), containsNull=False), nullable=False)
    found = merge_schemas("t", there, T.StructType([*there.fields]).add("d", inner, nullable=False), False)
    array = T.ArrayType(T.IntegerType(), containsNull=True)
    assert found == T.StructType().add("a", T.IntegerType()).add("d", T.StructType().add("x", array))


@pytest.mark.parametrize(
    ("there", "rows", "after"),
    [
        ("a int", "a bigint", "a:bigint"),
        ("a float", "a double", "a:double"),
        ("a decimal(9,2)", "a decimal(12,2)", "a:decimal(12,2)"),
        ("d struct<a:int>", "d struct<a:bigint>", "d:struct<a:bigint>"),
    ],
)
def test_wider_types_only_where_the_format_has_them(there: str, rows: str, after: str) -> None:
    assert merged(there, rows, can_widen=True) == after
    with pytest.raises(OutputError):
        merged(there, rows)


@pytest.mark.parametrize(
    ("there", "rows", "problem"),
    [
        ("a int", "a string", "a is int in the table and string in the night"),
        ("a decimal(9,2)", "a decimal(12,3)", "a is decimal(9,2) in the table and decimal(12,3) in the night"),
        ("a int", "a array<int>", "a is int in the table and array<int> in the night"),
        ("d struct<a:date>", "d struct<a:timestamp>", "d.a is date in the table and timestamp in the night"),
        ("d map<int,int>", "d map<bigint,int>", "d.key is int in the table and bigint in the night"),
        ("d array<int>", "d array<date>", "d.element is int in the table and date in the night"),
    ],
)
def test_what_does_not_fit_is_named(there: str, rows: str, problem: str) -> None:
    with pytest.raises(OutputError, match="do not fit the table archive/topic=t") as found:
        merged(there, rows, can_widen=True)
    assert problem in str(found.value)


def test_all_that_does_not_fit_is_named_at_once() -> None:
    with pytest.raises(OutputError) as found:
        merged("a int, b int", "a string, b date")
    assert "a is int" in str(found.value) and "b is int" in str(found.value)
