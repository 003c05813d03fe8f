"""AddPartitionsToTxn (24), AddOffsetsToTxn (25), EndTxn (26): a producer's transaction, served by its coordinator (KIP-98).

- AddPartitionsToTxn 2, AddOffsetsToTxn 2, EndTxn 2 know PRODUCER_FENCED, before it is INVALID_PRODUCER_EPOCH; 3 flexible.
- AddPartitionsToTxn 4 is asked by brokers only: several transactions, or whether partitions are in them (`verify_only`, KIP-890).
- AddPartitionsToTxn 5, AddOffsetsToTxn 4, EndTxn 4 know TRANSACTION_ABORTABLE, which only verification answers here.
- One partition that cannot be added leaves the others out too, as OPERATION_NOT_ATTEMPTED.
- The group of AddOffsetsToTxn need not exist.
- A coordinator that may have a successor has its leadership proven before it answers from memory (`broker/coordination/leadership_proof`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias, TypeVar

from kafkalite.broker.identity.authorizer import CLUSTER_ACTION, READ_GROUP, WRITE_TOPIC, WRITE_TRANSACTIONAL_ID
from kafkalite.broker.parts import HasGroups, HasMetadata, HasTransactions
from kafkalite.broker.requests.failures import FailedItems, Failure
from kafkalite.broker.requests.guards import Judged, Steps, Whole
from kafkalite.broker.requests.request_context import RequestContext
from kafkalite.broker.requests.served_api import serve_api
from kafkalite.coordinators.transaction.requests import AddPartitions, EndTransaction
from kafkalite.errors import ErrorCode, KafkaError
from kafkalite.portions import Work
from kafkalite.protocol import messages
from kafkalite.protocol.apis import ApiKey
from kafkalite.types import INTERNAL_TOPICS, OFFSETS_TOPIC, TRANSACTIONS_TOPIC, TopicPartition

if TYPE_CHECKING:
    from kafkalite.broker.coordination.leadership_proof import LeadershipProof
    from kafkalite.broker.metadata_cache import MetadataCache
    from kafkalite.coordinators.transaction.transaction_record import Partitions

ShapedT = TypeVar("ShapedT")

_FENCED_FROM: Final = 2
_BATCHED_FROM: Final = 4
_DECISION_UNITS: Final = 5
"""Cost of one record of the coordinator, in units of pace."""

_CodeOf: TypeAlias = Callable[[str, int], ErrorCode]
"""The outcome for a partition of a topic."""


class Parts(HasMetadata, HasGroups, HasTransactions, Protocol):
    """The parts of the broker that these handlers use."""

    @property
    def leadership(self) -> LeadershipProof: ...


async def add_partitions_to_txn(
    parts: Parts, request: messages.AddPartitionsToTxnRequest, context: RequestContext
) -> messages.AddPartitionsToTxnResponse:
    """Add partitions, and return the outcome for each of each transaction."""
    m = messages.add_partitions_to_txn_response
    version, pace = context.api_version, context.portions.pace()
    begun = []
    for each in request.transactions if version >= _BATCHED_FROM else [_read_transaction(request)]:
        await pace.unit(_DECISION_UNITS)
        partitions = await context.portions.finish(_group_by_topic(each))
        refused = await context.portions.finish(_find_refusals(parts.metadata, partitions, version < _BATCHED_FROM))
        begun.append((each.transactional_id, partitions, refused or _submit_partitions(parts, each, partitions)))
    results = []
    for transactional_id, partitions, outcome in begun:
        await pace.unit()
        topics = await context.portions.finish(_make_topic_results(partitions, await _code_of(outcome, version)))
        results.append(m.AddPartitionsToTxnResult(transactional_id=transactional_id, topic_results=topics))
    if version >= _BATCHED_FROM:
        return m.AddPartitionsToTxnResponse(results_by_transaction=results)
    return m.AddPartitionsToTxnResponse(results_by_topic_v3_and_below=results[0].topic_results)


def _read_transaction(
    request: messages.AddPartitionsToTxnRequest,
) -> messages.add_partitions_to_txn_request.AddPartitionsToTxnTransaction:
    """Return the one transaction of a producer's request."""
    return messages.add_partitions_to_txn_request.AddPartitionsToTxnTransaction(
        transactional_id=request.v3_and_below_transactional_id,
        producer_id=request.v3_and_below_producer_id,
        producer_epoch=request.v3_and_below_producer_epoch,
        topics=request.v3_and_below_topics,
    )


def _group_by_topic(
    transaction: messages.add_partitions_to_txn_request.AddPartitionsToTxnTransaction,
) -> Work[dict[str, frozenset[int]]]:
    by_topic: dict[str, set[int]] = {}
    for topic in transaction.topics:
        yield
        partitions = by_topic.setdefault(topic.name, set())
        for index in topic.partitions:
            yield
            partitions.add(index)
    return {topic: frozenset(partitions) for topic, partitions in by_topic.items()}


def _find_refusals(metadata: MetadataCache, partitions: Partitions, by_client: bool) -> Work[_CodeOf | None]:
    """Return the outcome of each partition if some cannot be part of a transaction, else None."""
    codes: dict[TopicPartition, ErrorCode] = {}
    is_refused = False
    for topic, indexes in partitions.items():
        is_internal = by_client and topic in INTERNAL_TOPICS
        for index in indexes:
            yield
            code = ErrorCode.OPERATION_NOT_ATTEMPTED
            if is_internal:
                code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            elif metadata.partition(TopicPartition(topic, index)) is None:
                code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            is_refused = is_refused or code is not ErrorCode.OPERATION_NOT_ATTEMPTED
            codes[TopicPartition(topic, index)] = code
    return (lambda topic, index: codes[TopicPartition(topic, index)]) if is_refused else None


def _submit_partitions(
    parts: Parts,
    transaction: messages.add_partitions_to_txn_request.AddPartitionsToTxnTransaction,
    partitions: Partitions,
) -> _CodeOf | ErrorCode | asyncio.Future[ErrorCode]:
    """Return one code for all partitions, the code of each, or a future."""
    transactional_id, producer = transaction.transactional_id, (transaction.producer_id, transaction.producer_epoch)
    if not transactional_id:
        return ErrorCode.INVALID_REQUEST
    try:
        if not transaction.verify_only:
            wanted = AddPartitions(transactional_id, *producer, partitions)
            return _submit(parts, transactional_id, wanted, ErrorCode)
        found = parts.transactions.machine_for(transactional_id).verify(transactional_id, *producer, partitions)
    except KafkaError as problem:
        return problem.code
    if isinstance(found, ErrorCode):
        return found
    return lambda topic, index: ErrorCode.NONE if index in found[topic] else ErrorCode.TRANSACTION_ABORTABLE


def _submit(
    parts: Parts, transactional_id: str, wanted: AddPartitions | EndTransaction, shape: Callable[[ErrorCode], ShapedT]
) -> ShapedT | asyncio.Future[ShapedT]:
    """Pass a request to the coordinator; an answer from its memory waits for a proof of leadership where one is needed."""
    place = TopicPartition(TRANSACTIONS_TOPIC, parts.transactions.partition_for(transactional_id))
    return parts.leadership.confirm(place, parts.transactions.submit(transactional_id, wanted, shape))


async def _code_of(outcome: _CodeOf | ErrorCode | asyncio.Future[ErrorCode], version: int) -> _CodeOf:
    if not isinstance(outcome, ErrorCode | asyncio.Future):
        return outcome
    try:
        code = _translate_code(version, await outcome if isinstance(outcome, asyncio.Future) else outcome)
    except KafkaError as problem:
        code = problem.code
    return lambda topic, index: code


def _make_topic_results(
    partitions: Partitions, code_of: _CodeOf
) -> Work[list[messages.add_partitions_to_txn_response.AddPartitionsToTxnTopicResult]]:
    m = messages.add_partitions_to_txn_response
    topics = []
    for topic, indexes in partitions.items():
        result = m.AddPartitionsToTxnTopicResult(name=topic)
        topics.append(result)
        for index in sorted(indexes):
            yield
            result.results_by_partition.append(
                m.AddPartitionsToTxnPartitionResult(partition_index=index, partition_error_code=code_of(topic, index))
            )
    return topics


def _translate_code(version: int, code: ErrorCode) -> ErrorCode:
    """Return the error for this version: older clients know fencing as INVALID_PRODUCER_EPOCH."""
    is_unknown = version < _FENCED_FROM and code is ErrorCode.PRODUCER_FENCED
    return ErrorCode.INVALID_PRODUCER_EPOCH if is_unknown else code


def add_offsets_to_txn(
    parts: Parts, request: messages.AddOffsetsToTxnRequest, context: RequestContext
) -> messages.AddOffsetsToTxnResponse | asyncio.Future[messages.AddOffsetsToTxnResponse]:
    """Add the group's partition of `__consumer_offsets` to the transaction."""
    _require_id(request.transactional_id)
    place = {OFFSETS_TOPIC: frozenset({parts.groups.partition_for(request.group_id)})}
    wanted = AddPartitions(request.transactional_id, request.producer_id, request.producer_epoch, place)
    version = context.api_version

    def shape(code: ErrorCode) -> messages.AddOffsetsToTxnResponse:
        return messages.AddOffsetsToTxnResponse(error_code=_translate_code(version, code))

    return _submit(parts, request.transactional_id, wanted, shape)


def end_txn(
    parts: Parts, request: messages.EndTxnRequest, context: RequestContext
) -> messages.EndTxnResponse | asyncio.Future[messages.EndTxnResponse]:
    """Return NONE once the end is decided, before any marker is written."""
    _require_id(request.transactional_id)
    wanted = EndTransaction(request.transactional_id, request.producer_id, request.producer_epoch, request.committed)
    version = context.api_version

    def shape(code: ErrorCode) -> messages.EndTxnResponse:
        return messages.EndTxnResponse(error_code=_translate_code(version, code))

    return _submit(parts, request.transactional_id, wanted, shape)


def _require_id(transactional_id: str) -> None:
    if not transactional_id:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "a transactional id cannot be empty")


def _guard_adding(
    parts: Parts, request: messages.AddPartitionsToTxnRequest, context: RequestContext, failure: Failure
) -> Work[Judged]:
    """Refuse version 4 and newer to all but brokers, and the request of a producer if it may not write to one of the topics."""
    yield
    if context.api_version >= _BATCHED_FROM:
        context.require(CLUSTER_ACTION)
        return Judged(request)
    context.require(WRITE_TRANSACTIONAL_ID, request.v3_and_below_transactional_id)
    refused: set[str] = set()
    for topic in request.v3_and_below_topics:
        yield
        if topic.name not in INTERNAL_TOPICS and not context.may(WRITE_TOPIC, topic.name):
            refused.add(topic.name)
    if not refused:
        return Judged(request)

    def complete(reply: object) -> Work[messages.AddPartitionsToTxnResponse]:
        partitions = yield from _group_by_topic(_read_transaction(request))
        seen = {topic: indexes for topic, indexes in partitions.items() if topic not in refused}
        code_of = (yield from _find_refusals(parts.metadata, seen, by_client=True)) or _not_attempted
        told = yield from _make_topic_results(
            partitions,
            lambda topic, index: ErrorCode.TOPIC_AUTHORIZATION_FAILED if topic in refused else code_of(topic, index),
        )
        return messages.AddPartitionsToTxnResponse(results_by_topic_v3_and_below=told)

    return Judged(None, complete)


def _not_attempted(topic: str, index: int) -> ErrorCode:
    return ErrorCode.OPERATION_NOT_ATTEMPTED


APIS: Final = (
    serve_api(
        ApiKey.ADD_PARTITIONS_TO_TXN,
        0,
        5,
        add_partitions_to_txn,
        failure=FailedItems("results_by_topic_v3_and_below"),
        guard=_guard_adding,
    ),
    serve_api(
        ApiKey.ADD_OFFSETS_TO_TXN,
        0,
        4,
        add_offsets_to_txn,
        guard=Steps((Whole(WRITE_TRANSACTIONAL_ID, "transactional_id"), Whole(READ_GROUP, "group_id"))),
    ),
    serve_api(ApiKey.END_TXN, 0, 4, end_txn, guard=Whole(WRITE_TRANSACTIONAL_ID, "transactional_id")),
)
