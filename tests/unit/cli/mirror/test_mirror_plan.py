"""What a mirror does next with the topics of both sides."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from kafkalite.cli.mirror.plan import (
    HELD_SETTINGS,
    KnownTopic,
    MirroredTopic,
    TopicPlan,
    compare_settings,
    count_fencings,
    find_targets,
    place_replicas,
    plan_topics,
    source_epochs,
    wanted_settings,
)
from kafkalite.client import PartitionView
from kafkalite.types import TopicPartition

MIRROR = 900
BROKERS = {1: None, 2: None, 3: None}


def topic(*replicas: tuple[int, ...], id: str = "s", settings: Mapping[str, str] | None = None) -> MirroredTopic:
    views = tuple(PartitionView("t", number, MIRROR, 0, some, (MIRROR,), (), 0) for number, some in enumerate(replicas))
    return MirroredTopic("t", id, views, dict(settings or {}))


def plan(
    source: MirroredTopic | None, target: MirroredTopic | None, known: KnownTopic | None, factor: int | None = None
) -> TopicPlan:
    def one(value: Any) -> dict[str, Any]:
        return {} if value is None else {"t": value}

    return plan_topics(one(source), one(target), one(known), MIRROR, BROKERS, factor)


SOURCE = topic((7, 8), (8, 7))
BEGUN = KnownTopic("s", "t")


def test_a_new_topic_is_made_with_the_mirror_as_its_only_replica_and_then_moved_to_the_brokers() -> None:
    assert plan(SOURCE, None, None).creations == {"t": 2}
    made = plan(SOURCE, topic((MIRROR,), (MIRROR,), id="t"), KnownTopic("s"))
    assert made.mirrored == ["t"] and not made.creations
    assert {place: len(set(some) & {1, 2, 3}) for place, some in made.moves.items()} == {
        TopicPartition("t", 0): 2,
        TopicPartition("t", 1): 2,
    }
    assert not plan(SOURCE, topic((1, 2, MIRROR), (2, 3, MIRROR), id="t"), BEGUN).moves, "they are under way"


def test_a_topic_does_not_get_fewer_replicas_because_a_broker_is_down() -> None:
    why = "is to have 4 replicas, and the target has 3 brokers now; --replication-factor gives it fewer"
    new = plan(SOURCE, None, None, 4)
    assert new.problems == {"t": why} and not new.creations
    made = plan(SOURCE, topic((MIRROR,), (1, MIRROR), id="t"), BEGUN, 4)
    assert made.problems == {"t": why} and not made.moves and made.mirrored == ["t"], "what is placed goes on"
    assert not plan(SOURCE, topic((1, MIRROR), (1, MIRROR), id="t"), BEGUN, 4).problems


def test_partitions_that_the_source_got_are_added() -> None:
    there = topic((1, MIRROR), id="t")
    assert plan(SOURCE, there, BEGUN).additions == {"t": (1, 2)}


def test_unclean_elections_are_off_while_a_topic_is_mirrored() -> None:
    source = topic((7,), settings={"unclean.leader.election.enable": "true", "retention.ms": "5"})
    found = plan(source, topic((1, MIRROR), id="t"), BEGUN).settings
    assert found == {"t": {"unclean.leader.election.enable": "false", "retention.ms": "5"}}
    held = topic((1, MIRROR), id="t", settings={"retention.ms": "5", **HELD_SETTINGS})
    assert not plan(source, held, BEGUN).settings


def test_settings_are_made_equal_but_for_those_that_the_target_cannot_have() -> None:
    source = topic((7,), settings={"message.format.version": "2.8", "kafkalite.x": "1", "cleanup.policy": "compact"})
    wanted = wanted_settings(source)
    assert wanted == {"cleanup.policy": "compact"}
    there = {"retention.ms": "1", "leader.replication.throttled.replicas": "*"}
    assert compare_settings(wanted, there) == {"cleanup.policy": "compact", "retention.ms": None}


def test_a_topic_that_the_target_leads_is_left_alone() -> None:
    found = plan(SOURCE, topic((1, 2), (2, 3), id="t"), BEGUN)
    assert found.handed_over == ["t"] and not found.mirrored and not found.settings


@pytest.mark.parametrize(
    ("source", "target", "known", "why"),
    [
        (SOURCE, topic((1, 2), id="x"), None, "is in the target already"),
        (SOURCE, topic((1, 2), id="x"), KnownTopic("s"), "is in the target already"),
        (SOURCE, None, BEGUN, "was deleted in the target"),
        (SOURCE, topic((MIRROR,), id="x"), BEGUN, "was deleted in the target and made again"),
        (SOURCE, topic((MIRROR,), id="t"), KnownTopic("old", "t"), "was deleted in the source and made again"),
        (SOURCE, topic((1, MIRROR), (1, MIRROR), (1, MIRROR), id="t"), BEGUN, "has 3 partitions in the target"),
        (None, topic((1, MIRROR), id="t"), BEGUN, "is not in the source any more"),
    ],
)
def test_what_is_not_the_mirrors_is_refused(
    source: MirroredTopic | None, target: MirroredTopic | None, known: KnownTopic | None, why: str
) -> None:
    found = plan(source, target, known)
    assert why in found.problems["t"]
    assert not (found.creations or found.additions or found.moves or found.settings or found.mirrored)


def test_replicas_are_spread_and_stay_where_they_are_at_the_next_look() -> None:
    placed = place_replicas("t", 6, 2, BROKERS)
    assert placed == place_replicas("t", 6, 2, BROKERS)
    assert all(len(set(some)) == 2 for some in placed.values())
    assert sorted(some[0] for some in placed.values()) == [1, 1, 2, 2, 3, 3]
    racked = place_replicas("t", 4, 2, {1: "a", 2: "a", 3: "b", 4: "b"})
    assert all(len({each > 2 for each in some}) == 2 for some in racked.values()), "one in each rack"


def test_a_fencing_raises_the_leader_epoch_by_two() -> None:
    def of_epoch(epoch: int) -> MirroredTopic:
        return MirroredTopic("t", "x", (PartitionView("t", 0, 1, epoch, (1,), (1,), (), 0),))

    for source, target, fencings in ((0, 0, 0), (3, 7, 0), (1, 0, 1), (2, 0, 1), (7, 2, 3)):
        assert count_fencings(source_epochs([of_epoch(source)]), [of_epoch(target)]) == fencings
    assert count_fencings({}, []) == 0


def test_the_brokers_of_a_move_are_its_targets_and_absent_ones_are_named() -> None:
    there = topic((1, 2, MIRROR), (3, 1), id="t")
    assert list(find_targets([there], MIRROR, {1, 3})) == [(TopicPartition("t", 0), (1, 2), (2,))]
