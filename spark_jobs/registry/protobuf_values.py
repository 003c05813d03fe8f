"""Protobuf messages in the wire format to typed columns. Pure.

The header names a schema and, by its place in it, a message. That message is read by the reader's schema: fields that it has not are
skipped, and those that a writer did not know are unset, as Protobuf's own readers do.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from operator import attrgetter
from typing import Any, Final

from google.protobuf import json_format, message_factory  # type: ignore[import-untyped]

from spark_jobs.batch.decoders import BatchDecoder, UndecodableError
from spark_jobs.batch.schemas import arrow_type
from spark_jobs.registry.protobuf_types import (
    JSON_MESSAGES,
    Message,
    find_message,
    is_map,
    is_timestamp,
    message_places,
    message_type,
    root_file,
    shown_fields,
)
from spark_jobs.registry.schemas import MAX_VALUES, Decoding, Schema
from spark_jobs.registry.wire_format import WireFormatError, message_indexes, schema_id
from spark_jobs.registry.writer_schemas import WriterSchemas

_Convert = Callable[[Any], Any]
_Places = Mapping[tuple[int, ...], str]
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def _read_places(schema: Schema) -> _Places:
    """Return the names of a schema's messages by their places. SchemaError."""
    return dict(message_places(root_file(schema)))


class ProtobufDecoder(BatchDecoder):
    """Decodes values to the type of a message. SchemaError when that cannot be a column."""

    def __init__(self, decoding: Decoding) -> None:
        message = find_message(decoding.reader, decoding.message)
        self._name: str = message.full_name
        self._class = message_factory.GetMessageClass(message)
        self._conversion = _Conversion()
        self._convert = self._conversion.of_message(message)
        self._places = WriterSchemas(decoding, _read_places)
        super().__init__(arrow_type(message_type(message)))

    def parse(self, value: bytes) -> Any:
        try:
            found = schema_id(value)
            places = self._places.find(found)
            indexes, begin = message_indexes(value)
        except WireFormatError as problem:
            raise UndecodableError(str(problem)) from None
        name = places.get(indexes)
        if name != self._name:
            what = f"has no message at the place {list(indexes)}" if name is None else f"says that it is a {name}"
            raise UndecodableError(f"not a {self._name}: the schema {found} {what}")
        self._conversion.left = MAX_VALUES
        try:
            return self._convert(self._class.FromString(value[begin:]))
        except UndecodableError:
            raise
        except Exception as problem:  # Protobuf raises what its C code says
            raise UndecodableError(f"not Protobuf of the schema {found}: {type(problem).__name__}: {problem}") from None


class _Conversion:
    """Makes what Arrow takes of a message. `left` is how many values a record may have still: a field of two bytes can be a wide struct."""

    def __init__(self) -> None:
        self.left = MAX_VALUES

    def of_message(self, message: Message) -> _Convert:
        if is_timestamp(message):
            return _timestamp
        if message.full_name in JSON_MESSAGES:
            return lambda value: json.dumps(json_format.MessageToDict(value), ensure_ascii=False)
        fields = [(each.name, self._of_field(each)) for each in shown_fields(message)]
        size = len(fields)

        def convert(value: Any) -> Any:
            self._count(size)
            return {name: read(value) for name, read in fields}

        return convert

    def _of_field(self, field: Any) -> _Convert:
        """Return what reads a field of a message."""
        read = attrgetter(field.name)
        if is_map(field):
            return self._of_map(field.message_type.fields_by_name["value"], read)
        convert = self._of_single(field)
        if field.is_repeated:
            return self._of_repeated(read, convert)
        name = field.name
        if field.has_presence:
            return lambda message: convert(read(message)) if message.HasField(name) else None
        return lambda message: convert(read(message))

    def _of_repeated(self, read: _Convert, convert: _Convert) -> _Convert:
        def read_items(message: Any) -> Any:
            items = read(message)
            self._count(len(items))
            return [convert(each) for each in items]

        return read_items

    def _of_map(self, value: Any, read: _Convert) -> _Convert:
        convert = self._of_single(value)

        def read_items(message: Any) -> Any:
            items = read(message)
            self._count(len(items))
            return [(key, convert(each)) for key, each in items.items()]

        return read_items

    def _of_single(self, field: Any) -> _Convert:
        if field.message_type is not None:
            return self.of_message(field.message_type)
        if field.enum_type is not None:
            names = {number: each.name for number, each in field.enum_type.values_by_number.items()}
            return lambda number: names.get(number) or str(number)
        return _as_it_is

    def _count(self, values: int) -> None:
        self.left -= values
        if self.left < 0:
            raise UndecodableError(f"it has more than {MAX_VALUES} values")


def _as_it_is(value: Any) -> Any:
    return value


def _timestamp(value: Any) -> datetime:
    return _EPOCH + timedelta(seconds=value.seconds, microseconds=value.nanos // 1000)
