"""Figures of pages that benchmarks wrote: what a picture shows stands there in a table, too."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).parents[3]
RESULTS: Final = ROOT / "tests" / "bench" / "RESULTS.md"
FAILOVER: Final = ROOT / "tests" / "bench" / "FAILOVER.md"
BENCHMARKS: Final = ROOT / "deploy" / "docs" / "pages" / "explain" / "benchmarks.md"
OURS: Final = "kafkalite"
APACHE: Final = "Apache Kafka"


class MissingFact(Exception):
    """A page has no such table, row or figure; the page has to be made again, or the picture to be changed."""


def rows_of(text: str, first_column: str, *needed: str) -> list[dict[str, str]]:
    """Return the rows of the page's table that begins with this column and has the others. Raises MissingFact."""
    for table in re.findall(r"(?:^\|.*\|\n)+", text, re.MULTILINE):
        head, _, *body = table.splitlines()
        columns = _cells(head)
        if columns[0] == first_column and set(needed) <= set(columns):
            return [dict(zip(columns, _cells(row), strict=True)) for row in body]
    raise MissingFact(f"there is no table with the columns {', '.join((first_column, *needed))}")


def _cells(row: str) -> list[str]:
    return [cell.strip() for cell in row.strip().removeprefix("|").removesuffix("|").split("|")]


class Compared(NamedTuple):
    """A cell of RESULTS.md. `ratio` is how many times better ours is."""

    name: str
    unit: str
    theirs: float
    ours: float
    ratio: float


def compared(text: str) -> list[Compared]:
    """Return what was measured beside Apache Kafka."""
    return [
        Compared(row["Cell"], row["Unit"], _number(row[APACHE]), _number(row[OURS]), float(row["Ratio"].strip("*")))
        for row in rows_of(text, "Cell", APACHE, OURS, "Ratio")
    ]


class Failover(NamedTuple):
    """Milliseconds of a median round by stage, and the percentiles of all rounds."""

    stages: Mapping[str, float]
    rounds: int
    p50: float
    most: float


def failover(text: str, side: str, partitions: int, victim: str) -> Failover:
    """Return what one kind of failover took. Raises MissingFact."""

    def is_meant(row: Mapping[str, str]) -> bool:
        return (row["Victim"], row["Partitions"], row["Cluster"]) == (victim, f"{partitions:,}", side)

    totals = next(filter(is_meant, rows_of(text, "Victim", "Rounds")), None)
    if totals is None:
        raise MissingFact(f"nothing was measured of {side}, {partitions:,} partitions, {victim}")
    stages = next(filter(is_meant, rows_of(text, "Victim", "session")), {})
    times = {
        name: _number(cell) for name, cell in stages.items() if name not in ("Victim", "Partitions", "Cluster") and cell
    }
    return Failover(times, int(totals["Rounds"]), _number(totals["p50"]), _number(totals["Most"]))


class Leg(NamedTuple):
    """A part of a record's way, and how long it waits there."""

    name: str
    middle_ms: float
    slow_ms: float


def waits(text: str) -> list[Leg]:
    """Return what a single record waits for, in order. Raises MissingFact."""
    rows = rows_of(text, "Until", "One in the middle", "One of a hundred")
    return [Leg(row["Until"], _number(row["One in the middle"]), _number(row["One of a hundred"])) for row in rows]


def _number(cell: str) -> float:
    """The first figure of a cell: `0.362 (0.35 to 0.419)` is 0.362."""
    return float(cell.split(" ")[0].replace(",", ""))
