"""The page of failovers, of rounds that a test makes up, and the figures that drawings take from it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from deploy.docs.drawings.facts import APACHE, OURS, MissingFact, failover
from tests.bench.failover_page import main, median_round


def rounds(*totals: float) -> list[dict[str, float]]:
    return [{"exit": 1.0, "session": 2.0, "election": 3.5, "client": total - 6.5, "total": total} for total in totals]


def result(side: str, partitions: int, victim: str, measured: list[dict[str, float]]) -> dict[str, Any]:
    return {
        "at": "20260101T000000Z",
        "command": "python -m tests.bench.failover --rounds 3 --verbose --output /tmp/x.json",
        "machine": {"processors": 2, "processor": "a | b"},
        "sides": {OURS: "1.0, pure", APACHE: "3.9.1"},
        "settings": {
            "client": "confluent-kafka",
            "zookeepers": 1,
            "load": [0.1, 2.0],
            "properties": {"a": "1"},
            "properties of ours": {"b": "2"},
        },
        "measured": [{"side": side, "partitions": partitions, "victim": victim, "rounds, ms": measured}],
    }


@pytest.fixture
def text(tmp_path: Path) -> str:
    results = [
        result(OURS, 10_000, "leader", rounds(9000.0)),
        result(APACHE, 10_000, "leader", rounds(20_000.0, 18_000.0)),
        result(OURS, 10_000, "leader", rounds(300.0, 100.0, 1500.0)),
        result(
            OURS,
            1,
            "vanish",
            [{"session": 1300.0, "election": 9.0, "client": 1.0, "total": 60_000.0, "newcomer": 1350.0}],
        ),
    ]
    paths = []
    for number, content in enumerate(results):
        paths.append(tmp_path / f"{number}.json")
        paths[-1].write_text(json.dumps(content))
    output = tmp_path / "FAILOVER.md"
    done = CliRunner().invoke(main, [*map(str, paths), "--output", str(output)], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return output.read_text()


def test_the_last_measurement_counts_and_a_vanished_host_is_judged_by_new_clients(text: str) -> None:
    assert "| leader | 10,000 | kafkalite | 3 | 300 | 1,500 | 1,500 |" in text
    assert "9,000" not in text
    assert "| vanish | 1 | kafkalite | 1 | 1,350 | 1,350 | 1,350 |" in text
    assert text.index("| leader | 10,000 | kafkalite") < text.index("| leader | 10,000 | Apache Kafka")


def test_runs_are_told_without_paths_of_the_machine(text: str) -> None:
    assert "| command | `python -m tests.bench.failover --rounds 3` |" in text
    assert "/tmp/" not in text
    assert "| processor | a \\| b |" in text and "`a=1`, `b=2`" in text


def test_the_stages_are_those_of_one_whole_round() -> None:
    found = median_round(rounds(9.0, 300.0, 12.0, 11.0))
    assert found["total"] == 11.0
    assert sum(took_ms for name, took_ms in found.items() if name != "total") == found["total"]
    with pytest.raises(ValueError, match="nothing was measured"):
        median_round([])


def test_drawings_read_what_the_page_says(text: str) -> None:
    theirs = failover(text, APACHE, 10_000, "leader")
    assert theirs == (
        {"exit": 1.0, "session": 2.0, "election": 3.5, "client": 17_993.5, "total": 18_000.0},
        2,
        18_000.0,
        20_000.0,
    )
    with pytest.raises(MissingFact, match="nothing was measured of kafkalite, 300 partitions, leader"):
        failover(text, OURS, 300, "leader")
