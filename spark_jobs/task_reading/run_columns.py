"""The columns `date` and `run` of records, where they are read.

`date` is that of the timestamp, of an undated record that of its run; `run` is the date of the run that takes the record: its own date's,
or the one that takes late or undated ones along; null for none.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any, Final

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
from pyspark.sql.types import DateType, StructField

from spark_jobs.batch.plan import LateDates, RunPlan, Spans
from spark_jobs.batch.window import day_number
from spark_jobs.rows import FIRST_TIMESTAMP_MS, LAST_TIMESTAMP_MS, RANGE_END, TIMESTAMP_MS
from spark_jobs.task_reading.local_dates import local_dates

NO_TIMESTAMP: Final = -1
"""What a record without a time has, as in Kafka's RecordBatch.NO_TIMESTAMP."""
DATE, RUN = "date", "run"
RUN_FIELDS: Final = (StructField(DATE, DateType()), StructField(RUN, DateType()))
_NOWHERE: Final = (1 << 63) - 1


def to_dates(days: Any, present: Any) -> pa.Array:
    """Return an array of dates from numbers of days, null where not `present`."""
    mask = None if present.all() else ~present
    return pa.array(days, pa.int32(), mask=mask).view(pa.date32())


def take_until(batch: pa.RecordBatch, zone: str, last_day: int) -> pa.RecordBatch:
    """Return the records on a date to `last_day`, and those whose time is on none. One without a time is on the date of its number, -1."""
    times_ms = batch.column(TIMESTAMP_MS).to_numpy()
    dated = (times_ms >= FIRST_TIMESTAMP_MS) & (times_ms <= LAST_TIMESTAMP_MS)
    wanted = ~dated | (local_dates(zone).find_days(np.where(dated, times_ms, NO_TIMESTAMP)) <= last_day)
    return batch if wanted.all() else batch.filter(pa.array(wanted))


def find_dates(batch: pa.RecordBatch, zone: str) -> tuple[Any, Any]:
    """Return the day numbers of the records' timestamps, and which records have a date at all (numpy)."""
    dates, column = local_dates(zone), batch.column(TIMESTAMP_MS)
    times_ms = (column.fill_null(NO_TIMESTAMP) if column.null_count else column).to_numpy()
    dated = (times_ms != NO_TIMESTAMP) & (times_ms >= FIRST_TIMESTAMP_MS) & (times_ms <= LAST_TIMESTAMP_MS)
    if dated.all():
        return dates.find_days(times_ms), dated
    days = np.zeros(len(times_ms), np.int32)
    days[dated] = dates.find_days(times_ms[dated])
    return days, dated


def offsets_of(partitions: Any, offsets: Mapping[int, int], otherwise: int) -> Any:
    """Return for each partition of an array its offset in the mapping (numpy, int64)."""
    if len(partitions) and partitions.min() == partitions.max():
        return np.full(len(partitions), offsets.get(int(partitions[0]), otherwise), np.int64)
    return np.array([offsets.get(each, otherwise) for each in partitions.tolist()], np.int64)


@dataclass(frozen=True, slots=True)
class RunColumns:
    """Adds `date` and `run` to batches of the source that have TIMESTAMP_MS and RANGE_END, for plans of one topic, made together."""

    zone: str
    dates: tuple[date, ...]
    along: tuple[tuple[date, tuple[LateDates, ...], Spans], ...]
    """Runs, and what they take besides the records of their own date."""

    @classmethod
    def of_plans(cls, zone: str, plans: Sequence[RunPlan]) -> RunColumns:
        along = tuple((each.date, each.late, each.undated) for each in plans if each.late or each.undated)
        return cls(zone, tuple(each.date for each in plans), along)

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        days, dated = find_dates(batch, self.zone)
        taken = dated & np.isin(days, [day_number(each) for each in self.dates])
        runs = np.where(taken, days, 0)
        if self.along and not taken.all():
            for run, found in self._find_others(batch, days, dated):
                more = found & ~taken
                runs[more] = day_number(run)
                taken |= more
        shown = np.where(dated, days, runs)
        arrays = [*batch.columns, to_dates(shown, dated | taken), to_dates(runs, taken)]
        return pa.record_batch(arrays, names=[*batch.schema.names, DATE, RUN])

    def _find_others(self, batch: pa.RecordBatch, days: Any, dated: Any) -> Iterator[tuple[date, Any]]:
        """Yield each run, and which records it would take besides those of its date."""
        offsets, partitions = (_numbers(batch.column(name)) for name in ("offset", "partition"))
        is_record = batch.column(RANGE_END).is_null().to_numpy(zero_copy_only=False)
        for run, late, undated in self.along:
            for group in late:
                within = (days >= day_number(group.first)) & (days <= day_number(group.last))
                yield run, dated & within & (offsets >= offsets_of(partitions, group.start, _NOWHERE))
            for partition, spans in undated.items():
                here = ~dated & is_record & (partitions == partition)
                for start, end in spans:
                    yield run, here & (offsets >= start) & (offsets < end)


def _numbers(column: pa.Array) -> Any:
    return (column.fill_null(-1) if column.null_count else column).to_numpy()
