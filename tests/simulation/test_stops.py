"""Clean stops under every kind of traffic, in the simulation; `python -m tests.simulation.stops --stops 1000` makes more of them."""

from __future__ import annotations

import pytest

from tests.simulation import stops


@pytest.mark.parametrize("seed", [1, 2])
def test_brokers_stop_in_time_and_nothing_is_undone(seed: int) -> None:
    figures = stops.run(seed, 10)
    assert figures.deletions and figures.committed and figures.acknowledged
    assert len(figures.stops_s) + figures.kills >= 10
