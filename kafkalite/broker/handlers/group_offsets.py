"""OffsetCommit (8), OffsetFetch (9), OffsetDelete (47): how far groups have read, kept by the group's coordinator.

- OffsetCommit 2 to 4 retention time of the offsets; 6 leader epoch; 7 static members. Answered when the offsets are committed in the log.
- OffsetFetch 2 all partitions of the group, an error of the whole; 7 require_stable (KIP-447); 8 several groups (KIP-709); 9 member
  and epoch, which mean nothing to classic groups.
- OffsetDelete (KIP-496): offsets of topics that somebody is subscribed to stay.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, Protocol

from kafkalite.broker.authorizer import Operation, Permission, ResourceType
from kafkalite.broker.handlers.group_membership import require_group_id
from kafkalite.broker.request_context import RequestContext
from kafkalite.broker.served_api import served
from kafkalite.coordinators.group.machine import GroupMachine
from kafkalite.coordinators.group.offset_record import CommittedOffset
from kafkalite.coordinators.group.requests import CommitOffsets, DeleteOffsets, DeleteOffsetsReply, OffsetToCommit
from kafkalite.errors import ErrorCode, KafkaError
from kafkalite.protocol import messages
from kafkalite.protocol.apis import ApiKey
from kafkalite.types import TopicPartition

if TYPE_CHECKING:
    from kafkalite.broker.metadata_cache import MetadataCache
    from kafkalite.coordinators.group.machine import GroupMachine
    from kafkalite.coordinators.runtime import CoordinatorRuntime

_NOTHING = CommittedOffset(-1, -1, "", -1)


class Parts(Protocol):
    """What these handlers use of the broker."""

    @property
    def metadata(self) -> MetadataCache: ...

    @property
    def groups(self) -> CoordinatorRuntime[GroupMachine]: ...


def _exists(parts: Parts, topic: str, partition: int) -> bool:
    known = parts.metadata.topics.get(topic)
    return known is not None and partition in known.partitions


def offset_commit(
    parts: Parts, request: messages.offset_commit_request.OffsetCommitRequest, context: RequestContext
) -> (
    messages.offset_commit_response.OffsetCommitResponse
    | asyncio.Future[messages.offset_commit_response.OffsetCommitResponse]
):
    """The outcome for each partition."""
    m = messages.offset_commit_response
    topics, undecided, offsets = [], [], []
    for topic in request.topics:
        answers = []
        for each in topic.partitions:
            answer = m.OffsetCommitResponsePartition(partition_index=each.partition_index)
            answers.append(answer)
            if not _exists(parts, topic.name, each.partition_index):
                answer.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                continue
            undecided.append(answer)
            offsets.append(
                OffsetToCommit(
                    topic.name,
                    each.partition_index,
                    each.committed_offset,
                    each.committed_leader_epoch,
                    each.committed_metadata or "",
                )
            )
        topics.append(m.OffsetCommitResponseTopic(name=topic.name, partitions=answers))
    response = m.OffsetCommitResponse(topics=topics)
    if not offsets:
        return response

    def shape(codes: list[ErrorCode]) -> messages.offset_commit_response.OffsetCommitResponse:
        for answer, code in zip(undecided, codes, strict=True):
            answer.error_code = code
        return response

    wanted = CommitOffsets(
        request.group_id,
        request.generation_id_or_member_epoch,
        request.member_id,
        request.group_instance_id,
        offsets,
        request.retention_time_ms,
    )
    try:
        return parts.groups.submit(request.group_id, wanted, shape)
    except KafkaError as problem:
        return shape([problem.code] * len(offsets))


def offset_fetch(
    parts: Parts, request: messages.offset_fetch_request.OffsetFetchRequest, context: RequestContext
) -> messages.offset_fetch_response.OffsetFetchResponse:
    """The committed offsets; -1 where nothing is committed."""
    m = messages.offset_fetch_response
    groups = []
    for group in request.groups:
        try:
            machine = parts.groups.machine_for(group.group_id)
        except KafkaError as problem:
            if len(request.groups) == 1:
                raise  # older versions have the error in another place, which dispatch knows
            groups.append(m.OffsetFetchResponseGroup(group_id=group.group_id, error_code=problem.code))
        else:
            topics = _offsets(machine, group, request.require_stable)
            groups.append(m.OffsetFetchResponseGroup(group_id=group.group_id, topics=topics))
    return m.OffsetFetchResponse(groups=groups)


def _offsets(
    machine: GroupMachine, group: messages.offset_fetch_request.OffsetFetchRequestGroup, require_stable: bool
) -> list[messages.offset_fetch_response.OffsetFetchResponseTopics]:
    m = messages.offset_fetch_response
    committed = machine.offsets_of(group.group_id)
    if group.topics is None:
        asked = [(topic, list(partitions)) for topic, partitions in committed.items()]
    else:
        asked = [(topic.name, topic.partition_indexes) for topic in group.topics]
    topics = []
    for name, indexes in asked:
        known, partitions = committed.get(name, {}), []
        for index in indexes:
            found, code = known.get(index, _NOTHING), ErrorCode.NONE
            if require_stable and machine.is_unstable(group.group_id, name, index):
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
    parts: Parts, request: messages.offset_delete_request.OffsetDeleteRequest, context: RequestContext
) -> (
    messages.offset_delete_response.OffsetDeleteResponse
    | asyncio.Future[messages.offset_delete_response.OffsetDeleteResponse]
):
    """The outcome for each partition."""
    m = messages.offset_delete_response
    require_group_id(request.group_id)
    topics, undecided, partitions = [], [], []
    for topic in request.topics:
        answers = []
        for each in topic.partitions:
            answer = m.OffsetDeleteResponsePartition(partition_index=each.partition_index)
            answers.append(answer)
            if not _exists(parts, topic.name, each.partition_index):
                answer.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                continue
            undecided.append(answer)
            partitions.append(TopicPartition(topic.name, each.partition_index))
        topics.append(m.OffsetDeleteResponseTopic(name=topic.name, partitions=answers))

    def shape(reply: DeleteOffsetsReply) -> messages.offset_delete_response.OffsetDeleteResponse:
        if reply.error:
            return m.OffsetDeleteResponse(error_code=reply.error)
        for answer, code in zip(undecided, reply.partition_errors, strict=True):
            answer.error_code = code
        return m.OffsetDeleteResponse(topics=topics)

    return parts.groups.submit(request.group_id, DeleteOffsets(request.group_id, partitions), shape)


def _commit_failed(
    request: messages.offset_commit_request.OffsetCommitRequest, code: ErrorCode, message: str | None
) -> messages.offset_commit_response.OffsetCommitResponse:
    m = messages.offset_commit_response
    return m.OffsetCommitResponse(
        topics=[
            m.OffsetCommitResponseTopic(
                name=topic.name,
                partitions=[
                    m.OffsetCommitResponsePartition(partition_index=p.partition_index, error_code=code)
                    for p in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def _fetch_failed(
    request: messages.offset_fetch_request.OffsetFetchRequest, code: ErrorCode, message: str | None
) -> messages.offset_fetch_response.OffsetFetchResponse:
    m = messages.offset_fetch_response
    return m.OffsetFetchResponse(
        groups=[
            m.OffsetFetchResponseGroup(
                group_id=group.group_id,
                error_code=code,
                topics=[
                    m.OffsetFetchResponseTopics(
                        name=topic.name,
                        partitions=[
                            m.OffsetFetchResponsePartitions(
                                partition_index=index, committed_offset=-1, metadata="", error_code=code
                            )
                            for index in topic.partition_indexes
                        ],
                    )
                    for topic in group.topics or []
                ],
            )
            for group in request.groups
        ]
    )


_READ_TOPIC: Final = Permission(Operation.READ, ResourceType.TOPIC)
APIS: Final = (
    served(
        ApiKey.OFFSET_COMMIT,
        2,
        9,
        offset_commit,
        Permission(Operation.READ, ResourceType.GROUP),
        _READ_TOPIC,
        failure=_commit_failed,
    ),
    served(
        ApiKey.OFFSET_FETCH,
        1,
        9,
        offset_fetch,
        Permission(Operation.DESCRIBE, ResourceType.GROUP),
        Permission(Operation.DESCRIBE, ResourceType.TOPIC),
        failure=_fetch_failed,
    ),
    served(ApiKey.OFFSET_DELETE, 0, 0, offset_delete, Permission(Operation.DELETE, ResourceType.GROUP), _READ_TOPIC),
)
