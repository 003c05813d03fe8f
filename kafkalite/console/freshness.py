"""How old what a page shows is: each part with the time at which it was true, and the age from which it counts as late."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from kafkalite.clock import Clock

NEVER_LATE: Final = None
"""The limit of what was read on request, and is not read again by itself."""


@dataclass(frozen=True, slots=True)
class Moment:
    """A time on both clocks: to be shown, and to measure ages with."""

    time_ms: int
    monotonic_ms: float

    @classmethod
    def now(cls, clock: Clock) -> Moment:
        """Return this moment."""
        return cls(clock.now_ms(), clock.monotonic_ms())


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a page, when it was known (None: never), from which age on it is late, and what keeps newer facts away."""

    name: str
    known: Moment | None
    limit_ms: float | None
    problem: str | None = None

    def is_late(self, now: Moment) -> bool:
        """True if the part is older than it should be, or was never known."""
        if self.limit_ms is None:
            return False
        return self.known is None or now.monotonic_ms - self.known.monotonic_ms > self.limit_ms

    def to_dict(self, now: Moment) -> dict[str, Any]:
        """Return plain values; `age_ms` is None for what was never known."""
        return {
            "name": self.name,
            "time_ms": self.known.time_ms if self.known else None,
            "age_ms": round(now.monotonic_ms - self.known.monotonic_ms) if self.known else None,
            "limit_ms": self.limit_ms,
            "is_late": self.is_late(now),
            "problem": self.problem,
        }


def describe_parts(clock: Clock, *parts: Part) -> list[dict[str, Any]]:
    """Return the parts as a page gets them."""
    now = Moment.now(clock)
    return [each.to_dict(now) for each in parts]
