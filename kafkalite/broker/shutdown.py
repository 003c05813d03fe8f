"""Controlled shutdown: before a broker stops it asks the controller to move its leaders away (controlled.shutdown.*).

It waits for followers that are still catching up, and not for what cannot happen: a partition whose other replicas are all gone has
nobody who could take over. Kafka would retry either way.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Hashable
from typing import TYPE_CHECKING, Protocol

from kafkalite.broker.metadata_cache import MetadataCache
from kafkalite.broker.parts import HasBrokerId, HasConfig, HasMetadata, HasReplicas
from kafkalite.errors import ErrorCode
from kafkalite.protocol import messages
from kafkalite.types import BrokerId, TopicPartition

if TYPE_CHECKING:
    from kafkalite.broker.controller_channel import ControllerChannel

logger = logging.getLogger("kafkalite.broker.shutdown")


class Parts(HasBrokerId, HasConfig, HasMetadata, HasReplicas, Protocol):
    """The parts of the broker that a controlled shutdown uses."""

    @property
    def controller_channel(self) -> ControllerChannel: ...


async def controlled_shutdown(parts: Parts) -> bool:
    """True when no partition with other replicas is led here any more.

    Leaders that cannot be moved yet are tried again whenever brokers come or go or an ISR changes, for as long as Kafka would (retries
    times backoff) after the last of them moved.
    """
    config, metadata, broker_id = parts.config, parts.metadata, parts.broker_id
    loop = asyncio.get_running_loop()
    backoff_s = config.controlled_shutdown_retry_backoff_ms / 1000
    give_up_s = loop.time() + config.controlled_shutdown_max_retries * backoff_s
    fewest = leaders_left(metadata, broker_id)
    while any(other != broker_id for other in metadata.brokers):
        seen = prospects(metadata, broker_id)
        if (left := leaders_left(metadata, broker_id)) < fewest:
            fewest, give_up_s = left, loop.time() + config.controlled_shutdown_max_retries * backoff_s
        try:
            remaining = await _request_shutdown(parts, backoff_s)
        except TimeoutError:
            if leaders_left(metadata, broker_id) < fewest:  # the controller is slow, but at it
                continue
            logger.warning("controlled shutdown: no controller can be asked")
            return False
        if remaining is not None:
            if not remaining:
                return True
            if not has_heirs(metadata, remaining, broker_id):
                logger.info("controlled shutdown: of %d partitions all other replicas are gone", len(remaining))
                return False
            logger.info("controlled shutdown: %d partitions are still led here", len(remaining))
        left_s = give_up_s - loop.time()
        if left_s <= 0:
            logger.warning("controlled shutdown did not succeed; stopping all the same")
            return False
        # Every try makes the controller publish metadata, so a change of anything at all would make this a storm.
        await metadata.wait_until(lambda seen=seen: prospects(metadata, broker_id) != seen, min(left_s, backoff_s))  # type: ignore[misc]
    return False


def leaders_left(metadata: MetadataCache, broker_id: BrokerId) -> int:
    """Return how many partitions with other replicas the broker leads, as far as metadata knows."""
    return sum(
        partition.leader == broker_id and len(partition.replicas) > 1
        for topic in metadata.topics.values()
        for partition in topic.partitions.values()
    )


def prospects(metadata: MetadataCache, broker_id: BrokerId) -> Hashable:
    """Return what decides if leaders can be moved away from a broker: the live brokers, and the replicas in sync with it."""
    led = {
        (name, number): tuple(partition.isr)
        for name, topic in metadata.topics.items()
        for number, partition in topic.partitions.items()
        if partition.leader == broker_id
    }
    return frozenset(metadata.brokers), frozenset(led.items())


def has_heirs(metadata: MetadataCache, partitions: Collection[TopicPartition], broker_id: BrokerId) -> bool:
    """True if one of the partitions has another replica on a live broker, which could take over now or when it has caught up."""
    for each in partitions:
        known = metadata.partition(each)
        if known is None or any(other != broker_id and metadata.is_alive(other) for other in known.replicas):
            return True
    return False


async def _request_shutdown(parts: Parts, timeout_s: float) -> list[TopicPartition] | None:
    """Return the partitions still led here; None if the controller refuses. Raises TimeoutError without a controller.

    The version is the newest that both know, whatever inter.broker.protocol.version says: from 2 on it has the broker's epoch
    (KIP-380), without which a request that is delayed would shut down the broker's next incarnation.
    """
    request = messages.controlled_shutdown_request.ControlledShutdownRequest(
        broker_id=parts.broker_id, broker_epoch=parts.replicas.broker_epoch
    )
    deadline_s = asyncio.get_running_loop().time() + timeout_s
    reply = await parts.controller_channel.request(request, deadline_s)
    if reply.error_code:
        logger.warning("controlled shutdown is refused: %s", ErrorCode(reply.error_code).name)
        return None
    return [TopicPartition(each.topic_name, each.partition_index) for each in reply.remaining_partitions]
