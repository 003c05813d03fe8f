"""The ledger: which run read which ranges, and what it published. One JSON file for each job, topic and date, next to the output.

A run writes its plan into a *pending* file before it reads anything, lists there what is to be published before it publishes, and
writes the *done* file last; then the pending file goes. So after a crash:

- pending and "planned": nothing of it is visible; the date is run again with the recorded ranges, behind what it has read (`portions`).
- pending and "publishing": everything is staged; whoever comes next finishes it (`publication`).
- done, and no pending file: the date is as the file says.

A run that has a key notes the digests of its part of the log (`proof`), and signs its entry when it is done (`signatures`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import date
from typing import Any

from spark_jobs.batch import layout
from spark_jobs.batch.failures import OutputError
from spark_jobs.batch.plan import LateDates, Ranges, RunPlan, Spans
from spark_jobs.batch.proof import Bucket
from spark_jobs.batch.signatures import Sign
from spark_jobs.batch.storage import Storage
from spark_jobs.observation.run_facts import RunFacts

_VERSION = 1
_PENDING = ".pending.json"
_DONE = ".json"

PLANNED, PUBLISHING, DONE = "planned", "publishing", "done"


@dataclass(frozen=True, slots=True)
class PartFile:
    """A Parquet file of a unit; `digest` of its contents is "" where the file system does not give one cheaply."""

    name: str
    bytes: int
    rows: int
    digest: str


@dataclass(frozen=True, slots=True)
class Unit:
    """A folder that is published as a whole: its path, where it is staged, its files."""

    path: str
    staged: str
    date: str
    files: tuple[PartFile, ...]
    identity: str
    """Equal for units with the same contents, where the file system tells; else of one attempt."""

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Unit:
        """ValueError, KeyError or TypeError for something else than `asdict` gives."""
        return cls(**{**document, "files": tuple(PartFile(**file) for file in document["files"])})

    @property
    def rows(self) -> int:
        return sum(file.rows for file in self.files)

    @property
    def bytes(self) -> int:
        return sum(file.bytes for file in self.files)


@dataclass(frozen=True, slots=True)
class Entry:
    """What the ledger holds of a run. `counts` are the job's own figures; times are Unix ms.

    `sink_topic` is a topic that gets the result too ("" for none), `sink_start` where its partitions ended before.
    """

    job: str
    plan: RunPlan
    state: str
    attempt: str
    units: tuple[Unit, ...] = ()
    counts: Mapping[str, int] = field(default_factory=dict)
    sink_topic: str = ""
    sink_start: Mapping[int, int] = field(default_factory=dict)
    planned_ms: int = 0
    done_ms: int = 0
    zone: str = ""
    """The time zone of dates, where there are digests."""
    digests: tuple[Bucket, ...] = ()
    signature: str = ""
    facts: RunFacts | None = None
    """None in entries of before there were any."""

    def encode(self) -> bytes:
        return json.dumps(self._to_json(), indent=1).encode()

    @property
    def signed_content(self) -> bytes:
        """Return the bytes that are signed: all but the signature."""
        document = self._to_json()
        del document["signature"]
        return json.dumps(document, sort_keys=True, separators=(",", ":")).encode()

    def _to_json(self) -> dict[str, Any]:
        return {"version": _VERSION, **asdict(self), "plan": plan_to_json(self.plan)}

    @classmethod
    def decode(cls, data: bytes, path: str) -> Entry:
        """OutputError names the file when it holds something else."""
        try:
            document = json.loads(data)
            if document.pop("version") != _VERSION:
                raise ValueError("another version")
            units = tuple(Unit.from_json(each) for each in document.pop("units"))
            plan, start = _plan_from_json(document["plan"]), _offsets(document["sink_start"])
            digests = tuple(Bucket(**each) for each in document.pop("digests", ()))
            facts = RunFacts.from_json(found) if (found := document.get("facts")) is not None else None
            decoded = {"plan": plan, "sink_start": start, "units": units, "digests": digests, "facts": facts}
            return cls(**{**document, **decoded})
        except (ValueError, KeyError, TypeError, AttributeError) as problem:
            raise OutputError(
                f"{path} is no entry of the ledger ({problem}); move it away and run its date again"
            ) from problem


class Ledger:
    """The entries of one job."""

    def __init__(self, storage: Storage, job: str) -> None:
        self._storage = storage
        self.job = job
        self._plans: dict[str, dict[date, RunPlan]] = {}

    def done_plans(self, topic: str) -> list[RunPlan]:
        """Return the plans of the finished runs of a topic, by date.

        They are read once and kept: while a run holds its lock, nobody else finishes one. So many days cost no more than each by itself.
        """
        if topic not in self._plans:
            self._plans[topic] = {entry.plan.date: entry.plan for entry in self.all_done(topic)}
        return [plan for _, plan in sorted(self._plans[topic].items())]

    def read_done(self, topic: str, day: date) -> Entry | None:
        return self._read(layout.done_file(self.job, topic, day))

    def read_pending(self, topic: str, day: date) -> Entry | None:
        return self._read(layout.pending_file(self.job, topic, day))

    def all_done(self, topic: str) -> list[Entry]:
        """Return the finished runs of a topic, by date."""
        return self._entries(topic, pending=False)

    def all_pending(self, topic: str) -> list[Entry]:
        """Return the runs of a topic that are planned or being published, by date."""
        return self._entries(topic, pending=True)

    def topics(self) -> list[str]:
        """Return the topics that have entries."""
        return [each.name for each in self._storage.entries(f"{layout.LEDGER}/{self.job}") if each.is_folder]

    def put_pending(self, entry: Entry) -> None:
        self._storage.write(layout.pending_file(self.job, entry.plan.topic, entry.plan.date), entry.encode())

    def forget_pending(self, entry: Entry) -> None:
        """Remove the pending file of an attempt that came to nothing."""
        self._storage.remove(layout.pending_file(self.job, entry.plan.topic, entry.plan.date))

    def finish(self, entry: Entry, done_ms: int, sign: Sign | None = None) -> Entry:
        """Mark a run as done, which is its last step, and sign that where there is a key."""
        finished = replace(entry, state=DONE, done_ms=done_ms, signature="")
        if sign is not None:
            finished = replace(finished, signature=sign(finished.signed_content))
        plan = entry.plan
        self._storage.write(layout.done_file(self.job, plan.topic, plan.date), finished.encode())
        if plan.topic in self._plans:
            self._plans[plan.topic][plan.date] = plan
        self.forget_pending(entry)
        return finished

    def _entries(self, topic: str, *, pending: bool) -> list[Entry]:
        folder = layout.ledger_folder(self.job, topic)
        found = []
        for each in self._storage.entries(folder):
            # Temporary files of writers that were killed begin with a dot.
            if not each.name.endswith(_DONE) or each.name.startswith(".") or each.name.endswith(_PENDING) != pending:
                continue
            if (entry := self._read(f"{folder}/{each.name}")) is not None:
                found.append(entry)
        return sorted(found, key=lambda entry: entry.plan.date)

    def _read(self, path: str) -> Entry | None:
        data = self._storage.read(path)
        return None if data is None else Entry.decode(data, path)


def jobs_with_ledger(storage: Storage) -> list[str]:
    """Return the jobs that have ever written to this output."""
    return [each.name for each in storage.entries(layout.LEDGER) if each.is_folder]


def plan_to_json(plan: RunPlan) -> dict[str, Any]:
    """Return what an entry has of a plan."""
    return {
        "topic": plan.topic,
        "topic_id": plan.topic_id,
        "date": str(plan.date),
        "ranges": plan.ranges,
        "coverage": plan.coverage,
        "late": [{"first": str(each.first), "last": str(each.last), "start": each.start} for each in plan.late],
        "lost": plan.lost,
        "undated": plan.undated,
        # Left out where there are none: entries of before have signatures without them.
        **({"record_bytes": plan.record_bytes} if plan.record_bytes else {}),
    }


def _plan_from_json(document: Mapping[str, Any]) -> RunPlan:
    return RunPlan(
        topic=document["topic"],
        topic_id=document["topic_id"],
        date=date.fromisoformat(document["date"]),
        ranges=_ranges(document["ranges"]),
        coverage=_offsets(document["coverage"]),
        late=tuple(
            LateDates(date.fromisoformat(each["first"]), date.fromisoformat(each["last"]), _offsets(each["start"]))
            for each in document["late"]
        ),
        lost=_ranges(document["lost"]),
        undated=_spans(document.get("undated", {})),  # runs before there were any took none
        record_bytes=_offsets(document.get("record_bytes", {})),
    )


def _ranges(document: Mapping[str, Any]) -> Ranges:
    return {int(partition): (int(start), int(end)) for partition, (start, end) in document.items()}


def _spans(document: Mapping[str, Any]) -> Spans:
    return {int(p): tuple((int(start), int(end)) for start, end in spans) for p, spans in document.items()}


def _offsets(document: Mapping[str, Any]) -> dict[int, int]:
    return {int(partition): int(offset) for partition, offset in document.items()}
