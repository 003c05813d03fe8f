"""The partitions that a request about offsets names, told apart into those that exist and those that are answered with an error."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Protocol, TypeVar

from kafkalite.broker.parts import HasMetadata
from kafkalite.errors import ErrorCode
from kafkalite.portions import Work


class TopicResponse(Protocol):
    """A topic of the response."""

    name: str
    partitions: list[Any]


class PartitionResponse(Protocol):
    """A partition of the response."""

    partition_index: int
    error_code: int


_TopicT = TypeVar("_TopicT", bound=TopicResponse)
_PartitionT = TypeVar("_PartitionT", bound=PartitionResponse)
_ItemT = TypeVar("_ItemT")


def find_known_partitions(
    parts: HasMetadata,
    topics: Iterable[Any],
    topic_response: Callable[[], _TopicT],
    partition_response: Callable[[], _PartitionT],
    make_item: Callable[[str, Any], _ItemT],
) -> Work[tuple[list[_TopicT], list[_PartitionT], list[_ItemT]]]:
    """Return the response's topics, their partitions that have no outcome yet, and of each of these `make_item(topic, partition)`.

    Partitions that the cluster does not have are answered with UNKNOWN_TOPIC_OR_PARTITION already.
    """
    responses, undecided, items = [], [], []
    for topic in topics:
        yield
        name, answers = topic.name, []
        known = parts.metadata.topics.get(name)
        for each in topic.partitions:
            yield
            answer = partition_response()
            answer.partition_index = each.partition_index
            answers.append(answer)
            if known is None or each.partition_index not in known.partitions:
                answer.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            else:
                undecided.append(answer)
                items.append(make_item(name, each))
        response = topic_response()
        response.name, response.partitions = name, answers
        responses.append(response)
    return responses, undecided, items
