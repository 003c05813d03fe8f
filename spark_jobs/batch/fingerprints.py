"""Fingerprints of sets of records that do not depend on their order.

Each record, with its place and its time, is hashed with murmur3 (128 bits); of a set the four 32-bit lanes of all hashes are summed up.
Sums do not depend on order, and unlike exclusive-or they notice a record that is there twice. Two sets with equal counts and sums are
equal, but for a chance that nobody lives to see; it is no protection against somebody who forges records.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

import mmh3
import numpy
import pyarrow as pa  # type: ignore[import-untyped]

LANES: Final = ("lane_0", "lane_1", "lane_2", "lane_3")
COLUMNS: Final = ("partition", "offset", "timestamp_ms", "key", "value", "headers")
"""What is hashed of a record."""

_PLACE = struct.Struct("<iqq")
_LENGTH = struct.Struct("<i")
_NULL = _LENGTH.pack(-1)


def record_hash(
    partition: int, offset: int, timestamp_ms: int, key: bytes | None, value: bytes | None, headers: Any
) -> bytes:
    """Return sixteen bytes; `headers` are mappings with key and value, or None. Absent and empty differ everywhere but in the headers."""
    parts = [_PLACE.pack(partition, offset, timestamp_ms)]
    _add(parts, key)
    _add(parts, value)
    for header in headers or ():
        _add(parts, header["key"].encode())
        _add(parts, header["value"])
    return mmh3.mmh3_x64_128_digest(b"".join(parts))


def _add(parts: list[bytes], field: bytes | None) -> None:
    """Append a field behind its length, so that what belongs to which field is clear."""
    if field is None:
        parts.append(_NULL)
    else:
        parts.append(_LENGTH.pack(len(field)))
        parts.append(field)


def hashed_batches(batches: Iterable[pa.RecordBatch], kept: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Yield the columns `kept` of each batch, and the lanes of each record's hash."""
    for batch in batches:
        columns = [batch.column(name).to_pylist() for name in COLUMNS]
        hashes = b"".join(map(record_hash, *columns))
        lanes = numpy.frombuffer(hashes, "<u4").reshape(-1, len(LANES)).astype(numpy.int64)
        arrays = [batch.column(name) for name in kept]
        arrays += [pa.array(lanes[:, number]) for number in range(len(LANES))]
        yield pa.record_batch(arrays, names=[*kept, *LANES])


def fingerprint(lane_sums: Sequence[int]) -> str:
    """Return the sums of the lanes of a set as 32 hexadecimal digits; sums may be of any size."""
    return "".join(f"{lane_sum % (1 << 32):08x}" for lane_sum in lane_sums)
