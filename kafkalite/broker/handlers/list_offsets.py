"""ListOffsets (2): the earliest, latest, or first offset at or after a time, of partitions led here.

- 1 one offset for each partition; 2 isolation level; 4 leader epoch; 5 OFFSET_NOT_AVAILABLE; 7 max timestamp (-3, KIP-734);
  8 earliest local (-4); 9 latest tiered (-5), which without tiered storage is unknown.
- A partition that is named twice is answered with INVALID_REQUEST, as in Kafka.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from kafkalite.broker.authorizer import Operation, Permission, ResourceType
from kafkalite.broker.cold_reads import in_memory
from kafkalite.broker.partition import Partition
from kafkalite.broker.request_context import RequestContext
from kafkalite.broker.served_api import served
from kafkalite.errors import ErrorCode, KafkaError
from kafkalite.portions import Work
from kafkalite.protocol import messages
from kafkalite.protocol.apis import ApiKey
from kafkalite.types import TopicPartition

if TYPE_CHECKING:
    from kafkalite.broker.replicas import Replicas

LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED = -1, -2, -3, -4, -5
_READ_COMMITTED = 1
_UNKNOWN = (-1, -1, -1)


class Parts(Protocol):
    """What these handlers use of the broker."""

    @property
    def replicas(self) -> Replicas: ...


async def list_offsets(
    parts: Parts, request: messages.list_offsets_request.ListOffsetsRequest, context: RequestContext
) -> messages.list_offsets_response.ListOffsetsResponse:
    """Timestamp, offset and leader epoch for each partition."""
    m = messages.list_offsets_response
    repeated = await context.portions.finish(_repeated(request))
    pace = context.portions.pace()
    topics = []
    for topic in request.topics:
        await pace.unit()
        partitions: list[messages.list_offsets_response.ListOffsetsPartitionResponse] = []
        topics.append(m.ListOffsetsTopicResponse(name=topic.name, partitions=partitions))
        for asked in topic.partitions:
            await pace.unit()
            answer = m.ListOffsetsPartitionResponse(partition_index=asked.partition_index)
            partitions.append(answer)
            topic_partition = TopicPartition(topic.name, asked.partition_index)
            try:
                if topic_partition in repeated:
                    raise KafkaError(ErrorCode.INVALID_REQUEST)
                partition = parts.replicas.require(topic_partition)
                if request.replica_id != -2:  # the debugging consumer also asks followers
                    partition.require_leader(asked.current_leader_epoch)
                found = await _find(
                    partition, request.replica_id, request.isolation_level, asked.timestamp, context.api_version
                )
                answer.timestamp, answer.offset, answer.leader_epoch = found
            except KafkaError as problem:
                answer.error_code = problem.code
    return m.ListOffsetsResponse(topics=topics)


def _repeated(request: messages.list_offsets_request.ListOffsetsRequest) -> Work[set[TopicPartition]]:
    seen: set[TopicPartition] = set()
    repeated: set[TopicPartition] = set()
    for topic in request.topics:
        yield
        for asked in topic.partitions:
            yield
            topic_partition = TopicPartition(topic.name, asked.partition_index)
            (repeated if topic_partition in seen else seen).add(topic_partition)
    return repeated


async def _find(
    partition: Partition, replica_id: int, isolation_level: int, timestamp: int, version: int
) -> tuple[int, int, int]:
    log = partition.log
    if replica_id >= 0:
        bound = log.log_end_offset
    else:
        bound = log.last_stable_offset if isolation_level == _READ_COMMITTED else log.high_watermark
    if timestamp in (EARLIEST, EARLIEST_LOCAL):
        return -1, log.log_start_offset, _epoch_at(partition, log.log_start_offset)
    if timestamp == LATEST_TIERED:
        return _UNKNOWN
    if replica_id < 0 and partition.is_leader and log.high_watermark < partition.leader_epoch_start_offset:
        # The new leader does not know yet how far records are committed; an answer could go back (KIP-207).
        raise KafkaError(ErrorCode.OFFSET_NOT_AVAILABLE if version >= 5 else ErrorCode.LEADER_NOT_AVAILABLE)
    if timestamp == LATEST:
        return -1, bound, partition.leader_epoch
    if timestamp == MAX_TIMESTAMP:
        found = await in_memory(log, log.offset_of_max_timestamp)
    else:
        found = await in_memory(log, lambda: log.offset_for_timestamp(timestamp, bound))
    return found if found is not None and found[1] < bound else _UNKNOWN


def _epoch_at(partition: Partition, offset: int) -> int:
    epoch = partition.log.epoch_for_offset(offset)
    return epoch if epoch is not None else -1


def _failed(
    request: messages.list_offsets_request.ListOffsetsRequest, code: ErrorCode, message: str | None
) -> messages.list_offsets_response.ListOffsetsResponse:
    m = messages.list_offsets_response
    return m.ListOffsetsResponse(
        topics=[
            m.ListOffsetsTopicResponse(
                name=topic.name,
                partitions=[
                    m.ListOffsetsPartitionResponse(partition_index=p.partition_index, error_code=code)
                    for p in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


APIS: Final = (
    served(
        ApiKey.LIST_OFFSETS, 1, 9, list_offsets, Permission(Operation.DESCRIBE, ResourceType.TOPIC), failure=_failed
    ),
)
