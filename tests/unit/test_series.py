"""Figures over time in a ring."""

from __future__ import annotations

import pytest

from kafkalite.histogram import BOUNDS_S, Histogram, quantile_s
from kafkalite.series import Series


def test_the_newest_points_are_kept_in_order_at_the_same_cost() -> None:
    series = Series(("a", "b"), 3)
    cost = series.size_bytes
    for number in range(5):
        series.append(number, {"a": number / 2} if number != 3 else {"b": 1.0, "a": None})
    assert len(series) == 3 and series.size_bytes == cost == 72
    assert series.to_dict() == {"times": [2, 3, 4], "values": {"a": [1.0, None, 2.0], "b": [None, 1.0, None]}}
    with pytest.raises(ValueError, match="0 points"):
        Series((), 0)


def test_quantiles_of_a_histogram() -> None:
    found = Histogram()
    assert quantile_s(found.counts, 0.99) is None
    for _ in range(99):
        found.observe(0.002)
    found.observe(0.04)
    assert quantile_s(found.counts, 0.5) == pytest.approx(0.001 + 0.0015 * 50 / 99)
    assert quantile_s(found.counts, 1.0) == pytest.approx(0.05)
    found.observe(1000)
    assert quantile_s(found.counts, 1.0) == BOUNDS_S[-1]
