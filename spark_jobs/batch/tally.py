"""What the tasks of a query count, and the comparison of it with the plan before anything is published.

From log to output each step says how many records it had, so that a loss anywhere in between is noticed:

1. The reader ends each range of offsets with a row that says where it began, where it ended and how many records it gave
   (`spark_jobs.rows.RANGE_COLUMNS`). A range that could not be read to its end is an error of the task. Offsets without a record are
   the log's own: compacted records, control records, aborted transactions.
2. The jobs' first stage in Python counts the records and these rows as they come: `check_read` compares ranges with the plan, and
   records with what the reader gave.
3. It counts what is to be written by date, run and partition, apart for records and dead letters: `publication.check_unit` compares
   it with the rows in the files that Spark left.

Spark may run a task again, and a query may use the same records twice. Then the same is counted again, so the driver keeps the counts
by the ranges that a task has read, and by the task's number where it has read none.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute  # type: ignore[import-untyped]
from pyspark import Accumulator, AccumulatorParam, SparkContext, TaskContext

from spark_jobs.batch.failures import MissingRecordsError
from spark_jobs.batch.plan import Ranges
from spark_jobs.observation.record_facts import RecordFacts
from spark_jobs.rows import RANGE_END, RANGE_RECORDS


@dataclass(slots=True)
class Tally:
    """Counts of a task, or of all together; by the topic's partition, `rows` by what the job calls them."""

    offsets: Counter[int] = field(default_factory=Counter)
    """Of the ranges that were read to their ends."""
    given: Counter[int] = field(default_factory=Counter)
    """Records that the reader gave."""
    read: Counter[int] = field(default_factory=Counter)
    """Records that came to the job."""
    rows: Counter[Any] = field(default_factory=Counter)
    ranges: list[tuple[int, int]] = field(default_factory=list)
    """Partition and first offset of each range."""
    facts: RecordFacts = field(default_factory=RecordFacts)
    """For the ledger; nothing is compared with them."""

    def add_read(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Count a batch of the source; return it without the rows that end ranges and without their columns."""
        ends = batch.column(RANGE_END)
        if ends.null_count < len(ends):
            is_end = ends.is_valid()
            for row in batch.filter(is_end).select(["partition", "offset", RANGE_END, RANGE_RECORDS]).to_pylist():
                self.ranges.append((row["partition"], row["offset"]))
                self.offsets[row["partition"]] += row[RANGE_END] - row["offset"]
                self.given[row["partition"]] += row[RANGE_RECORDS]
            batch = batch.filter(pa.compute.invert(is_end))
        for each in batch.column("partition").value_counts().to_pylist():
            self.read[each["values"]] += each["counts"]
        return batch.select([name for name in batch.schema.names if name not in (RANGE_END, RANGE_RECORDS)])


Tallies = dict[tuple[tuple[int, int], ...] | int, Tally]
"""By the ranges that were read, or the number of the task."""


class _TallyParam(AccumulatorParam[Tallies]):
    def zero(self, value: Tallies) -> Tallies:
        return {}

    def addInPlace(self, value1: Tallies, value2: Tallies) -> Tallies:
        return {**value1, **value2}


def new_tallies(context: SparkContext) -> Accumulator[Tallies]:
    """Return what the tasks of one stage add their counts to."""
    return context.accumulator({}, _TallyParam())


def add_tally(tallies: Accumulator[Tallies], tally: Tally) -> None:
    """Add the counts of a task that has had all of its rows."""
    context = TaskContext.get()
    number = 0 if context is None else context.partitionId()
    tallies.add({tuple(tally.ranges) or number: tally})


def total(tallies: Iterable[Tally]) -> Tally:
    """Return the counts of all tasks together."""
    found = Tally()
    for each in tallies:
        found.offsets.update(each.offsets)
        found.given.update(each.given)
        found.read.update(each.read)
        found.rows.update(each.rows)
        found.facts.update(each.facts)
    return found


def check_read(topic: str, planned: Ranges, found: Tally) -> None:
    """Raise MissingRecordsError, which names the partition, unless all that was planned was read, and all that was read came to the job."""
    for partition in sorted({*planned, *found.offsets, *found.read}):
        start, end = planned.get(partition, (0, 0))
        where = f"{topic}-{partition}, offsets {start} to {end - 1}"
        if found.offsets[partition] != end - start:
            raise MissingRecordsError(
                f"{where}: {end - start} offsets were planned, {found.offsets[partition]} were read"
            )
        if found.given[partition] != found.read[partition]:
            raise MissingRecordsError(
                f"{where}: the log gave {found.given[partition]} records, {found.read[partition]} came to the job"
            )
