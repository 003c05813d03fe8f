"""Offsets of groups in ZooKeeper, where OffsetCommit 0 and OffsetFetch 0 have them: `/consumers/<group>/offsets/<topic>/<partition>`.

Any broker answers for any group. A group that exists in Kafka too has other offsets there. As Kafka, whatever goes wrong with a znode is
UNKNOWN_SERVER_ERROR: a group whose name is no name of a znode, a znode that is no number, a session that ended.

Many partitions are asked for together, AT_ONCE at most at any time, so that the brokers' own requests do not wait behind them.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import NamedTuple, TypeVar

from kafkalite.errors import ErrorCode
from kafkalite.types import TopicPartition
from zk import paths
from zk.consumer_groups import AT_ONCE
from zk.store import NodeExistsError, NoNodeError, Store, StoreError
from zk.znodes import ConsumerOffset, MalformedZnodeError

logger = logging.getLogger(__name__)

_AnswerT = TypeVar("_AnswerT")


class FetchedOffset(NamedTuple):
    """An offset, or -1 and the error."""

    offset: int = -1
    error: ErrorCode = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


class ZooKeeperOffsets:
    """The offsets in ZooKeeper of all groups, read and written at most AT_ONCE at a time."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._turn = asyncio.Lock()

    async def commit(self, group_id: str, offsets: Mapping[TopicPartition, int]) -> dict[TopicPartition, ErrorCode]:
        """Write offsets; return the outcome of each. Missing znodes are created with their parents."""

        async def write(topic_partition: TopicPartition) -> ErrorCode:
            path = paths.consumer_offset(group_id, *topic_partition)
            data = ConsumerOffset(offsets[topic_partition]).encode()
            try:
                await self._write(path, data)
            except (ValueError, StoreError) as problem:
                return _failure(group_id, problem)
            return ErrorCode.NONE

        return await self._together(list(offsets), write)

    async def _write(self, path: str, data: bytes) -> None:
        while True:
            try:
                await self._store.write(path, data)
                return
            except NoNodeError:
                pass
            try:
                await self._store.create(path, data, parents=True)
                return
            except NodeExistsError:
                continue  # another broker has created it just now

    async def fetch(self, group_id: str, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, FetchedOffset]:
        """Return the committed offset of each partition, UNKNOWN_TOPIC_OR_PARTITION where there is none, as in Kafka."""

        async def read(topic_partition: TopicPartition) -> FetchedOffset:
            try:
                data, _ = await self._store.read(paths.consumer_offset(group_id, *topic_partition))
                return FetchedOffset(ConsumerOffset.decode(data).offset, ErrorCode.NONE)
            except NoNodeError:
                return FetchedOffset()
            except (ValueError, StoreError) as problem:
                return FetchedOffset(error=_failure(group_id, problem))

        return await self._together(partitions, read)

    async def _together(
        self, partitions: Sequence[TopicPartition], ask: Callable[[TopicPartition], Awaitable[_AnswerT]]
    ) -> dict[TopicPartition, _AnswerT]:
        answers: dict[TopicPartition, _AnswerT] = {}
        for first in range(0, len(partitions), AT_ONCE):
            portion = partitions[first : first + AT_ONCE]
            async with self._turn:
                answers.update(zip(portion, await asyncio.gather(*map(ask, portion)), strict=True))
        return answers


def _failure(group_id: str, problem: ValueError | StoreError) -> ErrorCode:
    if not isinstance(problem, ValueError) or isinstance(problem, MalformedZnodeError):
        logger.warning("an offset of group %s in ZooKeeper: %s", group_id, problem)
    return ErrorCode.UNKNOWN_SERVER_ERROR
