"""Many dates in one session: planned at once, read in chunks, each date published by itself; what is done is not done again.

Timestamps need not be in order, so one pass over the log first finds out where each date's records are (`index`). The plans are then
written down, with the same pinned ends for all; a backfill that was interrupted goes on with them.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from datetime import date
from typing import Final

from pyspark.sql import functions as F

from spark_jobs.batch.ledger import Entry, Ledger
from spark_jobs.batch.night import (
    Night,
    check_log,
    check_repeatable,
    check_topic,
    check_unread,
    find_record_bytes,
    first_offsets,
    new_attempt,
    record_plans,
    with_sizes,
)
from spark_jobs.batch.plan import (
    LogBounds,
    Offsets,
    Ranges,
    RunPlan,
    Whereabouts,
    chunks,
    frontiers,
    leave_undated,
    plan_runs,
    progress,
    read_ranges,
    take_late,
    take_undated,
)
from spark_jobs.batch.records import plan_tasks, read_tasks
from spark_jobs.batch.tally import check_read, new_tallies, total
from spark_jobs.jobs import archive, audit, compact, reprocess
from spark_jobs.jobs.nightly import Program, check_dead_letters
from spark_jobs.observation.journal import PLAN
from spark_jobs.observation.stage_progress import watch_tasks
from spark_jobs.rows import RANGE_COLUMNS, TIMESTAMP_MS
from spark_jobs.task_reading.date_ranges import RANGES_TYPE, FindDateRanges

_INDEX_COLUMNS: Final = ("partition", "offset", TIMESTAMP_MS, *RANGE_COLUMNS)


def index(
    night: Night, topic: str, days: Sequence[date], ranges: Ranges, record_bytes: Mapping[int, int]
) -> dict[date, Whereabouts]:
    """Find out where between `ranges` each day's records are, and the undated ones. MissingRecordsError unless all of `ranges` was read."""
    tasks = plan_tasks(night.reading, topic, ranges, record_bytes)
    tallies = new_tallies(night.spark.sparkContext)
    log = read_tasks(night.spark, night.reading, topic, tasks, _INDEX_COLUMNS)
    of_tasks = log.mapInArrow(FindDateRanges.between(night.reading.zone, days, tallies), RANGES_TYPE)
    found_ranges = of_tasks.groupBy("date", "partition").agg(F.min("first").alias("first"), F.max("last").alias("last"))
    what = f"plan of {topic} {min(days)} to {max(days)}"
    with watch_tasks(night.progress, night.spark.sparkContext, what, tasks):
        rows = found_ranges.collect()
    by_date: dict[date, dict[int, tuple[int, int]]] = {day: {} for day in days}
    undated: dict[int, tuple[int, int]] = {}
    for row in rows:
        found = undated if row["date"] is None else by_date.get(row["date"], {})
        found[row["partition"]] = (row["first"], row["last"] + 1)
    tally = total(tallies.value.values())
    check_read(topic, {p: (start, end) for p, (start, end) in ranges.items() if start < end}, tally)
    return {day: Whereabouts(found, undated) for day, found in by_date.items()}


def plan(night: Night, ledger: Ledger, bounds: LogBounds, days: Sequence[date]) -> list[RunPlan]:
    """Return the plans of the days that are not archived: as recorded, or new ones, which are recorded. DataLossError."""
    recorded = {day: entry for day in days if (entry := ledger.read_pending(bounds.topic, day)) is not None}
    plans = [check_log(night, bounds, entry.plan) for entry in recorded.values()]
    fresh = [day for day in days if day not in recorded]
    if fresh:
        found = _fresh_plans(night, ledger, bounds, fresh)
        record_plans(ledger, found, new_attempt(ledger.job, bounds.topic, fresh[0]))
        plans += found
    return sorted(plans, key=lambda each: each.date)


def _fresh_plans(night: Night, ledger: Ledger, bounds: LogBounds, days: Sequence[date]) -> list[RunPlan]:
    start = first_offsets(night, bounds, min(days))
    plans = with_sizes(night, bounds, plan_runs(bounds, dict.fromkeys(days, start)))
    finished = ledger.done_plans(bounds.topic)
    plans[0] = check_unread(night, bounds, frontiers(finished), plans[0])
    plans[0] = take_undated(plans[0], finished, bounds.begin)
    if len(days) > 1:
        where = index(night, bounds.topic, days, read_ranges(plans), plans[0].record_bytes)
        plans = [where[each.date].narrow_plan(each) for each in plans]
    return plans


def main(
    night: Night, program: Program, topics: Sequence[str], days: Sequence[date], days_per_job: int, again: bool
) -> list[Entry]:
    """Archive all days of all topics, and make their results; those that are done only with `again`. JobError, ClientError."""
    entries = []
    for topic in topics:
        entries += _archive(night, program, topic, days, days_per_job, again)
        entries += _results(night, program, topic, days, again)
    if program.audits:
        audit.main(night, topics, days)
    check_dead_letters(night, program.dead_letters_allowed)
    return entries


def _archive(
    night: Night, program: Program, topic: str, days: Sequence[date], days_per_job: int, again: bool
) -> list[Entry]:
    ledger = night.ledger(archive.JOB)
    bounds = night.log.bounds(topic)
    done = {plan.date: plan for plan in ledger.done_plans(topic)}
    check_topic(bounds, done.values())
    missing = [day for day in days if day not in done]
    if len(missing) < len(days) and not again:
        night.tell(f"archive of {topic}: {len(days) - len(missing)} of {len(days)} days are done already")
    with night.journal.measure(PLAN):
        plans = plan(night, ledger, bounds, missing) if missing else []
    repeated = [check_repeatable(night, bounds, done[day]) for day in days if day in done] if again else []
    work = [(group, True) for group in chunks(plans, days_per_job)]
    work += [(group, False) for group in chunks(repeated, days_per_job)]
    progress = _Progress(night, topic, len(plans) + len(repeated))
    entries = []
    for group, is_new in work:
        if is_new:
            finished = ledger.done_plans(topic)
            group = take_late(group, frontiers(finished), bounds.begin)
            group = [leave_undated(each, finished) for each in group]
        found = archive.archive_dates(night, ledger, group, program.formats)
        progress.advance(found)
        entries += found
    return entries


def _results(night: Night, program: Program, topic: str, days: Sequence[date], again: bool) -> list[Entry]:
    """Make the transform for each day, and the snapshot as of the last one."""
    entries = []
    if (wanted := program.reprocessing) is not None:
        finished = night.ledger(wanted.job).done_plans(topic)
        done = {plan.date for plan in finished}
        left = [day for day in days if again or day not in done]
        where = _where(night, topic, left, progress(finished)) if len(left) > 1 else {}
        for day in left:
            entry = reprocess.main(night, topic, day, program.formats, wanted, where.get(day))
            night.tell(f"{entry.job} of {topic} {day}: {entry.counts['rows']:,} rows")
            entries.append(entry)
    if (compaction := program.compaction) is not None:
        entries.append(compact.main(night, topic, days[-1], program.formats, compaction))
    return entries


def _where(night: Night, topic: str, days: Sequence[date], reached: Offsets) -> Mapping[date, Whereabouts]:
    """Find out where each day's records are, and behind what finished runs have `reached` the undated ones."""
    bounds = night.log.bounds(topic)
    start = first_offsets(night, bounds, min(days))
    first = {p: min(start.get(p, end), reached.get(p, end)) for p, end in bounds.end.items()}
    ranges = {p: (max(first[p], bounds.begin[p]), end) for p, end in bounds.end.items()}
    return index(night, topic, days, ranges, find_record_bytes(night, bounds))


class _Progress:
    """Tells after each chunk how far the backfill is, and how long the rest may take."""

    def __init__(self, night: Night, topic: str, total: int) -> None:
        self._tell = night.tell
        self._topic = topic
        self._total = total
        self._done = 0
        self._begun_s = time.monotonic()

    def advance(self, entries: Iterable[Entry]) -> None:
        found = list(entries)
        self._done += len(found)
        took_s = time.monotonic() - self._begun_s
        left_s = took_s / self._done * (self._total - self._done)
        records = sum(entry.counts["records"] + entry.counts["late"] for entry in found)
        days = f"{found[0].plan.date}" + (f" to {found[-1].plan.date}" if len(found) > 1 else "")
        self._tell(
            f"archive of {self._topic} {days}: {records:,} records; {self._done} of {self._total} days, "
            f"{took_s:.0f} s so far, about {left_s:.0f} s left"
        )
