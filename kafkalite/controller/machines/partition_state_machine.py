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
from dataclasses import replace
from enum import Enum

from kafkalite.controller.assignment import share_brokers
from kafkalite.controller.cluster_state import ClusterState, Leadership, PartitionStatus
from kafkalite.controller.machines import state_change
from kafkalite.controller.machines.leadership_znodes import (
    create_leaderships,
    current_leaderships,
    read_topics_allowing_unclean,
    write_leaderships,
)
from kafkalite.controller.machines.request_batch import GrowingBatches, RequestBatch
from kafkalite.controller.steps import Steps, pieces
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
    for some in pieces(partitions):
        failures |= yield from _elect_in(cluster, some, strategy, requests.batch)
        if len(partitions) > len(some):
            yield from requests.end_piece()
    yield from requests.publish()
    return failures


def _elect_in(
    cluster: ClusterState, partitions: Collection[TopicPartition], strategy: Strategy, batch: RequestBatch
) -> Steps[Failures]:
    valid = _valid_changes(cluster, partitions, PartitionStatus.ONLINE)
    new = [p for p in valid if cluster.partition(p).status is PartitionStatus.NEW]
    others = [p for p in valid if cluster.partition(p).status is not PartitionStatus.NEW]
    failures = yield from _create_leaderships(cluster, new, batch)
    failures |= yield from _elect_leaders(cluster, others, strategy, batch)
    for partition, problem in failures.items():
        status = cluster.partition(partition).status
        state_change.log_failed_change(cluster, partition, status.value, PartitionStatus.ONLINE.value, str(problem))
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
    changes = [(partition, cluster.partition(partition).status) for partition in partitions]
    for partition in partitions:
        cluster.set_status(partition, target)
    state_change.log_partition_changes(cluster, changes, target)


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
        chosen: dict[TopicPartition, Leadership] = {}
        recipients: dict[TopicPartition, tuple[BrokerId, ...]] = {}
        again: list[TopicPartition] = []
        for partition in remaining:
            try:
                chosen[partition], recipients[partition] = _choose_leader(
                    cluster, partition, current.get(partition), strategy, partition.topic in unclean
                )
            except KafkaError as problem:
                if fresh:
                    failures[partition] = problem.as_outcome()
                else:
                    again.append(partition)  # the state in memory may be out of date
        outcome = yield from write_leaderships(chosen)
        for partition, error in outcome.failed.items():
            failures[partition] = KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"state znode not written: {error!r}")
        for partition, leadership in outcome.written.items():
            cluster.partition(partition).leadership = leadership
            batch.leader_and_isr(recipients[partition], partition)
        _set_states(cluster, outcome.written, PartitionStatus.ONLINE)
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
    hopeless = {p.topic for p, leadership in current.items() if not cluster.online_of(leadership.isr, p)}
    return (yield from read_topics_allowing_unclean(cluster, sorted(hopeless)))


def _choose_leader(
    cluster: ClusterState,
    partition: TopicPartition,
    current: Leadership | None,
    strategy: Strategy,
    unclean_allowed: bool,
) -> tuple[Leadership, tuple[BrokerId, ...]]:
    """Return the next leadership and the recipients of LeaderAndIsr. Raises KafkaError when no leader can be elected."""
    if current is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "the partition has no state znode")
    if current.controller_epoch > cluster.epoch:
        raise KafkaError(ErrorCode.NOT_CONTROLLER, f"written by a controller of later epoch {current.controller_epoch}")
    assignment = cluster.partition(partition).assignment
    online = set(cluster.online_of(assignment.replicas, partition))
    result: election.ElectionResult | None
    if strategy is Strategy.PREFERRED:
        result = election.elect_preferred(assignment.replicas, current.isr, online)
        refusal = ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
    else:
        refusal = ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE
        if strategy is Strategy.REASSIGN:
            result = election.reassignment(assignment.target, current.isr, online)
        elif strategy is Strategy.CONTROLLED_SHUTDOWN:
            up = set(cluster.online_of(assignment.replicas, partition, with_shutting_down=True))
            result = election.controlled_shutdown(assignment.replicas, current.isr, up, cluster.shutting_down)
        else:
            result = election.offline(assignment.replicas, current.isr, online, unclean_allowed)
    if result is None:
        raise KafkaError(refusal, f"Failed to elect leader for partition {partition} under strategy {strategy.value}")
    return (
        replace(
            current,
            leader=result.leader,
            isr=result.isr,
            leader_epoch=current.leader_epoch + 1,
            controller_epoch=cluster.epoch,
            recovering=current.recovering
            or (result.recovering and cluster.settings.inter_broker_protocol_version.marks_recovering_leaders),
        ),
        result.recipients,
    )
