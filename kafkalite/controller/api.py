"""The requests that the active controller serves to brokers and clients, free of protocol messages."""

from __future__ import annotations

import asyncio
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
    """The request methods of `Controller`.

    Errors of a whole request are raised as KafkaError, NOT_CONTROLLER where this broker is not the controller
    (STALE_CONTROLLER_EPOCH for a controlled shutdown that was under way); errors of single items are in the result.
    """

    def __init__(self, store: Store, config: LiveConfig, rng: random.Random) -> None:
        self._store = store
        self._rng = rng
        self._writes = ZkAdminManager(store, config, rng)
        self._shutdowns: dict[events.ControlledShutdown, asyncio.Task[list[TopicPartition]]] = {}
        """Controlled shutdowns that are under way."""

    @abstractmethod
    async def _submit(self, event: events.Event) -> Any:
        """Queue an event and await its result."""

    @abstractmethod
    async def _wait_for_cluster(self) -> ClusterState:
        """Wait until the controller has read the cluster and return its state. Raises KafkaError NOT_CONTROLLER."""

    async def create_topics(
        self, topics: Sequence[NewTopic], *, validate_only: bool = False, charge: Charge = free
    ) -> dict[str, CreatedTopic | KafkaError]:
        """Create topics in ZooKeeper and return the outcome by name; leaders are elected afterwards."""
        racks = _racks(await self._wait_for_cluster())
        return await self._writes.create_topics(topics, racks, validate_only=validate_only, charge=charge)

    async def create_partitions(
        self, topics: Sequence[NewPartitions], *, validate_only: bool = False, charge: Charge = free
    ) -> dict[str, KafkaError | None]:
        """Add partitions in ZooKeeper and return the error or None by topic; leaders are elected afterwards."""
        racks = _racks(await self._wait_for_cluster())
        return await self._writes.create_partitions(topics, racks, validate_only=validate_only, charge=charge)

    async def delete_topics(
        self, topics: Sequence[TopicReference], *, charge: Charge = free
    ) -> list[tuple[str | None, KafkaError | None]]:
        """Queue topics for deletion; return for each its name, None for an unknown id, and its error or None."""
        cluster = await self._wait_for_cluster()

        def partition_count(name: str) -> int:
            topic = cluster.topics.get(name)
            return 0 if topic is None else len(topic.partitions)

        return await self._writes.delete_topics(
            topics, cluster.topic_names.get, lambda name: charge(partition_count(name))
        )

    async def alter_partition(self, request: AlterPartition) -> list[Leadership | KafkaError]:
        """Return the present leadership or the error for each proposal. Raises KafkaError STALE_BROKER_EPOCH."""
        outcomes: list[Leadership | KafkaError] = await self._submit(events.AlterPartitionReceived(request))
        return outcomes

    async def allocate_producer_ids(self, broker_id: BrokerId, broker_epoch: int) -> ProducerIdBlock:
        """Allocate a block of 1000 ids. Raises KafkaError BROKER_ID_NOT_REGISTERED, STALE_BROKER_EPOCH."""
        block: ProducerIdBlock = await self._submit(events.AllocateProducerIds(broker_id, broker_epoch))
        return block

    async def controlled_shutdown(self, broker_id: BrokerId, broker_epoch: int) -> list[TopicPartition]:
        """Move leaderships off a broker and return the partitions that it still leads.

        A broker that asks again while that is under way gets the same answer, because each time takes as long. Raises KafkaError
        STALE_BROKER_EPOCH, BROKER_NOT_AVAILABLE.
        """
        event = events.ControlledShutdown(broker_id, broker_epoch)
        under_way = self._shutdowns.get(event)
        if under_way is None:
            under_way = self._shutdowns[event] = asyncio.ensure_future(self._submit(event))
            under_way.add_done_callback(lambda done: self._end_shutdown(event, done))
        return await asyncio.shield(under_way)

    def _end_shutdown(self, event: events.ControlledShutdown, done: asyncio.Task[list[TopicPartition]]) -> None:
        del self._shutdowns[event]
        if not done.cancelled():
            done.exception()  # nobody may be left to hear of it

    async def elect_leaders(
        self, partitions: tuple[TopicPartition, ...] | None, *, unclean: bool
    ) -> dict[TopicPartition, KafkaError | None]:
        """Elect leaders of `partitions`, None for all that need an election; return the error or None by partition.

        The metadata of other brokers may lag behind.
        """
        results: dict[TopicPartition, KafkaError | None]
        results = await self._submit(events.ReplicaLeaderElection(partitions, unclean))
        return results

    async def alter_partition_reassignments(
        self, targets: dict[TopicPartition, tuple[BrokerId, ...] | None]
    ) -> dict[TopicPartition, KafkaError | None]:
        """Start reassignments to the targets, or cancel them (None); return the error or None by partition (KIP-455)."""
        results: dict[TopicPartition, KafkaError | None]
        results = await self._submit(events.ApiPartitionReassignment(targets))
        return results

    async def list_partition_reassignments(
        self, partitions: tuple[TopicPartition, ...] | None
    ) -> dict[TopicPartition, ReplicaAssignment]:
        """Return the assignments of those of `partitions`, None for all, that are being reassigned."""
        moving: dict[TopicPartition, ReplicaAssignment]
        moving = await self._submit(events.ListPartitionReassignments(partitions))
        return moving


def _racks(cluster: ClusterState) -> Racks:
    return {broker: cluster.brokers[broker].rack for broker in cluster.live_brokers}
