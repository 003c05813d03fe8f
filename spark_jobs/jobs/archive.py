"""Job `archive`: the records of a date, by their timestamps, as Parquet by topic and date; late ones to their own date.

Undecodable records go to the dead letters, with the reason. Several dates that were planned together are read in one go.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import date

from pyspark.sql import DataFrame

from spark_jobs.batch import layout
from spark_jobs.batch.formats import Formats
from spark_jobs.batch.ledger import Entry, Ledger, Unit
from spark_jobs.batch.night import (
    Night,
    check_log,
    check_repeatable,
    check_topic,
    check_unread,
    finish,
    first_offsets,
    new_attempt,
    note_digests,
    record_plans,
    staging,
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
from spark_jobs.batch.publication import check_unit, gather
from spark_jobs.batch.records import (
    KEY_COLUMN,
    RECORD_COLUMNS,
    VALUE_COLUMN,
    DecodedRecords,
    records_of,
    write_parquet,
)
from spark_jobs.batch.tally import Tally, check_read
from spark_jobs.observation.journal import CHECK, DEAD_LETTERS, PLAN, READ, share_stages

JOB = "archive"


def plan(night: Night, ledger: Ledger, bounds: LogBounds, day: date) -> RunPlan:
    """Return what the run of `day` reads: as recorded if it was planned before, else up to the log's present end. DataLossError."""
    done = ledger.all_done(bounds.topic)
    check_topic(bounds, [entry.plan for entry in done])
    recorded = next((entry.plan for entry in done if entry.plan.date == day), None)
    others = [entry.plan for entry in done if entry.plan.date != day]
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
        (planned,) = plan_runs(bounds, {day: first_offsets(night, bounds, day)})
        planned = check_unread(night, bounds, known, planned)
    with_late = take_late([planned], known, bounds.begin)[0]
    return take_undated(with_late, others, bounds.begin)


def main(night: Night, topic: str, day: date, formats: Formats) -> Entry:
    """Archive one date of a topic. JobError, ClientError."""
    ledger = Ledger(night.storage, JOB)
    with night.journal.measure(PLAN):
        planned = plan(night, ledger, night.log.bounds(topic), day)
    return archive_dates(night, ledger, [planned], formats)[0]


def archive_dates(night: Night, ledger: Ledger, plans: Sequence[RunPlan], formats: Formats) -> list[Entry]:
    """Read what the plans want in one go, and publish date by date."""
    topic = plans[0].topic
    attempt = new_attempt(JOB, topic, plans[0].date)
    entries = record_plans(ledger, plans, attempt)
    found = records_of(night.spark, night.reading, plans)
    records = DecodedRecords(found, topic, formats, night.reading.max_file_bytes)
    columns = {field.name: field.dataType.simpleString() for field in _select_columns(records.good).schema.fields}
    for entry in entries:
        night.journal.begin_entry(entry, columns)
    units = _stage(night, topic, attempt, plans, records)
    entries = _add_facts(night, entries, units, records.counts)
    return [_finish(night, ledger, entry, units) for entry in entries]


def _select_columns(rows: DataFrame) -> DataFrame:
    return rows.select(*(each for each in (*RECORD_COLUMNS, KEY_COLUMN, VALUE_COLUMN) if each in rows.columns))


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


def _stage(
    night: Night, topic: str, attempt: str, plans: Sequence[RunPlan], records: DecodedRecords
) -> list[tuple[date, Unit]]:
    """Write good records and dead letters; return the units with the dates of their runs.

    MissingRecordsError and MissingOutputError when they are not what was planned.
    """
    good, dead = staging(attempt, layout.ARCHIVE), staging(attempt, layout.DEAD_LETTERS)
    journal, rows = night.journal, records.good
    with journal.measure(READ):
        write_parquet(rows, night.spark_path(good), _select_columns(rows).columns)
    counts, planned = records.counts, read_ranges(plans)
    check_read(topic, planned, counts)
    with journal.measure(CHECK):
        found = _gather_units(night, topic, attempt, layout.ARCHIVE, good)
        _check_units(night, topic, found, _count_planned_rows(topic, layout.ARCHIVE, counts))
    letters = _count_planned_rows(topic, layout.DEAD_LETTERS, counts)
    if letters:
        with journal.measure(DEAD_LETTERS):
            write_parquet(records.dead, night.spark_path(dead), [*RECORD_COLUMNS, "reason"])
        check_read(topic, planned, records.counts_of_dead)
        units = _gather_units(night, topic, attempt, layout.DEAD_LETTERS, dead)
        _check_units(night, topic, units, letters)
        found += units
    return found


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


def _gather_units(night: Night, topic: str, attempt: str, kind: str, written: str) -> list[tuple[date, Unit]]:
    found = []
    for day, run, folder in partition_folders(night, written):
        pieces = [
            (int(each.name.removeprefix("piece=")), f"{folder}/{each.name}")
            for each in night.storage.entries(f"{written}/{folder}")
            if each.is_folder
        ]
        unit = gather(night.storage, attempt, written, layout.run_unit(kind, topic, day, run), day, pieces)
        found.append((run, unit))
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


def _finish(night: Night, ledger: Ledger, entry: Entry, staged: Sequence[tuple[date, Unit]]) -> Entry:
    topic, day = entry.plan.topic, entry.plan.date
    units = [unit for run, unit in staged if run == day]
    archived = [unit for unit in units if unit.path.startswith(layout.ARCHIVE)]
    dead = sum(unit.rows for unit in units) - sum(unit.rows for unit in archived)
    late = sum(unit.rows for unit in archived if unit.date != str(day))
    counts = {"records": sum(unit.rows for unit in archived) - late, "late": late, "dead_letters": dead}
    night.count_dead_letters(topic, JOB, dead)
    return finish(night, ledger, note_digests(night, entry), units, counts)
