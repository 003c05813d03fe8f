"""Records of whole batches, decoded by `record_code`: piece by piece, so that what is made of one stays in the processor's cache."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import chain
from typing import Final, Protocol

from kafkalite.errors import ErrorCode, KafkaError
from kafkalite.protocol.record_batches.compression import DECOMPRESSED_LIMIT_BYTES
from kafkalite.protocol.record_batches.record_code import EVERYTHING, KEYS, Columns, read_columns, readable
from kafkalite.protocol.record_batches.records import CODEC_MASK, HEADER_SIZE, BatchHeader, Record, records_of
from kafkalite.types import Buffer

_RECORDS_AT_ONCE: Final = 256
_make_record: Final = partial(tuple.__new__, Record)
"""Makes a named tuple without a Python call, unlike `_make`."""


class DecodedRecord(Protocol):
    """A record of a decoder; `timestamp` in ms, the append time where the batch has one for all."""

    @property
    def offset(self) -> int: ...

    @property
    def timestamp(self) -> int: ...

    @property
    def key(self) -> bytes | None: ...

    @property
    def value(self) -> bytes | None: ...

    @property
    def headers(self) -> Sequence[tuple[str, bytes | None]]: ...


def encoded_records(data: Buffer, header: BatchHeader, limit_bytes: int = DECOMPRESSED_LIMIT_BYTES) -> Buffer:
    """Return the records of the batch at `header` as `record_code` reads them, decompressed; what is plain already is not copied.

    Raises KafkaError where they cannot be decompressed into `limit_bytes`.
    """
    if header.attributes & CODEC_MASK:
        return readable(records_of(data, header, limit_bytes))
    return readable(memoryview(data)[header.position + HEADER_SIZE : header.end])


def decode(data: Buffer, header: BatchHeader, limit_bytes: int = DECOMPRESSED_LIMIT_BYTES) -> Iterator[Record]:
    """Return the records of the batch at `header` of `data`, as `records.iter_records` does.

    Raises KafkaError where they cannot be decompressed into `limit_bytes`; the iterator raises INVALID_RECORD at a malformed one.
    """
    return decode_plain(encoded_records(data, header, limit_bytes), header)


def decode_plain(plain: Buffer, header: BatchHeader) -> Iterator[Record]:
    """Return the records of a batch whose records are decompressed already. The iterator raises KafkaError INVALID_RECORD."""
    pieces = _read_pieces(readable(plain), header, EVERYTHING)
    return chain.from_iterable(map(_make_record, zip(*columns, strict=True)) for columns in pieces)


def decode_whole(plain: Buffer, header: BatchHeader) -> list[Record]:
    """Return all records of a batch that is decompressed. Raises KafkaError INVALID_RECORD, also for bytes behind the last record."""
    pieces = _read_pieces(readable(plain), header, EVERYTHING, is_whole=True)
    return [*chain.from_iterable(map(_make_record, zip(*columns, strict=True)) for columns in pieces)]


def decode_keys(plain: Buffer, header: BatchHeader) -> tuple[list[bytes | None], list[int]]:
    """Return keys and offsets of what `decode_whole` returns."""
    keys: list[bytes | None] = []
    offsets: list[int] = []
    for columns in _read_pieces(readable(plain), header, KEYS, is_whole=True):
        keys += columns[2]
        offsets += columns[0]
    return keys, offsets


def _read_pieces(plain: Buffer, header: BatchHeader, wanted: int, *, is_whole: bool = False) -> Iterator[Columns]:
    """Yield offsets, timestamps, keys, values and headers of some records at a time. Raises KafkaError INVALID_RECORD."""
    base_offset, base_timestamp, count, end = (
        header.base_offset,
        header.base_timestamp,
        header.records_count,
        len(plain),
    )
    append_time = header.max_timestamp if header.uses_log_append_time else None
    position, number = 0, 0
    while number < count:
        limit = min(count - number, _RECORDS_AT_ONCE)
        try:
            position, columns = read_columns(
                plain, position, end, limit, base_offset, base_timestamp, append_time, wanted
            )
        except ValueError as problem:
            raise KafkaError(ErrorCode.INVALID_RECORD, f"record {number} cannot be read: {problem}") from None
        number += len(columns[0])
        yield columns
    if is_whole and position != end:
        raise KafkaError(ErrorCode.INVALID_RECORD, f"{end - position} bytes behind the last record")
