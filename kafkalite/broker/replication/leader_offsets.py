"""What a follower asks its leader beside records: where the leader's log begins and ends (ListOffsets). Pure."""

from __future__ import annotations

from kafkalite.errors import ErrorCode, KafkaError
from kafkalite.protocol import messages
from kafkalite.types import BrokerId, TopicPartition


def offset_request(
    broker_id: BrokerId, topic_partition: TopicPartition, leader_epoch: int, timestamp: int
) -> messages.list_offsets_request.ListOffsetsRequest:
    """The question for one partition; `timestamp` is -1 for the end, -2 for the beginning."""
    m = messages.list_offsets_request
    asked = m.ListOffsetsPartition(
        partition_index=topic_partition.partition, current_leader_epoch=leader_epoch, timestamp=timestamp
    )
    topic = m.ListOffsetsTopic(name=topic_partition.topic, partitions=[asked])
    return m.ListOffsetsRequest(replica_id=broker_id, topics=[topic])


def offset_in(response: messages.list_offsets_response.ListOffsetsResponse, topic_partition: TopicPartition) -> int:
    """The offset that the leader tells. KafkaError with its code, UNKNOWN_SERVER_ERROR for an answer that is none."""
    for topic in response.topics:
        for answer in topic.partitions:
            if (topic.name, answer.partition_index) == topic_partition:
                if answer.error_code:
                    raise KafkaError(code_of(answer.error_code))
                if answer.offset >= 0:
                    return int(answer.offset)
    raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"the answer has no offset of {topic_partition}")


def code_of(number: int) -> ErrorCode:
    """The error of this number; UNKNOWN_SERVER_ERROR for one that only newer brokers know."""
    try:
        return ErrorCode(number)
    except ValueError:
        return ErrorCode.UNKNOWN_SERVER_ERROR
