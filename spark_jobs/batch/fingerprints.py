"""Fingerprints of sets of records that do not depend on their order.

Each record, with its place and its time, is hashed (`client.audit_hashes`); the four 32-bit lanes of all hashes are summed up.
Sums do not depend on order, and unlike exclusive-or they notice a record that is there twice. Two sets with equal counts and sums are
equal, but for a chance that nobody lives to see; it is no protection against somebody who forges records.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import numpy
import pyarrow as pa  # type: ignore[import-untyped]

from kafkalite.client.audit_hashes import hash_audited_records

LANES: Final = ("lane_0", "lane_1", "lane_2", "lane_3")
COLUMNS: Final = ("partition", "offset", "timestamp_ms", "key", "value", "headers")
"""What is hashed of a record."""


def hashed_batches(batches: Iterable[pa.RecordBatch], kept: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Yield the columns `kept` of each batch, and the lanes of each record's hash."""
    for batch in batches:
        hashes = hash_audited_records(*(batch.column(name) for name in COLUMNS))
        lanes = hashes.view("<u4").astype(numpy.int64)
        arrays = [batch.column(name) for name in kept]
        arrays += [pa.array(lanes[:, number]) for number in range(len(LANES))]
        yield pa.record_batch(arrays, names=[*kept, *LANES])


def fingerprint(lane_sums: Sequence[int]) -> str:
    """Return the sums of the lanes of a set as 32 hexadecimal digits; sums may be of any size."""
    return "".join(f"{lane_sum % (1 << 32):08x}" for lane_sum in lane_sums)
