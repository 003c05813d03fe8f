"""Produce (0): records to the leaders of their partitions, acknowledged as the producer asks.

- acks=0 has no answer; an error closes the connection, so that the producer learns of it. acks=1 is answered after the append, acks=all
  when the high watermark has passed the records (min.insync.replicas before and after).
- 0 to 2 carry message sets of magic 0 and 1, which are rewritten as one batch of magic 2; 3 transactional id, batches of magic 2;
  7 zstd; 8 error messages; 10 endpoints of new leaders in the answer (KIP-951).
- Batches that take long to check are checked in another thread, one at a time, while what is behind the request on its connection waits.
- A client that exceeds its producer_byte_rate is told for how long (KIP-219), and nothing more is read from it meanwhile.
- Not done: transactions (a transactional id is refused).
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias

from kafkalite.broker.authorizer import Operation, Permission, ResourceType
from kafkalite.broker.delayed_produce import AwaitedRecords, DelayedProduce, Reply
from kafkalite.broker.request_context import RequestContext
from kafkalite.broker.served_api import served
from kafkalite.errors import ErrorCode, KafkaError, ProtocolViolation
from kafkalite.net.frames import RECEIVE_BYTES
from kafkalite.portions import Work
from kafkalite.protocol import messages
from kafkalite.protocol.apis import ApiKey
from kafkalite.protocol.produce_validation import DecompressionBudget
from kafkalite.protocol.record_walk import TooMuchAtOnce
from kafkalite.storage.append_checks import CheckedBatch, check_in_thread
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


_Dear: TypeAlias = tuple[
    TopicPartition,
    "messages.produce_request.PartitionProduceData",
    "messages.produce_response.PartitionProduceResponse",
]
"""Records that take long to check, and their place in the answer."""


class _Course(DecompressionBudget):
    """What appending the records of one request came to so far, and what they may still become."""

    __slots__ = ("dear", "failures", "waits")

    def __init__(self, request_bytes: int) -> None:
        super().__init__(request_bytes)
        self.waits: list[AwaitedRecords] = []
        self.failures: list[KafkaError] = []
        self.dear: list[_Dear] = []


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
        _keep(request, context)
        return asyncio.ensure_future(_produce_much(parts, request, context))
    now_ms, wall_ms = parts.clock.monotonic_ms(), parts.clock.now_ms()
    course = _Course(context.request_bytes)
    responses = []
    for topic in request.topic_data:
        name, answers = topic.name, []
        for each in topic.partition_data:
            partition = TopicPartition(name, each.index)
            answers.append(_append(parts, partition, each, request.acks, context, course, now_ms, wall_ms))
        responses.append(messages.produce_response.TopicProduceResponse(name=name, partition_responses=answers))
    if course.dear:
        context.connection.begin_alone()
        _keep(request, context)
        return asyncio.ensure_future(_produce_dear(parts, request, context, responses, course))
    return _answered(parts, request, context, responses, course, now_ms)


def _is_much(request: messages.produce_request.ProduceRequest) -> bool:
    topics = request.topic_data
    return len(topics) > _AT_ONCE or sum([len(topic.partition_data) for topic in topics]) > _AT_ONCE


async def _produce_much(
    parts: Parts, request: messages.produce_request.ProduceRequest, context: RequestContext
) -> Reply | None:
    """As `produce`; requests behind this one wait, so that records stay in the order in which they were sent."""
    course = _Course(context.request_bytes)
    responses = await context.portions.finish(_appended(parts, request, context, course))
    return await _produce_dear(parts, request, context, responses, course)


async def _produce_dear(
    parts: Parts,
    request: messages.produce_request.ProduceRequest,
    context: RequestContext,
    responses: list[messages.produce_response.TopicProduceResponse],
    course: _Course,
) -> Reply | None:
    """The rest of `produce`, with the batches that take long to check."""
    for topic_partition, asked, answer in course.dear:
        now_ms, wall_ms = parts.clock.monotonic_ms(), parts.clock.now_ms()
        try:
            check = partial(
                check_in_thread,
                memoryview(asked.records or bytearray()),
                parts.replicas.require(topic_partition).log.config,
                now_ms=wall_ms,
                request_version=context.api_version,
                budget=course,
            )
            checked = await context.portions.in_thread(check)
        except KafkaError as problem:
            _refuse(parts, topic_partition, answer, course, problem)
        else:
            _append(parts, topic_partition, asked, request.acks, context, course, now_ms, wall_ms, answer, checked)
    answered = _answered(parts, request, context, responses, course, parts.clock.monotonic_ms())
    return await answered if isinstance(answered, asyncio.Future) else answered


def _keep(request: messages.produce_request.ProduceRequest, context: RequestContext) -> None:
    """Copy the records if they may lie in the buffer that all connections share: others write into it when this call is over."""
    if context.request_bytes <= RECEIVE_BYTES:
        for topic in request.topic_data:
            for asked in topic.partition_data:
                if asked.records is not None:
                    asked.records = bytearray(asked.records)


def _appended(
    parts: Parts,
    request: messages.produce_request.ProduceRequest,
    context: RequestContext,
    course: _Course,
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
            answers.append(_append(parts, partition, each, request.acks, context, course, now_ms, wall_ms))
        responses.append(m.TopicProduceResponse(name=name, partition_responses=answers))
    return responses


def _answered(
    parts: Parts,
    request: messages.produce_request.ProduceRequest,
    context: RequestContext,
    responses: list[messages.produce_response.TopicProduceResponse],
    course: _Course,
    now_ms: float,
) -> Reply | asyncio.Future[Reply] | None:
    throttle_ms = _throttle(parts, context, now_ms)
    if request.acks == 0:
        if course.failures:
            raise course.failures[-1]  # `_failed` closes the connection
        return None
    reply = messages.produce_response.ProduceResponse(responses=responses, throttle_time_ms=throttle_ms)
    return DelayedProduce(reply, course.waits, request.timeout_ms).future if course.waits else reply


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
    course: _Course,
    now_ms: float,
    wall_ms: int,
    answer: messages.produce_response.PartitionProduceResponse | None = None,
    checked: CheckedBatch | None = None,
) -> messages.produce_response.PartitionProduceResponse:
    """The partition's answer. What is to be replicated first, failed, or takes long to check, goes into `course` too."""
    if answer is None:
        answer = messages.produce_response.PartitionProduceResponse(index=topic_partition.partition)
    try:
        if topic_partition.topic in INTERNAL_TOPICS and context.client_id != _ADMIN_CLIENT:
            raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"{topic_partition.topic} is written by brokers only")
        partition = parts.replicas.require(topic_partition)
        partition.require_leader()
        records = asked.records or bytearray()
        result = partition.append(memoryview(records), acks, now_ms, wall_ms, context.api_version, checked or course)
    except TooMuchAtOnce:
        course.dear.append((topic_partition, asked, answer))
        return answer
    except KafkaError as problem:
        _refuse(parts, topic_partition, answer, course, problem)
        return answer
    answer.base_offset = result.first_offset
    answer.log_append_time_ms = result.log_append_time_ms
    answer.log_start_offset = result.log_start_offset
    parts.traffic.produced(topic_partition.topic, len(records), result.last_offset - result.first_offset + 1)
    if acks == -1:
        required = result.last_offset + 1
        if partition.high_watermark < required or len(partition.maximal_isr) < partition.effective_min_isr:
            course.waits.append(AwaitedRecords(partition, required, answer))
    return answer


def _refuse(
    parts: Parts,
    topic_partition: TopicPartition,
    answer: messages.produce_response.PartitionProduceResponse,
    course: _Course,
    problem: KafkaError,
) -> None:
    course.failures.append(problem.as_outcome())
    answer.error_code, answer.error_message = problem.code, problem.message
    answer.base_offset = -1
    answer.record_errors = [
        messages.produce_response.BatchIndexAndErrorMessage(batch_index=index, batch_index_error_message=text)
        for index, text in getattr(problem, "record_errors", ())
    ]
    if problem.code == ErrorCode.NOT_LEADER_OR_FOLLOWER:
        _name_leader(parts, topic_partition, answer)


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
