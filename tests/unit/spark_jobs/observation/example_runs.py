"""A run to tell of: a night of two topics, with late records, dead letters and an audit."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from pathlib import Path

from spark_jobs.batch.comparison import Difference, Report
from spark_jobs.batch.ledger import DONE, Entry, PartFile, Unit
from spark_jobs.batch.plan import RunPlan
from spark_jobs.observation.run_facts import Lateness, RunFacts
from spark_jobs.observation.run_summary import RunSummary

DAY = date(2013, 6, 15)
DAY_MS = 1_371_254_400_000
HOUR_MS = 3_600_000


def unit(rows: int, day: date = DAY, kind: str = "archive", topic: str = "flights") -> Unit:
    path = f"{kind}/topic={topic}/date={day}/run={DAY}"
    return Unit(path, f"_staging/{path}", str(day), (PartFile("part-00000-000.parquet", rows * 100, rows, "ab"),), "id")


def archive_entry(topic: str = "flights", day: date = DAY) -> Entry:
    plan = RunPlan(topic, "id", day, {0: (5, 105), 1: (0, 40)}, {0: 105, 1: 40})
    facts = RunFacts(
        "UTC",
        {DAY_MS: {0: 60, 1: 30}, DAY_MS + 7 * HOUR_MS: {0: 35}},
        Lateness((120, 5, 0, 2, 0, 0, 1, 0), 86_500_000, 86_400_000),
        {"value: not JSON": 8, 'key: field "x" is missing': 2},
        {"plan": 40, "read": 2_500, "check": 12, "publish": 35},
    )
    units = (
        unit(125, topic=topic),
        unit(5, date(2013, 6, 14), topic=topic),
        unit(10, kind="dead_letters", topic=topic),
    )
    counts = {"records": 125, "late": 5, "dead_letters": 10}
    done_ms = DAY_MS + 90_000_000
    return Entry(
        "archive", plan, DONE, f"archive.{topic}", units, counts, "", {}, done_ms - 4_000, done_ms, facts=facts
    )


def entry_of_before() -> Entry:
    return replace(archive_entry("orders"), facts=None)


def report(topic: str = "flights", differences: int = 0) -> Report:
    problems = tuple(Difference(f"{topic}-0 hour {number}", "3 records are missing") for number in range(differences))
    return Report(topic, DAY, {}, {}, 3, problems, DAY_MS + 90_010_000, 1_500)


def summary(code: int = 0, problem: str = "") -> RunSummary:
    return RunSummary(
        "nightly",
        '/data/a "b" \\ é',
        ("flights", "orders"),
        DAY_MS + 90_000_000,
        DAY_MS + 90_012_500,
        code,
        problem,
        4_200,
        (archive_entry(), entry_of_before()),
        (report(), report("orders", 2)),
    )


def unreachable_night(folder: Path) -> list[str]:
    """Options of a run that finds no broker."""
    places = ["--topic", "t", "--output", str(folder / "out"), "--no-lock"]
    return [*places, "-b", "127.0.0.1:1", "--date", "2013-06-15"]
