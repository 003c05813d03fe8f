"""The replication throttles of a reassignment, set and removed as Kafka's own tool does it (KIP-73). Pure.

Brokers that send or receive get a rate; topics name the throttled replicas: the present replicas of a moving partition at the leaders,
those that are being added at the followers.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from kafkalite.types import TopicPartition

if TYPE_CHECKING:
    from kafkalite.client import ConfigChange, ConfigResource, PartitionReassignment

RATES: Final = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")
"""Settings of a broker in bytes per second."""
LEADERS, FOLLOWERS = "leader.replication.throttled.replicas", "follower.replication.throttled.replicas"


def throttle_changes(
    current: Mapping[TopicPartition, Sequence[int]],
    targets: Mapping[TopicPartition, Sequence[int]],
    moves: Mapping[TopicPartition, PartitionReassignment],
    rate_bytes_s: int,
) -> dict[ConfigResource, list[ConfigChange]]:
    """Return the changes of settings that throttle the moves from `current` to `targets`, and those in progress (`moves`).

    A setting names all throttled replicas of a topic, so those of earlier moves must be in it again. The sources of a move are the
    replicas from before its start.
    """
    from kafkalite.client import ConfigChange, ConfigResource

    going_on = {each: set(move.replicas) - set(move.adding_replicas) for each, move in moves.items()}
    sources = {**{each: set(current[each]) for each in targets}, **going_on}
    destinations = {each: set(moves[each].adding_replicas) for each in moves}
    destinations.update({each: set(replicas) - sources[each] for each, replicas in targets.items()})
    changes = {
        ConfigResource("topic", topic): [
            ConfigChange(LEADERS, "set", _list_replicas(topic, sources)),
            ConfigChange(FOLLOWERS, "set", _list_replicas(topic, destinations)),
        ]
        for topic in sorted({each.topic for each in sources})
    }
    for broker in sorted(set[int]().union(*sources.values(), *destinations.values())):
        changes[ConfigResource("broker", str(broker))] = [
            ConfigChange(name, "set", str(rate_bytes_s)) for name in RATES
        ]
    return changes


def _list_replicas(topic: str, brokers: Mapping[TopicPartition, Iterable[int]]) -> str:
    """Return the replicas of a topic as the settings list them, sorted as texts, as Kafka's tool does."""
    return ",".join(
        sorted(
            f"{each.partition}:{broker}" for each, of_it in brokers.items() if each.topic == topic for broker in of_it
        )
    )


def without_throttles(topics: Iterable[str], brokers: Collection[int]) -> dict[ConfigResource, list[ConfigChange]]:
    """Return the changes of settings that remove all throttles."""
    from kafkalite.client import ConfigChange, ConfigResource

    changes = {
        ConfigResource("topic", topic): [ConfigChange(LEADERS, "delete"), ConfigChange(FOLLOWERS, "delete")]
        for topic in sorted(set(topics))
    }
    for broker in sorted(brokers):
        changes[ConfigResource("broker", str(broker))] = [ConfigChange(name, "delete") for name in RATES]
    return changes
