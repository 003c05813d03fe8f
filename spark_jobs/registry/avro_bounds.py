"""Bounds of what an Avro schema can make a reader do. Pure.

A short schema can stand for a large one: thirty records, each with two fields of the type before it, are a type of a billion fields. And a
short value can claim a large one: an array's items, or a record's fields, may take no bytes at all. Refused, with the place:

- recursive records, of which Spark has no type, and which nest as deep as a value says;
- more than `MAX_NODES` fields, members and items, or deeper than `MAX_DEPTH`, with names replaced by what they stand for;
- arrays of items that take no bytes, and more than `MAX_EMPTY_FIELDS` fields that take none.

So the work for a value grows with its bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from spark_jobs.registry.avro_tree import ROOT, Avro, field_place, kind_and_details
from spark_jobs.registry.schemas import MAX_DEPTH, MAX_NODES, SchemaError

MAX_EMPTY_FIELDS: Final = 100
_LEAST_BYTES: Final[Mapping[str, int]] = {"null": 0, "float": 4, "double": 8}


class _Size(NamedTuple):
    """The least bytes of a value; how many types there are in the type, how many of those take no bytes, and how deep they are."""

    least_bytes: int
    nodes: int = 1
    empty: int = 0
    height: int = 0


def check_bounds(root: Avro, definition: Callable[[Avro], Avro]) -> None:
    """Raise SchemaError for a schema beyond the bounds; `definition` gives the schema for the name of one."""
    _Measurement(definition).measure(root, (), ROOT, 0)


class _Measurement:
    """Measures each named type once, so that the time grows with the text and not with what it stands for."""

    def __init__(self, definition: Callable[[Avro], Avro]) -> None:
        self._definition = definition
        self._records: dict[str, _Size] = {}

    def measure(self, schema: Avro, above: tuple[str, ...], where: str, depth: int) -> _Size:
        if depth > MAX_DEPTH:
            raise _too_deep(where)
        schema = self._definition(schema)
        if isinstance(schema, list):
            return self._measure_union(schema, above, where, depth)
        kind, details = kind_and_details(schema)
        if kind in ("array", "map"):
            inner = self.measure(details["items" if kind == "array" else "values"], above, where, depth + 1)
            if kind == "array" and inner.least_bytes == 0:
                raise SchemaError(f"{where} is an array whose items take no bytes, so its size has no bound")
            return _check_size(_Size(1, inner.nodes + 1, inner.empty, inner.height + 1), where)
        if kind == "record":
            return self._measure_record(details, above, where, depth)
        least = _fixed_bytes(details, where) if kind == "fixed" else _LEAST_BYTES.get(kind, 1)
        return _Size(least, empty=int(least == 0))

    def _measure_union(self, members: list[Avro], above: tuple[str, ...], where: str, depth: int) -> _Size:
        found = [self.measure(each, above, where, depth + 1) for each in members]
        least = 1 + min((each.least_bytes for each in found), default=0)
        # The member's own index takes a byte.
        empty = max((each.empty for each in found if each.nodes > 1), default=0)
        return _check_size(_Size(least, _nodes_above(found), empty, _height_above(found)), where)

    def _measure_record(self, record: Mapping[str, Any], above: tuple[str, ...], where: str, depth: int) -> _Size:
        name = record["name"]
        if name in above:
            raise SchemaError(
                f"{where} is of the type {name}, which contains itself: Spark has no recursive types. "
                "Read with a schema that leaves the field out, and write with one that has a bounded depth"
            )
        found = self._records.get(name)
        if found is None:
            inside = (*above, name)
            fields = [
                self.measure(each["type"], inside, field_place(where, each), depth + 1) for each in record["fields"]
            ]
            empty = sum(each.empty for each in fields) if fields else 1
            if empty > MAX_EMPTY_FIELDS:
                raise SchemaError(f"{where} has more than {MAX_EMPTY_FIELDS} fields that take no bytes")
            least = sum(each.least_bytes for each in fields)
            found = self._records[name] = _Size(least, _nodes_above(fields), empty, _height_above(fields))
        return _check_size(found, where)


def _nodes_above(inner: Sequence[_Size]) -> int:
    return 1 + sum(each.nodes for each in inner)


def _height_above(inner: Sequence[_Size]) -> int:
    return 1 + max((each.height for each in inner), default=0)


def _check_size(size: _Size, where: str) -> _Size:
    if size.nodes > MAX_NODES:
        raise SchemaError(
            f"{where} has more than {MAX_NODES} fields, members and items, with each name replaced by its type"
        )
    if size.height > MAX_DEPTH:
        raise _too_deep(where)
    return size


def _too_deep(where: str) -> SchemaError:
    return SchemaError(f"{where} is nested too deeply: more than {MAX_DEPTH} levels")


def _fixed_bytes(details: Mapping[str, Any], where: str) -> int:
    size = details["size"]
    if type(size) is not int or size < 0:
        raise SchemaError(f"{where} is a fixed type of {size!r:.40} bytes, which is no size")
    return size
