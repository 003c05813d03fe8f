"""Living brokers are taken for dead, again and again; `python -m tests.simulation --lies` runs more seeds."""

from __future__ import annotations

from collections import Counter
from typing import Final

import pytest

from kafkalite.testing.simulation.lies import LIES
from tests.simulation.plan import draw_honest, draw_plan
from tests.simulation.seeds import draw_lying, live

SEEDS, CHUNK = 10, 10
_STATES: Final = ("a verdict about a broker", "a verdict that was not carried out")


@pytest.mark.parametrize("first", range(0, SEEDS, CHUNK))
def test_nothing_is_lost_by_wrong_verdicts(first: int) -> None:
    """A failure names its seed."""
    reached: Counter[str] = Counter()
    for seed in range(first, first + CHUNK):
        result, _ = live(draw_lying(seed))
        assert not result.problem, f"{draw_lying(seed)}\n{result.problem}"
        reached.update(result.states)
        reached.update(result.faults)
    assert [each for each in (*_STATES, "false-verdict") if not reached[each]] == []


def test_detectors_lie_only_where_sessions_end_on_evidence() -> None:
    lying = 0
    for seed in range(100):
        plan = draw_plan(seed)
        if any(each.kind in LIES for each in plan.faults):
            assert plan.settings["kafkalite.failover.detection"] == "evidence"
            lying += 1
        elif plan.settings.get("kafkalite.failover.detection") != "evidence":
            assert plan == draw_honest(seed)
    assert 3 < lying < 15
