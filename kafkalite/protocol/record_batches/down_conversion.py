"""Record batches as messages of the formats before them (magic 0 and 1), for consumers before 0.11, as Kafka's RecordsUtil makes them.

What lies in a log is rewritten batch by batch, with the offsets that it has:

- a plain batch becomes one message for each of its records, without those below the offset that was asked for;
- a compressed batch becomes one wrapper with the last record's offset around all its records, in the same codec: with magic 1 their offsets
  count from the first one (KIP-31) and the wrapper has the largest timestamp; with magic 0 they are the log's, and an lz4 frame has the
  header checksum that old clients want (KAFKA-3160);
- headers of records, producer ids, epochs and transactions are dropped, aborted records are not: old consumers read uncommitted;
- messages of magic 1 lose their timestamps in magic 0, older ones than was asked for stay as they are;
- control batches are left out; zstd, which no old client could read, is refused with UNSUPPORTED_COMPRESSION_TYPE (KIP-110).

The layout of messages is in `legacy_messages`. Nothing here waits or knows of an event loop: a conversion is a generator that yields after
each `RECORDS_AT_ONCE` records, or `_BYTES_AT_ONCE` of small batches.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from itertools import dropwhile, islice
from typing import Final, Protocol

from kafkalite.errors import ErrorCode, KafkaError
from kafkalite.portions import Work
from kafkalite.protocol.record_batches.compiled_records import DecodedRecord, decode
from kafkalite.protocol.record_batches.compressed_forms import compress_for_transit
from kafkalite.protocol.record_batches.compression import DECOMPRESSED_LIMIT_BYTES, Codec, DecompressedTooLarge
from kafkalite.protocol.record_batches.legacy_builder import MessageSetBuilder, build_wrapper
from kafkalite.protocol.record_batches.legacy_records import legacy_records
from kafkalite.protocol.record_batches.records import (
    CODEC_MASK,
    CONTROL,
    HEADER_SIZE,
    LOG_APPEND_TIME,
    MAGIC,
    BatchHeader,
    iter_batches,
)
from kafkalite.types import Buffer

RECORDS_AT_ONCE: Final = 256
"""Some 0.2 ms for records of 100 bytes."""
_BYTES_AT_ONCE: Final = 32 * 1024
_ZSTD: Final = int(Codec.ZSTD)
_BASE_OFFSET_MAX: Final = (1 << 63) - (1 << 31)
_OVERFLOW_BYTES_AT_ONCE: Final = 128 * 1024
"""Kafka's LazyDownConversionRecordsSend.MAX_READ_SIZE."""


def _has_valid_offsets(header: BatchHeader) -> bool:
    """True unless its records may lie beyond the offsets that there are: the base offset is in no checksum, so a bit may have turned."""
    least = 0 if header.magic == MAGIC else -_BASE_OFFSET_MAX
    return least <= header.base_offset <= _BASE_OFFSET_MAX


class ConvertedBatches(Protocol):
    """Keeps what batches of one partition became, for the next consumer that asks for them."""

    def get(self, header: BatchHeader, magic: int) -> bytes | None: ...

    def put(self, header: BatchHeader, magic: int, messages: bytes) -> None: ...


class _NothingKept:
    def get(self, header: BatchHeader, magic: int) -> bytes | None:
        return None

    def put(self, header: BatchHeader, magic: int, messages: bytes) -> None:
        pass


NOTHING_KEPT: Final = _NothingKept()


def conversion(
    data: Buffer,
    magic: int,
    first_offset: int,
    kept: ConvertedBatches = NOTHING_KEPT,
    limit_bytes: int = DECOMPRESSED_LIMIT_BYTES,
) -> Work[bytes]:
    """Return the whole batches of `data` as messages of `magic` or less, as many bytes as Kafka's LazyDownConversionRecords makes of them.

    That is the length of `data`, or of what the first batch became if that is longer, so that who asks always gets on. What goes beyond
    is cut; where it falls short, a message of offset -1 follows that is longer than what is left, which consumers ignore. Nothing at
    all comes of `data` without a record for an old consumer, where Kafka makes such a message of 12 bytes: Java's consumers of 0.9 and
    0.10 take it for a record that is too large, and fail.

    Raises KafkaError UNSUPPORTED_COMPRESSION_TYPE where the first batch is of zstd; later ones end the answer. Raises
    DecompressedTooLarge, a KafkaError, for a batch that decompressed or as messages has more than `limit_bytes`, other KafkaErrors
    where batches cannot be read.
    """
    size, have, at_once = len(data), 0, 0
    parts: list[Buffer] = []
    batches = _Batches(data, magic, first_offset, kept, limit_bytes)
    try:
        for header in iter_batches(data):
            part: Buffer | None
            if header.magic <= magic:
                part = memoryview(data)[header.position : header.end]
            else:
                part = batches.find_kept(header)
                if part is None:
                    part = yield from batches.convert(header)
            if not part:
                continue
            if not have:
                size = max(size, len(part))
            parts.append(part)
            have += len(part)
            if have >= size:
                break
            if have - at_once >= _BYTES_AT_ONCE:
                at_once = have
                yield
    except KafkaError as problem:
        if not have or problem.code != ErrorCode.UNSUPPORTED_COMPRESSION_TYPE:
            raise
    if have > size:
        parts[-1] = memoryview(parts[-1])[: size - have]
    elif have:
        parts += _overflow(size - have)
    return b"".join(parts)


def _overflow(missing: int) -> Iterator[bytes]:
    """Yield the incomplete message that Kafka sends when it announced more bytes than there are messages."""
    while missing > 0:
        taken = min(missing, _OVERFLOW_BYTES_AT_ONCE)
        head = struct.pack(">qi", -1, max(missing + 1, HEADER_SIZE))
        yield (head + bytes(max(0, taken - len(head))))[:taken]
        missing -= taken


class _Batches:
    """The batches of one `conversion`, each of which becomes messages, or nothing."""

    def __init__(self, data: Buffer, magic: int, first_offset: int, kept: ConvertedBatches, limit_bytes: int) -> None:
        self._data, self._magic, self._first_offset = data, magic, first_offset
        self._kept, self._limit_bytes = kept, limit_bytes

    def find_kept(self, header: BatchHeader) -> bytes | None:
        """Return the messages of a batch if they are kept: most of what many consumers read, so no generator is made for them."""
        return self._kept.get(header, self._magic) if self._is_whole(header) else None

    def _is_whole(self, header: BatchHeader) -> bool:
        """True if all records of a batch are converted: compressed ones go together, also those before the first offset."""
        return header.attributes & CODEC_MASK != 0 or self._first_offset <= header.base_offset

    def convert(self, header: BatchHeader) -> Work[bytes]:
        """Return the messages of a batch that is not kept, and keep them."""
        attributes = header.attributes
        if attributes & CONTROL:
            return b""
        codec = attributes & CODEC_MASK
        if codec >= _ZSTD:
            raise KafkaError(
                ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"the batch at offset {header.base_offset} is of codec {codec}"
            )
        if not _has_valid_offsets(header):
            raise KafkaError(
                ErrorCode.CORRUPT_MESSAGE, f"the batch at offset {header.base_offset} has offsets out of range"
            )
        if header.magic != MAGIC:
            older = iter(legacy_records(self._data, header, self._limit_bytes))
            return (yield from self._rewrite(older, header, header.base_offset))
        is_whole = self._is_whole(header)
        first_offset = header.base_offset if is_whole else self._first_offset
        messages = yield from self._rewrite(decode(self._data, header, self._limit_bytes), header, first_offset)
        if is_whole:
            self._kept.put(header, self._magic, messages)
        return messages

    def _rewrite(self, records: Iterator[DecodedRecord], header: BatchHeader, first_offset: int) -> Work[bytes]:
        """Return the records from `first_offset` on as messages of their own, or within a wrapper."""
        if first_offset > header.base_offset:
            records = dropwhile(lambda record: record.offset < first_offset, records)
        some = list(islice(records, RECORDS_AT_ONCE))
        if not some:
            return b""
        magic = self._magic
        relative_to = some[0].offset if header.codec and magic else 0
        builder = MessageSetBuilder(magic, _attributes(header, magic), relative_to)
        while some:
            builder.add(some)
            if builder.size_bytes > self._limit_bytes:
                raise DecompressedTooLarge(self._limit_bytes)
            last_offset = some[-1].offset
            yield
            some = list(islice(records, RECORDS_AT_ONCE))
        return _wrap(builder.build(), header, magic, last_offset)


def _wrap(messages: bytes, header: BatchHeader, magic: int, last_offset: int) -> bytes:
    """Return the messages as they go to the consumer: in a wrapper, if the batch was compressed."""
    if not header.codec or not messages:
        return messages
    attributes, timestamp = _attributes(header, magic), header.max_timestamp
    return build_wrapper(magic, header.codec, attributes, last_offset, timestamp, messages, compress_for_transit)


def _attributes(header: BatchHeader, magic: int) -> int:
    return header.attributes & LOG_APPEND_TIME if magic else 0
