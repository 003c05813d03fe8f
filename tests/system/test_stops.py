"""Clean stops of real brokers under every kind of traffic; `python -m tests.system.stops --stops 300` makes more of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.system import stops

pytestmark = [pytest.mark.system, pytest.mark.timeout(600)]

STOPS = 6


@pytest.mark.parametrize("secure", [False, True], ids=["plain", "secure"])
def test_brokers_stop_in_time_and_nothing_is_undone(tmp_path: Path, secure: bool) -> None:
    figures = stops.run(STOPS, 7, tmp_path, secure=secure)
    print(figures)
    assert len(figures.stops_s) >= STOPS and figures.deletions and figures.committed and figures.acknowledged
