"""Producer ids for idempotent producers, handed out of blocks that ZooKeeper gives (1,000 ids each), through the controller.

With an inter.broker.protocol.version below 3.0 the broker takes its blocks from ZooKeeper itself, as Kafka does. The next block is
fetched when the current one is nearly used up.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeAlias

from kafkalite.broker.controller_channel import ControllerChannel
from kafkalite.errors import ErrorCode, KafkaError
from kafkalite.lifecycle import end_tasks
from kafkalite.protocol import messages
from kafkalite.types import BrokerId
from zk.producer_ids import allocate_block
from zk.store import Store

_PREFETCH_AT = 0.9


Allocate: TypeAlias = Callable[[], Coroutine[Any, Any, tuple[int, int]]]
"""Return (first id, number of ids) of a fresh block."""


def blocks_from_zookeeper(broker_id: BrokerId, store: Store) -> Allocate:
    """Return the allocation of blocks by this broker in ZooKeeper."""

    async def allocate() -> tuple[int, int]:
        block = await allocate_block(store, broker_id)
        return block.first_producer_id, block.last_producer_id - block.first_producer_id + 1

    return allocate


def blocks_from_controller(
    broker_id: BrokerId, broker_epoch: Callable[[], int], channel: ControllerChannel, timeout_s: Callable[[], float]
) -> Allocate:
    """Return the allocation by the controller (AllocateProducerIds, KIP-730), which raises COORDINATOR_LOAD_IN_PROGRESS if it fails."""

    async def allocate() -> tuple[int, int]:
        request = messages.AllocateProducerIdsRequest(broker_id=broker_id, broker_epoch=broker_epoch())
        try:
            reply = await channel.request(request, asyncio.get_running_loop().time() + timeout_s())
        except TimeoutError as problem:
            raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, f"no producer ids: {problem}") from None
        if reply.error_code:
            problem_name = ErrorCode(reply.error_code).name
            raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, f"no producer ids: {problem_name}")
        return reply.producer_id_start, reply.producer_id_len

    return allocate


class ProducerIds:
    """The block of producer ids in use, and the next one while it is fetched."""

    def __init__(self, allocate: Allocate) -> None:
        self._allocate = allocate
        self._next, self._end, self._prefetch_from = 0, 0, 0
        self._coming: asyncio.Task[tuple[int, int]] | None = None

    async def next(self) -> int:
        """Return an id that no producer of this cluster has had."""
        while self._next >= self._end:
            task = self._fetch()
            first, length = await asyncio.shield(task)
            if self._coming is task:  # the first caller that waited takes the block over
                self._coming = None
                self._next, self._end = first, first + length
                self._prefetch_from = first + int(length * _PREFETCH_AT)
        producer_id = self._next
        self._next += 1
        if self._next >= self._prefetch_from:
            self._fetch()
        return producer_id

    async def close(self) -> None:
        """Cancel the fetch of a block: an unreachable controller would keep the broker from stopping cleanly."""
        if self._coming is not None:
            await end_tasks([self._coming])

    def _fetch(self) -> asyncio.Task[tuple[int, int]]:
        """Return the task that fetches the next block; a failure is raised in all callers that wait, and the next call tries again."""
        failed = (
            self._coming is not None
            and self._coming.done()
            and (self._coming.cancelled() or self._coming.exception() is not None)
        )
        if self._coming is None or failed:
            self._coming = asyncio.get_running_loop().create_task(self._allocate(), name="a block of producer ids")
        return self._coming
