"""Job `verify`: does the archive hold what the runs have read, by the ledger's digests, and does the log, as far as it still reaches?

Parquet files need no Spark, tables are read by it. All rows count that a reader finds in a run's folders or partitions, whoever wrote
them. Where archive and ledger differ, the log tells the offsets, as long as it has them; after retention the ledger alone tells as much as
it can.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import date
from functools import partial
from typing import Any, Final, Protocol

from kafkalite.client import ClientError, ErrorCode
from spark_jobs.archived.folder_rows import Archive, FolderArchive
from spark_jobs.batch.failures import DifferencesError
from spark_jobs.batch.ledger import Entry, Ledger
from spark_jobs.batch.plan import LogBounds
from spark_jobs.batch.proof import (
    Bucket,
    Span,
    Sum,
    differing,
    explain,
    group_problems,
    narrow,
    spans_of,
    within,
)
from spark_jobs.batch.signatures import Check
from spark_jobs.batch.storage import Storage
from spark_jobs.batch.window import time_zone

JOB: Final = "archive"
"""The job whose runs are verified. (Its module needs Spark.)"""

_SHOWN: Final = 10


class Log(Protocol):
    """The log, as this job asks it."""

    def bounds(self, topic: str) -> LogBounds: ...

    def digest(self, topic: str, spans: Sequence[Span]) -> Sum: ...


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that is not as the ledger says; `place` is a file, a table, a partition, or the ledger's entry."""

    topic: str
    date: str
    place: str
    problem: str


@dataclass(frozen=True, slots=True)
class Verified:
    """What was found about one date; `records` are those that the ledger has digests of, `in_log` those of them that the log has too."""

    topic: str
    date: str
    records: int
    in_log: int
    findings: tuple[Finding, ...]

    def rows(self) -> list[dict[str, Any]]:
        """Return a row for each finding, or one for a date that is as it should be."""
        facts = {"topic": self.topic, "date": self.date, "records": self.records, "in_log": self.in_log}
        if not self.findings:
            return [{**facts, "place": None, "problem": None}]
        return [{**facts, **asdict(each)} for each in self.findings]


def main(
    storage: Storage,
    log: Log | None,
    topics: Sequence[str],
    days: Sequence[date],
    is_signed: Check | None,
    archive: Archive | None = None,
) -> list[Verified]:
    """Verify days of topics. `log` is None where only the ledger counts; without `is_signed` signatures are not looked at. `archive` is
    None for folders of Parquet.
    """
    ledger, held = Ledger(storage, JOB), archive or FolderArchive(storage)
    return [_verify_day(held, log, ledger, topic, day, is_signed) for topic in topics for day in days]


def judge(found: Sequence[Verified]) -> None:
    """DifferencesError, with the first findings, unless there are none."""
    every = [each for verified in found for each in verified.findings]
    if every:
        listed = "\n".join(f"  {each.topic} {each.date} {each.place}: {each.problem}" for each in every[:_SHOWN])
        more = f"\n  and {len(every) - _SHOWN} more" if len(every) > _SHOWN else ""
        raise DifferencesError(f"{len(every)} findings:\n{listed}{more}")


def _verify_day(
    archive: Archive, log: Log | None, ledger: Ledger, topic: str, day: date, is_signed: Check | None
) -> Verified:
    entry = ledger.read_done(topic, day)
    if entry is None:
        return _of_entry(topic, day, "no finished run: the ledger has no such entry")
    if is_signed is not None and not is_signed(entry.signed_content, entry.signature):
        why = "the signature is not that of this entry and key" if entry.signature else "the entry is not signed"
        return _of_entry(topic, day, f"{why}: nothing that it says counts")
    if not entry.zone:
        return _of_entry(topic, day, "the run noted no digests; run it with --ledger-key")
    problems: list[tuple[str, str]] = [*archive.find_problems(entry)]
    sums, unread = archive.add_up(entry)
    problems += unread
    spans, in_log = _spans_in_log(entry, log)
    wrong = differing(entry.digests, sums)
    problems += _explain_buckets(archive, entry, wrong, spans, log)
    problems += _compare_log(entry, spans, log)
    found = tuple(Finding(topic, str(day), place, problem) for place, problem in problems)
    return Verified(topic, str(day), sum(each.records for each in entry.digests), in_log, found)


def _of_entry(topic: str, day: date, problem: str) -> Verified:
    return Verified(topic, str(day), 0, 0, (Finding(topic, str(day), "ledger", problem),))


def _spans_in_log(entry: Entry, log: Log | None) -> tuple[list[Span], int]:
    """Return the spans of an entry whose buckets the log has as a whole, and how many records are in these."""
    if log is None:
        return [], 0
    bounds = log.bounds(entry.plan.topic)
    if bounds.topic_id and entry.plan.topic_id not in ("", bounds.topic_id):
        return [], 0  # another topic of the same name
    begin = bounds.begin
    spans = spans_of(entry.plan, time_zone(entry.zone))
    kept = [each for each in entry.digests if _is_in_log(each, spans, begin.get(each.partition, 0))]
    found = [part for each in kept for part in within(spans, each.partition, each.start, each.end)]
    return found, sum(each.records for each in kept)


def _is_in_log(bucket: Bucket, spans: Sequence[Span], begin: int) -> bool:
    return all(each.start >= begin for each in within(spans, bucket.partition, bucket.start, bucket.end))


def _explain_buckets(
    archive: Archive, entry: Entry, wrong: Sequence[Bucket], spans: Sequence[Span], log: Log | None
) -> Iterator[tuple[str, str]]:
    """Yield what is wrong with the archive's rows, by partition."""
    if not wrong:
        return
    rows = archive.find_rows(entry, [(each.partition, each.start) for each in wrong])
    topic = entry.plan.topic
    for bucket in wrong:
        place = f"{topic}-{bucket.partition}"
        some = within(spans, bucket.partition, bucket.start, bucket.end)
        found = rows[bucket.partition, bucket.start]
        if log is None or not some or log.digest(topic, some) != bucket.sum:
            yield place, explain(bucket, found)
            continue
        for problem in group_problems(narrow(bucket, found, partial(_ask_part, log, topic, some))):
            yield place, problem


def _ask_part(log: Log, topic: str, spans: Sequence[Span], start: int, end: int) -> Sum:
    """Return what the log has between two offsets of spans of one partition."""
    return log.digest(topic, within(spans, spans[0].partition, start, end))


def _compare_log(entry: Entry, spans: Sequence[Span], log: Log | None) -> Iterator[tuple[str, str]]:
    """Yield the buckets of which the log has something else than the ledger says."""
    if log is None:
        return
    for bucket in entry.digests:
        some = within(spans, bucket.partition, bucket.start, bucket.end)
        if not some:
            continue
        place, where = f"{entry.plan.topic}-{bucket.partition}", f"among offsets {bucket.start} to {bucket.end - 1}"
        try:
            found = log.digest(entry.plan.topic, some)
        except ClientError as problem:
            if problem.code is not ErrorCode.OFFSET_OUT_OF_RANGE:
                raise
            continue  # retention was faster
        if found.records != bucket.records:
            yield place, f"the log has {found.records} records {where}, the ledger {bucket.records}"
        elif found != bucket.sum:
            yield place, f"the log has other records {where} than the ledger"
