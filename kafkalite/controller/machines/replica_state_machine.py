"""The replica state machine: what a broker hears about one copy of a partition, and who leaves the ISR.

| To           | From                               | What happens                                                |
|--------------|------------------------------------|-------------------------------------------------------------|
| New          | NonExistent                        | LeaderAndIsr `is_new`, once the partition has a leader      |
| Online       | New, Online, Offline, Ineligible   | from New memory only, else LeaderAndIsr                     |
| Offline      | New, Online, Offline, Ineligible   | StopReplica; out of the ISR, leader epoch + 1; the other replicas hear of it |
| DelStarted   | Offline                            | StopReplica with delete                                     |
| DelSuccessful| DelStarted                         | memory only                                                 |
| Ineligible   | Offline, DelStarted                | memory only                                                 |
| NonExistent  | DelSuccessful                      | forgotten, also in the assignment                           |

A LeaderAndIsr whose leader epoch a broker has seen already does nothing there, so telling too often is harmless.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace

from kafkalite.controller.cluster_state import ClusterState, Leadership, PartitionAndReplica, ReplicaStatus
from kafkalite.controller.machines import state_change
from kafkalite.controller.machines.leadership_znodes import current_leaderships, leadership_write, written_version
from kafkalite.controller.machines.request_batch import RequestBatch
from kafkalite.controller.steps import Steps, pause, pieces, publish, write
from kafkalite.types import NO_BROKER, BrokerId, TopicPartition
from zk.store import BadVersionError, StoreError

_LIVING = frozenset({ReplicaStatus.NEW, ReplicaStatus.ONLINE, ReplicaStatus.OFFLINE, ReplicaStatus.DELETION_INELIGIBLE})

ALLOWED_PREVIOUS: dict[ReplicaStatus, frozenset[ReplicaStatus]] = {
    ReplicaStatus.NEW: frozenset({ReplicaStatus.NON_EXISTENT}),
    ReplicaStatus.ONLINE: _LIVING,
    ReplicaStatus.OFFLINE: _LIVING,
    ReplicaStatus.DELETION_STARTED: frozenset({ReplicaStatus.OFFLINE}),
    ReplicaStatus.DELETION_SUCCESSFUL: frozenset({ReplicaStatus.DELETION_STARTED}),
    ReplicaStatus.DELETION_INELIGIBLE: frozenset({ReplicaStatus.OFFLINE, ReplicaStatus.DELETION_STARTED}),
    ReplicaStatus.NON_EXISTENT: frozenset({ReplicaStatus.DELETION_SUCCESSFUL}),
}


def change_replica_states(
    cluster: ClusterState, replicas: Collection[PartitionAndReplica], target: ReplicaStatus
) -> Steps[None]:
    """Take each replica to `target`, tell the brokers in one batch, of very many in several; illegal transitions are logged and skipped."""
    for some in _pieces_by_partition(replicas) if target is ReplicaStatus.OFFLINE else pieces(replicas):
        yield from _change_states(cluster, some, target)
        if len(replicas) > len(some):
            yield from pause()


def _pieces_by_partition(replicas: Iterable[PartitionAndReplica]) -> Iterator[list[PartitionAndReplica]]:
    """All replicas of a partition in one piece: each that leaves the ISR ends a leader epoch, and only the last one is to be told."""
    by_partition: defaultdict[TopicPartition, list[PartitionAndReplica]] = defaultdict(list)
    for replica in replicas:
        by_partition[replica.partition].append(replica)
    for some in pieces(by_partition.values()):
        yield [replica for group in some for replica in group]


def _change_states(
    cluster: ClusterState, replicas: Collection[PartitionAndReplica], target: ReplicaStatus
) -> Steps[None]:
    batch = RequestBatch(cluster)
    valid = _valid_changes(cluster, replicas, target)
    if target is ReplicaStatus.NEW:
        _create_replicas(cluster, valid, batch)
    elif target is ReplicaStatus.ONLINE:
        _bring_online(cluster, valid, batch)
    elif target is ReplicaStatus.OFFLINE:
        yield from _take_offline(cluster, valid, batch)
    else:
        for replica in valid:
            if target is ReplicaStatus.DELETION_STARTED:
                batch.stop_replica(replica.broker_id, replica.partition, delete=True)
            _change_state(cluster, replica, target)
            if target is ReplicaStatus.NON_EXISTENT:
                _forget_replica(cluster, replica)
    yield from publish(batch.commands())


def _valid_changes(
    cluster: ClusterState, replicas: Collection[PartitionAndReplica], target: ReplicaStatus
) -> list[PartitionAndReplica]:
    allowed = ALLOWED_PREVIOUS[target]
    valid = []
    for replica in replicas:
        status = cluster.replica_status(replica)
        if status in allowed and cluster.find(replica.partition) is not None:
            valid.append(replica)
        else:
            state_change.log_failed_change(cluster, replica, status.value, target.value, "illegal transition")
    return valid


def _change_state(cluster: ClusterState, replica: PartitionAndReplica, target: ReplicaStatus) -> None:
    statuses = cluster.partition(replica.partition).replica_statuses
    before = statuses.get(replica.broker_id, ReplicaStatus.NON_EXISTENT)
    statuses[replica.broker_id] = target
    state_change.log_replica_change(cluster, replica, before, target)


def _forget_replica(cluster: ClusterState, replica: PartitionAndReplica) -> None:
    state = cluster.partition(replica.partition)
    state.replica_statuses.pop(replica.broker_id, None)
    if replica.broker_id in state.assignment.replicas:
        cluster.set_assignment(replica.partition, state.assignment.without((replica.broker_id,)))


def _create_replicas(cluster: ClusterState, replicas: Sequence[PartitionAndReplica], batch: RequestBatch) -> None:
    for replica in replicas:
        leadership = cluster.leadership(replica.partition)
        if leadership is not None:
            if leadership.leader == replica.broker_id:
                why = "a new replica cannot be the leader already"
                before, after = ReplicaStatus.NON_EXISTENT.value, ReplicaStatus.NEW.value
                state_change.log_failed_change(cluster, replica, before, after, why)
                continue
            batch.leader_and_isr((replica.broker_id,), replica.partition, is_new=True)
        _change_state(cluster, replica, ReplicaStatus.NEW)


def _bring_online(cluster: ClusterState, replicas: Sequence[PartitionAndReplica], batch: RequestBatch) -> None:
    for replica in replicas:
        state = cluster.partition(replica.partition)
        if cluster.replica_status(replica) is ReplicaStatus.NEW:
            if replica.broker_id not in state.assignment.replicas:
                added = replace(state.assignment, replicas=(*state.assignment.replicas, replica.broker_id))
                cluster.set_assignment(replica.partition, added)
        elif state.leadership is not None:
            batch.leader_and_isr((replica.broker_id,), replica.partition)
        _change_state(cluster, replica, ReplicaStatus.ONLINE)


# -- to Offline


def _take_offline(cluster: ClusterState, replicas: Sequence[PartitionAndReplica], batch: RequestBatch) -> Steps[None]:
    for replica in replicas:
        batch.stop_replica(replica.broker_id, replica.partition, delete=False)
    for partition, broker in (yield from remove_from_isrs(cluster, replicas)):
        state = cluster.partition(partition)
        if state.leadership is not None and not cluster.is_queued_for_deletion(partition.topic):
            others = [other for other in state.assignment.replicas if other != broker]
            batch.leader_and_isr(others, partition)
        batch.update_metadata((partition,))


def remove_from_isrs(
    cluster: ClusterState, replicas: Sequence[PartitionAndReplica]
) -> Steps[list[PartitionAndReplica]]:
    """Take replicas out of their ISRs and to Offline, and tell nobody; those of partitions that could not be written are left out."""
    moved: list[PartitionAndReplica] = []
    by_broker: defaultdict[BrokerId, list[TopicPartition]] = defaultdict(list)
    for replica in replicas:
        if cluster.leadership(replica.partition) is not None:
            by_broker[replica.broker_id].append(replica.partition)
        else:
            moved.append(replica)
    for broker, partitions in by_broker.items():
        current = yield from remove_from_isr(cluster, broker, partitions)
        for partition, leadership in current.items():
            cluster.partition(partition).leadership = leadership
            moved.append(PartitionAndReplica(partition, broker))
    for replica in moved:
        _change_state(cluster, replica, ReplicaStatus.OFFLINE)
    return moved


def remove_from_isr(
    cluster: ClusterState, broker: BrokerId, partitions: Sequence[TopicPartition]
) -> Steps[dict[TopicPartition, Leadership]]:
    """The leadership of each partition after `broker` left its ISR; partitions that could not be written are left out.

    The last member stays in the ISR, for it alone has all acknowledged records.
    """
    settled: dict[TopicPartition, Leadership] = {}
    remaining = list(partitions)
    fresh = False
    while remaining:
        wanted: dict[TopicPartition, Leadership] = {}
        current = yield from current_leaderships(cluster, remaining, fresh=fresh)
        for partition in remaining:
            known = current.get(partition)
            if known is None or known.controller_epoch > cluster.epoch:
                why = "the partition has no state znode" if known is None else "written by a later controller"
                replica = PartitionAndReplica(partition, broker)
                before = cluster.replica_status(replica).value
                state_change.log_failed_change(cluster, replica, before, ReplicaStatus.OFFLINE.value, why)
            elif broker not in known.isr:
                settled[partition] = known
            else:
                wanted[partition] = _shrink_isr(cluster, broker, known)
        results = yield from write([leadership_write(p, leadership) for p, leadership in wanted.items()])
        remaining, fresh = [], True
        for (partition, leadership), result in zip(wanted.items(), results, strict=True):
            if isinstance(result, BadVersionError):
                remaining.append(partition)
            elif isinstance(result, StoreError):
                replica = PartitionAndReplica(partition, broker)
                before = cluster.replica_status(replica).value
                state_change.log_failed_change(cluster, replica, before, ReplicaStatus.OFFLINE.value, repr(result))
            else:
                settled[partition] = replace(leadership, partition_epoch=written_version(result))
    return settled


def _shrink_isr(cluster: ClusterState, broker: BrokerId, leadership: Leadership) -> Leadership:
    others = tuple(member for member in leadership.isr if member != broker)
    return replace(
        leadership,
        leader=NO_BROKER if leadership.leader == broker else leadership.leader,
        isr=others or leadership.isr,
        leader_epoch=leadership.leader_epoch + 1,
        controller_epoch=cluster.epoch,
    )
