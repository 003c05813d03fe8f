"""FindCoordinator (10): which broker coordinates a group: the leader of its partition of `__consumer_offsets`.

- 1 key types; 3 flexible; 4 several keys in one request (KIP-699).
- The first request makes the topic, and waits shortly for the leader of the partition, so that most clients need not ask again.
- Not done: transactional ids (key type 1) have no coordinator yet.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafkalite.errors import ErrorCode, KafkaError
from kafkalite.protocol import messages
from kafkalite.types import OFFSETS_TOPIC, TopicPartition

if TYPE_CHECKING:
    from kafkalite.broker.app import Broker
    from kafkalite.broker.dispatch import RequestContext

_GROUP, _TRANSACTION = 0, 1
_WAIT_S = 2.0


async def find_coordinator(
    broker: Broker, request: messages.find_coordinator_request.FindCoordinatorRequest, context: RequestContext
) -> messages.find_coordinator_response.FindCoordinatorResponse:
    """Id and endpoint for each key, or why there is none now."""
    m = messages.find_coordinator_response
    if request.key_type not in (_GROUP, _TRANSACTION):
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"coordinators of type {request.key_type} are unknown")
    coordinators = []
    for key in request.coordinator_keys:
        try:
            coordinators.append(await _find(broker, request.key_type, key, context.listener))
        except KafkaError as problem:
            coordinators.append(
                m.Coordinator(key=key, node_id=-1, port=-1, error_code=problem.code, error_message=problem.message)
            )
    return m.FindCoordinatorResponse(coordinators=coordinators)


async def _find(broker: Broker, key_type: int, key: str, listener: str) -> Any:
    if key_type == _TRANSACTION:
        raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "Transactions are not served.")
    await broker.wait_for_first_metadata()
    cache = broker.metadata
    if OFFSETS_TOPIC not in cache.topics:
        await broker.topic_creation.create_internal(OFFSETS_TOPIC)
        await cache.wait_until(lambda: OFFSETS_TOPIC in cache.topics, _WAIT_S)
    place = TopicPartition(OFFSETS_TOPIC, broker.coordinators.groups.partition_for(key))
    await cache.wait_until(lambda: (known := cache.partition(place)) is not None and known.leader >= 0, _WAIT_S)
    known = cache.partition(place)
    endpoint = cache.endpoint(known.leader, listener) if known is not None else None
    if known is None or endpoint is None:
        raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "The coordinator is not available.")
    return messages.find_coordinator_response.Coordinator(
        key=key, node_id=known.leader, host=endpoint.host, port=endpoint.port
    )
