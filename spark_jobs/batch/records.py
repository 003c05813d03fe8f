"""Records as the jobs see them: read from the log, each with its date and run, decoded, cut into pieces of bounded size.

Columns: key, value, partition, offset, timestamp, timestampType and headers as the data source gives them; `date` and `run` (see `plan`);
`decoded_key` and `decoded` where there are decoders; `reason`, why a record is a dead letter; `piece`, the number of its file in its task.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, Final

import pyarrow as pa  # type: ignore[import-untyped]
from pyspark import Accumulator
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import DateType, IntegerType, StringType, StructField, StructType

from spark_jobs.batch.decoders import FORMATS_WITH_SCHEMA, Decoder
from spark_jobs.batch.failures import BadRequestError
from spark_jobs.batch.plan import LateDates, Ranges, RunPlan, read_ranges
from spark_jobs.batch.schemas import arrow_type
from spark_jobs.rows import source_schema

RECORD_COLUMNS: Final = ("key", "value", "partition", "offset", "timestamp", "timestampType", "headers")
KEY_COLUMN, VALUE_COLUMN = "decoded_key", "decoded"
_DATE, _RUN, _REASON, _PIECE = "date", "run", "reason", "piece"


@dataclass(frozen=True, slots=True)
class Format:
    """How keys or values are decoded: a name of `decoders.FORMATS`, and for objects the fields as Spark writes them in DDL."""

    name: str = "bytes"
    fields: str | None = None

    def check(self) -> None:
        """BadRequestError when the fields are missing or superfluous."""
        if (self.fields is not None) != (self.name in FORMATS_WITH_SCHEMA):
            what = "needs a schema, like 'carrier string, dep_delay int'" if self.fields is None else "has no schema"
            raise BadRequestError(f"the format {self.name} {what}")

    def arrow_type(self) -> pa.StructType | None:
        """Needs a Spark session. BadRequestError when the fields are missing, superfluous or cannot be read."""
        self.check()
        if self.fields is None:
            return None
        try:
            return arrow_type(StructType.fromDDL(self.fields))
        except Exception as problem:  # whatever Spark's parser raises
            raise BadRequestError(f"{self.fields!r} is no schema: {str(problem).strip().splitlines()[0]}") from None

    def spark_type(self) -> Any:
        """The type of the decoded column; None for bytes, which stay as they are."""
        if self.fields is not None:
            return StructType.fromDDL(self.fields)
        return StringType() if self.name == "string" else None


@dataclass(frozen=True, slots=True)
class Formats:
    """Of a topic's keys and values."""

    key: Format = Format()
    value: Format = Format()

    def checked(self) -> Formats:
        """Itself. BadRequestError when a format lacks its schema or has one that it does not need."""
        for each in (self.key, self.value):
            each.check()
        return self


@dataclass(frozen=True, slots=True)
class Reading:
    """How topics are read: the client's settings, the rows of a task, the bytes of a file, the time zone of dates."""

    settings: Mapping[str, str]
    zone: str = "UTC"
    rows_per_task: int = 250_000
    max_file_bytes: int = 128 * 1024 * 1024
    fail_on_data_loss: bool = True


def read_log(spark: SparkSession, reading: Reading, topic: str, ranges: Ranges, columns: Sequence[str]) -> DataFrame:
    """The records of `ranges`, `columns` of them."""
    everything = source_schema(True)
    schema = StructType([everything[name] for name in columns])
    wanted = {partition: bounds for partition, bounds in ranges.items() if bounds[0] < bounds[1]}
    if not wanted:
        return spark.createDataFrame([], schema)
    options = {f"kafka.{name}": value for name, value in reading.settings.items()}
    options |= {
        "kafka.isolation.level": "read_committed",
        "assign": json.dumps({topic: sorted(wanted)}),
        "startingOffsets": json.dumps({topic: {str(p): start for p, (start, _) in wanted.items()}}),
        "endingOffsets": json.dumps({topic: {str(p): end for p, (_, end) in wanted.items()}}),
        "maxRecordsPerPartition": str(reading.rows_per_task),
        "failOnDataLoss": str(reading.fail_on_data_loss).lower(),
        "includeHeaders": "true",
    }
    loaded = spark.read.format("kafkalite").options(**options).schema(schema).load()
    total = sum(end - start for start, end in wanted.values())
    # The slices of neighbours are put together in their order, so a task has the same records at every repetition.
    return loaded.coalesce(max(1, -(-total // reading.rows_per_task)))


def date_of(timestamp: str, zone: str) -> Column:
    """The date of a timestamp column in a zone; the session's own zone is UTC (`session`)."""
    return F.to_date(F.from_utc_timestamp(timestamp, zone))


def records_of(spark: SparkSession, reading: Reading, plans: Sequence[RunPlan]) -> DataFrame:
    """The records that the plans (of one topic, planned together) want, with `date` and `run`."""
    log = read_log(spark, reading, plans[0].topic, read_ranges(plans), RECORD_COLUMNS)
    dated = log.withColumn(_DATE, date_of("timestamp", reading.zone))
    return dated.withColumn(_RUN, run_of(plans)).where(F.col(_RUN).isNotNull())


def run_of(plans: Sequence[RunPlan]) -> Column:
    """The run that takes a record: its date's own, or the one that takes late records of the date along; null for none."""
    chosen = F.when(F.col(_DATE).isin([plan.date for plan in plans]), F.col(_DATE))
    for plan in plans:
        if plan.late:
            chosen = chosen.when(reduce(Column.__or__, map(_is_late, plan.late)), F.lit(plan.date))
    return chosen.otherwise(F.lit(None).cast(DateType()))


def _is_late(group: LateDates) -> Column:
    starts = F.create_map(*(F.lit(each) for pair in group.start.items() for each in pair))
    return F.col(_DATE).between(group.first, group.last) & (F.col("offset") >= starts[F.col("partition")])


class DecodedRecords:
    """Records with decoded columns, `reason` and `piece`, in the order in which they were read.

    Dead letters are counted while the rows are used, so that they cost a second reading only where there are some.
    """

    def __init__(self, records: DataFrame, formats: Formats, max_file_bytes: int) -> None:
        key_type, value_type = formats.key.arrow_type(), formats.value.arrow_type()
        fields = list(records.schema.fields)
        for name, form in ((KEY_COLUMN, formats.key), (VALUE_COLUMN, formats.value)):
            if (kind := form.spark_type()) is not None:
                fields.append(StructField(name, kind))
        fields += [StructField(_REASON, StringType()), StructField(_PIECE, IntegerType())]
        # An Observation would be asked for in vain where Spark finds out that it need not look at the rows.
        self._dead_letters = records.sparkSession.sparkContext.accumulator(0)
        convert = _Conversion(
            formats.key.name, key_type, formats.value.name, value_type, max_file_bytes, self._dead_letters
        )
        self._rows = records.mapInArrow(convert, StructType(fields))

    @property
    def good(self) -> DataFrame:
        """Those that could be decoded, with all columns but `reason`."""
        return self._rows.where("reason is null").drop(_REASON)

    @property
    def dead(self) -> DataFrame:
        """The dead letters, undecoded."""
        return self._rows.where("reason is not null").drop(KEY_COLUMN, VALUE_COLUMN)

    @property
    def any_dead(self) -> bool:
        """To be asked after the good ones were written."""
        return self._dead_letters.value > 0


@dataclass(frozen=True, slots=True)
class _Conversion:
    """What executors run; plain data, so that it can be sent to them."""

    key_format: str
    key_type: pa.StructType | None
    value_format: str
    value_type: pa.StructType | None
    max_file_bytes: int
    dead_letters: Accumulator[int]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        decoders = [
            (column, label, Decoder(name, kind))
            for column, label, name, kind in (
                ("key", KEY_COLUMN, self.key_format, self.key_type),
                ("value", VALUE_COLUMN, self.value_format, self.value_type),
            )
            if name != "bytes"
        ]
        pieces = Pieces(self.max_file_bytes // (2 if decoders else 1))
        for batch in batches:
            arrays, names = list(batch.columns), list(batch.schema.names)
            reasons: list[str | None] = [None] * batch.num_rows
            for column, label, decoder in decoders:
                found, problems = decoder.decode(batch.column(names.index(column)))
                arrays.append(found)
                names.append(label)
                for index, problem in enumerate(problems):
                    if problem is not None and reasons[index] is None:
                        reasons[index] = f"{column}: {problem}"
            self.dead_letters.add(len(reasons) - reasons.count(None))
            arrays.append(pa.array(reasons, pa.string()))
            arrays.append(pieces.number(batch))
            yield pa.record_batch(arrays, names=[*names, _REASON, _PIECE])


class Pieces:
    """Numbers the files of a task, for each date and run, so that none gets much more than `max_bytes` of keys, values and headers."""

    _OVERHEAD_BYTES = 40
    """What the other columns of a record take at most, about."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max(1, max_bytes)
        self._sizes: dict[Any, int] = {}

    def number(self, batch: pa.RecordBatch) -> pa.Array:
        """The piece of each row."""
        dates, runs = (_column(batch, name).to_pylist() for name in (_DATE, _RUN))
        found = []
        for key, row_bytes in zip(zip(dates, runs, strict=True), self._row_bytes(batch), strict=True):
            before = self._sizes.get(key, 0)
            used = before % self._max_bytes
            if used and used + row_bytes > self._max_bytes:
                before += self._max_bytes - used
            self._sizes[key] = before + row_bytes
            found.append(before // self._max_bytes)
        return pa.array(found, pa.int32())

    def _row_bytes(self, batch: pa.RecordBatch) -> list[int]:
        key, value = (
            pa.compute.fill_null(pa.compute.binary_length(_column(batch, name)), 0) for name in ("key", "value")
        )
        sizes: list[int] = pa.compute.add(pa.compute.add(key, value), self._OVERHEAD_BYTES).to_pylist()
        headers = _column(batch, "headers")
        if headers.null_count < len(headers):
            for index, row in enumerate(headers.to_pylist()):
                sizes[index] += sum(len(each["key"]) + len(each["value"] or b"") for each in row or ())
        return sizes


def _column(batch: pa.RecordBatch, name: str) -> pa.Array:
    return batch.column(batch.schema.get_field_index(name))


def write_parquet(rows: DataFrame, uri: str, columns: Sequence[str]) -> None:
    """Write records to folders `date=…/run=…/piece=…`, in the order of partitions and offsets."""
    by = (_DATE, _RUN, _PIECE)
    ordered = rows.select(*columns, *by).sortWithinPartitions(*by, "partition", "offset")
    ordered.write.partitionBy(*by).option("compression", "zstd").mode("overwrite").parquet(uri)
