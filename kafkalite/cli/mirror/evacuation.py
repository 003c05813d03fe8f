"""Moves topics of others from the mirror to brokers of the target, as `strays` plans it."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING

from kafkalite.cli.mirror import strays
from kafkalite.cli.mirror.partition_epochs import HandOver, begin

if TYPE_CHECKING:
    from kafkalite.cli.mirror.clusters import Clusters
    from kafkalite.cli.mirror.plan import KnownTopic
    from kafkalite.cli.mirror.positions import Positions
    from kafkalite.cli.mirror.quorum import Quorum
    from kafkalite.cli.mirror.relay import Relay
    from kafkalite.client import PartitionReassignment
    from kafkalite.client.cluster.view import TopicView
    from kafkalite.types import TopicPartition

log = logging.getLogger("kafkalite.mirror")


class Evacuation:
    """Keeps the target from having anything but the mirrored topics at the mirror."""

    def __init__(self, clusters: Clusters, quorum: Quorum, relay: Relay, positions: Positions, mirror_id: int) -> None:
        self._clusters, self._quorum, self._relay, self._positions = clusters, quorum, relay, positions
        self._mirror_id = mirror_id
        self.left: list[str] = []
        """Topics of others that still have replicas at the mirror."""

    async def move_on(self, known: Mapping[str, KnownTopic]) -> None:
        """Look at the target and take the next step with each topic that is not `known` to the mirror. Raises ClientError, OSError."""
        cluster = self._clusters.target_cluster
        cluster.watch_all_topics()
        await cluster.refresh()
        found = strays.find_strays(cluster.view.topics, known, self._mirror_id)
        for name in sorted(found.keys() - set(self.left)):
            log.warning("topic %s of the target was placed at the mirror, and is moved to brokers", name)
        self._relay.strays = {each.topic_id: name for name, each in found.items()}
        self.left = list(found)
        if not found:
            return
        brokers = {node.id: node.rack for node in cluster.view.brokers.values() if node.id != self._mirror_id}
        partitions = [place for place, _ in strays.list_partitions(found, self._mirror_id)]
        moving = await self._clusters.target.list_partition_reassignments(partitions)
        moves = strays.plan_moves(found, moving, self._mirror_id, brokers)
        if moves:
            await self._clusters.target.alter_partition_reassignments(moves)
        ready = list(self._list_followed(found, moving))
        failed = await self._quorum.hand_over(ready, self._positions.broker_epochs) if ready else {}
        for place, code in sorted(failed.items()):
            log.warning("%s was not handed over: error %d", place, code)

    def _list_followed(
        self, found: Mapping[str, TopicView], moving: Mapping[TopicPartition, PartitionReassignment]
    ) -> list[HandOver]:
        """Return the partitions that the mirror leads and whose followers have asked: there is nothing that they could lack."""
        ready = []
        for place, each in strays.list_partitions(found, self._mirror_id):
            wanted = strays.find_target(each, moving.get(place))
            if each.leader != self._mirror_id or self._mirror_id in wanted:
                continue
            if all(self._positions.offset_of(place, broker) >= 0 for broker in wanted):
                ready.append(begin(place, found[place.topic].topic_id, each.leader_epoch, wanted))
        return ready
