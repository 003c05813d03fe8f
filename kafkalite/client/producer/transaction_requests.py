"""What a transactional producer asks coordinators, and what their answers mean for it (KIP-98, KIP-360, KIP-447, KIP-890). Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum
from typing import Any

from kafkalite.client.cluster.retry import is_retriable_code
from kafkalite.client.errors import ClientError, ProducerFencedError, error_of
from kafkalite.client.group.committable import codes_of, offset_topics
from kafkalite.client.group.metadata import GroupMetadata
from kafkalite.client.offsets import OffsetAndMetadata
from kafkalite.client.producer.sequence_numbers import ProducerIdAndEpoch
from kafkalite.errors import ErrorCode
from kafkalite.protocol import messages
from kafkalite.types import TopicPartition, group_by_topic

NEWEST_ADD_PARTITIONS = 3
"""From version 4 on AddPartitionsToTxn is for brokers only."""
OLDEST_INIT_FOR_BUMP = 3
"""Before that InitProducerId takes no producer id, and a zombie that asked for a new epoch would fence its successor (KIP-360)."""


class Verdict(Enum):
    """What a coordinator's answer means for the transaction."""

    DONE = "done"
    AGAIN = "ask again"
    MOVED = "find the coordinator and ask again"
    ABORTABLE = "the transaction is to be aborted"
    BUMP = "the transaction is to be aborted, and the producer needs another epoch"
    FATAL = "the producer is broken"


_VERDICTS = {
    ErrorCode.COORDINATOR_NOT_AVAILABLE: Verdict.MOVED,
    ErrorCode.NOT_COORDINATOR: Verdict.MOVED,
    ErrorCode.REQUEST_TIMED_OUT: Verdict.MOVED,
    ErrorCode.UNKNOWN_PRODUCER_ID: Verdict.BUMP,
    ErrorCode.INVALID_PRODUCER_ID_MAPPING: Verdict.BUMP,
    **dict.fromkeys(
        (
            ErrorCode.TRANSACTION_ABORTABLE,
            ErrorCode.TOPIC_AUTHORIZATION_FAILED,
            ErrorCode.GROUP_AUTHORIZATION_FAILED,
            ErrorCode.OPERATION_NOT_ATTEMPTED,
            ErrorCode.UNKNOWN_MEMBER_ID,
            ErrorCode.ILLEGAL_GENERATION,
            ErrorCode.FENCED_INSTANCE_ID,
            ErrorCode.REBALANCE_IN_PROGRESS,
            ErrorCode.OFFSET_METADATA_TOO_LARGE,
            ErrorCode.INVALID_COMMIT_OFFSET_SIZE,
        ),
        Verdict.ABORTABLE,
    ),
}
"""What is neither here nor retriable is fatal."""

_FENCED = frozenset({ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH})
_FATAL_FOR_BATCHES = frozenset(
    {
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.UNSUPPORTED_VERSION,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
    }
)


def verdict_of(problem: ClientError) -> Verdict:
    """Return what an error of a coordinator, or of finding one, means for the transaction."""
    found = _VERDICTS.get(problem.code)
    if found is None:
        found = Verdict.AGAIN if problem.retriable or is_retriable_code(problem.code) else Verdict.FATAL
    return found


def is_fatal_for_batch(problem: ClientError) -> bool:
    """True if the failure of a batch breaks the producer. Otherwise its transaction can be aborted."""
    return problem.code in _FATAL_FOR_BATCHES


def coordinator_error(code: int, what: str, message: str | None = None) -> ClientError:
    """Return the error for a coordinator's code. Coordinators of before KIP-588 say INVALID_PRODUCER_EPOCH for PRODUCER_FENCED."""
    error = error_of(ErrorCode.PRODUCER_FENCED if code in _FENCED else code, what, message)
    return ProducerFencedError.of(error) if code in _FENCED else error


def init_producer_id(
    transactional_id: str | None, timeout_ms: int, identity: ProducerIdAndEpoch | None
) -> messages.init_producer_id_request.InitProducerIdRequest:
    """Return the request for a producer id; with `identity` for its next epoch, which only the latest producer of the id gets."""
    return messages.init_producer_id_request.InitProducerIdRequest(
        transactional_id=transactional_id,
        transaction_timeout_ms=timeout_ms,
        producer_id=identity.producer_id if identity else -1,
        producer_epoch=identity.producer_epoch if identity else -1,
    )


def check_answer(answer: Any, what: str) -> None:
    """Raise the ClientError of a coordinator's answer, if it has one."""
    if answer.error_code:
        raise coordinator_error(answer.error_code, what)


def identity_in(response: messages.init_producer_id_response.InitProducerIdResponse, what: str) -> ProducerIdAndEpoch:
    """Return the producer id that was given. ClientError."""
    check_answer(response, what)
    if response.producer_id < 0 or response.producer_epoch < 0:
        given = f"{response.producer_id} in epoch {response.producer_epoch} is none"
        raise error_of(ErrorCode.COORDINATOR_NOT_AVAILABLE, what, given)
    return ProducerIdAndEpoch(response.producer_id, response.producer_epoch)


def add_partitions(
    transactional_id: str, identity: ProducerIdAndEpoch, partitions: Iterable[TopicPartition]
) -> messages.add_partitions_to_txn_request.AddPartitionsToTxnRequest:
    """Return the request that names the partitions to the coordinator, for its markers."""
    m = messages.add_partitions_to_txn_request
    return m.AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=transactional_id,
        v3_and_below_producer_id=identity.producer_id,
        v3_and_below_producer_epoch=identity.producer_epoch,
        v3_and_below_topics=[
            m.AddPartitionsToTxnTopic(name=name, partitions=each) for name, each in group_by_topic(partitions).items()
        ],
    )


def check_added(
    response: messages.add_partitions_to_txn_response.AddPartitionsToTxnResponse,
    partitions: Iterable[TopicPartition],
    what: str,
) -> None:
    """ClientError unless all partitions were added: the gravest where they differ, since none is added then."""
    codes = {
        TopicPartition(topic.name, each.partition_index): each.partition_error_code
        for topic in response.results_by_topic_v3_and_below
        for each in topic.results_by_partition
    }
    _check(codes, partitions, what)


def txn_offset_commit(
    transactional_id: str,
    identity: ProducerIdAndEpoch,
    group: GroupMetadata,
    offsets: Mapping[TopicPartition, OffsetAndMetadata],
) -> messages.txn_offset_commit_request.TxnOffsetCommitRequest:
    """Return the request for offsets that become the group's with the transaction; the member is fenced as by OffsetCommit (KIP-447)."""
    m = messages.txn_offset_commit_request
    return m.TxnOffsetCommitRequest(
        transactional_id=transactional_id,
        group_id=group.group_id,
        producer_id=identity.producer_id,
        producer_epoch=identity.producer_epoch,
        generation_id=group.generation_id,
        member_id=group.member_id,
        group_instance_id=group.group_instance_id,
        topics=offset_topics(offsets, m.TxnOffsetCommitRequestTopic, m.TxnOffsetCommitRequestPartition),
    )


def check_offsets(
    response: messages.txn_offset_commit_response.TxnOffsetCommitResponse,
    partitions: Iterable[TopicPartition],
    what: str,
) -> None:
    """ClientError unless the group's coordinator has all offsets."""
    _check(codes_of(response.topics), partitions, what)


_GRAVITY = [Verdict.FATAL, Verdict.BUMP, Verdict.ABORTABLE, Verdict.MOVED, Verdict.AGAIN]


def _check(codes: Mapping[TopicPartition, int], partitions: Iterable[TopicPartition], what: str) -> None:
    problems = []
    for each in partitions:
        code = codes.get(each)
        if code is None:
            problems.append(error_of(ErrorCode.COORDINATOR_NOT_AVAILABLE, what, f"the answer lacks {each}"))
        elif code:
            problems.append(coordinator_error(code, f"{what} ({each})"))
    # OPERATION_NOT_ATTEMPTED says only that another partition's error is the reason
    problems.sort(key=lambda each: each.code is ErrorCode.OPERATION_NOT_ATTEMPTED)
    if problems:
        raise min(problems, key=lambda each: _GRAVITY.index(verdict_of(each)))
