"""Job `compact`: a snapshot of a topic as of a date: for each key its latest value, as Kafka's compaction would keep it.

Records with timestamps before the date's end count. The latest is the one with the highest offset (Kafka's rule), or on demand the one with
the youngest timestamp. Keys whose latest record is a tombstone (no value) are not in the snapshot; records without a key never are. A key
in several partitions, as after partitions were added, has the value of the youngest of its partitions' latest records.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from typing import Final, Literal

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from spark_jobs.batch import layout
from spark_jobs.batch.dated_result import Places, begin, complete
from spark_jobs.batch.ledger import Entry, Ledger
from spark_jobs.batch.night import Night, recorded_plan
from spark_jobs.batch.plan import LogBounds, RunPlan, read_ranges
from spark_jobs.batch.records import RECORD_COLUMNS, DecodedRecords, Formats, date_of, read_log

JOB: Final = "compact"
_PLACES: Final = Places(layout.SNAPSHOTS, layout.dead_letters_of(layout.SNAPSHOTS))
_REST: Final = tuple(name for name in RECORD_COLUMNS if name != "key")


@dataclass(frozen=True, slots=True)
class Compaction:
    """What "latest" goes by."""

    latest_by: Literal["offset", "timestamp"] = "offset"


def plan(night: Night, ledger: Ledger, bounds: LogBounds, day: date) -> RunPlan:
    """The whole log up to its present end, or as recorded if the date was planned before. DataLossError."""
    recorded = recorded_plan(night, ledger, bounds, day)
    if recorded is not None and not night.refresh:
        return recorded
    ranges = {partition: (bounds.begin[partition], end) for partition, end in sorted(bounds.end.items())}
    return RunPlan(bounds.topic, bounds.topic_id, day, ranges, dict(bounds.end))


def transform(records: DataFrame, latest_by: str) -> DataFrame:
    """The latest record of each key, without tombstones."""
    order: list[Column] = [F.col("offset")] if latest_by == "offset" else [F.col("timestamp"), F.col("offset")]
    everything = F.struct(*(F.col(name) for name in _REST))
    per_partition = (
        records.where("key is not null")
        .groupBy("key", "partition")
        .agg(F.max_by(everything, F.struct(*order)).alias("latest"))
    )
    youngest = F.struct(F.col("latest.timestamp"), F.col("partition"))
    latest = per_partition.groupBy("key").agg(F.max_by("latest", youngest).alias("latest"))
    return latest.select("key", "latest.*").where("value is not null").select(*RECORD_COLUMNS)


def main(night: Night, topic: str, day: date, formats: Formats, wanted: Compaction) -> Entry:
    """Make the snapshot of a topic as of the end of a date. JobError, ClientError."""
    ledger = Ledger(night.storage, JOB)
    planned = plan(night, ledger, night.log.bounds(topic), day)
    entry = begin(ledger, planned)
    log = read_log(night.spark, night.reading, topic, read_ranges([planned]), RECORD_COLUMNS)
    before = log.where(date_of("timestamp", night.reading.zone) <= F.lit(day))
    latest = transform(before, wanted.latest_by).withColumn("date", F.lit(day)).withColumn("run", F.lit(day))
    records = DecodedRecords(latest, formats, night.reading.max_file_bytes)
    return complete(night, ledger, entry, _PLACES, records.good.drop("date", "run", "piece"), records)
