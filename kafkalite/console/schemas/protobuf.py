"""Protobuf's wire format decoded into plain values for display, by the descriptors of a schema (`FileDescriptorProto`, serialized).

Bounded, because neither bytes nor descriptors are ours: depth, number of values, and no length exceeds the bytes that are there. Bytes
become hexadecimal, enums the names of their values. A field that the descriptors do not have is shown by its number, as are those of a
message whose file is missing.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

_MOST_DEPTH: Final = 64
_MOST_VALUES: Final = 10_000
_LONGEST_NUMBER: Final = 10
"""Bytes of a variable-length number of 64 bits."""
_VARINT, _FIXED64, _LENGTH, _FIXED32 = 0, 1, 2, 5
_MESSAGE, _BYTES, _ENUM = 11, 12, 14
_REPEATED: Final = 3
_MASK: Final = 2**64 - 1


class ProtobufError(ValueError):
    """Raised for invalid bytes or invalid descriptors."""


def _sign_extend(bits: int) -> Callable[[int], int]:
    return lambda raw: ((raw & (2**bits - 1)) ^ (1 << (bits - 1))) - (1 << (bits - 1))


def _unpack(form: str) -> Callable[[bytes], Any]:
    return lambda raw: struct.unpack(form, raw)[0]


def _zigzag(raw: int) -> int:
    return (raw >> 1) ^ -(raw & 1)


_SCALARS: Final[Mapping[int, tuple[int, Callable[[Any], Any], Any]]] = {
    1: (_FIXED64, _unpack("<d"), 0.0),
    2: (_FIXED32, _unpack("<f"), 0.0),
    3: (_VARINT, _sign_extend(64), 0),
    4: (_VARINT, int, 0),
    5: (_VARINT, _sign_extend(32), 0),
    6: (_FIXED64, _unpack("<Q"), 0),
    7: (_FIXED32, _unpack("<I"), 0),
    8: (_VARINT, bool, False),
    9: (_LENGTH, lambda raw: raw.decode("utf-8", "backslashreplace"), ""),
    _BYTES: (_LENGTH, bytes.hex, ""),
    13: (_VARINT, lambda raw: raw & 0xFFFFFFFF, 0),
    15: (_FIXED32, _unpack("<i"), 0),
    16: (_FIXED64, _unpack("<q"), 0),
    17: (_VARINT, _zigzag, 0),
    18: (_VARINT, _zigzag, 0),
}
"""Wire type, conversion and default of each type of `FieldDescriptorProto.Type` but messages, enums and groups."""


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a message; `type_name` is the full name of its message or enum."""

    name: str
    type: int
    type_name: str = ""
    is_repeated: bool = False


@dataclass(slots=True)
class Message:
    """A message by its descriptor: fields by number, and the full names of the messages in it, in their order."""

    fields: dict[int, Field] = field(default_factory=dict)
    nested: list[str] = field(default_factory=list)
    is_map_entry: bool = False


_SECONDS_AND_NANOS: Final = Message({1: Field("seconds", 3), 2: Field("nanos", 5)})
_WRAPPED: Final = {
    "Double": 1,
    "Float": 2,
    "Int64": 3,
    "UInt64": 4,
    "Int32": 5,
    "UInt32": 13,
    "Bool": 8,
    "String": 9,
    "Bytes": _BYTES,
}
_WELL_KNOWN: Final = {
    "google.protobuf.Timestamp": _SECONDS_AND_NANOS,
    "google.protobuf.Duration": _SECONDS_AND_NANOS,
    **{f"google.protobuf.{name}Value": Message({1: Field("value", kind)}) for name, kind in _WRAPPED.items()},
}
"""Messages of Protobuf's own, which registries do not serve."""


def read_varint(data: bytes, position: int) -> tuple[int, int]:
    """Return a variable-length number of 64 bits, and the position behind it. Raises ProtobufError."""
    found = 0
    for index, byte in enumerate(data[position : position + _LONGEST_NUMBER]):
        found |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            return found & _MASK, position + index + 1
    raise ProtobufError("a number does not end")


def read_fields(data: bytes) -> Iterator[tuple[int, int, int | bytes]]:
    """Yield number, wire type and content of each field. Raises ProtobufError."""
    position = 0
    while position < len(data):
        tag, position = read_varint(data, position)
        number, wire = tag >> 3, tag & 7
        if wire == _VARINT:
            content: int | bytes
            content, position = read_varint(data, position)
        elif wire in (_FIXED64, _FIXED32, _LENGTH):
            length = 8 if wire == _FIXED64 else 4
            if wire == _LENGTH:
                length, position = read_varint(data, position)
            content, position = data[position : position + length], position + length
            if position > len(data):
                raise ProtobufError("the bytes end too soon")
        else:
            raise ProtobufError(f"field {number} has wire type {wire}, which is not read")
        yield number, wire, content


class ProtobufSchema:
    """A schema by the serialized descriptors of its files, its own file the first. Raises ProtobufError for invalid ones."""

    def __init__(self, files: Sequence[bytes]) -> None:
        self._messages: dict[str, Message] = dict(_WELL_KNOWN)
        self._enums: dict[str, dict[int, str]] = {}
        top = [self._add_file(each) for each in files]
        self._top = Message(nested=top[0] if top else [])

    def read(self, data: bytes) -> Any:
        """Return the message behind the indexes with which a registry's values name it. Raises ProtobufError."""
        count, position = read_varint(data, 0)
        count = _zigzag(count)
        indexes = [] if count else [0]
        if not 0 <= count <= _MOST_DEPTH:
            raise ProtobufError("no indexes of a message stand in front")
        for _ in range(count):
            index, position = read_varint(data, position)
            indexes.append(_zigzag(index))
        message, name = self._top, ""
        for index in indexes:
            if not 0 <= index < len(message.nested):
                raise ProtobufError(f"{index} is none of {len(message.nested)} messages of {name or 'the schema'}")
            name = message.nested[index]
            message = self._messages[name]
        return _Reader(self._messages, self._enums).message(name, data[position:], 0)

    def _add_file(self, data: bytes) -> list[str]:
        """Add the types of a file, and return the full names of its messages."""
        parts = _group_fields(data)
        package = _text(parts, 2)
        for each in parts.get(5, ()):
            self._add_enum(_bytes(each), package)
        return [self._add_message(_bytes(each), package, 0) for each in parts.get(4, ())]

    def _add_message(self, data: bytes, space: str, depth: int) -> str:
        if depth > _MOST_DEPTH:
            raise ProtobufError("messages are nested too deeply")
        parts = _group_fields(data)
        name = _join(space, _text(parts, 1))
        made = Message()
        self._messages[name] = made
        for each in parts.get(2, ()):
            of_field = _group_fields(_bytes(each))
            label, kind = _number(of_field, 4), _number(of_field, 5)
            type_name = _text(of_field, 6).removeprefix(".")
            made.fields[_number(of_field, 3)] = Field(_text(of_field, 1), kind, type_name, label == _REPEATED)
        made.nested += [self._add_message(_bytes(each), name, depth + 1) for each in parts.get(3, ())]
        for each in parts.get(4, ()):
            self._add_enum(_bytes(each), name)
        made.is_map_entry = any(_number(_group_fields(_bytes(each)), 7) for each in parts.get(7, ()))
        return name

    def _add_enum(self, data: bytes, space: str) -> None:
        parts = _group_fields(data)
        values = [_group_fields(_bytes(each)) for each in parts.get(2, ())]
        names = {_sign_extend(32)(_number(each, 2)): _text(each, 1) for each in reversed(values)}
        self._enums[_join(space, _text(parts, 1))] = names


def _group_fields(data: bytes) -> dict[int, list[int | bytes]]:
    """Return the contents of a message's fields by number."""
    found: dict[int, list[int | bytes]] = {}
    for number, _, content in read_fields(data):
        found.setdefault(number, []).append(content)
    return found


def _bytes(content: int | bytes) -> bytes:
    if isinstance(content, int):
        raise ProtobufError("the schema is no serialized descriptor")
    return content


def _text(parts: Mapping[int, Sequence[int | bytes]], number: int) -> str:
    return _bytes(parts[number][-1]).decode("utf-8", "backslashreplace") if number in parts else ""


def _number(parts: Mapping[int, Sequence[int | bytes]], number: int) -> int:
    found = parts[number][-1] if number in parts else 0
    if not isinstance(found, int):
        raise ProtobufError("the schema is no serialized descriptor")
    return found


def _join(space: str, name: str) -> str:
    return f"{space}.{name}" if space else name


class _Reader:
    """Reads one value, and counts what is in it."""

    def __init__(self, messages: Mapping[str, Message], enums: Mapping[str, Mapping[int, str]]) -> None:
        self._messages, self._enums = messages, enums
        self._values = 0

    def message(self, name: str, data: bytes, depth: int) -> dict[str, Any]:
        """Return the fields that are there by name, or by number where nothing is known of them."""
        if depth > _MOST_DEPTH:
            raise ProtobufError("nested too deeply")
        known = self._messages.get(name, Message()).fields
        found: dict[str, Any] = {}
        for number, wire, content in read_fields(data):
            if number not in known:
                self._count()
                _add_unknown(found, str(number), content)
                continue
            of_field = known[number]
            values = self._read_values(of_field, wire, content, depth)
            entry = self._messages.get(of_field.type_name) if of_field.type == _MESSAGE else None
            if entry is not None and entry.is_map_entry:
                key, value = (entry.fields[number].name for number in (1, 2))
                for each in values:
                    pair = (
                        each.get(key, self._default(entry.fields[1])),
                        each.get(value, self._default(entry.fields[2])),
                    )
                    found.setdefault(of_field.name, {})[pair[0]] = pair[1]
            elif of_field.is_repeated:
                found.setdefault(of_field.name, []).extend(values)
            elif values:
                found[of_field.name] = values[-1]
        return found

    def _count(self) -> None:
        self._values += 1
        if self._values > _MOST_VALUES:
            raise ProtobufError("too many values")

    def _default(self, of_field: Field) -> Any:
        """Return the value of a map's entry that has none."""
        if of_field.type == _ENUM:
            return self._enums.get(of_field.type_name, {}).get(0, 0)
        return _SCALARS[of_field.type][2] if of_field.type in _SCALARS else {}

    def _read_values(self, of_field: Field, wire: int, content: int | bytes, depth: int) -> list[Any]:
        """Return the value of a field, or the values of a packed one."""
        if of_field.type == _MESSAGE:
            if wire != _LENGTH:
                raise ProtobufError(f"field {of_field.name} has wire type {wire}, and is a message")
            self._count()
            return [self.message(of_field.type_name, _bytes(content), depth + 1)]
        own, convert = self._conversion(of_field)
        raw: Iterable[int | bytes] = [content]
        if wire == _LENGTH != own and of_field.is_repeated:
            raw = _unpack_field(_bytes(content), own)
        elif wire != own:
            raise ProtobufError(f"field {of_field.name} has wire type {wire}, where its type has {own}")
        values = []
        for each in raw:
            self._count()
            values.append(convert(each))
        return values

    def _conversion(self, of_field: Field) -> tuple[int, Callable[[Any], Any]]:
        if of_field.type == _ENUM:
            names = self._enums.get(of_field.type_name, {})
            return _VARINT, lambda raw: names.get(_sign_extend(32)(raw), _sign_extend(32)(raw))
        if of_field.type not in _SCALARS:
            raise ProtobufError(f"field {of_field.name} has type {of_field.type}, which is not read")
        return _SCALARS[of_field.type][:2]


def _unpack_field(data: bytes, wire: int) -> Iterator[int | bytes]:
    """Yield the contents of a packed field."""
    size = 8 if wire == _FIXED64 else 4
    if wire != _VARINT and len(data) % size:
        raise ProtobufError("the bytes of a packed field end too soon")
    position = 0
    while position < len(data):
        if wire == _VARINT:
            content: int | bytes
            content, position = read_varint(data, position)
        else:
            content, position = data[position : position + size], position + size
        yield content


def _add_unknown(found: dict[str, Any], name: str, content: int | bytes) -> None:
    value = content if isinstance(content, int) else content.hex()
    if name not in found:
        found[name] = value
    elif isinstance(found[name], list):
        found[name].append(value)
    else:
        found[name] = [found[name], value]
