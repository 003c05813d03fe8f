"""The active controller's state of the cluster, as Kafka's ControllerContext: data and queries, no decisions and no I/O."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from kafkalite.controller.assignment import ReplicaAssignment
from kafkalite.controller.settings import ControllerSettings
from kafkalite.errors import InvariantBroken
from kafkalite.types import NO_TOPIC_ID, BrokerId, Endpoint, TopicPartition

if TYPE_CHECKING:
    from kafkalite.controller.known_metadata import KnownMetadata


class PartitionStatus(Enum):
    """The states of a partition; the values are Kafka's names in its state-change log."""

    NON_EXISTENT = "NonExistentPartition"
    NEW = "NewPartition"
    ONLINE = "OnlinePartition"
    OFFLINE = "OfflinePartition"

    __hash__ = object.__hash__  # members are compared by identity, and that of Enum is a call in Python


class ReplicaStatus(Enum):
    """The states of a replica; the values are Kafka's names in its state-change log."""

    NON_EXISTENT = "NonExistentReplica"
    NEW = "NewReplica"
    ONLINE = "OnlineReplica"
    OFFLINE = "OfflineReplica"
    DELETION_STARTED = "ReplicaDeletionStarted"
    DELETION_SUCCESSFUL = "ReplicaDeletionSuccessful"
    DELETION_INELIGIBLE = "ReplicaDeletionIneligible"

    __hash__ = object.__hash__


class PartitionAndReplica(NamedTuple):
    """One broker's copy of a partition."""

    partition: TopicPartition
    broker_id: BrokerId


@dataclass(slots=True)
class Leadership:
    """A partition's state znode; `partition_epoch` is the znode's version, `leader` may be NO_BROKER.

    `read_zxid` is the zxid of the znode's last write as of when it was read. Replaced and never changed, but not frozen, which takes four
    times as long to make.
    """

    leader: BrokerId
    leader_epoch: int
    isr: tuple[BrokerId, ...]
    controller_epoch: int
    partition_epoch: int = 0
    recovering: bool = False
    read_zxid: int = field(default=0, compare=False)

    def at_version(self, partition_epoch: int) -> Leadership:
        """Return the same state as another version of the znode has it; `replace` takes three times as long."""
        return Leadership(
            self.leader,
            self.leader_epoch,
            self.isr,
            self.controller_epoch,
            partition_epoch,
            self.recovering,
            self.read_zxid,
        )


@dataclass(frozen=True, slots=True)
class RegisteredBroker:
    """A registered broker; `epoch`, the czxid of its znode, differs for each incarnation (KIP-380)."""

    broker_id: BrokerId
    epoch: int
    endpoints: tuple[Endpoint, ...]
    rack: str | None = None
    features: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    version: int = field(default=0, compare=False)
    """Of the znode: another one tells that it was written since."""

    def endpoint(self, listener: str) -> Endpoint | None:
        return next((endpoint for endpoint in self.endpoints if endpoint.listener == listener), None)


@lru_cache(maxsize=10_000)
def _share_online(brokers: tuple[BrokerId, ...]) -> Mapping[BrokerId, ReplicaStatus]:
    return dict.fromkeys(brokers, ReplicaStatus.ONLINE)


@dataclass(slots=True)
class PartitionContext:
    """Assignment, leadership and states of one partition; partitions whose replicas are all online share their states."""

    topic_partition: TopicPartition
    assignment: ReplicaAssignment
    leadership: Leadership | None = None
    status: PartitionStatus = PartitionStatus.NON_EXISTENT
    replica_statuses: Mapping[BrokerId, ReplicaStatus] = field(default_factory=lambda: _share_online(()))
    """Replaced and never changed: `set_replica_statuses`."""

    def set_replica_statuses(self, statuses: Mapping[BrokerId, ReplicaStatus]) -> None:
        """Replace the states of all replicas."""
        are_online = all(status is ReplicaStatus.ONLINE for status in statuses.values())
        self.replica_statuses = _share_online(tuple(statuses)) if are_online else statuses

    @property
    def leader(self) -> BrokerId | None:
        """Return the leader's id, NO_BROKER when it has none; None when no leader was ever elected."""
        return None if self.leadership is None else self.leadership.leader


@dataclass(slots=True)
class Topic:
    """A topic and its partitions by index."""

    name: str
    topic_id: bytes
    partitions: dict[int, PartitionContext] = field(default_factory=dict)

    def topic_partitions(self) -> list[TopicPartition]:
        return [state.topic_partition for state in self.partitions.values()]


@dataclass(slots=True)
class Deletions:
    """Topics queued for deletion, those of them that cannot be deleted now, and those whose deletion has started."""

    queued: set[str] = field(default_factory=set)
    ineligible: set[str] = field(default_factory=set)
    started: set[str] = field(default_factory=set)

    def forget(self, topic: str) -> None:
        self.queued.discard(topic)
        self.ineligible.discard(topic)
        self.started.discard(topic)


class ClusterState:
    """Brokers, topics and partitions; owned by the controller's one task, others may read it between its awaits.

    Built by `failover` and dropped at resignation. Invariants: `replicas_on[b]` holds exactly the partitions whose assignment
    has b; `leaderless` exactly the partitions in status NEW or OFFLINE; `reassigning` exactly those under reassignment.
    """

    def __init__(self, controller_id: BrokerId, epoch: int, settings: ControllerSettings) -> None:
        self.controller_id = controller_id
        self.epoch = epoch
        self.settings = settings
        self.reason = "start"
        self.brokers: dict[BrokerId, RegisteredBroker] = {}
        self.shutting_down: set[BrokerId] = set()
        self.topics: dict[str, Topic] = {}
        self.topic_names: dict[bytes, str] = {}
        self.replicas_on: defaultdict[BrokerId, set[TopicPartition]] = defaultdict(set)
        self.offline_dir_replicas: defaultdict[BrokerId, set[TopicPartition]] = defaultdict(set)
        self.leader_and_isr_errors: defaultdict[BrokerId, dict[TopicPartition, int]] = defaultdict(dict)
        """Error codes of brokers' latest LeaderAndIsr responses, by broker and partition."""
        self.handed_over: dict[TopicPartition, BrokerId] = {}
        """Preferred leaders that stopped in good order, until they are in sync again."""
        self.leaderless: set[TopicPartition] = set()
        self.reassigning: set[TopicPartition] = set()
        self.deletions = Deletions()
        self.altered: dict[TopicPartition, None] = {}
        """Partitions with new ISRs from which something may follow, until the next `IsrsAltered`."""
        self.unpublished: dict[TopicPartition, None] = {}
        """Partitions whose metadata changed and waits for the next metadata for all brokers (`machines.request_batch`)."""
        self.published_brokers: dict[BrokerId, RegisteredBroker] = {}
        """The registered brokers as all of them were last sent."""
        self.metadata_window_is_open = False
        """True while metadata that can wait does, until a `MetadataWindowEnd` that finds none."""
        self.known_metadata: KnownMetadata | None = None
        """During the failover of a large cluster, what brokers have proven to know already."""

    # -- brokers

    @property
    def live_brokers(self) -> list[BrokerId]:
        """Return the registered brokers that are not shutting down, in order of id."""
        return sorted(broker for broker in self.brokers if broker not in self.shutting_down)

    def is_live(self, broker_id: BrokerId) -> bool:
        return broker_id in self.brokers and broker_id not in self.shutting_down

    def is_online(self, broker_id: BrokerId, partition: TopicPartition, *, with_shutting_down: bool = False) -> bool:
        """True if the replica can serve: its broker is live and its log directory is online."""
        if broker_id not in self.brokers or (broker_id in self.shutting_down and not with_shutting_down):
            return False
        offline = self.offline_dir_replicas.get(broker_id)
        return not offline or partition not in offline

    @property
    def has_offline_directories(self) -> bool:
        """True if a replica is offline on a broker that may be live."""
        return any(self.offline_dir_replicas.values())

    @property
    def sound_brokers(self) -> frozenset[BrokerId]:
        """Return the registered brokers without offline replicas."""
        return frozenset(broker for broker in self.brokers if not self.offline_dir_replicas.get(broker))

    def online_of(
        self, brokers: Iterable[BrokerId], partition: TopicPartition, *, with_shutting_down: bool = False
    ) -> tuple[BrokerId, ...]:
        """Return the members of `brokers` whose replica of `partition` is online, in their order."""
        return tuple(b for b in brokers if self.is_online(b, partition, with_shutting_down=with_shutting_down))

    def offline_replicas(self, partition: TopicPartition, replicas: Iterable[BrokerId]) -> list[BrokerId]:
        return [b for b in replicas if not self.is_online(b, partition, with_shutting_down=True)]

    # -- topics and partitions

    def add_topic(self, name: str, topic_id: bytes) -> Topic:
        topic = self.topics[name] = Topic(name, topic_id)
        if topic_id != NO_TOPIC_ID:
            self.topic_names[topic_id] = name
        return topic

    def set_topic_id(self, name: str, topic_id: bytes) -> None:
        self.topics[name].topic_id = topic_id
        self.topic_names[topic_id] = name

    def remove_topic(self, name: str) -> None:
        topic = self.topics.pop(name, None)
        if topic is None:
            return
        self.topic_names.pop(topic.topic_id, None)
        for partition, state in zip(topic.topic_partitions(), topic.partitions.values(), strict=True):
            self.leaderless.discard(partition)
            self.reassigning.discard(partition)
            self.handed_over.pop(partition, None)
            for broker in state.assignment.replicas:
                self.replicas_on[broker].discard(partition)
            for refused in self.leader_and_isr_errors.values():
                refused.pop(partition, None)
            for offline in self.offline_dir_replicas.values():
                offline.discard(partition)

    def find(self, partition: TopicPartition) -> PartitionContext | None:
        topic = self.topics.get(partition.topic)
        return None if topic is None else topic.partitions.get(partition.partition)

    def partition(self, partition: TopicPartition) -> PartitionContext:
        """Return the state of a known partition."""
        topic = self.topics.get(partition.topic)
        state = None if topic is None else topic.partitions.get(partition.partition)
        if state is None:
            raise InvariantBroken(f"the controller does not know partition {partition}")
        return state

    def partitions(self) -> Iterator[tuple[TopicPartition, PartitionContext]]:
        for topic in self.topics.values():
            for state in topic.partitions.values():
                yield state.topic_partition, state

    def leadership(self, partition: TopicPartition) -> Leadership | None:
        state = self.find(partition)
        return None if state is None else state.leadership

    def set_assignment(self, partition: TopicPartition, assignment: ReplicaAssignment) -> None:
        """Set the assignment of a new or known partition of a known topic."""
        partitions = self.topics[partition.topic].partitions
        state = partitions.get(partition.partition)
        if state is None:
            partitions[partition.partition] = PartitionContext(partition, assignment)
        else:
            for broker in state.assignment.replicas:
                self.replicas_on[broker].discard(partition)
            state.assignment = assignment
        for broker in assignment.replicas:
            self.replicas_on[broker].add(partition)
        if assignment.reassigning:
            self.reassigning.add(partition)
        else:
            self.reassigning.discard(partition)

    def set_status(self, partition: TopicPartition, status: PartitionStatus) -> None:
        self.partition(partition).status = status
        if status in (PartitionStatus.NEW, PartitionStatus.OFFLINE):
            self.leaderless.add(partition)
        else:
            self.leaderless.discard(partition)

    def set_statuses(
        self, partitions: Iterable[TopicPartition], status: PartitionStatus
    ) -> list[tuple[TopicPartition, PartitionStatus]]:
        """Set the status of many partitions; return those that they had before, in order."""
        before: list[tuple[TopicPartition, PartitionStatus]] = []
        for partition in partitions:
            state = self.partition(partition)
            before.append((partition, state.status))
            state.status = status
        changed = (partition for partition, _ in before)
        if status in (PartitionStatus.NEW, PartitionStatus.OFFLINE):
            self.leaderless.update(changed)
        elif self.leaderless:
            self.leaderless.difference_update(changed)
        return before

    def replica_status(self, replica: PartitionAndReplica) -> ReplicaStatus:
        state = self.find(replica.partition)
        if state is None:
            return ReplicaStatus.NON_EXISTENT
        return state.replica_statuses.get(replica.broker_id, ReplicaStatus.NON_EXISTENT)

    def replicas_of_topic(self, topic: str) -> list[PartitionAndReplica]:
        known = self.topics.get(topic)
        if known is None:
            return []
        return [
            PartitionAndReplica(state.topic_partition, broker)
            for state in known.partitions.values()
            for broker in state.assignment.replicas
        ]

    def replicas_of_brokers(self, brokers: Collection[BrokerId]) -> list[PartitionAndReplica]:
        """Return every replica on these brokers, sorted by broker and partition."""
        return [
            PartitionAndReplica(partition, broker)
            for broker in sorted(brokers)
            for partition in sorted(self.replicas_on.get(broker, ()))
        ]

    # -- deletion

    def is_queued_for_deletion(self, topic: str) -> bool:
        return topic in self.deletions.queued
