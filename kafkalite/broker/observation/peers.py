"""Requests to the other brokers for what only they know: groups that they coordinate, ends of partitions that they lead.

They use the listener between brokers, with one connection to each broker, opened when needed and closed by `disconnect`. A broker that
does not answer raises OSError (TimeoutError is one).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeVar

from kafkalite.net.connection import Connection
from kafkalite.protocol import messages
from kafkalite.types import BrokerId, TopicPartition

if TYPE_CHECKING:
    from kafkalite.protocol.messages import Message, Request

ResponseT = TypeVar("ResponseT", bound="Message")

TIMEOUT_S: Final = 5.0
_LATEST: Final = -1
_CONSUMER: Final = -1


@dataclass(frozen=True, slots=True)
class CoordinatedGroup:
    """A group as its coordinator describes it."""

    group_id: str
    state: str
    members: int
    offsets: Sequence[tuple[TopicPartition, int]]


class Peers:
    """Connections to other brokers. `open_connection(broker)` connects to one; it raises OSError."""

    def __init__(self, open_connection: Callable[[BrokerId], Awaitable[Connection]]) -> None:
        self._open = open_connection
        self._connections: dict[BrokerId, Connection] = {}

    def disconnect(self) -> None:
        """Close all connections until somebody asks again."""
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

    async def ends(self, leader: BrokerId, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Return high watermarks of partitions that `leader` leads; partitions that it does not lead are left out."""
        m = messages.list_offsets_request
        topics: dict[str, messages.list_offsets_request.ListOffsetsTopic] = {}
        for topic, partition in partitions:
            asked = topics.setdefault(topic, m.ListOffsetsTopic(name=topic))
            asked.partitions.append(m.ListOffsetsPartition(partition_index=partition, timestamp=_LATEST))
        answer = await self._request(leader, m.ListOffsetsRequest(replica_id=_CONSUMER, topics=list(topics.values())))
        return {
            TopicPartition(topic.name, each.partition_index): each.offset
            for topic in answer.topics
            for each in topic.partitions
            if not each.error_code
        }

    async def groups(self, coordinator: BrokerId, most_groups: int) -> list[CoordinatedGroup]:
        """Return the groups of a coordinator with their committed offsets, by name, at most `limit` ones."""
        listed = await self._request(coordinator, messages.list_groups_request.ListGroupsRequest())
        names = sorted(each.group_id for each in listed.groups)[:most_groups]
        if not names:
            return []
        described = await self._request(
            coordinator, messages.describe_groups_request.DescribeGroupsRequest(groups=names)
        )
        m = messages.offset_fetch_request
        asked = [m.OffsetFetchRequestGroup(group_id=name, topics=None) for name in names]
        fetched = await self._request(coordinator, m.OffsetFetchRequest(groups=asked))
        offsets = {group.group_id: _committed_offsets(group) for group in fetched.groups}
        return [
            CoordinatedGroup(each.group_id, each.group_state, len(each.members), offsets.get(each.group_id, ()))
            for each in described.groups
        ]

    async def _request(self, broker: BrokerId, message: Request[ResponseT]) -> ResponseT:
        connection = self._connections.get(broker)
        if connection is None or connection.closed:
            connection = await self._open(broker)
            await connection.negotiate(TIMEOUT_S)
            self._connections[broker] = connection
        return await connection.request(message, connection.version_of(message.API.key), TIMEOUT_S)


def _committed_offsets(
    group: messages.offset_fetch_response.OffsetFetchResponseGroup,
) -> list[tuple[TopicPartition, int]]:
    return [
        (TopicPartition(topic.name, each.partition_index), each.committed_offset)
        for topic in group.topics
        for each in topic.partitions
        if not each.error_code and each.committed_offset >= 0
    ]
