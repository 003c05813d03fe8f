"""OffsetForLeaderEpoch (23): where a leader epoch ends in the log of a partition led here (KIP-101, KIP-279, KIP-320).

- 1 leader epoch in the answer; 2 current leader epoch; 3 replica id; 4 flexible. The answer is not capped at the high watermark.
"""

from __future__ import annotations

from typing import Final

from kafkalite.broker.identity.authorizer import CLUSTER_ACTION, DESCRIBE_TOPIC
from kafkalite.broker.parts import HasReplicas
from kafkalite.broker.requests.failures import FailedItems
from kafkalite.broker.requests.guards import Each
from kafkalite.broker.requests.request_context import RequestContext
from kafkalite.broker.requests.served_api import run_in_portions, serve_api
from kafkalite.errors import KafkaError
from kafkalite.portions import Work
from kafkalite.protocol import messages
from kafkalite.protocol.apis import ApiKey
from kafkalite.types import TopicPartition


@run_in_portions
def offset_for_leader_epoch(
    parts: HasReplicas, request: messages.OffsetForLeaderEpochRequest, context: RequestContext
) -> Work[messages.OffsetForLeaderEpochResponse]:
    """Return epoch and end offset of each partition, -1 where the epoch is unknown."""
    m = messages.offset_for_leader_epoch_response
    topics = []
    for topic in request.topics:
        yield
        partitions = []
        for asked in topic.partitions:
            yield
            answer = m.EpochEndOffset(partition=asked.partition, leader_epoch=-1, end_offset=-1)
            try:
                partition = parts.replicas.require(TopicPartition(topic.topic, asked.partition))
                partition.require_leader(asked.current_leader_epoch)
                answer.leader_epoch, answer.end_offset = partition.log.end_offset_for_epoch(asked.leader_epoch)
            except KafkaError as problem:
                answer.error_code = problem.code
            partitions.append(answer)
        topics.append(m.OffsetForLeaderTopicResult(topic=topic.topic, partitions=partitions))
    return m.OffsetForLeaderEpochResponse(topics=topics)


APIS: Final = (
    serve_api(
        ApiKey.OFFSET_FOR_LEADER_EPOCH,
        0,
        4,
        offset_for_leader_epoch,
        failure=FailedItems(),
        guard=Each(DESCRIBE_TOPIC, "topics", "topics", "topic", unless=CLUSTER_ACTION),
    ),
)
