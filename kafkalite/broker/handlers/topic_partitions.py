"""DescribeTopicPartitions (75): topics and their partitions in pages (KIP-966), from this broker's metadata.

- Topics come in the order of their names; the cursor says where the next page begins. At most `response_partition_limit` partitions, and
  never more than max.request.partition.size.limit. Eligible leader replicas do not exist with ZooKeeper and are null.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafkalite.errors import ErrorCode, KafkaError
from kafkalite.protocol import messages

if TYPE_CHECKING:
    from kafkalite.broker.app import Broker
    from kafkalite.broker.dispatch import RequestContext

_UNKNOWN_OPERATIONS = -(2**31)


async def describe_topic_partitions(
    broker: Broker,
    request: messages.describe_topic_partitions_request.DescribeTopicPartitionsRequest,
    context: RequestContext,
) -> messages.describe_topic_partitions_response.DescribeTopicPartitionsResponse:
    """One page."""
    await broker.wait_for_first_metadata()
    m = messages.describe_topic_partitions_response
    names = sorted({topic.name for topic in request.topics} or broker.metadata.topics)
    first_partition = 0
    if request.cursor is not None:
        if request.cursor.partition_index < 0:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST,
                f"cursor of partition {request.cursor.partition_index}; it must not be negative",
            )
        names = [name for name in names if name >= request.cursor.topic_name]
        if names and names[0] == request.cursor.topic_name:
            first_partition = request.cursor.partition_index
    room = max(1, min(request.response_partition_limit, broker.config.max_request_partition_size_limit))
    reply = m.DescribeTopicPartitionsResponse()
    for name in names:
        if room == 0:
            reply.next_cursor = m.Cursor(topic_name=name, partition_index=0)
            break
        topic, taken, following = _topic(broker, name, first_partition, room)
        reply.topics.append(topic)
        room -= taken
        first_partition = 0
        if following is not None:
            reply.next_cursor = m.Cursor(topic_name=name, partition_index=following)
            break
    return reply


def _topic(broker: Broker, name: str, first: int, room: int) -> tuple[Any, int, int | None]:
    """(the topic, partitions in it, the partition that the next page begins with)."""
    m = messages.describe_topic_partitions_response
    known = broker.metadata.topics.get(name)
    if known is None:
        code = broker.validate_topic_name(name) or ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return m.DescribeTopicPartitionsResponseTopic(error_code=code, name=name), 0, None
    indexes = [index for index in sorted(known.partitions) if index >= first]
    shown = indexes[:room]
    topic = m.DescribeTopicPartitionsResponseTopic(
        name=name,
        topic_id=known.topic_id,
        is_internal=name in broker.internal_topics,
        topic_authorized_operations=_UNKNOWN_OPERATIONS,
        partitions=[
            m.DescribeTopicPartitionsResponsePartition(
                error_code=ErrorCode.NONE if found.leader >= 0 else ErrorCode.LEADER_NOT_AVAILABLE,
                partition_index=index,
                leader_id=found.leader,
                leader_epoch=found.leader_epoch,
                replica_nodes=found.replicas,
                isr_nodes=found.isr,
                offline_replicas=found.offline_replicas,
            )
            for index in shown
            for found in [known.partitions[index]]
        ],
    )
    return topic, len(shown), indexes[room] if len(indexes) > room else None
