"""ElectLeaders (43), AlterPartitionReassignments (45), ListPartitionReassignments (46): carried out by the controller.

- ElectLeaders 0 preferred only; 1 unclean too (KIP-460); 2 flexible. The handler waits until this broker's metadata shows the leaders.
- A reassignment has begun, not ended, when it is answered (KIP-455).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, TypeVar

from kafkalite.errors import ErrorCode, KafkaError
from kafkalite.protocol import messages
from kafkalite.types import TopicPartition

if TYPE_CHECKING:
    from kafkalite.broker.app import Broker
    from kafkalite.broker.dispatch import RequestContext

T = TypeVar("T")

_PREFERRED_ELECTION: Final = 0
_UNCLEAN_ELECTION: Final = 1


async def elect_leaders(
    broker: Broker, request: messages.elect_leaders_request.ElectLeadersRequest, context: RequestContext
) -> messages.elect_leaders_response.ElectLeadersResponse:
    """Elect, then wait until the elected leaders are known here or the request's timeout has passed."""
    m = messages.elect_leaders_response
    if request.election_type not in (_PREFERRED_ELECTION, _UNCLEAN_ELECTION):
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"unknown election type {request.election_type}")
    partitions = None
    if request.topic_partitions is not None:
        partitions = tuple(
            TopicPartition(topic.topic, index) for topic in request.topic_partitions for index in topic.partitions
        )
    results = await broker.controller.elect_leaders(partitions, unclean=request.election_type == _UNCLEAN_ELECTION)
    elected = [topic_partition for topic_partition, problem in results.items() if problem is None]

    def known() -> bool:
        return all((found := broker.metadata.partition(tp)) is not None and found.leader >= 0 for tp in elected)

    await broker.metadata.wait_until(known, request.timeout_ms / 1000)
    return m.ElectLeadersResponse(
        replica_election_results=[
            m.ReplicaElectionResult(
                topic=topic,
                partition_result=[
                    m.PartitionResult(partition_id=index, error_code=_code(problem), error_message=_message(problem))
                    for index, problem in by_index.items()
                ],
            )
            for topic, by_index in _by_topic(results).items()
        ]
    )


async def alter_partition_reassignments(
    broker: Broker,
    request: messages.alter_partition_reassignments_request.AlterPartitionReassignmentsRequest,
    context: RequestContext,
) -> messages.alter_partition_reassignments_response.AlterPartitionReassignmentsResponse:
    """Begin, replace or cancel moves of replicas."""
    m = messages.alter_partition_reassignments_response
    results = await broker.controller.alter_partition_reassignments(
        {
            TopicPartition(topic.name, partition.partition_index): (
                None if partition.replicas is None else tuple(partition.replicas)
            )
            for topic in request.topics
            for partition in topic.partitions
        }
    )
    return m.AlterPartitionReassignmentsResponse(
        responses=[
            m.ReassignableTopicResponse(
                name=topic,
                partitions=[
                    m.ReassignablePartitionResponse(
                        partition_index=index, error_code=_code(problem), error_message=_message(problem)
                    )
                    for index, problem in by_index.items()
                ],
            )
            for topic, by_index in _by_topic(results).items()
        ]
    )


async def list_partition_reassignments(
    broker: Broker,
    request: messages.list_partition_reassignments_request.ListPartitionReassignmentsRequest,
    context: RequestContext,
) -> messages.list_partition_reassignments_response.ListPartitionReassignmentsResponse:
    """The moves that are going on; partitions that do not move, or do not exist, are not in the answer."""
    m = messages.list_partition_reassignments_response
    partitions = None
    if request.topics is not None:
        partitions = tuple(
            TopicPartition(topic.name, index) for topic in request.topics for index in topic.partition_indexes
        )
    moving = await broker.controller.list_partition_reassignments(partitions)
    return m.ListPartitionReassignmentsResponse(
        topics=[
            m.OngoingTopicReassignment(
                name=topic,
                partitions=[
                    m.OngoingPartitionReassignment(
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


def _by_topic(results: Mapping[TopicPartition, T]) -> dict[str, dict[int, T]]:
    topics: dict[str, dict[int, T]] = {}
    for partition, result in results.items():
        topics.setdefault(partition.topic, {})[partition.partition] = result
    return topics


def _code(problem: KafkaError | None) -> int:
    return int(ErrorCode.NONE if problem is None else problem.code)


def _message(problem: KafkaError | None) -> str | None:
    return None if problem is None else str(problem)
