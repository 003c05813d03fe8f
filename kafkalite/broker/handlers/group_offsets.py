"""OffsetCommit (8), OffsetFetch (9), OffsetDelete (47): how far groups have read, kept by the group's coordinator.

- OffsetCommit 0 and OffsetFetch 0 mean offsets in ZooKeeper (`zookeeper_offsets`).
- OffsetCommit 1 members and the time of each commit; 2 to 4 retention time of the offsets; 6 leader epoch; 7 static members. Answered when
  the offsets are committed in the log.
- OffsetFetch 2 all partitions of the group, an error of the whole; 7 require_stable (KIP-447); 8 several groups (KIP-709); 9 member
  and epoch, which mean nothing to classic groups.
- OffsetDelete (KIP-496): offsets of topics that somebody is subscribed to stay.
- A coordinator that may have a successor has its leadership proven before it tells offsets (`broker/coordination/leadership_proof`).
- What an OffsetFetch names several times is answered once. The offsets of a large OffsetCommit or OffsetDelete are stored in
  several batches; Kafka refuses a commit that is larger than one batch may be.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias

from kafkalite.broker.handlers import zookeeper_offsets
from kafkalite.broker.handlers.group_membership import require_group_id
from kafkalite.broker.handlers.known_partitions import find_known_partitions
from kafkalite.broker.handlers.offset_guards import EACH_TOPIC_READ, guard_deletion, guard_fetch
from kafkalite.broker.identity.authorizer import READ_GROUP
from kafkalite.broker.parts import HasGroups
from kafkalite.broker.requests.failures import FailedItems
from kafkalite.broker.requests.guards import Steps, Whole
from kafkalite.broker.requests.request_context import RequestContext
from kafkalite.broker.requests.served_api import serve_api
from kafkalite.coordinators.group.machine import GroupMachine
from kafkalite.coordinators.group.offset_record import CommittedOffset
from kafkalite.coordinators.group.requests import CommitOffsets, DeleteOffsets, DeleteOffsetsReply, OffsetToCommit
from kafkalite.errors import BoundExceeded, ErrorCode, KafkaError
from kafkalite.portions import Pace, Work, in_one_go
from kafkalite.protocol import messages
from kafkalite.protocol.apis import ApiKey
from kafkalite.types import OFFSETS_TOPIC, TopicPartition

if TYPE_CHECKING:
    from kafkalite.broker.coordination.leadership_proof import LeadershipProof
    from kafkalite.coordinators.group.machine import GroupMachine
    from kafkalite.coordinators.runtime import CoordinatorRuntime

_NOTHING = CommittedOffset(-1, -1, "", -1)
_FETCHED_MAX: Final = 200_000
"""Partitions that one OffsetFetch may name: four bytes name what takes some 250 to answer."""
_GROUP_ERRORS_FROM: Final = 2
"""The first version of OffsetFetch that has an error of the whole group."""
BATCH_OFFSETS: Final = 1000
"""So many take some 10 ms to be stored, and are less than max.message.bytes."""

_CheckedCommit: TypeAlias = (
    "tuple[messages.OffsetCommitResponse,"
    " list[messages.offset_commit_response.OffsetCommitResponsePartition], list[OffsetToCommit]]"
)
_CheckedDeletion: TypeAlias = (
    "tuple[messages.OffsetDeleteResponse,"
    " list[messages.offset_delete_response.OffsetDeleteResponsePartition], list[TopicPartition]]"
)


class _Partitioned(Protocol):
    """A topic of a request."""

    @property
    def partitions(self) -> Sequence[Any]: ...


class Parts(zookeeper_offsets.Parts, HasGroups, Protocol):
    """The parts of the broker that these handlers use."""

    @property
    def leadership(self) -> LeadershipProof: ...


def offset_commit(
    parts: Parts, request: messages.OffsetCommitRequest, context: RequestContext
) -> messages.OffsetCommitResponse | asyncio.Future[messages.OffsetCommitResponse]:
    """Commit offsets, and return the outcome for each partition."""
    if not context.api_version:
        return asyncio.ensure_future(zookeeper_offsets.commit_to_zookeeper(parts, request, context))
    if is_much(request.topics):
        return asyncio.ensure_future(_commit_much(parts, request, context))
    response, undecided, offsets = in_one_go(_check_commit(parts, request))
    if not offsets:
        return response

    def shape(codes: list[ErrorCode]) -> messages.OffsetCommitResponse:
        for answer, code in zip(undecided, codes, strict=True):
            answer.error_code = code
        return response

    try:
        return parts.groups.submit(request.group_id, _commit(request, offsets), shape)
    except KafkaError as problem:
        return shape([problem.code] * len(offsets))


async def _commit_much(
    parts: Parts, request: messages.OffsetCommitRequest, context: RequestContext
) -> messages.OffsetCommitResponse:
    response, undecided, offsets = await context.portions.finish(_check_commit(parts, request))
    codes = await commit_in_batches(parts.groups, offsets, partial(_commit, request), context.portions.pace())
    for answer, code in zip(undecided, codes, strict=True):
        answer.error_code = code
    return response


async def commit_in_batches(
    groups: CoordinatorRuntime[GroupMachine],
    offsets: list[OffsetToCommit],
    commit: Callable[[list[OffsetToCommit]], CommitOffsets],
    pace: Pace,
) -> list[ErrorCode]:
    """Append one batch after the other, then await all; return the outcome of each offset."""
    outcomes: list[list[ErrorCode] | asyncio.Future[list[ErrorCode]]] = []
    for first in range(0, len(offsets), BATCH_OFFSETS):
        portion = offsets[first : first + BATCH_OFFSETS]
        await pace.unit(len(portion))
        wanted = commit(portion)
        try:
            outcomes.append(groups.submit(wanted.group_id, wanted, list))
        except KafkaError as problem:
            outcomes.append([problem.code] * len(portion))
    codes: list[ErrorCode] = []
    for outcome in outcomes:
        codes += await outcome if isinstance(outcome, asyncio.Future) else outcome
    return codes


def is_much(topics: Sequence[_Partitioned]) -> bool:
    """True if these are more partitions than go into one batch."""
    return len(topics) > BATCH_OFFSETS or sum(len(topic.partitions) for topic in topics) > BATCH_OFFSETS


def _commit(request: messages.OffsetCommitRequest, offsets: list[OffsetToCommit]) -> CommitOffsets:
    return CommitOffsets(
        request.group_id,
        request.generation_id_or_member_epoch,
        request.member_id,
        request.group_instance_id,
        offsets,
        request.retention_time_ms,
    )


def _check_commit(parts: Parts, request: messages.OffsetCommitRequest) -> Work[_CheckedCommit]:
    """Return the response, its partitions that have no outcome yet, and what is to be committed for each of them."""
    m = messages.offset_commit_response
    topics, undecided, offsets = yield from find_known_partitions(
        parts, request.topics, m.OffsetCommitResponseTopic, m.OffsetCommitResponsePartition, _make_offset
    )
    return m.OffsetCommitResponse(topics=topics), undecided, offsets


def _make_offset(topic: str, asked: messages.offset_commit_request.OffsetCommitRequestPartition) -> OffsetToCommit:
    return OffsetToCommit(
        topic,
        asked.partition_index,
        asked.committed_offset,
        asked.committed_leader_epoch,
        asked.committed_metadata or "",
        asked.commit_timestamp_ms,
    )


def offset_fetch(
    parts: Parts, request: messages.OffsetFetchRequest, context: RequestContext
) -> messages.OffsetFetchResponse | asyncio.Future[messages.OffsetFetchResponse]:
    """Return the committed offsets, -1 where nothing is committed."""
    if not context.api_version:
        return asyncio.ensure_future(_fetch_from_zookeeper(parts, request, context))
    if parts.leadership.is_needed:
        return asyncio.ensure_future(_fetch_proven(parts, request, context))
    return context.portions.run(_fetch(parts, request, context.api_version))


async def _fetch_proven(
    parts: Parts, request: messages.OffsetFetchRequest, context: RequestContext
) -> messages.OffsetFetchResponse:
    """Fetch offsets; groups whose partition may be led elsewhere get NOT_COORDINATOR."""
    asked = await context.portions.finish(_find_coordinators(parts, request))
    proofs = await asyncio.gather(*(parts.leadership.seek(TopicPartition(OFFSETS_TOPIC, each)) for each in asked))
    doubtful = frozenset(each for each, is_proven in zip(asked, proofs, strict=True) if not is_proven)
    return await context.portions.finish(_fetch(parts, request, context.api_version, doubtful))


def _find_coordinators(parts: Parts, request: messages.OffsetFetchRequest) -> Work[list[int]]:
    """Return the partitions of `__consumer_offsets` to which the groups belong."""
    partitions: dict[int, None] = {}
    for group in request.groups:
        yield
        partitions[parts.groups.partition_for(group.group_id)] = None
    return list(partitions)


async def _fetch_from_zookeeper(
    parts: Parts, request: messages.OffsetFetchRequest, context: RequestContext
) -> messages.OffsetFetchResponse:
    asked = await context.portions.finish(_merge_partitions(request))
    ((group_id, topics),) = asked.items()
    return await zookeeper_offsets.fetch_from_zookeeper(parts, group_id, topics or {}, context)


def _fetch(
    parts: Parts, request: messages.OffsetFetchRequest, version: int, doubtful: frozenset[int] = frozenset()
) -> Work[messages.OffsetFetchResponse]:
    m = messages.offset_fetch_response
    groups = []
    asked = yield from _merge_partitions(request)
    for group_id, partitions in asked.items():
        yield
        try:
            if parts.groups.partition_for(group_id) in doubtful:
                raise KafkaError(ErrorCode.NOT_COORDINATOR)
            machine = parts.groups.machine_for(group_id)
            topics = yield from _offsets(machine, group_id, partitions, request.require_stable)
            if parts.groups.machine_for(group_id) is not machine:  # another broker may have served the group meanwhile
                raise KafkaError(ErrorCode.NOT_COORDINATOR)
        except KafkaError as problem:
            if version < _GROUP_ERRORS_FROM:
                raise  # each partition has the error then
            groups.append(m.OffsetFetchResponseGroup(group_id=group_id, error_code=problem.code))
        else:
            groups.append(m.OffsetFetchResponseGroup(group_id=group_id, topics=topics))
    return m.OffsetFetchResponse(groups=groups)


def _merge_partitions(request: messages.OffsetFetchRequest) -> Work[dict[str, dict[str, dict[int, None]] | None]]:
    """Return the partitions by group and topic, each once: metadata of an offset may have a thousand times the bytes that name it."""
    asked: dict[str, dict[str, dict[int, None]] | None] = {}
    left = _FETCHED_MAX
    for group in request.groups:
        yield
        topics = asked.setdefault(group.group_id, {})
        if topics is None or group.topics is None:
            asked[group.group_id] = None
            continue
        for topic in group.topics:
            yield
            left -= len(topic.partition_indexes)
            if left < 0:
                raise BoundExceeded("partitions", f"an OffsetFetch names more than {_FETCHED_MAX} partitions")
            topics.setdefault(topic.name, {}).update(dict.fromkeys(topic.partition_indexes))
    return asked


def _offsets(
    machine: GroupMachine, group_id: str, asked: dict[str, dict[int, None]] | None, require_stable: bool
) -> Work[list[messages.offset_fetch_response.OffsetFetchResponseTopics]]:
    m = messages.offset_fetch_response
    committed = machine.offsets_of(group_id)
    topics = []
    for name in list(committed if asked is None else asked):
        yield
        known, partitions = committed.get(name, {}), []
        for index in list(known if asked is None else asked[name]):
            yield
            found, code = known.get(index, _NOTHING), ErrorCode.NONE
            if require_stable and machine.is_unstable(group_id, name, index):
                found, code = _NOTHING, ErrorCode.UNSTABLE_OFFSET_COMMIT
            partitions.append(
                m.OffsetFetchResponsePartitions(
                    partition_index=index,
                    committed_offset=found.offset,
                    committed_leader_epoch=found.leader_epoch,
                    metadata=found.metadata,
                    error_code=code,
                )
            )
        topics.append(m.OffsetFetchResponseTopics(name=name, partitions=partitions))
    return topics


def offset_delete(
    parts: Parts, request: messages.OffsetDeleteRequest, context: RequestContext
) -> messages.OffsetDeleteResponse | asyncio.Future[messages.OffsetDeleteResponse]:
    """Delete offsets, and return the outcome for each partition."""
    m = messages.offset_delete_response
    require_group_id(request.group_id)
    if is_much(request.topics):
        return asyncio.ensure_future(_delete_much(parts, request, context))
    response, undecided, partitions = in_one_go(_check_deletion(parts, request))

    def shape(reply: DeleteOffsetsReply) -> messages.OffsetDeleteResponse:
        if reply.error:
            return m.OffsetDeleteResponse(error_code=reply.error)
        for answer, code in zip(undecided, reply.partition_errors, strict=True):
            answer.error_code = code
        return response

    return parts.groups.submit(request.group_id, DeleteOffsets(request.group_id, partitions), shape)


async def _delete_much(
    parts: Parts, request: messages.OffsetDeleteRequest, context: RequestContext
) -> messages.OffsetDeleteResponse:
    """Delete one batch after the other; an error of the group fails the request."""
    response, undecided, partitions = await context.portions.finish(_check_deletion(parts, request))
    pace = context.portions.pace()
    for first in range(0, len(partitions), BATCH_OFFSETS):
        await pace.unit(BATCH_OFFSETS)
        portion = partitions[first : first + BATCH_OFFSETS]
        wanted = DeleteOffsets(request.group_id, portion)
        outcome = parts.groups.submit(request.group_id, wanted, _pass_reply)
        reply = await outcome if isinstance(outcome, asyncio.Future) else outcome
        if reply.error:
            return messages.OffsetDeleteResponse(error_code=reply.error)
        for answer, code in zip(undecided[first : first + BATCH_OFFSETS], reply.partition_errors, strict=True):
            answer.error_code = code
    return response


def _pass_reply(reply: DeleteOffsetsReply) -> DeleteOffsetsReply:
    return reply


def _check_deletion(parts: Parts, request: messages.OffsetDeleteRequest) -> Work[_CheckedDeletion]:
    """Return the response, its partitions that have no outcome yet, and the name of each of them."""
    m = messages.offset_delete_response
    topics, undecided, partitions = yield from find_known_partitions(
        parts,
        request.topics,
        m.OffsetDeleteResponseTopic,
        m.OffsetDeleteResponsePartition,
        lambda topic, asked: TopicPartition(topic, asked.partition_index),
    )
    return m.OffsetDeleteResponse(topics=topics), undecided, partitions


APIS: Final = (
    serve_api(
        ApiKey.OFFSET_COMMIT,
        0,
        9,
        offset_commit,
        failure=FailedItems(),
        guard=Steps((Whole(READ_GROUP, "group_id"), EACH_TOPIC_READ)),
    ),
    serve_api(
        ApiKey.OFFSET_FETCH,
        0,
        9,
        offset_fetch,
        failure=FailedItems(committed_offset=-1, metadata=""),
        guard=guard_fetch,
    ),
    serve_api(ApiKey.OFFSET_DELETE, 0, 0, offset_delete, guard=guard_deletion),
)
