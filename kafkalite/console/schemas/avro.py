"""Avro's binary encoding (Apache Avro 1.12, "Binary encoding") decoded into plain values for display: a few hundred bytes at a time.

Bounded, because neither bytes nor schema are ours: depth, number of values, and no length exceeds the bytes that are there. Logical types
stay the numbers of their encoding; bytes that are no text become hexadecimal.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Mapping
from typing import Any, Final

_MOST_DEPTH: Final = 64
_MOST_VALUES: Final = 10_000
_LONGEST_NUMBER: Final = 10
"""Bytes of a variable-length number of 64 bits."""


class AvroError(ValueError):
    """Raised for invalid bytes or an invalid schema."""


class AvroSchema:
    """A schema in JSON. Raises AvroError for an invalid one, or one that names undefined types."""

    def __init__(self, text: str) -> None:
        try:
            self._root = json.loads(text)
        except (ValueError, RecursionError) as problem:
            raise AvroError(f"no JSON: {problem}") from None
        self._named: dict[str, Mapping[str, Any]] = {}
        self._collect(self._root, "", 0)

    def read(self, data: bytes) -> Any:
        """Return the value that `data` encodes, with nothing behind it. Raises AvroError."""
        reader = _Reader(data, self._named)
        value = reader.value(self._root, "", 0)
        if reader.position != len(data):
            raise AvroError(f"{len(data) - reader.position} bytes are left")
        return value

    def _collect(self, schema: Any, space: str, depth: int) -> None:
        """Find the named types, by full name."""
        if depth > _MOST_DEPTH:
            raise AvroError("nested too deeply")
        if isinstance(schema, list):
            for each in schema:
                self._collect(each, space, depth + 1)
        elif isinstance(schema, dict):
            if "name" in schema and schema.get("type") in ("record", "error", "enum", "fixed"):
                full, space = _full_name(schema, space)
                self._named[full] = schema
            for field in schema.get("fields", ()):
                if not isinstance(field, dict):
                    raise AvroError("a field is no object")
                self._collect(field.get("type"), space, depth + 1)
            for part in ("items", "values", "type"):
                if isinstance(schema.get(part), dict | list):
                    self._collect(schema[part], space, depth + 1)


def _full_name(schema: Mapping[str, Any], space: str) -> tuple[str, str]:
    """Return the full name of a type, and the namespace of the types in it."""
    name = str(schema["name"])
    if "." in name:
        return name, name.rpartition(".")[0]
    own = str(schema.get("namespace", space))
    return (f"{own}.{name}" if own else name), own


class _Reader:
    def __init__(self, data: bytes, named: Mapping[str, Mapping[str, Any]]) -> None:
        self._data, self._named = data, named
        self.position = 0
        self._values = 0
        self._primitives: dict[str, Callable[[], Any]] = {
            "null": lambda: None,
            "boolean": lambda: self._read_bytes(1) != b"\x00",
            "int": self._number,
            "long": self._number,
            "float": lambda: struct.unpack("<f", self._read_bytes(4))[0],
            "double": lambda: struct.unpack("<d", self._read_bytes(8))[0],
            "bytes": lambda: _plain(self._read_bytes(self._number())),
            "string": lambda: self._read_bytes(self._number()).decode("utf-8", "backslashreplace"),
        }

    def value(self, schema: Any, space: str, depth: int) -> Any:
        self._values += 1
        if depth > _MOST_DEPTH or self._values > _MOST_VALUES:
            raise AvroError("nested too deeply, or too many values")
        if isinstance(schema, list):
            return self.value(_choose_branch(schema, self._number()), space, depth + 1)
        if isinstance(schema, str):
            if schema in self._primitives:
                return self._primitives[schema]()
            found = self._named.get(schema if "." in schema or not space else f"{space}.{schema}")
            return self.value(found if found is not None else self._of_name(schema), space, depth + 1)
        if not isinstance(schema, dict):
            raise AvroError(f"{schema!r} is no schema")
        match schema.get("type"):
            case "record" | "error":
                inner = _full_name(schema, space)[1]
                return {str(each["name"]): self.value(each["type"], inner, depth + 1) for each in schema["fields"]}
            case "enum":
                return _choose_branch(schema["symbols"], self._number())
            case "fixed":
                return _plain(self._read_bytes(int(schema["size"])))
            case "array":
                return [each for count in self._blocks() for each in self._items(schema["items"], count, space, depth)]
            case "map":
                found_pairs: dict[str, Any] = {}
                for count in self._blocks():
                    for _ in range(count):
                        key = self.value("string", space, depth + 1)
                        found_pairs[key] = self.value(schema["values"], space, depth + 1)
                return found_pairs
            case other:
                return self.value(other, space, depth + 1)

    def _of_name(self, name: str) -> Mapping[str, Any]:
        if name not in self._named:
            raise AvroError(f"there is no type {name}")
        return self._named[name]

    def _items(self, schema: Any, count: int, space: str, depth: int) -> list[Any]:
        return [self.value(schema, space, depth + 1) for _ in range(count)]

    def _blocks(self) -> Any:
        """Yield the number of items in each block of an array or a map."""
        while count := self._number():
            if count < 0:
                self._number()  # the block's bytes, for who skips it
            if abs(count) > _MOST_VALUES:
                raise AvroError("too many items")
            yield abs(count)

    def _number(self) -> int:
        """Read a variable-length, zigzag-encoded number."""
        found = shift = 0
        for _ in range(_LONGEST_NUMBER):
            (byte,) = self._read_bytes(1)
            found |= (byte & 0x7F) << shift
            if byte < 0x80:
                return (found >> 1) ^ -(found & 1)
            shift += 7
        raise AvroError("a number does not end")

    def _read_bytes(self, length: int) -> bytes:
        end = self.position + length
        if length < 0 or end > len(self._data):
            raise AvroError("the bytes end too soon")
        taken, self.position = self._data[self.position : end], end
        return taken


def _choose_branch(choices: list[Any], index: int) -> Any:
    if not 0 <= index < len(choices):
        raise AvroError(f"{index} is none of {len(choices)} branches")
    return choices[index]


def _plain(data: bytes) -> str:
    return data.hex()
