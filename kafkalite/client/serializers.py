"""From Python values to the bytes of keys and values, and back.

A serializer is a callable `value -> bytes`, a deserializer a callable `bytes -> value`; neither is called for None, which
is Kafka's null. Integers and floats are written as Kafka's LongSerializer and DoubleSerializer do: eight bytes, big-endian. A name
of `FORMATS`, a callable, or a mapping from topic to either may be given wherever a serializer is.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, Final, Literal, NamedTuple

FormatName = Literal["bytes", "str", "int", "float", "json", "msgpack"]
Serializer = Callable[[Any], bytes | None]
Deserializer = Callable[[bytes], Any]

_INTEGERS = {8: struct.Struct(">q"), 4: struct.Struct(">i"), 2: struct.Struct(">h"), 1: struct.Struct(">b")}
_FLOATS = {8: struct.Struct(">d"), 4: struct.Struct(">f")}


class Format(NamedTuple):
    """A pair of functions between a Python value and bytes."""

    serialize: Serializer
    deserialize: Deserializer


def _to_bytes(value: Any) -> bytes:
    if isinstance(value, bytes):
        return value
    if isinstance(value, bytearray | memoryview):
        return bytes(value)
    raise TypeError(f"{type(value).__name__} where bytes are expected; give a serializer")


def _from_str(value: Any) -> bytes:
    if not isinstance(value, str):
        raise TypeError(f"{type(value).__name__} where str is expected")
    return value.encode("utf-8")


def _to_str(data: bytes) -> str:
    return str(data, "utf-8")


def _from_int(value: Any) -> bytes:
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"{type(value).__name__} where int is expected")
    return _INTEGERS[8].pack(value)


def _to_int(data: bytes) -> int:
    if len(data) not in _INTEGERS:
        raise ValueError(f"an integer has 1, 2, 4 or 8 bytes, not {len(data)}")
    return int(_INTEGERS[len(data)].unpack(data)[0])


def _from_float(value: Any) -> bytes:
    return _FLOATS[8].pack(value)


def _to_float(data: bytes) -> float:
    if len(data) not in _FLOATS:
        raise ValueError(f"a float has 4 or 8 bytes, not {len(data)}")
    return float(_FLOATS[len(data)].unpack(data)[0])


def _json() -> Format:
    import json

    def from_json(value: Any) -> bytes:
        return json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode("utf-8")

    return Format(from_json, json.loads)


def _msgpack() -> Format:
    import msgpack  # type: ignore[import-untyped]

    def to_msgpack(value: Any) -> bytes:
        return bytes(msgpack.packb(value, use_bin_type=True))

    def from_msgpack(data: bytes) -> Any:
        return msgpack.unpackb(data, raw=False, strict_map_key=False)

    return Format(to_msgpack, from_msgpack)


def _same(data: bytes) -> bytes:
    return data


_PLAIN: Final[Mapping[str, Format]] = {
    "bytes": Format(_to_bytes, _same),
    "str": Format(_from_str, _to_str),
    "int": Format(_from_int, _to_int),
    "float": Format(_from_float, _to_float),
}
_WITH_IMPORTS: Final[Mapping[str, Callable[[], Format]]] = {"json": _json, "msgpack": _msgpack}
"""Formats whose libraries only those programs load that use them."""
FORMATS: Final = (*_PLAIN, *_WITH_IMPORTS)
"""The formats that go by name."""

NamedFormat = FormatName | Mapping[str, FormatName | Deserializer] | None
"""A choice of which a type checker cannot tell what values it makes."""
SerializerChoice = FormatName | Serializer | Mapping[str, FormatName | Serializer] | None
DeserializerChoice = NamedFormat | Deserializer


@cache
def format_named(name: str) -> Format:
    """Return the functions of a format. ValueError for an unknown name."""
    _check_name(name)
    return _PLAIN[name] if name in _PLAIN else _WITH_IMPORTS[name]()


def _check_name(name: str) -> None:
    if name not in FORMATS:
        raise ValueError(f"no format {name!r}; there are {', '.join(FORMATS)}")


def serializer_for(choice: SerializerChoice, topic: str) -> Serializer:
    """Return the serializer that `choice` means for `topic`; bytes when it says nothing. ValueError for an unknown name."""
    if isinstance(choice, Mapping):
        choice = choice.get(topic)
    if choice is None:
        return _to_bytes
    return format_named(choice).serialize if isinstance(choice, str) else choice


def deserializer_for(choice: DeserializerChoice, topic: str) -> Deserializer | None:
    """Return the deserializer that `choice` means for `topic`; None when bytes are left as they are. ValueError for an unknown name."""
    if isinstance(choice, Mapping):
        choice = choice.get(topic)
    if choice is None or choice == "bytes":
        return None
    return format_named(choice).deserialize if isinstance(choice, str) else choice


def check_choice(choice: SerializerChoice | DeserializerChoice) -> None:
    """Raise ValueError at once for a name that is no format, wherever it stands in `choice`."""
    for each in choice.values() if isinstance(choice, Mapping) else [choice]:
        if isinstance(each, str):
            _check_name(each)
        elif each is not None and not callable(each):
            raise ValueError(f"{each!r} is no format, neither by name ({', '.join(FORMATS)}) nor as a function")


class TopicDeserializers:
    """Gives the deserializers of keys and values for a topic, None to leave bytes as they are. ValueError for an unknown name."""

    def __init__(self, of_keys: DeserializerChoice, of_values: DeserializerChoice) -> None:
        self._of_keys, self._of_values = of_keys, of_values
        self._found: dict[str, tuple[Deserializer | None, Deserializer | None]] = {}

    def __call__(self, topic: str) -> tuple[Deserializer | None, Deserializer | None]:
        found = self._found.get(topic)
        if found is None:
            found = self._found[topic] = (
                deserializer_for(self._of_keys, topic),
                deserializer_for(self._of_values, topic),
            )
        return found
