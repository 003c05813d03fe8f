"""The figures of the bench of failovers, of moments that a test makes up."""

from __future__ import annotations

import click
import pytest

from tests.bench.failover import parse_properties
from tests.bench.failover_figures import (
    Moments,
    Roles,
    Sent,
    choose_roles,
    first_acknowledgement,
    stages_ms,
    summarize,
    summarize_stages,
)
from tests.bench.failover_rounds import is_served_without, is_taken
from zk.znodes.controller import ControllerSeat

MS = 1_000_000


def test_percentiles_are_figures_that_were_measured() -> None:
    assert summarize([float(each) for each in range(50, 0, -1)]) == (25, 45, 50)
    assert summarize([3.0, 1.0, 2.0]) == (2, 3, 3)
    assert summarize([7.0]) == (7, 7, 7)
    with pytest.raises(ValueError, match="nothing"):
        summarize([])


def test_stages_add_up_to_the_total() -> None:
    stages = stages_ms(Moments(100 * MS, 110 * MS, 300 * MS, 320 * MS, 350 * MS, 400 * MS))
    assert stages == {"exit": 10, "session": 190, "seat": 20, "election": 30, "client": 50, "total": 300}


def test_a_stage_without_a_moment_belongs_to_the_next_one() -> None:
    stages = stages_ms(Moments(0, None, 200 * MS, None, 250 * MS, 30_000 * MS, newcomer_ns=300 * MS))
    assert stages == {"session": 200, "election": 50, "client": 29_750, "total": 30_000, "newcomer": 300}


def test_a_watch_that_came_late_makes_no_stage_negative() -> None:
    stages = stages_ms(Moments(0, 5 * MS, 300 * MS, 290 * MS, 310 * MS, 305 * MS))
    assert stages == {"exit": 5, "session": 295, "seat": 0, "election": 5, "client": 0, "total": 305}


def test_a_record_sent_before_the_strike_counts_only_if_acknowledged_after_the_session() -> None:
    replicated_before = Sent(sent_ns=99, acknowledged_ns=101)
    retried = Sent(sent_ns=99, acknowledged_ns=205)
    after = Sent(sent_ns=150, acknowledged_ns=180)
    assert first_acknowledgement([Sent(1, 2), replicated_before], struck_ns=100, session_ended_ns=200) is None
    assert first_acknowledgement([replicated_before, after], struck_ns=100, session_ended_ns=200) == 180
    assert first_acknowledgement([Sent(1, 2), retried], struck_ns=100, session_ended_ns=200) == 205


def test_only_a_controller_that_is_to_be_struck_is_struck() -> None:
    for controller in (1, 2, 3):
        assert choose_roles("controller", controller, [1, 2, 3]) == Roles(controller, controller)
        assert choose_roles("vanish", controller, [1, 2, 3]) == choose_roles("leader", controller, [1, 2, 3])
        leader, struck = choose_roles("leader", controller, [3, 2, 1])
        assert leader == struck != controller
        leader, struck = choose_roles("follower", controller, [1, 2, 3])
        assert len({leader, struck, controller}) == 3


def test_rounds_are_summarized_stage_by_stage() -> None:
    found = summarize_stages([{"exit": 1.0, "total": 9.0}, {"exit": 3.0, "seat": 2.0, "total": 5.0}])
    assert list(found) == ["exit", "seat", "total"]
    assert found["exit"] == (1, 3, 3)
    assert found["seat"] == (2, 2, 2)


def test_an_election_is_over_when_neither_leader_nor_isr_is_the_victim() -> None:
    def state(leader: int, isr: str) -> bytes:
        return f'{{"controller_epoch":1,"leader":{leader},"version":1,"leader_epoch":3,"isr":[{isr}]}}'.encode()

    assert not is_served_without(1, None)
    assert not is_served_without(1, state(1, "1,2,3"))
    assert not is_served_without(1, state(-1, "1"))
    assert not is_served_without(1, state(2, "2,3,1"))
    assert is_served_without(1, state(2, "2,3"))


def test_the_seat_of_a_dead_controller_is_taken_by_another() -> None:
    assert not is_taken(1, None)
    assert not is_taken(1, ControllerSeat(1, 5).encode())
    assert is_taken(1, ControllerSeat(2, 5).encode())


def test_settings_of_brokers_are_pairs() -> None:
    assert parse_properties(["a=1", "b=x=y"]) == {"a": "1", "b": "x=y"}
    with pytest.raises(click.BadParameter, match="'a' is not key=value"):
        parse_properties(["a"])
