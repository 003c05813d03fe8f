"""The replica state machine (Kafka's ZkReplicaStateMachine): legal transitions, their requests, and the removal from ISRs.

| To           | From                               | What happens                                                |
|--------------|------------------------------------|-------------------------------------------------------------|
| New          | NonExistent                        | LeaderAndIsr `is_new`, once the partition has a leader      |
| Online       | New, Online, Offline, Ineligible   | from New memory only, else LeaderAndIsr                     |
| Offline      | New, Online, Offline, Ineligible   | StopReplica; out of the ISR, leader epoch + 1; LeaderAndIsr to the others |
| DelStarted   | Offline                            | StopReplica with delete                                     |
| DelSuccessful| DelStarted                         | memory only                                                 |
| Ineligible   | Offline, DelStarted                | memory only                                                 |
| NonExistent  | DelSuccessful                      | removed from memory, also from the assignment               |

A broker ignores a LeaderAndIsr whose leader epoch it has seen, so sending one too many is harmless.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache

from kafkalite.controller.cluster_state import ClusterState, Leadership, PartitionAndReplica, ReplicaStatus
from kafkalite.controller.machines import state_change
from kafkalite.controller.machines.leadership_znodes import current_leaderships, write_leaderships
from kafkalite.controller.machines.request_batch import GrowingBatches, RequestBatch
from kafkalite.controller.steps import Pause, Steps, pieces
from kafkalite.types import NO_BROKER, BrokerId, TopicPartition

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
    """Change the state of replicas and send the requests; illegal transitions are logged and skipped."""
    if target is ReplicaStatus.OFFLINE:
        yield from take_replicas_offline(cluster, replicas)
        return
    requests = GrowingBatches(cluster)
    for some in pieces(replicas):
        _change_states(cluster, some, target, requests.batch)
        if len(replicas) > len(some):
            yield from requests.end_piece()
    yield from requests.publish()


def take_replicas_offline(
    cluster: ClusterState, replicas: Iterable[PartitionAndReplica], announced: Collection[TopicPartition] = ()
) -> Steps[None]:
    """Take replicas to Offline and out of their ISRs, and send the requests.

    The brokers know already what `announced` partitions have come to since the replicas are offline.
    """
    by_partition: defaultdict[TopicPartition, list[BrokerId]] = defaultdict(list)
    for partition, broker in replicas:
        by_partition[partition].append(broker)
    requests = GrowingBatches(cluster)
    # Replicas of a partition stay together: each that leaves the ISR raises the leader epoch, and only the last one is sent.
    for many in requests.divide(by_partition.items()):
        together = [PartitionAndReplica(partition, broker) for partition, brokers in many for broker in brokers]
        yield from _take_offline(cluster, together, announced, requests.batch)
        yield from requests.publish()


def _change_states(
    cluster: ClusterState, replicas: Collection[PartitionAndReplica], target: ReplicaStatus, batch: RequestBatch
) -> None:
    valid = _valid_changes(cluster, replicas, target)
    if target is ReplicaStatus.NEW:
        _create_replicas(cluster, valid, batch)
    elif target is ReplicaStatus.ONLINE:
        _bring_online(cluster, valid, batch)
    else:
        if target is ReplicaStatus.DELETION_STARTED:
            for replica in valid:
                batch.stop_replica(replica.broker_id, replica.partition, delete=True)
        _set_states(cluster, valid, target)
        if target is ReplicaStatus.NON_EXISTENT:
            for replica in valid:
                _forget_replica(cluster, replica)


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


def _set_states(cluster: ClusterState, replicas: Iterable[PartitionAndReplica], target: ReplicaStatus) -> None:
    """Set the state of replicas."""
    for broker, partitions in _by_broker(replicas).items():
        _set_states_on(cluster, broker, partitions, target)


def _set_states_on(
    cluster: ClusterState, broker: BrokerId, partitions: Iterable[TopicPartition], target: ReplicaStatus
) -> None:
    """Set the state of replicas on a broker. Partitions that had the same states before have the same object afterwards, too."""
    found: dict[int, tuple[Mapping[BrokerId, ReplicaStatus], Mapping[BrokerId, ReplicaStatus], ReplicaStatus]] = {}
    changes: list[tuple[TopicPartition, ReplicaStatus]] = []
    for partition in partitions:
        state = cluster.partition(partition)
        earlier = state.replica_statuses
        known = found.get(id(earlier))
        if known is None:
            state.set_replica_statuses({**earlier, broker: target})
            before = earlier.get(broker, ReplicaStatus.NON_EXISTENT)
            # As long as the earlier states are here, their id is of no others.
            known = found[id(earlier)] = state.replica_statuses, earlier, before
        else:
            state.replica_statuses = known[0]
        changes.append((partition, known[2]))
    state_change.log_replica_changes(cluster, broker, changes, target)


def _by_broker(replicas: Iterable[PartitionAndReplica]) -> dict[BrokerId, list[TopicPartition]]:
    found: defaultdict[BrokerId, list[TopicPartition]] = defaultdict(list)
    for partition, broker in replicas:
        found[broker].append(partition)
    return found


def _forget_replica(cluster: ClusterState, replica: PartitionAndReplica) -> None:
    state = cluster.partition(replica.partition)
    remaining = {each: status for each, status in state.replica_statuses.items() if each != replica.broker_id}
    state.set_replica_statuses(remaining)
    if replica.broker_id in state.assignment.replicas:
        cluster.set_assignment(replica.partition, state.assignment.remove_replicas((replica.broker_id,)))


def _create_replicas(cluster: ClusterState, replicas: Sequence[PartitionAndReplica], batch: RequestBatch) -> None:
    created = []
    for replica in replicas:
        leadership = cluster.leadership(replica.partition)
        if leadership is not None:
            if leadership.leader == replica.broker_id:
                why = "a new replica cannot be the leader already"
                before, after = ReplicaStatus.NON_EXISTENT.value, ReplicaStatus.NEW.value
                state_change.log_failed_change(cluster, replica, before, after, why)
                continue
            batch.leader_and_isr((replica.broker_id,), replica.partition, is_new=True)
        created.append(replica)
    _set_states(cluster, created, ReplicaStatus.NEW)


def _bring_online(cluster: ClusterState, replicas: Sequence[PartitionAndReplica], batch: RequestBatch) -> None:
    for replica in replicas:
        state = cluster.partition(replica.partition)
        if cluster.replica_status(replica) is ReplicaStatus.NEW:
            if replica.broker_id not in state.assignment.replicas:
                added = replace(state.assignment, replicas=(*state.assignment.replicas, replica.broker_id))
                cluster.set_assignment(replica.partition, added)
        elif state.leadership is not None:
            batch.leader_and_isr((replica.broker_id,), replica.partition, metadata_can_wait=True)
    _set_states(cluster, replicas, ReplicaStatus.ONLINE)


# -- to Offline


def _take_offline(
    cluster: ClusterState,
    replicas: Sequence[PartitionAndReplica],
    announced: Collection[TopicPartition],
    batch: RequestBatch,
) -> Steps[None]:
    valid: list[PartitionAndReplica] = []
    for some in pieces(replicas):
        valid += _valid_changes(cluster, some, ReplicaStatus.OFFLINE)
        if len(replicas) > len(some):
            yield Pause()
    for replica in valid:
        batch.stop_replica(replica.broker_id, replica.partition, delete=False)
    before = {partition: cluster.leadership(partition) for partition, _ in valid}
    for broker, moved in (yield from remove_from_isrs(cluster, _by_broker(valid))).items():
        for together in pieces(moved):
            for partition in together:
                if partition in announced:
                    continue
                state = cluster.partition(partition)
                can_wait = state.leadership is not None and state.leadership == before[partition]
                if state.leadership is not None and not cluster.is_queued_for_deletion(partition.topic):
                    others = [other for other in state.assignment.replicas if other != broker]
                    batch.leader_and_isr(others, partition, metadata_can_wait=can_wait)
                batch.update_metadata((partition,), can_wait=can_wait)
            if len(moved) > len(together):
                yield Pause()


def remove_from_isrs(
    cluster: ClusterState, by_broker: Mapping[BrokerId, Sequence[TopicPartition]]
) -> Steps[dict[BrokerId, list[TopicPartition]]]:
    """Take the replicas on brokers out of their ISRs and to Offline without requests; return those that were written, by broker."""
    moved: dict[BrokerId, list[TopicPartition]] = {}
    for broker, partitions in by_broker.items():
        led: list[TopicPartition] = []
        replicas = moved[broker] = []
        for partition in partitions:
            (replicas if cluster.leadership(partition) is None else led).append(partition)
        current = yield from remove_from_isr(cluster, broker, led)
        for partition, leadership in current.items():
            cluster.partition(partition).leadership = leadership
        replicas += current
    for broker, replicas in moved.items():
        for some in pieces(replicas):
            _set_states_on(cluster, broker, some, ReplicaStatus.OFFLINE)
            if len(replicas) > len(some):
                yield Pause()
    return moved


def remove_from_isr(
    cluster: ClusterState, broker: BrokerId, partitions: Sequence[TopicPartition]
) -> Steps[dict[TopicPartition, Leadership]]:
    """Take `broker` out of ISRs and return the leaderships; partitions that could not be written are left out.

    The last member stays in the ISR, because it alone has all acknowledged records.
    """

    def log_failure(partition: TopicPartition, why: str) -> None:
        replica = PartitionAndReplica(partition, broker)
        before = cluster.replica_status(replica).value
        state_change.log_failed_change(cluster, replica, before, ReplicaStatus.OFFLINE.value, why)

    settled: dict[TopicPartition, Leadership] = {}
    remaining = list(partitions)
    fresh = False
    while remaining:
        wanted: dict[TopicPartition, Leadership] = {}
        current = yield from current_leaderships(cluster, remaining, fresh=fresh)
        for some in pieces(remaining):
            for partition in some:
                known = current.get(partition)
                if known is None:
                    log_failure(partition, "the partition has no state znode")
                elif known.controller_epoch > cluster.epoch:
                    log_failure(partition, "written by a later controller")
                elif broker not in known.isr:
                    settled[partition] = known
                else:
                    wanted[partition] = _shrink_isr(cluster, broker, known)
            if len(remaining) > len(some):
                yield Pause()
        outcome = yield from write_leaderships(wanted)
        settled |= outcome.written
        for partition, error in outcome.failed.items():
            log_failure(partition, repr(error))
        remaining, fresh = outcome.outdated, True
    return settled


def _shrink_isr(cluster: ClusterState, broker: BrokerId, leadership: Leadership) -> Leadership:
    return Leadership(
        leader=NO_BROKER if leadership.leader == broker else leadership.leader,
        isr=_without(leadership.isr, broker) or leadership.isr,
        leader_epoch=leadership.leader_epoch + 1,
        controller_epoch=cluster.epoch,
        partition_epoch=leadership.partition_epoch,
        recovering=leadership.recovering,
        read_zxid=leadership.read_zxid,
    )


@lru_cache(maxsize=1000)
def _without(isr: tuple[BrokerId, ...], broker: BrokerId) -> tuple[BrokerId, ...]:
    """Return an ISR without a broker, the same object for the same ISR: there are many partitions and few lists."""
    return tuple(member for member in isr if member != broker)
