"""Message sets of the formats before record batches (magic 0 and 1), rewritten as one record batch.

Clients before 0.11 produce them in requests of version 0 to 2. Big endian:

    offset i64, size i32, crc u32 (CRC-32 of the bytes from magic on), magic i8, attributes i8,
    timestamp i64 (magic 1 only), key length i32 (-1 null), key, value length i32 (-1 null), value

Attributes: bits 0-2 codec (0 none, 1 gzip, 2 snappy, 3 lz4), bit 3 timestamp type. A compressed message has as its value a
message set. With magic 0 and lz4 the frame's header checksum was computed wrongly by old clients; it is made right here.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from typing import Final

from kafkalite.errors import ErrorCode, KafkaError
from kafkalite.protocol.record_batches.compression import Codec, decompress
from kafkalite.protocol.record_batches.records import NO_TIMESTAMP, NewRecord, build_batch
from kafkalite.types import Buffer

_ENTRY = struct.Struct(">qi")
_HEAD = struct.Struct(">Ibb")
_TIMESTAMP = struct.Struct(">q")
_LENGTH = struct.Struct(">i")
_CODEC_MASK: Final = 0x07
_DECOMPRESSED_LIMIT_BYTES: Final = 32 * 1024 * 1024
"""Bound for all messages of a set together: each becomes an object of its own, however small it is."""
_MAGIC_POSITION: Final = 16


def is_message_set(records: Buffer) -> bool:
    """True if the produced data begin with a message of magic 0 or 1."""
    return len(records) > _MAGIC_POSITION and records[_MAGIC_POSITION] in (0, 1)


def to_record_batch(messages: Buffer, limit_bytes: int = _DECOMPRESSED_LIMIT_BYTES) -> bytearray:
    """Return one batch with the records of a message set, compressed as its first message was.

    A message that is cut at the end is left out, as Kafka leaves it out.

    Raises KafkaError CORRUPT_MESSAGE for a wrong CRC or a message that cannot be read, INVALID_RECORD for an empty set or
    compressed messages that cannot be decompressed, UNSUPPORTED_COMPRESSION_TYPE for zstd or an unknown codec.
    """
    data = memoryview(messages)
    try:
        records = list(_records(data, [limit_bytes]))
        codec = data[_MAGIC_POSITION + 1] & _CODEC_MASK
    except (struct.error, IndexError) as problem:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"messages cannot be read: {problem}") from None
    if not records:
        raise KafkaError(ErrorCode.INVALID_RECORD, "a message set without messages")
    return build_batch(records, codec=codec)


def _records(data: memoryview, room: list[int], *, nested: bool = False) -> Iterator[NewRecord]:
    """Yield the records of a set; `room` has one number, the bytes that all its messages together may still become."""
    position = 0
    while position + _ENTRY.size <= len(data):
        _, size = _ENTRY.unpack_from(data, position)
        position += _ENTRY.size
        if position + size > len(data) and not nested:
            return
        if size < _HEAD.size + 2 * _LENGTH.size or position + size > len(data):
            raise KafkaError(
                ErrorCode.CORRUPT_MESSAGE, f"a message of {size} bytes where {len(data) - position} are left"
            )
        yield from _message(data[position : position + size], room, nested)
        position += size


def _message(message: memoryview, room: list[int], nested: bool) -> Iterator[NewRecord]:
    crc, magic, attributes = _HEAD.unpack_from(message)
    if zlib.crc32(message[4:]) != crc:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, "the CRC of a message does not fit its bytes")
    if magic not in (0, 1):
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"a message of magic {magic} among older ones")
    position, timestamp = _HEAD.size, NO_TIMESTAMP
    if magic == 1:
        (timestamp,) = _TIMESTAMP.unpack_from(message, position)
        position += _TIMESTAMP.size
    key, position = _content(message, position)
    value, position = _content(message, position)
    codec = attributes & _CODEC_MASK
    if not codec:
        yield NewRecord(key, value, timestamp)
        return
    if nested or value is None:
        raise KafkaError(ErrorCode.INVALID_RECORD, "a compressed message without messages, or within another one")
    if codec >= Codec.ZSTD:
        raise KafkaError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"codec {codec} in a message of magic {magic}")
    if codec == Codec.LZ4 and magic == 0:
        value = with_right_lz4_checksum(value)
    plain = decompress(codec, value, room[0])
    room[0] -= len(plain)
    yield from _records(memoryview(plain), room, nested=True)


def _content(message: memoryview, position: int) -> tuple[bytes | None, int]:
    (length,) = _LENGTH.unpack_from(message, position)
    position += _LENGTH.size
    if length < 0:
        return None, position
    if position + length > len(message):
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"{length} bytes where {len(message) - position} are left")
    return bytes(message[position : position + length]), position + length


def with_right_lz4_checksum(frame: bytes) -> bytes:
    """Return the frame with the checksum over its descriptor alone; old clients had it over the magic number too (KAFKA-3160)."""
    if len(frame) < 7:
        raise KafkaError(ErrorCode.INVALID_RECORD, "an lz4 frame without a descriptor")
    end = 6 + (8 if frame[4] & 0x08 else 0)
    return frame[:end] + bytes((_xxh32(frame[4:end]) >> 8 & 0xFF,)) + frame[end + 1 :]


def _xxh32(data: bytes) -> int:
    """Return xxHash32 with seed 0 of fewer than 16 bytes, which a frame descriptor always has."""
    prime = (0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D, 0x27D4EB2F, 0x165667B1)
    mask = 0xFFFFFFFF

    def rotate(value: int, bits: int) -> int:
        return (value << bits | value >> 32 - bits) & mask

    hashed = prime[4] + len(data) & mask
    whole = len(data) & ~3
    for (word,) in struct.iter_unpack("<I", data[:whole]):
        hashed = rotate(hashed + word * prime[2] & mask, 17) * prime[3] & mask
    for byte in data[whole:]:
        hashed = rotate(hashed + byte * prime[4] & mask, 11) * prime[0] & mask
    hashed = (hashed ^ hashed >> 15) * prime[1] & mask
    hashed = (hashed ^ hashed >> 13) * prime[2] & mask
    return hashed ^ hashed >> 16
