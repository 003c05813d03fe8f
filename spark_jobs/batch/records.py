"""Records as the jobs see them: read from the log, each with its date and run, decoded, cut into pieces of bounded size.

Columns: key, value, partition, offset, timestamp, timestampType and headers as the data source gives them; `date` and `run` (see `plan`);
`decoded_key` and `decoded` where there are decoders; `reason`, why a record is a dead letter; `piece`, the number of its file in its task.
An undated record has the date of its run. What is read and what becomes of it is counted (`tally`).
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any, Final

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
from pyspark import Accumulator
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import IntegerType, StringType, StructField, StructType

from kafkalite import NAME
from spark_jobs.batch.formats import DecodedColumn, DecodedColumns
from spark_jobs.batch.plan import Ranges, RunPlan, read_ranges
from spark_jobs.batch.tally import Tallies, Tally, add_tally, new_tallies, total
from spark_jobs.batch.window import day_number
from spark_jobs.observation.record_facts import LatenessCount
from spark_jobs.ranges import OffsetRange
from spark_jobs.rows import (
    FIRST_TIMESTAMP_MS,
    LAST_TIMESTAMP_MS,
    RANGE_COLUMNS,
    RANGE_END,
    TIMESTAMP_MS,
    declared_schema,
)
from spark_jobs.task_reading.run_columns import DATE, NO_TIMESTAMP, RUN, RUN_FIELDS, RunColumns, take_until
from spark_jobs.task_reading.task_records import TaskRecords
from spark_jobs.tasks import Task, TaskLimits, fill_tasks, ranges_of, tasks_to_json

RECORD_COLUMNS: Final = ("key", "value", "partition", "offset", "timestamp", "timestampType", "headers")
KEY_COLUMN, VALUE_COLUMN = "decoded_key", "decoded"
_REASON, _PIECE = "reason", "piece"


@dataclass(frozen=True, slots=True)
class Reading:
    """How topics are read: the client's settings, the rows and bytes of a task, the bytes of a file, the time zone of dates.

    `tasks_per_portion` is how many tasks are read before what they have done is kept (`portions`); None goes by the cores.
    """

    settings: Mapping[str, str]
    zone: str = "UTC"
    rows_per_task: int = 250_000
    max_file_bytes: int = 128 * 1024 * 1024
    fail_on_data_loss: bool = True
    bytes_per_task: int | None = 128 * 1024 * 1024
    tasks_per_portion: int | None = None


def plan_tasks(
    reading: Reading, topic: str, ranges: Ranges, record_bytes: Mapping[int, int] | None = None
) -> list[Task]:
    """Return the tasks that read `ranges`; `record_bytes` are the average bytes of an offset of each partition, where known."""
    wanted = [OffsetRange(topic, partition, start, end) for partition, (start, end) in sorted(ranges.items())]
    return fill_tasks(wanted, TaskLimits(reading.rows_per_task, reading.bytes_per_task), record_bytes or {})


def tasks_of(reading: Reading, plans: Sequence[RunPlan]) -> list[Task]:
    """Return the tasks that read all that plans of one topic want, the same at every repetition."""
    record_bytes: dict[int, int] = {}
    for plan in plans:
        for partition, average in plan.record_bytes.items():
            record_bytes[partition] = max(average, record_bytes.get(partition, 0))
    return plan_tasks(reading, plans[0].topic, read_ranges(plans), record_bytes)


def read_log(
    spark: SparkSession, reading: Reading, topic: str, tasks: Sequence[Task], columns: Sequence[str]
) -> DataFrame:
    """Return the records that `tasks` read, `columns` of them."""
    schema = declared_schema(columns)
    if not tasks:
        return spark.createDataFrame([], schema)
    options = {**_source_options(reading, topic, tasks), "tasks": tasks_to_json(tasks)}
    return spark.read.format(NAME).options(**options).schema(schema).load()


def read_tasks(
    spark: SparkSession, reading: Reading, topic: str, tasks: Sequence[Task], columns: Sequence[str]
) -> TaskRecords:
    """Return the records that `read_log` does, for a function in Python."""
    return TaskRecords(spark, _source_options(reading, topic, tasks), tuple(tasks), tuple(columns))


def _source_options(reading: Reading, topic: str, tasks: Sequence[Task]) -> dict[str, str]:
    wanted = ranges_of(tasks)
    options = {f"kafka.{name}": value for name, value in reading.settings.items()}
    return options | {
        "kafka.isolation.level": "read_committed",
        "assign": json.dumps({topic: sorted(wanted)}),
        "startingOffsets": json.dumps({topic: {str(p): start for p, (start, _) in wanted.items()}}),
        "endingOffsets": json.dumps({topic: {str(p): end for p, (_, end) in wanted.items()}}),
        "failOnDataLoss": str(reading.fail_on_data_loss).lower(),
        "includeHeaders": "true",
    }


def undated_reason(timestamp_ms: int) -> str | None:
    """Return the reason why a record is on no date; None when it is on one."""
    if timestamp_ms == NO_TIMESTAMP:
        return "timestamp: the record has none (-1)"
    if FIRST_TIMESTAMP_MS <= timestamp_ms <= LAST_TIMESTAMP_MS:
        return None
    return f"timestamp: {timestamp_ms} ms is beyond the years 1 to 9999 (did a producer write micro- or nanoseconds?)"


def records_of(spark: SparkSession, reading: Reading, plans: Sequence[RunPlan], tasks: Sequence[Task]) -> TaskRecords:
    """Return what `DecodedRecords` takes: what `tasks` read for the plans (of one topic, planned together), with `date` and `run`.

    Records that no run takes have no run.
    """
    log = read_tasks(spark, reading, plans[0].topic, tasks, (*RECORD_COLUMNS, TIMESTAMP_MS, *RANGE_COLUMNS))
    return log.through(RunColumns.of_plans(reading.zone, plans), RUN_FIELDS)


@dataclass(frozen=True, slots=True)
class Counted:
    """Rows, and the counts of the tasks that have made them."""

    rows: DataFrame
    tallies: Accumulator[Tallies]

    @property
    def counts(self) -> Tally:
        """The counts of all tasks, after an action on the rows."""
        return total(self.tallies.value.values())


def counted_log(spark: SparkSession, reading: Reading, topic: str, tasks: Sequence[Task], until: date) -> Counted:
    """Return the records that `tasks` read, as RECORD_COLUMNS: those of dates to `until`, and with `reason` those that Spark cannot date.

    A record without a timestamp is on the date of its number, -1. `counts.rows` are the records with a reason, by partition.
    """
    log = read_tasks(spark, reading, topic, tasks, (*RECORD_COLUMNS, TIMESTAMP_MS, *RANGE_COLUMNS))
    tallies = new_tallies(spark.sparkContext)
    fields = [*declared_schema(RECORD_COLUMNS).fields, StructField(_REASON, StringType())]
    return Counted(log.mapInArrow(_Counting(reading.zone, day_number(until), tallies), StructType(fields)), tallies)


@dataclass(frozen=True, slots=True)
class _Counting:
    """What executors run."""

    zone: str
    last_day: int
    tallies: Accumulator[Tallies]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        tally = Tally()
        for given in batches:
            batch = take_until(tally.add_read(given), self.zone, self.last_day)
            reasons: list[str | None] = [None] * batch.num_rows
            if batch.column("timestamp").null_count:
                columns = (batch.column(name).to_pylist() for name in ("timestamp", TIMESTAMP_MS, "partition"))
                for index, (shown, time_ms, partition) in enumerate(zip(*columns, strict=True)):
                    if shown is None:
                        reasons[index] = undated_reason(time_ms)
                        tally.rows[partition] += 1
            arrays = [batch.column(name) for name in RECORD_COLUMNS]
            yield pa.record_batch([*arrays, pa.array(reasons, pa.string())], names=[*RECORD_COLUMNS, _REASON])
        add_tally(self.tallies, tally)


class DecodedRecords:
    """Records with decoded columns, `reason` and `piece`, in the order in which they were read.

    Dead letters are counted while the good ones are written, so that they cost a second reading only where there are some.
    `records` are those of `records_of`, or any with all RECORD_COLUMNS, date and run, planned before `columns` were made.
    """

    def __init__(self, records: DataFrame | TaskRecords, columns: DecodedColumns, max_file_bytes: int) -> None:
        self._records, self._max_file_bytes = records, max_file_bytes
        self._key, self._value = columns.key, columns.value
        self._good, self._dead = self._convert_records(), self._convert_records()

    def _convert_records(self) -> Counted:
        records = self._records
        fields = [each for each in records.schema.fields if each.name not in (TIMESTAMP_MS, *RANGE_COLUMNS)]
        for name, column in ((KEY_COLUMN, self._key), (VALUE_COLUMN, self._value)):
            if column is not None:
                fields.append(StructField(name, column.kind))
        fields += [StructField(_REASON, StringType()), StructField(_PIECE, IntegerType())]
        # An Observation never gets a value where Spark finds out that it need not read the rows.
        tallies = new_tallies(records.sparkSession.sparkContext)
        convert = _Conversion(self._key, self._value, self._max_file_bytes, tallies)
        return Counted(records.mapInArrow(convert, StructType(fields)), tallies)

    @property
    def good(self) -> DataFrame:
        """Those that could be decoded, with all columns but `reason`."""
        return self._good.rows.where("reason is null").drop(_REASON)

    @property
    def dead(self) -> DataFrame:
        """The dead letters, undecoded."""
        return self._dead.rows.where("reason is not null").drop(KEY_COLUMN, VALUE_COLUMN)

    @property
    def counts(self) -> Tally:
        """The counts of the reading of the good ones; `rows` are by (dead, date, run, partition)."""
        return self._good.counts

    @property
    def counts_of_dead(self) -> Tally:
        """The counts of the reading of the dead letters."""
        return self._dead.counts

    def rows_by_partition(self, counts: Tally, dead: bool) -> Counter[int]:
        """Return the good records, or dead letters, of `counts`, by partition."""
        found: Counter[int] = Counter()
        for (is_dead, _, _, partition), rows in counts.rows.items():
            if is_dead == dead:
                found[partition] += rows
        return found

    @property
    def reading_tasks(self) -> int:
        """The number of tasks that have read all of their records."""
        return len(self._good.tallies.value)


@dataclass(frozen=True, slots=True)
class _Conversion:
    """What executors run; plain data, so that it can be sent to them."""

    key: DecodedColumn | None
    value: DecodedColumn | None
    max_file_bytes: int
    tallies: Accumulator[Tallies]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        decoders = [
            (column, label, decoded.make_decoder())
            for column, label, decoded in (("key", KEY_COLUMN, self.key), ("value", VALUE_COLUMN, self.value))
            if decoded is not None
        ]
        pieces = Pieces(self.max_file_bytes // (2 if decoders else 1))
        tally = Tally()
        lateness = LatenessCount(tally.facts)
        for given in batches:
            if TIMESTAMP_MS in given.schema.names:
                lateness.add(given)
            batch, reasons = self._select_records(given, tally)
            arrays, names = list(batch.columns), list(batch.schema.names)
            for column, label, decoder in decoders:
                found, problems = decoder.decode(batch.column(names.index(column)))
                arrays.append(found)
                names.append(label)
                for index, problem in enumerate(problems):
                    if problem is not None and reasons[index] is None:
                        reasons[index] = f"{column}: {problem}"
            _count_rows(tally, batch, reasons)
            tally.facts.add_rows(batch, reasons)
            arrays.append(pa.array(reasons, pa.string()))
            arrays.append(pieces.number(batch))
            yield pa.record_batch(arrays, names=[*names, _REASON, _PIECE])
        add_tally(self.tallies, tally)

    def _select_records(self, batch: pa.RecordBatch, tally: Tally) -> tuple[pa.RecordBatch, list[str | None]]:
        """Return the records of the run, and for each the reason why it is a dead letter, or None."""
        if RANGE_END in batch.schema.names:
            batch = tally.add_read(batch)
            taken = batch.column(RUN).is_valid()
            if not pa.compute.all(taken).as_py():
                batch = batch.filter(taken)
        if TIMESTAMP_MS not in batch.schema.names:
            return batch, [None] * batch.num_rows
        reasons = undated_reasons(batch.column(TIMESTAMP_MS))
        return batch.select([name for name in batch.schema.names if name != TIMESTAMP_MS]), reasons


def _count_rows(tally: Tally, batch: pa.RecordBatch, reasons: Sequence[str | None]) -> None:
    """Add what becomes of a batch; row by row only where dates, runs or partitions are mixed, or some are dead letters."""
    columns = [batch.column(name) for name in (DATE, RUN, "partition")]
    bounds = [pa.compute.min_max(column).as_py() for column in columns]
    if batch.num_rows and reasons.count(None) == len(reasons) and all(each["min"] == each["max"] for each in bounds):
        tally.rows[False, bounds[0]["min"], bounds[1]["min"], bounds[2]["min"]] += batch.num_rows
    else:
        is_dead = [reason is not None for reason in reasons]
        tally.rows.update(zip(is_dead, *(column.to_pylist() for column in columns), strict=True))


def undated_reasons(timestamps_ms: pa.Array) -> list[str | None]:
    """Return the `undated_reason` of each."""
    compute = pa.compute
    odd = compute.or_(
        compute.equal(timestamps_ms, NO_TIMESTAMP),
        compute.or_(compute.less(timestamps_ms, FIRST_TIMESTAMP_MS), compute.greater(timestamps_ms, LAST_TIMESTAMP_MS)),
    )
    if not compute.any(odd).as_py():
        return [None] * len(timestamps_ms)
    return [undated_reason(each) for each in timestamps_ms.to_pylist()]


class Pieces:
    """Numbers the files of a task, for each date and run, so that none gets much more than `max_bytes` of keys, values and headers."""

    _OVERHEAD_BYTES = 40
    """What the other columns of a record take at most, about."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max(1, max_bytes)
        self._sizes: dict[Any, int] = {}

    def number(self, batch: pa.RecordBatch) -> pa.Array:
        """Return the piece of each row."""
        row_bytes = self._row_bytes(batch)
        piece = self._find_piece(batch, int(row_bytes.sum()))
        if piece is None:
            return self._number_rows(batch, row_bytes.tolist())
        return pa.array(np.full(batch.num_rows, piece, np.int32))

    def _find_piece(self, batch: pa.RecordBatch, batch_bytes: int) -> int | None:
        """Return the piece of all rows; None where they are of several dates or runs, or do not fit into one piece."""
        columns = [batch.column(name) for name in (DATE, RUN)]
        bounds = [pa.compute.min_max(column).as_py() for column in columns]
        if any(column.null_count for column in columns) or any(each["min"] != each["max"] for each in bounds):
            return None
        key = bounds[0]["min"], bounds[1]["min"]
        before = self._sizes.get(key, 0)
        if before % self._max_bytes + batch_bytes > self._max_bytes:
            return None
        self._sizes[key] = before + batch_bytes
        return before // self._max_bytes

    def _number_rows(self, batch: pa.RecordBatch, row_bytes: Sequence[int]) -> pa.Array:
        dates, runs = (batch.column(name).to_pylist() for name in (DATE, RUN))
        found = []
        for key, size_bytes in zip(zip(dates, runs, strict=True), row_bytes, strict=True):
            before = self._sizes.get(key, 0)
            used = before % self._max_bytes
            if used and used + size_bytes > self._max_bytes:
                before += self._max_bytes - used
            self._sizes[key] = before + size_bytes
            found.append(before // self._max_bytes)
        return pa.array(found, pa.int32())

    def _row_bytes(self, batch: pa.RecordBatch) -> Any:
        """Return the bytes of each row (numpy, int64)."""
        key, value = (
            pa.compute.fill_null(pa.compute.binary_length(batch.column(name)), 0) for name in ("key", "value")
        )
        sizes = key.to_numpy().astype(np.int64) + value.to_numpy() + self._OVERHEAD_BYTES
        headers = batch.column("headers")
        if headers.null_count < len(headers):
            for index, row in enumerate(headers.to_pylist()):
                sizes[index] += sum(len(each["key"]) + len(each["value"] or b"") for each in row or ())
        return sizes


def write_parquet(rows: DataFrame, uri: str, columns: Sequence[str]) -> None:
    """Write records to folders `date=…/run=…/piece=…`, in the order of partitions and offsets."""
    by = (DATE, RUN, _PIECE)
    ordered = rows.select(*columns, *by).sortWithinPartitions(*by, "partition", "offset")
    ordered.write.partitionBy(*by).option("compression", "zstd").mode("overwrite").parquet(uri)
