"""Plans of reassignments: even, rack-aware, with as little moved as can be."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkalite.cli.partition.plan import PlanError, balance, with_replication_factor
from kafkalite.types import TopicPartition

T = [TopicPartition("t", number) for number in range(20)]


def loads(plan: dict[TopicPartition, tuple[int, ...]], brokers: list[int]) -> list[int]:
    count = Counter(broker for replicas in plan.values() for broker in replicas)
    return [count[broker] for broker in brokers]


def test_what_is_even_stays() -> None:
    current = {T[0]: (1, 2), T[1]: (2, 3), T[2]: (3, 1)}
    assert balance(current, [1, 2, 3], {}) == current


def test_a_new_broker_gets_its_share_and_nothing_else_moves() -> None:
    current = {T[0]: (1, 2), T[1]: (2, 1), T[2]: (1, 2)}
    plan = balance(current, [1, 2, 3], {})
    assert loads(plan, [1, 2, 3]) == [2, 2, 2]
    moved = sum(len(set(plan[each]) - set(current[each])) for each in current)
    assert moved == 2 and sorted(replicas[0] for replicas in plan.values()) == [1, 2, 3]


def test_brokers_that_are_to_go_are_emptied() -> None:
    current = dict.fromkeys(T[:4], (1, 2, 3))
    plan = balance(current, [2, 3, 4], {})
    assert loads(plan, [1, 2, 3, 4]) == [0, 4, 4, 4]
    assert all(set(replicas) == {2, 3, 4} for replicas in plan.values())


def test_replicas_are_in_different_racks() -> None:
    racks = {1: "a", 2: "a", 3: "b", 4: "b"}
    plan = balance(dict.fromkeys(T[:8], (1, 2)), [1, 2, 3, 4], racks, 2)
    grown = with_replication_factor({T[0]: (1,), T[1]: (3,)}, [T[0], T[1]], 2, [1, 2, 3, 4], racks, {})
    assert loads(plan, [1, 2, 3, 4]) == [4, 4, 4, 4]
    assert all(len({racks[broker] for broker in replicas}) == 2 for replicas in grown.values())


def test_a_rack_is_not_left_for_an_even_load() -> None:
    racks = {1: "a", 2: "b", 3: "b"}
    plan = balance(dict.fromkeys(T[:6], (1, 2)), [1, 2, 3], racks)
    assert loads(plan, [1, 2, 3]) == [6, 3, 3], "broker 1 is alone in its rack"


def test_more_replicas_go_where_fewest_are() -> None:
    current = {T[0]: (1, 2), T[1]: (3, 4), T[2]: (3, 4), T[3]: (1, 4)}
    plan = with_replication_factor(current, [T[0]], 3, [1, 2, 3, 4], {}, {})
    assert plan == {T[0]: (1, 2, 3)}


def test_fewer_replicas_keep_the_preferred_leader_and_those_in_sync() -> None:
    current = {T[0]: (1, 2, 3, 4)}
    assert with_replication_factor(current, T[:1], 2, [1, 2, 3, 4], {}, {T[0]: [1, 4]}) == {T[0]: (1, 4)}
    assert with_replication_factor(current, T[:1], 2, [2, 3, 4], {}, {T[0]: [1, 2, 3]}) == {T[0]: (2, 3)}
    racks = {1: "a", 2: "a", 3: "b", 4: "b"}
    every = {T[0]: [1, 2, 3, 4]}
    assert with_replication_factor(current, T[:1], 2, [1, 2, 3, 4], racks, every) == {T[0]: (1, 3)}


@pytest.mark.parametrize("factor", [0, -1, 4])
def test_what_cannot_be_is_refused(factor: int) -> None:
    with pytest.raises(PlanError, match=f"replication factor .*{factor}"):
        with_replication_factor({T[0]: (1,)}, T[:1], factor, [1, 2, 3], {}, {})


@given(
    st.lists(st.lists(st.integers(1, 6), min_size=1, max_size=4, unique=True), min_size=1, max_size=20),
    st.sets(st.integers(1, 6), min_size=4),
    st.dictionaries(st.integers(1, 6), st.sampled_from("ab")),
)
def test_any_plan_is_valid_stable_and_without_racks_even(
    replicas: list[list[int]], brokers: set[int], racks: dict[int, str]
) -> None:
    current = dict(zip(T, map(tuple, replicas), strict=False))
    plan = balance(current, brokers, racks)
    for partition, target in plan.items():
        assert len(set(target)) == len(target) == len(current[partition]) and set(target) <= brokers
    assert balance(plan, brokers, racks) == plan
    even = loads(balance(current, brokers, {}), sorted(brokers))
    assert max(even) - min(even) <= 1
