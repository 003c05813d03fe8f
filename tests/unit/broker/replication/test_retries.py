"""When a follower asks again for what its leader refused, and for how much of it at once."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

from kafkalite.broker.replication.retries import FEWEST, Retries
from kafkalite.types import TopicPartition

INFINITY = float("inf")


def partitions(indexes: Iterable[int]) -> list[TopicPartition]:
    return [TopicPartition("t", index) for index in indexes]


def retries_of(count: int, due_ms: float = 0.0) -> Retries:
    retries = Retries()
    for each in partitions(range(count)):
        retries.put_off(each, due_ms)
    return retries


def test_a_partition_is_due_when_its_time_has_come() -> None:
    retries = Retries()
    late, soon, never = partitions(range(3))
    retries.put_off(late, 30.0)
    retries.put_off(soon, 20.0)
    retries.put_off(never, INFINITY)
    assert retries.wait_ms(5.0) == 15.0 and retries.take_due(19.9) == []
    assert retries.take_due(20.0) == [soon] and soon not in retries
    assert retries.wait_ms(29.9) == 1.0, "a request that does not wait at all would be repeated at once"
    assert retries.take_due(1e9) == [late]
    assert (len(retries), never in retries, retries.wait_ms(1e9)) == (1, True, INFINITY)


def test_what_is_taken_out_or_put_off_again_is_not_due_at_its_earlier_time() -> None:
    retries = retries_of(3, 10.0)
    gone, again, kept = partitions(range(3))
    retries.take_out(gone)
    retries.put_off(again, 40.0)
    assert retries.take_due(10.0) == [kept]
    assert retries.take_due(40.0) == [again] and len(retries) == 0


def test_while_the_leader_refuses_few_are_tried_and_after_pauses() -> None:
    """Followers named ten thousand partitions a dozen times each before the leader, busy with refusing them, had taken up its roles."""
    retries, now_ms, tried, moments = retries_of(20 * FEWEST), 0.0, 0, []
    while now_ms < 5000.0:
        now_ms += retries.wait_ms(now_ms)
        due = retries.take_due(now_ms)
        assert len(due) == FEWEST
        tried += len(due)
        moments.append(now_ms)
        for each in due:
            retries.put_off(each, now_ms + 100.0)
        retries.note_answer(due)
    pauses = [later - earlier for earlier, later in pairwise(moments)]
    assert pauses[:7] == [10, 20, 40, 80, 160, 320, 640] and set(pauses[7:]) == {1000.0}
    assert tried == 12 * FEWEST


def test_once_the_leader_has_taken_up_its_roles_twice_as_many_are_tried_each_time() -> None:
    retries, sizes = retries_of(20 * FEWEST), []
    refused = retries.take_due(0.0)
    retries.note_answer(refused)
    assert retries.take_due(9.0) == [] and retries.wait_ms(9.0) == 1.0
    retries.note_answer([])
    assert retries.take_due(9.9) == [], "an answer to a request that tried nothing ends no pause"
    now_ms = 10.0
    while now_ms < INFINITY:
        due = retries.take_due(now_ms)
        sizes.append(len(due))
        retries.note_answer(due[: len(due) // 2 - 1])
        now_ms += retries.wait_ms(now_ms)
    assert sizes == [FEWEST, 2 * FEWEST, 4 * FEWEST, 8 * FEWEST, 4 * FEWEST]


def test_partitions_that_are_refused_for_ever_hold_up_no_others() -> None:
    retries = Retries()
    broken, other = partitions(range(2))
    for now_ms in (0.0, 100.0, 200.0):
        retries.put_off(broken, now_ms)
        assert retries.take_due(now_ms) == [broken]
        retries.note_answer([broken])
    retries.put_off(other, 200.0)
    assert retries.take_due(200.0) == [other]
