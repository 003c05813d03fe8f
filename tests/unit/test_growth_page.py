"""The page of growth, of figures that a test makes up: what grows faster than its work is told, in words, table and picture."""

from __future__ import annotations

import math
from typing import Any
from xml.etree import ElementTree

import pytest

from tests.bench.growth import ROWS
from tests.bench.growth_page import Axis, growth, page, picture, too_fast
from tests.bench.page import BAD, GOOD

AXES = [
    Axis("partitions", "partitions", {"creation": {16: 8.0, 64: 2.0, 1024: 5.0}, "a | b": {16: 1.0, 64: 1.4}}),
    Axis("log", "MB", {"start": {16: 3.0, 64: 0.5}, "late": {64: 1.0}}),
]
SVG = "{http://www.w3.org/2000/svg}"


def result() -> dict[str, Any]:
    return {
        "at": "20260101T000000Z",
        "command": "python -m tests.bench.growth",
        "machine": {"processors": 2},
        "load": [0.1, 2.0],
        "ours": "1.0, pure",
        "rounds": 3,
    }


@pytest.mark.parametrize(
    ("costs", "times"),
    [
        ({1: 2.0, 4: 2.0, 16: 2.0}, 1.0),
        ({1: 2.0, 4: 3.0, 16: 2.0}, 1.5),
        ({1: 10.0, 4: 2.0, 16: 4.0}, 2.0),  # a fixed cost at 1x hides nothing
        ({1: 4.0, 4: 2.0, 16: 1.5}, 0.75),
    ],
)
def test_growth_is_counted_from_the_least_cost_of_a_smaller_size(costs: dict[int, float], times: float) -> None:
    assert growth(costs) == times


def test_one_size_has_no_growth() -> None:
    assert math.isnan(growth({64: 1.0})) and math.isnan(growth({}))


def test_what_grows_faster_than_its_work_is_told() -> None:
    assert too_fast(AXES) == {"partitions: creation": 2.5}
    text = page(result(), AXES, "growth.svg")
    assert "Grows faster than its work: partitions: creation (2.50 times)." in text
    assert "| Cost | 16 | 64 | 1024 | Growth |" in text and "| Cost | 16 MB | 64 MB | Growth |" in text
    assert "| creation | 8 | 2 | 5 | **2.50** |" in text
    assert "| a \\| b | 1 | 1.4 |  | 1.40 |" in text
    assert "| late |  | 1 |  |" in text
    assert "0.1 to 2.0" in text and "the least of 3 rounds" in text and "(growth.svg)" in text


def test_where_nothing_grows_the_page_says_so() -> None:
    assert "Nothing grows faster than its work." in page(result(), AXES[1:], "growth.svg")


def test_the_picture_has_a_panel_for_each_cost() -> None:
    root = ElementTree.fromstring(picture(AXES))
    lines = list(root.iter(f"{SVG}polyline"))
    assert [each.get("stroke") for each in lines] == [BAD, GOOD, GOOD, GOOD]
    (left, high), (right, low) = (map(float, each.split(",")) for each in lines[2].get("points", "").split())
    assert left < right and high < low, "what is cheaper is drawn lower"
    assert len(list(root.iter(f"{SVG}circle"))) == 8


def test_brokers_grow_by_the_square_root() -> None:
    assert ROWS["brokers"].sizes([1, 4, 16, 64]) == [1, 2, 4, 8]
    assert ROWS["partitions"].sizes([64, 1]) == [16, 1024]
