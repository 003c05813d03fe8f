"""CreateTopics (19), DeleteTopics (20), CreatePartitions (37): carried out by the controller.

The handler waits until this broker's metadata shows the outcome.

- CreateTopics 4 defaults for counts (KIP-464), 5 configs in the answer (KIP-525), 7 topic ids. DeleteTopics 5 error messages, 6 by id.
- Asked of a broker that is not the controller: NOT_CONTROLLER, and the client finds the controller.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING

from kafkalite.errors import ErrorCode
from kafkalite.protocol import messages

if TYPE_CHECKING:
    from kafkalite.broker.app import Broker
    from kafkalite.broker.dispatch import RequestContext

_DELETION_DISABLED_FROM = 3
_DELETION_S = 1.0
_DELETION_POLL_S = 0.005


async def create_topics(
    broker: Broker, request: messages.create_topics_request.CreateTopicsRequest, context: RequestContext
) -> messages.create_topics_response.CreateTopicsResponse:
    """Create, then wait until all partitions have a leader or the request's timeout has passed."""
    deadline_ms = broker.clock.monotonic_ms() + request.timeout_ms
    reply: messages.create_topics_response.CreateTopicsResponse = await broker.controller.create_topics(request)
    if not request.validate_only:
        created = [result for result in reply.topics if not result.error_code]
        for result in created:
            left_s = (deadline_ms - broker.clock.monotonic_ms()) / 1000
            partitions = range(await broker.topic_creation.partition_count(result.name))
            led = await broker.metadata.wait_until(
                partial(broker.metadata.has_leaders, result.name, partitions), left_s
            )
            if not led:
                result.error_code = ErrorCode.REQUEST_TIMED_OUT
                result.error_message = "The topic was created, but not all its partitions had a leader in time."
    return reply


async def delete_topics(
    broker: Broker, request: messages.delete_topics_request.DeleteTopicsRequest, context: RequestContext
) -> messages.delete_topics_response.DeleteTopicsResponse:
    """Mark for deletion, then wait until the topics are gone from this broker's metadata, and shortly for their znodes.

    Kafka answers when metadata shows them gone; whoever then makes a topic of that name is refused for a moment.
    """
    deadline_ms = broker.clock.monotonic_ms() + request.timeout_ms
    reply: messages.delete_topics_response.DeleteTopicsResponse = await broker.controller.delete_topics(request)
    for result in reply.responses:
        if result.error_code == ErrorCode.TOPIC_DELETION_DISABLED and context.api_version < _DELETION_DISABLED_FROM:
            result.error_code = ErrorCode.INVALID_REQUEST
        if result.error_code:
            continue
        left_s = (deadline_ms - broker.clock.monotonic_ms()) / 1000
        if await broker.metadata.wait_until(partial(_is_gone, broker, result.name), left_s):
            await _wait_deleted(broker, result.name)
        else:
            result.error_code = ErrorCode.REQUEST_TIMED_OUT
            result.error_message = "The topic is marked for deletion, but was not deleted in time."
    return reply


async def _wait_deleted(broker: Broker, topic: str | None) -> None:
    """Until the controller is done with a topic; with a dead replica that may take for ever, so not for long."""
    loop = asyncio.get_running_loop()
    give_up_s = loop.time() + _DELETION_S
    while loop.time() < give_up_s:
        cluster = broker.controller.cluster
        if cluster is None or topic not in cluster.topics:
            return
        await asyncio.sleep(_DELETION_POLL_S)


async def create_partitions(
    broker: Broker, request: messages.create_partitions_request.CreatePartitionsRequest, context: RequestContext
) -> messages.create_partitions_response.CreatePartitionsResponse:
    """Enlarge, then wait until the new partitions have a leader or the request's timeout has passed."""
    deadline_ms = broker.clock.monotonic_ms() + request.timeout_ms
    reply = await broker.controller.create_partitions(request)
    if not request.validate_only:
        counts = {topic.name: topic.count for topic in request.topics}
        for result in reply.results:
            if result.error_code:
                continue
            left_s = (deadline_ms - broker.clock.monotonic_ms()) / 1000
            wanted = range(counts[result.name])
            if not await broker.metadata.wait_until(partial(broker.metadata.has_leaders, result.name, wanted), left_s):
                result.error_code = ErrorCode.REQUEST_TIMED_OUT
                result.error_message = "The partitions were created, but not all of them had a leader in time."
    return reply


def _is_gone(broker: Broker, topic: str | None) -> bool:
    return topic not in broker.metadata.topics
