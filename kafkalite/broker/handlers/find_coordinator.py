"""FindCoordinator (10): which broker coordinates a group or a transactional id: the leader of its partition of `__consumer_offsets` or
`__transaction_state`.

- 1 key types; 3 flexible; 4 several keys in one request (KIP-699).
- The first request makes the topic, and waits shortly for the leader of the partition, so that most clients need not ask again. Where the
  topic is there, but the partition without a leader, the answer is COORDINATOR_NOT_AVAILABLE at once.
- It waits shortly too where the coordinator is probably dead (`broker/delayed_metadata`).
- What is found has "NONE" as message in versions 1 to 3 and an empty one since, as in Kafka.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final, Protocol

from kafkalite.broker.delayed_metadata import REQUEST_PARTITIONS_MAX, HasDelayedMetadata
from kafkalite.broker.identity.authorizer import DESCRIBE_GROUP, DESCRIBE_TRANSACTIONAL_ID
from kafkalite.broker.parts import HasGroups, HasMetadata, HasTopicCreation, HasTransactions
from kafkalite.broker.requests.failures import FailedItems, Failure
from kafkalite.broker.requests.guards import Each, Judged
from kafkalite.broker.requests.request_context import RequestContext
from kafkalite.broker.requests.served_api import serve_api
from kafkalite.errors import ErrorCode, KafkaError
from kafkalite.portions import Work
from kafkalite.protocol import messages
from kafkalite.protocol.apis import ApiKey
from kafkalite.types import OFFSETS_TOPIC, TRANSACTIONS_TOPIC, TopicPartition

if TYPE_CHECKING:
    from kafkalite.broker.metadata_cache import MetadataCache

_GROUP, _TRANSACTION = 0, 1
_WAIT_S = 2.0
_SEVERAL_KEYS_FROM: Final = 4


class Parts(HasDelayedMetadata, HasMetadata, HasTopicCreation, HasGroups, HasTransactions, Protocol):
    """The parts of the broker that these handlers use."""


async def find_coordinator(
    parts: Parts, request: messages.FindCoordinatorRequest, context: RequestContext
) -> messages.FindCoordinatorResponse:
    """Return the coordinator's id and endpoint for each key, or why there is none now."""
    m = messages.find_coordinator_response
    if request.key_type not in (_GROUP, _TRANSACTION):
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"coordinators of type {request.key_type} are unknown")
    if request.key_type == _GROUP:
        topic, partition_for = OFFSETS_TOPIC, parts.groups.partition_for
    else:
        topic, partition_for = TRANSACTIONS_TOPIC, parts.transactions.partition_for
    await parts.metadata.wait_for_controller()
    if topic not in parts.metadata.topics and request.coordinator_keys:
        await parts.topic_creation.create_internal(topic)
        await parts.metadata.wait_until(partial(_is_led, parts.metadata, topic), _WAIT_S)
    keys = dict.fromkeys(request.coordinator_keys)
    if len(keys) <= REQUEST_PARTITIONS_MAX:
        await parts.delayed_metadata.wait_for_leader_of({TopicPartition(topic, partition_for(key)) for key in keys})
    message = "NONE" if context.api_version < _SEVERAL_KEYS_FROM else ""
    coordinators = []
    pace = context.portions.pace()
    for key in keys:
        await pace.unit()
        place = TopicPartition(topic, partition_for(key))
        known = parts.metadata.partition(place)
        endpoint = parts.metadata.endpoint(known.leader, context.listener) if known is not None else None
        if known is None or endpoint is None:
            found = m.Coordinator(key=key, node_id=-1, port=-1, error_message="The coordinator is not available.")
            found.error_code = ErrorCode.COORDINATOR_NOT_AVAILABLE
        else:
            found = m.Coordinator(
                key=key, node_id=known.leader, host=endpoint.host, port=endpoint.port, error_message=message
            )
        coordinators.append(found)
    return m.FindCoordinatorResponse(coordinators=coordinators)


def _is_led(cache: MetadataCache, topic: str) -> bool:
    """True once all partitions of the topic are known with a leader."""
    known = cache.topics.get(topic)
    return known is not None and cache.has_leaders(topic, known.partitions)


_GROUPS: Final = Each(DESCRIBE_GROUP, "coordinator_keys", "coordinators", name=None)
_IDS: Final = Each(DESCRIBE_TRANSACTIONAL_ID, "coordinator_keys", "coordinators", name=None)


def _guard(
    parts: object, request: messages.FindCoordinatorRequest, context: RequestContext, failure: Failure
) -> Work[Judged]:
    if request.key_type not in (_GROUP, _TRANSACTION):
        return Judged(request)  # to be refused for that
    each = _GROUPS if request.key_type == _GROUP else _IDS
    return (yield from each(parts, request, context, failure))


APIS: Final = (
    serve_api(ApiKey.FIND_COORDINATOR, 0, 6, find_coordinator, failure=FailedItems(node_id=-1, port=-1), guard=_guard),
)
