"""Storage in an older format where message.format.version asks for it: messages of magic 0 or 1 in the place of batches (KIP-724).

As Kafka's LogValidator makes them: without a codec one message for each record, else one wrapper around all of them in the batch's codec.
Record headers, transactions and producer ids have no place in them and are refused. What takes long is made by another thread, for
a log that begins at 0, and its offsets are moved when it is appended. In a wrapper of magic 0 offsets are compressed, so what is
made there in another thread is stored plain.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Sequence
from typing import Final

from kafkalite.config.topic import TopicConfig
from kafkalite.errors import ErrorCode, KafkaError
from kafkalite.protocol.record_batches.compression import Codec
from kafkalite.protocol.record_batches.legacy_records import messages_around
from kafkalite.protocol.record_batches.record_walk import record_at
from kafkalite.protocol.record_batches.records import (
    CODEC_MASK,
    LOG_APPEND_TIME,
    LOG_OVERHEAD,
    MAGIC,
    BatchHeader,
    Record,
    records_of,
)
from kafkalite.protocol.record_batches.varint import wrap_long
from kafkalite.types import Buffer

AT_ONCE_RECORDS: Final = 1000
AT_ONCE_BYTES: Final = 64 * 1024
_PLAIN_RECORDS: Final = 100_000
"""Bound of a set of magic 0 that is stored plain: each offset in it is moved when it is appended."""

_BASE_OFFSET: Final = struct.Struct(">q")
_OFFSET_AND_SIZE: Final = struct.Struct(">qi")


def stored_magic(config: TopicConfig) -> int:
    """Return the magic in which the topic's records are stored now."""
    if not config.message_format_acts:
        return MAGIC
    found = re.match(r"0\.(\d+)", config.message_format_version)
    release = int(found[1]) if found is not None else 11
    return 0 if release < 10 else 1 if release < 11 else MAGIC


def is_expensive(header: BatchHeader, config: TopicConfig) -> bool:
    """True if converting this batch to an older format would hold the event loop."""
    is_large = header.records_count > AT_ONCE_RECORDS or header.size > AT_ONCE_BYTES
    return is_large and stored_magic(config) != MAGIC


def check_convertible(header: BatchHeader, magic: int) -> None:
    """Raise KafkaError UNSUPPORTED_FOR_MESSAGE_FORMAT for what messages of that magic lack, UNSUPPORTED_COMPRESSION_TYPE for zstd."""
    if header.is_transactional or header.has_producer_id:
        kind = "Transactional" if header.is_transactional else "Idempotent"
        raise KafkaError(
            ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT, f"{kind} records cannot be used with magic version {magic}"
        )
    if header.codec == Codec.ZSTD:
        raise KafkaError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"zstd cannot be used with magic version {magic}")


def convert_batch(batch: Buffer, magic: int, first_offset: int, *, plain: bool = False) -> bytes:
    """Return the records of a batch as messages from `first_offset` on, with `plain` not in a wrapper.

    Raises KafkaError as `check_convertible`, and INVALID_RECORD.
    """
    header = BatchHeader.read(batch)
    check_convertible(header, magic)
    attributes = header.attributes & (CODEC_MASK | (LOG_APPEND_TIME if magic else 0))
    if plain:
        attributes &= ~CODEC_MASK
        if header.records_count > _PLAIN_RECORDS:
            raise KafkaError(
                ErrorCode.RECORD_LIST_TOO_LARGE, f"{header.records_count} records in one set of magic {magic}"
            )
    return messages_around(_records(batch, header, first_offset), magic, attributes, header.max_timestamp)


def _records(batch: Buffer, header: BatchHeader, first_offset: int) -> list[Record]:
    data = bytes(records_of(batch, header))
    append_time = header.max_timestamp if header.uses_log_append_time else None
    records, position = [], 0
    for number in range(header.records_count):
        delta, _, key, key_end, value, value_end, headers_count, _, position = record_at(data, position)
        if headers_count:
            raise KafkaError(
                ErrorCode.INVALID_RECORD, "records with headers cannot be stored in an older message format"
            )
        records.append(
            Record(
                first_offset + number,
                wrap_long(header.base_timestamp + delta) if append_time is None else append_time,
                data[key:key_end] if key >= 0 else None,
                data[value:value_end] if value >= 0 else None,
            )
        )
    return records


def convert_batches(
    batches: Buffer, positions: Sequence[int], magic: int, first_offset: int, ready: bytes | None
) -> bytes | bytearray:
    """Return the batches at `positions` as messages from `first_offset` on; `ready` is what another thread made of them. KafkaError."""
    if ready is not None:
        moved = bytearray(ready)
        move_offsets(moved, first_offset)
        return moved
    view, made = memoryview(batches), []
    for position, end in zip(positions, [*positions[1:], len(batches)], strict=True):
        made.append(convert_batch(view[position:end], magic, first_offset))
        first_offset = BatchHeader.read(view, position)._replace(base_offset=first_offset).next_offset
    return b"".join(made)


def move_offsets(messages: bytearray, by: int) -> None:
    """Add `by` to the offsets of messages that were made for a log's beginning."""
    position, end = 0, len(messages)
    while position < end:
        offset, size = _OFFSET_AND_SIZE.unpack_from(messages, position)
        _BASE_OFFSET.pack_into(messages, position, offset + by)
        position += LOG_OVERHEAD + size
