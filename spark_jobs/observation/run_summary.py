"""A run of a command that has ended: what metrics, hooks and lineage tell of it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from spark_jobs.batch.comparison import Report
from spark_jobs.batch.ledger import Entry

_RESULTS: Final = {0: "done", 130: "interrupted"}
_LOGIN: Final = re.compile(r"(?<=://)[^/@]*@")


@dataclass(frozen=True, slots=True)
class RunSummary:
    """`code` is the exit code, `problem` what was wrong ("" for nothing), `ready_ms` how long it took to begin; times are Unix ms."""

    command: str
    output: str
    topics: Sequence[str]
    started_ms: int
    ended_ms: int
    code: int
    problem: str
    ready_ms: int | None = None
    entries: Sequence[Entry] = ()
    audits: Sequence[Report] = ()
    page: str | None = None
    """Where the newest page of the run is."""

    @property
    def succeeded(self) -> bool:
        return self.code == 0

    @property
    def dates(self) -> list[str]:
        """Return the dates that were finished or audited, in order."""
        return sorted({str(each.plan.date) for each in self.entries} | {str(each.date) for each in self.audits})

    def to_json(self) -> dict[str, Any]:
        """Return what hooks get as JSON."""
        return {
            "command": self.command,
            "result": _RESULTS.get(self.code, "failed"),
            "exit_code": self.code,
            "error": self.problem or None,
            "output": self.output,
            "topics": list(self.topics),
            "dates": self.dates,
            "started_ms": self.started_ms,
            "ended_ms": self.ended_ms,
            "report": self.page,
            "jobs": [_entry_to_json(each) for each in self.entries],
            "audits": [
                {
                    "topic": each.topic,
                    "date": str(each.date),
                    "differences": len(each.differences),
                    "pending": each.pending,
                }
                for each in self.audits
            ],
        }


def _entry_to_json(entry: Entry) -> dict[str, Any]:
    facts = entry.facts
    return {
        "job": entry.job,
        "topic": entry.plan.topic,
        "date": str(entry.plan.date),
        "counts": dict(entry.counts),
        "bytes": sum(unit.bytes for unit in entry.units),
        "dead_letters": dict(facts.dead_letters) if facts is not None else {},
        "stages_ms": dict(facts.stages_ms) if facts is not None else {},
    }


def without_login(url: str) -> str:
    """Return a URL without user and password, for messages."""
    return _LOGIN.sub("", url)
