"""Checks that the records of a produced batch are well formed. Every record is checked, at little cost where records look alike.

A batch's CRC only says that the bytes arrived as the producer made them. A broker that stores records it never looked at
passes a buggy producer's mistake on to every consumer, who then stops there for ever. So, as in Kafka, each record's
lengths must add up, offset deltas must be 0, 1, 2 and so on, and compacted topics need keys.

In Python the walk over records (`record_walk`) costs about 0.7 microseconds each, which would bound a producer of small records. But
records written together mostly have one shape: the same total size, the same lengths of key, value and headers. Their
structural bytes (length prefixes, varints) then lie at a fixed distance from each other, so that a strided slice gathers
one structural byte of all records in a run, and one comparison in C checks it for thousands of records:

1. Read one record exactly; its structural byte positions and its size are the shape of the run.
2. The run goes on as long as all structural bytes repeat; offset deltas must equal the expected varints, which is
   one comparison per varint byte with a table made once.
3. Runs shorter than `_WORTH_A_RUN` mean irregular data: the next records are read one by one, in growing portions, before
   a run is tried again. So the price for irregular records is one walk, never a quadratic search.

Where there is compiled code (`record_code`), it looks at all records first, in a hundredth of a microsecond each, and all of this is for
batches that it does not pass. The walk alone refuses: a run that does not check out is read again record by record.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from kafkalite.errors import ErrorCode, KafkaError
from kafkalite.protocol.record_batches.record_code import check_in_order
from kafkalite.protocol.record_batches.record_walk import ANY_HEADERS, record_at
from kafkalite.protocol.record_batches.varint import read_varint

_WORTH_A_RUN: Final = 32
_FIRST_WINDOW: Final = 32
_WINDOW_GROWTH: Final = 8
_LARGEST_WINDOW: Final = 64 * 1024
"""Records that are compared in one go, in some milliseconds."""
_LARGEST_PORTION: Final = 1024
NAMED_RECORDS: Final = 1000
"""Number of refused records that are named; a batch may have millions."""

_DELTA_LIMITS: Final = (1 << 6, 1 << 13, 1 << 20)
"""Offset deltas from these on take one more varint byte; runs never cross such a border."""

_LOW_BYTES: Final = bytes(range(0x80))
_HIGH_BYTES: Final = bytes(range(0x80, 0x100))
_ORDERED: Final = bytes(((byte >> 1) ^ -(byte & 1)) + 0x40 & 0xFF for byte in range(0x100))
"""One-byte zig-zag varints as numbers that grow with their value, 0x40 standing for 0."""


class InvalidRecords(KafkaError):
    """Some records of a batch are refused one by one; `record_errors` pairs their index in the batch with the reason."""

    def __init__(
        self, message: str, record_errors: list[tuple[int, str]], code: ErrorCode = ErrorCode.INVALID_RECORD
    ) -> None:
        super().__init__(code, message)
        self.record_errors = record_errors


class TimestampDeltas(NamedTuple):
    """The smallest and largest timestamp delta in a batch, in ms from its base timestamp."""

    smallest: int
    largest: int


class _Shape(NamedTuple):
    """Positions of the structural bytes of a record, relative to its beginning."""

    size: int
    fixed: tuple[int, ...]
    timestamp: range
    offset: range
    has_key: bool


def check_records(
    data: bytes | bytearray,
    count: int,
    keys_required: bool,
    headers_at_once: int = ANY_HEADERS,
    start: int = 0,
    end: int = -1,
) -> TimestampDeltas:
    """Check that `data[start:end]`, all of it by default, holds exactly `count` well-formed records with offset deltas 0 to `count` - 1.

    Raises KafkaError INVALID_RECORD, as InvalidRecords when records lack the keys that are required; TooMuchAtOnce for a record with more
    headers than `headers_at_once`, where Python would walk over them.
    """
    if end < 0:
        end = len(data)
    facts = check_in_order(data, start, end, count, headers_at_once)
    if facts is not None:
        smallest, largest, all_have_keys = facts
        if all_have_keys or not keys_required:
            return TimestampDeltas(smallest, largest)
    keyless: list[int] | None = [] if keys_required else None
    smallest, largest = 1 << 63, -(1 << 63)
    position, index = start, 0
    portion = 1
    try:
        if count < _WORTH_A_RUN:
            position, smallest, largest = _check_each(data, start, 0, count, keyless, headers_at_once)
            index = count
        while index < count:
            run = _regular_run(data, position, end, index, count, keys_required, headers_at_once)
            if run is not None:
                length, size, low, high = run
                position += length * size
                index += length
                portion = 1
            else:
                stop = min(count, index + portion)
                position, low, high = _check_each(data, position, index, stop, keyless, headers_at_once)
                index = stop
                portion = min(2 * portion, _LARGEST_PORTION)
            smallest = min(smallest, low)
            largest = max(largest, high)
    except (IndexError, ValueError) as problem:
        raise KafkaError(ErrorCode.INVALID_RECORD, f"records cannot be read: {problem}") from None
    if position != end:
        raise KafkaError(ErrorCode.INVALID_RECORD, f"{end - position} bytes behind the last of {count} records")
    if keyless:
        raise InvalidRecords(
            "One or more records have been rejected: a compacted topic takes no record without a key",
            [(number, "Compacted topic cannot accept message without key in topic partition.") for number in keyless],
        )
    return TimestampDeltas(smallest, largest)


def _check_each(
    data: bytes | bytearray, position: int, index: int, stop: int, keyless: list[int] | None, headers_at_once: int
) -> tuple[int, int, int]:
    """Check the records from number `index` to before `stop` one by one.

    Returns the position behind them and the smallest and largest timestamp delta.
    """
    smallest, largest = 1 << 63, -(1 << 63)
    for number in range(index, stop):
        delta, offset_delta, key, _, _, _, _, _, position = record_at(data, position, headers_at_once)
        if offset_delta != number:
            raise ValueError(f"record {number} has the offset delta {offset_delta}")
        if delta < smallest:
            smallest = delta
        if delta > largest:
            largest = delta
        if key < 0 and keyless is not None and len(keyless) < NAMED_RECORDS:
            keyless.append(number)
    return position, smallest, largest


def _regular_run(
    data: bytes | bytearray, position: int, end: int, index: int, count: int, keys_required: bool, headers_at_once: int
) -> tuple[int, int, int, int] | None:
    """Return (records, bytes per record, smallest and largest timestamp delta) of the run that begins here; None if too short."""
    if count - index < _WORTH_A_RUN:
        return None
    shape = _shape_of(data, position, headers_at_once)
    if keys_required and not shape.has_key:
        return None
    border = next((limit for limit in _DELTA_LIMITS if limit > index), 0)
    longest = min(min(count, border) - index, (end - position) // shape.size)
    length, window = 0, _FIRST_WINDOW
    smallest, largest = 1 << 63, -(1 << 63)
    while length < longest:
        wanted = min(window, longest - length)
        checked = _check_window(data, position + length * shape.size, index + length, wanted, shape, position)
        if checked is None:
            return None
        taken, low, high = checked
        if taken:
            smallest, largest = min(smallest, low), max(largest, high)
        length += taken
        if taken < wanted:
            break
        window = min(window * _WINDOW_GROWTH, _LARGEST_WINDOW)
    return (length, shape.size, smallest, largest) if length >= _WORTH_A_RUN else None


def _check_window(
    data: bytes | bytearray, position: int, index: int, wanted: int, shape: _Shape, model: int
) -> tuple[int, int, int] | None:
    """Return how many of the next `wanted` records are shaped as the one at `model`, and their deltas; None at a wrong offset."""
    size, taken = shape.size, wanted
    for column in shape.fixed:
        found = data[position + column : position + taken * size : size]
        byte = data[model + column]
        if found.count(byte) != taken:
            taken -= len(found.lstrip(bytes((byte,))))
            if not taken:
                return 0, 0, 0
    for column in shape.timestamp:
        found = data[position + column : position + taken * size : size]
        is_last = column == shape.timestamp.stop - 1
        if not (is_last and found.isascii()):
            taken -= len(found.lstrip(_LOW_BYTES if is_last else _HIGH_BYTES))
            if not taken:
                return 0, 0, 0
    expected = _offset_columns(index, taken, len(shape.offset))
    for column, wanted_bytes in zip(shape.offset, expected, strict=True):
        if data[position + column : position + taken * size : size] != wanted_bytes:
            return None
    return taken, *_timestamp_range(data, position, taken, shape)


def _timestamp_range(data: bytes | bytearray, position: int, taken: int, shape: _Shape) -> tuple[int, int]:
    columns = [data[position + column : position + taken * shape.size : shape.size] for column in shape.timestamp]
    if len(columns) == 1:
        ordered = columns[0].translate(_ORDERED)
        return min(ordered) - 0x40, max(ordered) - 0x40
    raws = set(zip(*columns, strict=True))
    deltas = [read_varint(bytes(raw), 0)[0] for raw in raws]
    return min(deltas), max(deltas)


def _offset_columns(index: int, taken: int, width: int) -> list[bytes]:
    """Return the bytes of the varints of `index`, `index` + 1 and so on, one string for each byte position of the varint."""
    table = _offset_tables(width, index + taken)
    first = _DELTA_LIMITS[width - 2] if width > 1 else 0
    return [column[index - first : index - first + taken] for column in table]


_tables: dict[int, tuple[int, list[bytes]]] = {}


def _offset_tables(width: int, stop: int) -> list[bytes]:
    """Return the varint bytes of all offset deltas of `width` bytes, at least to before `stop`; made once and grown as needed."""
    known_stop, columns = _tables.get(width, (0, []))
    if known_stop < stop:
        first = _DELTA_LIMITS[width - 2] if width > 1 else 0
        known_stop = min(_DELTA_LIMITS[width - 1], max(2 * stop, 1 << 15))
        raws = range(2 * first, 2 * known_stop, 2)
        columns = [bytes([raw >> 7 * place & 0x7F | 0x80 for raw in raws]) for place in range(width - 1)]
        columns.append(bytes([raw >> 7 * (width - 1) for raw in raws]))
        _tables[width] = known_stop, columns
    return columns


def _shape_of(data: bytes | bytearray, position: int, headers_at_once: int) -> _Shape:
    """Return the shape of the record at `position`. Raises as `record_at` when it cannot be read."""
    _, _, key, key_end, value, value_end, count, headers, end = record_at(data, position, headers_at_once)
    start = read_varint(data, position)[1]
    timestamp_end = read_varint(data, start + 1)[1]
    offset_end = read_varint(data, timestamp_end)[1]
    fixed = [
        *range(start - position),
        *range(offset_end - position, (key if key >= 0 else key_end) - position),
        *range(key_end - position, (value if value >= 0 else value_end) - position),
        *range(value_end - position, (headers if count else end) - position),
    ]
    at = headers
    for _ in range(2 * count):
        size, content = read_varint(data, at)
        fixed += range(at - position, content - position)
        at = content + max(size, 0)
    timestamp = range(start + 1 - position, timestamp_end - position)
    return _Shape(end - position, tuple(fixed), timestamp, range(timestamp.stop, offset_end - position), key >= 0)
