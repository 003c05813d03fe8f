"""Where a producer puts the records of a topic."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kafkalite.client.cluster.client import ClusterClient
from kafkalite.client.cluster.view import ClusterView, TopicView
from kafkalite.client.producer.accumulator import Accumulator, PartitionQueue
from kafkalite.types import TopicPartition


@dataclass(frozen=True, slots=True)
class Route:
    """Where the records of a topic go, as long as the view of the cluster is `view`."""

    view: ClusterView
    topic: TopicView
    queues: Mapping[int, PartitionQueue]


class Routes:
    """The routes that were asked for, `by_topic`; which of them are of the view of the cluster shows when they are used."""

    def __init__(self, cluster: ClusterClient, accumulator: Accumulator) -> None:
        self._cluster = cluster
        self._accumulator = accumulator
        self.by_topic: dict[str, Route] = {}

    def find(self, topic: str) -> Route | None:
        """Return the route of a topic by the view of the cluster; None where that does not have it."""
        view, route = self._cluster.view, self.by_topic.get(topic)
        if route is None or route.view is not view:
            known = view.topics.get(topic)
            if known is None:
                return None
            queues = {number: self._accumulator.queue(TopicPartition(topic, number)) for number in known.partitions}
            route = self.by_topic[topic] = Route(view, known, queues)
        return route
