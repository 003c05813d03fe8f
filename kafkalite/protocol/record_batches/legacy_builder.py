"""Builds messages of the formats before record batches (magic 0 and 1); their layout is in `legacy_messages`.

Where thousands are made for one response each step of the loop counts: a message is three pieces (its entry, its head, its value), and its
CRC goes on from the head's over the value, so that no value is copied before all pieces are joined.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Final

from isal.isal_zlib import crc32

from kafkalite.protocol.record_batches.compiled_records import DecodedRecord
from kafkalite.protocol.record_batches.compression import Codec, compress
from kafkalite.protocol.record_batches.records import CODEC_MASK
from kafkalite.types import Buffer

_ENTRY: Final = struct.Struct(">qiI")
"""Offset; size of what follows it; CRC."""
_KEYLESS_HEADS: Final = (struct.Struct(">bbii"), struct.Struct(">bbqii"))
_HEADS: Final = (struct.Struct(">bbi"), struct.Struct(">bbqi"))
"""Layouts by magic: magic, attributes, timestamp in magic 1, length of the key; without a key that of the value too."""
_LENGTH: Final = struct.Struct(">i")
_CRC_BYTES: Final = 4
_LZ4: Final = int(Codec.LZ4)

_BROKEN_LZ4_CHECKSUM: Final = b"\x1a"
"""Over magic number and descriptor of the frames that `compress` makes, which all begin alike; the right one leaves out the number."""
_LZ4_CHECKSUM_POSITION: Final = 6


class MessageSetBuilder:
    """Messages of `magic` with `attributes` in the order of their records; offsets are written relative to `base_offset`."""

    __slots__ = ("_attributes", "_base_offset", "_chunks", "_magic", "size_bytes")

    def __init__(self, magic: int, attributes: int = 0, base_offset: int = 0) -> None:
        self._magic, self._attributes, self._base_offset = magic, attributes, base_offset
        self._chunks: list[bytes] = []
        self.size_bytes = 0

    def add(self, records: Sequence[DecodedRecord]) -> None:
        """Write a message for each record. What is made meanwhile takes several times their memory, so there should be hundreds at most."""
        chunk = b"".join(self._plain(records) if self._magic else self._without_timestamps(records))
        self._chunks.append(chunk)
        self.size_bytes += len(chunk)

    def build(self) -> bytes:
        return b"".join(self._chunks)

    def _plain(self, records: Sequence[DecodedRecord]) -> list[bytes]:
        attributes, base_offset = self._attributes, self._base_offset
        entry, head_of, keyless_head_of, checksum = _ENTRY.pack, _HEADS[1].pack, _KEYLESS_HEADS[1].pack, crc32
        parts: list[bytes] = []
        for record in records:
            key, value = record.key, record.value
            if value is None:
                size, value = -1, b""
            else:
                size = len(value)
            if key is None:
                head = keyless_head_of(1, attributes, record.timestamp, -1, size)
            else:
                head = head_of(1, attributes, record.timestamp, len(key)) + key + _LENGTH.pack(size)
            parts += (
                entry(
                    record.offset - base_offset, _CRC_BYTES + len(head) + len(value), checksum(value, checksum(head))
                ),
                head,
                value,
            )
        return parts

    def _without_timestamps(self, records: Sequence[DecodedRecord]) -> list[bytes]:
        attributes, base_offset = self._attributes, self._base_offset
        parts: list[bytes] = []
        for record in records:
            key, value = record.key, record.value
            if value is None:
                size, value = -1, b""
            else:
                size = len(value)
            if key is None:
                head = _KEYLESS_HEADS[0].pack(0, attributes, -1, size)
            else:
                head = _HEADS[0].pack(0, attributes, len(key)) + key + _LENGTH.pack(size)
            checksum = crc32(value, crc32(head))
            offset = record.offset - base_offset
            parts += (_ENTRY.pack(offset, _CRC_BYTES + len(head) + len(value), checksum), head, value)
        return parts


def build_wrapper(
    magic: int,
    codec: int,
    attributes: int,
    offset: int,
    timestamp: int,
    messages: Buffer,
    compressed: Callable[[int, Buffer], bytes] = compress,
) -> bytes:
    """Return a message at `offset` whose value is a message set, compressed by `codec`; magic 0 has no timestamp.

    `codec` is not zstd, which came after these formats. A frame of lz4 in magic 0 has the header checksum of KAFKA-3160.
    """
    value = compressed(codec, messages)
    if codec == _LZ4 and not magic:
        position = _LZ4_CHECKSUM_POSITION
        value = value[:position] + _BROKEN_LZ4_CHECKSUM + value[position + 1 :]
    attributes = attributes & ~CODEC_MASK | codec
    if magic:
        head = _KEYLESS_HEADS[1].pack(1, attributes, timestamp, -1, len(value))
    else:
        head = _KEYLESS_HEADS[0].pack(0, attributes, -1, len(value))
    return _ENTRY.pack(offset, _CRC_BYTES + len(head) + len(value), crc32(value, crc32(head))) + head + value
