"""ElectLeaders (43), AlterPartitionReassignments (45), ListPartitionReassignments (46): carried out by the controller.

- ElectLeaders 0 preferred only; 1 unclean too (KIP-460); 2 flexible. The handler waits until this broker's metadata shows the leaders.
  Where another broker is the controller, each partition has NOT_CONTROLLER, and the whole request no error.
- A reassignment has begun, not ended, when it is answered (KIP-455).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

from kafkalite.broker.identity.authorizer import ALTER_CLUSTER, DESCRIBE_CLUSTER
from kafkalite.broker.parts import HasMetadata
from kafkalite.broker.requests.failures import FailedItems
from kafkalite.broker.requests.request_context import RequestContext
from kafkalite.broker.requests.served_api import serve_api
from kafkalite.errors import ErrorCode, KafkaError
from kafkalite.portions import Work
from kafkalite.protocol import messages
from kafkalite.protocol.apis import ApiKey
from kafkalite.types import TopicPartition

if TYPE_CHECKING:
    from kafkalite.controller.assignment import ReplicaAssignment
    from kafkalite.types import BrokerId

ResultT = TypeVar("ResultT")
ShapedT = TypeVar("ShapedT")

_ASKED_TOGETHER: Final = 500
_PREFERRED_ELECTION: Final = 0
_UNCLEAN_ELECTION: Final = 1


class Controller(Protocol):
    """The controller, as these handlers use it."""

    async def elect_leaders(
        self, partitions: tuple[TopicPartition, ...] | None, *, unclean: bool
    ) -> dict[TopicPartition, KafkaError | None]: ...

    async def alter_partition_reassignments(
        self, targets: dict[TopicPartition, tuple[BrokerId, ...] | None]
    ) -> dict[TopicPartition, KafkaError | None]: ...

    async def list_partition_reassignments(
        self, partitions: tuple[TopicPartition, ...] | None
    ) -> dict[TopicPartition, ReplicaAssignment]: ...


class Parts(HasMetadata, Protocol):
    """The parts of the broker that these handlers use."""

    @property
    def controller(self) -> Controller: ...


async def elect_leaders(
    parts: Parts, request: messages.ElectLeadersRequest, context: RequestContext
) -> messages.ElectLeadersResponse:
    """Elect, then wait until the elected leaders are known here or the request's timeout has passed."""
    m = messages.elect_leaders_response
    if request.election_type not in (_PREFERRED_ELECTION, _UNCLEAN_ELECTION):
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"unknown election type {request.election_type}")
    results = await _elect(parts, request, context)
    elected = [topic_partition for topic_partition, problem in results.items() if problem is None]

    def known() -> bool:
        return all((found := parts.metadata.partition(tp)) is not None and found.leader >= 0 for tp in elected)

    await parts.metadata.wait_until(known, request.timeout_ms / 1000)
    by_topic = await context.portions.finish(_group_by_topic(results, _make_election_result))
    return m.ElectLeadersResponse(
        replica_election_results=[
            m.ReplicaElectionResult(topic=topic, partition_result=of_topic) for topic, of_topic in by_topic.items()
        ]
    )


async def _elect(
    parts: Parts, request: messages.ElectLeadersRequest, context: RequestContext
) -> dict[TopicPartition, KafkaError | None]:
    """Return why each partition that was asked for was not given another leader; None where it was."""
    unclean = request.election_type == _UNCLEAN_ELECTION
    wanted: dict[TopicPartition, None] | None = None
    if request.topic_partitions is not None:
        asked = ((topic.topic, topic.partitions) for topic in request.topic_partitions)
        wanted = await context.portions.finish(_collect_partitions(asked))
    results: dict[TopicPartition, KafkaError | None] = {}
    try:
        for some in (None,) if wanted is None else _batch_partitions(wanted):
            results |= await parts.controller.elect_leaders(None if some is None else tuple(some), unclean=unclean)
    except KafkaError as problem:
        if problem.code is not ErrorCode.NOT_CONTROLLER:
            raise
        if wanted is None:
            known = [(name, tuple(topic.partitions)) for name, topic in parts.metadata.topics.items()]
            wanted = await context.portions.finish(_collect_partitions(known))
        return dict.fromkeys(wanted, problem.as_outcome()) | results
    return results


def _make_election_result(index: int, problem: KafkaError | None) -> messages.elect_leaders_response.PartitionResult:
    result = messages.elect_leaders_response.PartitionResult(partition_id=index)
    if problem is not None:
        result.error_code, result.error_message = problem.code, str(problem)
    return result


async def alter_partition_reassignments(
    parts: Parts, request: messages.AlterPartitionReassignmentsRequest, context: RequestContext
) -> messages.AlterPartitionReassignmentsResponse:
    """Start, replace or cancel moves of replicas."""
    m = messages.alter_partition_reassignments_response
    targets = await context.portions.finish(_read_targets(request))
    results: dict[TopicPartition, KafkaError | None] = {}
    for some in _batch_partitions(targets):
        results |= await parts.controller.alter_partition_reassignments({each: targets[each] for each in some})
    by_topic = await context.portions.finish(_group_by_topic(results, _make_reassignment_response))
    topics = [m.ReassignableTopicResponse(name=topic, partitions=of_topic) for topic, of_topic in by_topic.items()]
    return m.AlterPartitionReassignmentsResponse(error_message="", responses=topics)


def _read_targets(
    request: messages.AlterPartitionReassignmentsRequest,
) -> Work[dict[TopicPartition, tuple[BrokerId, ...] | None]]:
    targets: dict[TopicPartition, tuple[BrokerId, ...] | None] = {}
    for topic in request.topics:
        yield
        for asked in topic.partitions:
            yield
            replicas = None if asked.replicas is None else tuple(asked.replicas)
            targets[TopicPartition(topic.name, asked.partition_index)] = replicas
    return targets


def _make_reassignment_response(
    index: int, problem: KafkaError | None
) -> messages.alter_partition_reassignments_response.ReassignablePartitionResponse:
    m = messages.alter_partition_reassignments_response
    response = m.ReassignablePartitionResponse(partition_index=index)
    if problem is not None:
        response.error_code, response.error_message = problem.code, str(problem)
    return response


async def list_partition_reassignments(
    parts: Parts, request: messages.ListPartitionReassignmentsRequest, context: RequestContext
) -> messages.ListPartitionReassignmentsResponse:
    """Return the moves in progress. Partitions that do not move, or do not exist, are left out."""
    m = messages.list_partition_reassignments_response
    moving = await parts.controller.list_partition_reassignments(None)
    if request.topics is not None:
        asked = ((topic.name, topic.partition_indexes) for topic in request.topics)
        wanted = await context.portions.finish(_collect_partitions(asked))
        moving = {partition: assignment for partition, assignment in moving.items() if partition in wanted}
    by_topic = await context.portions.finish(_group_by_topic(moving, _make_reassignment))
    topics = [m.OngoingTopicReassignment(name=topic, partitions=of_topic) for topic, of_topic in by_topic.items()]
    return m.ListPartitionReassignmentsResponse(error_message="", topics=topics)


def _make_reassignment(
    index: int, assignment: ReplicaAssignment
) -> messages.list_partition_reassignments_response.OngoingPartitionReassignment:
    return messages.list_partition_reassignments_response.OngoingPartitionReassignment(
        partition_index=index,
        replicas=list(assignment.replicas),
        adding_replicas=list(assignment.adding),
        removing_replicas=list(assignment.removing),
    )


def _collect_partitions(topics: Iterable[tuple[str, Sequence[int]]]) -> Work[dict[TopicPartition, None]]:
    """Return the partitions that are named, each once."""
    partitions: dict[TopicPartition, None] = {}
    for topic, indexes in topics:
        yield
        for index in indexes:
            yield
            partitions[TopicPartition(topic, index)] = None
    return partitions


def _batch_partitions(partitions: Iterable[TopicPartition]) -> Iterator[list[TopicPartition]]:
    """Yield the partitions that go to the controller in one event, which delays its other events; without partitions one empty list."""
    remaining = iter(partitions)
    some = list(islice(remaining, _ASKED_TOGETHER))
    yield some
    while some := list(islice(remaining, _ASKED_TOGETHER)):
        yield some


def _group_by_topic(
    results: Mapping[TopicPartition, ResultT], shape: Callable[[int, ResultT], ShapedT]
) -> Work[dict[str, list[ShapedT]]]:
    topics: dict[str, list[ShapedT]] = {}
    for partition, result in results.items():
        yield
        topics.setdefault(partition.topic, []).append(shape(partition.partition, result))
    return topics


APIS: Final = (
    serve_api(ApiKey.ELECT_LEADERS, 0, 2, elect_leaders, ALTER_CLUSTER, failure=FailedItems()),
    serve_api(ApiKey.ALTER_PARTITION_REASSIGNMENTS, 0, 0, alter_partition_reassignments, ALTER_CLUSTER),
    serve_api(ApiKey.LIST_PARTITION_REASSIGNMENTS, 0, 0, list_partition_reassignments, DESCRIBE_CLUSTER),
)
