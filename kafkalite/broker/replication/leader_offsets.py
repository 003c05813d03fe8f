"""ListOffsets from a follower to its leader: where the leader's log starts and ends. Pure."""

from __future__ import annotations

from kafkalite.errors import ErrorCode, KafkaError
from kafkalite.protocol import messages
from kafkalite.types import BrokerId, TopicPartition


def offset_request(
    broker_id: BrokerId, topic_partition: TopicPartition, leader_epoch: int, timestamp: int
) -> messages.list_offsets_request.ListOffsetsRequest:
    """Return the request for one partition; `timestamp` is -1 for the log end offset, -2 for the log start offset."""
    m = messages.list_offsets_request
    asked = m.ListOffsetsPartition(
        partition_index=topic_partition.partition, current_leader_epoch=leader_epoch, timestamp=timestamp
    )
    topic = m.ListOffsetsTopic(name=topic_partition.topic, partitions=[asked])
    return m.ListOffsetsRequest(replica_id=broker_id, topics=[topic])


def offset_in(response: messages.list_offsets_response.ListOffsetsResponse, topic_partition: TopicPartition) -> int:
    """Return the offset in a response. Raises KafkaError with the leader's code, UNKNOWN_SERVER_ERROR for a response without an offset."""
    for topic in response.topics:
        for answer in topic.partitions:
            if (topic.name, answer.partition_index) == topic_partition:
                if answer.error_code:
                    raise KafkaError(code_of(answer.error_code))
                if answer.offset >= 0:
                    return int(answer.offset)
    raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"the answer has no offset of {topic_partition}")


def code_of(number: int) -> ErrorCode:
    """Return the error of this number, UNKNOWN_SERVER_ERROR for one that only newer brokers have."""
    try:
        return ErrorCode(number)
    except ValueError:
        return ErrorCode.UNKNOWN_SERVER_ERROR
