"""Replica placement against known assignments, and what must hold for any."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zk.placement import PlacementError, assign, extend


def test_five_brokers_three_replicas():
    assert list(assign(range(5), 11, 3, start=0, shift=0).values()) == [
        (0, 1, 2),
        (1, 2, 3),
        (2, 3, 4),
        (3, 4, 0),
        (4, 0, 1),
        (0, 2, 3),
        (1, 3, 4),
        (2, 4, 0),
        (3, 0, 1),
        (4, 1, 2),
        (0, 3, 4),
    ]


def test_start_and_shift_move_leaders_and_followers():
    assert assign([1, 2, 3], 3, 2, start=1, shift=1) == {0: (2, 1), 1: (3, 2), 2: (1, 3)}


def test_one_broker_holds_everything():
    assert assign([7], 3, 1, start=0, shift=0) == {0: (7,), 1: (7,), 2: (7,)}


def test_racks_alternate():
    # Arranged: 0 (a), 3 (b), 1 (c), 5 (a), 4 (b), 2 (c).
    racks = {0: "a", 1: "c", 2: "c", 3: "b", 4: "b", 5: "a"}
    assert list(assign(range(6), 7, 3, start=0, shift=0, racks=racks).values()) == [
        (0, 3, 1),
        (3, 1, 5),
        (1, 5, 4),
        (5, 4, 2),
        (4, 2, 0),
        (2, 0, 3),
        (0, 4, 2),
    ]


@given(st.data())
def test_every_rack_is_used_before_any_is_used_twice(data):
    racks = dict(enumerate(data.draw(st.lists(st.sampled_from("abcd"), min_size=1, max_size=12))))
    factor = data.draw(st.integers(1, len(racks)))
    start, shift = (data.draw(st.integers(0, len(racks) - 1)) for _ in range(2))
    for replicas in assign(list(racks), 30, factor, start=start, shift=shift, racks=racks).values():
        assert len(set(replicas)) == factor
        assert len({racks[broker] for broker in replicas}) == min(factor, len(set(racks.values())))


@given(st.integers(1, 12), st.integers(0, 11), st.integers(0, 11), st.data())
def test_leaders_are_spread_evenly(count, start, shift, data):
    factor = data.draw(st.integers(1, count))
    placed = assign(range(count), count * 3, factor, start=start, shift=shift)
    assert all(len(set(replicas)) == factor for replicas in placed.values())
    leaders = [replicas[0] for replicas in placed.values()]
    assert {leaders.count(broker) for broker in range(count)} == {3}


def test_added_partitions_go_on_from_partition_0():
    assert extend({0: (2, 3)}, [3, 1, 2], 4) == {1: (3, 2), 2: (1, 3), 3: (2, 3)}


def test_added_partitions_when_the_first_broker_is_gone():
    assert extend({0: (9,)}, [1, 2], 2) == {1: (2,)}


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (([1, 2], 1, 3), "replication factor 3 is larger than the 2 brokers"),
        (([1, 2], 0, 1), "number of partitions is 0"),
        (([1, 2], 1, 0), "replication factor is 0"),
    ],
)
def test_refuses_what_cannot_be_placed(arguments, problem):
    with pytest.raises(PlacementError, match=problem):
        assign(*arguments, start=0, shift=0)


def test_refuses_racks_of_some_brokers_only():
    with pytest.raises(PlacementError, match=r"not \[2\]"):
        assign([1, 2], 1, 1, start=0, shift=0, racks={1: "a"})


def test_refuses_to_shrink_a_topic():
    with pytest.raises(PlacementError, match="has 2 partitions already"):
        extend({0: (1,), 1: (1,)}, [1], 2)
