"""The records of one message of the formats before record batches (magic 0 and 1), as they lie in a log: offsets and timestamps absolute.

The message is named by its shallow header (`legacy_headers`). A compressed one is a wrapper around a message set:

- magic 0: the messages in it have the log's offsets, and no timestamps;
- magic 1: their offsets are relative, the wrapper's offset is the last one's (KIP-31). Where the wrapper says LogAppendTime, its timestamp
  is that of all of them (KIP-32).

Messages within a wrapper may have another magic than it has; brokers before 0.11.0.1 compacted them so (KAFKA-4298).
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from kafkalite.errors import ErrorCode, KafkaError
from kafkalite.protocol.record_batches.compression import DECOMPRESSED_LIMIT_BYTES, Codec, decompress
from kafkalite.protocol.record_batches.legacy_builder import MessageSetBuilder, build_wrapper
from kafkalite.protocol.record_batches.legacy_messages import with_right_lz4_checksum
from kafkalite.protocol.record_batches.python_records import encode_record
from kafkalite.protocol.record_batches.records import (
    CODEC_MASK,
    LOG_APPEND_TIME,
    LOG_OVERHEAD,
    MAGIC,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    BatchHeader,
    Record,
    assemble_batch,
    crc_of,
    iter_batches,
    iter_records,
)
from kafkalite.types import Buffer

_START: Final = struct.Struct(">qi4xbB")
_TIMESTAMP: Final = struct.Struct(">q")
_LENGTH: Final = struct.Struct(">i")

_OFFSETS_LIMIT: Final = 1 << 31
"""A batch has fewer offsets."""


def legacy_records(buffer: Buffer, header: BatchHeader, limit_bytes: int = DECOMPRESSED_LIMIT_BYTES) -> list[Record]:
    """Return the records of the message at `header`: one, or those in the wrapper that it is. Its own CRC is the caller's to check.

    Raises KafkaError INVALID_RECORD for what cannot be read, and as `decompress` does.
    """
    try:
        plain = _open_message(buffer, header, limit_bytes)
        records = _messages(plain, header.max_timestamp if header.uses_log_append_time else None)
        if not records:
            raise ValueError("a wrapper without messages")
    except (struct.error, IndexError, ValueError) as problem:
        raise KafkaError(
            ErrorCode.INVALID_RECORD, f"the message at offset {header.base_offset} cannot be read: {problem}"
        ) from None
    if header.codec and header.magic and header.base_offset:  # with an offset of 0 some producers did not know better
        base_offset = header.base_offset - records[-1].offset
        if base_offset < 0:
            raise KafkaError(
                ErrorCode.INVALID_RECORD,
                f"the message at offset {header.base_offset} has {records[-1].offset} or more messages before its last",
            )
        records = [record._replace(offset=base_offset + record.offset) for record in records]
    return records


class MessageCrc(NamedTuple):
    """Return the CRC that a message states, and whether it is right."""

    crc: int
    is_valid: bool


def message_crcs(buffer: Buffer, header: BatchHeader) -> list[MessageCrc]:
    """Return the CRC of each message whose record `legacy_records` gives, in order; raise nothing where that raised nothing."""
    plain = _open_message(buffer, header, DECOMPRESSED_LIMIT_BYTES)
    return [MessageCrc(each.crc, crc_of(plain, each) == each.crc) for each in iter_batches(plain)]


def _open_message(buffer: Buffer, header: BatchHeader, limit_bytes: int) -> bytes:
    """Return the messages within a wrapper, or the message itself. Raises struct.error, ValueError, KafkaError."""
    message = bytes(memoryview(buffer)[header.position : header.end])
    if not header.codec:
        return message
    start = _START.size + (_TIMESTAMP.size if header.magic else 0)
    (key_size,) = _LENGTH.unpack_from(message, start)
    start += _LENGTH.size + max(key_size, 0)
    (size,) = _LENGTH.unpack_from(message, start)
    start += _LENGTH.size
    if size != len(message) - start:
        raise ValueError(f"a wrapper with {size} bytes of messages where {len(message) - start} are left")
    packed = message[start:]
    if header.codec == Codec.LZ4 and not header.magic:
        packed = with_right_lz4_checksum(packed)
    return bytes(decompress(header.codec, packed, limit_bytes))


def _messages(data: bytes, append_time: int | None) -> list[Record]:
    """Return the plain messages in `data`, with offsets as they stand there. Raises struct.error, ValueError."""
    records = []
    position, end = 0, len(data)
    while position < end:
        offset, size, magic, attributes = _START.unpack_from(data, position)
        following = position + LOG_OVERHEAD + size
        if magic not in (0, 1) or attributes & CODEC_MASK or not position < following <= end:
            raise ValueError(
                f"at byte {position} a message of {size} bytes, magic {magic}, codec {attributes & CODEC_MASK}"
            )
        position += _START.size
        timestamp = NO_TIMESTAMP
        if magic:
            (timestamp,) = _TIMESTAMP.unpack_from(data, position)
            position += _TIMESTAMP.size
            if append_time is not None:
                timestamp = append_time
        (size,) = _LENGTH.unpack_from(data, position)
        position += _LENGTH.size
        key = None
        if size >= 0:
            key = data[position : position + size]
            position += size
        (size,) = _LENGTH.unpack_from(data, position)
        position += _LENGTH.size
        value = None
        if size >= 0:
            value = data[position : position + size]
            position += size
        if position != following:
            raise ValueError(f"a message that does not end at byte {following}, where its size says")
        records.append(Record(offset, timestamp, key, value))
    return records


def records_at(buffer: Buffer, header: BatchHeader) -> Iterable[Record]:
    """Return the records of a batch or an older message. KafkaError where they cannot be read, maybe only when one comes to them."""
    return iter_records(buffer, header) if header.magic == MAGIC else legacy_records(buffer, header)


def first_offset(buffer: Buffer, header: BatchHeader) -> int:
    """Return the offset of the first record of a batch or an older message. KafkaError as `legacy_records`."""
    return legacy_records(buffer, header)[0].offset if header.magic != MAGIC else header.base_offset


def as_batch(records: Sequence[Record], header: BatchHeader) -> bytearray:
    """Return a plain batch of format 2 with the records of messages whose last one is at `header`: for readers that know only batches.

    Raises KafkaError INVALID_RECORD for offsets that no batch can have.
    """
    base_offset, base_timestamp = records[0].offset, records[0].timestamp
    offsets = [record.offset for record in records]
    if not 0 <= base_offset <= min(offsets) <= max(offsets) <= header.last_offset < base_offset + _OFFSETS_LIMIT:
        raise KafkaError(
            ErrorCode.INVALID_RECORD,
            f"a message with offsets from {min(offsets)} to {max(offsets)} where its last is {header.last_offset}",
        )
    largest = max(record.timestamp for record in records)
    return assemble_batch(
        b"".join(
            encode_record(record.timestamp - base_timestamp, record.offset - base_offset, record.key, record.value)
            for record in records
        ),
        records_count=len(records),
        last_offset_delta=header.last_offset - base_offset,
        base_timestamp=base_timestamp,
        max_timestamp=largest,
        base_offset=base_offset,
        leader_epoch=header.partition_leader_epoch,
        attributes=header.attributes & LOG_APPEND_TIME,
        producer_id=NO_PRODUCER_ID,
        producer_epoch=NO_PRODUCER_EPOCH,
        base_sequence=NO_SEQUENCE,
    )


def rewrite_message(records: Sequence[Record], header: BatchHeader) -> bytes:
    """Return a message of the same magic, codec and timestamp type as the one at `header`, around these of its records."""
    return messages_around(records, header.magic, header.attributes, header.max_timestamp)


def messages_around(records: Sequence[Record], magic: int, attributes: int, append_time: int) -> bytes:
    """Return a wrapper around these records; if the attributes name no codec, a message for each of them.

    As Kafka's MemoryRecordsBuilder makes them: the wrapper has the last one's offset and the largest timestamp, or `append_time` where the
    attributes say LogAppendTime; in one of magic 1 offsets count from its first record.
    """
    codec = attributes & CODEC_MASK
    builder = MessageSetBuilder(magic, attributes & ~CODEC_MASK, records[0].offset if magic and codec else 0)
    builder.add(records)
    if not codec:
        return builder.build()
    timestamp = append_time if attributes & LOG_APPEND_TIME else max(record.timestamp for record in records)
    return build_wrapper(magic, codec, attributes, records[-1].offset, timestamp, builder.build())
