"""Topic deletion, as Kafka's TopicDeletionManager: a marker in /admin/delete_topics, replicas deleted on every broker, then the znodes.

A topic is ineligible while it is being reassigned, or a replica is offline or could not be deleted. `resume_deletions` is
called whenever that may have changed, and does what is possible then. The znodes are deleted in the order config, assignment,
marker: while there is an assignment the next controller repeats the deletion, and a marker alone is removed.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping

from kafkalite.controller.cluster_state import ClusterState, PartitionAndReplica, PartitionStatus, ReplicaStatus
from kafkalite.controller.machines.partition_state_machine import change_partition_states
from kafkalite.controller.machines.replica_state_machine import change_replica_states
from kafkalite.controller.machines.request_batch import GrowingBatches
from kafkalite.controller.steps import Pause, Steps, list_children, list_children_of_each, pieces, write
from kafkalite.errors import ErrorCode
from kafkalite.types import TopicPartition
from zk import paths
from zk.store import Delete, NotEmptyError

logger = logging.getLogger(__name__)

_DELETING = (ReplicaStatus.DELETION_STARTED, ReplicaStatus.DELETION_SUCCESSFUL)


def process_topic_deletion(cluster: ClusterState) -> Steps[None]:
    """Queue newly marked topics for deletion and start."""
    new = (yield from read_markers(cluster)) - cluster.deletions.queued
    if new:
        logger.info("topics to be deleted: %s", ", ".join(sorted(new)))
        cluster.deletions.ineligible |= {p.topic for p in cluster.reassigning} & new
        cluster.deletions.queued |= new
        yield from resume_deletions(cluster, new)


def read_markers(cluster: ClusterState) -> Steps[set[str]]:
    """Watch the markers and return the marked topics; delete markers of unknown topics, or all if delete.topic.enable is off."""
    marked = yield from list_children(paths.DELETE_TOPICS, watch=True)
    is_enabled = cluster.settings.delete_topic_enable
    yield from _delete_markers(topic for topic in marked if not is_enabled or topic not in cluster.topics)
    return {topic for topic in marked if is_enabled and topic in cluster.topics}


def _delete_markers(topics: Iterable[str]) -> Steps[None]:
    yield from write([Delete(paths.delete_topic(topic)) for topic in topics])


def ineligible_topics(cluster: ClusterState, topics: Iterable[str]) -> set[str]:
    """Return those of `topics` that have an offline replica or a partition under reassignment."""
    reassigning = {partition.topic for partition in cluster.reassigning}
    return {
        topic
        for topic in topics
        if topic in reassigning
        or any(not cluster.is_online(r.broker_id, r.partition) for r in cluster.replicas_of_topic(topic))
    }


def resume_deletions_for(cluster: ClusterState, topics: Collection[str]) -> Steps[None]:
    """Make topics eligible again whose obstacle may be gone, and resume their deletion."""
    waiting = cluster.deletions.queued.intersection(topics)
    if waiting:
        cluster.deletions.ineligible -= waiting
        yield from resume_deletions(cluster, waiting)


def resume_deletions(cluster: ClusterState, topics: Collection[str]) -> Steps[None]:
    """Complete, retry or start the deletion of those of `topics` that are queued for it."""
    deletions = cluster.deletions
    complete, eligible = [], []
    retried: list[PartitionAndReplica] = []
    for some in pieces(sorted(deletions.queued.intersection(topics))):
        for topic in some:
            is_deleted, is_under_way = _check_progress(cluster, topic)
            if is_deleted:
                complete.append(topic)
                continue
            if is_under_way:
                continue
            if topic in deletions.ineligible:
                continue
            replicas = cluster.replicas_of_topic(topic)
            retried += (r for r in replicas if cluster.replica_status(r) is ReplicaStatus.DELETION_INELIGIBLE)
            eligible.append(topic)
        yield Pause()
    if retried:
        yield from change_replica_states(cluster, retried, ReplicaStatus.OFFLINE)
    for some in pieces(complete):
        yield from _complete_deletions(cluster, some)
    for some in pieces(eligible):
        yield from _start_deletions(cluster, some)


def _check_progress(cluster: ClusterState, topic: str) -> tuple[bool, bool]:
    """Return if all replicas are deleted, and if some are being deleted; called for every response, so it stops early."""
    is_deleted = True
    for state in cluster.topics[topic].partitions.values():
        statuses = state.replica_statuses
        for broker in state.assignment.replicas:
            status = statuses.get(broker)
            if status is ReplicaStatus.DELETION_STARTED:
                return False, True
            if status is not ReplicaStatus.DELETION_SUCCESSFUL:
                is_deleted = False
    return is_deleted, False


def fail_replica_deletion(cluster: ClusterState, replicas: Collection[PartitionAndReplica]) -> Steps[None]:
    """Mark replicas that cannot be deleted now; their topics are ineligible until `resume_deletions_for`."""
    failed = [r for r in replicas if cluster.is_queued_for_deletion(r.partition.topic)]
    movable = [
        r for r in failed if cluster.replica_status(r) in (ReplicaStatus.OFFLINE, ReplicaStatus.DELETION_STARTED)
    ]
    yield from change_replica_states(cluster, movable, ReplicaStatus.DELETION_INELIGIBLE)
    cluster.deletions.ineligible |= {replica.partition.topic for replica in failed}


def process_replica_deletions(
    cluster: ClusterState, broker_id: int, errors: Mapping[TopicPartition, int]
) -> Steps[None]:
    """Process a broker's errors or successes of deleting replicas."""
    outcomes = [
        (PartitionAndReplica(partition, broker_id), error)
        for partition, error in errors.items()
        if cluster.is_queued_for_deletion(partition.topic)
        and cluster.replica_status(PartitionAndReplica(partition, broker_id)) is ReplicaStatus.DELETION_STARTED
    ]
    failed = [replica for replica, error in outcomes if error != ErrorCode.NONE]
    done = [replica for replica, error in outcomes if error == ErrorCode.NONE]
    if failed:
        logger.warning("broker %d could not delete %d replicas", broker_id, len(failed))
        yield from fail_replica_deletion(cluster, failed)
    if done:
        yield from change_replica_states(cluster, done, ReplicaStatus.DELETION_SUCCESSFUL)
        yield from resume_deletions(cluster, {replica.partition.topic for replica in done})


def _start_deletions(cluster: ClusterState, topics: list[str]) -> Steps[None]:
    """Remove topics from the metadata of brokers, then stop and delete the online replicas."""
    deletions = cluster.deletions
    yield Pause()
    new = [topic for topic in topics if topic not in deletions.started]
    partitions = [partition for topic in new for partition in cluster.topics[topic].topic_partitions()]
    for some in pieces(partitions):
        change_partition_states(cluster, some, PartitionStatus.OFFLINE)
        change_partition_states(cluster, some, PartitionStatus.NON_EXISTENT)
        yield Pause()
    deletions.started.update(new)
    requests = GrowingBatches(cluster)
    for some in pieces([p for topic in topics for p in cluster.topics[topic].topic_partitions()]):
        requests.batch.update_metadata(some)
        yield from requests.end_piece()
    yield from requests.publish()
    alive: list[PartitionAndReplica] = []
    dead: list[PartitionAndReplica] = []
    for replicas in pieces(replica for topic in topics for replica in cluster.replicas_of_topic(topic)):
        for replica in replicas:
            if cluster.replica_status(replica) in _DELETING:
                continue
            reachable = cluster.is_online(replica.broker_id, replica.partition)
            (alive if reachable else dead).append(replica)
        yield Pause()
    if dead:
        waiting = {replica.partition.topic for replica in dead}
        logger.info("deletion waits for offline replicas: %s", ", ".join(sorted(waiting)))
        deletions.ineligible |= waiting
        yield from _mark_ineligible(cluster, dead)
    yield from change_replica_states(cluster, alive, ReplicaStatus.OFFLINE)
    yield from change_replica_states(cluster, alive, ReplicaStatus.DELETION_STARTED)


def _mark_ineligible(cluster: ClusterState, replicas: Collection[PartitionAndReplica]) -> Steps[None]:
    waiting = [r for r in replicas if cluster.replica_status(r) is not ReplicaStatus.DELETION_INELIGIBLE]
    online = [r for r in waiting if cluster.replica_status(r) in (ReplicaStatus.NEW, ReplicaStatus.ONLINE)]
    yield from change_replica_states(cluster, online, ReplicaStatus.OFFLINE)
    yield from change_replica_states(cluster, waiting, ReplicaStatus.DELETION_INELIGIBLE)


def _complete_deletions(cluster: ClusterState, topics: list[str]) -> Steps[None]:
    replicas = [replica for topic in topics for replica in cluster.replicas_of_topic(topic)]
    yield from change_replica_states(cluster, replicas, ReplicaStatus.NON_EXISTENT)
    yield from write([Delete(paths.topic_config(topic)) for topic in topics])
    yield from _delete_znodes(topics)
    yield from _delete_markers(topics)
    for topic in topics:
        cluster.remove_topic(topic)
        cluster.deletions.forget(topic)
    logger.info("topics deleted: %s", ", ".join(topics))


def _delete_znodes(topics: list[str]) -> Steps[None]:
    """Delete the topics' znodes and all below them, deepest first."""
    indices = yield from list_children_of_each([paths.partitions(topic) for topic in topics])
    partitions = [
        (topic, int(name)) for topic, names in zip(topics, indices, strict=True) for name in names if name.isdecimal()
    ]
    yield from write([Delete(paths.partition_state(topic, index)) for topic, index in partitions])
    yield from write([Delete(paths.partition(topic, index)) for topic, index in partitions])
    yield from write([Delete(paths.partitions(topic)) for topic in topics])
    results = yield from write([Delete(paths.topic(topic)) for topic in topics])
    stubborn = [topic for topic, result in zip(topics, results, strict=True) if isinstance(result, NotEmptyError)]
    for level in (yield from _znodes_below(stubborn)):  # with znodes that are not Kafka's
        yield from write([Delete(path) for path in level])


def _znodes_below(topics: list[str]) -> Steps[list[list[str]]]:
    """Return the paths of the topics' znodes and all below them by level, deepest first."""
    level = [paths.topic(topic) for topic in topics]
    levels: list[list[str]] = []
    while level:
        levels.insert(0, level)
        children = yield from list_children_of_each(level)
        level = [f"{path}/{name}" for path, names in zip(level, children, strict=True) for name in names]
    return levels
