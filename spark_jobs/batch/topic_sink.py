"""Published rows to a topic, once each for readers of committed records.

Tasks write in transactions that the driver commits when all have ended, so one that Spark repeats leaves nothing. Each record carries the
run and the row in headers, and the ledger holds the topic's ends from before the first attempt. Whoever goes on after a crash aborts what
is open (the driver may have died between two commits), reads from there which rows have been committed, and sends the others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from kafkalite import NAME
from spark_jobs.batch.failures import MissingRecordsError
from spark_jobs.batch.observed import Observed
from spark_jobs.batch.plan import Offsets, Ranges
from spark_jobs.batch.records import Reading, plan_tasks, read_log
from spark_jobs.batch.storage import read_parquet

RUN_HEADER: Final = "kafkalite-run"
ROW_HEADER: Final = "kafkalite-row"

_THERE = "__there"
_ROW, _KEY, _VALUE, _HEADERS, _TIMESTAMP = "__row", "key", "value", "headers", "timestamp"
_HEADERS_TYPE = "array<struct<key:string,value:binary>>"


def transactional_prefix(run: str) -> str:
    """Return what the transactional ids of a run begin with; nothing else may use it."""
    return f"{NAME}/{run}"


def send(
    spark: SparkSession,
    reading: Reading,
    files: Mapping[str, int],
    run: str,
    topic: str,
    start: Offsets,
    end: Offsets,
) -> None:
    """Send the rows of the Parquet `files` that are not in `topic` between `start` and `end` yet. A file's name and a row's place tell it.

    `files` says how many rows each has. MissingRecordsError, which leaves the run to be gone on with, when Spark had others.

    Columns `key`, `value`, `headers` and `timestamp` are used as the sink takes them; without `value` the whole row is sent as JSON.
    """
    place = F.concat_ws(":", "_metadata.file_name", "_metadata.row_index")
    numbered = read_parquet(spark, files, added={_ROW: place})
    columns = [name for name in numbered.columns if name != _ROW]
    ranges: Ranges = {p: (start.get(p, 0), offset) for p, offset in end.items() if start.get(p, 0) < offset}
    there: Column = F.lit(None).cast("boolean")
    if ranges:
        sent = _read_sent_rows(spark, reading, topic, ranges, run).withColumn(_THERE, F.lit(True))
        numbered = numbered.join(sent, _ROW, "left")
        there = F.col(_THERE)
    observed = Observed(numbered.withColumn(_THERE, there))
    options = {f"kafka.{name}": value for name, value in reading.settings.items()}
    records = observed.rows.where(F.col(_THERE).isNull()).select(*_record_columns(columns, run))
    (
        records.write.format(NAME)
        .options(**options, topic=topic, includeTimestamp=str(_TIMESTAMP in columns).lower())
        .option("transactional.id.prefix", transactional_prefix(run))
        .mode("append")
        .save()
    )
    planned, found = sum(files.values()), observed.count()
    if found != planned:
        raise MissingRecordsError(f"{run} to {topic}: {planned} rows were to be sent, Spark found {found}")


def _read_sent_rows(spark: SparkSession, reading: Reading, topic: str, ranges: Ranges, run: str) -> DataFrame:
    """Return the rows of the run that are in the topic."""
    log = read_log(spark, reading, topic, plan_tasks(reading, topic, ranges), ["headers"])
    return log.where(_header(RUN_HEADER) == run).select(_header(ROW_HEADER).alias(_ROW)).distinct()


def _header(name: str) -> Column:
    """Return the value of the first header of that name, as text; null where there is none."""
    found = F.filter("headers", lambda header: header["key"] == name)
    return F.get(found, 0)["value"].cast("string")


def _record_columns(columns: Sequence[str], run: str) -> list[Column]:
    value = F.col(_VALUE) if _VALUE in columns else F.to_json(F.struct(*(F.col(f"`{name}`") for name in columns)))
    own = F.array(
        F.struct(F.lit(RUN_HEADER).alias("key"), F.lit(run).cast("binary").alias("value")),
        F.struct(F.lit(ROW_HEADER).alias("key"), F.col(_ROW).cast("binary").alias("value")),
    ).cast(_HEADERS_TYPE)
    given = (
        F.coalesce(F.col(_HEADERS).cast(_HEADERS_TYPE), F.array().cast(_HEADERS_TYPE)) if _HEADERS in columns else None
    )
    found = [value.alias(_VALUE), (own if given is None else F.concat(given, own)).alias(_HEADERS)]
    return found + [F.col(name) for name in (_KEY, _TIMESTAMP) if name in columns]
