"""What the ledger keeps of a run besides its plan and its files: records by hour and partition, lateness, reasons, durations.

The **lateness** of a record is how far its timestamp is behind the newest one before it in its partition, as watermarks of streams see it.
Each task looks at the offsets that it reads, so what came before these does not count. Entries of before have no facts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Final

LATENESS_BOUNDS_MS: Final = (0, 1_000, 10_000, 60_000, 600_000, 3_600_000, 86_400_000)
"""Upper bounds of the classes of lateness; one more class is above the last. The first class has the records in order."""


_LENGTHS: Final = ((86_400_000, "day"), (3_600_000, "h"), (60_000, "min"), (1_000, "s"))


def class_names() -> list[str]:
    """Return what the classes of lateness are called, such as "up to 10 s"."""
    limits = []
    for bound_ms in LATENESS_BOUNDS_MS[1:]:
        length_ms, unit = next(each for each in _LENGTHS if bound_ms >= each[0])
        limits.append(f"{bound_ms // length_ms} {unit}")
    return ["in order", *(f"up to {limit}" for limit in limits), f"more than {limits[-1]}"]


@dataclass(frozen=True, slots=True)
class Lateness:
    """Records by class of lateness, one more than LATENESS_BOUNDS_MS; the sum of all lateness, and the largest."""

    records: tuple[int, ...] = (0,) * (len(LATENESS_BOUNDS_MS) + 1)
    sum_ms: int = 0
    max_ms: int = 0


@dataclass(frozen=True, slots=True)
class RunFacts:
    """Facts of one run.

    `hours` are the archived records of the run's own date, by the hour's begin (Unix ms, UTC) and the topic's partition; `dead_letters`
    are counted by kind of reason, `stages_ms` are durations in the order of the stages. `zone` is where the date begins.
    """

    zone: str = "UTC"
    hours: Mapping[int, Mapping[int, int]] = field(default_factory=dict)
    lateness: Lateness = Lateness()
    dead_letters: Mapping[str, int] = field(default_factory=dict)
    stages_ms: Mapping[str, int] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> RunFacts:
        """ValueError, KeyError or TypeError for something else."""
        lateness = document["lateness"]
        records = tuple(int(each) for each in lateness["records"])
        if len(records) != len(LATENESS_BOUNDS_MS) + 1:
            raise ValueError(f"{len(records)} classes of lateness")
        return cls(
            zone=document["zone"],
            hours={
                int(hour): {int(partition): int(count) for partition, count in found.items()}
                for hour, found in document["hours"].items()
            },
            lateness=Lateness(records, int(lateness["sum_ms"]), int(lateness["max_ms"])),
            dead_letters={str(reason): int(count) for reason, count in document["dead_letters"].items()},
            stages_ms={str(stage): int(took) for stage, took in document["stages_ms"].items()},
        )
