"""TxnOffsetCommit (28): offsets of a group that count when a producer's transaction is committed (KIP-98).

- 2 leader epoch; 3 flexible, and the member with its generation, by which a consumer that lost its partitions is fenced (KIP-447); 4 can
  say TRANSACTION_ABORTABLE.
- Before a transaction begins in the group's partition its coordinator is asked whether that is in it (KIP-890).
- Answered when the offsets are in the log. They are pending there until a marker comes (`write_txn_markers`), and OffsetFetch with
  require_stable says so.
- To producers before 2.3 a coordinator that is loading is not available, because some of them fail otherwise (as in Kafka).
- The offsets of a large request are stored in several batches.
"""

from __future__ import annotations

from typing import Final, Protocol, TypeAlias

from kafkalite.broker.coordination.transaction_verification import HasTransactionVerifier, Producer, without_abortable
from kafkalite.broker.handlers.group_membership import require_group_id
from kafkalite.broker.handlers.group_offsets import commit_in_batches
from kafkalite.broker.handlers.known_partitions import find_known_partitions
from kafkalite.broker.handlers.offset_guards import EACH_TOPIC_READ
from kafkalite.broker.identity.authorizer import READ_GROUP, WRITE_TRANSACTIONAL_ID
from kafkalite.broker.parts import HasClock, HasGroups, HasMetadata, HasReplicas
from kafkalite.broker.requests.failures import FailedItems
from kafkalite.broker.requests.guards import Steps, Whole
from kafkalite.broker.requests.request_context import RequestContext
from kafkalite.broker.requests.served_api import serve_api
from kafkalite.coordinators.contract import Transaction
from kafkalite.coordinators.group.requests import CommitOffsets, OffsetToCommit
from kafkalite.coordinators.store_errors import offset_store_error
from kafkalite.errors import ErrorCode, KafkaError
from kafkalite.portions import Work
from kafkalite.protocol import messages
from kafkalite.protocol.apis import ApiKey
from kafkalite.protocol.record_batches.records import NO_SEQUENCE
from kafkalite.storage.producers.verification import NOT_VERIFIED, UNGUARDED, VerificationGuard
from kafkalite.types import OFFSETS_TOPIC, TopicPartition

_KNOWS_LOADING_FROM: Final = 2
_KNOWS_ABORTABLE_FROM: Final = 4
_Answer: TypeAlias = "messages.txn_offset_commit_response.TxnOffsetCommitResponsePartition"
_Checked: TypeAlias = "tuple[messages.TxnOffsetCommitResponse, list[_Answer], list[OffsetToCommit]]"


class Parts(HasMetadata, HasGroups, HasReplicas, HasTransactionVerifier, HasClock, Protocol):
    """The parts of the broker that these handlers use."""


async def txn_offset_commit(
    parts: Parts, request: messages.TxnOffsetCommitRequest, context: RequestContext
) -> messages.TxnOffsetCommitResponse:
    """Return the outcome for each partition."""
    require_group_id(request.group_id)
    response, undecided, offsets = await context.portions.finish(_check_commit(parts, request))
    try:
        guard = await _begin_verification(parts, request, context.api_version)
    except KafkaError as problem:
        code = _translate_code(offset_store_error(problem.code), context.api_version)
        for answer in undecided:
            answer.error_code = code
        return response
    transaction = Transaction(request.producer_id, request.producer_epoch, guard)

    def commit(portion: list[OffsetToCommit]) -> CommitOffsets:
        return CommitOffsets(
            request.group_id,
            request.generation_id,
            request.member_id,
            request.group_instance_id,
            portion,
            transaction=transaction,
        )

    codes = await commit_in_batches(parts.groups, offsets, commit, context.portions.pace())
    for answer, code in zip(undecided, codes, strict=True):
        answer.error_code = _translate_code(code, context.api_version)
    return response


async def _begin_verification(
    parts: Parts, request: messages.TxnOffsetCommitRequest, version: int
) -> VerificationGuard:
    """Return the guard that the append needs. KafkaError where the group is not served here or the coordinator refuses."""
    parts.groups.shard_for(request.group_id)
    if not parts.transaction_verifier.is_enabled:
        return UNGUARDED
    topic_partition = TopicPartition(OFFSETS_TOPIC, parts.groups.partition_for(request.group_id))
    producers = parts.replicas.require(topic_partition).log.producers
    guard = producers.begin_verification(request.producer_id, request.producer_epoch, NO_SEQUENCE, parts.clock.now_ms())
    if guard is not NOT_VERIFIED:
        producer = Producer(request.transactional_id, request.producer_id, request.producer_epoch)
        answer = parts.transaction_verifier.verify(producer, (topic_partition,))
        refusals = answer if isinstance(answer, dict) else await answer
        if topic_partition in refusals:
            code = refusals[topic_partition]
            raise KafkaError(code if version >= _KNOWS_ABORTABLE_FROM else without_abortable(code))
    return guard


def _translate_code(code: ErrorCode, version: int) -> ErrorCode:
    if code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS and version < _KNOWS_LOADING_FROM:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    return code


def _check_commit(parts: Parts, request: messages.TxnOffsetCommitRequest) -> Work[_Checked]:
    """Return the response, its partitions that have no outcome yet, and what is to be committed for each of them."""
    m = messages.txn_offset_commit_response
    topics, undecided, offsets = yield from find_known_partitions(
        parts, request.topics, m.TxnOffsetCommitResponseTopic, m.TxnOffsetCommitResponsePartition, _make_offset
    )
    return m.TxnOffsetCommitResponse(topics=topics), undecided, offsets


def _make_offset(
    topic: str, asked: messages.txn_offset_commit_request.TxnOffsetCommitRequestPartition
) -> OffsetToCommit:
    return OffsetToCommit(
        topic,
        asked.partition_index,
        asked.committed_offset,
        asked.committed_leader_epoch,
        asked.committed_metadata or "",
    )


APIS: Final = (
    serve_api(
        ApiKey.TXN_OFFSET_COMMIT,
        0,
        4,
        txn_offset_commit,
        failure=FailedItems(),
        guard=Steps(
            (Whole(WRITE_TRANSACTIONAL_ID, "transactional_id"), Whole(READ_GROUP, "group_id"), EACH_TOPIC_READ)
        ),
    ),
)
