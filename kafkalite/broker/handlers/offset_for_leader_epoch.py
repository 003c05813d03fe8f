"""OffsetForLeaderEpoch (23): where a leader epoch ends in the log of a partition led here (KIP-101, KIP-279, KIP-320).

- 2 current leader epoch; 3 replica id; 4 flexible. The answer is not capped at the high watermark.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.errors import KafkaError
from kafkalite.protocol import messages
from kafkalite.types import TopicPartition

if TYPE_CHECKING:
    from kafkalite.broker.app import Broker
    from kafkalite.broker.dispatch import RequestContext


def offset_for_leader_epoch(
    broker: Broker,
    request: messages.offset_for_leader_epoch_request.OffsetForLeaderEpochRequest,
    context: RequestContext,
) -> messages.offset_for_leader_epoch_response.OffsetForLeaderEpochResponse:
    """Epoch and end offset for each partition; -1 where the epoch is unknown."""
    m = messages.offset_for_leader_epoch_response
    topics = []
    for topic in request.topics:
        partitions = []
        for asked in topic.partitions:
            answer = m.EpochEndOffset(partition=asked.partition, leader_epoch=-1, end_offset=-1)
            try:
                partition = broker.replicas.require(TopicPartition(topic.topic, asked.partition))
                partition.require_leader(asked.current_leader_epoch)
                answer.leader_epoch, answer.end_offset = partition.log.end_offset_for_epoch(asked.leader_epoch)
            except KafkaError as problem:
                answer.error_code = problem.code
            partitions.append(answer)
        topics.append(m.OffsetForLeaderTopicResult(topic=topic.topic, partitions=partitions))
    return m.OffsetForLeaderEpochResponse(topics=topics)
