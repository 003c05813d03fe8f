"""What an audit compares: facts about the records of one partition and hour, from the log and from the archive. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from datetime import UTC, date, datetime
from typing import Any, Final

LOG, ARCHIVE = "log", "archive"


@dataclass(frozen=True, slots=True, order=True)
class Place:
    """A partition and an hour (in UTC) of a date of a topic."""

    topic: str
    date: date
    hour_ms: int
    partition: int

    def __str__(self) -> str:
        hour = datetime.fromtimestamp(self.hour_ms / 1000, UTC).strftime("%Y-%m-%dT%H:00Z")
        return f"{self.topic}-{self.partition} {hour}"


@dataclass(frozen=True, slots=True)
class Facts:
    """Facts about the records of a place; offsets and timestamps (ms) are the lowest and highest.

    `gaps` are offsets between first and last that are none of these records (they may be other hours', or compacted away), `duplicates`
    records whose key came before in the hour, `fingerprint` stands for the records whatever their order.
    """

    records: int
    first_offset: int
    last_offset: int
    first_ms: int
    last_ms: int
    duplicates: int
    fingerprint: str

    @property
    def gaps(self) -> int:
        return max(0, self.last_offset - self.first_offset + 1 - self.records)


@dataclass(frozen=True, slots=True)
class Difference:
    """Something that the log and the archive do not agree about."""

    place: str
    problem: str


@dataclass(frozen=True, slots=True)
class Report:
    """The audit of a topic's date. `pending` are late records in the log that no run has taken yet: no difference.

    `audited_ms` is when it ended, `took_ms` its share of the time that auditing several dates in one go has taken.
    """

    topic: str
    date: date
    log: Mapping[Place, Facts]
    archive: Mapping[Place, Facts]
    pending: int = 0
    problems: Sequence[Difference] = ()
    audited_ms: int = 0
    took_ms: int = 0

    @property
    def differences(self) -> list[Difference]:
        """Empty when log and archive agree."""
        return [*self.problems, *find_differences(self.log, self.archive)]

    def rows(self) -> list[dict[str, Any]]:
        """Return for each place a row with the log's facts, or the archive's where the log has none, and what differs."""
        differing: dict[str, list[str]] = {}
        for each in find_differences(self.log, self.archive):
            differing.setdefault(each.place, []).append(each.problem)
        found = []
        for place in sorted({*self.log, *self.archive}):
            facts = self.log.get(place) or self.archive[place]
            problems = differing.get(str(place))
            found.append(
                {
                    "topic": place.topic,
                    "date": str(place.date),
                    "hour": str(place).rpartition(" ")[2],
                    "partition": place.partition,
                    **asdict(facts),
                    "gaps": facts.gaps,
                    "archived": self.archive[place].records if place in self.archive else 0,
                    "differs": "; ".join(problems) if problems else None,
                }
            )
        return found

    def to_dict(self) -> dict[str, Any]:
        """Return the content of the file next to the output."""
        return {
            "topic": self.topic,
            "date": str(self.date),
            "records": sum(facts.records for facts in self.log.values()),
            "pending": self.pending,
            "audited_ms": self.audited_ms,
            "took_ms": self.took_ms,
            "differences": [asdict(each) for each in self.differences],
            "hours": self.rows(),
        }


_COMPARED: Final = tuple(each.name for each in fields(Facts))


def find_differences(log: Mapping[Place, Facts], archive: Mapping[Place, Facts]) -> list[Difference]:
    """Return the differences by place. A place that only one side has differs in every field."""
    found = []
    for place in sorted({*log, *archive}):
        ours, theirs = log.get(place), archive.get(place)
        if ours == theirs:
            continue
        if theirs is None and ours is not None:
            problem = f"{ours.records} records of the log are not in the archive"
        elif ours is None and theirs is not None:
            problem = f"{theirs.records} records of the archive are not in the log"
        else:
            problem = ", ".join(_unequal(ours, theirs))
        found.append(Difference(str(place), problem))
    return found


def _unequal(log: Facts | None, archive: Facts | None) -> Iterable[str]:
    for name in _COMPARED:
        one, other = getattr(log, name), getattr(archive, name)
        if one != other:
            yield f"{name.replace('_', ' ')} {one} in the log, {other} in the archive"
