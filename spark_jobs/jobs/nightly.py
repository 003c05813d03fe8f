"""The night: for each topic and date `archive`, then `reprocess` and `compact` where they are asked for, then `audit`.

One Spark session serves all of it. A job that fails ends the night; what was done before is done.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date

from spark_jobs.batch.failures import DeadLettersError
from spark_jobs.batch.formats import Formats
from spark_jobs.batch.ledger import Entry
from spark_jobs.batch.night import Night
from spark_jobs.jobs import archive, audit, compact, reprocess


@dataclass(frozen=True, slots=True)
class Program:
    """What a night does with each topic; `dead_letters_allowed` is for all topics together."""

    formats: Formats
    reprocessing: reprocess.Reprocessing | None = None
    compaction: compact.Compaction | None = None
    audits: bool = True
    dead_letters_allowed: int = 0


def main(night: Night, program: Program, topics: Sequence[str], day: date) -> list[Entry]:
    """Run all jobs of the night; return the finished runs. JobError, ClientError."""
    entries = []
    for topic in topics:
        entries.append(_print_counts(night, archive.main(night, topic, day, program.formats)))
        if program.reprocessing is not None:
            entries.append(
                _print_counts(night, reprocess.main(night, topic, day, program.formats, program.reprocessing))
            )
        if program.compaction is not None:
            entries.append(_print_counts(night, compact.main(night, topic, day, program.formats, program.compaction)))
    if program.audits:
        audit.main(night, topics, [day])
    check_dead_letters(night, program.dead_letters_allowed)
    return entries


def check_dead_letters(night: Night, allowed: int) -> None:
    """Raise DeadLettersError when there are more than `allowed`; everything is done by then."""
    found = sum(night.dead_letters.values())
    if found > allowed:
        listed = ", ".join(f"{topic} {count}" for topic, count in sorted(night.dead_letters.items()))
        raise DeadLettersError(
            f"all is done, but {found} records became dead letters ({listed}); the output has them with their reasons. "
            f"--dead-letters-allowed {found} accepts them"
        )


def _print_counts(night: Night, entry: Entry) -> Entry:
    plan = entry.plan
    counts = ", ".join(f"{value:,} {name.replace('_', ' ')}" for name, value in entry.counts.items())
    night.tell(f"{entry.job} of {plan.topic} {plan.date}: {counts}, {sum(unit.bytes for unit in entry.units):,} bytes")
    return entry
