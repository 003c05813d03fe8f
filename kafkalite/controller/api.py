"""What brokers and clients ask of the active controller: domain requests in, outcomes out; handlers know the messages.

Each method may be called on any broker; where it is not the active controller KafkaError NOT_CONTROLLER is raised (STALE_CONTROLLER_EPOCH
for a controlled shutdown that was under way), as is every other error of a whole request. Errors of single items are in the outcome.
"""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

from kafkalite.config.broker import LiveConfig
from kafkalite.controller import events
from kafkalite.controller.assignment import ReplicaAssignment
from kafkalite.controller.cluster_state import ClusterState, Leadership
from kafkalite.controller.requests import (
    AlterPartition,
    Charge,
    CreatedTopic,
    NewPartitions,
    NewTopic,
    TopicReference,
    free,
)
from kafkalite.controller.topics.topic_validation import Racks
from kafkalite.controller.topics.zk_admin_manager import ZkAdminManager
from kafkalite.errors import KafkaError
from kafkalite.types import BrokerId, TopicPartition
from zk.store import Store
from zk.znodes import ProducerIdBlock


class ControllerApi(ABC):
    """See the module; `Controller` is the one that is made."""

    def __init__(self, store: Store, config: LiveConfig, rng: random.Random) -> None:
        self._store = store
        self._rng = rng
        self._writes = ZkAdminManager(store, config, rng)

    @abstractmethod
    async def _submit(self, event: events.Event) -> Any:
        """Have the active controller handle an event."""

    @abstractmethod
    async def _wait_for_cluster(self) -> ClusterState:
        """What the active controller knows, as soon as it has read it. KafkaError NOT_CONTROLLER."""

    async def create_topics(
        self, topics: Sequence[NewTopic], *, validate_only: bool = False, charge: Charge = free
    ) -> dict[str, CreatedTopic | KafkaError]:
        """The outcome by name, once for a name; the topics are in ZooKeeper, leaders are elected a moment later."""
        racks = _racks(await self._wait_for_cluster())
        return await self._writes.create_topics(topics, racks, validate_only=validate_only, charge=charge)

    async def create_partitions(
        self, topics: Sequence[NewPartitions], *, validate_only: bool = False, charge: Charge = free
    ) -> dict[str, KafkaError | None]:
        """Why a topic was not enlarged, by name; likewise."""
        racks = _racks(await self._wait_for_cluster())
        return await self._writes.create_partitions(topics, racks, validate_only=validate_only, charge=charge)

    async def delete_topics(
        self, topics: Sequence[TopicReference], *, charge: Charge = free
    ) -> list[tuple[str | None, KafkaError | None]]:
        """For each topic its name, None for an unknown id, and why it is not deleted.

        The others are marked, their replicas go a moment later.
        """
        cluster = await self._wait_for_cluster()

        def partition_count(name: str) -> int:
            topic = cluster.topics.get(name)
            return 0 if topic is None else len(topic.partitions)

        return await self._writes.delete_topics(
            topics, cluster.topic_names.get, lambda name: charge(partition_count(name))
        )

    async def alter_partition(self, request: AlterPartition) -> list[Leadership | KafkaError]:
        """What holds now for each proposal. KafkaError STALE_BROKER_EPOCH."""
        outcomes: list[Leadership | KafkaError] = await self._submit(events.AlterPartitionReceived(request))
        return outcomes

    async def allocate_producer_ids(self, broker_id: BrokerId, broker_epoch: int) -> ProducerIdBlock:
        """A block of 1000 ids. KafkaError BROKER_ID_NOT_REGISTERED, STALE_BROKER_EPOCH."""
        block: ProducerIdBlock = await self._submit(events.AllocateProducerIds(broker_id, broker_epoch))
        return block

    async def controlled_shutdown(self, broker_id: BrokerId, broker_epoch: int) -> list[TopicPartition]:
        """Partitions that the broker still leads. KafkaError STALE_BROKER_EPOCH, BROKER_NOT_AVAILABLE."""
        remaining: list[TopicPartition] = await self._submit(events.ControlledShutdown(broker_id, broker_epoch))
        return remaining

    async def elect_leaders(
        self, partitions: tuple[TopicPartition, ...] | None, *, unclean: bool
    ) -> dict[TopicPartition, KafkaError | None]:
        """Why a partition has no other leader now; None for `partitions` means all that need an election.

        The elections are done, the metadata of other brokers may lag.
        """
        results: dict[TopicPartition, KafkaError | None]
        results = await self._submit(events.ReplicaLeaderElection(partitions, unclean))
        return results

    async def alter_partition_reassignments(
        self, targets: dict[TopicPartition, tuple[BrokerId, ...] | None]
    ) -> dict[TopicPartition, KafkaError | None]:
        """Why a move, to new replicas or (None) back, was refused (KIP-455); the others have begun, not ended."""
        results: dict[TopicPartition, KafkaError | None]
        results = await self._submit(events.ApiPartitionReassignment(targets))
        return results

    async def list_partition_reassignments(
        self, partitions: tuple[TopicPartition, ...] | None
    ) -> dict[TopicPartition, ReplicaAssignment]:
        """Those of the partitions (None: of all) that move now."""
        moving: dict[TopicPartition, ReplicaAssignment]
        moving = await self._submit(events.ListPartitionReassignments(partitions))
        return moving


def _racks(cluster: ClusterState) -> Racks:
    return {broker: cluster.brokers[broker].rack for broker in cluster.live_brokers}
