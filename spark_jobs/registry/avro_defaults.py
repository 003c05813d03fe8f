"""Defaults of a reader's fields, as fastavro gives values of their types. Pure.

A schema writes defaults as JSON: bytes as text, timestamps as numbers, a union's value as that of its first member that fits. fastavro
fills them in as they stand there, so a default of 1000 ms would become a millisecond, and a member of a union would have no name. Each is
therefore encoded by its type here, and read by fastavro like any other value (Avro's specification, "Complex Types", `default`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from io import BytesIO
from typing import Any, Final

import fastavro

from spark_jobs.registry.avro_tree import Avro, kind_and_details
from spark_jobs.registry.schemas import MAX_NODES, MAX_SCHEMA_BYTES, SchemaError

WRITTEN_DEFAULT: Final = "kafkalite_default"
"""Where fields have their default as it is written, out of fastavro's sight."""
_MAX_VALUES: Final = 10 * MAX_NODES
"""In all defaults of a schema, those of nested records included."""
_MAX_BYTES: Final = 4 * MAX_SCHEMA_BYTES
_INT, _LONG = 1 << 31, 1 << 63
_FITS: Final[Mapping[str, Callable[[Any], bool]]] = {
    "null": lambda value: value is None,
    "boolean": lambda value: isinstance(value, bool),
    "int": lambda value: type(value) is int and -_INT <= value < _INT,
    "long": lambda value: type(value) is int and -_LONG <= value < _LONG,
    "float": lambda value: type(value) in (int, float),
    "double": lambda value: type(value) in (int, float),
    "string": lambda value: isinstance(value, str),
    "bytes": lambda value: isinstance(value, bytes),
}


class Defaults:
    """The defaults of all records of a schema."""

    def __init__(self, named: Mapping[str, Avro], definition: Callable[[Avro], Avro]) -> None:
        self._named, self._definition = named, definition
        self._values = self._bytes = 0

    def fill(self) -> None:
        """Set `default` in each field that has WRITTEN_DEFAULT. SchemaError names the field whose default is not of its type."""
        fields = [
            (name, each)
            for name, record in self._named.items()
            for each in record.get("fields", ())
            if WRITTEN_DEFAULT in each
        ]
        # Only then: fastavro refuses what is no JSON in a schema that it is to parse.
        for each, value in [(each, self._value(name, each)) for name, each in fields]:
            each["default"] = value

    def _value(self, record: str, field: Mapping[str, Any]) -> Any:
        written = field[WRITTEN_DEFAULT]
        try:
            payload = self._encode(field["type"], written)
            wrapped = {
                "type": "record",
                "name": "kafkalite_default",
                "fields": [{"name": "it", "type": field["type"]}],
            }
            schema = fastavro.parse_schema(wrapped, named_schemas=dict(self._named))
            found: Any = fastavro.schemaless_reader(BytesIO(payload), schema, None, return_named_type=True)
        except SchemaError:
            raise
        except Exception as problem:  # fastavro raises whatever its parts raise
            raise SchemaError(
                f"the default {written!r:.100} of field {field['name']} of {record} is not of the field's type "
                f"({type(problem).__name__}: {problem!s:.100})"
            ) from None
        return found["it"]

    def _encode(self, schema: Avro, value: Any) -> bytes:
        """Return the value of a default in Avro's encoding. Raises whatever a value of another type leads to."""
        self._values += 1
        if self._values > _MAX_VALUES:
            raise SchemaError(f"the schema's defaults have more than {_MAX_VALUES} values")
        schema = self._definition(schema)
        if isinstance(schema, list):
            return self._encode_member(schema, value)
        kind, details = kind_and_details(schema)
        if kind == "record":
            return b"".join(self._encode(each["type"], _of_field(value, each)) for each in details["fields"])
        if kind == "array":
            return self._block([self._encode(details["items"], each) for each in _check_kind(value, list)])
        if kind == "map":
            items = _check_kind(value, dict).items()
            return self._block(
                [self._leaf("string", key) + self._encode(details["values"], each) for key, each in items]
            )
        if kind == "enum":
            return self._leaf("long", details["symbols"].index(value))
        if kind == "fixed":
            return _check_length(value.encode("latin-1"), int(details["size"]))
        return self._leaf(kind, value.encode("latin-1") if kind == "bytes" else value)

    def _encode_member(self, members: Sequence[Avro], value: Any) -> bytes:
        for index, each in enumerate(members):
            try:
                return self._leaf("long", index) + self._encode(each, value)
            except SchemaError:
                raise
            except Exception:  # the next member may fit
                continue
        raise ValueError("no member of the union fits")

    def _block(self, items: Sequence[bytes]) -> bytes:
        """Return Avro's encoding of an array's or a map's items."""
        return (self._leaf("long", len(items)) if items else b"") + b"".join(items) + self._leaf("long", 0)

    def _leaf(self, kind: str, value: Any) -> bytes:
        if not _FITS[kind](value):
            raise ValueError(f"{value!r:.40} is no {kind}")
        stream = BytesIO()
        fastavro.schemaless_writer(stream, kind, value)
        self._bytes += stream.tell()
        if self._bytes > _MAX_BYTES:
            raise SchemaError(f"the schema's defaults have more than {_MAX_BYTES} bytes")
        return stream.getvalue()


def _of_field(value: Any, field: Mapping[str, Any]) -> Any:
    """Return what a default of a record says of a field, whose own default it may leave out."""
    name = field["name"]
    return value[name] if name in _check_kind(value, dict) else field[WRITTEN_DEFAULT]


def _check_kind(value: Any, kind: type) -> Any:
    if not isinstance(value, kind):
        raise ValueError(f"{value!r:.40} is no {kind.__name__}")
    return value


def _check_length(value: bytes, size: int) -> bytes:
    if len(value) != size:
        raise ValueError(f"{len(value)} bytes instead of {size}")
    return value
