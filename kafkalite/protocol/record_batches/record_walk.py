"""The walk over the encoded records of a batch: the one place that says what is a well-formed record, and where its parts lie.

`record_at` finds all parts of one record and checks that they add up; `find_starts` goes from record to record by their lengths
alone, for who knows already that they are well formed or looks at them by other means. The layout is in `records`. As in Kafka's
`DefaultRecord`, lengths, counts and offset deltas are varints of up to 5 bytes, timestamp deltas of up to 10, and the attributes, which
nobody uses, one byte of anything.

Whoever walks faster answers for the same rules, and is held to these functions by tests: `record_check` compares records of one shape
in columns, `_records` is compiled, `client/consumer/record_columns` reads all records of many batches with numpy without it.
"""

from __future__ import annotations

from array import array
from typing import Final, TypeAlias

from kafkalite.protocol.record_batches.varint import read_varint, read_varint32

Places: TypeAlias = tuple[int, int, int, int, int, int, int, int, int]
"""Timestamp delta, offset delta, begin and end of key and of value (begin -1: null), count and begin of headers, end of the record."""

Starts: TypeAlias = "list[int] | array[int]"


class TooMuchAtOnce(Exception):
    """Raised when checking these records would hold the event loop for too long, so that another thread is to do it."""


ANY_HEADERS: Final = 1 << 62


def record_at(data: bytes | bytearray, position: int, headers_at_once: int = ANY_HEADERS) -> Places:
    """Return where the parts of the record at `position` lie; varints of one and two bytes, the usual ones, are read in line.

    Raises IndexError or ValueError for what is no well-formed record, or is longer than `data`; TooMuchAtOnce for more headers than
    `headers_at_once`, of which a megabyte may hold half a million.
    """
    raw = data[position]
    if raw < 0x80:
        position += 1
    elif data[position + 1] < 0x80:
        raw += (data[position + 1] << 7) - 0x80
        position += 2
    else:
        length, position = read_varint32(data, position)
        raw = 2 * length if length >= 0 else 1
    end = position + (raw >> 1)
    if raw & 1 or end > len(data):
        raise ValueError(f"a record that is longer than the {len(data) - position} bytes left, or negative")
    raw = data[position + 1]  # behind the attributes
    if raw < 0x80:
        timestamp_delta = (raw >> 1) ^ -(raw & 1)
        position += 2
    else:
        timestamp_delta, position = read_varint(data, position + 1)
    raw = data[position]
    if raw < 0x80:
        offset_delta = (raw >> 1) ^ -(raw & 1)
        position += 1
    else:
        offset_delta, position = read_varint32(data, position)
    raw = data[position]
    if raw < 0x80:
        position += 1
    else:
        length, position = read_varint32(data, position)
        raw = 2 * length if length >= 0 else 1
    if raw & 1:
        key = -1
    else:
        key = position
        position += raw >> 1
    key_end = position
    raw = data[position]
    if raw < 0x80:
        position += 1
    elif data[position + 1] < 0x80:
        raw += (data[position + 1] << 7) - 0x80
        position += 2
    else:
        length, position = read_varint32(data, position)
        raw = 2 * length if length >= 0 else 1
    if raw & 1:
        value = -1
    else:
        value = position
        position += raw >> 1
    if position == end - 1 and not data[position]:
        return timestamp_delta, offset_delta, key, key_end, value, position, 0, end, end
    value_end = position
    count, position = read_varint32(data, position)
    if headers_at_once < count <= end - position:
        raise TooMuchAtOnce
    if end != skip_headers(data, position, count, end):
        raise ValueError("the parts of a record do not end where it ends")
    return timestamp_delta, offset_delta, key, key_end, value, value_end, count, position, end


def skip_headers(data: bytes | bytearray, position: int, count: int, end: int) -> int:
    """Return where the `count` headers at `position` end. ValueError when they go beyond `end`, or one has no key."""
    if not 0 <= count <= end - position:
        raise ValueError(f"{count} headers")
    for _ in range(count):
        length, position = read_varint32(data, position)
        if length < 0:
            raise ValueError("a header without a key")
        length, position = read_varint32(data, position + length)
        position += max(length, 0)
        if position > end:
            raise ValueError("a header longer than its record")
    return position


def headers_at(data: bytes | bytearray, position: int, count: int) -> list[tuple[bytes, bytes | None]]:
    """Return the `count` headers at `position` of a record that `record_at` has walked; their keys are bytes that should be UTF-8."""
    headers: list[tuple[bytes, bytes | None]] = []
    for _ in range(count):
        length, position = read_varint32(data, position)
        name = bytes(data[position : position + length])
        length, position = read_varint32(data, position + length)
        headers.append((name, None if length < 0 else bytes(data[position : position + length])))
        position += max(length, 0)
    return headers


def find_starts(data: bytes | bytearray | memoryview, position: int, end: int, count: int, starts: Starts) -> None:
    """Add to `starts` where each of the `count` records in `data[position:end]` begins. ValueError when their lengths say otherwise."""
    expected, signs = len(starts) + count, 0
    try:
        while position < end:
            starts.append(position)
            raw = data[position]
            if raw > 0x7F:
                more = data[position + 1]
                if more < 0x80:
                    raw += (more << 7) - 0x80
                    position += 1
                else:
                    length, position = read_varint32(data, position)
                    raw = 2 * length if length >= 0 else 1
                    position -= 1
            position += (raw >> 1) + 1
            signs |= raw
    except IndexError:
        position = -1
    if position != end or len(starts) != expected or signs & 1:
        raise ValueError(f"{len(starts) - expected:+d} records of {count}, or not as long as they say")
