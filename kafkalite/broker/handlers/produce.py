"""Produce (0): records to the leaders of their partitions, acknowledged as the producer asks.

- acks=0 has no answer; an error closes the connection, so that the producer learns of it. acks=1 is answered after the append, acks=all
  when the high watermark has passed the records (min.insync.replicas before and after).
- 0 to 2 carry message sets of magic 0 and 1, which are rewritten as one batch of magic 2; 3 transactional id, batches of magic 2;
  7 zstd; 8 error messages; 10 endpoints of new leaders in the answer (KIP-951).
- Batches that take long to check are checked in another thread, one at a time, while what is behind the request on its connection waits.
- A client that exceeds its producer_byte_rate gets the time to wait (KIP-219), and nothing more is read from it meanwhile.
- Transactional records need a transactional id. The first ones of a transaction in a partition are appended when its coordinator says that
  the partition is in it (`broker/coordination/transaction_verification`); requests behind wait for that. 11 knows TRANSACTION_ABORTABLE.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol, TypeAlias

from kafkalite.broker.coordination.transaction_verification import Producer, Refusals, produce_refusal
from kafkalite.broker.fetch.leader_endpoints import name_leaders
from kafkalite.broker.identity.authorizer import Operation, Permission, ResourceType
from kafkalite.broker.produce.delayed_produce import AwaitedRecords, DelayedProduce, Reply, find_refusal_log_start
from kafkalite.broker.produce.plain_produce import WRITE, PlainTurn
from kafkalite.broker.requests.failures import FailedItems, Failure
from kafkalite.broker.requests.guards import Judged, narrowed
from kafkalite.broker.requests.request_context import RequestContext
from kafkalite.broker.requests.request_fields import copy_shared_records
from kafkalite.broker.requests.served_api import served
from kafkalite.errors import ErrorCode, KafkaError, ProtocolViolation
from kafkalite.net.frames import RECEIVE_BYTES
from kafkalite.portions import Work, in_one_go
from kafkalite.protocol import messages
from kafkalite.protocol.apis import ApiKey
from kafkalite.protocol.record_batches.produce_validation import DecompressionBudget
from kafkalite.protocol.record_batches.record_walk import TooMuchAtOnce
from kafkalite.protocol.record_batches.records import MAGIC, header_at
from kafkalite.storage.log.append_checks import CheckedBatch, check_in_thread
from kafkalite.storage.producers.verification import NO_TRANSACTION, NOT_VERIFIED, UNGUARDED, VerificationGuard
from kafkalite.types import INTERNAL_TOPICS, TopicPartition

if TYPE_CHECKING:
    from kafkalite.broker.coordination.transaction_verification import TransactionVerifier
    from kafkalite.broker.metadata_cache import MetadataCache
    from kafkalite.broker.replication.replicas import Replicas
    from kafkalite.broker.settings.quotas import ClientQuotas
    from kafkalite.broker.traffic import Traffic
    from kafkalite.clock import Clock

_ADMIN_CLIENT = "__admin_client"
"""The client id that Kafka lets write internal topics."""
_AT_ONCE: Final = 1000
"""Topics, or partitions, of a request that are appended in one go."""
_KNOWS_ABORTABLE_FROM: Final = 11
_LEAST_PARTITION_BYTES: Final = 6
"""Of a topic without name and partitions, which is less than a partition in any version."""


_Dear: TypeAlias = tuple[
    TopicPartition,
    "messages.produce_request.PartitionProduceData",
    "messages.produce_response.PartitionProduceResponse",
]
"""Records that take long to check, and their place in the answer."""


class _Verified(NamedTuple):
    """Of a request with a transactional id: what each partition's append needs to begin a transaction, and which may not."""

    guards: dict[TopicPartition, VerificationGuard]
    refusals: dict[TopicPartition, KafkaError]


class _Course(DecompressionBudget):
    """What appending the records of one request came to so far, and what they may still become."""

    __slots__ = ("dear", "failures", "transaction", "waits")

    def __init__(self, request_bytes: int, place: tuple[bytearray, int] | None) -> None:
        super().__init__(request_bytes, place)
        self.waits: list[AwaitedRecords] = []
        self.failures: list[KafkaError] = []
        self.dear: list[_Dear] = []
        self.transaction: _Verified | None = None


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

    @property
    def transaction_verifier(self) -> TransactionVerifier: ...


def produce(
    parts: Parts, request: messages.produce_request.ProduceRequest, context: RequestContext
) -> Reply | asyncio.Future[Reply] | asyncio.Future[Reply | None] | None:
    """The reply, a future of it while replication is awaited, or None with acks=0."""
    if request.acks not in (-1, 0, 1):
        raise KafkaError(ErrorCode.INVALID_REQUIRED_ACKS, f"acks {request.acks} is none of -1, 0, 1")
    course = _Course(context.request_bytes, context.records_place)
    if request.transactional_id is not None:
        return _produce_transactional(parts, request, context, course)
    return _produce(parts, request, context, course)


def _produce(
    parts: Parts, request: messages.produce_request.ProduceRequest, context: RequestContext, course: _Course
) -> Reply | asyncio.Future[Reply] | asyncio.Future[Reply | None] | None:
    if context.request_bytes > _AT_ONCE * _LEAST_PARTITION_BYTES and _is_much(request):
        context.connection.stop_pipelining()
        copy_shared_records(request, context.request_bytes)
        return asyncio.ensure_future(_produce_much(parts, request, context, course))
    now_ms, wall_ms = parts.clock.monotonic_ms(), parts.clock.now_ms()
    responses = []
    for topic in request.topic_data:
        name, answers = topic.name, []
        for each in topic.partition_data:
            partition = TopicPartition(name, each.index)
            answers.append(_append(parts, partition, each, request.acks, context, course, now_ms, wall_ms))
        responses.append(messages.produce_response.TopicProduceResponse(name=name, partition_responses=answers))
    if course.dear:
        context.connection.stop_pipelining()
        copy_shared_records(request, context.request_bytes)
        return asyncio.ensure_future(_produce_dear(parts, request, context, responses, course))
    return _answered(parts, request, context, responses, course, now_ms)


def _is_much(request: messages.produce_request.ProduceRequest) -> bool:
    topics = request.topic_data
    if len(topics) == 1:
        return len(topics[0].partition_data) > _AT_ONCE
    return len(topics) > _AT_ONCE or sum([len(topic.partition_data) for topic in topics]) > _AT_ONCE


async def _produce_much(
    parts: Parts, request: messages.produce_request.ProduceRequest, context: RequestContext, course: _Course
) -> Reply | None:
    """As `produce`; requests behind this one wait, so that records stay in the order in which they were sent."""
    responses = await context.portions.finish(_appended(parts, request, context, course))
    return await _produce_dear(parts, request, context, responses, course)


# Transactions (KIP-890)


def _produce_transactional(
    parts: Parts, request: messages.produce_request.ProduceRequest, context: RequestContext, course: _Course
) -> Reply | asyncio.Future[Reply] | asyncio.Future[Reply | None] | None:
    """As `produce`, once it is known which partitions may begin a transaction."""
    course.transaction = _Verified({}, {})
    if context.request_bytes > _AT_ONCE * _LEAST_PARTITION_BYTES and _is_much(request):
        context.connection.stop_pipelining()
        copy_shared_records(request, context.request_bytes)
        return asyncio.ensure_future(_verify_much(parts, request, context, course, course.transaction))
    answer = _asked(parts, request, in_one_go(_unverified(parts, request, course.transaction)))
    if isinstance(answer, asyncio.Future):
        context.connection.stop_pipelining()
        copy_shared_records(request, context.request_bytes)
        return asyncio.ensure_future(_produce_verified(parts, request, context, course, course.transaction, answer))
    _refuse_unverified(course.transaction, answer, context)
    return _produce(parts, request, context, course)


async def _verify_much(
    parts: Parts,
    request: messages.produce_request.ProduceRequest,
    context: RequestContext,
    course: _Course,
    transaction: _Verified,
) -> Reply | None:
    unverified = await context.portions.finish(_unverified(parts, request, transaction))
    answer = _asked(parts, request, unverified)
    _refuse_unverified(transaction, await answer if isinstance(answer, asyncio.Future) else answer, context)
    return await _produce_much(parts, request, context, course)


async def _produce_verified(
    parts: Parts,
    request: messages.produce_request.ProduceRequest,
    context: RequestContext,
    course: _Course,
    transaction: _Verified,
    answer: asyncio.Future[Refusals],
) -> Reply | None:
    _refuse_unverified(transaction, await answer, context)
    answered = _produce(parts, request, context, course)
    return await answered if isinstance(answered, asyncio.Future) else answered


def _unverified(
    parts: Parts, request: messages.produce_request.ProduceRequest, transaction: _Verified
) -> Work[dict[TopicPartition, Producer]]:
    """The partitions in which a transaction would begin, and whose; the guards go into `transaction`. What is wrong, the append tells."""
    unverified: dict[TopicPartition, Producer] = {}
    is_enabled, wall_ms = parts.transaction_verifier.is_enabled, parts.clock.now_ms()
    producers: set[tuple[int, int]] = set()
    for topic in request.topic_data:
        yield
        for each in topic.partition_data:
            yield
            header = header_at(each.records) if each.records else None
            if header is None or header.magic != MAGIC or not (header.is_transactional and header.has_producer_id):
                continue
            producers.add((header.producer_id, header.producer_epoch))
            if len(producers) > 1:
                text = "Transactional records contained more than one producer ID"
                raise KafkaError(ErrorCode.INVALID_PRODUCER_ID_MAPPING, text)
            topic_partition = TopicPartition(topic.name, each.index)
            partition = parts.replicas.partitions.get(topic_partition)
            if partition is None or not partition.is_leader:
                continue
            if not is_enabled:
                transaction.guards[topic_partition] = UNGUARDED
                continue
            guard = transaction.guards[topic_partition] = partition.log.producers.begin_verification(
                header.producer_id, header.producer_epoch, header.base_sequence, wall_ms
            )
            if guard is not NOT_VERIFIED:
                unverified[topic_partition] = Producer(
                    request.transactional_id or "", header.producer_id, header.producer_epoch
                )
    return unverified


def _asked(
    parts: Parts, request: messages.produce_request.ProduceRequest, unverified: dict[TopicPartition, Producer]
) -> Refusals | asyncio.Future[Refusals]:
    if not unverified:
        return {}
    return parts.transaction_verifier.verify(next(iter(unverified.values())), unverified)


def _refuse_unverified(transaction: _Verified, refusals: Refusals, context: RequestContext) -> None:
    knows_abortable = context.api_version >= _KNOWS_ABORTABLE_FROM
    for topic_partition, code in refusals.items():
        transaction.refusals[topic_partition] = produce_refusal(code, knows_abortable)


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
            raise course.failures[-1]  # `_fail_request` closes the connection
        return None
    reply = messages.produce_response.ProduceResponse(responses=responses, throttle_time_ms=throttle_ms)
    if not course.waits:
        if course.failures:
            name_leaders(parts.replicas, context, reply)
        return reply
    for topic in request.topic_data:
        for each in topic.partition_data:
            each.records = None  # they are in the logs; dispatch keeps the rest for as long as replication takes
    complete = partial(name_leaders, parts.replicas, context)
    return DelayedProduce(reply, course.waits, request.timeout_ms, complete).future


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
        guard, transaction = NO_TRANSACTION, course.transaction
        if transaction is not None:
            if topic_partition in transaction.refusals:
                _refuse(parts, topic_partition, answer, course, transaction.refusals[topic_partition])
                answer.log_start_offset = -1  # nobody has looked at the log
                return answer
            guard = transaction.guards.get(topic_partition, NOT_VERIFIED)
        partition = parts.replicas.require(topic_partition)
        partition.require_leader()
        records = asked.records or bytearray()
        result = partition.append(
            memoryview(records), acks, now_ms, wall_ms, context.api_version, checked or course, guard
        )
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
    answer.log_start_offset = find_refusal_log_start(parts.replicas.partitions.get(topic_partition), problem.code)


def _fail_request(request: messages.produce_request.ProduceRequest, code: ErrorCode, message: str | None) -> Reply:
    """ProtocolViolation with acks=0: there is no answer, so closing the connection is the only way to tell the producer."""
    if request.acks == 0:
        raise ProtocolViolation(f"a produce request with acks=0 failed: {code.name}")
    reply: Reply = _fail_records(request, code, message)
    return reply


_fail_records: Final = FailedItems(base_offset=-1)


# Authorisation


_WRITE_ID: Final = Permission(Operation.WRITE, ResourceType.TRANSACTIONAL_ID)


def _guard(
    parts: object, request: messages.produce_request.ProduceRequest, context: RequestContext, failure: Failure
) -> Work[Judged]:
    """First the transactional id, where a record needs one; then topic by topic.

    What may lie in the buffer that all connections share is judged in one go.
    """
    is_long = context.request_bytes > RECEIVE_BYTES
    allowed: list[messages.produce_request.TopicProduceData] = []
    refused: list[messages.produce_request.TopicProduceData] = []
    needs_id = False
    for topic in request.topic_data:
        if is_long:
            yield
        needs_id = needs_id or any(_is_transactional(each) for each in topic.partition_data)
        (allowed if context.may(WRITE, topic.name) else refused).append(topic)
    if needs_id and not (request.transactional_id is not None and context.may(_WRITE_ID, request.transactional_id)):
        raise KafkaError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    if not refused:
        return Judged(request)
    told = _fail_request(narrowed(request, acks=1, topic_data=refused), ErrorCode.TOPIC_AUTHORIZATION_FAILED, None)

    def complete(reply: messages.produce_response.ProduceResponse | None) -> Work[Reply]:
        yield
        if request.acks == 0:
            raise KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)  # `_fail_request` closes the connection
        if reply is None:
            return told
        reply.responses += told.responses
        return reply

    return Judged(narrowed(request, topic_data=allowed) if allowed else None, complete)


def _is_transactional(asked: messages.produce_request.PartitionProduceData) -> bool:
    header = header_at(asked.records) if asked.records else None
    return header is not None and header.magic == MAGIC and header.is_transactional


APIS: Final = (
    served(
        ApiKey.PRODUCE,
        0,
        11,
        produce,
        WRITE,
        _WRITE_ID,
        failure=_fail_request,
        guard=_guard,
        turn=PlainTurn,
    ),
)
