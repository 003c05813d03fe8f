"""What brokers and clients ask of the active controller: request messages in, response messages out.

Each method may be called on any broker; where it is not the active controller KafkaError NOT_CONTROLLER is raised (STALE_CONTROLLER_EPOCH
for a controlled shutdown that was under way), as is every other error of a whole request. Errors of single items are in the response.
"""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from typing import Any

from kafkalite.config.broker import LiveConfig
from kafkalite.controller import events
from kafkalite.controller.admin_writes import AdminWrites
from kafkalite.controller.assignment import ReplicaAssignment
from kafkalite.controller.cluster_state import ClusterState
from kafkalite.controller.topic_rules import Racks
from kafkalite.errors import ErrorCode, KafkaError
from kafkalite.protocol import messages
from kafkalite.types import BrokerId, TopicPartition
from zk.store import Store
from zk.znodes import ProducerIdBlock

PREFERRED_ELECTION, UNCLEAN_ELECTION = 0, 1


class ControllerApi(ABC):
    """See the module; `Controller` is the one that is made."""

    def __init__(self, store: Store, config: LiveConfig, rng: random.Random) -> None:
        self._store = store
        self._rng = rng
        self._writes = AdminWrites(store, config, rng)

    @abstractmethod
    async def _ask(self, event: events.Event) -> Any:
        """Have the active controller handle an event."""

    @abstractmethod
    async def _governed(self) -> ClusterState:
        """What the active controller knows, as soon as it has read it. KafkaError NOT_CONTROLLER."""

    async def create_topics(
        self, request: messages.create_topics_request.CreateTopicsRequest
    ) -> messages.create_topics_response.CreateTopicsResponse:
        """CreateTopicsResponse; the topics are in ZooKeeper, leaders are elected a moment later."""
        return await self._writes.create_topics(request, _racks(await self._governed()))

    async def create_partitions(
        self, request: messages.create_partitions_request.CreatePartitionsRequest
    ) -> messages.create_partitions_response.CreatePartitionsResponse:
        """CreatePartitionsResponse; likewise."""
        return await self._writes.create_partitions(request, _racks(await self._governed()))

    async def delete_topics(
        self, request: messages.delete_topics_request.DeleteTopicsRequest
    ) -> messages.delete_topics_response.DeleteTopicsResponse:
        """DeleteTopicsResponse; the topics are marked, their replicas go a moment later."""
        return await self._writes.delete_topics(request, (await self._governed()).topic_names.get)

    async def alter_partition(self, request: Any, version: int) -> Any:
        """AlterPartitionResponse to a request that came in `version`. KafkaError STALE_BROKER_EPOCH."""
        return await self._ask(events.AlterPartitionReceived(request, version))

    async def allocate_producer_ids(self, broker_id: BrokerId, broker_epoch: int) -> ProducerIdBlock:
        """A block of 1000 ids. KafkaError BROKER_ID_NOT_REGISTERED, STALE_BROKER_EPOCH."""
        block: ProducerIdBlock = await self._ask(events.AllocateProducerIds(broker_id, broker_epoch))
        return block

    async def controlled_shutdown(self, broker_id: BrokerId, broker_epoch: int) -> list[TopicPartition]:
        """Partitions that the broker still leads. KafkaError STALE_BROKER_EPOCH, BROKER_NOT_AVAILABLE."""
        remaining: list[TopicPartition] = await self._ask(events.ControlledShutdown(broker_id, broker_epoch))
        return remaining

    async def elect_leaders(
        self, request: messages.elect_leaders_request.ElectLeadersRequest
    ) -> messages.elect_leaders_response.ElectLeadersResponse:
        """ElectLeadersResponse; the elections are done, the metadata of other brokers may lag."""
        if request.election_type not in (PREFERRED_ELECTION, UNCLEAN_ELECTION):
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"unknown election type {request.election_type}")
        partitions = None
        if request.topic_partitions is not None:
            partitions = tuple(
                TopicPartition(topic.topic, index) for topic in request.topic_partitions for index in topic.partitions
            )
        unclean = request.election_type == UNCLEAN_ELECTION
        results: dict[TopicPartition, KafkaError | None]
        results = await self._ask(events.ReplicaLeaderElection(partitions, unclean))
        shape = messages.elect_leaders_response
        return shape.ElectLeadersResponse(
            replica_election_results=[
                shape.ReplicaElectionResult(
                    topic=topic,
                    partition_result=[
                        shape.PartitionResult(
                            partition_id=index, error_code=_code(problem), error_message=_message(problem)
                        )
                        for index, problem in by_index.items()
                    ],
                )
                for topic, by_index in _by_topic(results).items()
            ]
        )

    async def alter_partition_reassignments(
        self, request: messages.alter_partition_reassignments_request.AlterPartitionReassignmentsRequest
    ) -> messages.alter_partition_reassignments_response.AlterPartitionReassignmentsResponse:
        """AlterPartitionReassignmentsResponse (KIP-455); the moves have begun, not ended."""
        targets = {
            TopicPartition(topic.name, partition.partition_index): (
                None if partition.replicas is None else tuple(partition.replicas)
            )
            for topic in request.topics
            for partition in topic.partitions
        }
        results: dict[TopicPartition, KafkaError | None]
        results = await self._ask(events.ApiPartitionReassignment(targets))
        shape = messages.alter_partition_reassignments_response
        return shape.AlterPartitionReassignmentsResponse(
            responses=[
                shape.ReassignableTopicResponse(
                    name=topic,
                    partitions=[
                        shape.ReassignablePartitionResponse(
                            partition_index=index, error_code=_code(problem), error_message=_message(problem)
                        )
                        for index, problem in by_index.items()
                    ],
                )
                for topic, by_index in _by_topic(results).items()
            ]
        )

    async def list_partition_reassignments(
        self, request: messages.list_partition_reassignments_request.ListPartitionReassignmentsRequest
    ) -> messages.list_partition_reassignments_response.ListPartitionReassignmentsResponse:
        """ListPartitionReassignmentsResponse; partitions that do not move, or do not exist, are not in it."""
        partitions = None
        if request.topics is not None:
            partitions = tuple(
                TopicPartition(topic.name, index) for topic in request.topics for index in topic.partition_indexes
            )
        moving: dict[TopicPartition, ReplicaAssignment]
        moving = await self._ask(events.ListPartitionReassignments(partitions))
        shape = messages.list_partition_reassignments_response
        return shape.ListPartitionReassignmentsResponse(
            topics=[
                shape.OngoingTopicReassignment(
                    name=topic,
                    partitions=[
                        shape.OngoingPartitionReassignment(
                            partition_index=index,
                            replicas=list(assignment.replicas),
                            adding_replicas=list(assignment.adding),
                            removing_replicas=list(assignment.removing),
                        )
                        for index, assignment in by_index.items()
                    ],
                )
                for topic, by_index in _by_topic(moving).items()
            ]
        )


def _racks(cluster: ClusterState) -> Racks:
    return {broker: cluster.brokers[broker].rack for broker in cluster.live_brokers}


def _by_topic(results: dict[TopicPartition, Any]) -> dict[str, dict[int, Any]]:
    topics: dict[str, dict[int, Any]] = {}
    for partition, result in results.items():
        topics.setdefault(partition.topic, {})[partition.partition] = result
    return topics


def _code(problem: KafkaError | None) -> int:
    return int(ErrorCode.NONE if problem is None else problem.code)


def _message(problem: KafkaError | None) -> str | None:
    return None if problem is None else str(problem)
