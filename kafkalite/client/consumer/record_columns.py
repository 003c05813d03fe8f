"""Records of many batches, decoded together into Arrow columns.

Compiled code finds the places of all parts of the records (`kafkalite.protocol.record_batches.record_code`). Without it a pass in Python
finds where each record begins, which only its predecessor's length tells, and numpy the rest for all records at once, as it does with
headers in both cases: a varint of each of n records is n bytes gathered, and one more gathering for those that go on.

Keys and values are not copied one by one: their places become the offsets of one binary array over the batches' own bytes, key, gap,
value, gap, …, from which Arrow takes every second piece. Tests hold both ways to the rules of `record_walk`.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy
import pyarrow  # type: ignore[import-untyped]

from kafkalite.client.record_codec import UNREADABLE, BatchRecords
from kafkalite.protocol.record_batches.record_code import IS_COMPILED, find_places, find_starts, readable
from kafkalite.protocol.record_batches.varint import read_varint32

if TYPE_CHECKING:
    Integers = numpy.ndarray[Any, numpy.dtype[numpy.int64]]

_HEADER: Final = pyarrow.struct([("key", pyarrow.string()), ("value", pyarrow.binary())])
FIELDS: Final[Mapping[str, Any]] = {
    "key": pyarrow.binary(),
    "value": pyarrow.binary(),
    "partition": pyarrow.int32(),
    "offset": pyarrow.int64(),
    "timestamp": pyarrow.timestamp("ms", tz="UTC"),
    "timestamp_type": pyarrow.int32(),
    "headers": pyarrow.list_(_HEADER),
}
"""The columns in order, with their Arrow types."""

_INT_SHIFT, _LONG_SHIFT = 28, 63
"""Where the last group of seven bits of a number of 32 or 64 bits begins."""
_PLACES = 9
"""Columns of `record_code.Places`."""

_HEADERS_TOGETHER = 32
"""A record's headers behind these are found one by one: it may have half a million, and then none of the others has as many."""


def schema_of(columns: Collection[str]) -> Any:
    """Return the schema of record batches with these of FIELDS, in FIELDS' order. ValueError for a column that there is not."""
    unknown = set(columns) - set(FIELDS)
    if unknown:
        raise ValueError(f"no column {', '.join(sorted(unknown))}; there are {', '.join(FIELDS)}")
    return pyarrow.schema([(name, kind) for name, kind in FIELDS.items() if name in columns])


def record_batch(batches: Sequence[BatchRecords], start: int, end: int, schema: Any) -> Any:
    """Return the records with offsets from `start` to before `end` as one `pyarrow.RecordBatch`.

    ClientError CORRUPT_MESSAGE and others as `BatchRecords.named`, for the first batch that cannot be read.
    """
    try:
        records = _Records(batches, start, end)
        return pyarrow.RecordBatch.from_arrays([_COLUMNS[name](records) for name in schema.names], schema=schema)
    except UNREADABLE as problem:
        if len(batches) > 1:
            for batch in batches:  # one of them raises an error that names it
                record_batch([batch], start, end, schema)
        with batches[0].naming_errors():
            raise problem


class _Records:
    """The records' places in `data`; arrays have one element for each record."""

    def __init__(self, batches: Sequence[BatchRecords], start: int, end: int) -> None:
        self.data, spans = _join_batches(batches)
        self.octets = numpy.frombuffer(self.data, numpy.uint8)
        find = _find_places if IS_COMPILED else _walk_in_columns
        offsets, *others = find(self.data, batches, spans)
        wanted: Any = slice(None)
        if len(offsets) and (offsets.min() < start or offsets.max() >= end):
            if (offsets[1:] >= offsets[:-1]).all():
                wanted = slice(*numpy.searchsorted(offsets, (start, end)))
            else:  # Apache Kafka stores any offset deltas
                wanted = (offsets >= start) & (offsets < end)
        self.offsets = offsets[wanted]
        self._wanted, self._batches = wanted, batches
        self.partition = batches[0].topic_partition.partition
        parts = (each[wanted] for each in others)
        self.timestamps, self.key_starts, self.key_ends, self.value_starts, self.value_ends, *headers = parts
        self.header_counts, self.header_starts, self.ends = headers

    def __len__(self) -> int:
        return len(self.offsets)

    @property
    def timestamp_types(self) -> Integers:
        types = [1 if each.header.uses_log_append_time else 0 for each in self._batches]
        spread: Integers = numpy.repeat(types, [each.header.records_count for each in self._batches])[self._wanted]
        return spread

    def pieces(self, starts: Integers, ends: Integers, present: Any, kind: Any) -> Any:
        """Return a binary or string array of data[start:end], null where not `present`; starts are in order, no piece overlaps another."""
        bounds = numpy.empty(2 * len(starts), numpy.int32)
        bounds[0::2], bounds[1::2] = numpy.where(present, starts, ends), ends
        buffers = [None, pyarrow.py_buffer(bounds), pyarrow.py_buffer(self.data)]
        everything = pyarrow.Array.from_buffers(kind, max(len(bounds) - 1, 0), buffers)
        indices = numpy.arange(0, len(bounds), 2, dtype=numpy.int64)
        return everything.take(pyarrow.array(indices, mask=None if present.all() else ~present))


def _join_batches(batches: Sequence[BatchRecords]) -> tuple[Any, list[tuple[int, int]]]:
    """Return one buffer with the plain records of all batches, and where each batch's begin and end in it; copies only what it must."""
    first = batches[0]
    if all(batch.data is first.data and not batch.header.codec for batch in batches):
        return first.data, [batch.span for batch in batches]
    bodies = [batch.plain_body() for batch in batches]
    spans, position = [], 0
    for body in bodies:
        spans.append((position, position + len(body)))
        position += len(body)
    return b"".join(bodies), spans


def _find_places(data: Any, batches: Sequence[BatchRecords], spans: Sequence[tuple[int, int]]) -> tuple[Integers, ...]:
    """Return what `record_code.find_places` finds, for the records of all batches. ValueError where their counts or ends say otherwise."""
    columns = [array("q") for _ in range(_PLACES)]
    octets = readable(data)
    for batch, (position, end) in zip(batches, spans, strict=True):
        header = batch.header
        if not header.records_count and position == end:
            continue
        following, places = find_places(
            octets, position, end, header.records_count, header.base_offset, header.base_timestamp
        )
        if following != end or len(places[0]) != header.records_count:
            raise ValueError(f"{len(places[0])} records of {header.records_count}, up to position {following} of {end}")
        offsets, timestamps, *others = places
        if header.uses_log_append_time:
            timestamps = array("q", [header.max_timestamp]) * len(offsets)
        for column, more in zip(columns, (offsets, timestamps, *others), strict=True):
            column += more
    return tuple(numpy.frombuffer(each, numpy.int64) for each in columns)


def _walk_in_columns(
    data: Any, batches: Sequence[BatchRecords], spans: Sequence[tuple[int, int]]
) -> tuple[Integers, ...]:
    """Return what `_find_places` finds, by numpy; what is malformed in headers is found when these are read."""
    starts = array("q")
    for batch, (position, end) in zip(batches, spans, strict=True):
        starts += find_starts(readable(data), position, end, batch.header.records_count)
    octets = numpy.frombuffer(data, numpy.uint8)
    sizes, bodies = _varints(octets, numpy.frombuffer(starts, numpy.int64))
    ends = bodies + sizes
    deltas, at = _varints(octets, bodies + 1, _LONG_SHIFT)  # behind the attributes
    offset_deltas, at = _varints(octets, at)
    key_sizes, key_starts, key_ends = _parts(octets, at, ends)
    value_sizes, value_starts, value_ends = _parts(octets, key_ends, ends)
    header_counts, header_starts = _varints(octets, value_ends)
    if (header_counts < 0).any() or ((header_counts == 0) & (header_starts != ends)).any():
        raise ValueError("a record does not end where its length says")

    def spread(facts: Iterable[int]) -> Integers:
        """A fact of each batch, for all of its records."""
        found: Integers = numpy.repeat(
            numpy.array([*facts], numpy.int64), [each.header.records_count for each in batches]
        )
        return found

    timestamps = spread(each.header.base_timestamp for each in batches) + deltas
    if any(each.header.uses_log_append_time for each in batches):
        by_broker = spread(each.header.uses_log_append_time for each in batches) != 0
        timestamps = numpy.where(by_broker, spread(each.header.max_timestamp for each in batches), timestamps)
    return (
        spread(each.header.base_offset for each in batches) + offset_deltas,
        timestamps,
        numpy.where(key_sizes < 0, -1, key_starts),
        key_ends,
        numpy.where(value_sizes < 0, -1, value_starts),
        value_ends,
        header_counts,
        header_starts,
        ends,
    )


def _varints(octets: Any, at: Integers, last_shift: int = _INT_SHIFT) -> tuple[Integers, Integers]:
    """Return the zig-zag varints at these positions, and the positions behind them. IndexError, ValueError for what is none."""
    octet = octets[at]
    numbers = (octet & 0x7F).astype(numpy.int64)
    at = at + 1
    going_on = numpy.flatnonzero(octet & 0x80)
    shift = 7
    while going_on.size:
        if shift > last_shift:
            raise ValueError(f"a varint of more than {last_shift // 7 + 1} bytes")
        octet = octets[at[going_on]]
        numbers[going_on] |= (octet & 0x7F).astype(numpy.int64) << shift
        at[going_on] += 1
        going_on = going_on[octet >= 0x80]
        shift += 7
    # The shift to the right must not bring in the sign of a number of 64 bits.
    return (numbers.view(numpy.uint64) >> numpy.uint64(1)).view(numpy.int64) ^ -(numbers & 1), at


def _parts(octets: Any, at: Integers, ends: Integers) -> tuple[Integers, Integers, Integers]:
    """Return keys or values, each a varint and so many bytes: sizes (-1 is null), starts, ends. None of them goes beyond its record."""
    sizes, starts = _varints(octets, at)
    if (sizes > ends - starts).any():
        raise ValueError("a record is longer than its length")
    return sizes, starts, starts + numpy.maximum(sizes, 0)


def _headers(records: _Records) -> Any:
    """Return lists of structs; an empty list for a record without headers. Goes from the first headers of all records to their second, …"""
    counts = records.header_counts
    bounds = numpy.zeros(len(counts) + 1, numpy.int32)
    numpy.cumsum(counts, out=bounds[1:])
    owners: list[Integers] = []
    places: list[tuple[Integers, ...]] = []
    left = numpy.flatnonzero(counts)
    at, ends, number = records.header_starts[left], records.ends[left], 0
    while left.size and number < _HEADERS_TOGETHER:
        key_sizes, key_starts, key_ends = _parts(records.octets, at, ends)
        value_sizes, value_starts, value_ends = _parts(records.octets, key_ends, ends)
        if (key_sizes < 0).any():
            raise ValueError("a header without a key")
        owners.append(left)
        places.append((key_starts, key_ends, value_starts, value_ends, value_sizes))
        number += 1
        still = counts[left] > number
        left, at, ends = left[still], value_ends[still], ends[still]
    for owner, position, end in zip(left.tolist(), at.tolist(), ends.tolist(), strict=True):
        found = _one_by_one(records.data, position, int(counts[owner]) - number, end)
        owners.append(numpy.full(len(found[0]), owner))
        places.append(found)
    if not owners:
        none = pyarrow.array([], _HEADER)
        return pyarrow.ListArray.from_arrays(pyarrow.array(bounds), none, type=FIELDS["headers"])
    order = numpy.argsort(numpy.concatenate(owners), kind="stable")
    key_starts, key_ends, value_starts, value_ends, value_sizes = (
        numpy.concatenate(each)[order] for each in zip(*places, strict=True)
    )
    keys = records.pieces(key_starts, key_ends, key_starts >= 0, pyarrow.string())
    values = records.pieces(value_starts, value_ends, value_sizes >= 0, pyarrow.binary())
    try:
        keys.validate(full=True)
    except ValueError:  # ArrowInvalid: names that are not UTF-8, which are read as `records.iter_records` does
        names = records.pieces(key_starts, key_ends, key_starts >= 0, pyarrow.binary()).to_pylist()
        keys = pyarrow.array([name.decode(errors="replace") for name in names], pyarrow.string())
    structs = pyarrow.StructArray.from_arrays([keys, values], fields=list(_HEADER))
    return pyarrow.ListArray.from_arrays(pyarrow.array(bounds), structs, type=FIELDS["headers"])


def _one_by_one(data: Any, position: int, count: int, end: int) -> tuple[Integers, ...]:
    """Return the `count` headers at `position` of a record that ends at `end`, as `_headers` finds the first headers of all records."""
    if count > end - position:
        raise ValueError(f"{count} headers in {end - position} bytes")
    found = array("q"), array("q"), array("q"), array("q"), array("q")
    key_starts, key_ends, value_starts, value_ends, value_sizes = found
    for _ in range(count):
        size, position = read_varint32(data, position)
        if not 0 <= size <= end - position:
            raise ValueError("a header without a key, or longer than its record")
        key_starts.append(position)
        key_ends.append(position + size)
        size, position = read_varint32(data, position + size)
        if size > end - position:
            raise ValueError("a header longer than its record")
        value_starts.append(position)
        position += max(size, 0)
        value_ends.append(position)
        value_sizes.append(size)
    return tuple(numpy.frombuffer(each, numpy.int64) for each in found)


_COLUMNS: Final[Mapping[str, Callable[[_Records], Any]]] = {
    "key": lambda r: r.pieces(r.key_starts, r.key_ends, r.key_starts >= 0, FIELDS["key"]),
    "value": lambda r: r.pieces(r.value_starts, r.value_ends, r.value_starts >= 0, FIELDS["value"]),
    "partition": lambda r: pyarrow.repeat(pyarrow.scalar(r.partition, FIELDS["partition"]), len(r)),
    "offset": lambda r: pyarrow.array(r.offsets, FIELDS["offset"]),
    "timestamp": lambda r: pyarrow.array(r.timestamps).cast(FIELDS["timestamp"]),
    "timestamp_type": lambda r: pyarrow.array(r.timestamp_types.astype(numpy.int32)),
    "headers": _headers,
}
