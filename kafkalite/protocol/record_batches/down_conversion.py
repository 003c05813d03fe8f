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

from kafkalite.compilation import is_compiled
from kafkalite.errors import ErrorCode, KafkaError
from kafkalite.portions import Work
from kafkalite.protocol.record_batches.compiled_records import DecodedRecord, decode, decode_plain, unreadable
from kafkalite.protocol.record_batches.compression import (
    DECOMPRESSED_LIMIT_BYTES,
    Codec,
    DecompressedTooLarge,
    compress_for_transit,
    decompress,
    one_block_at,
)
from kafkalite.protocol.record_batches.legacy_builder import MessageSetBuilder, build_wrapper, wrapped_value
from kafkalite.protocol.record_batches.legacy_records import legacy_records
from kafkalite.protocol.record_batches.record_rewriting import RecordRewriter
from kafkalite.protocol.record_batches.records import (
    CODEC_MASK,
    CONTROL,
    HEADER_SIZE,
    LOG_APPEND_TIME,
    LOG_OVERHEAD,
    MAGIC,
    BatchHeader,
    iter_batches,
    iter_records,
    records_of,
)
from kafkalite.types import Buffer

RECORDS_AT_ONCE: Final = 256
"""Some 0.2 ms for records of 100 bytes."""
_BYTES_AT_ONCE: Final = 32 * 1024
_COPIED_AT_ONCE_BYTES: Final = 4 * 1024 * 1024
"""Decompressed records that are more are not brought together (see `compression`)."""
_ZSTD: Final = int(Codec.ZSTD)
_BASE_OFFSET_MAX: Final = (1 << 63) - (1 << 31)
_REFUSALS: Final = (ValueError, IndexError, OverflowError)
"""What a RecordRewriter raises."""
_OVERFLOW_BYTES_AT_ONCE: Final = 128 * 1024
"""Kafka's LazyDownConversionRecordsSend.MAX_READ_SIZE."""


rewriter_type: type[RecordRewriter] | None = RecordRewriter if is_compiled(RecordRewriter.__module__) else None
"""Compiled it is several times quicker than going over the records of aiokafka's decoder; in Python it is slower."""


def _has_offsets(header: BatchHeader) -> bool:
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
    """The whole batches of `data` as messages of `magic` or less, as many bytes as Kafka's LazyDownConversionRecords makes of them.

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
                part = batches.converted_at_once(header)
                if part is None:
                    part = yield from batches.converted(header)
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
    """What Kafka sends when it told more bytes than there are messages."""
    while missing > 0:
        taken = min(missing, _OVERFLOW_BYTES_AT_ONCE)
        head = struct.pack(">qi", -1, max(missing + 1, HEADER_SIZE))
        yield (head + bytes(max(0, taken - len(head))))[:taken]
        missing -= taken


class _Batches:
    """Those of one `conversion`, each of which becomes messages, or nothing."""

    def __init__(self, data: Buffer, magic: int, first_offset: int, kept: ConvertedBatches, limit_bytes: int) -> None:
        self._data, self._magic, self._first_offset = data, magic, first_offset
        self._kept, self._limit_bytes = kept, limit_bytes
        self._rewriter = None if rewriter_type is None else rewriter_type(magic)

    def converted_at_once(self, header: BatchHeader) -> bytes | None:
        """What is known, or can be made in one go; None where `converted` is to do it.

        Most of what is read comes this way, in batches of some kilobytes, for which each step in Python counts.
        """
        attributes = header.attributes
        codec = attributes & CODEC_MASK
        if attributes & CONTROL:
            return b""
        if codec >= _ZSTD or header.magic != MAGIC or not _has_offsets(header):
            return None
        is_whole = codec != 0 or self._first_offset <= header.base_offset
        if is_whole and (known := self._kept.get(header, self._magic)) is not None:
            return known
        if self._rewriter is None or header.records_count > RECORDS_AT_ONCE:
            return None
        start, end = header.position + HEADER_SIZE, header.position + header.batch_length + LOG_OVERHEAD
        plain = (
            one_block_at(codec, self._data, start, end, self._limit_bytes) if codec else bytes(self._data[start:end])
        )
        if plain is None or not self._begin(self._rewriter, header, plain):
            return None
        try:
            self._rewriter.add(RECORDS_AT_ONCE)
        except _REFUSALS:
            return None
        return self._ended(self._rewriter, header)

    def converted(self, header: BatchHeader) -> Work[bytes]:
        codec = header.attributes & CODEC_MASK
        if codec >= _ZSTD:
            raise KafkaError(
                ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"the batch at offset {header.base_offset} is of codec {codec}"
            )
        if not _has_offsets(header):
            raise KafkaError(
                ErrorCode.CORRUPT_MESSAGE, f"the batch at offset {header.base_offset} has offsets that there are not"
            )
        if header.magic != MAGIC:
            older = iter(legacy_records(self._data, header, self._limit_bytes))
            return (yield from self._rewritten(older, header, header.base_offset))
        messages = None
        if self._rewriter is not None:
            messages = yield from self._quickly_rewritten(self._rewriter, header, codec)
        if messages is None:
            messages = yield from self._exactly_rewritten(header)
            self._keep(header, messages)
        return messages

    def _first_of(self, header: BatchHeader) -> int:
        """The offset of the first record that is wanted; all of what is compressed goes."""
        return header.base_offset if header.attributes & CODEC_MASK else max(self._first_offset, header.base_offset)

    def _keep(self, header: BatchHeader, messages: bytes) -> None:
        if self._first_of(header) == header.base_offset:
            self._kept.put(header, self._magic, messages)

    def _begin(self, rewriter: RecordRewriter, header: BatchHeader, plain: bytes) -> bool:
        """False where a field is beyond what the rewriter takes."""
        codec = header.attributes & CODEC_MASK
        try:
            rewriter.begin(
                plain,
                header.records_count,
                header.base_offset,
                header.base_timestamp,
                header.max_timestamp if header.attributes & LOG_APPEND_TIME else None,
                _attributes(header, self._magic),
                self._first_of(header),
                codec != 0 and self._magic != 0,
            )
        except _REFUSALS:
            return False
        return True

    def _ended(self, rewriter: RecordRewriter, header: BatchHeader) -> bytes:
        """The messages that were written, as they go to the consumer."""
        if rewriter.size_bytes > self._limit_bytes:
            raise DecompressedTooLarge(self._limit_bytes)
        messages = rewriter.messages()
        codec = header.attributes & CODEC_MASK
        if codec and messages:
            value = wrapped_value(self._magic, codec, messages, compress_for_transit)
            messages = rewriter.wrapper(_attributes(header, self._magic) | codec, header.max_timestamp, value)
        self._keep(header, messages)
        return messages

    def _quickly_rewritten(self, rewriter: RecordRewriter, header: BatchHeader, codec: int) -> Work[bytes | None]:
        """What a batch becomes; None where `_exactly_rewritten` is to decide."""
        packed = memoryview(self._data)[header.position + HEADER_SIZE : header.end]
        plain: Buffer = decompress(codec, packed, self._limit_bytes) if codec else packed
        if len(plain) > _COPIED_AT_ONCE_BYTES or not self._begin(rewriter, header, bytes(plain)):
            return None
        has_more = True
        while has_more:
            try:
                has_more = rewriter.add(RECORDS_AT_ONCE)
            except _REFUSALS:
                return None
            if rewriter.size_bytes > self._limit_bytes:
                raise DecompressedTooLarge(self._limit_bytes)
            yield
        return self._ended(rewriter, header)

    def _exactly_rewritten(self, header: BatchHeader) -> Work[bytes]:
        data, limit_bytes, first_offset = self._data, self._limit_bytes, self._first_of(header)
        try:
            return (yield from self._rewritten(_compiled(data, header, limit_bytes), header, first_offset))
        except unreadable():  # which names of headers that are no UTF-8 are too, none of our business
            return (yield from self._rewritten(iter_records(data, header, limit_bytes), header, first_offset))

    def _rewritten(self, records: Iterator[DecodedRecord], header: BatchHeader, first_offset: int) -> Work[bytes]:
        """The records from `first_offset` on as messages of their own, or within a wrapper."""
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
        return _wrapped(builder.build(), header, magic, last_offset)


def _compiled(data: Buffer, header: BatchHeader, limit_bytes: int) -> Iterator[DecodedRecord]:
    return decode_plain(records_of(data, header, limit_bytes), header) if header.codec else decode(data, header)


def _wrapped(messages: bytes, header: BatchHeader, magic: int, last_offset: int) -> bytes:
    """The messages as they go to the consumer: in a wrapper, if the batch was compressed."""
    if not header.codec or not messages:
        return messages
    attributes, timestamp = _attributes(header, magic), header.max_timestamp
    return build_wrapper(magic, header.codec, attributes, last_offset, timestamp, messages, compress_for_transit)


def _attributes(header: BatchHeader, magic: int) -> int:
    return header.attributes & LOG_APPEND_TIME if magic else 0
