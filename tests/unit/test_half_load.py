"""The figures of the bench at half load, of times that a test makes up."""

from __future__ import annotations

from array import array
from pathlib import Path

import pytest

from tests.bench.half_load import Latencies, by_minute, latencies, misses, read
from tests.bench.paced import save


def test_the_shares_are_of_all_times() -> None:
    assert latencies([each / 1000 for each in range(1000, 0, -1)]) == pytest.approx((501, 991, 1000, 1000))
    assert latencies([0.5]) == (500, 500, 500, 500)
    with pytest.raises(ValueError, match="nothing"):
        latencies([])


def test_a_time_belongs_to_the_minute_in_which_its_record_was_due() -> None:
    # The record of the first minute ends in the second one.
    measured = [(100.0, 0.001), (159.0, 5.0), (160.5, 0.002), (219.0, 0.003)]
    assert [each.most for each in by_minute(measured)] == [5000, 3]


def test_a_rest_of_a_minute_belongs_to_the_last_one() -> None:
    assert len(by_minute([(0.0, 0.1), (60.0, 0.1), (140.0, 0.1)])) == 2
    assert len(by_minute([(0.0, 0.1), (2.0, 0.1)])) == 1


def test_a_bar_that_is_just_reached_is_missed() -> None:
    bars = {"p99": 10.0, "p99.9": 25.0}
    assert misses(Latencies(1, 9.9, 24.9, 100), bars) == []
    assert misses(Latencies(1, 10, 26, 100), bars) == ["p99 10.0 ms, bar 10 ms", "p99.9 26.0 ms, bar 25 ms"]


def test_what_an_end_saves_is_read(tmp_path: Path) -> None:
    save(array("d", [1.0, 0.1, 2.0, 0.2]), tmp_path / "found")
    assert list(read(tmp_path / "found")) == [(1.0, 0.1), (2.0, 0.2)]
