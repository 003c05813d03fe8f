"""Values of a column to Protobuf: what `protobuf_types` makes columns of, the other way. Pure."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from google.protobuf import json_format, message_factory  # type: ignore[import-untyped]

from spark_jobs.registry.protobuf_types import (
    JSON_MESSAGES,
    Message,
    find_message,
    is_map,
    is_timestamp,
    message_places,
    root_file,
    shown_fields,
)
from spark_jobs.registry.schemas import Encoding, SchemaError
from spark_jobs.registry.wire_format import with_message_indexes

_Fill = Callable[[Any, Any], None]
"""Sets a message, or one of its fields, to a value that is not null."""
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_SECOND: Final = timedelta(seconds=1)


class ProtobufPayloads:
    """Encodes values by a Protobuf message. SchemaError."""

    def __init__(self, encoding: Encoding) -> None:
        message = find_message(encoding.schema, encoding.message)
        places = {name: place for place, name in message_places(root_file(encoding.schema))}
        if message.full_name not in places:
            raise SchemaError(f"the message {message.full_name} is of a schema that is imported: write with that one")
        self._place = places[message.full_name]
        self._class = message_factory.GetMessageClass(message)
        self._fill = _filling(message)

    def encode(self, value: Any) -> bytes:
        message = self._class()
        self._fill(message, value)
        return with_message_indexes(self._place, message.SerializeToString())


def _filling(message: Message) -> _Fill:
    if is_timestamp(message):
        return _fill_timestamp
    if message.full_name in JSON_MESSAGES:
        return _fill_json
    fields = {each.name: _field_filling(each) for each in shown_fields(message)}
    oneofs = [[each.name for each in oneof.fields] for oneof in message.oneofs if len(oneof.fields) > 1]

    def fill(target: Any, row: Any) -> None:
        for names in oneofs:
            given = [name for name in names if row.get(name) is not None]
            if len(given) > 1:
                raise ValueError(f"{' and '.join(given)} are set, of which a message has one")
        target.SetInParent()
        for name, value in row.items():
            if value is not None:
                fields[name](target, value)

    return fill


def _field_filling(field: Any) -> _Fill:
    name = field.name
    if is_map(field):
        return _map_filling(name, field.message_type.fields_by_name["value"])
    if field.message_type is not None:
        fill = _filling(field.message_type)
        if field.is_repeated:

            def add_all(target: Any, values: Any) -> None:
                for each in values:
                    fill(getattr(target, name).add(), each)

            return add_all
        return lambda target, value: fill(getattr(target, name), value)
    plain = _plain_value(field)
    if field.is_repeated:
        return lambda target, values: getattr(target, name).extend(plain(each) for each in values)
    return lambda target, value: setattr(target, name, plain(value))


def _map_filling(name: str, value: Any) -> _Fill:
    if value.message_type is not None:
        fill = _filling(value.message_type)

        def fill_all(target: Any, pairs: Any) -> None:
            for key, each in pairs:
                fill(getattr(target, name)[key], each)

        return fill_all
    plain = _plain_value(value)
    return lambda target, pairs: getattr(target, name).update({key: plain(each) for key, each in pairs})


def _plain_value(field: Any) -> Callable[[Any], Any]:
    if field.enum_type is not None:
        return lambda text: _find_number(field.enum_type, text)
    if field.cpp_type == field.CPPTYPE_UINT64:
        return int
    return lambda value: value


def _find_number(enum: Any, text: str) -> int:
    found = enum.values_by_name.get(text)
    if found is None and not text.isdecimal():
        raise ValueError(f"{text!r} is no value of {enum.full_name}")
    return int(text) if found is None else int(found.number)


def _fill_timestamp(target: Any, value: Any) -> None:
    since = (value if value.tzinfo is not None else value.replace(tzinfo=UTC)) - _EPOCH
    seconds = since // _SECOND
    target.SetInParent()
    target.seconds, target.nanos = seconds, (since - seconds * _SECOND).microseconds * 1000


def _fill_json(target: Any, text: Any) -> None:
    target.SetInParent()
    json_format.Parse(text, target)
