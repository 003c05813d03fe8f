"""How the schema of a table grows with the nights that it gets: new columns are added, wider types are kept, the rest is refused. Pure."""

from __future__ import annotations

from typing import Final

from pyspark.sql import types as T

from spark_jobs.batch.failures import OutputError

_INTEGERS: Final = (T.ByteType, T.ShortType, T.IntegerType, T.LongType)
_FLOATS: Final = (T.FloatType, T.DoubleType)


def merge_schemas(table: str, there: T.StructType, rows: T.StructType, can_widen: bool) -> T.StructType:
    """Return the schema that the table has after the rows were written: its own columns in their order, then the new ones; all nullable.

    A column that the rows lack stays, as null; narrower values become the table's type. With `can_widen` the table takes wider types
    (Iceberg's rules: int to bigint, float to double, a decimal of more digits). OutputError names the columns that do not fit.
    """
    problems: list[str] = []
    merged = _merge_structs("", there, rows, can_widen, problems)
    if problems:
        raise OutputError(
            f"the columns of this night do not fit the table {table}: {'; '.join(problems)}; give the earlier schema, or another --output"
        )
    return merged


def _merge_structs(
    prefix: str, there: T.StructType, rows: T.StructType, can_widen: bool, problems: list[str]
) -> T.StructType:
    # Spark's names differ by more than case.
    new = {field.name.lower(): field for field in rows.fields}
    fields = []
    for field in there.fields:
        other = new.pop(field.name.lower(), None)
        kind = field.dataType
        if other is not None:
            kind = _merge_types(f"{prefix}{field.name}", field.dataType, other.dataType, can_widen, problems)
        fields.append(T.StructField(field.name, nullable(kind)))
    fields += [T.StructField(field.name, nullable(field.dataType)) for field in new.values()]
    return T.StructType(fields)


def _merge_types(name: str, there: T.DataType, rows: T.DataType, can_widen: bool, problems: list[str]) -> T.DataType:
    if isinstance(there, T.StructType) and isinstance(rows, T.StructType):
        return _merge_structs(f"{name}.", there, rows, can_widen, problems)
    if isinstance(there, T.ArrayType) and isinstance(rows, T.ArrayType):
        return T.ArrayType(_merge_types(f"{name}.element", there.elementType, rows.elementType, can_widen, problems))
    if isinstance(there, T.MapType) and isinstance(rows, T.MapType):
        key = _merge_types(f"{name}.key", there.keyType, rows.keyType, False, problems)
        return T.MapType(key, _merge_types(f"{name}.value", there.valueType, rows.valueType, can_widen, problems))
    if there == rows or _is_wider(there, rows):
        return there
    if can_widen and _is_wider(rows, there):
        return rows
    problems.append(f"{name} is {there.simpleString()} in the table and {rows.simpleString()} in the night")
    return there


def _is_wider(one: T.DataType, other: T.DataType) -> bool:
    """True if every value of `other` is one of `one`, and is written as such by both formats."""
    if isinstance(one, T.DecimalType) and isinstance(other, T.DecimalType):
        return one.scale == other.scale and one.precision > other.precision
    for kinds in (_INTEGERS, _FLOATS):
        if isinstance(one, kinds) and isinstance(other, kinds):
            return kinds.index(type(one)) > kinds.index(type(other))
    return False


def nullable(kind: T.DataType) -> T.DataType:
    """Return the type with everything in it nullable, which is what tables can add to and leave out."""
    if isinstance(kind, T.StructType):
        return T.StructType([T.StructField(field.name, nullable(field.dataType)) for field in kind.fields])
    if isinstance(kind, T.ArrayType):
        return T.ArrayType(nullable(kind.elementType))
    if isinstance(kind, T.MapType):
        return T.MapType(nullable(kind.keyType), nullable(kind.valueType))
    return kind
