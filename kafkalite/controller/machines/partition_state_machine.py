"""The partition state machine (Kafka's ZkPartitionStateMachine): legal transitions, and the election of leaders.

| To           | From                | What happens                                                             |
|--------------|---------------------|--------------------------------------------------------------------------|
| New          | NonExistent         | memory only                                                              |
| Online       | New                 | first leader: the state znode is created, epoch 0, LeaderAndIsr `is_new`  |
| Online       | Online, Offline     | election: the state znode is rewritten, leader epoch + 1, LeaderAndIsr   |
| Offline      | New, Online, Offline| memory only                                                              |
| NonExistent  | Offline             | memory only                                                              |

An illegal transition is logged and skipped. A write that meets another version, and an election without a candidate, is
repeated after reading the state znode, because a leader may have changed its ISR meanwhile. Without a candidate nothing is
written and the partition keeps its state.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Sequence
from enum import Enum

from kafkalite.controller.assignment import ReplicaAssignment, share_brokers
from kafkalite.controller.cluster_state import ClusterState, Leadership, PartitionStatus
from kafkalite.controller.machines import state_change
from kafkalite.controller.machines.leadership_znodes import (
    create_leaderships,
    current_leaderships,
    read_topics_allowing_unclean,
    write_leaderships,
)
from kafkalite.controller.machines.request_batch import GrowingBatches, RequestBatch
from kafkalite.controller.steps import Pause, Steps, pieces
from kafkalite.errors import ErrorCode, KafkaError
from kafkalite.types import BrokerId, TopicPartition
from zk import election

logger = logging.getLogger(__name__)

ALLOWED_PREVIOUS: dict[PartitionStatus, frozenset[PartitionStatus]] = {
    PartitionStatus.NEW: frozenset({PartitionStatus.NON_EXISTENT}),
    PartitionStatus.ONLINE: frozenset({PartitionStatus.NEW, PartitionStatus.ONLINE, PartitionStatus.OFFLINE}),
    PartitionStatus.OFFLINE: frozenset({PartitionStatus.NEW, PartitionStatus.ONLINE, PartitionStatus.OFFLINE}),
    PartitionStatus.NON_EXISTENT: frozenset({PartitionStatus.OFFLINE}),
}


class Strategy(Enum):
    """The strategies of leader election; the values are Kafka's names, which its tools show."""

    OFFLINE = "OfflinePartitionLeaderElectionStrategy(false)"
    OFFLINE_UNCLEAN = "OfflinePartitionLeaderElectionStrategy(true)"
    REASSIGN = "ReassignPartitionLeaderElectionStrategy"
    PREFERRED = "PreferredReplicaPartitionLeaderElectionStrategy"
    CONTROLLED_SHUTDOWN = "ControlledShutdownPartitionLeaderElectionStrategy"


Failures = dict[TopicPartition, KafkaError]


def change_partition_states(
    cluster: ClusterState, partitions: Collection[TopicPartition], target: PartitionStatus
) -> None:
    """Move partitions to New, Offline or NonExistent, which is in memory only."""
    _set_states(cluster, _valid_changes(cluster, partitions, target), target)


def bring_partitions_online(
    cluster: ClusterState, partitions: Collection[TopicPartition], strategy: Strategy = Strategy.OFFLINE
) -> Steps[Failures]:
    """Elect a leader for each partition and send it to the brokers; return the errors by partition."""
    failures: Failures = {}
    requests = GrowingBatches(cluster)
    for some in requests.divide(partitions):
        failures |= yield from _elect_in(cluster, some, strategy, requests.batch)
        yield from requests.publish()
    return failures


def _elect_in(
    cluster: ClusterState, partitions: Collection[TopicPartition], strategy: Strategy, batch: RequestBatch
) -> Steps[Failures]:
    new: list[TopicPartition] = []
    others: list[TopicPartition] = []
    for some in pieces(partitions):
        for partition in _valid_changes(cluster, some, PartitionStatus.ONLINE):
            (new if cluster.partition(partition).status is PartitionStatus.NEW else others).append(partition)
        if len(partitions) > len(some):
            yield Pause()
    failures: Failures = {}
    for some in pieces(new):
        failures |= yield from _create_leaderships(cluster, some, batch)
    failures |= yield from _elect_leaders(cluster, others, strategy, batch)
    state_change.log_failed_elections(cluster, failures)
    return failures


def elect_missing_leaders(
    cluster: ClusterState, partitions: Collection[TopicPartition] | None = None
) -> Steps[Failures]:
    """Bring New and Offline partitions online (`partitions` limits them), except in topics queued for deletion."""
    wanted = _find_leaderless(cluster, partitions)
    return (yield from bring_partitions_online(cluster, wanted)) if wanted else {}


def elect_missing_leaders_in(
    cluster: ClusterState, partitions: Collection[TopicPartition], batch: RequestBatch
) -> Steps[None]:
    """Elect leaders as `elect_missing_leaders`, and add the requests to `batch` for the caller to publish."""
    wanted = _find_leaderless(cluster, partitions)
    if wanted:
        yield from _elect_in(cluster, wanted, Strategy.OFFLINE, batch)


def _find_leaderless(cluster: ClusterState, partitions: Collection[TopicPartition] | None) -> list[TopicPartition]:
    waiting = cluster.leaderless if partitions is None else cluster.leaderless.intersection(partitions)
    return sorted(p for p in waiting if not cluster.is_queued_for_deletion(p.topic))


def _valid_changes(
    cluster: ClusterState, partitions: Collection[TopicPartition], target: PartitionStatus
) -> list[TopicPartition]:
    valid = []
    for partition in partitions:
        state = cluster.find(partition)
        status = PartitionStatus.NON_EXISTENT if state is None else state.status
        if state is not None and status in ALLOWED_PREVIOUS[target]:
            valid.append(partition)
        else:
            state_change.log_failed_change(cluster, partition, status.value, target.value, "illegal transition")
    return valid


def _set_states(cluster: ClusterState, partitions: Collection[TopicPartition], target: PartitionStatus) -> None:
    state_change.log_partition_changes(cluster, cluster.set_statuses(partitions, target), target)


# -- New to Online


def _create_leaderships(
    cluster: ClusterState, partitions: Sequence[TopicPartition], batch: RequestBatch
) -> Steps[Failures]:
    failures: Failures = {}
    first: dict[TopicPartition, Leadership] = {}
    for partition in partitions:
        replicas = cluster.partition(partition).assignment.replicas
        chosen = election.new_partition(replicas, cluster.online_of(replicas, partition))
        if chosen is not None:
            first[partition] = Leadership(chosen.leader, 0, share_brokers(chosen.isr), cluster.epoch)
        else:
            failures[partition] = KafkaError(ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE, "no replica is online")
    errors = yield from create_leaderships(cluster, first)
    for partition, error in errors.items():
        del first[partition]
        failures[partition] = KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"state znode not created: {error!r}")
    for partition, leadership in first.items():
        cluster.partition(partition).leadership = leadership
        batch.leader_and_isr(leadership.isr, partition, is_new=True)
    _set_states(cluster, first, PartitionStatus.ONLINE)
    return failures


# -- elections


def _elect_leaders(
    cluster: ClusterState, partitions: Sequence[TopicPartition], strategy: Strategy, batch: RequestBatch
) -> Steps[Failures]:
    failures: Failures = {}
    fresh = not cluster.settings.inter_broker_protocol_version.alters_partitions
    remaining = list(partitions)
    while remaining:
        current = yield from current_leaderships(cluster, remaining, fresh=fresh)
        unclean = yield from _find_topics_allowing_unclean(cluster, current, strategy)
        elector = _Elector(cluster, strategy)
        chosen: dict[TopicPartition, Leadership] = {}
        recipients: dict[TopicPartition, tuple[BrokerId, ...]] = {}
        again: list[TopicPartition] = []
        for some in pieces(remaining):
            for partition in some:
                try:
                    chosen[partition], recipients[partition] = elector.choose_leader(
                        partition, current.get(partition), partition.topic in unclean
                    )
                except KafkaError as problem:
                    if fresh:
                        failures[partition] = problem.as_outcome()
                    else:
                        again.append(partition)  # the state in memory may be out of date
            if len(remaining) > len(some):
                yield Pause()
        outcome = yield from write_leaderships(chosen)
        for partition, error in outcome.failed.items():
            failures[partition] = KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"state znode not written: {error!r}")
        for written in pieces(outcome.written):
            for partition in written:
                cluster.partition(partition).leadership = outcome.written[partition]
                batch.leader_and_isr(recipients[partition], partition)
            _set_states(cluster, written, PartitionStatus.ONLINE)
            if len(outcome.written) > len(written):
                yield Pause()
        remaining, fresh = again + outcome.outdated, True
    return failures


def _find_topics_allowing_unclean(
    cluster: ClusterState, current: dict[TopicPartition, Leadership], strategy: Strategy
) -> Steps[Collection[str]]:
    """Return topics in which an unclean leader may be elected; settings are read only of those without a live ISR member."""
    if strategy is Strategy.OFFLINE_UNCLEAN:
        return {partition.topic for partition in current}
    if strategy is not Strategy.OFFLINE:
        return ()
    sound = cluster.sound_brokers - cluster.shutting_down
    hopeless = {
        partition.topic
        for partition, leadership in current.items()
        if sound.isdisjoint(leadership.isr) and not cluster.online_of(leadership.isr, partition)
    }
    return (yield from read_topics_allowing_unclean(cluster, sorted(hopeless)))


class _Elector:
    """Chooses leaders by one strategy while the state of the brokers does not change.

    Many partitions have the same replicas, ISR and online replicas, and so the same outcome, which is computed once.
    """

    def __init__(self, cluster: ClusterState, strategy: Strategy) -> None:
        self._cluster, self._strategy = cluster, strategy
        self._results: dict[tuple[object, ...], election.ElectionResult | None] = {}
        self._online: dict[tuple[BrokerId, ...], tuple[BrokerId, ...]] = {}
        """Online replicas by assigned ones; nothing where they also depend on the partition's directories."""
        self._have_directories = not cluster.has_offline_directories

    def choose_leader(
        self, partition: TopicPartition, current: Leadership | None, unclean_allowed: bool
    ) -> tuple[Leadership, tuple[BrokerId, ...]]:
        """Return the next leadership and the recipients of LeaderAndIsr. Raises KafkaError when no leader can be elected."""
        cluster = self._cluster
        if current is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "the partition has no state znode")
        if current.controller_epoch > cluster.epoch:
            raise KafkaError(
                ErrorCode.NOT_CONTROLLER, f"written by a controller of later epoch {current.controller_epoch}"
            )
        assignment = cluster.partition(partition).assignment
        online = self._find_online(assignment.replicas, partition)
        up = online
        if self._strategy is Strategy.CONTROLLED_SHUTDOWN:
            up = cluster.online_of(assignment.replicas, partition, with_shutting_down=True)
        key = assignment.replicas, assignment.removing, current.isr, online, up, unclean_allowed
        if key not in self._results:
            self._results[key] = self._elect(assignment, current.isr, online, up, unclean_allowed)
        result = self._results[key]
        if result is None:
            refusal = ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE
            if self._strategy is Strategy.PREFERRED:
                refusal = ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
            raise KafkaError(
                refusal, f"Failed to elect leader for partition {partition} under strategy {self._strategy.value}"
            )
        chosen = Leadership(
            leader=result.leader,
            isr=result.isr,
            leader_epoch=current.leader_epoch + 1,
            controller_epoch=cluster.epoch,
            partition_epoch=current.partition_epoch,
            recovering=current.recovering
            or (result.recovering and cluster.settings.inter_broker_protocol_version.marks_recovering_leaders),
            read_zxid=current.read_zxid,
        )
        return chosen, result.recipients

    def _find_online(self, replicas: tuple[BrokerId, ...], partition: TopicPartition) -> tuple[BrokerId, ...]:
        online = self._online.get(replicas)
        if online is None:
            online = self._cluster.online_of(replicas, partition)
            if self._have_directories:
                self._online[replicas] = online
        return online

    def _elect(
        self,
        assignment: ReplicaAssignment,
        isr: tuple[BrokerId, ...],
        online: tuple[BrokerId, ...],
        up: tuple[BrokerId, ...],
        unclean_allowed: bool,
    ) -> election.ElectionResult | None:
        replicas = assignment.replicas
        match self._strategy:
            case Strategy.PREFERRED:
                return election.elect_preferred(replicas, isr, online)
            case Strategy.REASSIGN:
                return election.reassignment(assignment.target, isr, online)
            case Strategy.CONTROLLED_SHUTDOWN:
                return election.controlled_shutdown(replicas, isr, up, self._cluster.shutting_down)
        return election.offline(replicas, isr, online, unclean_allowed)
