"""Avro schemas as parsed JSON: what kind of type one is, and where in it a field stands. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from spark_jobs.registry.schemas import SchemaError

Avro = Any
"""A schema as parsed JSON: a name, a list of members, or a dict."""

NAMED: Final = frozenset({"record", "enum", "fixed"})
ROOT: Final = "the schema"


def kind_and_details(schema: Avro) -> tuple[str, Mapping[str, Any]]:
    """Return the kind of a type that is no union, and its attributes. SchemaError for a union."""
    if isinstance(schema, list):
        raise SchemaError("a union is a member of a union, which Avro does not allow")
    if isinstance(schema, str):
        return schema, {}
    kind = schema["type"]
    return ("record" if kind == "error" else kind), schema


def kind_of(schema: Avro) -> str:
    """Return the name of a type that is no union: a primitive type, or record, enum, fixed, array, map."""
    return kind_and_details(schema)[0]


def logical_type_of(schema: Avro) -> str | None:
    """Return the logical type; None where there is none."""
    return schema.get("logicalType") if isinstance(schema, dict) else None


def field_place(where: str, field: Mapping[str, Any]) -> str:
    """Return the place of a field of the record at `where`, for messages."""
    return f"field {field['name']}" if where == ROOT else f"{where}.{field['name']}"
