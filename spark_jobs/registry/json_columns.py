"""JSON Schemas to types of Spark, and values to what Arrow takes for them. Pure.

| JSON Schema | Spark |
|---|---|
| `object` with `properties` | struct of these; what a value has besides is left out |
| `object` with a schema of `additionalProperties` alone | map with strings as keys |
| `array` with one schema of `items` | array |
| `string`, also an `enum` or a `const` of strings | string, whatever its `format` |
| `integer`, `number`, `boolean` | bigint, double, boolean |
| `null` and one of these, also by `anyOf` or `oneOf` | that one |
| `allOf` of one schema, `$ref` | what it says |
| all others | string, as JSON: no or several types, tuples, recursion, names that differ in case alone |

All columns are nullable: whether a value has what it must have, its own schema says.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Final

from pyspark.sql import types as T

from spark_jobs.batch.decoders import UndecodableError, to_boolean, to_number, wrong_type
from spark_jobs.registry.json_document import JsonDocument, Node, schemas_by_name
from spark_jobs.registry.schemas import MAX_DEPTH, MAX_NODES, MAX_VALUES, SchemaError

Convert = Callable[[Any], Any]
Column = tuple[T.DataType, Convert]
_LONG: Final = 1 << 63


class JsonColumns:
    """Makes the column of a schema. `left` is how many values a record may have still: two bytes can be a wide struct."""

    def __init__(self, document: JsonDocument) -> None:
        self._document = document
        self._nodes = 0
        self.left = MAX_VALUES

    def column(self) -> Column:
        """Return the type of the column, and what converts values. SchemaError beyond MAX_NODES or MAX_DEPTH."""
        return self._column(self._document.root, (), "the value")

    def _column(self, node: Node, above: tuple[int, ...], where: str) -> Column:
        self._nodes += 1
        if self._nodes > MAX_NODES:
            raise SchemaError(
                f"the JSON Schema has more than {MAX_NODES} fields, with each reference replaced by its target"
            )
        if len(above) > MAX_DEPTH:
            raise SchemaError(f"{where} is nested too deeply: more than {MAX_DEPTH} levels")
        if not isinstance(node, dict) or id(node) in above:
            return _TEXT
        above = (*above, id(node))
        only = self._only_schema(node)
        if only is not None:
            return self._column(only, above, where)
        kind = _kind(node)
        if kind == "object":
            return self._object(node, above, where)
        if kind == "array" and isinstance(node.get("items"), dict) and "prefixItems" not in node:
            return self._array(node["items"], above, where)
        return _SIMPLE.get(kind, _TEXT)

    def typed_schema(self, node: Node) -> Node:
        """Return the schema that says what type a node's column has, behind references and unions with null."""
        seen = set()
        while isinstance(node, dict) and id(node) not in seen and (only := self._only_schema(node)) is not None:
            seen.add(id(node))
            node = only
        return node

    def is_text(self, node: Node) -> bool:
        """True if a `typed_schema` is one of strings, so that its column has no JSON."""
        return isinstance(node, dict) and _kind(node) == "string"

    def _only_schema(self, node: Mapping[str, Any]) -> Node | None:
        """Return the one schema that says all about the type of a node; None where the node itself does."""
        if "$ref" in node:
            return self._document.target(node)
        if "type" in node or "properties" in node:
            return None
        members = [each for name in ("allOf", "anyOf", "oneOf") for each in node.get(name, ())]
        others = [each for each in members if not (isinstance(each, dict) and each.get("type") == "null")]
        return others[0] if len(others) == 1 else None

    def _object(self, node: Mapping[str, Any], above: tuple[int, ...], where: str) -> Column:
        properties = schemas_by_name(node, "properties")
        if not properties:
            others = node.get("additionalProperties")
            if isinstance(others, dict) and others and "patternProperties" not in node:
                return self._map(others, above, where)
            return _TEXT
        if len({name.lower() for name in properties}) < len(properties):
            return _TEXT
        columns = {name: self._column(each, above, f"{where}.{name}") for name, each in properties.items()}
        kind = T.StructType([T.StructField(name, column[0]) for name, column in columns.items()])
        converts = [(name, _at(name, column[1])) for name, column in columns.items()]

        def convert(value: Any) -> Any:
            if not isinstance(value, dict):
                raise wrong_type(value, "object")
            self._count(len(converts))
            return {
                name: None if (item := value.get(name)) is None else convert_item(item)
                for name, convert_item in converts
            }

        return kind, convert

    def _map(self, inner: Node, above: tuple[int, ...], where: str) -> Column:
        kind, convert_item = self._column(inner, above, f"{where}.*")

        def convert(value: Any) -> Any:
            if not isinstance(value, dict):
                raise wrong_type(value, "object")
            self._count(len(value))
            return [(key, None if item is None else convert_item(item)) for key, item in value.items()]

        return T.MapType(T.StringType(), kind), convert

    def _array(self, inner: Node, above: tuple[int, ...], where: str) -> Column:
        kind, convert_item = self._column(inner, above, f"{where}[]")

        def convert(value: Any) -> Any:
            if not isinstance(value, list):
                raise wrong_type(value, "list")
            self._count(len(value))
            return [None if item is None else convert_item(item) for item in value]

        return T.ArrayType(kind), convert

    def _count(self, values: int) -> None:
        self.left -= values
        if self.left < 0:
            raise UndecodableError(f"it has more than {MAX_VALUES} values")


def _kind(node: Mapping[str, Any]) -> str | None:
    """Return the one type of a node besides null; None where it has none or several."""
    found = node.get("type")
    if found is None:
        if "properties" in node:
            return "object"
        constants = node.get("enum", [node["const"]] if "const" in node else [])
        is_text = isinstance(constants, list) and constants and all(isinstance(each, str) for each in constants)
        return "string" if is_text else None
    kinds = {each for each in (found if isinstance(found, list) else [found]) if isinstance(each, str)} - {"null"}
    if kinds == {"integer", "number"}:
        return "number"
    return kinds.pop() if len(kinds) == 1 else None


def _at(name: str, convert: Convert) -> Convert:
    """Return the conversion of a field, whose problems name it."""

    def convert_field(value: Any) -> Any:
        try:
            return convert(value)
        except UndecodableError as problem:
            raise UndecodableError(f"field {name}: {problem}") from None

    return convert_field


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise wrong_type(value, "text")
    return value


def _integer(value: Any) -> int:
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if type(value) is not int:
        raise wrong_type(value, "whole number")
    if not -_LONG <= value < _LONG:
        raise wrong_type(value, "number of 64 bits")
    return value


def _as_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


_TEXT: Final[Column] = (T.StringType(), _as_json)
_SIMPLE: Final[Mapping[str | None, Column]] = {
    "string": (T.StringType(), _text),
    "integer": (T.LongType(), _integer),
    "number": (T.DoubleType(), to_number),
    "boolean": (T.BooleanType(), to_boolean),
}
