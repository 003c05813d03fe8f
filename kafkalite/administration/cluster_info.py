"""The rows of `kafkalite cluster info`: the brokers with the partitions that they lead and host, and counts of partitions. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from kafkalite.types import NO_BROKER

if TYPE_CHECKING:
    from kafkalite.client import ClusterDescription, TopicDescription

COLUMNS = ("id", "host", "port", "rack", "alive", "is_controller", "leaders", "replicas", "out_of_sync")


def broker_rows(cluster: ClusterDescription, topics: Sequence[TopicDescription]) -> list[dict[str, Any]]:
    """Return one row per broker, also for those that host replicas and are down; of these only the id is known."""
    partitions = [each for topic in topics for each in topic.partitions]
    leaders = Counter(each.leader for each in partitions if each.leader != NO_BROKER)
    replicas = Counter(broker for each in partitions for broker in each.replicas)
    in_sync = Counter(broker for each in partitions for broker in each.isr)
    alive = {broker.id: broker for broker in cluster.brokers}
    absent = {"host": None, "port": None, "rack": None}
    return [
        {
            **(alive[broker].to_dict() if broker in alive else {"id": broker, **absent}),
            "alive": broker in alive,
            "is_controller": broker == cluster.controller_id,
            "leaders": leaders[broker],
            "replicas": replicas[broker],
            "out_of_sync": replicas[broker] - in_sync[broker],
        }
        for broker in sorted(alive.keys() | replicas.keys())
    ]


def partition_counts(topics: Sequence[TopicDescription]) -> dict[str, int]:
    """Return the numbers of topics, partitions, and partitions with problems."""
    partitions = [each for topic in topics for each in topic.partitions]
    return {
        "topics": len(topics),
        "partitions": len(partitions),
        "under_replicated_partitions": sum(each.under_replicated for each in partitions),
        "unavailable_partitions": sum(each.leader == NO_BROKER for each in partitions),
    }
