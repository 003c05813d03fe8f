"""The schema registry's wire format: the byte 0, the schema's id as four big-endian bytes, then the value as its schema writes it. Pure.

Source of the rule: Confluent's "Wire format" of Schema Registry serializers, which Karapace and Apicurio Registry share.
"""

from __future__ import annotations

import struct
from typing import Final

MAGIC_BYTE: Final = 0
HEADER_BYTES: Final = 5
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


def with_header(found: int, payload: bytes) -> bytes:
    """Return the payload behind the header of a schema id."""
    return _HEADER.pack(MAGIC_BYTE, found) + payload
