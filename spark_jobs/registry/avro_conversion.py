"""What Arrow takes for a column, made of the values that fastavro gives. Pure.

Only unions need it. fastavro gives the value of a member, with the name of its type when that has one and the writer's field is a union
itself; a column has a struct of all members. A value without a name goes to the first member that can hold it: such are numbers of a union
that has two widths of them, and values of writers whose field is no union.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Any, Final

from spark_jobs.registry.avro_tree import NAMED, Avro, kind_of, logical_type_of
from spark_jobs.registry.avro_types import ParsedAvro, wider_type

Convert = Callable[[Any], Any]
_Is = Callable[[Any], bool]
_INT_BOUND: Final = 1 << 31
_LAST: Final = frozenset({"enum", "fixed", "map"})
"""Kinds that hold what others hold too: texts, bytes, and the fields of records."""


def conversion(parsed: ParsedAvro, schema: Avro, with_names: bool) -> Convert | None:
    """Return what makes of fastavro's value what Arrow takes for the column; None where that is the same.

    `with_names` if values of unions may come as tuples of their type's name and the value.
    """
    schema = parsed.definition(schema)
    if isinstance(schema, list):
        return _union_conversion(parsed, parsed.members(schema), with_names)
    kind = kind_of(schema)
    if kind == "record":
        return _record_conversion(parsed, schema["fields"], with_names)
    if kind in NAMED:
        return _without_name if with_names else None
    if kind in ("array", "map"):
        item = conversion(parsed, schema["items" if kind == "array" else "values"], with_names)
        return None if item is None else _items_conversion(kind, item)
    return None


def _items_conversion(kind: str, convert: Convert) -> Convert:
    if kind == "array":
        return lambda values: [convert(each) for each in values]
    return lambda values: {key: convert(each) for key, each in values.items()}


def _without_name(value: Any) -> Any:
    return value[1] if type(value) is tuple else value


def _record_conversion(parsed: ParsedAvro, fields: Sequence[Mapping[str, Any]], with_names: bool) -> Convert | None:
    found = {each["name"]: conversion(parsed, each["type"], with_names) for each in fields}
    changed = [(name, convert) for name, convert in found.items() if convert is not None]
    if not changed:
        return _without_name if with_names else None

    def convert_record(row: Any) -> Any:
        bare = _without_name(row)
        # A copy, because a default is the same value in all rows.
        return {**bare, **{name: convert(bare[name]) for name, convert in changed}}

    return convert_record


def _union_conversion(parsed: ParsedAvro, members: Sequence[Avro], with_names: bool) -> Convert | None:
    if len(members) == 1:
        inner = conversion(parsed, members[0], with_names)
        return None if inner is None else lambda value: None if value is None else inner(value)
    if wider_type(members) is not None:
        return None
    choices = [
        (
            f"member{index}",
            _membership(parsed, each),
            conversion(parsed, each, with_names),
            kind_of(parsed.definition(each)),
        )
        for index, each in enumerate(members)
    ]
    choices.sort(key=lambda choice: choice[3] in _LAST)

    def convert_union(value: Any) -> Any:
        if value is None:
            return None
        for name, is_member, convert, _ in choices:
            if is_member(value):
                bare = _without_name(value)
                return {name: bare if convert is None else convert(bare)}
        raise ValueError(f"a {type(value).__name__} is no member of the union")

    return convert_union


def _membership(parsed: ParsedAvro, member: Avro) -> _Is:
    """Return the test whether fastavro's value is of this member: by the name that comes with it, else by its Python type."""
    schema = parsed.definition(member)
    kind = kind_of(schema)
    logical = logical_type_of(schema)
    is_bare = _bare_membership(kind, schema) if logical is None else _LOGICAL_MEMBERSHIP[logical]
    if kind not in NAMED:
        return is_bare
    return lambda value: value[0] == schema["name"] if type(value) is tuple else is_bare(value)


def _bare_membership(kind: str, schema: Avro) -> _Is:
    if kind == "record":
        names = {each["name"] for each in schema["fields"]}
        return lambda value: isinstance(value, dict) and value.keys() == names
    if kind == "enum":
        symbols = frozenset(schema["symbols"])
        return lambda value: value in symbols if isinstance(value, str) else False
    if kind == "fixed":
        return lambda value: isinstance(value, bytes) and len(value) == schema["size"]
    return _MEMBERSHIP[kind]


def _is_timestamp(value: Any) -> bool:
    return isinstance(value, datetime) and value.tzinfo is not None


def _is_local_timestamp(value: Any) -> bool:
    return isinstance(value, datetime) and value.tzinfo is None


_MEMBERSHIP: Final[Mapping[str, _Is]] = {
    "boolean": lambda value: isinstance(value, bool),
    "int": lambda value: type(value) is int and -_INT_BOUND <= value < _INT_BOUND,
    "long": lambda value: type(value) is int,
    "float": lambda value: isinstance(value, float),
    "double": lambda value: isinstance(value, float),
    "bytes": lambda value: isinstance(value, bytes),
    "string": lambda value: isinstance(value, str),
    "array": lambda value: isinstance(value, list),
    "map": lambda value: isinstance(value, dict),
}
_LOGICAL_MEMBERSHIP: Final[Mapping[str, _Is]] = {
    "decimal": lambda value: isinstance(value, Decimal),
    "date": lambda value: isinstance(value, date) and not isinstance(value, datetime),
    "timestamp-millis": _is_timestamp,
    "timestamp-micros": _is_timestamp,
    "local-timestamp-millis": _is_local_timestamp,
    "local-timestamp-micros": _is_local_timestamp,
}
