"""Avro schemas to types of Spark, as Spark's own `from_avro` maps them. Pure.

| Avro | Spark |
|---|---|
| record | struct |
| union of null and one type | that type, nullable |
| union of int and long; of float and double | bigint; double |
| any other union | struct of `member0`, `member1`, … without null; all but one are null |
| enum, uuid | string |
| fixed, bytes | binary |
| array, map | array, map with strings as keys |
| decimal, date | decimal, date |
| timestamp-millis, timestamp-micros | timestamp |
| local-timestamp-millis, local-timestamp-micros | timestamp_ntz |
| time-millis, time-micros, timestamp-nanos and other logical types | the type below: int, bigint, binary |

Refused, with the field's name: decimals of more than 38 digits, records without fields or with names that differ in case alone (Parquet has
neither), the type null by itself, and what is beyond `avro_bounds`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

import fastavro
from pyspark.sql import types as T

from spark_jobs.registry.avro_bounds import check_bounds
from spark_jobs.registry.avro_defaults import WRITTEN_DEFAULT, Defaults
from spark_jobs.registry.avro_tree import NAMED, ROOT, Avro, field_place, kind_and_details, kind_of, logical_type_of
from spark_jobs.registry.schemas import MAX_DEPTH, Schema, SchemaError

VALUE: Final = "value"
"""The field of `ParsedAvro.record`."""
MAX_DECIMAL_DIGITS: Final = 38
_PRIMITIVE: Final[Mapping[str, T.DataType]] = {
    "boolean": T.BooleanType(),
    "int": T.IntegerType(),
    "long": T.LongType(),
    "float": T.FloatType(),
    "double": T.DoubleType(),
    "bytes": T.BinaryType(),
    "string": T.StringType(),
}
_LOGICAL: Final[Mapping[tuple[str, str], T.DataType]] = {
    ("int", "date"): T.DateType(),
    ("long", "timestamp-millis"): T.TimestampType(),
    ("long", "timestamp-micros"): T.TimestampType(),
    ("long", "local-timestamp-millis"): T.TimestampNTZType(),
    ("long", "local-timestamp-micros"): T.TimestampNTZType(),
}
_WIDER: Final[Mapping[frozenset[str], str]] = {
    frozenset({"int", "long"}): "long",
    frozenset({"float", "double"}): "double",
}
"""Unions that are one column of the wider type."""


class ParsedAvro:
    """A schema with all of its names resolved. SchemaError.

    `tree` is the schema, `record` the same as the only field VALUE of a record, which is written in the same bytes: fastavro resolves the
    names of other schemas in records alone. Logical types that no column shows are taken out, so that it gives what lies below them.
    """

    def __init__(self, schema: Schema) -> None:
        named: dict[str, Any] = {}
        try:
            for each in schema.references:
                fastavro.parse_schema(_prepare(json.loads(each.text)), named_schemas=named)
            record: Any = fastavro.parse_schema(_in_record(_prepare(json.loads(schema.text))), named_schemas=named)
        except SchemaError:
            raise
        except RecursionError:
            raise SchemaError("the Avro schema is nested too deeply") from None
        except Exception as problem:  # fastavro raises whatever its parts raise
            raise SchemaError(f"not an Avro schema: {type(problem).__name__}: {problem!s:.200}") from None
        self.record = record
        self.tree: Avro = record["fields"][0]["type"]
        self._named = named
        check_bounds(self.tree, self.definition)

    @property
    def type(self) -> T.DataType:
        """The type of the column. SchemaError for what no column can show."""
        return self._spark_type(self.tree, ROOT)[0]

    def definition(self, schema: Avro) -> Avro:
        """Return the schema itself for the name of one."""
        return self._named.get(schema, schema) if isinstance(schema, str) else schema

    def fill_defaults(self) -> None:
        """Give each field its default as fastavro reads values of its type, so that it can be a reader's schema. SchemaError."""
        Defaults(self._named, self.definition).fill()

    def has_named_unions(self) -> bool:
        """True if a union of several members has a record, an enum or a fixed among them."""
        return any(self._names_in_unions(each) for each in [self.tree, *self._named.values()])

    def _names_in_unions(self, schema: Avro) -> bool:
        """Look at a definition without the definitions that it names."""
        if isinstance(schema, list):
            kinds = [kind_of(self.definition(each)) for each in schema]
            return any(kind in NAMED for kind in kinds) or any(map(self._names_in_unions, schema))
        if isinstance(schema, str):
            return False
        inner = [schema[name] for name in ("items", "values") if name in schema]
        return any(map(self._names_in_unions, [*inner, *(each["type"] for each in schema.get("fields", ()))]))

    # types of Spark

    def _spark_type(self, schema: Avro, where: str) -> tuple[T.DataType, bool]:
        """Return the type, and whether it is nullable."""
        schema = self.definition(schema)
        if isinstance(schema, list):
            return self._union_type(schema, where)
        kind, details = kind_and_details(schema)
        if kind == "record":
            return self._struct_type(details["fields"], where), False
        if kind == "array":
            inner, nullable = self._spark_type(details["items"], where)
            return T.ArrayType(inner, nullable), False
        if kind == "map":
            inner, nullable = self._spark_type(details["values"], where)
            return T.MapType(T.StringType(), inner, nullable), False
        if details.get("logicalType") == "decimal":
            return _decimal_type(details, where), False
        if kind == "enum":
            return T.StringType(), False
        if kind == "fixed":
            return T.BinaryType(), False
        found = _LOGICAL.get((kind, details.get("logicalType", "")), _PRIMITIVE.get(kind))
        if found is None:
            raise SchemaError(
                f"{where} is of the type {kind}, for which there is no column: leave it out of the schema"
            )
        return found, False

    def _struct_type(self, fields: Sequence[Mapping[str, Any]], where: str) -> T.StructType:
        if not fields:
            raise SchemaError(f"{where} is a record without fields, for which there is no column")
        seen: dict[str, str] = {}
        found = []
        for each in fields:
            name = each["name"]
            if (other := seen.setdefault(name.lower(), name)) != name:
                raise SchemaError(
                    f"{field_place(where, each)} differs from the field {other} in case alone, which Spark ignores"
                )
            kind, nullable = self._spark_type(each["type"], field_place(where, each))
            found.append(T.StructField(name, kind, nullable))
        return T.StructType(found)

    def _union_type(self, union: Sequence[Avro], where: str) -> tuple[T.DataType, bool]:
        members = self.members(union)
        nullable = len(members) < len(union)
        if len(members) == 1:
            return self._spark_type(members[0], where)[0], nullable
        if (wider := wider_type(members)) is not None:
            return _PRIMITIVE[wider], nullable
        fields = [
            T.StructField(f"member{index}", self._spark_type(each, f"{where}, member{index}")[0])
            for index, each in enumerate(members)
        ]
        if not fields:
            raise SchemaError(f"{where} is a union of nothing but null, for which there is no column")
        return T.StructType(fields), nullable

    def members(self, union: Sequence[Avro]) -> list[Avro]:
        """Return the members of a union but null."""
        return [each for each in union if kind_of(self.definition(each)) != "null"]


def wider_type(members: Sequence[Avro]) -> str | None:
    """Return the type of a union that is a number of two widths; None for others."""
    if len(members) != 2 or any(logical_type_of(each) for each in members):
        return None
    return _WIDER.get(frozenset(kind_of(each) for each in members))


def _decimal_type(details: Mapping[str, Any], where: str) -> T.DecimalType:
    precision, scale = int(details["precision"]), int(details.get("scale", 0))
    if precision > MAX_DECIMAL_DIGITS:
        raise SchemaError(f"{where} is a decimal of {precision} digits; Spark's have {MAX_DECIMAL_DIGITS} at most")
    return T.DecimalType(precision, scale)


def _in_record(schema: Avro) -> Avro:
    return {"type": "record", "name": "kafkalite_value", "fields": [{"name": VALUE, "type": schema}]}


def _prepare(schema: Avro, depth: int = 0) -> Avro:
    """Return a copy in which only those logical types are left that a column shows, and defaults of fields are by WRITTEN_DEFAULT."""
    if depth > MAX_DEPTH:
        raise SchemaError(f"the Avro schema is nested too deeply: more than {MAX_DEPTH} levels")
    if isinstance(schema, list):
        return [_prepare(each, depth + 1) for each in schema]
    if not isinstance(schema, dict):
        return schema
    found = dict(schema)
    for name in ("type", "items", "values"):
        if isinstance(found.get(name), dict | list):
            found[name] = _prepare(found[name], depth + 1)
    if isinstance(found.get("fields"), list):
        found["fields"] = [_prepare_field(each, depth + 1) for each in found["fields"]]
    logical = found.get("logicalType")
    if logical is not None and not _is_shown(found, logical):
        del found["logicalType"]
    return found


def _prepare_field(field: Any, depth: int) -> Any:
    found = _prepare(field, depth)
    if isinstance(found, dict) and "default" in found:
        found[WRITTEN_DEFAULT] = found.pop("default")
    return found


def _is_shown(schema: Mapping[str, Any], logical: Any) -> bool:
    """True for logical types that have a column's type; a decimal that breaks Avro's rules is taken for what lies below, as Avro says."""
    if logical != "decimal":
        return (schema.get("type"), logical) in _LOGICAL
    precision, scale = schema.get("precision"), schema.get("scale", 0)
    is_sound = type(precision) is int and type(scale) is int and 0 <= scale <= precision and precision > 0
    return is_sound and schema.get("type") in ("bytes", "fixed")
