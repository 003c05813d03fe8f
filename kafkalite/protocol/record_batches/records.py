"""Record batches of format 2: views of their headers without copying, CRC-32C, building and decoding.

A batch is a header of 61 bytes and its records; the records are one compressed blob when a codec is set. Big endian:

    0  baseOffset i64            23  lastOffsetDelta i32     51  producerEpoch i16 (-1 none)
    8  batchLength i32           27  baseTimestamp i64       53  baseSequence i32 (-1 none)
    12 partitionLeaderEpoch i32  35  maxTimestamp i64        57  records count i32
    16 magic i8 = 2              43  producerId i64          61  records
    17 crc u32, of bytes 21..end     (-1 none)
    21 attributes i16: bits 0-2 codec, 3 timestamp type, 4 transactional, 5 control, 6 delete horizon

    record:  length varint; attributes i8; timestampDelta varlong; offsetDelta varint; key length varint (-1 null), key;
             value length varint (-1 null), value; header count varint; headers: key length, key, value length, value

Varints are zig-zag; `record_walk` finds the parts of a record. Base offset and leader epoch lie before what the CRC covers, so a
leader sets them in place; whoever changes anything from the attributes on must write a new CRC. Batch length counts the bytes
after its own field.

Behind and before batches there may be messages of the older formats (`legacy_headers`): `header_at`, `iter_batches` and the CRC know them.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from kafkalite.errors import ErrorCode, KafkaError
from kafkalite.protocol.record_batches import legacy_headers
from kafkalite.protocol.record_batches.checksum import crc32c
from kafkalite.protocol.record_batches.compression import DECOMPRESSED_LIMIT_BYTES, compress, decompress
from kafkalite.protocol.record_batches.record_code import RecordsWriter, new_writer
from kafkalite.protocol.record_batches.record_walk import headers_at, record_at
from kafkalite.protocol.record_batches.varint import wrap_long
from kafkalite.types import Buffer

HEADER_SIZE: Final = 61
LOG_OVERHEAD: Final = 12
"""Bytes before those that the batch length counts."""
LEADER_EPOCH_BYTES: Final = 4
"""Behind that: the leader epoch, which each leader sets, and no checksum covers."""

MAGIC: Final = 2
NO_PRODUCER_ID: Final = -1
NO_PRODUCER_EPOCH: Final = -1
NO_SEQUENCE: Final = -1
NO_TIMESTAMP: Final = -1
NO_LEADER_EPOCH: Final = -1
SEQUENCE_LIMIT: Final = 1 << 31
"""Sequence numbers go from 0 to one below this, then start again at 0."""

CODEC_MASK: Final = 0x07
LOG_APPEND_TIME: Final = 0x08
TRANSACTIONAL: Final = 0x10
CONTROL: Final = 0x20
DELETE_HORIZON: Final = 0x40

_ANY_BYTES: Final = 1 << 62
_MARKER_LIMIT_BYTES: Final = 16 * 1024
"""A marker has some twenty bytes. Whoever follows a log reads one for each control batch, and batches of 100 bytes can be many."""

ABORT_MARKER: Final = 0
COMMIT_MARKER: Final = 1

_new: Final = tuple.__new__
"""Makes a named tuple without a Python call, unlike `_make`."""
_HEADER = struct.Struct(">qiibIhiqqqhii")
_BASE_OFFSET = struct.Struct(">q")
_EPOCH = struct.Struct(">i")
_CRC = struct.Struct(">I")
_ATTRIBUTES = struct.Struct(">h")
_TIMESTAMP = struct.Struct(">q")
_MARKER_KEY = struct.Struct(">hh")
_MARKER_VALUE = struct.Struct(">hi")
_CRC_POSITION = 17
CHECKED_FROM: Final = 21
_MAX_TIMESTAMP_POSITION = 35


class BatchHeader(NamedTuple):
    """The header of one record batch that begins at `position` of the buffer it was read from."""

    base_offset: int
    batch_length: int
    partition_leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    records_count: int
    position: int

    @classmethod
    def read(cls, buffer: Buffer, position: int = 0) -> BatchHeader:
        """Return the header at `position`; nothing in it is checked. Raises struct.error when fewer than 61 bytes are left."""
        return cls._make((*_HEADER.unpack_from(buffer, position), position))

    @property
    def size(self) -> int:
        """Return the bytes of the whole batch."""
        return self.batch_length + LOG_OVERHEAD

    @property
    def end(self) -> int:
        """Return the position behind the batch."""
        return self.position + self.batch_length + LOG_OVERHEAD

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        return self.base_offset + self.last_offset_delta + 1

    @property
    def last_sequence(self) -> int:
        """Return the sequence number of the last record; after 2147483647 comes 0. NO_SEQUENCE without a base sequence."""
        if self.base_sequence == NO_SEQUENCE:
            return NO_SEQUENCE
        return (self.base_sequence + self.last_offset_delta) % SEQUENCE_LIMIT

    @property
    def codec(self) -> int:
        return self.attributes & CODEC_MASK

    @property
    def uses_log_append_time(self) -> bool:
        return bool(self.attributes & LOG_APPEND_TIME)

    @property
    def timestamp_type(self) -> str:
        """Return CreateTime or LogAppendTime, as in message.timestamp.type."""
        return "LogAppendTime" if self.attributes & LOG_APPEND_TIME else "CreateTime"

    @property
    def is_transactional(self) -> bool:
        return bool(self.attributes & TRANSACTIONAL)

    @property
    def is_control(self) -> bool:
        return bool(self.attributes & CONTROL)

    @property
    def has_producer_id(self) -> bool:
        return self.producer_id > NO_PRODUCER_ID

    @property
    def delete_horizon_ms(self) -> int | None:
        """Return when tombstones and markers of the batch may go; compaction keeps it in the base timestamp (KIP-534)."""
        return self.base_timestamp if self.attributes & DELETE_HORIZON else None


def header_at(buffer: Buffer, position: int = 0, start: int = 0) -> BatchHeader | None:
    """Return the header of the batch at `position`, or of the message of an older format as if it were one.

    Its own position is where it lies in the file of which the buffer holds the bytes from `start` on.
    None where there is neither, by magic and length, or fewer bytes than its header has.
    """
    if position + HEADER_SIZE <= len(buffer):
        header = BatchHeader._make((*_HEADER.unpack_from(buffer, position), start + position))
        if header.magic == MAGIC:
            return header if header.batch_length >= HEADER_SIZE - LOG_OVERHEAD else None
    fields = legacy_headers.fields_at(buffer, position)
    return None if fields is None else BatchHeader(*fields, start + position)


class RecordHeader(NamedTuple):
    key: str
    value: bytes | None


class Record(NamedTuple):
    """One decoded record; `timestamp` in ms, the batch's append time when that is the batch's timestamp type."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[RecordHeader, ...] = ()


class NewRecord(NamedTuple):
    """A record to be put into a batch by `build_batch`; `timestamp` in ms."""

    key: bytes | None
    value: bytes | None
    timestamp: int = NO_TIMESTAMP
    headers: Sequence[tuple[str, bytes | None]] = ()


class Marker(NamedTuple):
    """The one record of a control batch, which says how the producer's transaction ended."""

    type: int
    coordinator_epoch: int


def iter_batches(buffer: Buffer, position: int = 0) -> Iterator[BatchHeader]:
    """Yield the headers of the whole batches, and messages of older formats, in `buffer`; one cut by the end of the buffer is left out.

    Raises KafkaError CORRUPT_MESSAGE at an unknown magic or a length that no batch can have.
    """
    end = len(buffer)
    while position + HEADER_SIZE <= end:
        header = _new(BatchHeader, (*_HEADER.unpack_from(buffer, position), position))
        if header.magic != MAGIC or header.batch_length < HEADER_SIZE - LOG_OVERHEAD:
            older = header_at(buffer, position)
            if older is None:
                raise KafkaError(
                    ErrorCode.CORRUPT_MESSAGE,
                    f"no batch at position {position}: magic {header.magic}, length {header.batch_length}",
                )
            header = older
        following = position + header.batch_length + LOG_OVERHEAD
        if following > end:
            return
        yield header
        position = following
    while position < end and (short := header_at(buffer, position)) is not None and short.end <= end:
        yield short
        position = short.end


def checksum_of(magic: int) -> tuple[int, Callable[[Buffer, int], int]]:
    """Return (first byte that the CRC of a batch or an older message covers, function of bytes and the CRC up to them)."""
    return (CHECKED_FROM, crc32c) if magic == MAGIC else (legacy_headers.CHECKED_FROM, zlib.crc32)


def crc_of(buffer: Buffer, header: BatchHeader) -> int:
    """Return the CRC that the batch should have; copies nothing."""
    position = header.position
    end = position + header.batch_length + LOG_OVERHEAD
    if header.magic != MAGIC:
        return zlib.crc32(memoryview(buffer)[position + legacy_headers.CHECKED_FROM : end])
    return crc32c(memoryview(buffer)[position + CHECKED_FROM : end])


def has_valid_crc(buffer: Buffer, header: BatchHeader) -> bool:
    return crc_of(buffer, header) == header.crc


def set_offset_and_epoch_in_place(
    buffer: bytearray | memoryview, position: int, base_offset: int, leader_epoch: int
) -> None:
    """Give the batch at `position` its place in the log; its CRC stays valid."""
    _BASE_OFFSET.pack_into(buffer, position, base_offset)
    _EPOCH.pack_into(buffer, position + LOG_OVERHEAD, leader_epoch)


def set_max_timestamp_in_place(
    buffer: bytearray | memoryview, header: BatchHeader, max_timestamp: int, *, log_append_time: bool
) -> None:
    """Set timestamp type and largest timestamp of the batch and write its new CRC."""
    attributes = header.attributes & ~LOG_APPEND_TIME | (LOG_APPEND_TIME if log_append_time else 0)
    _ATTRIBUTES.pack_into(buffer, header.position + CHECKED_FROM, attributes)
    _TIMESTAMP.pack_into(buffer, header.position + _MAX_TIMESTAMP_POSITION, max_timestamp)
    _CRC.pack_into(buffer, header.position + _CRC_POSITION, crc_of(buffer, header))


def records_of(buffer: Buffer, header: BatchHeader, limit_bytes: int = DECOMPRESSED_LIMIT_BYTES) -> bytes | bytearray:
    """Return the encoded records of a batch, decompressed. Raises KafkaError as `compression.decompress` does."""
    return decompress(header.codec, memoryview(buffer)[header.position + HEADER_SIZE : header.end], limit_bytes)


def decode_records(buffer: Buffer, header: BatchHeader) -> list[Record]:
    """Return all records of a batch. Raises KafkaError INVALID_RECORD where they cannot be read."""
    return list(iter_records(buffer, header))


def iter_records(buffer: Buffer, header: BatchHeader, limit_bytes: int = DECOMPRESSED_LIMIT_BYTES) -> Iterator[Record]:
    """Yield the records of a batch one by one. Raises KafkaError INVALID_RECORD where they cannot be read.

    The name of a header that is not UTF-8 is read as Java reads it, with U+FFFD: brokers do not look at names.
    """
    data = bytes(records_of(buffer, header, limit_bytes))
    base_offset, base_timestamp = header.base_offset, header.base_timestamp
    append_time = header.max_timestamp if header.uses_log_append_time else None
    position = 0
    for number in range(header.records_count):
        try:
            delta, offset_delta, key, key_end, value, value_end, count, headers, position = record_at(data, position)
            decoded = tuple(
                [
                    RecordHeader(name.decode(errors="replace"), content)
                    for name, content in headers_at(data, headers, count)
                ]
            )
        except (IndexError, ValueError) as problem:
            raise KafkaError(ErrorCode.INVALID_RECORD, f"record {number} cannot be read: {problem}") from None
        yield Record(
            base_offset + offset_delta,
            wrap_long(base_timestamp + delta) if append_time is None else append_time,
            data[key:key_end] if key >= 0 else None,
            data[value:value_end] if value >= 0 else None,
            decoded,
        )


def read_marker(buffer: Buffer, header: BatchHeader) -> Marker | None:
    """Return how a control batch ends a transaction; None for a control batch of another kind or without records."""
    if header.records_count <= 0:
        return None
    record = next(iter_records(buffer, header, _MARKER_LIMIT_BYTES))
    if record.key is None or len(record.key) < _MARKER_KEY.size:
        raise KafkaError(ErrorCode.INVALID_RECORD, f"control batch at offset {header.base_offset} has no key")
    _, type_ = _MARKER_KEY.unpack_from(record.key)
    if type_ not in (ABORT_MARKER, COMMIT_MARKER):
        return None
    if record.value is None or len(record.value) < _MARKER_VALUE.size:
        raise KafkaError(ErrorCode.INVALID_RECORD, f"marker at offset {header.base_offset} has no value")
    return Marker(type_, _MARKER_VALUE.unpack_from(record.value)[1])


def build_batch(
    records: Iterable[NewRecord],
    *,
    codec: int = 0,
    base_offset: int = 0,
    leader_epoch: int = NO_LEADER_EPOCH,
    attributes: int = 0,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_PRODUCER_EPOCH,
    base_sequence: int = NO_SEQUENCE,
) -> bytearray:
    """Return a batch of `records`, whose offsets follow each other; `attributes` are the bits beside the codec's.

    Meant for what the broker itself writes and for tests.
    """
    writer = new_writer(_ANY_BYTES, None)
    writer.extend((record.timestamp, record.key, record.value, record.headers) for record in records)
    return complete_batch(
        writer,
        codec=codec,
        base_offset=base_offset,
        leader_epoch=leader_epoch,
        attributes=attributes,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
    )


def complete_batch(
    writer: RecordsWriter,
    *,
    codec: int,
    attributes: int,
    producer_id: int,
    producer_epoch: int,
    base_sequence: int,
    base_offset: int = 0,
    leader_epoch: int = NO_LEADER_EPOCH,
    if_smaller: bool = False,
) -> bytearray:
    """Return the batch of a writer's records, compressed with `codec`, or only where that makes it smaller. The writer is spent."""
    count, base_timestamp, max_timestamp = writer.count, writer.base_timestamp, writer.max_timestamp
    batch = writer.finish()
    if codec:
        packed = compress(codec, memoryview(batch)[HEADER_SIZE:])
        if not if_smaller or len(packed) < len(batch) - HEADER_SIZE:
            attributes |= codec
            batch = bytearray(HEADER_SIZE + len(packed))
            batch[HEADER_SIZE:] = packed
    return _with_header(
        batch,
        base_offset,
        leader_epoch,
        attributes,
        count - 1,
        base_timestamp,
        max_timestamp,
        producer_id,
        producer_epoch,
        base_sequence,
        count,
    )


def build_marker(
    *,
    commit: bool,
    producer_id: int,
    producer_epoch: int,
    coordinator_epoch: int,
    timestamp: int,
    base_offset: int = 0,
    leader_epoch: int = NO_LEADER_EPOCH,
) -> bytearray:
    """Return the control batch that ends a transaction (KIP-98)."""
    key = _MARKER_KEY.pack(0, COMMIT_MARKER if commit else ABORT_MARKER)
    return build_batch(
        [NewRecord(key, _MARKER_VALUE.pack(0, coordinator_epoch), timestamp)],
        base_offset=base_offset,
        leader_epoch=leader_epoch,
        attributes=TRANSACTIONAL | CONTROL,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
    )


def assemble_batch(
    body: Buffer,
    *,
    records_count: int,
    last_offset_delta: int,
    base_timestamp: int,
    max_timestamp: int,
    base_offset: int,
    leader_epoch: int,
    attributes: int,
    producer_id: int,
    producer_epoch: int,
    base_sequence: int,
) -> bytearray:
    """Return a batch around records that are already encoded and, if the attributes say so, compressed."""
    batch = bytearray(HEADER_SIZE + len(body))
    batch[HEADER_SIZE:] = body
    return _with_header(
        batch,
        base_offset,
        leader_epoch,
        attributes,
        last_offset_delta,
        base_timestamp,
        max_timestamp,
        producer_id,
        producer_epoch,
        base_sequence,
        records_count,
    )


def _with_header(batch: bytearray, base_offset: int, leader_epoch: int, *facts: int) -> bytearray:
    """Return `batch` with its header put into the first 61 bytes; `facts` are the fields behind the CRC."""
    _HEADER.pack_into(batch, 0, base_offset, len(batch) - LOG_OVERHEAD, leader_epoch, MAGIC, 0, *facts)
    _CRC.pack_into(batch, _CRC_POSITION, crc32c(memoryview(batch)[CHECKED_FROM:]))
    return batch


def recompress(
    buffer: Buffer,
    header: BatchHeader,
    codec: int,
    level: int | None = None,
    limit_bytes: int = DECOMPRESSED_LIMIT_BYTES,
) -> bytearray:
    """Return the same batch with its records compressed by another codec.

    Raises KafkaError as `records_of` does, MESSAGE_TOO_LARGE when the batch would have more than `limit_bytes`.
    """
    plain = records_of(buffer, header)
    body = compress(codec, plain, level) if codec else plain
    if HEADER_SIZE + len(body) > limit_bytes:
        raise KafkaError(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"a batch of {HEADER_SIZE + len(body)} bytes in the topic's codec, where the topic's max.message.bytes is {limit_bytes}",
        )
    return assemble_batch(
        body,
        records_count=header.records_count,
        last_offset_delta=header.last_offset_delta,
        base_timestamp=header.base_timestamp,
        max_timestamp=header.max_timestamp,
        base_offset=header.base_offset,
        leader_epoch=header.partition_leader_epoch,
        attributes=header.attributes & ~CODEC_MASK | codec,
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        base_sequence=header.base_sequence,
    )
