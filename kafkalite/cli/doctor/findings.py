"""A finding of `kafkalite doctor` about one thing that it checked. The judges of machine, ZooKeeper and cluster return these; all are
pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

GIBIBYTE: Final = 1024**3
_SHOWN: Final = 5
_SCARCE_SHARE, _LOW_SHARE = 0.05, 0.15
_LEAST_FREE_BYTES: Final = GIBIBYTE


class Status(StrEnum):
    """`WARNING` stands for what works now and may fail later or elsewhere; only a `PROBLEM` makes doctor exit with 7."""

    OK = "ok"
    WARNING = "warning"
    PROBLEM = "problem"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True)
class Finding:
    """`check` names what was checked, `found` its state, and `remedy` what to do, unless all is well."""

    check: str
    status: Status
    found: str
    remedy: str | None = None

    def to_dict(self) -> dict[str, Any]:
        return {"check": self.check, "status": str(self.status), "found": self.found, "remedy": self.remedy}


def ok(check: str, found: str) -> Finding:
    return Finding(check, Status.OK, found)


def warning(check: str, found: str, remedy: str) -> Finding:
    return Finding(check, Status.WARNING, found, remedy)


def problem(check: str, found: str, remedy: str) -> Finding:
    return Finding(check, Status.PROBLEM, found, remedy)


def skip_check(check: str, found: str) -> Finding:
    return Finding(check, Status.SKIPPED, found)


def join_first(names: Sequence[str]) -> str:
    """Return the first names, and how many more there are."""
    more = len(names) - _SHOWN
    return ", ".join(names[:_SHOWN]) + (f" and {more} more" if more > 0 else "")


def any_problem(findings: Iterable[Finding]) -> bool:
    return any(each.status is Status.PROBLEM for each in findings)


def judge_space(check: str, where: str, free_bytes: int, total_bytes: int) -> Finding:
    """Check the room left on a disk. A broker whose disk is full takes the log directory offline."""
    share = free_bytes / total_bytes if total_bytes else 0.0
    found = f"{where}: {free_bytes / GIBIBYTE:.1f} of {total_bytes / GIBIBYTE:.1f} GiB free ({share:.0%})"
    remedy = "lower retention.ms or retention.bytes of large topics, add a disk to log.dirs, or move replicas to other brokers"
    if share < _SCARCE_SHARE or free_bytes < _LEAST_FREE_BYTES:
        return problem(check, found, remedy)
    if share < _LOW_SHARE:
        return warning(check, found, remedy)
    return ok(check, found)
