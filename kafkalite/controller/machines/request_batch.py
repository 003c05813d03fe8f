"""Batches of state changes, sent as at most three requests to each broker (Kafka's ControllerBrokerRequestBatch).

The order for one broker is LeaderAndIsr, UpdateMetadata, StopReplica: a broker must lead or follow before clients are sent to
it, and clients must be sent elsewhere before a replica stops. Every partition in a LeaderAndIsr is also in an UpdateMetadata for
all registered brokers. Requests for brokers that are not registered are dropped; each carries the epoch of the registered
incarnation, so a later one refuses it.

Metadata can wait that nobody waits for, because it names no other leader, leader epoch or living broker: ISRs, replicas that came back,
brokers that had handed over what they led before they stopped. It is sent at once if none was for `_WINDOW_S`, else together when that time
has passed, or with the next metadata for all brokers. A restarted broker joins the ISRs of its partitions one by one, as their
leaders propose it, and each would be a request for every broker.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Final, TypeVar

from kafkalite.controller import events
from kafkalite.controller.assignment import ReplicaAssignment
from kafkalite.controller.cluster_state import (
    ClusterState,
    Leadership,
    RegisteredBroker,
    ReplicaStatus,
    Topic,
)
from kafkalite.controller.control_requests import (
    EPOCH_DURING_DELETE,
    NO_EPOCH,
    Command,
    LeaderAndIsr,
    LeaderAndIsrPartition,
    LeaderAndIsrTopic,
    LiveBroker,
    PartitionMetadata,
    StopReplica,
    StopReplicaPartition,
    UpdateMetadata,
    UpdateMetadataTopic,
)
from kafkalite.controller.steps import Pause, QueueLater, Steps, finish_with_pauses, pieces, publish
from kafkalite.portions import Work, in_one_go
from kafkalite.types import BrokerId, Endpoint, TopicPartition

T = TypeVar("T")

_FULL: Final = 5_000
"""Partitions after which a batch is full. Its requests have 250 kB, and 2 MB where each partition is in a topic of its own with the longest
name, far below socket.request.max.bytes. A receiver applies them in portions, within controller.socket.timeout.ms where the disk takes 5 ms
for each new log, and clients learn of no partition of the batch before the receiver has applied all of it."""


_WINDOW_S: Final = 0.1
"""Time between two publications of metadata that can wait. Leaders before Kafka 2.7 told the controller of ISR changes every 2.5 s."""


class RequestBatch:
    """Collects the changes of one step; `commands` builds the requests from the state at that time."""

    def __init__(self, cluster: ClusterState) -> None:
        self._cluster = cluster
        self._leader_and_isr: defaultdict[BrokerId, dict[TopicPartition, bool]] = defaultdict(dict)
        self._metadata: dict[TopicPartition, None] = {}
        self._metadata_brokers: set[BrokerId] = set()
        self._is_for_all = False
        """True if metadata is for all registered brokers."""
        self._waiting: dict[TopicPartition, None] | None = None
        """Partitions whose metadata for all brokers can wait; None if there is none, not even of brokers."""
        self._stop: defaultdict[BrokerId, dict[TopicPartition, bool]] = defaultdict(dict)
        self._stops = 0
        self._described: dict[tuple[object, ...], PartitionMetadata] = {}

    def leader_and_isr(
        self,
        brokers: Iterable[BrokerId],
        partition: TopicPartition,
        *,
        is_new: bool = False,
        metadata_can_wait: bool = False,
    ) -> None:
        """Add LeaderAndIsr of a partition for these replicas, and UpdateMetadata for all brokers."""
        state = self._cluster.find(partition)
        statuses: Mapping[BrokerId, ReplicaStatus] = {} if state is None else state.replica_statuses
        for broker in brokers:
            self._add_role(broker, partition, is_new=is_new or statuses.get(broker) is ReplicaStatus.NEW)
        self.update_metadata((partition,), can_wait=metadata_can_wait)

    def _add_role(self, broker: BrokerId, partition: TopicPartition, *, is_new: bool) -> None:
        if broker in self._cluster.brokers:
            wanted = self._leader_and_isr[broker]
            wanted[partition] = is_new or wanted.get(partition, False)

    def add_roles(self, broker: BrokerId, partitions: Iterable[TopicPartition]) -> None:
        """Add LeaderAndIsr of old replicas on a broker, without their UpdateMetadata, which is to be added for many at once."""
        if broker in self._cluster.brokers:
            self._leader_and_isr[broker] = dict.fromkeys(partitions, False) | self._leader_and_isr[broker]

    def update_metadata(
        self,
        partitions: Iterable[TopicPartition],
        brokers: Collection[BrokerId] | None = None,
        *,
        can_wait: bool = False,
    ) -> None:
        """Add UpdateMetadata of partitions and of the list of brokers for `brokers`, None for all registered ones.

        That for all brokers may be one that `can_wait`.
        """
        if can_wait:
            if self._waiting is None:
                self._waiting = {}
            self._waiting.update(dict.fromkeys(partitions))
            return
        self._is_for_all = self._is_for_all or brokers is None
        self._metadata_brokers.update(self._cluster.brokers if brokers is None else brokers)
        self._metadata.update(dict.fromkeys(partitions))

    def stop_replica(self, broker: BrokerId, partition: TopicPartition, *, delete: bool) -> None:
        """Add StopReplica of a replica, which is deleted if any of the calls for it has `delete`."""
        self._stop[broker][partition] = delete or self._stop[broker].get(partition, False)
        self._stops += 1

    @property
    def is_full(self) -> bool:
        """True if the batch should be published before more is added."""
        return len(self._metadata) + len(self._waiting or ()) + self._stops >= _FULL

    def commands(self) -> list[Command]:
        """Build the requests, those of each broker in the order of sending."""
        return in_one_go(self._commands())

    def publish(self) -> Steps[None]:
        """Build the requests as `commands` does, with pauses for the event loop if there is much, and send them.

        Metadata that can wait is left to the end of the window if one is open.
        """
        cluster = self._cluster
        if self._waiting is not None:
            cluster.unpublished.update(self._waiting)
            is_new = bool(cluster.unpublished) or cluster.brokers != cluster.published_brokers
            if is_new and not self._is_for_all and not cluster.metadata_window_is_open:
                self.update_metadata(())
                cluster.metadata_window_is_open = True
                yield QueueLater(_WINDOW_S, events.MetadataWindowEnd())
        yield from publish((yield from finish_with_pauses(self._commands())))

    def _commands(self) -> Work[list[Command]]:
        roles = yield from self._leader_and_isr_commands()
        metadata = yield from self._update_metadata_commands()
        return [*roles, *metadata, *self._stop_replica_commands()]

    # -- LeaderAndIsr

    def _leader_and_isr_commands(self) -> Work[list[Command]]:
        """Build LeaderAndIsr; brokers that get the same, as where each hosts everything, share its objects, so they are encoded once."""
        commands: list[Command] = []
        states: tuple[dict[TopicPartition, LeaderAndIsrPartition], ...] = ({}, {})
        built: list[tuple[Mapping[TopicPartition, bool], list[LeaderAndIsrTopic], dict[BrokerId, Endpoint]]] = []
        for broker_id, wanted in self._leader_and_isr.items():
            broker = self._cluster.brokers.get(broker_id)
            if broker is None:
                continue
            same = next((each for each in built if each[0] == wanted), None)
            if same is None:
                topics = yield from self._role_topics(wanted, states)
                leaders = {state.leader for topic in topics for state in topic.partitions}
                same = wanted, topics, self._live_leaders(leaders)
                built.append(same)
            commands.append(Command(broker_id, LeaderAndIsr(*self._head(broker), *same[1:])))
        return commands

    def _role_topics(
        self,
        wanted: Mapping[TopicPartition, bool],
        built: Sequence[dict[TopicPartition, LeaderAndIsrPartition]],
    ) -> Work[list[LeaderAndIsrTopic]]:
        """Build the topics of a LeaderAndIsr; states that were `built` for other brokers, old or new replicas, are taken from there."""
        topics = []
        for topic, partitions in self._by_topic(wanted):
            states: list[LeaderAndIsrPartition] = []
            for partition in partitions:
                is_new = wanted[partition]
                state = built[is_new].get(partition)
                if state is None:
                    yield
                    known = topic.partitions.get(partition.partition)
                    if known is None or known.leadership is None:
                        continue
                    state = _leader_and_isr_partition(partition, known.assignment, known.leadership, is_new)
                    built[is_new][partition] = state
                states.append(state)
            if states:
                topics.append(LeaderAndIsrTopic(topic.name, topic.topic_id, states))
        return topics

    def _live_leaders(self, leaders: Iterable[BrokerId]) -> dict[BrokerId, Endpoint]:
        listener = self._cluster.settings.control_listener
        live = {}
        for leader in sorted(leaders):
            broker = self._cluster.brokers.get(leader)
            endpoint = None if broker is None else broker.endpoint(listener)
            if endpoint is not None:
                live[leader] = endpoint
        return live

    # -- UpdateMetadata

    def _update_metadata_commands(self) -> Work[list[Command]]:
        """Build UpdateMetadata; brokers that get the same share its objects, so they are built and encoded once.

        During a failover a broker is not sent what it has proven to know, and no request if that is everything.
        """
        if not self._metadata_brokers:
            return []
        cluster = self._cluster
        if self._is_for_all:
            waited = list(islice(cluster.unpublished, _FULL))
            self._metadata.update(dict.fromkeys(waited))
            for partition in waited:
                del cluster.unpublished[partition]
            cluster.published_brokers = dict(cluster.brokers)
        topics = []
        for topic, partitions in self._by_topic(self._metadata):
            metadata = yield from self._topic_metadata(topic, partitions)
            if metadata.partitions or metadata.deleted:
                topics.append(metadata)
        live = [
            LiveBroker(broker.broker_id, {each.listener: each for each in broker.endpoints}, broker.rack)
            for _, broker in sorted(cluster.brokers.items())
        ]
        receivers = [cluster.brokers[each] for each in sorted(self._metadata_brokers) if each in cluster.brokers]
        groups = [(receivers, topics)]
        if cluster.known_metadata is not None and topics:
            groups = yield from cluster.known_metadata.divide(topics, receivers)
        return [
            Command(broker.broker_id, UpdateMetadata(*self._head(broker), wanted, live))
            for group, wanted in groups
            for broker in group
            if wanted or not topics
        ]

    def _topic_metadata(self, topic: Topic, partitions: Iterable[TopicPartition]) -> Work[UpdateMetadataTopic]:
        """Build the metadata of a topic, without partitions that never had a leader."""
        cluster = self._cluster
        sound = cluster.sound_brokers
        known: dict[int, PartitionMetadata] = {}
        for partition in partitions:
            yield
            state = topic.partitions.get(partition.partition)
            if state is None or state.leadership is None:
                continue
            known[partition.partition] = self._describe(partition, state.leadership, state.assignment.replicas, sound)
        if cluster.is_queued_for_deletion(topic.name):
            return UpdateMetadataTopic(topic.name, topic.topic_id, {}, known)
        return UpdateMetadataTopic(topic.name, topic.topic_id, known)

    def _describe(
        self,
        partition: TopicPartition,
        leadership: Leadership,
        replicas: tuple[BrokerId, ...],
        sound: frozenset[BrokerId],
    ) -> PartitionMetadata:
        """Return the metadata of a partition, the same object for those in the same state, unless a directory of a replica is offline."""
        key = (
            leadership.leader,
            leadership.leader_epoch,
            leadership.partition_epoch,
            leadership.controller_epoch,
            leadership.isr,
            replicas,
        )
        known = self._described.get(key)
        if known is None:
            cluster = self._cluster
            known = PartitionMetadata(
                leadership.leader,
                leadership.leader_epoch,
                list(leadership.isr),
                list(replicas),
                [] if sound.issuperset(replicas) else cluster.offline_replicas(partition, replicas),
                leadership.partition_epoch,
                leadership.controller_epoch,
            )
            if not any(map(cluster.offline_dir_replicas.get, replicas)):
                self._described[key] = known
        return known

    # -- StopReplica

    def _stop_replica_commands(self) -> Iterable[Command]:
        for broker_id, wanted in self._stop.items():
            broker = self._cluster.brokers.get(broker_id)
            if broker is not None:
                yield Command(broker_id, self._stop_replica(broker, wanted))

    def _stop_replica(self, broker: RegisteredBroker, wanted: Mapping[TopicPartition, bool]) -> StopReplica:
        return StopReplica(
            *self._head(broker),
            {
                partition: StopReplicaPartition(self._stop_epoch(partition), wanted[partition])
                for partition in sorted(wanted)
            },
        )

    def _stop_epoch(self, partition: TopicPartition) -> int:
        if self._cluster.is_queued_for_deletion(partition.topic):
            return EPOCH_DURING_DELETE
        leadership = self._cluster.leadership(partition)
        return NO_EPOCH if leadership is None else leadership.leader_epoch

    # -- shared parts

    def _head(self, broker: RegisteredBroker) -> tuple[BrokerId, int, int]:
        return self._cluster.controller_id, self._cluster.epoch, broker.epoch

    def _by_topic(self, partitions: Iterable[TopicPartition]) -> Iterable[tuple[Topic, list[TopicPartition]]]:
        """Group partitions by topic, sorted, without those of unknown topics."""
        by_topic: defaultdict[str, list[TopicPartition]] = defaultdict(list)
        for partition in partitions:
            by_topic[partition.topic].append(partition)
        for name in sorted(by_topic):
            topic = self._cluster.topics.get(name)
            if topic is not None:
                yield topic, sorted(by_topic[name])


class GrowingBatches:
    """Publishes the changes of a long procedure in batches, each of twice as many pieces as the one before until a batch is full.

    With one batch for everything, brokers would be idle until the last partition is decided; with one for each piece, the live brokers
    would be repeated, and a response awaited, hundreds of times. A hundred thousand partitions take two dozen requests to each broker, and
    the first partitions are sent as early as if they were the only ones.
    """

    def __init__(self, cluster: ClusterState) -> None:
        self._cluster = cluster
        self.batch = RequestBatch(cluster)
        """Collects the changes of the piece in progress."""
        self._pieces, self._due = 0, 1

    def divide(self, items: Iterable[T]) -> Iterator[list[T]]:
        """Yield as many items as the next batch takes; `publish` it before the next ones. All that a batch changes is written together."""
        remaining = iter(items)
        while some := next(pieces(islice(remaining, _FULL), self._due), None):
            self._grow()
            yield some

    def end_piece(self) -> Steps[None]:
        """Publish the batch if it is large enough, and let the event loop run."""
        self._pieces += 1
        if self._pieces >= self._due or self.batch.is_full:
            self._grow()
            yield from self.publish()
        yield Pause()

    def _grow(self) -> None:
        """Let the next batch take twice as many pieces. No batch has more pieces than partitions, so `_FULL` bounds both."""
        self._due = min(self._due * 2, _FULL)

    def publish(self) -> Steps[None]:
        """Publish what is left at the end, or before something less urgent."""
        batch, self.batch, self._pieces = self.batch, RequestBatch(self._cluster), 0
        yield from batch.publish()


def publish_metadata(
    cluster: ClusterState, partitions: Iterable[TopicPartition] = (), *, can_wait: bool = False
) -> Steps[None]:
    """Send UpdateMetadata of partitions and of the list of brokers to all registered brokers."""
    batch = RequestBatch(cluster)
    batch.update_metadata(partitions, can_wait=can_wait)
    yield from batch.publish()


def end_metadata_window(cluster: ClusterState) -> Steps[None]:
    """Send what waited, and open the next window; without any, what comes next is sent at once."""
    cluster.metadata_window_is_open = False
    yield from publish_metadata(cluster, can_wait=True)
    while cluster.unpublished:  # more than one request may name
        yield Pause()
        yield from publish_metadata(cluster)


def _leader_and_isr_partition(
    partition: TopicPartition, assignment: ReplicaAssignment, leadership: Leadership, is_new: bool
) -> LeaderAndIsrPartition:
    return LeaderAndIsrPartition(
        partition,
        leadership.controller_epoch,
        leadership.leader,
        leadership.leader_epoch,
        leadership.partition_epoch,
        leadership.isr,
        assignment.replicas,
        assignment.adding,
        assignment.removing,
        is_new,
        leadership.recovering,
    )
