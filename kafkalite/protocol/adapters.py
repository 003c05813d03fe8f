"""Versions whose structure really changed: from the old structure to the newest after reading, and back before writing.

`upgrade` and `downgrade` work in place on the unified message, which has the fields of both structures. Everything that only
gained or lost a field needs no adapter. An upgrade is done in steps, each of which tells first how much memory it takes: a long message
is a stranger's, and is not turned into another one in one go.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, TypeAlias, TypeVar

from kafkalite.errors import ProtocolViolation
from kafkalite.protocol import messages
from kafkalite.protocol.bounds import ITEM_BYTES, LIST_BYTES

Upgrade: TypeAlias = Callable[[Any, int], Iterable[int]]
"""Each step yields the bytes that it is going to take."""
Downgrade: TypeAlias = Callable[[Any, int], None]
_AdapterT = TypeVar("_AdapterT")


def upgrade(api_name: str, direction: str, version: int) -> Upgrade | None:
    """Return the upgrade to the newest structure for a message that was read in `version`; None where none is needed."""
    return _find(_UPGRADES, api_name, direction, version)


def downgrade(api_name: str, direction: str, version: int) -> Downgrade | None:
    """Return the downgrade to the old structure for a message to be written in `version`; None where none is needed."""
    return _find(_DOWNGRADES, api_name, direction, version)


def _find(table: dict[str, tuple[int, _AdapterT]], api_name: str, direction: str, version: int) -> _AdapterT | None:
    below, adapter = table.get(f"{api_name}_{direction}", (0, None))
    return adapter if version < below else None


# FindCoordinator 4: a list of keys instead of one (KIP-699)


def _find_coordinator_request_up(request: Any, _: int) -> Iterable[int]:
    request.coordinator_keys = [request.key]
    return ()


def _find_coordinator_request_down(request: Any, _: int) -> None:
    (request.key,) = request.coordinator_keys


def _find_coordinator_response_up(response: Any, _: int) -> Iterable[int]:
    response.coordinators = [
        messages.find_coordinator_response.Coordinator(
            node_id=response.node_id,
            host=response.host,
            port=response.port,
            error_code=response.error_code,
            error_message=response.error_message,
        )
    ]
    return ()


def _find_coordinator_response_down(response: Any, _: int) -> None:
    (found,) = response.coordinators
    response.node_id, response.host, response.port = found.node_id, found.host, found.port
    response.error_code, response.error_message = found.error_code, found.error_message


# OffsetFetch 8: a list of groups instead of one (KIP-709)


def _offset_fetch_request_up(request: Any, _: int) -> Iterator[int]:
    m = messages.offset_fetch_request
    group = m.OffsetFetchRequestGroup(group_id=request.group_id, topics=request.topics)
    request.groups = [group]
    if request.topics:
        group.topics = []
        for topic in request.topics:
            yield ITEM_BYTES
            group.topics.append(m.OffsetFetchRequestTopics(name=topic.name, partition_indexes=topic.partition_indexes))


def _offset_fetch_request_down(request: Any, _: int) -> None:
    m = messages.offset_fetch_request
    (group,) = request.groups
    request.group_id = group.group_id
    request.topics = group.topics and [
        m.OffsetFetchRequestTopic(name=t.name, partition_indexes=t.partition_indexes) for t in group.topics
    ]


def _copy_fields(source: Any, target: type) -> Any:
    """Return an object of class `target` with the fields that both have."""
    made = target()
    for field in made.FIELDS:
        if hasattr(source, field.name):
            setattr(made, field.name, getattr(source, field.name))
    return made


def _offset_fetch_response_up(response: Any, _: int) -> Iterator[int]:
    m = messages.offset_fetch_response
    topics: list[Any] = []
    response.groups = [m.OffsetFetchResponseGroup(topics=topics, error_code=response.error_code)]
    for topic in response.topics:
        yield ITEM_BYTES + LIST_BYTES
        made = m.OffsetFetchResponseTopics(name=topic.name)
        topics.append(made)
        for partition in topic.partitions:
            yield ITEM_BYTES
            made.partitions.append(_copy_fields(partition, m.OffsetFetchResponsePartitions))


def _offset_fetch_response_down(response: Any, version: int) -> None:
    m = messages.offset_fetch_response
    (group,) = response.groups
    response.error_code = group.error_code
    # The partitions have the same fields; there may be very many, so they are not copied.
    response.topics = [m.OffsetFetchResponseTopic(name=t.name, partitions=t.partitions) for t in group.topics]
    if version < 2 and group.error_code:  # no error of the whole request yet
        for topic in response.topics:
            for partition in topic.partitions:
                partition.error_code = group.error_code


# LeaveGroup 3: a list of members instead of one (KIP-345)


def _leave_group_request_up(request: Any, _: int) -> Iterable[int]:
    request.members = [messages.leave_group_request.MemberIdentity(member_id=request.member_id)]
    return ()


def _leave_group_request_down(request: Any, _: int) -> None:
    (member,) = request.members
    request.member_id = member.member_id


def _leave_group_response_down(response: Any, _: int) -> None:
    """Make the only member's error the error of the request."""
    if not response.error_code and response.members:
        response.error_code = response.members[0].error_code


# DeleteTopics 6: topics by name or id instead of names (KIP-516)


def _delete_topics_request_up(request: Any, _: int) -> Iterator[int]:
    state = messages.delete_topics_request.DeleteTopicState
    request.topics = []
    for name in request.topic_names:
        yield ITEM_BYTES
        request.topics.append(state(name=name))


def _delete_topics_request_down(request: Any, _: int) -> None:
    request.topic_names = [topic.name for topic in request.topics]


# AlterPartition 3: ISR members with their epochs (KIP-903)


def _alter_partition_request_up(request: Any, _: int) -> Iterator[int]:
    state = messages.alter_partition_request.BrokerState
    for topic in request.topics:
        for partition in topic.partitions:
            partition.new_isr_with_epochs = []
            for broker in partition.new_isr:
                yield ITEM_BYTES
                partition.new_isr_with_epochs.append(state(broker_id=broker))


def _alter_partition_request_down(request: Any, _: int) -> None:
    for topic in request.topics:
        for partition in topic.partitions:
            partition.new_isr = [member.broker_id for member in partition.new_isr_with_epochs]


# LeaderAndIsr 2, UpdateMetadata 5: partitions grouped by topic; LeaderAndIsr 5 answers by topic id


def _by_topic(request: Any, topic_state: type) -> Iterator[int]:
    request.topic_states = []
    grouped: dict[str, Any] = {}
    for item in request.ungrouped_partition_states:
        if item.topic_name in grouped:
            yield _PLACE_BYTES
        else:
            yield ITEM_BYTES + LIST_BYTES
            grouped[item.topic_name] = topic_state(topic_name=item.topic_name)
            request.topic_states.append(grouped[item.topic_name])
        grouped[item.topic_name].partition_states.append(item)


_PLACE_BYTES: Final = 9
"""In a list that grows."""


def _ungroup(topic_states: list[Any]) -> list[Any]:
    flat = []
    for topic in topic_states:
        for state in topic.partition_states:
            state.topic_name = topic.topic_name
            flat.append(state)
    return flat


def _leader_and_isr_request_up(request: Any, _: int) -> Iterator[int]:
    return _by_topic(request, messages.leader_and_isr_request.TopicState)


def _update_metadata_request_up(request: Any, version: int) -> Iterator[int]:
    yield from _by_topic(request, messages.update_metadata_request.TopicState)
    endpoint = messages.update_metadata_request.Endpoint
    for broker in request.live_brokers:
        yield ITEM_BYTES
        if version == 0:
            broker.endpoints = [endpoint(host=broker.v0_host, port=broker.v0_port)]
        for each in broker.endpoints if version < 3 else []:
            each.listener = security_protocol_name(each.security_protocol)


SECURITY_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
"""Names by the number that UpdateMetadata carries."""


LEADER_DURING_DELETE = -2
"""Leader in an UpdateMetadata for a partition whose topic is being deleted."""


def security_protocol_name(number: int) -> str:
    """Return the name that an UpdateMetadata means. ProtocolViolation when there is none of that number."""
    if not 0 <= number < len(SECURITY_PROTOCOLS):
        raise ProtocolViolation(f"security protocol {number}; known are 0 to {len(SECURITY_PROTOCOLS) - 1}")
    return SECURITY_PROTOCOLS[number]


def _update_metadata_request_down(request: Any, _: int) -> None:
    request.ungrouped_partition_states = _ungroup(request.topic_states)
    for broker in request.live_brokers:
        if broker.endpoints:
            broker.v0_host, broker.v0_port = broker.endpoints[0].host, broker.endpoints[0].port


def _leader_and_isr_request_down(request: Any, _: int) -> None:
    request.ungrouped_partition_states = _ungroup(request.topic_states)


# StopReplica 3: partition states with their own delete flag


def _stop_replica_request_up(request: Any, version: int) -> Iterator[int]:
    m = messages.stop_replica_request
    topics: dict[str, list[int]] = {}
    for each in request.ungrouped_partitions if version == 0 else ():
        yield ITEM_BYTES
        topics.setdefault(each.topic_name, []).append(each.partition_index)
    for each in request.topics if version else ():
        yield ITEM_BYTES
        topics[each.name] = each.partition_indexes
    request.topic_states = []
    for name, indexes in topics.items():
        yield ITEM_BYTES + LIST_BYTES
        topic = m.TopicState(topic_name=name)
        request.topic_states.append(topic)
        for index in indexes:
            yield ITEM_BYTES
            topic.partition_states.append(
                m.PartitionState(partition_index=index, delete_partition=request.delete_partitions)
            )


def _stop_replica_request_down(request: Any, _: int) -> None:
    """Take the delete flag of the request from its partitions, which agree: the sender splits requests of old versions."""
    m = messages.stop_replica_request
    states = [(topic.topic_name, state) for topic in request.topic_states for state in topic.partition_states]
    request.delete_partitions = bool(states) and states[0][1].delete_partition
    request.ungrouped_partitions = [
        m.UngroupedPartition(topic_name=name, partition_index=state.partition_index) for name, state in states
    ]
    request.topics = [
        m.Topic(name=topic.topic_name, partition_indexes=[state.partition_index for state in topic.partition_states])
        for topic in request.topic_states
    ]


_UPGRADES: dict[str, tuple[int, Upgrade]] = {
    "find_coordinator_request": (4, _find_coordinator_request_up),
    "find_coordinator_response": (4, _find_coordinator_response_up),
    "offset_fetch_request": (8, _offset_fetch_request_up),
    "offset_fetch_response": (8, _offset_fetch_response_up),
    "leave_group_request": (3, _leave_group_request_up),
    "delete_topics_request": (6, _delete_topics_request_up),
    "alter_partition_request": (3, _alter_partition_request_up),
    "leader_and_isr_request": (2, _leader_and_isr_request_up),
    "update_metadata_request": (5, _update_metadata_request_up),
    "stop_replica_request": (3, _stop_replica_request_up),
}

_DOWNGRADES: dict[str, tuple[int, Downgrade]] = {
    "find_coordinator_request": (4, _find_coordinator_request_down),
    "find_coordinator_response": (4, _find_coordinator_response_down),
    "offset_fetch_request": (8, _offset_fetch_request_down),
    "offset_fetch_response": (8, _offset_fetch_response_down),
    "leave_group_request": (3, _leave_group_request_down),
    "leave_group_response": (3, _leave_group_response_down),
    "delete_topics_request": (6, _delete_topics_request_down),
    "alter_partition_request": (3, _alter_partition_request_down),
    "leader_and_isr_request": (2, _leader_and_isr_request_down),
    "update_metadata_request": (5, _update_metadata_request_down),
    "stop_replica_request": (3, _stop_replica_request_down),
}
