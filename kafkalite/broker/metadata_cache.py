"""The cluster's metadata on this broker, from the controller's UpdateMetadata requests; one owner, no I/O.

The set of live brokers and the controller id are replaced by every request, partitions are merged. Handlers that
must wait for a change (topic creation, deletion, elections) use `wait_until`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from kafkalite.broker.shared_states import SharedStates
from kafkalite.change_signal import ChangeSignal
from kafkalite.controller.control_requests import (
    LeaderAndIsrPartition,
    LiveBroker,
    PartitionMetadata,
    UpdateMetadata,
)
from kafkalite.portions import Work, in_one_go
from kafkalite.types import NO_BROKER, NO_TOPIC_ID, BrokerId, Endpoint, TopicPartition

_FIRST_METADATA_S = 10.0
_FORMER_IDS_KEPT = 10_000


@dataclass(slots=True)
class TopicMetadata:
    name: str
    topic_id: bytes = NO_TOPIC_ID
    partitions: dict[int, PartitionMetadata] = field(default_factory=dict)


class MetadataCache:
    """Brokers, topics and partition leaders as the controller last sent them, with the requests that wait for a change."""

    def __init__(self) -> None:
        self.controller_id: BrokerId = NO_BROKER
        self.controller_epoch = 0
        self.brokers: dict[BrokerId, LiveBroker] = {}
        self.topics: dict[str, TopicMetadata] = {}
        self.shared = SharedStates()
        self._told_brokers: Sequence[LiveBroker] = ()
        self._names: dict[bytes, str] = {}
        self._former_ids: dict[bytes, int] = {}
        """Ids of topics that were deleted or created again, with the epoch of the controller that sent that."""
        self._changes = ChangeSignal()
        self.version = 0
        """Grows with every change, so that answers made from the cache can be kept until it does."""
        self.expects_topics = False
        """True until topics arrive on a broker that has logs, so that there are topics: a new controller sends the brokers first."""

    def topic_name(self, topic_id: bytes) -> str | None:
        return self._names.get(topic_id)

    def is_former(self, topic_id: bytes, controller_epoch: int) -> bool:
        """True if this controller or a later one has deleted the topic of this id, so that a request that names it is out of date."""
        return self._former_ids.get(topic_id, -1) >= controller_epoch

    def partition(self, topic_partition: TopicPartition) -> PartitionMetadata | None:
        topic = self.topics.get(topic_partition.topic)
        return topic.partitions.get(topic_partition.partition) if topic else None

    def is_superseded(self, topic_id: bytes, state: LeaderAndIsrPartition) -> bool:
        """True if this state of a partition is older than what the cache has: a later leader epoch of the same topic is known.

        Without topic ids, a state that is new may belong to another topic of the same name.
        """
        topic = self.topics.get(state.topic_partition.topic)
        if topic is None or topic.topic_id != topic_id or (state.is_new and topic_id == NO_TOPIC_ID):
            return False
        known = topic.partitions.get(state.topic_partition.partition)
        return known is not None and state.leader_epoch < known.leader_epoch

    def is_alive(self, broker_id: BrokerId) -> bool:
        return broker_id in self.brokers

    def endpoint(self, broker_id: BrokerId, listener: str) -> Endpoint | None:
        broker = self.brokers.get(broker_id)
        return broker.endpoints.get(listener) if broker else None

    def apply(self, update: UpdateMetadata) -> list[TopicPartition]:
        """Apply an update at once, and return the partitions that left the cache."""
        return in_one_go(self.apply_in_portions(update))

    def apply_in_portions(self, update: UpdateMetadata) -> Work[list[TopicPartition]]:
        """Apply an update in portions, and return the partitions that left the cache.

        The cache changes with the last portion, as a whole. Only one update may be in progress.
        """
        told: dict[str, TopicMetadata] = {}
        removed: list[TopicPartition] = []
        former_ids: list[bytes] = []
        for each in update.topics:
            yield
            if self.is_former(each.topic_id, update.controller_epoch):
                continue
            topic = told.get(each.name)
            if topic is None:
                known = self.topics.get(each.name)
                topic = told[each.name] = (
                    TopicMetadata(each.name)
                    if known is None
                    else TopicMetadata(each.name, known.topic_id, dict(known.partitions))
                )
            if topic.topic_id != each.topic_id:
                if NO_TOPIC_ID not in (
                    topic.topic_id,
                    each.topic_id,
                ):  # another topic, whose partitions are all that there are
                    removed += [TopicPartition(topic.name, i) for i in topic.partitions if i not in each.partitions]
                    topic.partitions.clear()
                former_ids.append(topic.topic_id)
                topic.topic_id = each.topic_id
                topic.partitions.update(each.partitions)
            else:
                for index, state in each.partitions.items():
                    yield
                    if not self._is_outdated(topic.partitions.get(index), state, update.controller_epoch):
                        topic.partitions[index] = state
            for index in each.deleted:
                yield
                if topic.partitions.pop(index, None) is not None:
                    removed.append(TopicPartition(topic.name, index))
        names: dict[bytes, str] = {}
        gone: list[TopicMetadata] = []
        for name, topic in told.items():
            yield
            if not topic.partitions:
                gone.append(topic)
            elif topic.topic_id != NO_TOPIC_ID:
                names[topic.topic_id] = name
        self._show(update, told, former_ids, names, gone)
        return removed

    def _is_outdated(self, known: PartitionMetadata | None, state: PartitionMetadata, controller_epoch: int) -> bool:
        """True if the same controller has sent a later state already.

        That is so for a request that the controller gave up waiting for and that this broker applies behind newer ones.
        """
        return (
            known is not None
            and controller_epoch == self.controller_epoch
            and (state.leader_epoch, state.partition_epoch) < (known.leader_epoch, known.partition_epoch)
        )

    def _show(
        self,
        update: UpdateMetadata,
        told: dict[str, TopicMetadata],
        former_ids: list[bytes],
        names: dict[bytes, str],
        gone: list[TopicMetadata],
    ) -> None:
        self.version += 1
        self.controller_id = update.controller_id
        self.controller_epoch = update.controller_epoch
        if update.brokers is not self._told_brokers:  # requests that name the same brokers share the list
            self._told_brokers = update.brokers
            self.brokers = {broker.broker_id: broker for broker in update.brokers}
        self.topics.update(told)
        for topic_id in former_ids:
            self._forget_id(topic_id)
        for topic in gone:
            del self.topics[topic.name]
            self._forget_id(topic.topic_id)
        self._names.update(names)
        if self.topics:
            self.expects_topics = False
        self._changes.notify()

    def _forget_id(self, topic_id: bytes) -> None:
        self._names.pop(topic_id, None)
        if topic_id != NO_TOPIC_ID:
            self._former_ids.pop(topic_id, None)
            self._former_ids[topic_id] = self.controller_epoch
            if len(self._former_ids) > _FORMER_IDS_KEPT:
                del self._former_ids[next(iter(self._former_ids))]

    def has_leaders(self, topic: str, partitions: Iterable[int]) -> bool:
        """True if each of these partitions of the topic has a leader."""
        known = self.topics.get(topic)
        return known is not None and all(
            (found := known.partitions.get(p)) is not None and found.leader >= 0 for p in partitions
        )

    async def wait_for_controller(self) -> None:
        """Wait, with a bound, for the first metadata of a controller, so that no client is shown an empty cluster."""
        if self.version == 0 or self.controller_id < 0 or self.expects_topics:
            await self.wait_until(lambda: self.controller_id >= 0 and not self.expects_topics, _FIRST_METADATA_S)
            self.expects_topics = False  # they were deleted while this broker was away

    async def wait_until(self, condition: Callable[[], bool], timeout_s: float) -> bool:
        """True as soon as `condition()` holds after some change, False when it does not in time."""
        return await self._changes.wait_until(condition, timeout_s)
