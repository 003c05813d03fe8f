"""What this broker knows of the cluster, as the controller's UpdateMetadata requests said; one owner, no I/O.

The set of live brokers and the controller id are replaced by every request, partitions are merged. Handlers that
must wait for a change (topic creation, deletion, elections) use `wait_until`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from kafkalite.change_signal import ChangeSignal
from kafkalite.controller.control_requests import (
    LiveBroker,
    PartitionMetadata,
    UpdateMetadata,
    UpdateMetadataTopic,
)
from kafkalite.types import NO_BROKER, NO_TOPIC_ID, BrokerId, Endpoint, TopicPartition

_FIRST_METADATA_S = 10.0


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
        self.brokers: dict[BrokerId, LiveBroker] = {}
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

    def apply(self, update: UpdateMetadata) -> list[TopicPartition]:
        """Take what the controller tells; returns the partitions that left the cache."""
        self.version += 1
        self.controller_id = update.controller_id
        self.controller_epoch = update.controller_epoch
        self.brokers = {broker.broker_id: broker for broker in update.brokers}
        removed: list[TopicPartition] = []
        for topic in update.topics:
            self._apply_topic(topic, removed)
        self._changes.changed()
        return removed

    def _apply_topic(self, told: UpdateMetadataTopic, removed: list[TopicPartition]) -> None:
        topic = self.topics.get(told.name)
        if topic is None:
            topic = self.topics[told.name] = TopicMetadata(told.name)
        if topic.topic_id != told.topic_id:
            self._names.pop(topic.topic_id, None)
            topic.topic_id = told.topic_id
        if topic.topic_id != NO_TOPIC_ID:
            self._names[topic.topic_id] = topic.name
        topic.partitions.update(told.partitions)
        for index in told.deleted:
            if topic.partitions.pop(index, None) is not None:
                removed.append(TopicPartition(topic.name, index))
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
