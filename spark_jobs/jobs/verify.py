"""Job `verify`: does the archive hold what the runs have read, by the ledger's digests, and does the log, as far as it still reaches?

Needs no Spark: files are read one by one. All rows that lie in a run's folders count, also those in files that the run did not write. Where
archive and ledger differ, the log tells the offsets, as long as it has them; after retention the ledger alone tells as much as it can.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import date
from functools import partial
from typing import Any, Final, Protocol

import pyarrow  # type: ignore[import-untyped]
from pyarrow import ArrowException, parquet

from kafkalite.client import ClientError, ErrorCode, hash_record
from spark_jobs.batch.failures import DifferencesError
from spark_jobs.batch.ledger import Entry, Ledger, Unit
from spark_jobs.batch.plan import LogBounds
from spark_jobs.batch.proof import (
    Bucket,
    Rows,
    Span,
    Sum,
    bucket_of,
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

_COLUMNS: Final = ("partition", "offset", "timestamp", "key", "value", "headers")
_MICROSECONDS: Final = pyarrow.timestamp("us", tz="UTC")
_UNDATED: Final = re.compile(r"timestamp: (-?\d+) ms ")
_SHOWN: Final = 10
_ROWS_AT_ONCE: Final = 10_000


class Log(Protocol):
    """The log, as this job asks it."""

    def bounds(self, topic: str) -> LogBounds: ...

    def digest(self, topic: str, spans: Sequence[Span]) -> Sum: ...


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that is not as the ledger says; `place` is a file, a partition, or the ledger's entry."""

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
    storage: Storage, log: Log | None, topics: Sequence[str], days: Sequence[date], is_signed: Check | None
) -> list[Verified]:
    """Verify days of topics. `log` is None where only the ledger counts; without `is_signed` signatures are not looked at."""
    ledger = Ledger(storage, JOB)
    return [_verify_day(storage, log, ledger, topic, day, is_signed) for topic in topics for day in days]


def judge(found: Sequence[Verified]) -> None:
    """DifferencesError, with the first findings, unless there are none."""
    every = [each for verified in found for each in verified.findings]
    if every:
        listed = "\n".join(f"  {each.topic} {each.date} {each.place}: {each.problem}" for each in every[:_SHOWN])
        more = f"\n  and {len(every) - _SHOWN} more" if len(every) > _SHOWN else ""
        raise DifferencesError(f"{len(every)} findings:\n{listed}{more}")


def _verify_day(
    storage: Storage, log: Log | None, ledger: Ledger, topic: str, day: date, is_signed: Check | None
) -> Verified:
    entry = ledger.read_done(topic, day)
    if entry is None:
        return _of_entry(topic, day, "no finished run: the ledger has no such entry")
    if is_signed is not None and not is_signed(entry.signed_content, entry.signature):
        why = "the signature is not that of this entry and key" if entry.signature else "the entry is not signed"
        return _of_entry(topic, day, f"{why}: nothing that it says counts")
    if not entry.zone:
        return _of_entry(topic, day, "the run noted no digests; run it with --ledger-key")
    problems = list(_check_files(storage, entry))
    sums: dict[tuple[int, int], Sum] = {}
    try:
        for partition, offset, hashed in _read_rows(storage, entry):
            place = bucket_of(partition, offset)
            sums[place] = sums.get(place, Sum()) + Sum(1, hashed, offset, offset)
    except _Unreadable as problem:
        problems.append((problem.path, problem.reason))
    spans, in_log = _spans_in_log(entry, log)
    wrong = differing(entry.digests, sums)
    problems += _explain_buckets(storage, entry, wrong, spans, log)
    problems += _compare_log(entry, spans, log)
    found = tuple(Finding(topic, str(day), place, problem) for place, problem in problems)
    return Verified(topic, str(day), sum(each.records for each in entry.digests), in_log, found)


def _of_entry(topic: str, day: date, problem: str) -> Verified:
    return Verified(topic, str(day), 0, 0, (Finding(topic, str(day), "ledger", problem),))


def _check_files(storage: Storage, entry: Entry) -> Iterator[tuple[str, str]]:
    """Yield the files that are lost, changed, or not of the run, with what is wrong."""
    for unit in entry.units:
        there = {each.name: each for each in storage.entries(unit.path) if not each.is_folder}
        for file in unit.files:
            path, found = f"{unit.path}/{file.name}", there.pop(file.name, None)
            if found is None:
                yield path, f"the file is lost, with {file.rows} records"
            elif found.size_bytes != file.bytes or (file.digest and storage.digest(path) not in (file.digest, None)):
                yield path, "the file is not as the run wrote it"
        for name in there:
            if not name.startswith(("_", ".")):
                yield f"{unit.path}/{name}", "the file is none of the run's"


class _Unreadable(Exception):
    def __init__(self, path: str, reason: str) -> None:
        super().__init__(path, reason)
        self.path, self.reason = path, reason


def _read_rows(storage: Storage, entry: Entry) -> Iterator[tuple[int, int, int]]:
    """Yield partition, offset and hash of each row in the folders of a run. Raises _Unreadable."""
    for unit in entry.units:
        for path in _files_of(storage, unit):
            try:
                file = parquet.ParquetFile(io.BytesIO(storage.read(path) or b""), coerce_int96_timestamp_unit="us")
                columns = [*_COLUMNS, *(["reason"] if "reason" in file.schema_arrow.names else [])]
                for batch in file.iter_batches(_ROWS_AT_ONCE, columns=columns):
                    yield from _hash_rows(batch)
            except (ArrowException, OSError, KeyError, ValueError) as problem:
                raise _Unreadable(path, f"cannot be read: {str(problem).splitlines()[0]}") from problem


def _files_of(storage: Storage, unit: Unit) -> list[str]:
    return [
        f"{unit.path}/{each.name}"
        for each in storage.entries(unit.path)
        if not each.is_folder and not each.name.startswith(("_", "."))
    ]


def _hash_rows(batch: Any) -> Iterator[tuple[int, int, int]]:
    times = batch.column("timestamp").cast(_MICROSECONDS).cast("int64").to_pylist()
    columns = [batch.column(name).to_pylist() for name in ("partition", "offset", "key", "value", "headers")]
    reasons = batch.column("reason").to_pylist() if "reason" in batch.schema.names else [None] * len(times)
    for time_us, reason, partition, offset, key, value, headers in zip(times, reasons, *columns, strict=True):
        time_ms = _undated_ms(reason) if time_us is None else time_us // 1000
        listed = [(each["key"], each["value"]) for each in headers or ()]
        yield partition, offset, hash_record(offset, time_ms, key, value, listed)


def _undated_ms(reason: str | None) -> int:
    """Return the timestamp that Spark cannot show, from the reason why its record is a dead letter. ValueError."""
    if found := _UNDATED.match(reason or ""):
        return int(found[1])
    raise ValueError("a row without a timestamp, and without a reason that has it")


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
    storage: Storage, entry: Entry, wrong: Sequence[Bucket], spans: Sequence[Span], log: Log | None
) -> Iterator[tuple[str, str]]:
    """Yield what is wrong with the archive's rows, by partition."""
    if not wrong:
        return
    rows = {(each.partition, each.start): Rows() for each in wrong}
    try:
        for partition, offset, hashed in _read_rows(storage, entry):
            if (bucket_place := bucket_of(partition, offset)) in rows:
                rows[bucket_place].add(offset, hashed)
    except _Unreadable:
        pass  # noted before
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
