"""Throttles of reassignments: which brokers and replicas are held back, and that all of it goes away again."""

from __future__ import annotations

from kafkalite.administration.replica_throttles import throttle_changes, without_throttles
from kafkalite.client import ConfigChange, ConfigResource, PartitionReassignment
from kafkalite.types import TopicPartition

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)


def told(changes: dict[ConfigResource, list[ConfigChange]]) -> dict[str, dict[str, str | None]]:
    return {str(resource): {each.name: each.value for each in of_it} for resource, of_it in changes.items()}


RATES = {"leader.replication.throttled.rate": "1000", "follower.replication.throttled.rate": "1000"}


def test_sources_and_destinations_are_held_back() -> None:
    changes = throttle_changes({A0: (1, 2), A1: (2, 3)}, {A0: (4, 2), A1: (3, 1)}, {}, 1000)
    assert told(changes) == {
        "topic a": {
            "leader.replication.throttled.replicas": "0:1,0:2,1:2,1:3",
            "follower.replication.throttled.replicas": "0:4,1:1",
        },
        **{f"broker {broker}": RATES for broker in (1, 2, 3, 4)},
    }


def test_moves_that_go_on_stay_held_back() -> None:
    moves = {A0: PartitionReassignment(A0, (3, 1, 2), (3,), (1,)), B0: PartitionReassignment(B0, (5, 1), (5,), (1,))}
    current = {A0: (3, 1, 2), A1: (1, 2)}
    found = told(throttle_changes(current, {A0: (4, 2), A1: (3, 2)}, moves, 1000))
    assert found["topic a"] == {
        "leader.replication.throttled.replicas": "0:1,0:2,1:1,1:2",
        "follower.replication.throttled.replicas": "0:4,1:3",
    }
    assert found["topic b"] == {
        "leader.replication.throttled.replicas": "0:1",
        "follower.replication.throttled.replicas": "0:5",
    }
    assert found.keys() == {"topic a", "topic b", *(f"broker {broker}" for broker in (1, 2, 3, 4, 5))}


def test_everything_that_is_set_is_deleted() -> None:
    changes = throttle_changes({A0: (1,)}, {A0: (2,)}, {}, 1000)
    gone = without_throttles(["a"], [1, 2])
    assert {each: {c.name for c in of_it} for each, of_it in changes.items()} == {
        each: {c.name for c in of_it} for each, of_it in gone.items()
    }
    assert all(change.operation == "delete" for of_it in gone.values() for change in of_it)
    assert ConfigResource("topic", "a") in gone
