"""What the page of a night shows, from the ledger and the newest audits: each topic with what its runs of the date did."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, timedelta
from statistics import median
from typing import Any, Final, NamedTuple

from spark_jobs.batch import layout
from spark_jobs.batch.ledger import Entry, Ledger, jobs_with_ledger
from spark_jobs.batch.storage import Storage

ARCHIVE: Final = "archive"
HISTORY_DATES: Final = 14
GOOD, WARN, BAD = "good", "warn", "bad"

_FEW: Final = 0.5
_NIGHTS_TO_COMPARE: Final = 3


class Finding(NamedTuple):
    """Something that a person should know; `level` is one of GOOD, WARN, BAD."""

    level: str
    text: str


@dataclass(frozen=True, slots=True)
class TopicNight:
    """One topic's night.

    `done` and `pending` are the runs of the date by job, `history` the archived records of the dates up to this one, None where there was
    no run. `audit` is the content of the newest audit's file.
    """

    topic: str
    day: date
    done: Mapping[str, Entry]
    pending: Mapping[str, Entry]
    history: Sequence[tuple[date, int | None]]
    audit: Mapping[str, Any] | None = None

    @property
    def archived(self) -> Entry | None:
        return self.done.get(ARCHIVE)

    @property
    def dead_letters(self) -> dict[str, int]:
        """The dead letters of the jobs that have any: a record may be one of each."""
        found = {job: entry.counts.get("dead_letters", 0) for job, entry in self.done.items()}
        return {job: count for job, count in found.items() if count}

    @property
    def usual(self) -> float | None:
        """The median of the nights before; None where there are too few."""
        before = [records for day, records in self.history if records is not None and day != self.day]
        return median(before) if len(before) >= _NIGHTS_TO_COMPARE else None

    def findings(self) -> list[Finding]:
        """Return what is to be said of the night, the worst first; one good finding where all is well."""
        found = [*self._find_missing(), *self._judge_audit(), *self._remarks()]
        order = (BAD, WARN, GOOD)
        return sorted(found, key=lambda each: order.index(each.level)) or [Finding(GOOD, "archived")]

    def _find_missing(self) -> list[Finding]:
        found = [
            Finding(BAD, f"{job} is {entry.state}, and not done: run the date again")
            for job, entry in self.pending.items()
        ]
        if self.archived is None and ARCHIVE not in self.pending:
            found.append(Finding(BAD, "not archived: the ledger has no run of this date"))
        return found

    def _judge_audit(self) -> list[Finding]:
        if self.audit is None:
            return [Finding(WARN, "not audited")] if self.archived is not None else []
        if count := len(self.audit["differences"]):
            return [Finding(BAD, f"log and archive differ in {_plural(count, 'place')}")]
        found = [Finding(GOOD, f"log and archive agree, {_plural(self.audit['records'], 'record')} compared")]
        if pending := self.audit["pending"]:
            found.append(Finding(WARN, f"{_plural(pending, 'late record')} not taken yet: the next run takes them"))
        return found

    def _remarks(self) -> list[Finding]:
        found = []
        if len(letters := self.dead_letters) == 1:
            found.append(Finding(WARN, _plural(sum(letters.values()), "dead letter")))
        elif letters:
            found.append(
                Finding(WARN, f"dead letters: {', '.join(f'{job} {count:,}' for job, count in letters.items())}")
            )
        entry, usual = self.archived, self.usual
        if entry is not None:
            if lost := sum(end - start for start, end in entry.plan.lost.values()):
                found.append(Finding(BAD, f"{_plural(lost, 'offset')} deleted by retention before any run read them"))
            records = entry.counts.get("records", 0)
            if usual and records < usual * _FEW:
                found.append(Finding(WARN, f"{records / usual:.0%} of the records of a usual night"))
        return found


@dataclass(frozen=True, slots=True)
class NightView:
    """A night; `problem` is what a run that failed has said of itself."""

    output: str
    day: date
    topics: Sequence[TopicNight]
    made_ms: int
    problem: str = ""

    @property
    def level(self) -> str:
        """Return the worst level of all topics."""
        levels = {found.level for topic in self.topics for found in topic.findings()}
        return BAD if self.problem or not self.topics or BAD in levels else WARN if WARN in levels else GOOD


@dataclass(slots=True)
class NightReader:
    """Reads nights from an output's ledger, each entry once for all of them."""

    storage: Storage
    _known: dict[tuple[str, str, date], Entry | None] = field(default_factory=dict)

    def read_night(self, day: date, made_ms: int, problem: str = "") -> NightView:
        """Return the night of a date, with the topics that the ledger knows of for this date or one in its history. OutputError."""
        ledgers = [Ledger(self.storage, job) for job in jobs_with_ledger(self.storage)]
        jobs = {ledger: ledger.topics() for ledger in ledgers}
        found = []
        for topic in sorted({topic for topics in jobs.values() for topic in topics}):
            of_topic = [ledger for ledger, topics in jobs.items() if topic in topics]
            done = {each.job: entry for each in of_topic if (entry := self._read_done(each, topic, day)) is not None}
            pending = {each.job: entry for each in of_topic if (entry := each.read_pending(topic, day)) is not None}
            history = self._history(Ledger(self.storage, ARCHIVE), topic, day)
            if done or pending or any(records is not None for _, records in history):
                found.append(TopicNight(topic, day, done, pending, history, self._audit(topic, day)))
        return NightView(self.storage.uri, day, found, made_ms, problem)

    def _history(self, ledger: Ledger, topic: str, day: date) -> list[tuple[date, int | None]]:
        days = [day - timedelta(days=number) for number in reversed(range(HISTORY_DATES))]
        entries = [(each, self._read_done(ledger, topic, each)) for each in days]
        return [(each, None if entry is None else entry.counts.get("records", 0)) for each, entry in entries]

    def _read_done(self, ledger: Ledger, topic: str, day: date) -> Entry | None:
        key = ledger.job, topic, day
        if key not in self._known:
            self._known[key] = ledger.read_done(topic, day)
        return self._known[key]

    def _audit(self, topic: str, day: date) -> Mapping[str, Any] | None:
        """Return the newest audit; None where there is none that can be read, as after a crash."""
        data = self.storage.read(layout.audit_file(topic, day))
        if data is None:
            return None
        try:
            found: Mapping[str, Any] = json.loads(data)
            return found if {"records", "pending", "differences"} <= set(found) else None
        except (ValueError, TypeError):
            return None


def _plural(count: int, what: str) -> str:
    return f"{count:,} {what}" if count == 1 else f"{count:,} {what}s"
