"""Between which offsets each date's records are, and those on no date, found where records are read: what a backfill plans by."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any, Final

import pyarrow as pa  # type: ignore[import-untyped]
from pyspark import Accumulator
from pyspark.sql.types import DateType, IntegerType, LongType, StructField, StructType

from spark_jobs.batch.tally import Tallies, Tally, add_tally
from spark_jobs.batch.window import day_number
from spark_jobs.task_reading.run_columns import find_dates, to_dates

RANGES_TYPE: Final = StructType(
    [
        StructField("partition", IntegerType()),
        StructField("date", DateType()),
        StructField("first", LongType()),
        StructField("last", LongType()),
    ]
)
"""The first and last offset of a date's records, or of those on no date, in a partition, as far as one task has read it."""
_ARROW: Final = pa.schema(
    [("partition", pa.int32()), ("date", pa.date32()), ("first", pa.int64()), ("last", pa.int64())]
)


@dataclass(frozen=True, slots=True)
class FindDateRanges:
    """Makes rows of RANGES_TYPE of the source's batches (partition, offset, TIMESTAMP_MS, RANGE_COLUMNS), and counts what it has read."""

    zone: str
    first_day: int
    last_day: int
    tallies: Accumulator[Tallies]

    @classmethod
    def between(cls, zone: str, days: Sequence[date], tallies: Accumulator[Tallies]) -> FindDateRanges:
        """Of the dates from the first to the last of `days`."""
        return cls(zone, day_number(min(days)), day_number(max(days)), tallies)

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        tally, found = Tally(), [_ARROW.empty_table()]
        for given in batches:
            found.append(self._find_ranges(tally.add_read(given)))
        yield from _join_ranges(pa.concat_tables(found)).to_batches()
        add_tally(self.tallies, tally)

    def _find_ranges(self, batch: pa.RecordBatch) -> pa.Table:
        days, dated = find_dates(batch, self.zone)
        wanted = ~dated | ((days >= self.first_day) & (days <= self.last_day))
        dates, offsets = to_dates(days, dated), batch.column("offset")
        columns = [batch.column("partition"), dates, offsets, offsets]
        return _join_ranges(pa.table(columns, _ARROW).filter(pa.array(wanted)))


def _join_ranges(ranges: pa.Table) -> Any:
    """Return one range for each partition and date."""
    joined = ranges.group_by(["partition", "date"], use_threads=False).aggregate([("first", "min"), ("last", "max")])
    return joined.select(["partition", "date", "first_min", "last_max"]).rename_columns(RANGES_TYPE.names)
