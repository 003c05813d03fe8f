"""Durations in buckets."""

from __future__ import annotations

import time

import pytest

from kafkalite.histogram import BOUNDS_S, Histogram


@pytest.mark.parametrize(
    ("duration_s", "bucket"), [(0, 0), (0.0001, 0), (0.00011, 1), (1.0, 12), (1.0001, 13), (10.0, 15), (11.0, 16)]
)
def test_a_bound_belongs_to_its_bucket(duration_s: float, bucket: int) -> None:
    histogram = Histogram()
    histogram.observe(duration_s)
    assert histogram.counts.index(1) == bucket and histogram.count == 1 and histogram.sum_s == duration_s


def test_cumulative_counts_end_with_all() -> None:
    histogram = Histogram()
    for duration_s in (0.0001, 0.2, 0.2, 60.0):
        histogram.observe(duration_s)
    found = dict(histogram.cumulative())
    assert list(found) == [*BOUNDS_S, float("inf")]
    assert (found[0.0001], found[0.1], found[0.25], found[10.0], found[float("inf")]) == (1, 1, 3, 3, 4)


def test_counting_costs_well_below_a_microsecond() -> None:
    histogram = Histogram()
    costs = []
    for _ in range(100):  # short ones: a machine that is busy otherwise leaves some of them alone
        began_s = time.perf_counter()
        for _ in range(1000):
            histogram.observe(0.003)
        costs.append((time.perf_counter() - began_s) / 1000)
    assert min(costs) < 0.7e-6
