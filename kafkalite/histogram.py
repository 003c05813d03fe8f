"""Durations counted in buckets, as Prometheus wants them: one list, so that counting costs a fraction of a microsecond."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from typing import Final

BOUNDS_S: Final = (
    0.0001,
    0.00025,
    0.0005,
    0.001,
    0.0025,
    0.005,
    0.01,
    0.025,
    0.05,
    0.1,
    0.25,
    0.5,
    1.0,
    2.5,
    5.0,
    10.0,
)
"""Upper bounds of the buckets in seconds; the last bucket has none."""


class Histogram:
    """The number of durations in each bucket, and their sum in seconds."""

    __slots__ = ("counts", "sum_s")

    def __init__(self) -> None:
        self.counts = [0] * (len(BOUNDS_S) + 1)
        self.sum_s = 0.0

    def observe(self, duration_s: float, times: int = 1) -> None:
        self.counts[bisect_left(BOUNDS_S, duration_s)] += times
        self.sum_s += duration_s * times

    @property
    def count(self) -> int:
        return sum(self.counts)

    def cumulative(self) -> Iterator[tuple[float, int]]:
        """Return (upper bound in seconds, durations up to it) of each bucket, ending with infinity."""
        total = 0
        for bound, count in zip((*BOUNDS_S, float("inf")), self.counts, strict=True):
            total += count
            yield bound, total


def quantile_s(counts: Sequence[int], share: float) -> float | None:
    """Return the duration that `share` of those counted do not exceed, as if they were spread evenly over their bucket (as Prometheus's
    `histogram_quantile`); the last bound for those beyond it, None when nothing was counted.
    """
    total = sum(counts)
    if not total:
        return None
    rank, below, lower_s = share * total, 0, 0.0
    for bound_s, count in zip(BOUNDS_S, counts, strict=False):
        if count and below + count >= rank:
            return lower_s + (bound_s - lower_s) * (rank - below) / count
        below, lower_s = below + count, bound_s
    return BOUNDS_S[-1]
