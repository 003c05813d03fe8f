"""Produce (0): records to the leaders of their partitions, acknowledged as the producer asks.

- acks=0 has no answer; an error closes the connection, so that the producer learns of it. acks=1 is answered after the append, acks=all
  when the high watermark has passed the records (min.insync.replicas before and after).
- 0 to 2 carry message sets of magic 0 and 1, which are rewritten as one batch of magic 2; 3 transactional id, batches of magic 2;
  7 zstd; 8 error messages; 10 endpoints of new leaders in the answer (KIP-951).
- A client that exceeds its producer_byte_rate is told for how long (KIP-219), and nothing more is read from it meanwhile.
- Not done: transactions (a transactional id is refused).
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, Protocol

from kafkalite.broker.authorizer import Operation, Permission, ResourceType
from kafkalite.broker.delayed_produce import AwaitedRecords, DelayedProduce, Reply
from kafkalite.broker.request_context import RequestContext
from kafkalite.broker.served_api import served
from kafkalite.errors import ErrorCode, KafkaError, ProtocolViolation
from kafkalite.portions import Work
from kafkalite.protocol import messages
from kafkalite.protocol.apis import ApiKey
from kafkalite.types import INTERNAL_TOPICS, TopicPartition

if TYPE_CHECKING:
    from kafkalite.broker.metadata_cache import MetadataCache
    from kafkalite.broker.quotas import ClientQuotas
    from kafkalite.broker.replicas import Replicas
    from kafkalite.broker.traffic import Traffic
    from kafkalite.clock import Clock

_ADMIN_CLIENT = "__admin_client"
"""The client id that Kafka lets write internal topics."""
_AT_ONCE: Final = 1000
"""Topics, or partitions, of a request that are appended in one go."""
_LEAST_PARTITION_BYTES: Final = 6
"""Of a topic without name and partitions, which is less than a partition in any version."""


class Parts(Protocol):
    """What these handlers use of the broker."""

    @property
    def clock(self) -> Clock: ...

    @property
    def quotas(self) -> ClientQuotas: ...

    @property
    def traffic(self) -> Traffic: ...

    @property
    def metadata(self) -> MetadataCache: ...

    @property
    def replicas(self) -> Replicas: ...


def produce(
    parts: Parts, request: messages.produce_request.ProduceRequest, context: RequestContext
) -> Reply | asyncio.Future[Reply] | asyncio.Future[Reply | None] | None:
    """The reply, a future of it while replication is awaited, or None with acks=0."""
    if request.acks not in (-1, 0, 1):
        raise KafkaError(ErrorCode.INVALID_REQUIRED_ACKS, f"acks {request.acks} is none of -1, 0, 1")
    if getattr(request, "transactional_id", None):
        raise KafkaError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, "transactions are not served")
    if context.request_bytes > _AT_ONCE * _LEAST_PARTITION_BYTES and _is_much(request):
        context.connection.begin_alone()
        return asyncio.ensure_future(_produce_much(parts, request, context))
    now_ms, wall_ms = parts.clock.monotonic_ms(), parts.clock.now_ms()
    waits: list[AwaitedRecords] = []
    failures: list[KafkaError] = []
    responses = []
    for topic in request.topic_data:
        name, answers = topic.name, []
        for each in topic.partition_data:
            partition = TopicPartition(name, each.index)
            answers.append(_append(parts, partition, each, request.acks, context, waits, failures, now_ms, wall_ms))
        responses.append(messages.produce_response.TopicProduceResponse(name=name, partition_responses=answers))
    return _answered(parts, request, context, responses, waits, failures, now_ms)


def _is_much(request: messages.produce_request.ProduceRequest) -> bool:
    topics = request.topic_data
    return len(topics) > _AT_ONCE or sum([len(topic.partition_data) for topic in topics]) > _AT_ONCE


async def _produce_much(
    parts: Parts, request: messages.produce_request.ProduceRequest, context: RequestContext
) -> Reply | None:
    """As `produce`; requests behind this one wait, so that records stay in the order in which they were sent."""
    waits: list[AwaitedRecords] = []
    failures: list[KafkaError] = []
    responses = await context.portions.finish(_appended(parts, request, context, waits, failures))
    answer = _answered(parts, request, context, responses, waits, failures, parts.clock.monotonic_ms())
    return await answer if isinstance(answer, asyncio.Future) else answer


def _appended(
    parts: Parts,
    request: messages.produce_request.ProduceRequest,
    context: RequestContext,
    waits: list[AwaitedRecords],
    failures: list[KafkaError],
) -> Work[list[messages.produce_response.TopicProduceResponse]]:
    """The answers of all topics, appended to partition by partition."""
    m = messages.produce_response
    now_ms, wall_ms = parts.clock.monotonic_ms(), parts.clock.now_ms()
    responses = []
    for topic in request.topic_data:
        yield
        name, answers = topic.name, []
        for each in topic.partition_data:
            yield
            partition = TopicPartition(name, each.index)
            answers.append(_append(parts, partition, each, request.acks, context, waits, failures, now_ms, wall_ms))
        responses.append(m.TopicProduceResponse(name=name, partition_responses=answers))
    return responses


def _answered(
    parts: Parts,
    request: messages.produce_request.ProduceRequest,
    context: RequestContext,
    responses: list[messages.produce_response.TopicProduceResponse],
    waits: list[AwaitedRecords],
    failures: list[KafkaError],
    now_ms: float,
) -> Reply | asyncio.Future[Reply] | None:
    throttle_ms = _throttle(parts, context, now_ms)
    if request.acks == 0:
        if failures:
            raise failures[-1]  # `_failed` closes the connection
        return None
    reply = messages.produce_response.ProduceResponse(responses=responses, throttle_time_ms=throttle_ms)
    return DelayedProduce(reply, waits, request.timeout_ms).future if waits else reply


def _throttle(parts: Parts, context: RequestContext, now_ms: float) -> int:
    """Count the request for the client's quota; the ms for which the connection is silenced."""
    quota = parts.quotas.produced
    if not quota.is_set:
        return 0
    throttle_ms = quota.charge(context.user, context.client_id or "", context.request_bytes, now_ms)
    if throttle_ms:
        context.connection.mute(throttle_ms / 1000)
    return throttle_ms


def _append(
    parts: Parts,
    topic_partition: TopicPartition,
    asked: messages.produce_request.PartitionProduceData,
    acks: int,
    context: RequestContext,
    waits: list[AwaitedRecords],
    failures: list[KafkaError],
    now_ms: float,
    wall_ms: int,
) -> messages.produce_response.PartitionProduceResponse:
    """The partition's answer. What is to be replicated first goes into `waits`, a failure into `failures`."""
    m = messages.produce_response
    answer = m.PartitionProduceResponse(index=topic_partition.partition)
    try:
        if topic_partition.topic in INTERNAL_TOPICS and context.client_id != _ADMIN_CLIENT:
            raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"{topic_partition.topic} is written by brokers only")
        partition = parts.replicas.require(topic_partition)
        partition.require_leader()
        records = asked.records or bytearray()
        result = partition.append(memoryview(records), acks, now_ms, wall_ms, context.api_version)
    except KafkaError as problem:
        failures.append(problem)
        answer.error_code, answer.error_message = problem.code, problem.message
        answer.base_offset = -1
        answer.record_errors = [
            m.BatchIndexAndErrorMessage(batch_index=index, batch_index_error_message=text)
            for index, text in getattr(problem, "record_errors", ())
        ]
        if problem.code == ErrorCode.NOT_LEADER_OR_FOLLOWER:
            _name_leader(parts, topic_partition, answer)
        return answer
    answer.base_offset = result.first_offset
    answer.log_append_time_ms = result.log_append_time_ms
    answer.log_start_offset = result.log_start_offset
    parts.traffic.produced(topic_partition.topic, len(records), result.last_offset - result.first_offset + 1)
    if acks == -1:
        required = result.last_offset + 1
        if partition.high_watermark < required or len(partition.maximal_isr) < partition.effective_min_isr:
            waits.append(AwaitedRecords(partition, required, answer))
    return answer


def _name_leader(
    parts: Parts, topic_partition: TopicPartition, answer: messages.produce_response.PartitionProduceResponse
) -> None:
    known = parts.metadata.partition(topic_partition)
    if known is not None and known.leader >= 0:
        answer.current_leader = messages.produce_response.LeaderIdAndEpoch(
            leader_id=known.leader, leader_epoch=known.leader_epoch
        )


def _failed(
    request: messages.produce_request.ProduceRequest, code: ErrorCode, message: str | None
) -> messages.produce_response.ProduceResponse:
    """ProtocolViolation with acks=0: there is no answer, so closing the connection is the only way to tell the producer."""
    if request.acks == 0:
        raise ProtocolViolation(f"a produce request with acks=0 failed: {code.name}")
    m = messages.produce_response
    return m.ProduceResponse(
        responses=[
            m.TopicProduceResponse(
                name=topic.name,
                partition_responses=[
                    m.PartitionProduceResponse(index=p.index, error_code=code, base_offset=-1, error_message=message)
                    for p in topic.partition_data
                ],
            )
            for topic in request.topic_data
        ]
    )


APIS: Final = (
    served(
        ApiKey.PRODUCE,
        0,
        11,
        produce,
        Permission(Operation.WRITE, ResourceType.TOPIC),
        Permission(Operation.WRITE, ResourceType.TRANSACTIONAL_ID),
        failure=_failed,
    ),
)
