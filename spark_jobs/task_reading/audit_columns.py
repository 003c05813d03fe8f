"""What an audit needs of the log's records, where these are read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Final

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]

from spark_jobs.batch.plan import Offsets, same_frontiers
from spark_jobs.rows import TIMESTAMP_MS
from spark_jobs.task_reading.run_columns import day_number, find_dates, offsets_of, to_dates

_HOUR_MS: Final = 3_600_000
_KEPT: Final = ("partition", "offset", "key", "value", "headers")


@dataclass(frozen=True, slots=True)
class AuditColumns:
    """Keeps the records of `days`, with `covered`, `date`, `hour_ms` and `timestamp_ms`.

    A record is covered when a finished run of its date had to archive it: it lies before the run's `frontiers`, by groups of dates.
    """

    zone: str
    days: tuple[date, ...]
    frontiers: tuple[tuple[tuple[date, ...], Mapping[int, int]], ...]

    @classmethod
    def of_runs(cls, zone: str, days: Sequence[date], known: Mapping[date, Offsets]) -> AuditColumns:
        """`known` are the ends of the finished runs."""
        groups = same_frontiers({day: known[day] for day in days if day in known})
        return cls(zone, tuple(days), tuple((tuple(found), offsets) for found, offsets in groups))

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        days, dated = find_dates(batch, self.zone)
        wanted = dated & np.isin(days, [day_number(each) for each in self.days])
        if not wanted.all():
            batch, days = batch.filter(pa.array(wanted)), days[wanted]
        offsets, partitions = batch.column("offset").to_numpy(), batch.column("partition").to_numpy()
        covered = np.zeros(len(days), np.bool_)
        for group, frontier in self.frontiers:
            here = np.isin(days, [day_number(each) for each in group])
            covered |= here & (offsets < offsets_of(partitions, frontier, 0))
        times_ms = batch.column(TIMESTAMP_MS).to_numpy()
        hours = times_ms - np.mod(times_ms, _HOUR_MS)
        arrays = [pa.array(covered), to_dates(days, np.ones(len(days), np.bool_)), pa.array(hours), pa.array(times_ms)]
        names = ["covered", "date", "hour_ms", "timestamp_ms", *_KEPT]
        return pa.record_batch([*arrays, *(batch.column(name) for name in _KEPT)], names=names)
