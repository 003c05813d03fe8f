"""Values to typed columns, batch by batch: msgpack and JSON objects by a schema, UTF-8 strings, bytes as they are.

What does not decode never stops a job: the row gets no value but a reason, for the dead letters. Null values (tombstones) decode to null.
An object's fields go by name: missing ones are null, those that the schema does not have are left out. Types are strict (no text for an
int, no fraction for one either, no bool), except that an int will do for a double. In JSON, timestamps and dates are ISO 8601 texts,
decimals are texts or numbers, and binary is base64; msgpack has its own timestamps and binary.

A batch is converted by Arrow in one go; only when that fails are its rows looked at one by one.
"""

from __future__ import annotations

import base64
import json
from abc import ABC, abstractmethod
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal, InvalidOperation
from typing import Any, Final

import msgpack  # type: ignore[import-untyped]
import pyarrow as pa  # type: ignore[import-untyped]

FORMATS: Final = ("bytes", "string", "json", "msgpack")
FORMATS_WITH_SCHEMA: Final = ("json", "msgpack")

_MAX_REASON_LENGTH = 300
_Check = Callable[[Any], Any]


class UndecodableError(Exception):
    """Why a value cannot be decoded."""


class BatchDecoder(ABC):
    """Decodes binary values to an array of `type`. A subclass says how one value is parsed."""

    def __init__(self, kind: pa.DataType) -> None:
        self.type = kind

    @abstractmethod
    def parse(self, value: bytes) -> Any:
        """Return what Arrow takes for a value of `type`. UndecodableError."""

    def decode(self, values: pa.Array) -> tuple[pa.Array, list[str | None]]:
        """Return binary values as an array of `type`, and for each the reason why it is null although it had a value."""
        found: list[Any] = []
        reasons: list[str | None] = []
        for value in values.to_pylist():
            reason = None
            if value is not None:
                try:
                    value = self.parse(value)
                except UndecodableError as problem:
                    value, reason = None, str(problem)[:_MAX_REASON_LENGTH]
            found.append(value)
            reasons.append(reason)
        try:
            return pa.array(found, self.type), reasons
        except (pa.ArrowException, TypeError, ValueError, OverflowError):
            return self._one_by_one(found, reasons), reasons

    def _one_by_one(self, found: list[Any], reasons: list[str | None]) -> pa.Array:
        for index, value in enumerate(found):
            try:
                pa.array([value], self.type)
            except (pa.ArrowException, TypeError, ValueError, OverflowError) as problem:
                found[index], reasons[index] = None, f"does not fit the schema: {problem}"[:_MAX_REASON_LENGTH]
        return pa.array(found, self.type)


class Decoder(BatchDecoder):
    """`format` is one of FORMATS; `schema` the struct of the fields, for the formats that have any."""

    def __init__(self, format_name: str, schema: pa.StructType | None = None) -> None:
        if format_name not in FORMATS:
            raise ValueError(f"{format_name!r} is none of the formats {', '.join(FORMATS)}")
        if (schema is not None) != (format_name in FORMATS_WITH_SCHEMA):
            raise ValueError(f"the format {format_name} {'needs a' if schema is None else 'has no'} schema")
        self._parse = _PARSERS[format_name]
        self._check = _struct_check(schema) if schema is not None else _as_it_is
        super().__init__(schema if schema is not None else pa.binary() if format_name == "bytes" else pa.string())

    def parse(self, value: bytes) -> Any:
        return self._check(self._parse(value))


def _parse_json(value: bytes) -> Any:
    try:
        return json.loads(value)
    except (ValueError, RecursionError) as problem:
        raise UndecodableError(f"not JSON: {problem}") from None


def _parse_msgpack(value: bytes) -> Any:
    try:
        return msgpack.unpackb(value, timestamp=3)
    except Exception as problem:  # msgpack raises whatever its parts raise
        raise UndecodableError(f"not msgpack: {str(problem) or type(problem).__name__}") from None


def _parse_string(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError as problem:
        raise UndecodableError(f"not UTF-8: {problem.reason} at byte {problem.start}") from None


def _as_it_is(value: Any) -> Any:
    return value


_PARSERS: Final[dict[str, Callable[[bytes], Any]]] = {
    "bytes": _as_it_is,
    "string": _parse_string,
    "json": _parse_json,
    "msgpack": _parse_msgpack,
}


def _struct_check(struct: pa.StructType) -> _Check:
    """Return the check that makes of a parsed object what Arrow takes as a struct, or says what is wrong with which field."""
    fields = [(field.name, field.nullable, _value_check(field.type)) for field in struct]

    def check(value: Any) -> Any:
        if not isinstance(value, dict):
            raise UndecodableError(f"a {type(value).__name__} where an object is due")
        found = {}
        for name, nullable, check_field in fields:
            item = value.get(name)
            if item is None:
                if not nullable:
                    raise UndecodableError(f"field {name} is missing")
            else:
                try:
                    item = check_field(item)
                except UndecodableError as problem:
                    raise UndecodableError(f"field {name}: {problem}") from None
            found[name] = item
        return found

    return check


def _value_check(kind: pa.DataType) -> _Check:
    """Return the check of values that are not null. ValueError for a type that has no rule."""
    types = pa.types
    if types.is_struct(kind):
        return _struct_check(kind)
    if types.is_list(kind):
        return _list_check(kind)
    if types.is_map(kind):
        return _map_check(kind)
    if types.is_integer(kind):
        return _integer_check(kind)
    for is_kind, check in _SIMPLE_CHECKS:
        if is_kind(kind):
            return check
    raise ValueError(f"there is no rule for values of the type {kind}")


def _integer_check(kind: pa.DataType) -> _Check:
    high = (1 << (kind.bit_width - 1)) - 1

    def check(value: Any) -> int:
        if type(value) is not int:
            raise wrong_type(value, "whole number")
        if not -high - 1 <= value <= high:
            raise UndecodableError(f"{value} is out of range of {kind}")
        return value

    return check


def _list_check(kind: pa.ListType) -> _Check:
    check_item = _value_check(kind.value_type)

    def check(value: Any) -> Any:
        if not isinstance(value, list):
            raise wrong_type(value, "list")
        return [None if item is None else check_item(item) for item in value]

    return check


def _map_check(kind: pa.MapType) -> _Check:
    check_key, check_item = _value_check(kind.key_type), _value_check(kind.item_type)

    def check(value: Any) -> Any:
        if not isinstance(value, dict):
            raise wrong_type(value, "object")
        return [(check_key(key), None if item is None else check_item(item)) for key, item in value.items()]

    return check


def to_number(value: Any) -> float:
    """Return a number of JSON or MessagePack as a float. UndecodableError."""
    if type(value) not in (float, int):
        raise wrong_type(value, "number")
    try:
        return float(value)
    except OverflowError:
        raise wrong_type(value, "number of that size") from None


def to_boolean(value: Any) -> bool:
    """Return a truth value of JSON or MessagePack. UndecodableError."""
    if not isinstance(value, bool):
        raise wrong_type(value, "bool")
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise wrong_type(value, "text")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise wrong_type(value, "text that is Unicode") from None
    return value


def _binary(value: Any) -> bytes:
    if isinstance(value, bytes):
        return value
    if not isinstance(value, str):
        raise wrong_type(value, "binary")
    try:
        return base64.b64decode(value, validate=True)
    except ValueError:
        raise wrong_type(value, "base64") from None


def _timestamp(value: Any) -> datetime:
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value)
        except ValueError:
            raise wrong_type(value, "timestamp") from None
    if not isinstance(value, datetime):
        raise wrong_type(value, "timestamp")
    return value if value.tzinfo is not None else value.replace(tzinfo=UTC)


def _date(value: Any) -> date:
    if not isinstance(value, str):
        raise wrong_type(value, "date")
    try:
        return date.fromisoformat(value)
    except ValueError:
        raise wrong_type(value, "date") from None


def _decimal(value: Any) -> Decimal:
    if type(value) not in (str, int, float):
        raise wrong_type(value, "decimal")
    try:
        return Decimal(str(value))
    except InvalidOperation:
        raise wrong_type(value, "decimal") from None


def wrong_type(value: Any, due: str) -> UndecodableError:
    """Return the error of a value that is not what is `due`."""
    return UndecodableError(f"{value!r:.100} is no {due}")


_SIMPLE_CHECKS: Final[tuple[tuple[Callable[[pa.DataType], bool], _Check], ...]] = (
    (pa.types.is_string, _text),
    (pa.types.is_floating, to_number),
    (pa.types.is_boolean, to_boolean),
    (pa.types.is_binary, _binary),
    (pa.types.is_timestamp, _timestamp),
    (pa.types.is_date, _date),
    (pa.types.is_decimal, _decimal),
)
