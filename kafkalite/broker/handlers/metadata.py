"""Metadata (3): brokers, controller, topics and their leaders, from this broker's cache; creates missing topics when asked to.

- 0 no topics means all, and replicas that cannot be reached are left out (REPLICA_NOT_AVAILABLE); 1 null means all, rack, controller;
  2 cluster id; 4 allow_auto_topic_creation; 5 offline replicas; 6 LISTENER_NOT_FOUND; 7 leader epoch; 8 authorized operations; 9 flexible;
  10 topic ids in the answer; 12 topics by id.
- A topic that is named several times is answered once, as in Kafka.
- Topics that the caller may not see are left out where all are asked for, else refused; those that are asked for by id without their name.
  Making one needs CREATE on the cluster or on the topic. In 8 to 10 the operations on the cluster go to those who may describe it.
- A request that names topics waits shortly where a leader is probably dead (`broker/delayed_metadata`).
- A topic that is created on the way is answered with LEADER_NOT_AVAILABLE or UNKNOWN_TOPIC_OR_PARTITION, and the client asks again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from kafkalite.broker.delayed_metadata import HasDelayedMetadata
from kafkalite.broker.handlers.topics import Mutating, mutations_of, silenced_for
from kafkalite.broker.identity.authorizer import (
    CREATE_CLUSTER,
    CREATE_TOPIC,
    DESCRIBE_CLUSTER,
    DESCRIBE_TOPIC,
    UNKNOWN_OPERATIONS,
    ResourceType,
)
from kafkalite.broker.metadata_cache import TopicMetadata
from kafkalite.broker.parts import HasClusterId, HasConfig, HasMetadata, HasTopicCreation
from kafkalite.broker.requests.failures import FailedItems
from kafkalite.broker.requests.request_context import RequestContext
from kafkalite.broker.requests.served_api import serve_api
from kafkalite.controller.control_requests import PartitionMetadata
from kafkalite.errors import ErrorCode
from kafkalite.portions import Work
from kafkalite.protocol import messages
from kafkalite.protocol.apis import ApiKey
from kafkalite.types import INTERNAL_TOPICS, NO_BROKER, NO_TOPIC_ID

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafkalite.broker.metadata_cache import MetadataCache
    from kafkalite.types import BrokerId

_NEVER_STRICT: Final = 2**15
_NULL_IS_ALL_FROM: Final = 1
_CLUSTER_OPERATIONS_IN: Final = range(8, 11)


class Parts(Mutating, HasConfig, HasClusterId, HasDelayedMetadata, HasMetadata, HasTopicCreation, Protocol):
    """The parts of the broker that these handlers use."""


async def metadata(
    parts: Parts, request: messages.MetadataRequest, context: RequestContext
) -> messages.MetadataResponse:
    """Return the cluster as this broker knows it, with endpoints of the caller's listener."""
    version, listener = context.api_version, context.listener
    await parts.metadata.wait_for_controller()
    if version >= _NULL_IS_ALL_FROM:
        await parts.delayed_metadata.wait_for_leaders(request.topics)
    cache = parts.metadata
    throttle_ms = 0
    topics, missing = await context.portions.finish(_collect_topics(parts, request, context))
    if missing:
        may_create = version < 4 or request.allow_auto_topic_creation
        if may_create and parts.config.auto_create_topics_enable:
            missing, refused = await context.portions.finish(_divide_missing(missing, context))
            topics += refused
        codes = await parts.topic_creation.create_missing(missing, may_create, context.portions)
        throttle_ms = _charge(parts, codes, context)
        topics += await context.portions.finish(_make_missing_topics(missing, codes))
    if request.include_topic_authorized_operations:
        await context.portions.finish(_set_operations(topics, context))
    m = messages.metadata_response
    brokers = [
        m.MetadataResponseBroker(node_id=each.broker_id, host=endpoint.host, port=endpoint.port, rack=each.rack)
        for each in (*cache.brokers.values(), *(parts.delayed_metadata.find_left() if request.topics else ()))
        if (endpoint := each.endpoints.get(listener)) is not None
    ]
    controller = cache.controller_id if cache.endpoint(cache.controller_id, listener) else NO_BROKER
    return m.MetadataResponse(
        throttle_time_ms=throttle_ms,
        brokers=brokers,
        cluster_id=parts.cluster_id,
        controller_id=controller,
        topics=topics,
        cluster_authorized_operations=cluster_operations(context)
        if request.include_cluster_authorized_operations and version in _CLUSTER_OPERATIONS_IN
        else UNKNOWN_OPERATIONS,
    )


def _charge(parts: Parts, codes: Mapping[str, ErrorCode], context: RequestContext) -> int:
    """Count topics that were created for the client, which are never refused (KIP-599); return for how many ms it is muted."""
    created = sum(code is ErrorCode.LEADER_NOT_AVAILABLE for code in codes.values())
    mutations = mutations_of(parts, context, _NEVER_STRICT) if created else None
    if mutations is not None:
        mutations.charge(created * parts.config.num_partitions)
    return silenced_for(mutations, context)


def cluster_operations(context: RequestContext) -> int:
    """Return the operations that the caller may do to the cluster, if it may know."""
    return context.authorized_operations(ResourceType.CLUSTER) if context.may(DESCRIBE_CLUSTER) else 0


def _collect_topics(
    parts: Parts, request: messages.MetadataRequest, context: RequestContext
) -> Work[tuple[list[messages.metadata_response.MetadataResponseTopic], list[str]]]:
    """Return the responses of topics, and the names of those that do not exist."""
    cache = parts.metadata
    topics: list[messages.metadata_response.MetadataResponseTopic] = []
    if request.topics is None or (context.api_version == 0 and not request.topics):
        for topic in list(cache.topics.values()):
            # Without partitions it was deleted since the answer was begun.
            if topic.partitions and context.may(DESCRIBE_TOPIC, topic.name, is_asked=False):
                topics.append((yield from _make_topic(parts, topic, context)))
        return topics, []
    asked_before: set[str | bytes] = set()
    missing: list[str] = []
    for asked in request.topics:
        yield
        key = asked.name if asked.name is not None else asked.topic_id
        if key in asked_before:
            continue
        asked_before.add(key)
        name = asked.name if asked.name is not None else cache.topic_name(asked.topic_id)
        if name is not None and not context.may(DESCRIBE_TOPIC, name):
            by_id = asked.topic_id if asked.name is None else NO_TOPIC_ID
            topics.append(_make_failed_topic(asked.name, by_id, ErrorCode.TOPIC_AUTHORIZATION_FAILED))
            continue
        known = cache.topics.get(name) if name is not None else None
        if known is not None:
            topics.append((yield from _make_topic(parts, known, context)))
        elif asked.name is None:
            topics.append(_make_failed_topic(None, asked.topic_id, ErrorCode.UNKNOWN_TOPIC_ID))
        else:
            missing.append(asked.name)
    return topics, missing


def _divide_missing(
    names: list[str], context: RequestContext
) -> Work[tuple[list[str], list[messages.metadata_response.MetadataResponseTopic]]]:
    """Return the topics that the caller may create, and the responses of the others."""
    if context.may(CREATE_CLUSTER, is_asked=False):
        return names, []
    allowed, refused = [], []
    for name in names:
        yield
        if context.may(CREATE_TOPIC, name):
            allowed.append(name)
        else:
            refused.append(_make_failed_topic(name, NO_TOPIC_ID, ErrorCode.TOPIC_AUTHORIZATION_FAILED))
    return allowed, refused


def _set_operations(
    topics: list[messages.metadata_response.MetadataResponseTopic], context: RequestContext
) -> Work[None]:
    for topic in topics:
        yield
        if topic.name is not None and topic.error_code != ErrorCode.TOPIC_AUTHORIZATION_FAILED:
            topic.topic_authorized_operations = context.authorized_operations(ResourceType.TOPIC, topic.name)


def _make_missing_topics(
    names: list[str], codes: dict[str, ErrorCode]
) -> Work[list[messages.metadata_response.MetadataResponseTopic]]:
    answers = []
    for name in names:
        yield
        answers.append(_make_failed_topic(name, NO_TOPIC_ID, codes[name]))
    return answers


def _make_failed_topic(
    name: str | None, topic_id: bytes, code: ErrorCode
) -> messages.metadata_response.MetadataResponseTopic:
    return messages.metadata_response.MetadataResponseTopic(
        name=name, topic_id=topic_id, error_code=code, topic_authorized_operations=UNKNOWN_OPERATIONS
    )


def _make_topic(
    parts: Parts, topic: TopicMetadata, context: RequestContext
) -> Work[messages.metadata_response.MetadataResponseTopic]:
    version, listener = context.api_version, context.listener
    partitions = []
    for index, partition in list(topic.partitions.items()):
        yield
        partitions.append(_make_partition(parts, index, partition, version, listener))
    return messages.metadata_response.MetadataResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.name in INTERNAL_TOPICS,
        topic_authorized_operations=UNKNOWN_OPERATIONS,
        partitions=partitions,
    )


def _make_partition(
    parts: Parts, index: int, partition: PartitionMetadata, version: int, listener: str
) -> messages.metadata_response.MetadataResponsePartition:
    cache, leader, code = parts.metadata, partition.leader, ErrorCode.NONE
    replicas, isr = partition.replicas, partition.isr
    if version == 0:
        replicas, isr = _find_reachable(cache, replicas, listener), _find_reachable(cache, isr, listener)
        if len(replicas) < len(partition.replicas) or len(isr) < len(partition.isr):
            code = ErrorCode.REPLICA_NOT_AVAILABLE
    if cache.endpoint(leader, listener) is None:
        listed = cache.is_alive(leader) and version >= 6
        code = ErrorCode.LISTENER_NOT_FOUND if listed else ErrorCode.LEADER_NOT_AVAILABLE
        leader = NO_BROKER
    return messages.metadata_response.MetadataResponsePartition(
        error_code=code,
        partition_index=index,
        leader_id=leader,
        leader_epoch=partition.leader_epoch,
        replica_nodes=replicas,
        isr_nodes=isr,
        offline_replicas=partition.offline_replicas,
    )


def _find_reachable(cache: MetadataCache, brokers: list[BrokerId], listener: str) -> list[BrokerId]:
    """Return those of `brokers` that are listed in the response.

    Clients that ask in version 0 look each replica up in that list, and fail where one is missing.
    """
    return [each for each in brokers if cache.endpoint(each, listener) is not None]


APIS: Final = (serve_api(ApiKey.METADATA, 0, 12, metadata, failure=FailedItems()),)
