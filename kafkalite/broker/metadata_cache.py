"""What this broker knows of the cluster, as the controller's UpdateMetadata requests said; one owner, no I/O.

The set of live brokers and the controller id are replaced by every request, partitions are merged (spec: UpdateMetadata). Handlers that
must wait for a change (topic creation, deletion, elections) use `wait_until`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from kafkalite.change_signal import ChangeSignal
from kafkalite.protocol.adapters import security_protocol_name
from kafkalite.types import NO_BROKER, NO_TOPIC_ID, BrokerId, Endpoint, TopicPartition

_FIRST_METADATA_S = 10.0
DELETED_LEADER = -2
"""The leader in an UpdateMetadata that says a partition is being deleted."""


@dataclass(frozen=True, slots=True)
class Broker:
    """A live broker, its endpoints by listener name."""

    broker_id: BrokerId
    endpoints: dict[str, Endpoint]
    rack: str | None = None


@dataclass(slots=True)
class PartitionMetadata:
    leader: BrokerId
    leader_epoch: int
    isr: list[BrokerId]
    replicas: list[BrokerId]
    offline_replicas: list[BrokerId]
    partition_epoch: int
    controller_epoch: int


@dataclass(slots=True)
class TopicMetadata:
    name: str
    topic_id: bytes = NO_TOPIC_ID
    partitions: dict[int, PartitionMetadata] = field(default_factory=dict)


class MetadataCache:
    """See the module."""

    def __init__(self) -> None:
        self.controller_id: BrokerId = NO_BROKER
        self.controller_epoch = 0
        self.brokers: dict[BrokerId, Broker] = {}
        self.topics: dict[str, TopicMetadata] = {}
        self._names: dict[bytes, str] = {}
        self._changes = ChangeSignal()
        self.version = 0
        """Grows with every change, so that answers made from the cache can be kept until it does."""

    def topic_name(self, topic_id: bytes) -> str | None:
        return self._names.get(topic_id)

    def partition(self, topic_partition: TopicPartition) -> PartitionMetadata | None:
        topic = self.topics.get(topic_partition.topic)
        return topic.partitions.get(topic_partition.partition) if topic else None

    def is_alive(self, broker_id: BrokerId) -> bool:
        return broker_id in self.brokers

    def endpoint(self, broker_id: BrokerId, listener: str) -> Endpoint | None:
        broker = self.brokers.get(broker_id)
        return broker.endpoints.get(listener) if broker else None

    def apply(self, request: Any) -> list[TopicPartition]:
        """Take an UpdateMetadata request; returns the partitions that left the cache."""
        brokers = {each.id: _broker(each) for each in request.live_brokers}
        self.version += 1
        self.controller_id = request.controller_id
        self.controller_epoch = request.controller_epoch
        self.brokers = brokers
        removed: list[TopicPartition] = []
        for state in request.topic_states:
            self._apply_topic(state, removed)
        self._changes.changed()
        return removed

    def _apply_topic(self, state: Any, removed: list[TopicPartition]) -> None:
        topic = self.topics.get(state.topic_name)
        if topic is None:
            topic = self.topics[state.topic_name] = TopicMetadata(state.topic_name)
        if topic.topic_id != state.topic_id:
            self._names.pop(topic.topic_id, None)
            topic.topic_id = state.topic_id
        if topic.topic_id != NO_TOPIC_ID:
            self._names[topic.topic_id] = topic.name
        for each in state.partition_states:
            if each.leader == DELETED_LEADER:
                if topic.partitions.pop(each.partition_index, None) is not None:
                    removed.append(TopicPartition(topic.name, each.partition_index))
            else:
                topic.partitions[each.partition_index] = PartitionMetadata(
                    each.leader,
                    each.leader_epoch,
                    each.isr,
                    each.replicas,
                    each.offline_replicas,
                    each.zk_version,
                    each.controller_epoch,
                )
        if not topic.partitions:
            del self.topics[topic.name]
            self._names.pop(topic.topic_id, None)

    def has_leaders(self, topic: str, partitions: Iterable[int]) -> bool:
        """Does each of these partitions of the topic have a leader?"""
        known = self.topics.get(topic)
        return known is not None and all(
            (found := known.partitions.get(p)) is not None and found.leader >= 0 for p in partitions
        )

    async def wait_for_controller(self) -> None:
        """Until some controller has told of the cluster, so that nobody is shown an empty one; not for ever."""
        if self.version == 0 or self.controller_id < 0:
            await self.wait_until(lambda: self.controller_id >= 0, _FIRST_METADATA_S)

    async def wait_until(self, condition: Callable[[], bool], timeout_s: float) -> bool:
        """True as soon as `condition()` holds after some change, False when it does not in time."""
        return await self._changes.wait_until(condition, timeout_s)


def _broker(live: Any) -> Broker:
    endpoints = {
        each.listener: Endpoint(each.listener, each.host, each.port, security_protocol_name(each.security_protocol))
        for each in live.endpoints
    }
    return Broker(live.id, endpoints, live.rack)
