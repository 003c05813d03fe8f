"""Checks of a leader before it appends a client's records, and the error for each fault.

In this order, as Kafka's produce path does; one partition of a produce request at a time:

| fault                                                                    | error                        |
|--------------------------------------------------------------------------|------------------------------|
| a batch length that no batch can have; unknown magic                     | CORRUPT_MESSAGE              |
| no records, a batch cut short, more than one batch, magic 0 or 1 (v3+)   | INVALID_RECORD               |
| behind the batch the beginning of what can be none (length, magic)       | CORRUPT_MESSAGE              |
| an unknown codec, or zstd before Produce v7 (KIP-110)                    | UNSUPPORTED_COMPRESSION_TYPE |
| base offset other than 0                                                 | INVALID_RECORD               |
| batch larger than max.message.bytes                                      | MESSAGE_TOO_LARGE            |
| CRC                                                                      | CORRUPT_MESSAGE              |
| control batch; producer id without sequence; count not lastOffsetDelta+1 | INVALID_RECORD               |
| records that cannot be decompressed or read, or with other offset deltas | INVALID_RECORD               |
| a record without key for a compacted topic                               | INVALID_RECORD, per record   |
| LogAppendTime set by the producer; a timestamp beyond the topic's limits | INVALID_TIMESTAMP            |
| a timestamp that 64 bits do not hold                                     | INVALID_TIMESTAMP            |

A batch that is cut behind the first one is dropped, as Kafka drops it.
Kafka answers UNKNOWN_SERVER_ERROR to garbage as compressed data and to unknown codecs; here they have codes that say more.
Produce v0 to v2 may carry message sets of magic 0 and 1: `legacy_messages` rewrites them as one batch before this.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from itertools import islice
from typing import Final, NamedTuple

from kafkalite.config.topic import LONG_MAX, TopicConfig
from kafkalite.errors import ErrorCode, KafkaError
from kafkalite.protocol.record_batches.compression import DECOMPRESSED_LIMIT_BYTES, Codec, DecompressedTooLarge
from kafkalite.protocol.record_batches.record_check import NAMED_RECORDS, InvalidRecords, TimestampDeltas, check_records
from kafkalite.protocol.record_batches.record_walk import ANY_HEADERS, TooMuchAtOnce, record_at
from kafkalite.protocol.record_batches.records import (
    CODEC_MASK,
    CONTROL,
    HEADER_SIZE,
    LOG_APPEND_TIME,
    LOG_OVERHEAD,
    MAGIC,
    NO_PRODUCER_ID,
    NO_TIMESTAMP,
    TRANSACTIONAL,
    BatchHeader,
    has_valid_crc,
    records_of,
)
from kafkalite.types import Buffer

AT_ONCE_BYTES: Final = 1 << 20
"""Batches that are larger, or become larger when they are decompressed, are not checked by the event loop."""
_RECORDS_AT_ONCE: Final = 32 * 1024
_WEIGHT_AT_ONCE: Final = 2 * AT_ONCE_BYTES
"""Bound for all batches of a request that the event loop checks: their bytes, or 64 for each record."""
_RECORD_WEIGHT: Final = 64
_HEADERS_AT_ONCE: Final = 1000
_GROWTH: Final = 64

_LEAST_LENGTH = 14
"""Batch length below which not even a message of the oldest format fits."""

_LENGTH = struct.Struct(">8xi")
_LENGTH_AND_MAGIC = struct.Struct(">8xi4xb")
_ZSTD: Final = int(Codec.ZSTD)
_ZSTD_FROM_VERSION = 7
_SPECIAL: Final = CONTROL | TRANSACTIONAL | LOG_APPEND_TIME


class DecompressionBudget:
    """The decompressed bytes left for all batches of one request: what the largest request could carry, or 64 times its own bytes.

    `weight_at_once` is what the event loop may still check of them. `place`: the memory in which the only batch lies, and where.
    """

    __slots__ = ("left_bytes", "place", "weight_at_once")

    def __init__(self, request_bytes: int = 0, place: tuple[bytearray, int] | None = None) -> None:
        self.place = place
        self.weight_at_once = _WEIGHT_AT_ONCE
        self.left_bytes = max(DECOMPRESSED_LIMIT_BYTES, _GROWTH * request_bytes)


class ProducedBatch(NamedTuple):
    """The one batch that a client sent for a partition; `header.size` is where it ends.

    `max_timestamp` is what its records say, whatever the header claims.
    """

    header: BatchHeader
    max_timestamp: int


def validate_produced(
    records: Buffer,
    config: TopicConfig,
    now_ms: int,
    request_version: int,
    budget: DecompressionBudget | None = None,
    at_once: bool = False,
) -> ProducedBatch:
    """Check what a client wants to append to one partition, by the table above. Raises KafkaError.

    With `at_once`, on the event loop, TooMuchAtOnce for what would hold it too long (about 100 ms): then nothing was changed.
    """
    header = _only_batch(records, request_version)
    size, count = header.batch_length + LOG_OVERHEAD, header.records_count
    if header.base_offset != 0:
        raise _invalid(f"the base offset of a produced batch is 0, not {header.base_offset}")
    if size > config.max_message_bytes:
        raise KafkaError(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"a batch of {size} bytes where the topic's max.message.bytes is {config.max_message_bytes}",
        )
    if not has_valid_crc(records, header):
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, "the CRC of a produced batch does not fit its bytes")
    _check_header(header)
    if at_once and (
        count > _RECORDS_AT_ONCE or size > AT_ONCE_BYTES or (budget is not None and budget.weight_at_once <= 0)
    ):
        raise TooMuchAtOnce
    is_compressed = header.attributes & CODEC_MASK
    deltas: TimestampDeltas | None = None
    if is_compressed:
        plain = _plain_records(records, header, budget, at_once)
    else:
        plain = b""
        if at_once and budget is not None and budget.place is not None:
            deltas = _checked_in_place(records, budget.place, size, count, config)
        if deltas is None:
            plain = bytes(memoryview(records)[HEADER_SIZE:size])
    if at_once and budget is not None:
        budget.weight_at_once -= max(len(plain) or size, _RECORD_WEIGHT * count)
    if deltas is None:
        deltas = check_records(plain, count, config.compacts, _HEADERS_AT_ONCE if at_once else ANY_HEADERS)
    max_timestamp = header.base_timestamp + deltas.largest
    if max_timestamp > LONG_MAX or header.base_timestamp + deltas.smallest < -LONG_MAX - 1:
        raise KafkaError(ErrorCode.INVALID_TIMESTAMP, "timestamps are numbers of 64 bits")
    if config.message_timestamp_type == "CreateTime":
        _check_timestamps(records, plain, header, deltas, config, now_ms)
    return ProducedBatch(header, max_timestamp)


def _checked_in_place(
    records: Buffer, place: tuple[bytearray, int], size: int, count: int, config: TopicConfig
) -> TimestampDeltas | None:
    """Check records where they lie; None where a copy is to decide. To copy a megabyte takes a tenth of what a broker does with it.

    Slices with a step are cut from the memory itself, since those of a view take ten times as long.
    """
    memory, position = place
    begin = position + HEADER_SIZE
    if memory[position:begin] != records[:HEADER_SIZE]:
        return None
    try:
        return check_records(memory, count, config.compacts, _HEADERS_AT_ONCE, begin, position + size)
    except (KafkaError, TooMuchAtOnce):
        return None


def _invalid(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_RECORD, message)


def _plain_records(
    records: Buffer, header: BatchHeader, budget: DecompressionBudget | None, at_once: bool
) -> bytes | bytearray:
    limit_bytes = DECOMPRESSED_LIMIT_BYTES if budget is None else min(DECOMPRESSED_LIMIT_BYTES, budget.left_bytes)
    try:
        plain = records_of(records, header, min(limit_bytes, AT_ONCE_BYTES) if at_once else limit_bytes)
    except KafkaError as problem:
        if budget is not None:  # whatever it became before it was given up
            budget.weight_at_once -= AT_ONCE_BYTES
        if at_once and limit_bytes > AT_ONCE_BYTES and isinstance(problem, DecompressedTooLarge):
            raise TooMuchAtOnce from None
        raise
    if budget is not None:
        budget.left_bytes -= len(plain)
    return plain


def _only_batch(records: Buffer, request_version: int) -> BatchHeader:
    size = len(records)
    if size < _LENGTH_AND_MAGIC.size:
        raise _invalid(f"{size} bytes are no record batch")
    length, magic = _LENGTH_AND_MAGIC.unpack_from(records)
    if length < _LEAST_LENGTH:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"a batch length of {length}")
    if not 0 <= magic <= MAGIC:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"magic {magic} is unknown")
    if magic < MAGIC:
        raise _invalid(f"magic {magic} in a produce request of version {request_version}")
    if length + LOG_OVERHEAD > size:
        raise _invalid(f"a batch of {length + LOG_OVERHEAD} bytes of which {size} arrived")
    if length < HEADER_SIZE - LOG_OVERHEAD:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"a batch length of {length} has no room for the header")
    header = BatchHeader.read(records)
    codec = header.attributes & CODEC_MASK
    if codec > _ZSTD:
        raise KafkaError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"unknown compression codec {codec}")
    if codec == _ZSTD and request_version < _ZSTD_FROM_VERSION:
        raise KafkaError(
            ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
            f"zstd needs produce requests of version {_ZSTD_FROM_VERSION}, this has {request_version}",
        )
    if length + LOG_OVERHEAD != size:
        _check_rest(records, length + LOG_OVERHEAD)
    return header


def _check_rest(records: Buffer, position: int) -> None:
    """Check that nothing but a cut batch, of which nothing is taken, lies behind the batch (Kafka's ByteBufferLogInputStream)."""
    rest_bytes = len(records) - position
    if rest_bytes < LOG_OVERHEAD:
        return
    (length,) = _LENGTH.unpack_from(records, position)
    if length < _LEAST_LENGTH:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"a batch length of {length} behind the batch")
    if rest_bytes < _LENGTH_AND_MAGIC.size:
        return
    _, magic = _LENGTH_AND_MAGIC.unpack_from(records, position)
    if not 0 <= magic <= MAGIC:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"magic {magic} behind the batch is unknown")
    if length + LOG_OVERHEAD <= rest_bytes:
        raise _invalid("more than the one batch that a partition may have in one request")


def _check_header(header: BatchHeader) -> None:
    special, has_producer_id = header.attributes & _SPECIAL, header.producer_id > NO_PRODUCER_ID
    if special & CONTROL:
        raise _invalid("clients do not write control batches")
    if header.records_count <= 0 or header.records_count != header.last_offset_delta + 1:
        raise _invalid(f"{header.records_count} records with a last offset delta of {header.last_offset_delta}")
    if has_producer_id and header.base_sequence < 0:
        raise _invalid(f"producer id {header.producer_id} with base sequence {header.base_sequence}")
    if special & TRANSACTIONAL and not has_producer_id:
        raise _invalid("a transactional batch without a producer id")
    if special & LOG_APPEND_TIME:
        raise KafkaError(ErrorCode.INVALID_TIMESTAMP, "producers do not set the timestamp type to LogAppendTime")


def _check_timestamps(
    records: Buffer,
    plain: bytes | bytearray,
    header: BatchHeader,
    deltas: TimestampDeltas,
    config: TopicConfig,
    now_ms: int,
) -> None:
    """Refuse timestamps outside message.timestamp.before.max.ms and after.max.ms (KIP-937); "none" is always allowed."""
    before, after = config.message_timestamp_before_max_ms, config.message_timestamp_after_max_ms
    if before == after == LONG_MAX:
        return
    earliest, latest = now_ms - before, now_ms + after
    if earliest <= header.base_timestamp + deltas.smallest and header.base_timestamp + deltas.largest <= latest:
        return
    wrong = (
        (number, f"Timestamp {timestamp} of message is out of range [{earliest}, {latest}]")
        for number, timestamp in enumerate(_timestamps(plain or bytes(records[HEADER_SIZE:]), header))
        if timestamp != NO_TIMESTAMP and not earliest <= timestamp <= latest
    )
    errors = list(islice(wrong, NAMED_RECORDS))
    if errors:
        message = "One or more records have been rejected due to invalid timestamp"
        raise InvalidRecords(message, errors, ErrorCode.INVALID_TIMESTAMP)


def _timestamps(plain: bytes | bytearray, header: BatchHeader) -> Iterator[int]:
    """Yield the timestamps of well-formed records in ms."""
    position = 0
    for _ in range(header.records_count):
        delta, *_, position = record_at(plain, position)
        yield header.base_timestamp + delta
