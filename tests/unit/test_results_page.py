"""The page of results, of figures that a test makes up: losses are told, and a comparison finds them."""

from __future__ import annotations

import math
from typing import Any
from xml.etree import ElementTree

import pytest

from tests.bench.page import losses, page, picture, ratio

HIGHER = {"rate": True, "wait": False, "quiet": False}


def result(**values: Any) -> dict[str, Any]:
    content: dict[str, Any] = {
        "at": "20260101T000000Z",
        "command": "python -m tests.bench --results",
        "machine": {"processors": 2, "processor": "a | b"},
        "load": [0.1, 2.0],
        "rounds": 3,
        "seconds": 5.0,
        "sides": {"kafkalite": "1.0, pure"},
        "properties": {"a": "b"},
        "units": dict.fromkeys(HIGHER, "ms"),
        "higher_is_better": HIGHER,
        "values": {
            "ours": {"rate": [90.0, 100.0, 110.0], "wait": [4.0], "quiet": [0.0]},
            "against": {"rate": [50.0], "wait": [1.0, 2.0, 3.0], "quiet": [1.0]},
        },
    }
    return content | values


def test_the_page_tells_losses_as_it_tells_gains() -> None:
    text = page(result())
    assert "| rate | ms | 50 | 100 (90 to 110) | 2.00 |" in text
    assert "| wait | ms | 2 (1 to 3) | 4 | **0.50** |" in text
    assert "Ahead in 2 of 3 cells; behind in: wait." in text
    assert "| processor | a \\| b |" in text and "0.1 to 2.0" in text


def test_the_picture_is_drawn_to_both_sides() -> None:
    root = ElementTree.fromstring(picture(result()))
    bars = [each for each in root.iter("{http://www.w3.org/2000/svg}rect") if each.get("x")]
    begins = [float(each.get("x", "")) for each in bars]
    assert begins[1] < begins[0], "who is behind is drawn to the left"
    assert [float(each.get("width", "")) > 0 for each in bars] == [True, True, False]


@pytest.mark.parametrize(("now", "lost"), [([91.0], {}), ([89.0], {"rate": 0.89}), ([200.0], {})])
def test_a_comparison_fails_from_a_tenth_on(now: list[float], lost: dict[str, float]) -> None:
    assert losses({"rate": [100.0, 100.0]}, {"rate": now, "wait": [5.0]}, HIGHER) == lost


def test_what_is_lower_is_better_where_it_says_so() -> None:
    assert list(losses({"wait": [1.0]}, {"wait": [1.2]}, HIGHER)) == ["wait"]
    assert math.isnan(ratio(0.0, 1.0, higher_is_better=False))
