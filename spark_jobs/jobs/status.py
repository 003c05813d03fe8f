"""What has been done: the ledger of an output as rows, with the dates that are missing in between. Needs neither Spark nor brokers."""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import Any

from spark_jobs.batch.ledger import Entry, Ledger, jobs_with_ledger
from spark_jobs.batch.storage import Storage
from spark_jobs.batch.window import list_days
from spark_jobs.portions.staged_files import add_staged_files

MISSING = "missing"


def plan(storage: Storage) -> list[tuple[str, str]]:
    """Return the jobs and topics that the ledger knows."""
    return [(job, topic) for job in jobs_with_ledger(storage) for topic in Ledger(storage, job).topics()]


def transform(job: str, topic: str, done: list[Entry], pending: list[Entry]) -> list[dict[str, Any]]:
    """Return the rows by date; a date that is done and at work again has the state of the work."""
    by_date = {entry.plan.date: entry for entry in [*done, *pending]}
    rows = []
    for day in list_days(min(by_date), max(by_date)) if by_date else ():
        entry = by_date.get(day)
        rows.append(_missing(job, topic, day) if entry is None else row_of(entry))
    return rows


def main(storage: Storage) -> list[dict[str, Any]]:
    """Return the rows of all jobs and topics. OutputError."""
    rows = []
    for job, topic in plan(storage):
        ledger = Ledger(storage, job)
        pending = [add_staged_files(storage, entry) for entry in ledger.all_pending(topic)]
        rows += transform(job, topic, ledger.all_done(topic), pending)
    return rows


def row_of(entry: Entry) -> dict[str, Any]:
    """Return what people want to see of an entry."""
    counts = entry.counts
    return {
        "job": entry.job,
        "topic": entry.plan.topic,
        "date": str(entry.plan.date),
        "state": entry.state,
        "records": counts.get("records", counts.get("rows")),
        "late": counts.get("late"),
        "dead_letters": counts.get("dead_letters"),
        "files": sum(len(unit.files) for unit in entry.units),
        "bytes": sum(unit.bytes for unit in entry.units),
        "done_at": _time(entry.done_ms) if entry.done_ms else None,
    }


def _missing(job: str, topic: str, day: date) -> dict[str, Any]:
    columns = ("records", "late", "dead_letters", "files", "bytes", "done_at")
    return {"job": job, "topic": topic, "date": str(day), "state": MISSING, **dict.fromkeys(columns)}


def _time(unix_ms: int) -> str:
    """Return a time of the ledger as text; its number where there is no such date."""
    try:
        return datetime.fromtimestamp(unix_ms / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    except (ValueError, OverflowError, OSError):
        return f"{unix_ms} ms"
