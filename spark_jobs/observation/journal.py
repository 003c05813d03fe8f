"""What a run of a command has done so far: finished entries, audits, the time that stages took. Others are notified as it happens."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import date
from typing import Protocol

from spark_jobs.batch.comparison import Report
from spark_jobs.batch.ledger import Entry

PLAN, READ, DEAD_LETTERS, CHECK, PUBLISH, SEND = "plan", "read", "dead letters", "check", "publish", "send"
"""The stages of a job, in their order."""


class Listener(Protocol):
    """Is notified of what happens during a run. An error ends what it hears, and not the run."""

    def notify_begin(self, entry: Entry, columns: Mapping[str, str]) -> None:
        """Handle the begin of an attempt, whose result will have these columns with Spark's types."""

    def notify_finish(self, entry: Entry) -> None:
        """Handle a finished run."""

    def notify_audit(self, report: Report) -> None:
        """Handle the audit of a topic's date."""


@dataclass(slots=True)
class Journal:
    """The course of one run of a command. `ready_ms` is how long it took until the first job could begin."""

    listeners: list[Listener] = field(default_factory=list)
    tell: Callable[[str], None] = lambda _: None
    clock_s: Callable[[], float] = time.monotonic
    entries: list[Entry] = field(default_factory=list)
    audits: list[Report] = field(default_factory=list)
    ready_ms: int | None = None
    begun: set[date] = field(default_factory=set)
    """The dates that were begun or audited."""
    pages: Sequence[str] = ()
    """The URIs of the pages that the run has written."""
    _stages_ms: dict[str, int] = field(default_factory=dict)

    @contextmanager
    def measure(self, stage: str) -> Iterator[None]:
        """Add the time that the block takes to a stage of the job at work."""
        begun_s = self.clock_s()
        try:
            yield
        finally:
            self._stages_ms[stage] = self._stages_ms.get(stage, 0) + round((self.clock_s() - begun_s) * 1000)

    def take_stages(self) -> dict[str, int]:
        """Return the durations since the last call, in ms by stage in the order of their first begin."""
        taken, self._stages_ms = self._stages_ms, {}
        return taken

    def begin_entry(self, entry: Entry, columns: Mapping[str, str]) -> None:
        self.begun.add(entry.plan.date)
        self._notify(lambda listener: listener.notify_begin(entry, columns))

    def finish_entry(self, entry: Entry) -> None:
        self.entries.append(entry)
        self._notify(lambda listener: listener.notify_finish(entry))

    def add_audit(self, report: Report) -> None:
        self.begun.add(report.date)
        self.audits.append(report)
        self._notify(lambda listener: listener.notify_audit(report))

    def _notify(self, call: Callable[[Listener], None]) -> None:
        for listener in list(self.listeners):
            try:
                call(listener)
            except Exception as problem:
                self.listeners.remove(listener)
                self.tell(f"warning: the run is not told of any more: {type(problem).__name__}: {problem}")


def share_stages(stages_ms: Mapping[str, int], part: int, whole: int, count: int) -> dict[str, int]:
    """Return what one of `count` dates that were read in one go has of the durations: by its rows, equally where there are none."""
    share = part / whole if whole else 1 / count
    return {stage: round(took * share) for stage, took in stages_ms.items()}
