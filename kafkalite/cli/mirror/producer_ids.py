"""Keeps the target from giving out producer ids that are in the mirrored logs.

Both clusters count from 0. A new producer of the target with an id of the source would be taken for that one: its first batches would be
duplicates, which are acknowledged and not appended, or out of order.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from kafkalite.client.errors import raise_error
from kafkalite.errors import ErrorCode
from kafkalite.protocol import messages

if TYPE_CHECKING:
    from kafkalite.cli.mirror.quorum import Quorum
    from kafkalite.client import Admin
    from kafkalite.client.cluster.client import ClusterClient
    from kafkalite.types import TopicPartition

_AT_ONCE: Final = 100
_LOADING: Final = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
_PAUSE_S: Final = 0.05
_TRANSACTION_TIMEOUT_MS: Final = 60_000


async def find_highest(source: Admin, partitions: Iterable[TopicPartition]) -> int:
    """Return the highest producer id whose state the source's partitions hold, -1 without any. Raises ClientError."""
    found = await source.describe_producers(partitions)
    return max((each.producer_id for some in found.values() for each in some), default=-1)


async def reserve(quorum: Quorum, target: ClusterClient, brokers: Iterable[int], highest: int) -> None:
    """Use up all producer ids of the target up to `highest`: the blocks that controllers have left, then those that brokers hold.

    Raises ClientError, OSError.
    """
    if highest < 0:
        return
    while await quorum.allocate_producer_ids() <= highest:
        pass
    await use_up(target, brokers, highest)


async def use_up(cluster: ClusterClient, brokers: Iterable[int], highest: int) -> None:
    """Have brokers give out all ids up to `highest`, with the blocks that they get meanwhile. Raises ClientError, OSError."""
    await asyncio.gather(*(_use_up(cluster, each, highest) for each in brokers))


async def _use_up(target: ClusterClient, broker: int, highest: int) -> None:
    request = messages.InitProducerIdRequest(
        transactional_id=None, transaction_timeout_ms=_TRANSACTION_TIMEOUT_MS, producer_id=-1, producer_epoch=-1
    )
    while True:
        answers = await asyncio.gather(*(target.request(broker, request) for _ in range(_AT_ONCE)))
        given = [each.producer_id for each in answers if not each.error_code]
        for each in answers:
            if each.error_code != _LOADING:  # the broker waits for its next block
                raise_error(each, f"using up producer ids of broker {broker}")
        if max(given, default=-1) > highest:
            return
        if not given:
            await asyncio.sleep(_PAUSE_S)
