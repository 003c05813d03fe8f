"""Exponential backoff with jitter."""

from __future__ import annotations

import pytest

from kafkalite.backoff import Backoff


def test_the_delay_doubles_up_to_its_greatest() -> None:
    backoff = Backoff(100, 1000)
    assert [backoff.delay_ms(failures) for failures in range(6)] == [0, 100, 200, 400, 800, 1000]
    assert backoff.delay_ms(10**6, 0.3) == 1000


def test_jitter_spreads_to_both_sides() -> None:
    backoff = Backoff(100, 1000, jitter=0.2)
    assert backoff.delay_ms(1, 0.0) == pytest.approx(80)
    assert backoff.delay_ms(1, 0.5) == backoff.delay_ms(1) == pytest.approx(100)
    assert backoff.delay_ms(1, 1.0) == pytest.approx(120)
