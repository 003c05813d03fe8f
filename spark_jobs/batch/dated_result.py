"""Results that replace a date as a whole: how `reprocess` and `compact` get from rows to a finished run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import MapType, StructType

from spark_jobs.batch import layout
from spark_jobs.batch.ledger import Entry, Ledger, Unit
from spark_jobs.batch.night import Night, finish, new_attempt, record_plans, staging
from spark_jobs.batch.observed import Observed
from spark_jobs.batch.plan import Offsets, RunPlan
from spark_jobs.batch.publication import check_unit, gather
from spark_jobs.batch.records import RECORD_COLUMNS
from spark_jobs.observation.journal import CHECK, DEAD_LETTERS, READ
from spark_jobs.observation.run_facts import RunFacts
from spark_jobs.observation.stage_progress import watch_tasks
from spark_jobs.tasks import Task

_RESULT, _DEAD = "result", "dead_letters"


@dataclass(frozen=True, slots=True)
class Places:
    """The kinds (`layout.dated_unit`) of the result and of its dead letters."""

    result: str
    dead_letters: str


@dataclass(frozen=True, slots=True)
class Sink:
    """A topic that gets the result too, and its ends before that."""

    topic: str
    start: Offsets


def record_plan(ledger: Ledger, plan: RunPlan) -> Entry:
    """Record the plan."""
    attempt = new_attempt(ledger.job, plan.topic, plan.date)
    return record_plans(ledger, [plan], attempt)[0]


class Product(Protocol):
    """What a job has made of what it read, as DataFrames whose rows are counted while they are written."""

    @property
    def tasks(self) -> Sequence[Task]:
        """The tasks that read the log."""

    @property
    def result(self) -> DataFrame:
        """The rows of the result."""

    @property
    def dead(self) -> DataFrame:
        """Its dead letters: RECORD_COLUMNS and `reason`."""

    def check_result(self) -> bool:
        """Compare what was read with the plan, after the result was written; True if there can be dead letters. MissingRecordsError."""

    def result_rows(self) -> Mapping[int, int] | None:
        """Return the rows of the result that tasks have written, by partition of the topic; None for a result without partitions."""

    def dead_rows(self) -> Mapping[int, int]:
        """Return the dead letters that tasks have written, by partition, after they were written. MissingRecordsError."""

    def dead_reasons(self) -> Mapping[str, int]:
        """Return these dead letters by kind of reason."""


def complete(
    night: Night, ledger: Ledger, entry: Entry, places: Places, product: Product, sink: Sink | None = None
) -> Entry:
    """Write the result and its dead letters, publish them, mark the run done. JobError when they are not what was planned."""
    topic, day = entry.plan.topic, entry.plan.date
    path = layout.dated_unit(places.result, topic, day)
    observed, journal = Observed(product.result), night.journal
    columns = {field.name: field.dataType.simpleString() for field in product.result.schema.fields}
    journal.begin_entry(entry, columns)
    what = f"{ledger.job} of {topic} {day}"
    with journal.measure(READ), watch_tasks(night.progress, night.spark.sparkContext, what, product.tasks):
        units = _stage(night, entry, path, staging(entry.attempt, _RESULT), _sort_rows(observed.rows))
    with journal.measure(CHECK):
        can_have_dead = product.check_result()
        by_partition = product.result_rows()
        written = observed.count() if by_partition is None else by_partition
        check_unit(night.storage, topic, path, units[0] if units else None, written)
    dead: list[Unit] = []
    reasons: Mapping[str, int] = {}
    if can_have_dead:
        lost = product.dead.select(*RECORD_COLUMNS, "reason").sortWithinPartitions("partition", "offset")
        path = layout.dated_unit(places.dead_letters, topic, day)
        with journal.measure(DEAD_LETTERS):
            dead = _stage(night, entry, path, staging(entry.attempt, _DEAD), lost)
        check_unit(night.storage, topic, path, dead[0] if dead else None, product.dead_rows())
        reasons = product.dead_reasons()
        night.count_dead_letters(topic, ledger.job, sum(unit.rows for unit in dead))
    rows = sum(unit.rows for unit in units)
    counts: Mapping[str, int] = {"rows": rows, "dead_letters": sum(unit.rows for unit in dead)}
    if sink is not None:
        entry = replace(entry, sink_topic=sink.topic, sink_start=dict(sink.start))
    facts = RunFacts(night.reading.zone, dead_letters=reasons, stages_ms=journal.take_stages())
    entry = replace(entry, facts=facts)
    return finish(night, ledger, entry, [*units, *dead], counts)


def _stage(night: Night, entry: Entry, path: str, written: str, rows: DataFrame) -> list[Unit]:
    writer = rows.write.option("compression", "zstd").option("maxRecordsPerFile", night.reading.rows_per_task)
    writer.mode("overwrite").parquet(night.spark_path(written))
    unit = gather(night.storage, entry.attempt, written, path, entry.plan.date, [(0, "")])
    return [unit] if unit.files else []


def _sort_rows(result: DataFrame) -> DataFrame:
    """Sort the rows, by all columns that can be sorted by, so that the same rows are the same bytes whatever task was ready first."""
    orderable = [field.name for field in result.schema.fields if not _has_map(field.dataType)]
    return result.sortWithinPartitions(*(F.col(f"`{name}`") for name in orderable)) if orderable else result


def _has_map(kind: object) -> bool:
    if isinstance(kind, StructType):
        return any(_has_map(field.dataType) for field in kind.fields)
    inner = getattr(kind, "elementType", None)
    return isinstance(kind, MapType) or (inner is not None and _has_map(inner))
