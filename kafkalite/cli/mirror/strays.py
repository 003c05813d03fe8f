"""Topics of others that the target has placed at the mirror, which keeps nothing, and how they are moved to brokers. Pure.

Kafka 4 places replicas at every broker that is registered and neither fenced nor shutting down, and only such a broker leads: the mirror
cannot be kept out. So each replica there is moved at once: a broker takes its place in the order of the replicas.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING
from zlib import crc32

from kafkalite.types import TopicPartition, topic_id_from_text

if TYPE_CHECKING:
    from kafkalite.cli.mirror.plan import KnownTopic
    from kafkalite.client import PartitionReassignment
    from kafkalite.client.cluster.view import PartitionView, TopicView


def find_strays(
    topics: Mapping[str, TopicView], known: Mapping[str, KnownTopic], mirror_id: int
) -> dict[str, TopicView]:
    """Return the topics that have a replica at the mirror and were not made by it."""
    return {
        name: topic
        for name, topic in sorted(topics.items())
        if any(mirror_id in each.replicas for each in topic.partitions.values()) and not _is_own(topic, known.get(name))
    }


def _is_own(topic: TopicView, begun: KnownTopic | None) -> bool:
    if begun is None:
        return False
    return not begun.target_id or topic_id_from_text(begun.target_id) == topic.topic_id


def list_partitions(strays: Mapping[str, TopicView], mirror_id: int) -> Iterator[tuple[TopicPartition, PartitionView]]:
    """Yield the partitions that have a replica at the mirror."""
    for name, topic in strays.items():
        for number, each in topic.partitions.items():
            if mirror_id in each.replicas:
                yield TopicPartition(name, number), each


def plan_moves(
    strays: Mapping[str, TopicView],
    moving: Mapping[TopicPartition, PartitionReassignment],
    mirror_id: int,
    brokers: Mapping[int, str | None],
) -> dict[TopicPartition, tuple[int, ...]]:
    """Return the replicas that partitions are to have; nothing of those that leave the mirror already.

    `brokers` are those of the target without the mirror, with their racks. Where all of them have a replica, one less is left.
    """
    moves = {}
    for place, each in list_partitions(strays, mirror_id):
        wanted = find_target(each, moving.get(place))
        if mirror_id not in wanted:
            continue
        free = sorted(brokers.keys() - set(wanted))
        instead = (free[crc32(f"{place}".encode()) % len(free)],) if free else ()
        at = wanted.index(mirror_id)
        moves[place] = wanted[:at] + instead + wanted[at + 1 :]
    return {place: wanted for place, wanted in moves.items() if wanted}


def find_target(each: PartitionView, move: PartitionReassignment | None) -> tuple[int, ...]:
    """Return the replicas that a partition has, or is to have at the end of its reassignment."""
    if move is None:
        return each.replicas
    return tuple(broker for broker in move.replicas if broker not in move.removing_replicas)
