"""Records in compiled code: aiokafka's decoder and builder, a fifth of the time of a loop in Python. The only module that imports aiokafka.

They are private modules of aiokafka, so setup.cfg admits only versions whose behaviour was tested:
`tests/unit/protocol/record_batches/test_record_walk` asks the installed one for all that is relied on, round trips and what it makes of
bytes that were made to harm.

- It reads varints of up to ten bytes without looking at the end, in headers two of them one after the other. Whatever it is given has
  `ROOM_BYTES` behind it that are ours: a copy, the rest of the buffer, or memory that says so (`RoomyBytes`).
- A length near 2**63 makes it ask for that much memory, which is refused: MemoryError or OverflowError, not a crash.
- It checks that lengths are within the data and add up, and that nothing is left behind the last record. Where it says no, the walk in
  Python (`record_walk`) decides, which is exact. But it takes three things that no producer writes for more than they are: lengths,
  counts and offset deltas in varints of six to ten bytes, attributes as a varint, and of numbers beyond 64 bits the rest. Readers do not
  care; `check_compiled` does, for what a broker takes: records with any of them are longer than the shortest form of what was read.

aiokafka's package takes 0.2 s to import, so a broker that starts does not wait for it: `preload` brings it in afterwards, and until then
(`is_loaded`) the event loop does without it.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import chain, islice
from mmap import mmap
from operator import attrgetter
from typing import Any, Final, NamedTuple, Protocol

from kafkalite.protocol.record_batches import record_walk
from kafkalite.protocol.record_batches.compression import DECOMPRESSED_LIMIT_BYTES
from kafkalite.protocol.record_batches.record_walk import Starts
from kafkalite.protocol.record_batches.records import (
    CODEC_MASK,
    MAGIC,
    NO_PRODUCER_ID,
    BatchHeader,
    records_of,
)
from kafkalite.types import ROOM_BYTES, Buffer, RoomyBytes

_HEADER: Final = struct.Struct(">qiibIhiqqqhii")
_ROOM: Final = bytes(ROOM_BYTES)
_COPIED_AT_ONCE_BYTES: Final = 1024 * 1024
_RECORDS_AT_ONCE: Final = 512
_TIMESTAMP_DELTA_LIMIT: Final = 1 << 62
_OFFSETS: Final = list(range(_RECORDS_AT_ONCE))
_offset_of, _timestamp_of = attrgetter("offset"), attrgetter("timestamp")
_key_of, _value_of, _headers_of = attrgetter("key"), attrgetter("value"), attrgetter("headers")


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


class CheckedRecords(NamedTuple):
    """Facts of well-formed records with offset deltas 0, 1, 2 ...: timestamp deltas in ms, and if all have a key."""

    smallest: int
    largest: int
    all_have_keys: bool


class _Compiled(NamedTuple):
    batch: Any
    builder: Any
    decode_varint: Any
    size_in_bytes: Callable[[int, int, bytes | None, bytes | None, list[tuple[str, bytes | None]]], int]
    """Size of the shortest form of a record: offset and timestamp delta, key, value, headers."""

    unreadable: tuple[type[Exception], ...]


_loaded: _Compiled | None = None


def _load() -> _Compiled:
    global _loaded
    from aiokafka.errors import CorruptRecordException  # type: ignore[import-untyped]
    from aiokafka.record.default_records import (  # type: ignore[import-untyped]
        DefaultRecordBatch,
        DefaultRecordBatchBuilder,
    )
    from aiokafka.record.util import decode_varint  # type: ignore[import-untyped]

    refusals = (CorruptRecordException, ValueError, IndexError, MemoryError, OverflowError)
    _loaded = _Compiled(DefaultRecordBatch, DefaultRecordBatchBuilder, decode_varint, _sizes(), refusals)
    return _loaded


def _sizes() -> Callable[..., int]:
    """Return `size_in_bytes` of a builder whose base timestamp is 0."""
    from aiokafka.record.default_records import DefaultRecordBatchBuilder

    builder = DefaultRecordBatchBuilder(MAGIC, 0, 0, NO_PRODUCER_ID, -1, -1, 1024)
    builder.append(0, 0, None, None, [])
    return builder.size_in_bytes  # type: ignore[no-any-return]


def preload() -> None:
    """Import the compiled code; may be called in another thread."""
    _load()


def is_loaded() -> bool:
    """True if the compiled code is imported, or can be at its first use."""
    return _loaded is not None


def unreadable() -> tuple[type[Exception], ...]:
    """Return the errors that `decode` and its iterator raise for bytes that are no records."""
    return (_loaded or _load()).unreadable


def builder() -> Callable[..., Any]:
    """Return a function that makes builders of one plain batch, given its `batch_size` in bytes.

    A builder's `append(number, timestamp, key, value, headers)` returns None when the batch is full.
    """
    return partial(
        (_loaded or _load()).builder,
        magic=2,
        compression_type=0,
        is_transactional=0,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
    )


def decode(data: Buffer, header: BatchHeader, limit_bytes: int = DECOMPRESSED_LIMIT_BYTES) -> Iterator[Any]:
    """Return the records of the batch at `header` of `data`, with their headers as a list of (str, bytes or None).

    Raises KafkaError when they cannot be decompressed into `limit_bytes`; the iterator raises `unreadable`.
    """
    if header.attributes & CODEC_MASK:
        return decode_plain(records_of(data, header, limit_bytes), header)
    start, end = header.position, header.end
    view = data if type(data) is memoryview else memoryview(data)
    if type(view.obj) is RoomyBytes or end + ROOM_BYTES <= len(view):
        batch = view[start:end]
    else:
        batch = memoryview(b"".join((view[start:end], _ROOM)))[:-ROOM_BYTES]
    return chain((_loaded or _load()).batch(batch))  # which itself can be asked for an iterator once


def decode_plain(plain: Buffer, header: BatchHeader) -> Iterator[Any]:
    """Return the records of a batch whose records are decompressed already; the iterator raises `unreadable`."""
    attributes = header.attributes
    if attributes & CODEC_MASK:
        header = header._replace(attributes=attributes & ~CODEC_MASK)
    # The decoder reads neither length nor CRC.
    packed = _HEADER.pack(*header[:-1])
    if len(plain) <= _COPIED_AT_ONCE_BYTES:
        batch = memoryview(b"".join((packed, plain, _ROOM)))
    else:
        batch = _joined_in_pieces(packed, plain)
    return chain((_loaded or _load()).batch(batch[:-ROOM_BYTES]))


def _joined_in_pieces(packed: bytes, plain: Buffer) -> memoryview:
    """Join header, records and room in pieces, so that other threads run in between, in memory that is mapped as it is written."""
    batch = mmap(-1, len(packed) + len(plain) + ROOM_BYTES)
    batch[: len(packed)] = packed
    source, target = memoryview(plain), memoryview(batch)[len(packed) :]
    for begin in range(0, len(source), _COPIED_AT_ONCE_BYTES):
        some = source[begin : begin + _COPIED_AT_ONCE_BYTES]
        target[begin : begin + len(some)] = some
    return memoryview(batch)


def find_starts(data: Buffer, position: int, end: int, count: int, starts: Starts) -> None:
    """Append the positions of `count` records to `starts`. Raises ValueError where they are malformed.

    Accepts lengths in varints of six to ten bytes, which `record_walk.find_starts` refuses.
    """
    if (
        position < end and data[end - 1] > 0x7F and end + ROOM_BYTES > len(data)
    ):  # a varint need not end within the data
        record_walk.find_starts(data, position, end, count, starts)
        return
    decode_varint = (_loaded or _load()).decode_varint
    expected = len(starts) + count
    add = starts.append
    while position < end:
        add(position)
        size, position = decode_varint(data, position)
        if size < 0:
            raise ValueError(f"a record of {size} bytes")
        position += size
    if position != end or len(starts) != expected:
        raise ValueError(f"{len(starts) - expected:+d} records of {count}, or not as long as they say")


def check_compiled(data: Buffer, count: int) -> CheckedRecords | None:
    """Return the facts of `count` well-formed records that fill `data`, each in its shortest form; None when they may be otherwise."""
    header = BatchHeader(0, 0, 0, MAGIC, 0, 0, count - 1, 0, 0, NO_PRODUCER_ID, -1, -1, count, 0)
    smallest, largest, all_have_keys = _TIMESTAMP_DELTA_LIMIT, -_TIMESTAMP_DELTA_LIMIT, True
    done = shortest = 0
    size_in_bytes = (_loaded or _load()).size_in_bytes
    try:
        batch = decode_plain(data, header)
        while records := list(islice(batch, _RECORDS_AT_ONCE)):
            taken = len(records)
            expected = _OFFSETS[:taken] if not done else list(range(done, done + taken))
            if list(map(_offset_of, records)) != expected:
                return None
            timestamps = list(map(_timestamp_of, records))
            smallest, largest = min(smallest, min(timestamps)), max(largest, max(timestamps))
            keys = list(map(_key_of, records))
            all_have_keys = all_have_keys and None not in keys
            parts = map(_value_of, records), map(_headers_of, records)
            shortest += sum(map(size_in_bytes, expected, timestamps, keys, *parts))
            done += taken
    except unreadable():
        return None
    if (
        done != count
        or shortest != len(data)
        or not -_TIMESTAMP_DELTA_LIMIT < smallest <= largest < _TIMESTAMP_DELTA_LIMIT
    ):
        return None
    return CheckedRecords(smallest, largest, all_have_keys)
