"""Headers of messages of the formats before record batches (magic 0 and 1), read as if they were headers of batches.

    0  offset i64      12 crc u32, CRC-32 of bytes 16..end    17 attributes i8: bits 0-2 codec, 3 timestamp type (magic 1)
    8  size i32        16 magic i8                            18 timestamp i64 (magic 1 only)

Offset, size and magic lie where a batch has base offset, length and magic, so both kinds lie in one log behind each other. Shallow:
a compressed message is a wrapper, whose offset is that of the last message in it; how many there are, and the first one's offset, only
`legacy_messages` tells, which opens it. Here every message has one offset, its last; no leader epoch, no producer, and -1 as its count.
"""

from __future__ import annotations

import struct
from typing import Final, TypeAlias

from kafkalite.types import Buffer

CHECKED_FROM: Final = 16
"""From this byte on the CRC covers a message."""
SMALLEST_SIZE: Final = 26
"""Bytes of the smallest message there can be: of magic 0, with a key of no bytes and a value of none."""
UNKNOWN_COUNT: Final = -1

_START: Final = struct.Struct(">qiIbB")
_TIMESTAMP: Final = struct.Struct(">q")
_LEAST_SIZE: Final = (14, 22)
"""Smallest value of the size field, by magic: CRC, magic, attributes, timestamp, two lengths."""
_ATTRIBUTES: Final = (0x07, 0x0F)
"""The bits of the attributes that mean something, by magic."""

Fields: TypeAlias = tuple[int, int, int, int, int, int, int, int, int, int, int, int, int]


def fields_at(buffer: Buffer, position: int) -> Fields | None:
    """Return the fields of a `BatchHeader` for the message at `position`, without the position.

    None where there is no message of magic 0 or 1, or its first bytes are not all there.
    """
    if position + SMALLEST_SIZE > len(buffer):
        return None
    offset, size, crc, magic, attributes = _START.unpack_from(buffer, position)
    if magic not in (0, 1) or size < _LEAST_SIZE[magic]:
        return None
    timestamp = _TIMESTAMP.unpack_from(buffer, position + _START.size)[0] if magic else -1
    attributes &= _ATTRIBUTES[magic]
    return offset, size, -1, magic, crc, attributes, 0, timestamp, timestamp, -1, -1, -1, UNKNOWN_COUNT
