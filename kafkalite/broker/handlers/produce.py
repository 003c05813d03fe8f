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
from typing import Final, NamedTuple, Protocol

from kafkalite.broker.coordination.transaction_verification import (
    HasTransactionVerifier,
    Producer,
    Refusals,
    produce_refusal,
)
from kafkalite.broker.fetch.leader_endpoints import name_leaders
from kafkalite.broker.identity.authorizer import WRITE_TRANSACTIONAL_ID
from kafkalite.broker.parts import HasClock, HasMetadata, HasQuotas, HasReplicas, HasTraffic
from kafkalite.broker.produce.delayed_produce import AwaitedRecords, DelayedProduce, Reply, find_refusal_log_start
from kafkalite.broker.produce.fast_path import WRITE, FastPath
from kafkalite.broker.requests.failures import FailedItems, Failure
from kafkalite.broker.requests.guards import Judged, narrow
from kafkalite.broker.requests.request_context import RequestContext
from kafkalite.broker.requests.request_fields import copy_shared_records
from kafkalite.broker.requests.served_api import serve_api
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

_ADMIN_CLIENT = "__admin_client"
"""The client id that Kafka lets write internal topics."""
_AT_ONCE: Final = 1000
"""Topics, or partitions, of a request that are appended in one go."""
_KNOWS_ABORTABLE_FROM: Final = 11
_LEAST_PARTITION_BYTES: Final = 6
"""Of a topic without name and partitions, which is less than a partition in any version."""


class _Expensive(NamedTuple):
    """Records that take long to check, and the part of the reply that says how they fared."""

    topic_partition: TopicPartition
    asked: messages.produce_request.PartitionProduceData
    answer: messages.produce_response.PartitionProduceResponse


class _Progress(DecompressionBudget):
    """The progress of one request: appends that wait, failed or are left, and the bytes that the rest may still decompress to."""

    __slots__ = ("expensive", "failures", "guards", "refusals", "waits")

    def __init__(self, request_bytes: int, place: tuple[bytearray, int] | None) -> None:
        super().__init__(request_bytes, place)
        self.waits: list[AwaitedRecords] = []
        self.failures: list[KafkaError] = []
        self.expensive: list[_Expensive] = []
        self.guards: dict[TopicPartition, VerificationGuard] | None = None
        """By partition what an append needs to begin a transaction; None until it is known, and without a transactional id."""
        self.refusals: dict[TopicPartition, KafkaError] = {}
        """Partitions that may not begin one."""


class Parts(HasClock, HasQuotas, HasTraffic, HasMetadata, HasReplicas, HasTransactionVerifier, Protocol):
    """The parts of the broker that these handlers use."""


def produce(
    parts: Parts, request: messages.ProduceRequest, context: RequestContext
) -> Reply | asyncio.Future[Reply] | asyncio.Future[Reply | None] | None:
    """Return the reply, a future of it while something is awaited, or None with acks=0."""
    if request.acks not in (-1, 0, 1):
        raise KafkaError(ErrorCode.INVALID_REQUIRED_ACKS, f"acks {request.acks} is none of -1, 0, 1")
    progress = _Progress(context.request_bytes, context.records_place)
    verification: asyncio.Future[Refusals] | None = None
    responses: list[messages.produce_response.TopicProduceResponse] | None = None
    if context.request_bytes <= _AT_ONCE * _LEAST_PARTITION_BYTES or not _is_much(request):
        if request.transactional_id is not None:
            unverified = in_one_go(_find_unverified(parts, request, progress))
            verification = _verify(parts, context, progress, unverified)
        if verification is None:
            now_ms, wall_ms = parts.clock.monotonic_ms(), parts.clock.now_ms()
            responses = []
            for topic in request.topic_data:
                name, answers = topic.name, []
                for each in topic.partition_data:
                    partition = TopicPartition(name, each.index)
                    answers.append(_append(parts, partition, each, request.acks, context, progress, now_ms, wall_ms))
                responses.append(messages.produce_response.TopicProduceResponse(name=name, partition_responses=answers))
            if not progress.expensive:
                return _respond(parts, request, context, responses, progress)
    context.connection.stop_pipelining()
    copy_shared_records(request, context.request_bytes)
    return asyncio.ensure_future(_produce_paced(parts, request, context, progress, verification, responses))


def _is_much(request: messages.ProduceRequest) -> bool:
    topics = request.topic_data
    if len(topics) == 1:
        return len(topics[0].partition_data) > _AT_ONCE
    return len(topics) > _AT_ONCE or sum([len(topic.partition_data) for topic in topics]) > _AT_ONCE


async def _produce_paced(
    parts: Parts,
    request: messages.ProduceRequest,
    context: RequestContext,
    progress: _Progress,
    verification: asyncio.Future[Refusals] | None,
    responses: list[messages.produce_response.TopicProduceResponse] | None,
) -> Reply | None:
    """Serve what needs the coordinator, another thread or portions. Requests behind this one wait, so that records stay in order."""
    if responses is None:
        if request.transactional_id is not None and progress.guards is None:
            unverified = await context.portions.finish(_find_unverified(parts, request, progress))
            verification = _verify(parts, context, progress, unverified)
        if verification is not None:
            _refuse_unverified(progress, await verification, context)
        responses = await context.portions.finish(_append_in_portions(parts, request, context, progress))
    for each in progress.expensive:
        await _append_expensive(parts, each, request.acks, context, progress)
    reply = _respond(parts, request, context, responses, progress)
    return await reply if isinstance(reply, asyncio.Future) else reply


# Transactions (KIP-890)


def _find_unverified(
    parts: Parts, request: messages.ProduceRequest, progress: _Progress
) -> Work[dict[TopicPartition, Producer]]:
    """Return the partitions in which a transaction would begin, with its producer, and note their guards in `progress`.

    Whatever else is wrong with a partition is found by its append.
    """
    guards = progress.guards = {}
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
                guards[topic_partition] = UNGUARDED
                continue
            guard = guards[topic_partition] = partition.log.producers.begin_verification(
                header.producer_id, header.producer_epoch, header.base_sequence, wall_ms
            )
            if guard is not NOT_VERIFIED:
                unverified[topic_partition] = Producer(
                    request.transactional_id or "", header.producer_id, header.producer_epoch
                )
    return unverified


def _verify(
    parts: Parts, context: RequestContext, progress: _Progress, unverified: dict[TopicPartition, Producer]
) -> asyncio.Future[Refusals] | None:
    """Return what the coordinator's answer has to be awaited by, None where it is known which partitions may begin a transaction."""
    if not unverified:
        return None
    refusals = parts.transaction_verifier.verify(next(iter(unverified.values())), unverified)
    if isinstance(refusals, asyncio.Future):
        return refusals
    _refuse_unverified(progress, refusals, context)
    return None


def _refuse_unverified(progress: _Progress, refusals: Refusals, context: RequestContext) -> None:
    knows_abortable = context.api_version >= _KNOWS_ABORTABLE_FROM
    for topic_partition, code in refusals.items():
        progress.refusals[topic_partition] = produce_refusal(code, knows_abortable)


def _append_in_portions(
    parts: Parts, request: messages.ProduceRequest, context: RequestContext, progress: _Progress
) -> Work[list[messages.produce_response.TopicProduceResponse]]:
    """Append partition by partition and return the responses of all topics."""
    now_ms, wall_ms, acks = parts.clock.monotonic_ms(), parts.clock.now_ms(), request.acks
    responses = []
    for topic in request.topic_data:
        yield
        answers = []
        for each in topic.partition_data:
            yield
            partition = TopicPartition(topic.name, each.index)
            answers.append(_append(parts, partition, each, acks, context, progress, now_ms, wall_ms))
        responses.append(messages.produce_response.TopicProduceResponse(name=topic.name, partition_responses=answers))
    return responses


async def _append_expensive(
    parts: Parts, expensive: _Expensive, acks: int, context: RequestContext, progress: _Progress
) -> None:
    """Append records that were checked in another thread."""
    topic_partition, asked, answer = expensive
    now_ms, wall_ms = parts.clock.monotonic_ms(), parts.clock.now_ms()
    try:
        check = partial(
            check_in_thread,
            memoryview(asked.records or bytearray()),
            parts.replicas.require(topic_partition).log.config,
            now_ms=wall_ms,
            request_version=context.api_version,
            budget=progress,
        )
        checked = await context.portions.in_thread(check)
    except KafkaError as problem:
        _refuse(parts, topic_partition, answer, progress, problem)
    else:
        _append(parts, topic_partition, asked, acks, context, progress, now_ms, wall_ms, answer, checked)


def _respond(
    parts: Parts,
    request: messages.ProduceRequest,
    context: RequestContext,
    responses: list[messages.produce_response.TopicProduceResponse],
    progress: _Progress,
) -> Reply | asyncio.Future[Reply] | None:
    throttle_ms = _throttle(parts, context)
    if request.acks == 0:
        if progress.failures:
            raise progress.failures[-1]  # `_fail_request` closes the connection
        return None
    reply = messages.ProduceResponse(responses=responses, throttle_time_ms=throttle_ms)
    if not progress.waits:
        if progress.failures:
            name_leaders(parts.replicas, context, reply)
        return reply
    for topic in request.topic_data:
        for each in topic.partition_data:
            each.records = None  # they are in the logs; dispatch keeps the rest for as long as replication takes
    complete = partial(name_leaders, parts.replicas, context)
    return DelayedProduce(reply, progress.waits, request.timeout_ms, complete).future


def _throttle(parts: Parts, context: RequestContext) -> int:
    """Count the request for the client's quota and mute its connection; return for how many ms."""
    quota = parts.quotas.produced
    if not quota.is_set:
        return 0
    throttle_ms = quota.charge(context.user, context.client_id or "", context.request_bytes, parts.clock.monotonic_ms())
    if throttle_ms:
        context.connection.mute(throttle_ms / 1000)
    return throttle_ms


def _append(
    parts: Parts,
    topic_partition: TopicPartition,
    asked: messages.produce_request.PartitionProduceData,
    acks: int,
    context: RequestContext,
    progress: _Progress,
    now_ms: float,
    wall_ms: int,
    answer: messages.produce_response.PartitionProduceResponse | None = None,
    checked: CheckedBatch | None = None,
) -> messages.produce_response.PartitionProduceResponse:
    """Return the partition's response. What awaits replication, failed, or is expensive to check is noted in `progress`."""
    if answer is None:
        answer = messages.produce_response.PartitionProduceResponse(index=topic_partition.partition)
    try:
        if topic_partition.topic in INTERNAL_TOPICS and context.client_id != _ADMIN_CLIENT:
            raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"{topic_partition.topic} is written by brokers only")
        guard, guards = NO_TRANSACTION, progress.guards
        if guards is not None:
            if topic_partition in progress.refusals:
                _refuse(parts, topic_partition, answer, progress, progress.refusals[topic_partition])
                answer.log_start_offset = -1  # the log was not read
                return answer
            guard = guards.get(topic_partition, NOT_VERIFIED)
        partition = parts.replicas.require(topic_partition)
        partition.require_leader()
        records = asked.records or bytearray()
        result = partition.append(
            memoryview(records), acks, now_ms, wall_ms, context.api_version, checked or progress, guard
        )
    except TooMuchAtOnce:
        progress.expensive.append(_Expensive(topic_partition, asked, answer))
        return answer
    except KafkaError as problem:
        _refuse(parts, topic_partition, answer, progress, problem)
        return answer
    answer.base_offset = result.first_offset
    answer.log_append_time_ms = result.log_append_time_ms
    answer.log_start_offset = result.log_start_offset
    parts.traffic.count_produced(topic_partition.topic, len(records), result.last_offset - result.first_offset + 1)
    if acks == -1:
        required = result.last_offset + 1
        if partition.high_watermark < required or len(partition.maximal_isr) < partition.effective_min_isr:
            progress.waits.append(AwaitedRecords(partition, required, answer))
    return answer


def _refuse(
    parts: Parts,
    topic_partition: TopicPartition,
    answer: messages.produce_response.PartitionProduceResponse,
    progress: _Progress,
    problem: KafkaError,
) -> None:
    progress.failures.append(problem.as_outcome())
    answer.error_code, answer.error_message = problem.code, problem.message
    answer.base_offset = -1
    answer.record_errors = [
        messages.produce_response.BatchIndexAndErrorMessage(batch_index=index, batch_index_error_message=text)
        for index, text in getattr(problem, "record_errors", ())
    ]
    answer.log_start_offset = find_refusal_log_start(parts.replicas.partitions.get(topic_partition), problem.code)


def _fail_request(request: messages.ProduceRequest, code: ErrorCode, message: str | None) -> Reply:
    """Raise ProtocolViolation with acks=0: without a response, closing the connection is the only way to notify the producer."""
    if request.acks == 0:
        raise ProtocolViolation(f"a produce request with acks=0 failed: {code.name}")
    reply: Reply = _fail_records(request, code, message)
    return reply


_fail_records: Final = FailedItems(base_offset=-1)


# Authorisation


def _guard(parts: object, request: messages.ProduceRequest, context: RequestContext, failure: Failure) -> Work[Judged]:
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
    if needs_id and not (
        request.transactional_id is not None and context.may(WRITE_TRANSACTIONAL_ID, request.transactional_id)
    ):
        raise KafkaError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    if not refused:
        return Judged(request)
    refusal = _fail_request(narrow(request, acks=1, topic_data=refused), ErrorCode.TOPIC_AUTHORIZATION_FAILED, None)

    def complete(reply: messages.ProduceResponse | None) -> Work[Reply]:
        yield
        if request.acks == 0:
            raise KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)  # `_fail_request` closes the connection
        if reply is None:
            return refusal
        reply.responses += refusal.responses
        return reply

    return Judged(narrow(request, topic_data=allowed) if allowed else None, complete)


def _is_transactional(asked: messages.produce_request.PartitionProduceData) -> bool:
    header = header_at(asked.records) if asked.records else None
    return header is not None and header.magic == MAGIC and header.is_transactional


APIS: Final = (serve_api(ApiKey.PRODUCE, 0, 11, produce, failure=_fail_request, guard=_guard, fast_path=FastPath),)
