"""Records of format 2 between bytes and Python's objects, without compiled code: what `_records` does, for whom it was not built.

`record_walk` has the rules. Tests hold both to one another; `record_code` says what the functions do.
"""

from __future__ import annotations

import struct
import time
from array import array
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Any, Final, SupportsInt, TypeAlias

import mmh3

from kafkalite.protocol.murmur2 import murmur2
from kafkalite.protocol.record_batches import record_walk
from kafkalite.protocol.record_batches.record_walk import headers_at, record_at
from kafkalite.protocol.record_batches.varint import wrap_long, write_varint
from kafkalite.types import Buffer

Headers: TypeAlias = Sequence[tuple[str, bytes | None]]
QueuedRecord: TypeAlias = tuple[Any, str, bytes | None, bytes | None, int | None, int | None, Headers | None, Any]
Columns: TypeAlias = tuple[list[int], list[int], list[bytes | None], list[bytes | None], list[Headers]]

_KEYS, _VALUES, _HEADERS = 1, 2, 4
_BATCH_HEADER_BYTES: Final = 61
_COUNT_MAX: Final = (1 << 31) - 1
_RECORD_BYTES_MAX: Final = (1 << 31) - 1
_LONG_MAX: Final = (1 << 63) - 1
_LONGEST_LENGTH_BYTES: Final = 5
_REMEMBERED_KEY_BYTES: Final = 64
_ROW: Final = struct.Struct("<iqq")
_ROW_LENGTH: Final = struct.Struct("<i")


def _check_bounds(data: Buffer, position: int, end: int) -> None:
    if not 0 <= position <= end <= len(data):
        raise ValueError(f"no bytes {position} to {end} in a buffer of {len(data)}")


def _octets(data: Buffer, end: int) -> bytes | bytearray:
    """Return bytes that end at `end`; copies what is not bytes already."""
    return data if isinstance(data, bytes | bytearray) and end == len(data) else bytes(memoryview(data)[:end])


def read_columns(
    data: Buffer,
    position: int,
    end: int,
    limit: int,
    base_offset: int,
    base_timestamp: int,
    append_time: int | None,
    wanted: int,
) -> tuple[int, Columns]:
    """Do as `record_code.read_columns` says."""
    _check_bounds(data, position, end)
    octets = _octets(data, end)
    offsets: list[int] = []
    timestamps: list[int] = []
    keys: list[bytes | None] = []
    values: list[bytes | None] = []
    headers: list[Headers] = []
    for _ in range(limit):
        try:
            delta, offset_delta, key, key_end, value, value_end, count, at, following = record_at(octets, position)
        except (IndexError, ValueError):
            if not offsets:
                raise ValueError(f"no well-formed record at position {position}") from None
            break
        offsets.append(base_offset + offset_delta)
        timestamps.append(wrap_long(base_timestamp + delta) if append_time is None else append_time)
        if wanted & _KEYS:
            keys.append(bytes(octets[key:key_end]) if key >= 0 else None)
        if wanted & _VALUES:
            values.append(bytes(octets[value:value_end]) if value >= 0 else None)
        if wanted & _HEADERS:
            headers.append(_decode_headers(octets, at, count) if count else ())
        position = following
    return position, (offsets, timestamps, keys, values, headers)


def find_places(
    data: Buffer, position: int, end: int, limit: int, base_offset: int, base_timestamp: int
) -> tuple[int, tuple[array[int], ...]]:
    """Do as `record_code.find_places` says."""
    _check_bounds(data, position, end)
    octets = _octets(data, end)
    rows: list[tuple[int, ...]] = []
    for _ in range(limit):
        try:
            delta, offset_delta, *parts = record_at(octets, position)
        except (IndexError, ValueError):
            break
        rows.append((wrap_long(base_offset + offset_delta), wrap_long(base_timestamp + delta), *parts))
        position = parts[-1]
    if not rows:
        raise ValueError(f"no well-formed record at position {position}")
    return position, tuple(array("q", column) for column in zip(*rows, strict=True))


def _decode_headers(octets: bytes | bytearray, position: int, count: int) -> Headers:
    return [(name.decode(errors="replace"), content) for name, content in headers_at(octets, position, count)]


def skip_records(
    data: Buffer,
    position: int,
    end: int,
    count: int,
    base_offset: int,
    base_timestamp: int,
    from_offset: int,
    from_timestamp: int,
) -> tuple[int, int]:
    """Do as `record_code.skip_records` says."""
    _check_bounds(data, position, end)
    octets = _octets(data, end)
    for skipped in range(count):
        try:
            delta, offset_delta, *_, following = record_at(octets, position)
        except (IndexError, ValueError):
            return position, skipped
        if base_offset + offset_delta >= from_offset and wrap_long(base_timestamp + delta) >= from_timestamp:
            return position, skipped
        position = following
    return position, max(count, 0)


def check_in_order(
    data: Buffer, position: int, end: int, count: int, headers_at_once: int
) -> tuple[int, int, bool] | None:
    """Return None: `record_check` walks over the records itself, in a way that suits Python."""
    _check_bounds(data, position, end)
    return None


def digest_records(
    data: Buffer,
    position: int,
    end: int,
    count: int,
    base_offset: int,
    base_timestamp: int,
    append_time: int | None,
    from_offset: int,
    to_offset: int,
    since: int,
    latest: int,
) -> tuple[int, tuple[int, int, int, int, int, int, int]] | None:
    """Return None: `record_digest` hashes the records itself, one by one."""
    _check_bounds(data, position, end)
    return None


def digest_batches(
    data: Buffer, position: int, end: int, from_offset: int, to_offset: int, since: int, latest: int
) -> tuple[int, tuple[int, int, int, int, int, int, int]]:
    """End before the first batch: `record_digest` hashes the records itself, one by one."""
    _check_bounds(data, position, end)
    return position, (0, -1, -1, _LONG_MAX, -_LONG_MAX - 1, 0, 0)


def find_runs(
    data: Buffer,
    position: int,
    end: int,
    within: int,
    behind_offset: int,
    records_max: int,
    bytes_max: int,
    batches_max: int,
) -> None:
    """Return None: `log/range_scan` walks over the headers itself."""
    _check_bounds(data, position, end)


def hash_rows(
    count: int,
    partitions: Buffer,
    offsets: Buffer,
    timestamps: Buffer,
    key_bounds: Buffer,
    key_data: Buffer,
    key_nulls: Buffer | None,
    value_bounds: Buffer,
    value_data: Buffer,
    value_nulls: Buffer | None,
) -> bytearray:
    """Do as `record_code.hash_rows` says."""
    if count < 0:
        raise ValueError(f"{count} rows")
    numbers = [(partitions, "i", count), (offsets, "q", count), (timestamps, "q", count)]
    numbers += [(key_bounds, "i", count + 1), (value_bounds, "i", count + 1)]
    lists = [_numbers(column, kind, length, count) for column, kind, length in numbers]
    for nulls in (key_nulls, value_nulls):
        if nulls is not None:
            _check_column(nulls, count, count)
    keys, values = _strings(lists[3], key_data, key_nulls), _strings(lists[4], value_data, value_nulls)
    return bytearray().join(map(hash_row, *lists[:3], keys, values))


def _check_column(column: Buffer, size: int, count: int) -> None:
    size_bytes = memoryview(column).nbytes
    if size_bytes < size:
        raise ValueError(f"a column of {size_bytes} bytes for {count} rows")


def _numbers(column: Buffer, kind: str, length: int, count: int) -> list[int]:
    form = f"<{length}{kind}"
    _check_column(column, struct.calcsize(form), count)
    return list(struct.unpack_from(form, column))


def hash_row(
    partition: int, offset: int, timestamp: int, key: bytes | None, value: bytes | None, *more: bytes | None
) -> bytes:
    """Return the murmur3 (x64, 128 bits) of the numbers, little endian in 4, 8 and 8 bytes, and of each field behind its length (4 bytes,
    -1 for null).
    """
    parts = [_ROW.pack(partition, offset, timestamp)]
    for field in (key, value, *more):
        parts.append(_ROW_LENGTH.pack(-1 if field is None else len(field)))
        if field is not None:
            parts.append(field)
    return mmh3.mmh3_x64_128_digest(b"".join(parts))


def _strings(bounds: Sequence[int], data: Buffer, nulls: Buffer | None) -> Iterator[bytes | None]:
    octets, is_null = bytes(data), bytes(len(bounds)) if nulls is None else bytes(nulls)
    for row, (start, end) in enumerate(pairwise(bounds)):
        if is_null[row]:
            yield None
        elif 0 <= start <= end <= len(octets):
            yield octets[start:end]
        else:
            raise ValueError(f"row {row} has a key or value that lies outside of the data")


def choose_partition(key: Buffer, count: int) -> int:
    """Do as `record_code.choose_partition` says."""
    encoded = bytes(memoryview(key))
    if count <= 0:
        raise ValueError(f"{count} partitions")
    hashed = _remembered_murmur2(encoded) if len(encoded) <= _REMEMBERED_KEY_BYTES else murmur2(encoded)
    return (hashed & 0x7FFFFFFF) % count


@lru_cache(maxsize=16384)
def _remembered_murmur2(key: bytes) -> int:
    """Return the hash of a key. Short ones come again and again, and a hash in Python takes longer than the rest of a send."""
    return murmur2(key)


def choose_partitions(keys: Iterable[Buffer | None], count: int) -> list[int | None]:
    """Do as `record_code.choose_partitions` says."""
    if count <= 0:
        raise ValueError(f"{count} partitions")
    return [None if key is None else choose_partition(key, count) for key in keys]


def find_starts(data: Buffer, position: int, end: int, count: int) -> array[int]:
    """Do as `record_code.find_starts` says."""
    _check_bounds(data, position, end)
    starts = array("q")
    if 0 <= count <= end - position:
        try:
            record_walk.find_starts(_octets(data, end), position, end, count, starts)
            return starts
        except ValueError:
            pass
    raise ValueError(f"no {count} records between positions {position} and {end}, or not as long as they say")


def _as_integer(number: SupportsInt) -> int:
    """Return the whole part of a number, as C takes it; TypeError for a text."""
    if not hasattr(number, "__int__") and not hasattr(number, "__index__"):
        raise TypeError(f"{type(number).__name__} where a number is expected")
    return int(number)


def _as_bytes(content: Buffer | None) -> bytes | None:
    """Return the bytes of what has any; TypeError for the rest."""
    return content if content is None or type(content) is bytes else bytes(memoryview(content))


class RecordMemory:
    """What the batches of a producer share, as `record_code.RecordMemory` says."""

    __slots__ = ("content_limit_bytes", "limit_bytes", "now_ms", "used_bytes")

    def __init__(self, limit_bytes: int, content_limit_bytes: int, now_ms: Callable[[], int] | None = None) -> None:
        self.used_bytes = 0
        self.limit_bytes = limit_bytes
        self.content_limit_bytes = content_limit_bytes
        self.now_ms = now_ms or _system_ms


def _system_ms() -> int:
    return time.time_ns() // 1_000_000


class RecordsWriter:
    """A batch under construction, as `record_code.RecordsWriter` says."""

    __slots__ = (
        "_batch",
        "_memory",
        "_target_bytes",
        "_timestamps",
        "base_timestamp",
        "count",
        "max_timestamp",
        "size",
    )

    def __init__(self, target_bytes: int, memory: RecordMemory | None = None) -> None:
        self._target_bytes = target_bytes
        self._memory = memory
        self._timestamps = array("q")
        self._batch: bytearray | None = bytearray(_BATCH_HEADER_BYTES)
        self.count, self.size = 0, _BATCH_HEADER_BYTES
        self.base_timestamp = self.max_timestamp = -1

    def append(self, timestamp: int, key: bytes | None, value: bytes | None, headers: Headers) -> int:
        """Return the size in bytes of the record that was added, 0 if it does not fit any more."""
        timestamp = _as_integer(timestamp)
        if not -_LONG_MAX - 1 <= timestamp <= _LONG_MAX:
            raise OverflowError(f"{timestamp} is no timestamp of 64 bits")
        key, value = _as_bytes(key), _as_bytes(value)
        pairs = [(_checked_name(name), _as_bytes(content)) for name, content in headers or ()]
        batch, count = self._batch, self.count
        if batch is None:
            raise ValueError("a record for a batch that is finished")
        delta = timestamp - self.base_timestamp if count else 0
        encoded = encode_record(delta, count, key, value, pairs)
        if len(encoded) > _RECORD_BYTES_MAX + _LONGEST_LENGTH_BYTES:
            raise OverflowError(f"a record of {len(encoded)} bytes, where {_RECORD_BYTES_MAX} are the most")
        if count and (count == _COUNT_MAX or len(batch) + len(encoded) > self._target_bytes):
            return 0
        batch += encoded
        self.size = len(batch)
        if not count:
            self.base_timestamp = self.max_timestamp = timestamp
        elif timestamp > self.max_timestamp:
            self.max_timestamp = timestamp
        self.count = count + 1
        if self._memory is not None:
            self._memory.used_bytes += len(encoded) if count else len(encoded) + _BATCH_HEADER_BYTES
            self._timestamps.append(timestamp)
        return len(encoded)

    def add(self, timestamp: int | None, key: bytes | None, value: bytes | None, headers: Headers) -> int:
        """Return the index of the record that was added, -1 without one."""
        memory = self._memory
        key, value = _as_bytes(key), _as_bytes(value)
        if memory is None:
            raise ValueError("a writer without a memory of its producer")
        content_bytes = (0 if key is None else len(key)) + (0 if value is None else len(value))
        if content_bytes > memory.content_limit_bytes or memory.used_bytes >= memory.limit_bytes:
            return -1
        if timestamp is None:
            timestamp = memory.now_ms()
        return self.count - 1 if self.append(timestamp, key, value, headers) else -1

    def add_queued(
        self,
        records: deque[QueuedRecord],
        topic: str,
        partition: int,
        now_ms: int,
        batch: Any,
        make_callback: Callable[[Any], Any],
    ) -> tuple[int, int]:
        """Do as `record_code.RecordsWriter.add_queued` says."""
        added = content_bytes = 0
        while records:
            delivery, its_topic, value, key, its_partition, timestamp_ms, headers, on_delivery = records[0]
            if its_partition != partition or its_topic != topic or headers:
                break
            try:
                index = self.add(now_ms if timestamp_ms is None else timestamp_ms, key, value, ())
            except Exception:
                if added:
                    break
                raise
            if index < 0:
                break
            delivery.batch = batch
            delivery.index = index
            if on_delivery is not None:
                batch.callbacks.append((index, make_callback(on_delivery)))
            records.popleft()
            added += 1
            content_bytes += (0 if key is None else len(key)) + (0 if value is None else len(value))
        return added, content_bytes

    def timestamp_at(self, index: int) -> int:
        """Return the timestamp of a record."""
        if not 0 <= index < len(self._timestamps):
            raise IndexError(f"no timestamp of a record {index} was kept")
        return self._timestamps[index]

    def extend(self, records: Iterable[tuple[int, bytes | None, bytes | None, Headers]]) -> int:
        """Append records until one does not fit; returns how many were added."""
        taken = 0
        for record in records:
            if not self.append(*record):
                break
            taken += 1
        return taken

    def finish(self) -> bytearray:
        """Return room for the header of a batch and the records behind it. The writer is spent."""
        batch, self._batch = self._batch, None
        if batch is None:
            raise ValueError("the batch is finished")
        return batch


def _checked_name(name: str) -> str:
    if not isinstance(name, str):
        raise TypeError(f"the key of a header is {type(name).__name__} where str is expected")
    return name


def encode_record(
    timestamp_delta: int,
    offset_delta: int,
    key: bytes | None,
    value: bytes | None,
    headers: Sequence[tuple[str, bytes | None]] = (),
) -> bytes:
    """Return one record as it lies in a batch."""
    body = bytearray(1)
    write_varint(body, wrap_long(timestamp_delta))
    write_varint(body, offset_delta)
    _write_bytes(body, key)
    _write_bytes(body, value)
    write_varint(body, len(headers))
    for name, content in headers:
        _write_bytes(body, name.encode())
        _write_bytes(body, content)
    encoded = bytearray()
    write_varint(encoded, len(body))
    return bytes(encoded + body)


def _write_bytes(output: bytearray, content: bytes | None) -> None:
    if content is None:
        output.append(1)
    else:
        write_varint(output, len(content))
        output += content
