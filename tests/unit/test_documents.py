"""Modules that the documents for developers name are there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FIRST_FOLDERS = ("", "kafkalite", "kafkalite/broker")
PAGES = [
    "kafkalite/DESIGN.md",
    "deploy/docs/pages/project/where-to-change.md",
    *(str(path.relative_to(ROOT)) for path in sorted((ROOT / "deploy/docs/pages/decisions").glob("*.md"))),
]


def modules_named_in(text: str) -> set[str]:
    """Return the code spans that are paths of modules: with a folder, and `.py` or nothing behind the name."""
    spans = re.findall(r"`([a-z_]+(?:/[\w*]+)+(?:\.py)?)`", text)
    return {span for span in spans if not span.startswith("application/")}


@pytest.mark.parametrize("page", PAGES)
def test_the_modules_that_a_page_names_are_there(page: str) -> None:
    named = modules_named_in((ROOT / page).read_text())
    missing = [
        each
        for each in sorted(named)
        if not any(
            list((ROOT / first).glob(each)) or list((ROOT / first).glob(f"{each}.py"))
            for first in (*FIRST_FOLDERS, "spark_jobs")
        )
    ]
    assert missing == []


def test_the_map_and_the_way_of_changes_name_modules() -> None:
    assert all(len(modules_named_in((ROOT / page).read_text())) > 10 for page in PAGES[:2])


def test_the_design_stays_short() -> None:
    assert len((ROOT / "kafkalite" / "DESIGN.md").read_text().splitlines()) <= 220


def test_the_page_about_monitoring_says_what_to_do_about_each_alert() -> None:
    alerts = re.findall(r"alert: (\w+)", (ROOT / "deploy/prometheus/alerts.yml").read_text())
    page = (ROOT / "deploy/docs/pages/howto/monitoring.md").read_text()
    assert alerts and {each for each in alerts if f"`{each}`" not in page} == set()
