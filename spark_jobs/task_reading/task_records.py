"""Records that are read and used in the same Python worker, so that only what comes of them goes to the JVM.

Rows of the data source cross twice more when a function in Python (`mapInArrow`) takes them: to the JVM, from there back to Python, and at
last to the JVM again. That took more than half of a night's processor time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeAlias

import pyarrow as pa  # type: ignore[import-untyped]
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructField, StructType

from spark_jobs.options import SourceOptions, batch_options
from spark_jobs.reader import RangePartition, read_partition
from spark_jobs.rows import declared_schema
from spark_jobs.tasks import Task

Batches: TypeAlias = Iterable[pa.RecordBatch]


class Step(Protocol):
    """What makes one record batch of another; may be kept for a task, and is sent to executors."""

    def __call__(self, batch: pa.RecordBatch, /) -> pa.RecordBatch: ...


@dataclass(frozen=True, slots=True)
class TaskRecords:
    """The records that `tasks` read, after `steps`, each of which adds its `fields`. Has what jobs use of a DataFrame."""

    sparkSession: SparkSession
    options: Mapping[str, str]
    """Of the data source; they name no tasks."""
    tasks: tuple[Task, ...]
    columns: tuple[str, ...]
    steps: tuple[Step, ...] = ()
    added: tuple[StructField, ...] = ()

    @property
    def schema(self) -> StructType:
        return StructType([*declared_schema(self.columns).fields, *self.added])

    def through(self, step: Step, fields: Sequence[StructField] = ()) -> TaskRecords:
        """Return these records with one step more."""
        return replace(self, steps=(*self.steps, step), added=(*self.added, *fields))

    def mapInArrow(self, func: Callable[[Batches], Iterator[pa.RecordBatch]], schema: StructType) -> DataFrame:
        """Return what `func` makes of the record batches of each task, which is one of Spark's too. OptionError."""
        if not self.tasks:
            return self.sparkSession.createDataFrame([], schema)
        count = len(self.tasks)
        read = _ReadTasks(self.tasks, batch_options(self.options), self.columns, self.steps, func)
        return self.sparkSession.range(0, count, 1, count).mapInArrow(read, schema)


@dataclass(frozen=True, slots=True)
class _ReadTasks:
    """What executors run: a row of the table that Spark has is the number of a task."""

    tasks: tuple[Task, ...]
    options: SourceOptions
    columns: tuple[str, ...]
    steps: tuple[Step, ...]
    func: Callable[[Batches], Iterator[pa.RecordBatch]]

    def __call__(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        numbers = (number for batch in batches for number in batch.column(0).to_pylist())
        yield from self.func(self._read(numbers))

    def _read(self, numbers: Iterable[int]) -> Iterator[Any]:
        schema = declared_schema(self.columns)
        for number in numbers:
            for batch in read_partition(RangePartition(self.tasks[number]), self.options, schema):
                for step in self.steps:
                    batch = step(batch)
                yield batch
