"""Where a producer puts the records of a topic."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kafkalite.client.cluster.view import ClusterView, TopicView
from kafkalite.client.producer.accumulator import PartitionQueue


@dataclass(frozen=True, slots=True)
class Route:
    """Where the records of a topic go, as long as the view of the cluster is `view`."""

    view: ClusterView
    topic: TopicView
    queues: Mapping[int, PartitionQueue]
