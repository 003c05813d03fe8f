"""Hashes of records in their places, by which an audit compares sets of records. numpy and pyarrow are needed (extra `spark`).

A hash is murmur3 (x64, 128 bits) of partition, offset and timestamp (little endian, 4, 8 and 8 bytes) and of key, value, and each header's
key and value, all behind their lengths (4 bytes, -1 for null). A record without headers and one with an empty list have the same. What
brokers add up to digests of ranges is another hash (`kafkalite.client.hash_record`), which leaves out the partition.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy
import pyarrow  # type: ignore[import-untyped]

from kafkalite.protocol.record_batches.python_records import hash_row
from kafkalite.protocol.record_batches.record_code import hash_rows


def hash_audited_record(
    partition: int,
    offset: int,
    timestamp_ms: int,
    key: bytes | None,
    value: bytes | None,
    headers: Iterable[Mapping[str, Any]] | None,
) -> bytes:
    """Return sixteen bytes; `headers` are mappings with key and value."""
    fields = (field for header in headers or () for field in (header["key"].encode(), header["value"]))
    return hash_row(partition, offset, timestamp_ms, key, value, *fields)


def hash_audited_records(
    partitions: Any, offsets: Any, timestamps_ms: Any, keys: Any, values: Any, headers: Any
) -> Any:
    """Return the hashes of records in columns of Arrow, as a numpy array of bytes, sixteen for each record."""
    count = len(partitions)
    places, times = _numbers(partitions, "<i4"), _numbers(timestamps_ms, "<i8")
    hashes = hash_rows(count, places, _numbers(offsets, "<i8"), times, *_strings(keys), *_strings(values))
    found = numpy.frombuffer(hashes, numpy.uint8).reshape(count, 16)
    lengths = pyarrow.compute.fill_null(pyarrow.compute.list_value_length(headers), 0)
    for row in numpy.flatnonzero(lengths.to_numpy()).tolist():
        record = (column[row].as_py() for column in (partitions, offsets, timestamps_ms, keys, values, headers))
        found[row] = numpy.frombuffer(hash_audited_record(*record), numpy.uint8)
    return found


def _numbers(column: Any, kind: str) -> memoryview:
    return numpy.ascontiguousarray(column.to_numpy(), kind).data


def _strings(column: Any) -> tuple[Any, Any, Any]:
    """Return bounds, data and nulls of a column, as `hash_rows` takes them."""
    if column.type != pyarrow.binary():
        column = column.cast(pyarrow.binary())
    _, bounds, data = column.buffers()
    nulls = numpy.ascontiguousarray(column.is_null().to_numpy(zero_copy_only=False)) if column.null_count else None
    if bounds is None:
        return numpy.zeros(len(column) + 1, "<i4"), b"", nulls
    return memoryview(bounds)[4 * column.offset :], b"" if data is None else data, nulls
