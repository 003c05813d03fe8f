"""Texts of keys, values and headers by Kafka's deserializer classes, as `kafka-console-consumer` prints them. Pure."""

from __future__ import annotations

import struct
import uuid
from collections.abc import Callable
from typing import Final

from kafkalite.legacy.command_line.failures import ToolError
from kafkalite.legacy.java.text import double, single

Deserializer = Callable[[bytes], bytes]
"""Returns the UTF-8 text of the serialized value. Raises ToolError for bytes that are none."""

_PACKAGE: Final = "org.apache.kafka.common.serialization."
_SERIALIZATION_EXCEPTION: Final = "org.apache.kafka.common.errors.SerializationException"


def deserializer_named(name: str) -> Deserializer | None:
    """Return the deserializer of a Java class, None for an unknown class."""
    return _BY_NAME.get(name.removeprefix(_PACKAGE)) if name.startswith(_PACKAGE) else None


def _number(form: str, java_name: str, show: Callable[[float], str]) -> Deserializer:
    size = struct.calcsize(form)

    def deserialize(data: bytes) -> bytes:
        if len(data) != size:
            raise ToolError(f"Size of data received by {java_name}Deserializer is not {size}", _SERIALIZATION_EXCEPTION)
        return show(struct.unpack(form, data)[0]).encode()

    return deserialize


def _uuid(data: bytes) -> bytes:
    try:
        return str(uuid.UUID(data.decode())).encode()
    except ValueError:
        raise ToolError("Error parsing data into UUID", _SERIALIZATION_EXCEPTION) from None


def _boolean(data: bytes) -> bytes:
    if data not in (b"\0", b"\1"):
        raise ToolError("Unexpected byte received by BooleanDeserializer", _SERIALIZATION_EXCEPTION)
    return b"true" if data == b"\1" else b"false"


_BY_NAME: Final[dict[str, Deserializer]] = {
    "StringDeserializer": lambda data: data.decode(errors="replace").encode(),
    "ByteArrayDeserializer": bytes,
    "BytesDeserializer": bytes,
    "LongDeserializer": _number(">q", "Long", str),
    "IntegerDeserializer": _number(">i", "Integer", str),
    "ShortDeserializer": _number(">h", "Short", str),
    "DoubleDeserializer": _number(">d", "Double", double),
    "FloatDeserializer": _number(">f", "Float", single),
    "UUIDDeserializer": _uuid,
    "BooleanDeserializer": _boolean,
}
