"""What the jobs of a night share, and how any of them goes from a plan to a finished entry in the ledger."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from functools import partial

from pyspark.sql import SparkSession

from kafkalite.client import ClientError
from spark_jobs.batch import layout
from spark_jobs.batch.cluster_log import ClusterLog
from spark_jobs.batch.failures import DataLossError
from spark_jobs.batch.ledger import PLANNED, PUBLISHING, Entry, Ledger, Unit, jobs_with_ledger
from spark_jobs.batch.plan import LogBounds, Offsets, Ranges, RunPlan, lost_before_reading, lost_of_plan, progress
from spark_jobs.batch.proof import BUCKET_OFFSETS, clip_spans, make_buckets, spans_of
from spark_jobs.batch.publication import Guard, clear_staging, publish
from spark_jobs.batch.records import Reading
from spark_jobs.batch.signatures import Sign
from spark_jobs.batch.storage import Storage
from spark_jobs.batch.topic_sink import send, transactional_prefix
from spark_jobs.batch.window import day_start_ms, time_zone
from spark_jobs.observation.journal import PUBLISH, SEND, Journal
from spark_jobs.observation.progress import ProgressBoard
from spark_jobs.portions.staged_work import is_staged
from spark_jobs.tables.publication import check_columns, publish_to_tables, readable_folder, staged_rows
from spark_jobs.tables.table_format import TableFormat

GROUP_PREFIX = "kafkalite-"


def now_ms() -> int:
    return time.time_ns() // 1_000_000


@dataclass(frozen=True, slots=True)
class Night:
    """Everything that a job works with. `refresh` plans dates again, up to the log's present end, that were planned before."""

    spark: SparkSession
    log: ClusterLog
    storage: Storage
    reading: Reading
    guard: Guard
    tell: Callable[[str], None]
    refresh: bool = False
    group_prefix: str = GROUP_PREFIX
    dead_letters: dict[str, int] = field(default_factory=dict)
    """Counted by job and topic while the night goes on."""
    sign: Sign | None = None
    """Signs the ledger's entries, where there is a key; then these have the digests of what runs read."""
    journal: Journal = field(default_factory=Journal)
    tables: TableFormat | None = None
    """None for folders of Parquet."""
    progress: ProgressBoard = field(default_factory=ProgressBoard)
    told: set[str] = field(default_factory=set)
    """What was told and is not to be told again."""
    ledgers: dict[str, Ledger] = field(default_factory=dict)
    """By job, as far as they were needed."""

    def ledger(self, job: str) -> Ledger:
        """Return the ledger of a job, the same one throughout the night."""
        return self.ledgers.setdefault(job, Ledger(self.storage, job))

    def spark_path(self, path: str) -> str:
        """Return a path of the output in the form that Spark takes."""
        return self.storage.spark_path(path)

    def count_dead_letters(self, topic: str, job: str, count: int) -> None:
        if count:
            what = f"{job} of {topic}"
            self.dead_letters[what] = self.dead_letters.get(what, 0) + count

    def tell_once(self, text: str) -> None:
        """Tell something that holds for the whole night."""
        if text not in self.told:
            self.told.add(text)
            self.tell(text)

    def group(self, job: str) -> str:
        """Return the consumer group that shows how far a job is."""
        return f"{self.group_prefix}{job}"


def new_attempt(job: str, topic: str, day: date) -> str:
    """Return the name of an attempt's staging folder."""
    return f"{job}.{topic}.{day}.{secrets.token_hex(4)}"


def first_offsets(night: Night, bounds: LogBounds, day: date) -> dict[int, int]:
    """Return each partition's first offset whose record is not older than the date; none where there is no such record."""
    return night.log.first_offsets(bounds, day_start_ms(day, time_zone(night.reading.zone)))


def find_record_bytes(night: Night, bounds: LogBounds) -> dict[int, int]:
    """Return `ClusterLog.record_bytes`; nothing, which is told, where brokers do not tell it to this user."""
    try:
        return night.log.record_bytes(bounds)
    except ClientError as problem:
        night.tell_once(f"note: tasks are cut by numbers of records alone, for brokers do not tell sizes: {problem}")
        return {}


def with_sizes(night: Night, bounds: LogBounds, plans: Iterable[RunPlan]) -> list[RunPlan]:
    """Return new plans with the average bytes of an offset."""
    found = find_record_bytes(night, bounds)
    return [replace(plan, record_bytes=found) for plan in plans]


def check_topic(bounds: LogBounds, plans: Iterable[RunPlan]) -> None:
    """Raise DataLossError when runs were planned on another topic of the same name."""
    for plan in plans:
        if plan.topic_id and bounds.topic_id and plan.topic_id != bounds.topic_id:
            raise DataLossError(
                f"topic {bounds.topic} was deleted and created again since the run of {plan.date} was planned: "
                "its records are not in the log any more; give the new topic another --output"
            )


def check_log(night: Night, bounds: LogBounds, plan: RunPlan) -> RunPlan:
    """Return a plan that was recorded, if the log can still serve it. DataLossError, or what is lost noted in the plan."""
    check_topic(bounds, [plan])
    beyond = {p: end for p, end in plan.coverage.items() if end > bounds.end.get(p, 0)}
    if beyond:
        partition, end = next(iter(beyond.items()))
        raise DataLossError(
            f"the log of {bounds.topic}-{partition} ends at {bounds.end.get(partition, 0)}, but the run of {plan.date} was "
            f"planned up to {end}: the cluster has lost records"
        )
    lost = lost_of_plan(plan, bounds.begin)
    return with_loss(night, plan, lost) if lost else plan


def check_repeatable(night: Night, bounds: LogBounds, plan: RunPlan) -> RunPlan:
    """Return the plan of a finished run, if it can be repeated in full: what is archived is never replaced by less. DataLossError."""
    lost = lost_of_plan(plan, bounds.begin)
    if lost:
        raise DataLossError(
            f"{plan.topic} {plan.date} is archived already, and the log has lost what it was made from: {_list_ranges(plan, lost)}; "
            "the archive stays as it is"
        )
    return check_log(night, bounds, plan)


def recorded_plan(night: Night, ledger: Ledger, bounds: LogBounds, day: date) -> RunPlan | None:
    """Return the plan of a date by the ledger, if the log can still serve it. DataLossError."""
    done, pending = ledger.read_done(bounds.topic, day), ledger.read_pending(bounds.topic, day)
    if done is not None:
        return check_repeatable(night, bounds, done.plan)
    return None if pending is None else check_log(night, bounds, pending.plan)


def check_unread(night: Night, bounds: LogBounds, known: Mapping[date, Offsets], plan: RunPlan) -> RunPlan:
    """Return a new plan, if nothing was lost that no run has read. DataLossError, or what is lost noted in the plan."""
    lost = dict(lost_before_reading(known, bounds.begin))
    if not known:
        # Nobody can tell what was there before the log's beginning; the date may have begun there.
        lost = {
            p: (0, begin)
            for p, begin in bounds.begin.items()
            if begin > 0 and plan.ranges.get(p, (begin, 0))[0] == begin
        }
    return with_loss(night, plan, lost) if lost else plan


def note_digests(night: Night, entry: Entry) -> Entry:
    """Return an entry with the digests of what its run has taken from the log; as it is where nobody signs it. ClientError."""
    if night.sign is None:
        return entry
    plan, zone = entry.plan, night.reading.zone
    spans = clip_spans(spans_of(plan, time_zone(zone)), night.log.bounds(plan.topic).begin)
    buckets = make_buckets(night.log.digest_parts(plan.topic, spans, BUCKET_OFFSETS))
    return replace(entry, zone=zone, digests=tuple(buckets))


def with_loss(night: Night, plan: RunPlan, lost: Ranges) -> RunPlan:
    """Note lost offsets in the plan. DataLossError unless the user accepts them."""
    text = (
        f"offsets that the run of {plan.date} may need are gone from the log by retention: {_list_ranges(plan, lost)}"
    )
    if night.reading.fail_on_data_loss:
        raise DataLossError(f"{text}; to go on with what is left, give --no-fail-on-data-loss")
    night.tell(f"warning: {text}")
    return replace(plan, lost={**plan.lost, **lost})


def _list_ranges(plan: RunPlan, lost: Ranges) -> str:
    return ", ".join(f"{plan.topic}-{p} {start} to {end - 1}" for p, (start, end) in sorted(lost.items()))


def record_plans(ledger: Ledger, plans: Iterable[RunPlan], attempt: str) -> list[Entry]:
    """Write the plans down, before anything is read."""
    entries = [Entry(ledger.job, plan, PLANNED, attempt, planned_ms=now_ms()) for plan in plans]
    for entry in entries:
        ledger.put_pending(entry)
    return entries


def finish(night: Night, ledger: Ledger, entry: Entry, units: Sequence[Unit], counts: Mapping[str, int]) -> Entry:
    """Publish what an attempt has staged, and mark it done. A crash in between is made good by `recover`."""
    return finish_ready(night, ledger, make_ready(night, ledger, entry, units, counts))


def make_ready(night: Night, ledger: Ledger, entry: Entry, units: Sequence[Unit], counts: Mapping[str, int]) -> Entry:
    """Record what an attempt has staged, so that the next run finishes it if this one dies before `finish_ready`."""
    night.guard()
    ready = replace(entry, state=PUBLISHING, units=tuple(units), counts=dict(counts))
    if night.tables is not None:
        # What can never be published must not be left to those who finish it.
        rows_of = partial(staged_rows, night.spark, night.storage, night.tables)
        check_columns(rows_of, ready, ledger.read_done(entry.plan.topic, entry.plan.date))
    ledger.put_pending(ready)
    return ready


def finish_ready(night: Night, ledger: Ledger, entry: Entry) -> Entry:
    """Publish an entry that is ready, and mark it done."""
    plan, journal = entry.plan, night.journal
    replaced = ledger.read_done(plan.topic, plan.date)
    with journal.measure(PUBLISH):
        if night.tables is None:
            publish(night.storage, entry, replaced, night.guard)
        else:
            rows_of = partial(staged_rows, night.spark, night.storage, night.tables)
            publish_to_tables(night.storage, night.tables, rows_of, entry, replaced, night.guard)
    if entry.sink_topic:
        with journal.measure(SEND):
            _send(night, entry)
    reached = progress([*ledger.done_plans(plan.topic), plan])
    night.log.commit(night.group(ledger.job), plan.topic, reached)
    finished = ledger.finish(_with_stages(entry, journal.take_stages()), now_ms(), night.sign)
    journal.finish_entry(finished)
    return finished


def _with_stages(entry: Entry, stages_ms: Mapping[str, int]) -> Entry:
    """Return the entry with more durations among its facts, if it has any."""
    if entry.facts is None:
        return entry
    return replace(entry, facts=replace(entry.facts, stages_ms={**entry.facts.stages_ms, **stages_ms}))


def _send(night: Night, entry: Entry) -> None:
    """Send the rows of the result that are not there yet to the sink's topic."""
    results = [unit for unit in entry.units if not unit.path.startswith(layout.DEAD_LETTERS)]
    if not results:
        return
    (result,) = results
    folder = readable_folder(night.tables, result)
    files = {night.spark_path(f"{folder}/{file.name}"): file.rows for file in result.files}
    run = f"{entry.job}/{entry.plan.topic}/{entry.plan.date}/{result.identity}"
    night.log.end_transactions(f"{transactional_prefix(run)}-")  # of an attempt that died
    end = night.log.bounds(entry.sink_topic).end
    send(night.spark, night.reading, files, run, entry.sink_topic, entry.sink_start, end)


def recover(night: Night) -> None:
    """Finish what an earlier run, of any job, was publishing when it died, and clear away what it had staged besides."""
    for job in jobs_with_ledger(night.storage):
        ledger = night.ledger(job)
        for topic in ledger.topics():
            for entry in ledger.all_pending(topic):
                if entry.state == PUBLISHING:
                    night.tell(
                        f"{job} of {topic} {entry.plan.date}: finishing what an earlier run had begun to publish"
                    )
                    finish_ready(night, ledger, entry)
                elif ledger.read_done(topic, entry.plan.date) is not None:
                    ledger.forget_pending(entry)  # a repetition that came to nothing: the date is as it was
    clear_left(night.storage)


def clear_left(storage: Storage) -> None:
    """Remove what attempts have staged, but for the portions of those that the ledger has as planned: the next run goes on with them."""
    kept = set()
    for job in jobs_with_ledger(storage):
        ledger = Ledger(storage, job)
        pending = (entry for topic in ledger.topics() for entry in ledger.all_pending(topic))
        kept |= {entry.attempt for entry in pending if entry.state == PLANNED}
    clear_staging(storage, {attempt for attempt in kept if is_staged(storage, attempt)})


def staging(attempt: str, kind: str) -> str:
    """Return the folder in which Spark writes what becomes units of one kind."""
    return f"{layout.attempt_folder(attempt)}/{kind}"
