"""DeleteRecords (21): moves the log start offset of partitions led here; answers when all live replicas have followed.

- An offset of -1 means the high watermark. OFFSET_OUT_OF_RANGE outside [log start, high watermark]; POLICY_VIOLATION where the topic's
  cleanup.policy lacks "delete".
- What was answered is not undone when the broker is killed: the new log starts are in the checkpoint by then (Apache Kafka writes it
  once a minute).
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from kafkalite.broker.identity.authorizer import DELETE_TOPIC
from kafkalite.broker.parts import HasReplicas
from kafkalite.broker.replication.partition import Partition
from kafkalite.broker.requests.failures import FailedItems
from kafkalite.broker.requests.guards import Each
from kafkalite.broker.requests.request_context import RequestContext
from kafkalite.broker.requests.served_api import serve_api
from kafkalite.errors import ErrorCode, KafkaError
from kafkalite.protocol import messages
from kafkalite.protocol.apis import ApiKey
from kafkalite.types import TopicPartition

if TYPE_CHECKING:
    from kafkalite.storage.log.partition_log import PartitionLog

_POLL_S = 0.02


async def delete_records(
    parts: HasReplicas, request: messages.DeleteRecordsRequest, context: RequestContext
) -> messages.DeleteRecordsResponse:
    """Move log starts, and return the low watermark of each partition."""
    m = messages.delete_records_response
    loop = asyncio.get_running_loop()
    deadline_s = loop.time() + request.timeout_ms / 1000
    topics, waiting = [], []
    moved: dict[PartitionLog, None] = {}
    pace = context.portions.pace()
    for topic in request.topics:
        await pace.unit()
        answers = []
        for asked in topic.partitions:
            await pace.unit()
            answer = m.DeleteRecordsPartitionResult(partition_index=asked.partition_index, low_watermark=-1)
            try:
                partition = parts.replicas.require(TopicPartition(topic.name, asked.partition_index))
                start = _delete(partition, asked.offset)
                moved[partition.log] = None
                answer.low_watermark = partition.low_watermark
                if answer.low_watermark < start:
                    waiting.append((partition, start, answer))
            except KafkaError as problem:
                answer.error_code = problem.code
            answers.append(answer)
        topics.append(m.DeleteRecordsTopicResult(name=topic.name, partitions=answers))
    parts.replicas.logs.note_log_starts(moved)
    for partition, start, answer in waiting:
        await pace.unit()
        await _await_followers(partition, start, answer, deadline_s)
    return m.DeleteRecordsResponse(topics=topics)


def _delete(partition: Partition, offset: int) -> int:
    partition.require_leader()
    log = partition.log
    if "delete" not in log.config.cleanup_policy:
        raise KafkaError(ErrorCode.POLICY_VIOLATION)
    target = log.high_watermark if offset == -1 else offset
    if not 0 <= target <= log.high_watermark:
        raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE)
    log.delete_records(target)
    partition.notify_watchers(appended=False)
    return target


async def _await_followers(
    partition: Partition,
    start: int,
    answer: messages.delete_records_response.DeleteRecordsPartitionResult,
    deadline_s: float,
) -> None:
    """Wait until the followers, which learn the new start from a fetch's answer, report it with their next fetch."""
    loop = asyncio.get_running_loop()
    while partition.low_watermark < start:
        if not partition.is_leader:
            answer.error_code = ErrorCode.NOT_LEADER_OR_FOLLOWER
            return
        if loop.time() > deadline_s:
            answer.error_code = ErrorCode.REQUEST_TIMED_OUT
            return
        await asyncio.sleep(_POLL_S)
    answer.low_watermark = partition.low_watermark


APIS: Final = (
    serve_api(
        ApiKey.DELETE_RECORDS,
        0,
        2,
        delete_records,
        failure=FailedItems(low_watermark=-1),
        guard=Each(DELETE_TOPIC, "topics", "topics"),
    ),
)
