"""What an audit needs of records, where these are read: the log's, and in the same way the archive's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any, Final

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]

from spark_jobs.batch.plan import Offsets, same_frontiers
from spark_jobs.batch.window import day_number
from spark_jobs.rows import TIMESTAMP_MS
from spark_jobs.task_reading.run_columns import find_dates, offsets_of, to_dates

_HOUR_MS: Final = 3_600_000
_KEPT: Final = ("partition", "offset", "key", "value", "headers")


@dataclass(frozen=True, slots=True)
class AuditColumns:
    """Keeps the records of some days, with `covered`, `date`, `hour_ms` and `timestamp_ms`. Serves the log's records and the archive's.

    A record of the log is covered when a finished run of its date had to archive it: it lies before the run's `frontiers`, by groups of
    dates. What is archived is covered, wherever it lies; then there are none.
    """

    zone: str
    days: Any
    """Numbers of days since 1970-01-01 (numpy)."""
    frontiers: tuple[tuple[Any, Mapping[int, int]], ...] | None

    @classmethod
    def of_runs(cls, zone: str, days: Sequence[date], known: Mapping[date, Offsets]) -> AuditColumns:
        """`known` are the ends of the finished runs."""
        groups = same_frontiers({day: known[day] for day in days if day in known})
        return cls(zone, _day_numbers(days), tuple((_day_numbers(found), offsets) for found, offsets in groups))

    @classmethod
    def of_archive(cls, zone: str, days: Sequence[date]) -> AuditColumns:
        return cls(zone, _day_numbers(days), None)

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        days, dated = find_dates(batch, self.zone)
        wanted = dated & np.isin(days, self.days)
        if not wanted.all():
            batch, days = batch.filter(pa.array(wanted)), days[wanted]
        times_ms = batch.column(TIMESTAMP_MS).to_numpy()
        hours = times_ms - np.mod(times_ms, _HOUR_MS)
        dates = to_dates(days, np.ones(len(days), np.bool_))
        arrays = [pa.array(self._find_covered(batch, days)), dates, pa.array(hours), pa.array(times_ms)]
        names = ["covered", "date", "hour_ms", "timestamp_ms", *_KEPT]
        return pa.record_batch([*arrays, *(batch.column(name) for name in _KEPT)], names=names)

    def _find_covered(self, batch: pa.RecordBatch, days: Any) -> Any:
        if self.frontiers is None:
            return np.ones(len(days), np.bool_)
        offsets, partitions = batch.column("offset").to_numpy(), batch.column("partition").to_numpy()
        covered = np.zeros(len(days), np.bool_)
        for group, frontier in self.frontiers:
            covered |= np.isin(days, group) & (offsets < offsets_of(partitions, frontier, 0))
        return covered


def _day_numbers(days: Sequence[date]) -> Any:
    return np.array([day_number(each) for each in days], np.int32)
