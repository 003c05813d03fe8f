"""Topics of others that the target has placed at the mirror go to its brokers."""

from __future__ import annotations

import pytest

from kafkalite.cli.mirror.plan import KnownTopic
from kafkalite.cli.mirror.strays import find_strays, find_target, list_partitions, plan_moves
from kafkalite.client import PartitionReassignment
from kafkalite.client.cluster.view import PartitionView, TopicView
from kafkalite.types import TopicPartition, topic_id_to_text

MIRROR = 900
BROKERS = {1: None, 2: None, 3: None}
ID = b"i" * 16
T0 = TopicPartition("t", 0)


def topic(*replicas: int) -> dict[str, TopicView]:
    return {"t": TopicView("t", ID, False, {0: PartitionView("t", 0, replicas[0], 0, replicas, replicas)})}


def moves(
    *replicas: int, moving: PartitionReassignment | None = None, count: int = 3
) -> dict[TopicPartition, tuple[int, ...]]:
    brokers: dict[int, str | None] = dict.fromkeys(range(1, count + 1))
    return plan_moves(topic(*replicas), {} if moving is None else {T0: moving}, MIRROR, brokers)


def test_a_topic_is_no_stray_if_the_mirror_has_made_it() -> None:
    there = topic(1, MIRROR)
    assert list(find_strays(there, {}, MIRROR)) == ["t"]
    assert not find_strays(there, {"t": KnownTopic("s", topic_id_to_text(ID))}, MIRROR)
    assert not find_strays(there, {"t": KnownTopic("s")}, MIRROR), "begun, and not seen yet"
    made_again = {"t": KnownTopic("s", topic_id_to_text(b"o" * 16))}
    assert list(find_strays(there, made_again, MIRROR)) == ["t"]
    assert not find_strays(topic(1, 2), {}, MIRROR)


@pytest.mark.parametrize(("replicas", "at"), [((MIRROR,), 0), ((MIRROR, 2), 0), ((2, MIRROR), 1)])
def test_a_broker_takes_the_place_of_the_mirror(replicas: tuple[int, ...], at: int) -> None:
    (wanted,) = moves(*replicas).values()
    assert len(wanted) == len(replicas) and wanted[at] in BROKERS
    assert wanted[:at] + wanted[at + 1 :] == replicas[:at] + replicas[at + 1 :]
    assert len(set(wanted)) == len(wanted)


def test_where_all_brokers_have_a_replica_one_less_is_left() -> None:
    assert moves(2, MIRROR, 1, count=2) == {T0: (2, 1)}
    assert moves(MIRROR, count=0) == {}


def test_what_leaves_already_is_left_alone_and_a_move_to_the_mirror_is_changed() -> None:
    leaving = PartitionReassignment(T0, (1, MIRROR), (1,), (MIRROR,))
    assert moves(1, MIRROR, moving=leaving) == {}
    coming = PartitionReassignment(T0, (MIRROR, 1), (MIRROR,), (1,))
    (wanted,) = moves(MIRROR, 1, moving=coming).values()
    assert len(wanted) == 1 and MIRROR not in wanted


def test_the_target_of_a_move_is_what_is_left_at_its_end() -> None:
    ((place, each),) = list_partitions(topic(1, MIRROR), MIRROR)
    assert place == T0 and find_target(each, None) == (1, MIRROR)
    assert find_target(each, PartitionReassignment(T0, (1, 2, MIRROR), (2,), (1, MIRROR))) == (2,)
