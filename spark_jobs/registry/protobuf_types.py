"""Protobuf messages to types of Spark. Pure.

| Protobuf | Spark |
|---|---|
| message | struct, nullable |
| int32, sint32, sfixed32 | int |
| uint32, fixed32 | bigint |
| int64, sint64, sfixed64 | bigint |
| uint64, fixed64 | decimal(20,0) |
| float, double, bool, string, bytes | float, double, boolean, string, binary |
| enum | string, the name; of a number without one, its digits |
| repeated, map | array, map |
| google.protobuf.Timestamp | timestamp, cut to microseconds |
| google.protobuf.Struct, Value, ListValue | string, as JSON |
| other messages of google.protobuf | the struct that they are |

A field that knows whether it is set (`optional`, messages, members of a `oneof`, proto2) is null where it is not; any other one has the
default of its type, as Protobuf says. Messages without fields are left out, as `from_protobuf` does, since Parquet has no such structs.

Refused, with the field's name: messages that contain themselves, names that differ in case alone, more than `MAX_NODES` fields with each
message counted where it stands, or deeper than `MAX_DEPTH`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from google.protobuf import descriptor_pb2, descriptor_pool  # type: ignore[import-untyped]
from google.protobuf.descriptor import FieldDescriptor  # type: ignore[import-untyped]
from pyspark.sql import types as T

from spark_jobs.registry.schemas import MAX_DEPTH, MAX_NODES, Schema, SchemaError

Message = Any
"""A descriptor of a message."""

TIMESTAMP: Final = "google.protobuf.Timestamp"
JSON_MESSAGES: Final = frozenset({"google.protobuf.Struct", "google.protobuf.Value", "google.protobuf.ListValue"})
_F = FieldDescriptor
_SCALARS: Final[Mapping[int, T.DataType]] = {
    **dict.fromkeys((_F.TYPE_INT32, _F.TYPE_SINT32, _F.TYPE_SFIXED32), T.IntegerType()),
    **dict.fromkeys((_F.TYPE_UINT32, _F.TYPE_FIXED32), T.LongType()),
    **dict.fromkeys((_F.TYPE_INT64, _F.TYPE_SINT64, _F.TYPE_SFIXED64), T.LongType()),
    **dict.fromkeys((_F.TYPE_UINT64, _F.TYPE_FIXED64), T.DecimalType(20, 0)),
    _F.TYPE_FLOAT: T.FloatType(),
    _F.TYPE_DOUBLE: T.DoubleType(),
    _F.TYPE_BOOL: T.BooleanType(),
    _F.TYPE_STRING: T.StringType(),
    _F.TYPE_BYTES: T.BinaryType(),
    _F.TYPE_ENUM: T.StringType(),
}
_TIMESTAMP_FIELDS: Final = {"seconds": _F.TYPE_INT64, "nanos": _F.TYPE_INT32}


def root_file(schema: Schema) -> Any:
    """Return the FileDescriptorProto of a compiled schema itself. SchemaError when it could not be compiled."""
    if schema.problem is not None:
        raise SchemaError(schema.problem)
    files = descriptor_pb2.FileDescriptorSet.FromString(schema.compiled).file
    if not files:
        raise SchemaError("the schema was not compiled")
    return files[-1]


def find_message(schema: Schema, wanted: str | None) -> Message:
    """Return the descriptor of a message by its full name, or of the first one. SchemaError."""
    root = root_file(schema)
    if not root.message_type:
        raise SchemaError("the schema has no message")
    pool = descriptor_pool.DescriptorPool()
    name = wanted or ".".join(filter(None, (root.package, root.message_type[0].name)))
    try:
        for each in descriptor_pb2.FileDescriptorSet.FromString(schema.compiled).file:
            pool.AddSerializedFile(each.SerializeToString())
        return pool.FindMessageTypeByName(name)
    except KeyError:
        raise SchemaError(f"the schema has no message {name}") from None
    except Exception as problem:  # the pool raises what its C code says
        raise SchemaError(f"not a Protobuf schema: {problem!s:.200}") from None


def message_places(file: Any) -> Iterator[tuple[tuple[int, ...], str]]:
    """Yield place and full name of each message of a FileDescriptorProto: the index on each level of nesting."""
    yield from _places_within(file.message_type, (), file.package)


def _places_within(
    messages: Sequence[Any], above: tuple[int, ...], scope: str
) -> Iterator[tuple[tuple[int, ...], str]]:
    for index, each in enumerate(messages):
        name = f"{scope}.{each.name}" if scope else each.name
        yield (*above, index), name
        yield from _places_within(each.nested_type, (*above, index), name)


def is_timestamp(message: Message) -> bool:
    """True for Protobuf's own timestamp; a schema may bring another type of that name."""
    return message.full_name == TIMESTAMP and {each.name: each.type for each in message.fields} == _TIMESTAMP_FIELDS


def shown_fields(message: Message) -> list[Any]:
    """Return the fields of a message that are columns."""
    return [each for each in message.fields if each.message_type is None or not _is_empty(each.message_type)]


def is_map(field: Any) -> bool:
    return bool(field.is_repeated and field.message_type is not None and field.message_type.GetOptions().map_entry)


def message_type(message: Message) -> T.DataType:
    """Return the type of a column of such messages. SchemaError."""
    return _Types().message_type(message, (), message.full_name)


def _is_empty(message: Message) -> bool:
    return not message.fields and message.full_name not in JSON_MESSAGES


class _Types:
    """Counts the fields while it makes their types."""

    def __init__(self) -> None:
        self._nodes = 0

    def message_type(self, message: Message, above: tuple[str, ...], where: str) -> T.DataType:
        if is_timestamp(message):
            return T.TimestampType()
        if message.full_name in JSON_MESSAGES:
            return T.StringType()
        if message.full_name in above:
            raise SchemaError(
                f"{where} is of the type {message.full_name}, which contains itself: Spark has no recursive types. "
                "Read with a schema that leaves the field out"
            )
        if len(above) >= MAX_DEPTH:
            raise SchemaError(f"{where} is nested too deeply: more than {MAX_DEPTH} levels")
        fields = shown_fields(message)
        if not fields:
            raise SchemaError(f"{where} is a message without fields, for which there is no column")
        inside = (*above, message.full_name)
        return T.StructType([self._field(each, inside, f"{where}.{each.name}", fields) for each in fields])

    def _field(self, field: Any, above: tuple[str, ...], where: str, fields: list[Any]) -> T.StructField:
        self._nodes += 1
        if self._nodes > MAX_NODES:
            raise SchemaError(
                f"{where}: the message has more than {MAX_NODES} fields, with each message's where it stands"
            )
        same = (
            [each.name for each in fields if each.name.lower() == field.name.lower()]
            if field.name != field.name.lower()
            else []
        )
        if len(same) > 1:
            raise SchemaError(
                f"{where} differs from another field in case alone, which Spark ignores: {', '.join(same)}"
            )
        if is_map(field):
            key, value = (field.message_type.fields_by_name[name] for name in ("key", "value"))
            return T.StructField(
                field.name, T.MapType(self._single(key, above, where), self._single(value, above, where), False), False
            )
        kind = self._single(field, above, where)
        if field.is_repeated:
            return T.StructField(field.name, T.ArrayType(kind, False), False)
        return T.StructField(field.name, kind, bool(field.has_presence))

    def _single(self, field: Any, above: tuple[str, ...], where: str) -> T.DataType:
        if field.message_type is not None:
            return self.message_type(field.message_type, above, where)
        return _SCALARS[field.type]
