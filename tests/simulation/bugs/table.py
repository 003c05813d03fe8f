"""TABLE.md: which transcript or which seed finds each bug. What found a bug before is tried first, so the table is quickly made again.

Rows of bugs that were not hunted for stay as they are, so it can be made in parts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from tests.simulation.bugs.patching import Bug

TABLE: Final = Path(__file__).with_name("TABLE.md")
NOT_FOUND: Final = "not found"
_TRANSCRIPT: Final = "transcript "
_NO_SEED: Final = "none"


class Row(NamedTuple):
    """`by`: a transcript, the rules that were broken, or `NOT_FOUND`; `seeds`: how many runs it took."""

    by: str
    seeds: str

    @property
    def is_found(self) -> bool:
        return self.by != NOT_FOUND

    @property
    def transcript(self) -> str:
        """The name of the one that found it, or nothing."""
        return self.by.removeprefix(_TRANSCRIPT) if self.by.startswith(_TRANSCRIPT) else ""

    @property
    def seed(self) -> int | None:
        """The one that found it."""
        return int(self.seeds) - 1 if self.is_found and not self.transcript else None


def row(by: str, seeds: int) -> Row:
    """Of a bug for which that many runs were made; `by` is empty when none found it."""
    if not by:
        return Row(NOT_FOUND, f"> {seeds}")
    return Row(by, _NO_SEED if by.startswith(_TRANSCRIPT) else str(seeds))


def by_transcript(name: str) -> str:
    return f"{_TRANSCRIPT}{name}"


def parse(text: str) -> dict[str, Row]:
    """The rows of a table, by the names of their bugs."""
    cells = [
        [cell.strip() for cell in line.strip("|").split(" | ")] for line in text.splitlines() if line.startswith("| ")
    ]
    return {name: Row(by, seeds) for name, _, by, seeds in cells[1:]}


def written(bugs: Iterable[Bug], rows: Mapping[str, Row]) -> str:
    """The text of TABLE.md."""
    all_bugs = list(bugs)
    listed = [(bug, rows[bug.name]) for bug in all_bugs if bug.name in rows]
    found = sum(each.is_found for _, each in listed)
    lines = [
        "# Bugs put back in, and what finds them",
        "",
        f"{found} of {len(all_bugs)} are found. Written by `python -m tests.simulation.bugs --table`.",
        "",
        "A transcript of `tests/simulation/transcripts` needs no seed. Seeds are those of runs under pressure (`pressure.py`;",
        "for transactions `transactional_pressure.py`), counted from 0.",
        "",
        "| Bug | Story | Found by | Seeds |",
        "|---|---|---|---|",
        *(f"| {bug.name} | {bug.story} | {each.by} | {each.seeds} |" for bug, each in listed),
    ]
    return "\n".join(lines) + "\n"
