"""Controlled shutdown: before a broker stops it asks the controller to move its leaders away (controlled.shutdown.*).

Where nobody is left who could take over, it does not wait for what cannot happen; Kafka would retry.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from kafkalite.errors import ErrorCode
from kafkalite.protocol import messages

if TYPE_CHECKING:
    from kafkalite.broker.app import Broker

logger = logging.getLogger("kafkalite.broker.shutdown")


async def controlled_shutdown(broker: Broker) -> bool:
    """True when no partition with other replicas is led here any more.

    Leaders that cannot be moved yet are tried again whenever the cluster changes, for as long as Kafka would: retries times backoff.
    """
    config, metadata = broker.config, broker.metadata
    loop = asyncio.get_running_loop()
    backoff_s = config.controlled_shutdown_retry_backoff_ms / 1000
    give_up_s = loop.time() + config.controlled_shutdown_max_retries * backoff_s
    while any(other != broker.broker_id for other in metadata.brokers):
        seen = metadata.version
        remaining = await _ask(broker, backoff_s)
        if remaining is None:
            return False
        if remaining == 0:
            return True
        logger.info("controlled shutdown: %d partitions are still led here", remaining)
        left_s = give_up_s - loop.time()
        if left_s <= 0:
            logger.warning("controlled shutdown did not succeed; stopping all the same")
            return False
        await metadata.wait_until(lambda seen=seen: metadata.version != seen, min(left_s, backoff_s))  # type: ignore[misc]
    return False


async def _ask(broker: Broker, timeout_s: float) -> int | None:
    """Partitions that remain, 0 when all moved; None when no controller can be asked."""
    request = messages.controlled_shutdown_request.ControlledShutdownRequest(
        broker_id=broker.broker_id, broker_epoch=broker.replicas.broker_epoch
    )
    deadline_s = asyncio.get_running_loop().time() + timeout_s
    try:
        reply = await broker.controller_channel.request(
            request, deadline_s, max_version=broker.versions.controlled_shutdown
        )
    except TimeoutError:
        logger.warning("controlled shutdown: no controller can be asked")
        return None
    if reply.error_code:
        logger.warning("controlled shutdown is refused: %s", ErrorCode(reply.error_code).name)
        return max(1, len(reply.remaining_partitions))
    return len(reply.remaining_partitions)
