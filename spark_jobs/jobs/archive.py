"""Job `archive`: the records of a date, by their timestamps, as Parquet by topic and date; late ones to their own date.

Undecodable records go to the dead letters, with the reason. Several dates that were planned together are read in one go.
"""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import date

from pyspark.sql.types import StructField

from spark_jobs.batch import layout
from spark_jobs.batch.formats import DecodedColumns, Formats
from spark_jobs.batch.ledger import Entry, Ledger, Unit
from spark_jobs.batch.night import (
    Night,
    check_log,
    check_repeatable,
    check_topic,
    check_unread,
    finish_ready,
    first_offsets,
    make_ready,
    new_attempt,
    note_digests,
    record_plans,
    staging,
    with_sizes,
)
from spark_jobs.batch.plan import (
    LogBounds,
    RunPlan,
    frontiers,
    is_newest,
    plan_runs,
    read_ranges,
    take_late,
    take_undated,
)
from spark_jobs.batch.publication import check_unit, gather_files, seal_unit
from spark_jobs.batch.records import (
    KEY_COLUMN,
    RECORD_COLUMNS,
    VALUE_COLUMN,
    DecodedRecords,
    records_of,
    tasks_of,
    write_parquet,
)
from spark_jobs.batch.tally import Tally, check_read, total
from spark_jobs.observation.journal import CHECK, DEAD_LETTERS, PLAN, READ, share_stages
from spark_jobs.observation.progress import Course
from spark_jobs.portions.division import Portion, divide_tasks, portion_size, shared_attempt, work_signature
from spark_jobs.portions.staged_work import StagedPortion, StagedWork, join_units
from spark_jobs.rows import declared_schema
from spark_jobs.tasks import ranges_of

JOB = "archive"


def plan(night: Night, ledger: Ledger, bounds: LogBounds, day: date) -> RunPlan:
    """Return what the run of `day` reads: as recorded if it was planned before, else up to the log's present end. DataLossError."""
    done = ledger.done_plans(bounds.topic)
    check_topic(bounds, done)
    recorded = next((plan for plan in done if plan.date == day), None)
    others = [plan for plan in done if plan.date != day]
    if recorded is not None:
        repeatable = check_repeatable(night, bounds, recorded)
        if not night.refresh:
            return repeatable
        if not is_newest(recorded, others):
            night.tell(f"archive of {bounds.topic} {day}: later runs have taken its late records, nothing to refresh")
            return repeatable
    known = frontiers(others)
    pending = ledger.read_pending(bounds.topic, day)
    if pending is not None and not night.refresh:
        planned = check_log(night, bounds, pending.plan)
    else:
        (planned,) = with_sizes(night, bounds, plan_runs(bounds, {day: first_offsets(night, bounds, day)}))
        planned = check_unread(night, bounds, known, planned)
    with_late = take_late([planned], known, bounds.begin)[0]
    return take_undated(with_late, others, bounds.begin)


def main(night: Night, topic: str, day: date, formats: Formats) -> Entry:
    """Archive one date of a topic. JobError, ClientError."""
    ledger = night.ledger(JOB)
    with night.journal.measure(PLAN):
        planned = plan(night, ledger, night.log.bounds(topic), day)
    return archive_dates(night, ledger, [planned], formats)[0]


def archive_dates(night: Night, ledger: Ledger, plans: Sequence[RunPlan], formats: Formats) -> list[Entry]:
    """Read what the plans want in one go, in portions, and publish date by date. Goes on where an attempt was interrupted."""
    topic, reading = plans[0].topic, night.reading
    tasks, columns = tasks_of(reading, plans), formats.columns(topic)
    signature = work_signature(plans, tasks, reading, columns)
    begun = shared_attempt([ledger.read_pending(topic, each.date) for each in plans])
    work = StagedWork.find(night.storage, begun, signature)
    entries = record_plans(ledger, plans, work.attempt if work is not None else new_attempt(JOB, topic, plans[0].date))
    if work is None:
        size = portion_size(reading, night.spark.sparkContext.defaultParallelism)
        work = StagedWork.begin(night.storage, entries[0].attempt, size, signature)
    kinds = {field.name: field.dataType.simpleString() for field in _archived_fields(columns)}
    for entry in entries:
        night.journal.begin_entry(entry, kinds)
    staged = _read_portions(night, plans, work, divide_tasks(tasks, work.size), columns)
    counts = total(each.counts for each in staged)
    check_read(topic, read_ranges(plans), counts)
    with night.journal.measure(CHECK):
        units = [(run, seal_unit(night.storage, work.attempt, unit)) for run, unit in join_units(staged)]
    entries = _add_facts(night, entries, units, counts)
    ready = [_make_ready(night, ledger, entry, units) for entry in entries]
    return [finish_ready(night, ledger, entry) for entry in ready]


def _archived_fields(columns: DecodedColumns) -> list[StructField]:
    """Return the columns of the archive."""
    fields = list(declared_schema(RECORD_COLUMNS).fields)
    for name, column in ((KEY_COLUMN, columns.key), (VALUE_COLUMN, columns.value)):
        if column is not None:
            fields.append(StructField(name, column.kind))
    return fields


def _add_facts(
    night: Night, entries: Sequence[Entry], staged: Sequence[tuple[date, Unit]], counts: Tally
) -> list[Entry]:
    """Return the entries with the facts that tasks have counted; they share the time that reading them in one go has taken."""
    stages_ms, rows = night.journal.take_stages(), Counter[date]()
    for run, unit in staged:
        rows[run] += unit.rows
    shares = [share_stages(stages_ms, rows[each.plan.date], rows.total(), len(entries)) for each in entries]
    return [
        replace(entry, facts=counts.facts.of_run(entry.plan.date, night.reading.zone, share))
        for entry, share in zip(entries, shares, strict=True)
    ]


def _read_portions(
    night: Night, plans: Sequence[RunPlan], work: StagedWork, portions: Sequence[Portion], columns: DecodedColumns
) -> list[StagedPortion]:
    """Read the portions that are not recorded yet, one after the other; return all of them."""
    staged = {each.number: found for each in portions if (found := work.read(each.number)) is not None}
    dates = f"{plans[0].date}" + (f" to {plans[-1].date}" if len(plans) > 1 else "")
    kept = sum(each.offsets for each in portions if each.number in staged)
    course = Course(f"{JOB} of {plans[0].topic} {dates}", sum(each.offsets for each in portions), kept)
    if kept:
        night.tell(f"{course.what}: goes on behind {kept:,} of {course.total:,} offsets that an earlier run has read")
    with night.progress.watch(course):
        for portion in portions:
            if portion.number not in staged:
                night.guard()
                found = _read_portion(night, plans, work.attempt, portion, columns, course)
                work.record(portion.number, found)
                course.add_done(portion.offsets)
                staged[portion.number] = found
    return [staged[each.number] for each in portions]


def _read_portion(
    night: Night,
    plans: Sequence[RunPlan],
    attempt: str,
    portion: Portion,
    columns: DecodedColumns,
    course: Course,
) -> StagedPortion:
    """Write good records and dead letters of some tasks.

    MissingRecordsError and MissingOutputError when they are not what was planned.
    """
    topic, reading, journal = plans[0].topic, night.reading, night.journal
    found = records_of(night.spark, reading, plans, portion.tasks)
    records = DecodedRecords(found, columns, reading.max_file_bytes)
    # Names that no task of a run that was killed writes to any more.
    mark = f"{portion.number:05d}-{secrets.token_hex(4)}"
    good, dead = (staging(attempt, f"{kind}-{mark}") for kind in (layout.ARCHIVE, layout.DEAD_LETTERS))
    with journal.measure(READ), course.reading(lambda: sum(records.counts.offsets.values())):
        write_parquet(records.good, night.spark_path(good), [each.name for each in _archived_fields(columns)])
    counts, planned = records.counts, ranges_of(portion.tasks)
    check_read(topic, planned, counts)
    with journal.measure(CHECK):
        units = _gather_units(night, topic, attempt, layout.ARCHIVE, good, portion.first_task)
        _check_units(night, topic, units, _count_planned_rows(topic, layout.ARCHIVE, counts))
    letters = _count_planned_rows(topic, layout.DEAD_LETTERS, counts)
    if letters:
        with journal.measure(DEAD_LETTERS):
            write_parquet(records.dead, night.spark_path(dead), [*RECORD_COLUMNS, "reason"])
        check_read(topic, planned, records.counts_of_dead)
        lost = _gather_units(night, topic, attempt, layout.DEAD_LETTERS, dead, portion.first_task)
        _check_units(night, topic, lost, letters)
        units += lost
    for written in (good, dead):
        night.storage.remove(written)
    return StagedPortion(counts, tuple(units))


def _check_units(
    night: Night, topic: str, found: Sequence[tuple[date, Unit]], planned: Mapping[str, Mapping[int, int]]
) -> None:
    units = {unit.path: unit for _, unit in found}
    for path in sorted({*planned, *units}):
        check_unit(night.storage, topic, path, units.get(path), planned.get(path, {}))


def _count_planned_rows(topic: str, kind: str, counts: Tally) -> dict[str, Counter[int]]:
    """Return the rows of each partition that the units of a kind have, by their paths, as tasks have counted them."""
    found: dict[str, Counter[int]] = {}
    for (is_dead, day, run, partition), rows in counts.rows.items():
        if is_dead == (kind == layout.DEAD_LETTERS):
            found.setdefault(layout.run_unit(kind, topic, day, run), Counter())[partition] += rows
    return found


def _gather_units(
    night: Night, topic: str, attempt: str, kind: str, written: str, first_task: int
) -> list[tuple[date, Unit]]:
    found = []
    for day, run, folder in partition_folders(night, written):
        pieces = [
            (int(each.name.removeprefix("piece=")), f"{folder}/{each.name}")
            for each in night.storage.entries(f"{written}/{folder}")
            if each.is_folder
        ]
        path = layout.run_unit(kind, topic, day, run)
        found.append((run, gather_files(night.storage, attempt, written, path, day, pieces, first_task)))
    return found


def partition_folders(night: Night, written: str) -> list[tuple[date, date, str]]:
    """Return the folders `date=…/run=…` that Spark has written, with their dates."""
    found = []
    for outer in night.storage.entries(written):
        if outer.is_folder and outer.name.startswith("date="):
            for inner in night.storage.entries(f"{written}/{outer.name}"):
                day = date.fromisoformat(outer.name.removeprefix("date="))
                run = date.fromisoformat(inner.name.removeprefix("run="))
                found.append((day, run, f"{outer.name}/{inner.name}"))
    return found


def _make_ready(night: Night, ledger: Ledger, entry: Entry, staged: Sequence[tuple[date, Unit]]) -> Entry:
    topic, day = entry.plan.topic, entry.plan.date
    units = [unit for run, unit in staged if run == day]
    archived = [unit for unit in units if unit.path.startswith(layout.ARCHIVE)]
    dead = sum(unit.rows for unit in units) - sum(unit.rows for unit in archived)
    late = sum(unit.rows for unit in archived if unit.date != str(day))
    counts = {"records": sum(unit.rows for unit in archived) - late, "late": late, "dead_letters": dead}
    night.count_dead_letters(topic, JOB, dead)
    return make_ready(night, ledger, note_digests(night, entry), units, counts)
