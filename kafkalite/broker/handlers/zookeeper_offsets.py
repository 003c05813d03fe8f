"""OffsetCommit 0 and OffsetFetch 0: offsets in ZooKeeper, as consumers kept them before Kafka 0.8.2 (`KafkaApis`).

- There are no members and no generations, and the text that comes with an offset is not kept.
- A partition that is named twice is written once, with what was said last.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeAlias

from kafkalite.broker.coordination.zookeeper_offsets import FetchedOffset
from kafkalite.broker.handlers.known_partitions import find_known_partitions
from kafkalite.broker.parts import HasConfig, HasMetadata
from kafkalite.broker.requests.request_context import RequestContext
from kafkalite.errors import ErrorCode
from kafkalite.portions import Work
from kafkalite.protocol import messages
from kafkalite.types import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from kafkalite.broker.coordination.zookeeper_offsets import ZooKeeperOffsets


_CheckedCommit: TypeAlias = (
    "tuple[messages.OffsetCommitResponse,"
    " list[tuple[messages.offset_commit_response.OffsetCommitResponsePartition, TopicPartition]],"
    " dict[TopicPartition, int]]"
)


class Parts(HasConfig, HasMetadata, Protocol):
    """The parts of the broker that these handlers use."""

    @property
    def zookeeper_offsets(self) -> ZooKeeperOffsets: ...


async def commit_to_zookeeper(
    parts: Parts, request: messages.OffsetCommitRequest, context: RequestContext
) -> messages.OffsetCommitResponse:
    """Write offsets, and return the outcome for each partition."""
    response, undecided, offsets = await context.portions.finish(_check_commit(parts, request))
    outcomes = await parts.zookeeper_offsets.commit(request.group_id, offsets)
    pace = context.portions.pace()
    for answer, topic_partition in undecided:
        await pace.unit()
        answer.error_code = outcomes[topic_partition]
    return response


def _check_commit(parts: Parts, request: messages.OffsetCommitRequest) -> Work[_CheckedCommit]:
    """Return the response, its partitions that have no outcome yet, and what is to be written."""
    m = messages.offset_commit_response
    topics, known, asked = yield from find_known_partitions(
        parts, request.topics, m.OffsetCommitResponseTopic, m.OffsetCommitResponsePartition, lambda *names: names
    )
    undecided, offsets = [], {}
    for answer, (topic, each) in zip(known, asked, strict=True):
        yield
        if len(each.committed_metadata or "") > parts.config.offset_metadata_max_bytes:
            answer.error_code = ErrorCode.OFFSET_METADATA_TOO_LARGE
        else:
            topic_partition = TopicPartition(topic, each.partition_index)
            undecided.append((answer, topic_partition))
            offsets[topic_partition] = each.committed_offset
    return m.OffsetCommitResponse(topics=topics), undecided, offsets


async def fetch_from_zookeeper(
    parts: Parts, group_id: str, asked: Mapping[str, Iterable[int]], context: RequestContext
) -> messages.OffsetFetchResponse:
    """Return the offsets of the partitions of each topic, -1 with an error where there is none."""
    m = messages.offset_fetch_response
    known = await context.portions.finish(_find_known(parts, asked))
    found = await parts.zookeeper_offsets.fetch(group_id, known)
    nothing = FetchedOffset()
    pace = context.portions.pace()
    topics = []
    for name, indexes in asked.items():
        await pace.unit()
        partitions = []
        for index in indexes:
            await pace.unit()
            offset, code = found.get(TopicPartition(name, index), nothing)
            partitions.append(
                m.OffsetFetchResponsePartitions(
                    partition_index=index, committed_offset=offset, metadata="", error_code=code
                )
            )
        topics.append(m.OffsetFetchResponseTopics(name=name, partitions=partitions))
    return m.OffsetFetchResponse(groups=[m.OffsetFetchResponseGroup(group_id=group_id, topics=topics)])


def _find_known(parts: Parts, asked: Mapping[str, Iterable[int]]) -> Work[list[TopicPartition]]:
    known = []
    for name, indexes in asked.items():
        yield
        for index in indexes:
            yield
            topic_partition = TopicPartition(name, index)
            if parts.metadata.partition(topic_partition) is not None:
                known.append(topic_partition)
    return known
