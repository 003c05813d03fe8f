"""The page of many partitions, of figures that a test makes up: bars that are missed are told with their cause."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from click.testing import CliRunner

from tests.bench.scale_page import axes_of, groups_of, main, page
from tests.bench.scale_pairs import ratios


def row(partitions: int, *, takeover_s: float, side: str = "kafkalite", produced_us: float = 5.0) -> dict[str, Any]:
    stages = {"registered": partitions / 10_000, "serving": 1.0}
    return {
        "side": side,
        "partitions": partitions,
        "factor": 3,
        "stand-ins": 0,
        "load": [0.1, 2.0],
        "figures": {
            "takeover, s": takeover_s,
            "takeover until all are led, s": takeover_s / 2,
            "creation, s": partitions / 500,
        },
        "steps": {"restart after kill -9": {"stages": stages}},
        "memory, MB": {"together": 200.0},
        "at rest": {"produced, processor µs a record": produced_us},
    }


def result(*rows: dict[str, Any]) -> dict[str, Any]:
    return {
        "at": "20260101T000000Z",
        "machine": {"processors": 2},
        "sides": {"kafkalite": "1.0, pure"},
        "properties": {"a": "1"},
        "properties of ours": {"b": "2"},
        "file system": "tmpfs",
        "measured": [*rows],
    }


RESULTS = [
    result(row(1000, takeover_s=0.5), row(10_000, takeover_s=0.5)),
    result(
        row(100_000, takeover_s=50.0, produced_us=6.0), {"side": "kafkalite", "partitions": 1, "factor": 1, "load": []}
    ),
]


def test_bars_are_judged_at_their_size() -> None:
    text = page(RESULTS, "scale.svg")
    assert "| takeover after the verdict until all partitions are led, s, factor 3 | 5 | 25 | **missed** |" in text
    assert (
        "\nA takeover until no ISR has the dead broker takes 50 s with factor 3.\nIt is in the ISR of each partition"
        in text
    )
    assert "| 1,000 topics of 100 partitions created, s, factor 3 | 120 | 200 | **missed** |" in text
    assert "- 1,000 topics of 100 partitions created, s: two znodes, and for each replica" in text
    assert "| restart after kill -9 until the broker serves, s, factor 3 | 30 | 11 | met |" in text
    assert "- what a record costs: measured in one run of some seconds after the creation" in text
    assert "- restart after kill -9" not in text, "what is met has no cause"
    assert (
        "| produced, processor µs a record, times that beside 1,000 partitions, factor 3 | 1.05 | 1.20 | **missed** |"
        in text
    )
    small = page(RESULTS[:1], "scale.svg")
    assert "Bar" in small and "missed" not in small and "no ISR" not in small


def test_records_beside_many_partitions_are_judged_by_pairs_where_there_are_some() -> None:
    few, many = row(100, takeover_s=0.5), row(100_000, takeover_s=0.5)
    for each in (few, many):
        del each["figures"]
    times = {
        "produced, processor µs a record": [1.0, 1.01, 9.0],
        "consumed, processor µs a record": [1.0, 1.3, 1.2],
        "produced, records/s": [1.0, 1.25, 2.0],
        "consumed, records/s": [0.5, 0.8, 1.0],
    }
    text = page([*RESULTS, {**result(few, many), "pairs": times}], "scale.svg")
    assert "100,000 times 100 partitions, median of 3 pairs, factor 3 | 1.05 | 1.01 | met |" in text
    assert "100,000 times 100 partitions, median of 3 pairs, factor 3 | 1.05 | 1.20 | **missed** |" in text
    beside = "time by the clock, 100,000 times 100 partitions, median of 3 pairs, factor 3 | 1.05 |"
    assert f"| produced, {beside} 0.80 | met |" in text and f"| consumed, {beside} 1.25 | **missed** |" in text
    assert "times that beside 1,000 partitions" not in text
    assert ratios([({"a": 2.0}, {"a": 3.0}), ({"a": 1.0}, {"a": 4.0})]) == {"a": [1.5, 4.0]}


def test_what_grows_faster_than_its_work_is_told() -> None:
    text = page(RESULTS, "scale.svg")
    assert "## kafkalite, factor 3\n\n| Figure | 1,000 | 10,000 | 100,000 | Growth |" in text
    assert "| takeover, s | 0.5 | 0.5 | 50 | **10.00**, faster than its work |" in text
    assert "| creation, s | 2 | 20 | 200 | 1.00 |" in text
    assert "| settings | `a=1`, `b=2` |" in text and "| file system of logs | tmpfs |" in text


def test_others_are_beside_it_and_not_judged() -> None:
    text = page([*RESULTS, result(row(100_000, takeover_s=70.0, side="Apache Kafka"))], "scale.svg")
    assert "## Apache Kafka, factor 3" in text and "| 70 | **missed** |" not in text
    assert "## Beside" not in text, "they were not measured in the same run"
    together = result(row(10_000, takeover_s=0.5), row(10_000, takeover_s=70.0, side="Apache Kafka"))
    text = page([*RESULTS, together], "scale.svg")
    assert "## Beside Apache Kafka: 10,000 partitions, factor 3" in text
    assert "| takeover, s | 70 | 0.5 | 140 |" in text and "| memory, together, MB | 200 | 200 | 1 |" in text


def test_the_command_writes_the_page_and_its_picture(tmp_path: Path) -> None:
    given, wanted = tmp_path / "result.json", tmp_path / "SCALE.md"
    given.write_text(json.dumps(RESULTS[0]))
    assert CliRunner().invoke(main, [str(given), "--output", str(wanted)]).exit_code == 0
    assert "(scale.svg)" in wanted.read_text()
    assert ElementTree.parse(tmp_path / "scale.svg").getroot().tag.endswith("svg")
    (axis,) = axes_of(groups_of([RESULTS[0]]))
    assert axis.costs["takeover, ms"] == {1000: 0.5, 10_000: 0.05}
