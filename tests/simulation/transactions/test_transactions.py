"""Transactions under some seeds; `python -m tests.simulation --transactions` runs more of them."""

from __future__ import annotations

from collections import Counter

from tests.simulation.plan import CLIENT_FAULTS, PROTOCOL, Plan
from tests.simulation.seeds import live
from tests.simulation.transactions.plan import draw_transactions
from tests.simulation.transactions.transactional_run import TransactionalRun


def test_what_is_copied_in_transactions_is_there_once() -> None:
    judged: Counter[str] = Counter()
    for seed in range(3):
        plan = draw_transactions(seed)
        result, run = live(plan)
        assert not result.problem, f"{plan}\n{result.problem}"
        assert isinstance(run, TransactionalRun) and run.outcome.verdict is not None
        judged.update(run.outcome.verdict.judged)
    assert [rule for rule in ("C1", "C3", "C7", "C11", "C13", "C14", "C18") if not judged[rule]] == []


def test_a_plan_of_transactions_is_what_its_text_says() -> None:
    kinds: set[str] = set()
    for seed in range(50):
        plan = draw_transactions(seed)
        assert Plan.parse(str(plan)) == plan
        kinds.update(each.kind for each in plan.faults)
    assert set(CLIENT_FAULTS) <= kinds


def test_an_old_protocol_has_no_static_members() -> None:
    """Members were refused for ever (seed 900005)."""
    plans = [draw_transactions(seed) for seed in range(900_000, 900_060)]
    old = [each for each in plans if each.settings.get(PROTOCOL, "").startswith("2.1")]
    assert old
    assert {each.workload["static_members"] for each in old} == {0}
