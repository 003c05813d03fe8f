"""ListOffsets (2): the earliest, latest, or first offset at or after a time, of partitions led here.

- 0 several offsets: where segments begin that were last written up to a time; 1 one offset for each partition; 2 isolation level;
  4 leader epoch; 5 OFFSET_NOT_AVAILABLE; 7 max timestamp (-3, KIP-734); 8 earliest local (-4); 9 latest tiered (-5), which without tiered
  storage is unknown. A negative time that the version does not know is UNSUPPORTED_VERSION.
- From 1 on a partition that is named twice is answered with INVALID_REQUEST, as in Kafka.
"""

from __future__ import annotations

from typing import Final, Protocol

from kafkalite.broker.identity.authorizer import DESCRIBE_TOPIC
from kafkalite.broker.parts import HasClock, HasReplicas
from kafkalite.broker.replication.partition import Partition
from kafkalite.broker.requests.failures import FailedItems
from kafkalite.broker.requests.guards import Each
from kafkalite.broker.requests.request_context import RequestContext
from kafkalite.broker.requests.served_api import serve_api
from kafkalite.errors import ErrorCode, KafkaError
from kafkalite.portions import Work
from kafkalite.protocol import messages
from kafkalite.protocol.apis import ApiKey
from kafkalite.storage.cold_reads import in_memory
from kafkalite.storage.log.timestamp_search import find_offset_for_timestamp, find_offset_of_max_timestamp
from kafkalite.types import TopicPartition

LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED = -1, -2, -3, -4, -5
_READ_COMMITTED = 1
_CONSUMER: Final = -1
_DEBUGGER: Final = -2
"""The replica ids of a consumer, and of one that also asks followers."""
_UNKNOWN = (-1, -1, -1)
_SINCE: Final = {EARLIEST: 0, LATEST: 0, MAX_TIMESTAMP: 7, EARLIEST_LOCAL: 8, LATEST_TIERED: 9}
"""The first version that has a special timestamp."""


class Parts(HasReplicas, HasClock, Protocol):
    """The parts of the broker that these handlers use."""


async def list_offsets(
    parts: Parts, request: messages.ListOffsetsRequest, context: RequestContext
) -> messages.ListOffsetsResponse:
    """Return timestamp, offset and leader epoch of each partition; in version 0 a list of offsets."""
    m = messages.list_offsets_response
    version = context.api_version
    repeated = await context.portions.finish(_find_repeated(request)) if version else set[TopicPartition]()
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
                if asked.timestamp < 0 and version < _SINCE.get(asked.timestamp, version + 1):
                    raise KafkaError(ErrorCode.UNSUPPORTED_VERSION)
                partition = parts.replicas.require(topic_partition)
                if request.replica_id != _DEBUGGER:
                    partition.require_leader(asked.current_leader_epoch)
                if not version:
                    await pace.unit(len(partition.log.segments))
                    answer.old_style_offsets = _segment_offsets(
                        partition, request.replica_id, asked.timestamp, asked.max_num_offsets, parts.clock.now_ms()
                    )
                    continue
                found = await _find(partition, request.replica_id, request.isolation_level, asked.timestamp, version)
                answer.timestamp, answer.offset, answer.leader_epoch = found
            except KafkaError as problem:
                answer.error_code = problem.code
    return m.ListOffsetsResponse(topics=topics)


def _find_repeated(request: messages.ListOffsetsRequest) -> Work[set[TopicPartition]]:
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
    if replica_id != _CONSUMER:
        bound = log.log_end_offset
    else:
        bound = log.last_stable_offset if isolation_level == _READ_COMMITTED else log.high_watermark
    if timestamp in (EARLIEST, EARLIEST_LOCAL):
        return -1, log.log_start_offset, _epoch_at(partition, log.log_start_offset)
    if timestamp == LATEST_TIERED:
        return _UNKNOWN
    if replica_id == _CONSUMER and partition.is_leader and log.high_watermark < partition.leader_epoch_start_offset:
        # The new leader does not know yet how far records are committed; its answer could be lower than an earlier one (KIP-207).
        raise KafkaError(ErrorCode.OFFSET_NOT_AVAILABLE if version >= 5 else ErrorCode.LEADER_NOT_AVAILABLE)
    if timestamp == LATEST:
        return -1, bound, partition.leader_epoch
    if timestamp == MAX_TIMESTAMP:
        found = await in_memory(log, lambda: find_offset_of_max_timestamp(log))
    else:
        found = await in_memory(log, lambda: find_offset_for_timestamp(log, timestamp, bound))
    return found if found is not None and found[1] < bound else _UNKNOWN


def _segment_offsets(partition: Partition, replica_id: int, timestamp: int, most: int, now_ms: int) -> list[int]:
    """Return the base offsets of segments last written up to a time, and the log's end; the newest `most`, in descending order.

    As `UnifiedLog.legacyFetchOffsetsBefore`. Consumers see no offset above the high watermark. KafkaError for `most` below 0.
    """
    if most < 0:
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)
    log = partition.log
    starts = [(max(each.base_offset, log.log_start_offset), each.modified_ms) for each in log.segments]
    if log.segments.active.size:
        starts.append((log.log_end_offset, now_ms))
    if timestamp == EARLIEST:
        end = 1
    elif timestamp == LATEST:
        end = len(starts)
    else:
        end = max((number for number, (_, written_ms) in enumerate(starts, 1) if written_ms <= timestamp), default=0)
    found = sorted((offset for offset, _ in starts[max(0, end - most) : end]), reverse=True)
    visible = log.high_watermark if replica_id == _CONSUMER else log.log_end_offset
    return found if not found or found[0] <= visible else [visible, *(each for each in found if each <= visible)]


def _epoch_at(partition: Partition, offset: int) -> int:
    epoch = partition.log.epochs.epoch_for_offset(offset)
    return epoch if epoch is not None else -1


APIS: Final = (
    serve_api(
        ApiKey.LIST_OFFSETS, 0, 9, list_offsets, failure=FailedItems(), guard=Each(DESCRIBE_TOPIC, "topics", "topics")
    ),
)
