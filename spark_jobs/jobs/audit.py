"""Job `audit`: is the archive what the log says?

For each partition and hour of the dates: number of records, offsets, times, gaps, duplicate keys, and a fingerprint that does not depend on
order, of the log's records and of those that lie in the archive and among the dead letters. All that is in the archive's folders counts,
whether the ledger knows of it or not. Records that came after the last run are told of, and are no difference: the next run takes them.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from functools import partial, reduce
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import BinaryType, BooleanType, DateType, IntegerType, LongType, StructField, StructType

from spark_jobs.batch import layout
from spark_jobs.batch.comparison import Difference, Facts, Place, Report
from spark_jobs.batch.endings import SPARK_ERRORS, spark_reason
from spark_jobs.batch.failures import DifferencesError
from spark_jobs.batch.fingerprints import LANES, fingerprint, hashed_batches
from spark_jobs.batch.night import Night, find_record_bytes, first_offsets, now_ms
from spark_jobs.batch.plan import LogBounds, Offsets, Ranges, frontiers
from spark_jobs.batch.records import RECORD_COLUMNS, plan_tasks, read_log, read_tasks
from spark_jobs.batch.storage import read_parquet
from spark_jobs.jobs import archive
from spark_jobs.observation.progress import Course
from spark_jobs.observation.stage_progress import watch_stage, watch_tasks
from spark_jobs.rows import HEADERS_TYPE, TIMESTAMP_MS, source_schema
from spark_jobs.tables.publication import read_archived
from spark_jobs.tables.table_format import TableFormat
from spark_jobs.task_reading.audit_columns import AuditColumns
from spark_jobs.task_reading.task_records import TaskRecords

PLACES_MAX = 1_000_000
"""Hours of partitions that are compared in one go: each takes the driver some 2 kB."""

_SHOWN = 10
_KEPT_FIELDS = (
    StructField("covered", BooleanType()),
    StructField("date", DateType()),
    StructField("hour_ms", LongType()),
    StructField("partition", IntegerType()),
    StructField("offset", LongType()),
    StructField("timestamp_ms", LongType()),
    StructField("key", BinaryType()),
)
_HASHED = partial(hashed_batches, kept=[field.name for field in _KEPT_FIELDS])
_HASHED_TYPE = StructType([*_KEPT_FIELDS, *(StructField(name, LongType()) for name in LANES)])


def plan(night: Night, bounds: LogBounds, known: Mapping[date, Offsets], days: Sequence[date]) -> Ranges:
    """Return where in the log the records of the days can be; what is before the log's beginning is not compared."""
    if not set(days) & set(known):
        return {}
    starts = first_offsets(night, bounds, min(days))
    return {partition: (starts.get(partition, end), end) for partition, end in bounds.end.items()}


def hash_archived(records: DataFrame, zone: str, days: Sequence[date]) -> DataFrame:
    """Return what `gather_facts` takes, of archived records: all of them are covered. They are dated as the log's are."""
    wanted = records.select(
        *(F.col(name) for name in ("partition", "offset", "key", "value")),
        # Spark goes through all nulls of this column for each row; an absent list and an empty one have the same hash.
        F.coalesce("headers", F.array().cast(HEADERS_TYPE)).alias("headers"),
        F.unix_millis("timestamp").alias(TIMESTAMP_MS),
    )
    return wanted.mapInArrow(_HashedArchive(AuditColumns.of_archive(zone, days)), _HASHED_TYPE)


@dataclass(frozen=True, slots=True)
class _HashedArchive:
    """What executors run on the archive's rows."""

    columns: AuditColumns

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return _HASHED(map(self.columns, batches))


def hash_log(records: TaskRecords, zone: str, days: Sequence[date], known: Mapping[date, Offsets]) -> DataFrame:
    """Return what `gather_facts` takes, of the log's records; `known` are the ends of the finished runs."""
    return records.through(AuditColumns.of_runs(zone, days, known)).mapInArrow(_HASHED, _HASHED_TYPE)


def gather_facts(hashed: DataFrame) -> DataFrame:
    """Return the facts for each partition and hour, apart for records that a run has covered and others."""
    return hashed.groupBy("covered", "date", "partition", "hour_ms").agg(
        F.count(F.lit(1)).alias("records"),
        F.min("offset").alias("first_offset"),
        F.max("offset").alias("last_offset"),
        F.min("timestamp_ms").alias("first_ms"),
        F.max("timestamp_ms").alias("last_ms"),
        (F.count("key") - F.count_distinct("key")).alias("duplicates"),
        *(F.sum(lane).alias(lane) for lane in LANES),
    )


def main(night: Night, topics: Sequence[str], days: Sequence[date]) -> list[Report]:
    """Compare the days of each topic. DifferencesError, with the first differences, when they do not agree."""
    found = reports(night, topics, days)
    judge(night, found)
    return found


def reports(night: Night, topics: Sequence[str], days: Sequence[date]) -> list[Report]:
    """Return a report for each topic and day; also written next to the output."""
    return [report for topic in topics for report in audit_topic(night, topic, days)]


def judge(night: Night, found: Sequence[Report]) -> None:
    """Tell the result. DifferencesError."""
    for report in found:
        state = f"{len(report.differences)} differences" if report.differences else "log and archive agree"
        pending = f"; {report.pending} late records wait for the next run" if report.pending else ""
        records = sum(facts.records for facts in report.log.values())
        night.tell(f"audit of {report.topic} {report.date}: {records:,} records, {state}{pending}")
    differences = [each for report in found for each in report.differences]
    if differences:
        listed = "\n".join(f"  {each.place}: {each.problem}" for each in differences[:_SHOWN])
        more = f"\n  and {len(differences) - _SHOWN} more" if len(differences) > _SHOWN else ""
        raise DifferencesError(f"log and archive differ in {len(differences)} places:\n{listed}{more}")


def audit_topic(night: Night, topic: str, days: Sequence[date]) -> list[Report]:
    """Return a report for each of the days; also written next to the output."""
    bounds = night.log.bounds(topic)
    groups = group_days(days, len(bounds.end))
    return [report for group in groups for report in _audit_days(night, bounds, group)]


def group_days(days: Sequence[date], partitions: int, most: int = PLACES_MAX) -> list[Sequence[date]]:
    """Return the days in groups that are compared in one go, with no more than `most` hours of partitions, but a day at least."""
    size = max(1, most // max(1, 24 * partitions))
    return [days[first : first + size] for first in range(0, len(days), size)]


def _audit_days(night: Night, bounds: LogBounds, days: Sequence[date]) -> list[Report]:
    begun_s, topic = time.monotonic(), bounds.topic
    known = frontiers(night.ledger(archive.JOB).done_plans(topic))
    ranges = plan(night, bounds, known, days)
    tasks = plan_tasks(night.reading, topic, ranges, find_record_bytes(night, bounds))
    log = read_tasks(night.spark, night.reading, topic, tasks, (*RECORD_COLUMNS, TIMESTAMP_MS))
    dates = f"{days[0]}" + (f" to {days[-1]}" if len(days) > 1 else "")
    with watch_tasks(night.progress, night.spark.sparkContext, f"audit of {topic} {dates}", tasks):
        in_log = _facts(topic, hash_log(log, night.reading.zone, days, known))
    counted = sum(facts.records for of_day in in_log.values() for facts in of_day.covered.values())
    course = Course(f"audit of the archive of {topic} {dates}", counted, unit="records")
    with watch_stage(night.progress, night.spark.sparkContext, course):
        archived, problems = _archived_facts(night, topic, days, bounds)
    took_ms = round((time.monotonic() - begun_s) * 1000 / len(days))
    reports = []
    for day in days:
        found = [] if day in known else [Difference(f"{topic} {day}", "is not archived: no finished run in the ledger")]
        found += [Difference(f"{topic} {day}", text) for text in problems.get(day, ())]
        of_log, of_archive = in_log.get(day, _DayFacts()), archived.get(day, _DayFacts())
        pending = of_log.waiting if day in known else 0
        report = Report(topic, day, of_log.covered, of_archive.covered, pending, tuple(found), now_ms(), took_ms)
        night.storage.write(layout.audit_file(topic, day), json.dumps(report.to_dict(), indent=1).encode())
        night.journal.add_audit(report)
        reports.append(report)
    return reports


@dataclass(slots=True)
class _DayFacts:
    """Facts of a date: of the records that runs have covered, and how many others there are."""

    covered: dict[Place, Facts] = field(default_factory=dict)
    waiting: int = 0


def _facts(topic: str, hashed: DataFrame) -> dict[date, _DayFacts]:
    found: dict[date, _DayFacts] = {}
    for row in gather_facts(hashed).collect():
        day = found.setdefault(row["date"], _DayFacts())
        if not row["covered"]:
            day.waiting += row["records"]
            continue
        facts = {name: row[name] for name in Facts.__slots__ if name != "fingerprint"}
        place = Place(topic, row["date"], row["hour_ms"], row["partition"])
        day.covered[place] = Facts(**facts, fingerprint=fingerprint([row[lane] for lane in LANES]))
    return found


def _archived_facts(
    night: Night, topic: str, days: Sequence[date], bounds: LogBounds
) -> tuple[dict[date, _DayFacts], dict[date, list[str]]]:
    """Return the facts of what the folders of the days hold, as far as the log still reaches back; and days whose files cannot be read."""
    in_log = _from(bounds.begin)
    if night.tables is not None:
        return _facts_of_tables(night, night.tables, topic, days, in_log)
    folders = {day: _folders(night, topic, day) for day in days}
    try:
        every = [folder for found in folders.values() for folder in found]
        records = (
            _read_archive(night, every).where(in_log)
            if every
            else read_log(night.spark, night.reading, "", [], RECORD_COLUMNS)
        )
        return _facts(topic, hash_archived(records, night.reading.zone, days)), {}
    except SPARK_ERRORS:
        return _day_by_day(night, topic, folders, in_log)


def _facts_of_tables(
    night: Night, tables: TableFormat, topic: str, days: Sequence[date], in_log: Column
) -> tuple[dict[date, _DayFacts], dict[date, list[str]]]:
    """Return what `_archived_facts` does, of tables; of one that cannot be read, all days have the problem."""
    try:
        found = read_archived(tables, topic, days, RECORD_COLUMNS)
        empty = read_log(night.spark, night.reading, "", [], RECORD_COLUMNS)
        records = reduce(DataFrame.unionByName, found or [empty]).where(in_log)
        return _facts(topic, hash_archived(records, night.reading.zone, days)), {}
    except SPARK_ERRORS as problem:
        text = f"the table of the archive cannot be read: {spark_reason(str(problem))}"
        return {}, {day: [text] for day in days}


def _day_by_day(
    night: Night, topic: str, folders: Mapping[date, Sequence[str]], in_log: Column
) -> tuple[dict[date, _DayFacts], dict[date, list[str]]]:
    """Return what `_archived_facts` does, asked for day by day, to find out which ones cannot be read."""
    found: dict[date, _DayFacts] = {}
    problems: dict[date, list[str]] = {}
    for day, paths in folders.items():
        try:
            if paths:
                records = _read_archive(night, paths).where(in_log)
                found |= _facts(topic, hash_archived(records, night.reading.zone, [day]))
        except SPARK_ERRORS as problem:
            problems[day] = [f"the archive cannot be read: {spark_reason(str(problem))}"]
    return found, problems


def _folders(night: Night, topic: str, day: date) -> list[str]:
    """Return all that lies in the folders of the date."""
    return [
        f"{outer}/{each.name}"
        for outer in (layout.dated_unit(kind, topic, day) for kind in (layout.ARCHIVE, layout.DEAD_LETTERS))
        for each in night.storage.entries(outer)
        if each.is_folder
    ]


def _read_archive(night: Night, folders: Iterable[str]) -> DataFrame:
    schema = source_schema(True)
    columns = StructType([schema[name] for name in RECORD_COLUMNS])
    return read_parquet(night.spark, map(night.spark_path, folders), columns)


def _from(begin: Offsets) -> Column:
    """Return a condition: true for records that are not before the log's beginning."""
    lost: dict[int, Any] = {partition: offset for partition, offset in begin.items() if offset > 0}
    if not lost:
        return F.lit(True)
    starts = F.create_map(*(F.lit(each) for pair in lost.items() for each in pair))
    return F.col("offset") >= F.coalesce(starts[F.col("partition")], F.lit(0))
