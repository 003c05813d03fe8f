"""Reassignment of partitions to other brokers (KIP-455), for sets of partitions at a time so that a topic is written once.

- U, a new target: topic znode and memory get replicas, adding and removing; replicas that an earlier target wanted and
  this one does not are deleted.
- A, target not in the ISR: leader epoch + 1, LeaderAndIsr to all replicas, the adding ones start. Then wait.
- B, target in the ISR: memory has the target only; the leader moves into the target or its epoch is raised; removed
  replicas leave the ISR and are deleted; topic znode; UpdateMetadata.

Phase B writes the topic znode last, so the next controller repeats a phase that was interrupted. Old tools write the znode
/admin/reassign_partitions; an entry is removed from it when its reassignment is complete, refused or replaced.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from itertools import chain

from kafkalite.controller.assignment import ReplicaAssignment
from kafkalite.controller.cluster_state import (
    ClusterState,
    Leadership,
    PartitionAndReplica,
    PartitionStatus,
    ReplicaStatus,
)
from kafkalite.controller.machines.leadership_znodes import (
    current_leaderships,
    read_leaderships,
    watch_leaderships,
    write_leaderships,
)
from kafkalite.controller.machines.partition_state_machine import (
    Strategy,
    bring_partitions_online,
    change_partition_states,
    elect_missing_leaders,
)
from kafkalite.controller.machines.replica_state_machine import change_replica_states
from kafkalite.controller.machines.request_batch import RequestBatch, publish_metadata
from kafkalite.controller.steps import Pause, Steps, exists, partition_list, read, write
from kafkalite.controller.topics import topic_deletion
from kafkalite.controller.topics.size_policy import check_assignment, surely_fits
from kafkalite.controller.topics.topic_znodes import encode_reassigned, write_reassigned
from kafkalite.errors import ErrorCode, KafkaError
from kafkalite.types import BrokerId, TopicPartition
from zk import paths
from zk.store import Delete, StoreError, Write
from zk.znodes import PartitionName, ReassignPartitions

logger = logging.getLogger(__name__)

Targets = Mapping[TopicPartition, tuple[BrokerId, ...] | None]
Results = dict[TopicPartition, KafkaError | None]

_TOPICS_TOGETHER = 300
"""Topics whose sizes are checked between pauses for the event loop."""


def process_api_reassignment(cluster: ClusterState, targets: Targets) -> Steps[Results]:
    """Process AlterPartitionReassignments; None as target cancels. It replaces a reassignment in the znode."""
    wanted, results = yield from _validate_targets(cluster, targets)
    yield from _remove_from_znode(wanted)
    results |= yield from _start_reassignments(cluster, wanted)
    return {partition: results[partition] for partition in targets}


def process_zk_reassignment(cluster: ClusterState) -> Steps[None]:
    """Start the reassignments in /admin/reassign_partitions, if it exists."""
    if not (yield from exists(paths.REASSIGN_PARTITIONS)):
        return
    targets = {p: tuple(replicas) for p, replicas in (yield from _read_znode()).items()}
    wanted, results = yield from _validate_targets(cluster, targets)
    results |= yield from _start_reassignments(cluster, wanted)
    failed = {partition: problem for partition, problem in results.items() if problem is not None}
    for partition, problem in failed.items():
        logger.warning("reassignment of %s in %s is refused: %s", partition, paths.REASSIGN_PARTITIONS, problem)
    yield from _remove_from_znode(failed)


def list_reassignments(
    cluster: ClusterState, partitions: Sequence[TopicPartition] | None
) -> Steps[dict[TopicPartition, ReplicaAssignment]]:
    """Return the assignments of those of `partitions`, None for all, that are being reassigned."""
    yield from ()
    wanted = cluster.reassigning if partitions is None else cluster.reassigning.intersection(partitions)
    return {partition: cluster.partition(partition).assignment for partition in sorted(wanted)}


def advance_reassignments(cluster: ClusterState, partitions: Collection[TopicPartition]) -> Steps[None]:
    """Complete reassignments whose target is in sync, and start the others, which may have been started before."""
    cluster.deletions.ineligible |= {p.topic for p in partitions} & cluster.deletions.queued
    complete = yield from _find_in_sync(cluster, partitions)
    yield from _start_adding_replicas(cluster, [p for p in partitions if p not in complete])
    yield from _complete_reassignments(cluster, complete)


def maybe_complete_reassignments(cluster: ClusterState, partitions: Collection[TopicPartition]) -> Steps[None]:
    """Complete those reassignments of `partitions` whose target is in sync, after ISR changes."""
    moving = sorted(cluster.reassigning.intersection(partitions))
    if moving:
        yield from _complete_reassignments(cluster, (yield from _find_in_sync(cluster, moving)))


def process_partition_state_change(cluster: ClusterState, partition: TopicPartition) -> Steps[None]:
    """Process a watched change of a state znode: by a leader during a reassignment (before KIP-497), or a repair by hand."""
    state = cluster.find(partition)
    if state is not None and state.leadership is None:
        state.leadership = (yield from read_leaderships((partition,))).get(partition)
        if state.leadership is not None:
            change_partition_states(cluster, (partition,), PartitionStatus.OFFLINE)
            yield from elect_missing_leaders(cluster, (partition,))
    elif partition in cluster.reassigning:
        current = (yield from watch_leaderships((partition,))).get(partition)
        if current is not None:
            cluster.partition(partition).leadership = current
            yield from maybe_complete_reassignments(cluster, (partition,))


# -- validation


def _validate_targets(
    cluster: ClusterState, targets: Targets
) -> Steps[tuple[dict[TopicPartition, ReplicaAssignment], Results]]:
    wanted: dict[TopicPartition, ReplicaAssignment] = {}
    results: Results = {}
    for partition, target in targets.items():
        try:
            wanted[partition] = _new_assignment(cluster, partition, target)
        except KafkaError as problem:
            results[partition] = problem.as_outcome()
    for partition, too_large in (yield from _check_sizes(cluster, wanted, targets)).items():
        del wanted[partition]
        results[partition] = too_large
    return wanted, results


def _check_sizes(
    cluster: ClusterState, wanted: Mapping[TopicPartition, ReplicaAssignment], targets: Targets
) -> Steps[dict[TopicPartition, KafkaError]]:
    """Return an error for each partition whose topic's znode would get too large; cancellations always fit."""
    by_topic: dict[str, dict[TopicPartition, ReplicaAssignment]] = {}
    for partition, assignment in wanted.items():
        by_topic.setdefault(partition.topic, {})[partition] = assignment
    limits = cluster.settings.size_limits
    refused: dict[TopicPartition, KafkaError] = {}
    for number, (name, changed) in enumerate(by_topic.items(), 1):
        if number % _TOPICS_TOGETHER == 0:
            yield Pause()
        topic = cluster.topics[name]
        present = [state.assignment for state in topic.partitions.values()]
        counts = (len(a.replicas) + len(a.adding) + len(a.removing) for a in chain(present, changed.values()))
        if surely_fits(limits, len(present), counts):
            continue
        yield Pause()  # encoding it takes several milliseconds
        try:
            check_assignment(limits, name, encode_reassigned(topic, changed), "Move fewer partitions at a time")
        except KafkaError as problem:
            moves = [partition for partition in changed if targets[partition] is not None]
            refused |= dict.fromkeys(moves, problem.as_outcome())
    return refused


def _new_assignment(
    cluster: ClusterState, partition: TopicPartition, target: tuple[BrokerId, ...] | None
) -> ReplicaAssignment:
    """Return the assignment of a reassignment to `target`. Raises KafkaError in Kafka's order: the target first, then the partition."""
    state = cluster.find(partition)
    if target is not None:
        _check_target(cluster, () if state is None else state.assignment.replicas, target)
    elif state is None or not state.assignment.reassigning:
        raise KafkaError(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS)
    if state is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "The partition does not exist.")
    if cluster.is_queued_for_deletion(partition.topic):
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "The topic is being deleted.")
    return state.assignment.reassign_to(state.assignment.origin if target is None else target)


def _check_target(cluster: ClusterState, replicas: Collection[BrokerId], target: tuple[BrokerId, ...]) -> None:
    """Raise KafkaError INVALID_REPLICA_ASSIGNMENT unless a partition with these replicas may move to `target`."""
    invalid = ErrorCode.INVALID_REPLICA_ASSIGNMENT
    if not target:
        raise KafkaError(invalid, "Empty replica list specified in partition reassignment.")
    if len(set(target)) != len(target):
        raise KafkaError(invalid, f"Duplicate replica ids in partition reassignment replica list: {list(target)}")
    if min(target) < 0:
        raise KafkaError(invalid, f"Invalid broker id in replica list: {list(target)}")
    if not all(broker in replicas or cluster.is_live(broker) for broker in target):
        raise KafkaError(
            invalid,
            f"Replica assignment has brokers that are not alive. Replica list: {list(target)}, "
            f"live broker list: {cluster.live_brokers}",
        )


# -- phase U


def _start_reassignments(cluster: ClusterState, wanted: Mapping[TopicPartition, ReplicaAssignment]) -> Steps[Results]:
    changed = {p: new for p, new in wanted.items() if new != cluster.partition(p).assignment}
    results: Results = dict.fromkeys(wanted)
    yield from _remove_from_znode([p for p, new in wanted.items() if p not in changed and not new.reassigning])
    if not changed:
        return results
    logger.info("reassigning %s", partition_list(sorted(changed)))
    refused = yield from _write_topics(cluster, changed)
    results |= refused
    unneeded: list[PartitionAndReplica] = []
    accepted = [partition for partition in changed if partition not in refused]
    for partition in accepted:
        before, after = cluster.partition(partition).assignment, changed[partition]
        cluster.set_assignment(partition, after)
        unneeded += (
            PartitionAndReplica(partition, broker) for broker in before.replicas if broker not in after.replicas
        )
    yield from _delete_replicas(cluster, unneeded)
    if not cluster.settings.inter_broker_protocol_version.alters_partitions:
        yield from watch_leaderships(accepted)
    yield from advance_reassignments(cluster, accepted)
    return results


def _write_topics(cluster: ClusterState, changed: Mapping[TopicPartition, ReplicaAssignment]) -> Steps[Results]:
    """Write the new assignments into the topics' znodes; return the errors of partitions."""
    outcomes = yield from write_reassigned(cluster, changed)
    return {
        partition: KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"topic not written: {outcome!r}")
        for partition in changed
        if isinstance(outcome := outcomes[partition.topic], StoreError)
    }


# -- phases A and B


def _find_in_sync(cluster: ClusterState, partitions: Collection[TopicPartition]) -> Steps[list[TopicPartition]]:
    """Return partitions whose whole target is in the ISR, and those where only the order of replicas changed."""
    current = yield from current_leaderships(cluster, partitions)
    ready = []
    for partition in partitions:
        assignment, leadership = cluster.partition(partition).assignment, current.get(partition)
        if leadership is not None:
            cluster.partition(partition).leadership = leadership
        if not assignment.reassigning or (leadership is not None and set(assignment.target) <= set(leadership.isr)):
            ready.append(partition)
    return ready


def _start_adding_replicas(cluster: ClusterState, partitions: Sequence[TopicPartition]) -> Steps[None]:
    yield from _raise_leader_epochs(cluster, partitions, with_new_replicas=True)
    starting = [
        PartitionAndReplica(partition, broker)
        for partition in partitions
        for broker in cluster.partition(partition).assignment.adding
        if cluster.replica_status(PartitionAndReplica(partition, broker)) is ReplicaStatus.NON_EXISTENT
    ]
    yield from change_replica_states(cluster, starting, ReplicaStatus.NEW)


def _complete_reassignments(cluster: ClusterState, partitions: Sequence[TopicPartition]) -> Steps[None]:
    if not partitions:
        return
    added = [PartitionAndReplica(p, broker) for p in partitions for broker in cluster.partition(p).assignment.adding]
    removed = [
        PartitionAndReplica(p, broker) for p in partitions for broker in cluster.partition(p).assignment.removing
    ]
    yield from change_replica_states(cluster, added, ReplicaStatus.ONLINE)
    for partition in partitions:
        cluster.set_assignment(partition, cluster.partition(partition).assignment.complete())
    yield from _move_leaders_if_required(cluster, partitions)
    yield from _delete_replicas(cluster, removed)
    final = {partition: cluster.partition(partition).assignment for partition in partitions}
    yield from _write_topics(cluster, final)
    yield from _remove_from_znode(partitions)
    yield from publish_metadata(cluster, partitions, can_wait=True)
    logger.info("reassignment completed: %s", partition_list(sorted(partitions)))
    yield from topic_deletion.resume_deletions_for(cluster, {partition.topic for partition in partitions})


def _move_leaders_if_required(cluster: ClusterState, partitions: Sequence[TopicPartition]) -> Steps[None]:
    """Elect leaders that are live members of the target; raise the epochs of the others, so leaders drop removed replicas."""
    misplaced: list[TopicPartition] = []
    settled: list[TopicPartition] = []
    for partition in partitions:
        state = cluster.partition(partition)
        leader = state.leader
        fine = leader in state.assignment.replicas and cluster.is_online(leader, partition)
        (settled if fine else misplaced).append(partition)
    if misplaced:
        yield from bring_partitions_online(cluster, misplaced, Strategy.REASSIGN)
    yield from _raise_leader_epochs(cluster, settled, with_new_replicas=False)


def _raise_leader_epochs(
    cluster: ClusterState, partitions: Sequence[TopicPartition], *, with_new_replicas: bool
) -> Steps[None]:
    """Raise leader epochs, because a broker ignores a LeaderAndIsr of an epoch that it knows; send it to all replicas."""
    if not partitions:
        return
    batch = RequestBatch(cluster)
    remaining = list(partitions)
    fresh = False
    while remaining:
        current = yield from current_leaderships(cluster, remaining, fresh=fresh)
        raised: dict[TopicPartition, Leadership] = {}
        for partition in remaining:
            known = current.get(partition)
            if known is None:
                logger.error("partition %s has no state znode, its epoch is not raised", partition)
            else:
                raised[partition] = replace(
                    known,
                    leader_epoch=known.leader_epoch + 1,
                    isr=_find_replicas_in_sync(cluster, partition, known),
                    controller_epoch=cluster.epoch,
                )
        outcome = yield from write_leaderships(raised)
        for partition, error in outcome.failed.items():
            logger.error("the leader epoch of %s is not raised: %r", partition, error)
        for partition, leadership in outcome.written.items():
            _add_to_batch(cluster, partition, leadership, batch, with_new_replicas)
        remaining, fresh = outcome.outdated, True
    yield from batch.publish()


def _find_replicas_in_sync(
    cluster: ClusterState, partition: TopicPartition, leadership: Leadership
) -> tuple[BrokerId, ...]:
    """Return the ISR without brokers that have no replica: a leader may have added one while the move to it was cancelled.

    It would be alone in the ISR when the others die, and nobody could be elected, because it is not assigned. A leader learns its replicas
    with the epoch, and adds no other from then on.
    """
    replicas = tuple(
        broker
        for broker in leadership.isr
        if cluster.replica_status(PartitionAndReplica(partition, broker)) is not ReplicaStatus.NON_EXISTENT
    )
    return replicas or leadership.isr  # never empty: the last in sync is who knows what was acknowledged


def _add_to_batch(
    cluster: ClusterState, partition: TopicPartition, leadership: Leadership, batch: RequestBatch, new_ones: bool
) -> None:
    state = cluster.partition(partition)
    state.leadership = leadership
    # A replica that is not new must not be created in another directory when its own one failed; an added one may be.
    batch.leader_and_isr(state.assignment.origin, partition)
    if new_ones:
        batch.leader_and_isr(state.assignment.adding, partition, is_new=True)


def _delete_replicas(cluster: ClusterState, replicas: Sequence[PartitionAndReplica]) -> Steps[None]:
    """Take replicas out of the ISR and delete them, without waiting for the brokers' responses."""
    known = [r for r in replicas if cluster.replica_status(r) is not ReplicaStatus.NON_EXISTENT]
    for target in (
        ReplicaStatus.OFFLINE,
        ReplicaStatus.DELETION_STARTED,
        ReplicaStatus.DELETION_SUCCESSFUL,
        ReplicaStatus.NON_EXISTENT,
    ):
        if known:
            yield from change_replica_states(cluster, known, target)


# -- /admin/reassign_partitions


def _read_znode() -> Steps[dict[TopicPartition, Sequence[BrokerId]]]:
    (znode,) = yield from read((paths.REASSIGN_PARTITIONS,))
    if znode is None:
        return {}
    try:
        entries = ReassignPartitions.decode(znode[0]).replicas
    except ValueError as problem:
        logger.error("%s is unreadable and will be deleted: %s", paths.REASSIGN_PARTITIONS, problem)
        yield from write((Delete(paths.REASSIGN_PARTITIONS),))
        return {}
    return {TopicPartition(topic, index): replicas for (topic, index), replicas in entries.items()}


def _remove_from_znode(partitions: Collection[TopicPartition]) -> Steps[None]:
    """Remove entries from /admin/reassign_partitions, and the znode itself when none is left."""
    if not partitions:
        return
    entries = yield from _read_znode()
    left = {partition: replicas for partition, replicas in entries.items() if partition not in partitions}
    if not entries or len(left) == len(entries):
        return
    if left:
        data = ReassignPartitions({PartitionName(*p): tuple(replicas) for p, replicas in left.items()}).encode()
        yield from write((Write(paths.REASSIGN_PARTITIONS, data),))
    else:
        yield from write((Delete(paths.REASSIGN_PARTITIONS),))
        yield from exists(paths.REASSIGN_PARTITIONS)  # watch for the next one
