"""Job `compact`: a snapshot of a topic as of a date: for each key its latest value, as Kafka's compaction would keep it.

Records with timestamps before the date's end count. The latest is the one with the highest offset (Kafka's rule), or on demand the one with
the youngest timestamp. Keys whose latest record is a tombstone (no value) are not in the snapshot; records without a key never are. A key
in several partitions, as after partitions were added, has the value of the youngest of its partitions' latest records.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from typing import Final, Literal

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from spark_jobs.batch import layout
from spark_jobs.batch.dated_result import Places, complete, record_plan
from spark_jobs.batch.formats import Formats
from spark_jobs.batch.ledger import Entry, Ledger
from spark_jobs.batch.night import Night, recorded_plan, with_sizes
from spark_jobs.batch.plan import LogBounds, RunPlan, read_ranges
from spark_jobs.batch.records import RECORD_COLUMNS, DecodedRecords, counted_log, tasks_of
from spark_jobs.batch.tally import check_read
from spark_jobs.observation.journal import PLAN
from spark_jobs.observation.record_facts import UNDATED

JOB: Final = "compact"
_PLACES: Final = Places(layout.SNAPSHOTS, layout.dead_letters_of(layout.SNAPSHOTS))
_REST: Final = tuple(name for name in RECORD_COLUMNS if name != "key")


@dataclass(frozen=True, slots=True)
class Compaction:
    """What "latest" goes by."""

    latest_by: Literal["offset", "timestamp"] = "offset"


def plan(night: Night, ledger: Ledger, bounds: LogBounds, day: date) -> RunPlan:
    """Return the whole log up to its present end, or as recorded if the date was planned before. DataLossError."""
    recorded = recorded_plan(night, ledger, bounds, day)
    if recorded is not None and not night.refresh:
        return recorded
    ranges = {partition: (bounds.begin[partition], end) for partition, end in sorted(bounds.end.items())}
    return with_sizes(night, bounds, [RunPlan(bounds.topic, bounds.topic_id, day, ranges, dict(bounds.end))])[0]


def transform(records: DataFrame, latest_by: str) -> DataFrame:
    """Return the latest record of each key, without tombstones."""
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


class _Snapshot:
    """The `dated_result.Product` of a snapshot.

    Records whose time Spark cannot show are dead letters: nobody knows whether they belong to the date.
    """

    def __init__(self, night: Night, planned: RunPlan, formats: Formats, latest_by: str) -> None:
        self._topic, self._date, self._ranges = planned.topic, planned.date, read_ranges([planned])
        self.tasks = tasks_of(night.reading, [planned])
        self._log = counted_log(night.spark, night.reading, planned.topic, self.tasks, planned.date)
        before = self._log.rows.where("reason is null").drop("reason")
        latest = transform(before, latest_by).withColumn("date", F.lit(planned.date)).withColumn("run", F.col("date"))
        self._records = DecodedRecords(latest, formats.columns(planned.topic), night.reading.max_file_bytes)

    @property
    def result(self) -> DataFrame:
        return self._records.good.drop("date", "run", "piece")

    @property
    def dead(self) -> DataFrame:
        columns = (*RECORD_COLUMNS, "reason")
        undated = self._log.rows.where("reason is not null").select(*columns)
        if not self._records.rows_by_partition(self._records.counts, dead=True):
            return undated
        undecoded = self._records.dead.select(*columns)
        return undecoded.unionAll(undated) if self._log.counts.rows else undecoded

    def check_result(self) -> bool:
        check_read(self._topic, self._ranges, self._log.counts)
        return bool(self._log.counts.rows or self._records.rows_by_partition(self._records.counts, dead=True))

    def result_rows(self) -> Mapping[int, int]:
        return self._records.rows_by_partition(self._records.counts, dead=False)

    def dead_rows(self) -> Mapping[int, int]:
        check_read(self._topic, self._ranges, self._log.counts)
        undecoded = self._records.rows_by_partition(self._records.counts_of_dead, dead=True)
        return undecoded + self._log.counts.rows

    def dead_reasons(self) -> Mapping[str, int]:
        undated = sum(self._log.counts.rows.values())
        found = self._records.counts_of_dead.facts.reasons_of(self._date)
        return found | ({UNDATED: undated} if undated else {})


def main(night: Night, topic: str, day: date, formats: Formats, wanted: Compaction) -> Entry:
    """Make the snapshot of a topic as of the end of a date. JobError, ClientError."""
    ledger = night.ledger(JOB)
    with night.journal.measure(PLAN):
        planned = plan(night, ledger, night.log.bounds(topic), day)
    entry = record_plan(ledger, planned)
    return complete(night, ledger, entry, _PLACES, _Snapshot(night, planned, formats, wanted.latest_by))
