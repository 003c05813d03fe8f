"""The schema registry's wire format: the byte 0, the schema's id as four big-endian bytes, then the value as its schema writes it. Pure.

Source of the rule: Confluent's "Wire format" of Schema Registry serializers, which Karapace and Apicurio Registry share.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final

MAGIC_BYTE: Final = 0
HEADER_BYTES: Final = 5
MAX_NESTING: Final = 100
"""Levels of messages within messages."""
_MAX_VARINT_BITS: Final = 35
_HEADER: Final = struct.Struct(">BI")


class WireFormatError(ValueError):
    """A value that does not begin with the magic byte and a schema id."""


def schema_id(value: bytes) -> int:
    """Return the id of the schema that a value was written with; the payload begins at HEADER_BYTES. WireFormatError."""
    if len(value) < HEADER_BYTES:
        raise WireFormatError(
            f"not in the schema registry's wire format: {len(value)} bytes, the header alone has {HEADER_BYTES}"
        )
    magic, found = _HEADER.unpack_from(value)
    if magic != MAGIC_BYTE:
        raise WireFormatError(
            f"not in the schema registry's wire format: the first byte is 0x{magic:02x}, not the magic byte 0x00"
        )
    return int(found)


def message_indexes(value: bytes) -> tuple[tuple[int, ...], int]:
    """Return the place of a Protobuf message in its schema, and where the message begins in the value. WireFormatError.

    The place has an index for each level of nesting: (1, 0) is the first message within the second one. Behind the header stand their
    number and each of them, as zigzag varints; a number of 0 alone is the first message.
    """
    count, position = _read_zigzag(value, HEADER_BYTES)
    if count == 0:
        return (0,), position
    if not 0 < count <= MAX_NESTING:
        raise WireFormatError(f"not in the schema registry's wire format: {count} message indexes")
    indexes = []
    for _ in range(count):
        index, position = _read_zigzag(value, position)
        indexes.append(index)
    return tuple(indexes), position


def with_message_indexes(indexes: Sequence[int], payload: bytes) -> bytes:
    """Return a Protobuf message behind its place in its schema; it goes behind the header."""
    if tuple(indexes) == (0,):
        return b"\x00" + payload
    return b"".join(_write_zigzag(each) for each in (len(indexes), *indexes)) + payload


def _write_zigzag(number: int) -> bytes:
    left, found = number << 1, bytearray()  # none is negative
    while left >= 0x80:
        found.append(left & 0x7F | 0x80)
        left >>= 7
    return bytes(found) + bytes((left,))


def _read_zigzag(value: bytes, position: int) -> tuple[int, int]:
    found = shift = 0
    while shift < _MAX_VARINT_BITS:
        if position >= len(value):
            raise WireFormatError("not in the schema registry's wire format: it ends within the message indexes")
        byte = value[position]
        position += 1
        found |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (found >> 1) ^ -(found & 1), position
        shift += 7
    raise WireFormatError("not in the schema registry's wire format: a message index is too long")


def with_header(found: int, payload: bytes) -> bytes:
    """Return the payload behind the header of a schema id."""
    return _HEADER.pack(MAGIC_BYTE, found) + payload
