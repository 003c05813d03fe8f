"""What programs give to be committed, in the form in which it is committed, and how they hear of the outcome."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from kafkalite.client.errors import ClientClosedError
from kafkalite.client.offsets import OffsetAndMetadata
from kafkalite.types import TopicPartition, group_by_topic

Topic = TypeVar("Topic")

Committable = int | tuple[int, str] | OffsetAndMetadata
"""What can be committed for a partition: the offset of the next record to read, alone or with a note."""
OnCommit = Callable[[Mapping[TopicPartition, OffsetAndMetadata], Exception | None], None]
"""Called with what was to be committed, and the error when it was not."""


def committable(offsets: Mapping[TopicPartition, Committable]) -> dict[TopicPartition, OffsetAndMetadata]:
    """Return offsets with notes, from what programs give: an offset, a pair of offset and note, or both as `OffsetAndMetadata`."""
    found = {}
    for each, given in offsets.items():
        if isinstance(given, int):
            found[TopicPartition(*each)] = OffsetAndMetadata(given)
        elif isinstance(given, tuple):
            found[TopicPartition(*each)] = OffsetAndMetadata(*given)
        else:
            found[TopicPartition(*each)] = given
    return found


def offset_topics(
    offsets: Mapping[TopicPartition, OffsetAndMetadata], topic: Callable[..., Topic], partition: Callable[..., Any]
) -> list[Topic]:
    """Return the topics of an OffsetCommit or TxnOffsetCommit request, made by the constructors of its topics and partitions."""
    grouped = group_by_topic(
        (
            name,
            partition(
                partition_index=number,
                committed_offset=offset.offset,
                committed_leader_epoch=offset.leader_epoch,
                committed_metadata=offset.metadata,
            ),
        )
        for (name, number), offset in offsets.items()
    )
    return [topic(name=name, partitions=partitions) for name, partitions in grouped.items()]


def codes_of(topics: Iterable[Any]) -> dict[TopicPartition, int]:
    """Return the error codes in the topics of an OffsetCommit or TxnOffsetCommit response."""
    return {
        TopicPartition(topic.name, each.partition_index): each.error_code
        for topic in topics
        for each in topic.partitions
    }


def notify_commit(
    done: asyncio.Task[None], offsets: Mapping[TopicPartition, OffsetAndMetadata], callback: OnCommit | None
) -> None:
    """Tell `callback` how a commit in the background has ended; one that was cancelled ended with the consumer."""
    problem = ClientClosedError("the consumer") if done.cancelled() else done.exception()
    if callback is not None:
        callback(offsets, problem if isinstance(problem, Exception) else None)
