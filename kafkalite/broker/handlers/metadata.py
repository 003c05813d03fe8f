"""Metadata (3): brokers, controller, topics and their leaders, from this broker's cache; creates missing topics when asked to.

- 0 no topics means all; 1 null means all, rack, controller; 2 cluster id; 4 allow_auto_topic_creation; 5 offline replicas; 7 leader epoch;
  8 authorized operations; 9 flexible; 10 topic ids in the answer; 12 topics by id.
- A topic that is created on the way is answered with LEADER_NOT_AVAILABLE or UNKNOWN_TOPIC_OR_PARTITION, and the client asks again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafkalite.broker.metadata_cache import PartitionMetadata, TopicMetadata
from kafkalite.errors import ErrorCode
from kafkalite.protocol import messages
from kafkalite.types import INTERNAL_TOPICS, NO_BROKER, NO_TOPIC_ID

if TYPE_CHECKING:
    from kafkalite.broker.app import Broker
    from kafkalite.broker.dispatch import RequestContext

_UNKNOWN_OPERATIONS = -(2**31)


async def metadata(
    broker: Broker, request: messages.metadata_request.MetadataRequest, context: RequestContext
) -> messages.metadata_response.MetadataResponse:
    """The cluster as this broker knows it, with endpoints of the caller's listener."""
    version, listener = context.api_version, context.listener
    await broker.wait_for_first_metadata()
    cache = broker.metadata
    topics = []
    if request.topics is None or (version == 0 and not request.topics):
        topics = [_topic(broker, topic, version, listener) for topic in cache.topics.values()]
    else:
        missing: list[str] = []
        for asked in request.topics:
            name = asked.name if asked.name is not None else cache.topic_name(asked.topic_id)
            known = cache.topics.get(name) if name is not None else None
            if known is not None:
                topics.append(_topic(broker, known, version, listener))
            elif asked.name is None:
                topics.append(_failed(None, asked.topic_id, ErrorCode.UNKNOWN_TOPIC_ID))
            else:
                missing.append(asked.name)
        may_create = version < 4 or request.allow_auto_topic_creation
        topics += await _missing(broker, missing, may_create)
    m = messages.metadata_response
    brokers = [
        m.MetadataResponseBroker(node_id=each.broker_id, host=endpoint.host, port=endpoint.port, rack=each.rack)
        for each in cache.brokers.values()
        if (endpoint := each.endpoints.get(listener)) is not None
    ]
    controller = cache.controller_id if cache.endpoint(cache.controller_id, listener) else NO_BROKER
    return m.MetadataResponse(
        brokers=brokers,
        cluster_id=broker.cluster_id,
        controller_id=controller,
        topics=topics,
        cluster_authorized_operations=_UNKNOWN_OPERATIONS,
    )


async def _missing(broker: Broker, names: list[str], may_create: bool) -> list[Any]:
    if not names:
        return []
    codes = await broker.topic_creation.create_missing(names, may_create)
    return [_failed(name, NO_TOPIC_ID, codes[name]) for name in names]


def _failed(name: str | None, topic_id: bytes, code: ErrorCode) -> Any:
    return messages.metadata_response.MetadataResponseTopic(
        name=name, topic_id=topic_id, error_code=code, topic_authorized_operations=_UNKNOWN_OPERATIONS
    )


def _topic(broker: Broker, topic: TopicMetadata, version: int, listener: str) -> Any:
    return messages.metadata_response.MetadataResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.name in INTERNAL_TOPICS,
        topic_authorized_operations=_UNKNOWN_OPERATIONS,
        partitions=[
            _partition(broker, index, partition, version, listener) for index, partition in topic.partitions.items()
        ],
    )


def _partition(broker: Broker, index: int, partition: PartitionMetadata, version: int, listener: str) -> Any:
    cache, leader, code = broker.metadata, partition.leader, ErrorCode.NONE
    if cache.endpoint(leader, listener) is None:
        listed = cache.is_alive(leader) and version >= 6
        code = ErrorCode.LISTENER_NOT_FOUND if listed else ErrorCode.LEADER_NOT_AVAILABLE
        leader = NO_BROKER
    return messages.metadata_response.MetadataResponsePartition(
        error_code=code,
        partition_index=index,
        leader_id=leader,
        leader_epoch=partition.leader_epoch,
        replica_nodes=partition.replicas,
        isr_nodes=partition.isr,
        offline_replicas=partition.offline_replicas,
    )
