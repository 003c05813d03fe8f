"""The files that describe the museum's clients, and the table of what they can do."""

from __future__ import annotations

from pathlib import Path

from tests.case import case
from tests.museum.contract import Exhibit, exhibits
from tests.museum.environments import folder_of
from tests.museum.features import FEATURES
from tests.museum.results import Results


def test_every_file_describes_clients_that_can_be_made() -> None:
    known = exhibits()
    assert len({each.name for each in known}) == len(known)
    for each in known:
        with case(each.name):
            assert set(each.features) <= set(FEATURES), each.features
            assert each.features and each.packages
            assert each.name in folder_of(each).name or each.variant


def test_variants_of_a_version_share_an_environment() -> None:
    pinned = [each for each in exhibits() if each.file == "kafka-python" and each.version == "1.4.7"]
    assert len(pinned) > 2
    assert len({folder_of(each) for each in pinned}) == 1


def _row(results: Results, exhibit: Exhibit) -> list[str]:
    start = f"| {exhibit.client} | {exhibit.version} |"
    line = next(line for line in results.table().splitlines() if line.startswith(start))
    return [cell.strip() for cell in line.split("|")[3:-1]]


def test_the_table_sets_ours_beside_live_ones(tmp_path: Path) -> None:
    exhibit = next(each for each in exhibits() if each.name == "java-3.9.1")
    results = Results(tmp_path / "results.json")
    shown = {
        "produce": ("", "", ""),
        "consume": ("", "", "disconnected"),
        "group": ('broken in "/home/me/museum/x-1.2-ab/client.py", line 3', "", ""),
        "seek": ("broken", "broken", ""),
        "offsets": ("", "broken", ""),
        "create": ("", ""),
    }
    for place, against in enumerate(("ours", "kafka-3.9", "kafka-4")):
        seen = {name: outcomes[place] for name, outcomes in shown.items() if place < len(outcomes)}
        results.keep(exhibit.name, against, seen)
    cells = dict(zip(FEATURES, _row(Results(tmp_path / "results.json"), exhibit), strict=True))
    assert {name: cells[name] for name in shown} == {
        "produce": "✓",
        "consume": "✓³",
        "group": "**✗**",
        "seek": "=",
        "offsets": "+",
        "create": "(✓)",
    }
    assert cells["dual-commit"] == "", "what the client does not have"
    assert cells["rebalance"] == "?", "what was never shown"
    assert '| java-3.9.1 | group | broken in "client.py", line 3 | ✓ | ✓ |' in results.table()
