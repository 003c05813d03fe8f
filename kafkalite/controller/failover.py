"""What a new controller does, in Kafka's order: read everything, tell the brokers, take over what was under way.

Watches are armed before or together with the reads, so that no change falls between. Brokers hear of each other
before they hear of partitions, because a follower refuses a leader that it cannot find. Of a partition they hear once, when
it is decided who leads it.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Collection

from kafkalite.controller.brokers import restarted_replicas
from kafkalite.controller.brokers.broker_znodes import read_brokers
from kafkalite.controller.cluster_state import ClusterState, PartitionAndReplica, PartitionStatus, ReplicaStatus
from kafkalite.controller.features import set_up_feature_versioning
from kafkalite.controller.machines import leader_elections
from kafkalite.controller.machines.leadership_znodes import read_leaderships, watch_leaderships
from kafkalite.controller.machines.partition_state_machine import elect_missing_leaders_in
from kafkalite.controller.machines.replica_state_machine import remove_from_isrs
from kafkalite.controller.machines.request_batch import RequestBatch
from kafkalite.controller.steps import Steps, connect, list_children, pause, pieces, publish, write
from kafkalite.controller.topics import reassignment, topic_deletion
from kafkalite.controller.topics.topic_validation import legal_names
from kafkalite.controller.topics.topic_znodes import load_topics
from kafkalite.types import BrokerId, TopicPartition
from zk import paths
from zk.store import Delete

logger = logging.getLogger(__name__)


def on_controller_failover(
    cluster: ClusterState, whole: Collection[BrokerId] = (), earlier_zxid: int = 0
) -> Steps[None]:
    """From an empty `cluster` to a controller at work.

    Brokers that are `whole` began with all the records with which they had ended; the controller before was elected at `earlier_zxid`.
    """
    yield from set_up_feature_versioning(cluster)
    for path in (paths.LOG_DIR_EVENTS, paths.ISR_CHANGES):
        yield from _delete_notifications(path)  # all state is read below anyway
    yield from _load_cluster(cluster)
    yield from _load_deletions(cluster)
    introduction = RequestBatch(cluster)
    introduction.update_metadata(())
    yield from publish(introduction.commands())
    renewed = yield from restarted_replicas.demote_restarted_replicas(cluster, whole, earlier_zxid)
    yield from _set_replica_states(cluster)
    yield from _set_partition_states(cluster, renewed)
    yield from _elect_and_announce(cluster)
    yield from reassignment.process_zk_reassignment(cluster)
    if cluster.reassigning:
        yield from reassignment.advance_reassignments(cluster, sorted(cluster.reassigning))
    yield from topic_deletion.resume_deletions(cluster, cluster.deletions.queued)
    yield from leader_elections.process_zk_preferred_election(cluster)
    statuses = Counter(state.status.value for _, state in cluster.partitions())
    logger.info(
        "controller %d took over with epoch %d: %d brokers, %d topics, partitions %s",
        cluster.controller_id,
        cluster.epoch,
        len(cluster.brokers),
        len(cluster.topics),
        dict(statuses),
    )


def _delete_notifications(path: str) -> Steps[None]:
    names = yield from list_children(path, watch=True)
    yield from write([Delete(paths.child(path, name)) for name in names])


def _load_cluster(cluster: ClusterState) -> Steps[None]:
    cluster.brokers = yield from read_brokers()
    for broker in cluster.brokers.values():
        yield from connect(broker)
    names = legal_names((yield from list_children(paths.TOPICS, watch=True)))
    partitions = yield from load_topics(cluster, names)
    for partition, leadership in (yield from read_leaderships(partitions)).items():
        cluster.partition(partition).leadership = leadership
    if not cluster.settings.inter_broker_protocol_version.alters_partitions:
        yield from watch_leaderships(sorted(cluster.reassigning))


def _load_deletions(cluster: ClusterState) -> Steps[None]:
    marked = yield from list_children(paths.DELETE_TOPICS, watch=True)
    yield from topic_deletion.delete_markers(cluster, [topic for topic in marked if topic not in cluster.topics])
    queued = {topic for topic in marked if topic in cluster.topics}
    if not cluster.settings.delete_topic_enable:
        yield from topic_deletion.delete_markers(cluster, sorted(queued))
        return
    cluster.deletions.queued |= queued
    cluster.deletions.ineligible |= topic_deletion.ineligible_topics(cluster, queued)


def _set_replica_states(cluster: ClusterState) -> Steps[None]:
    """Note who is there, and take who is not out of its ISRs."""
    for some in pieces(cluster.partitions()):
        offline: list[PartitionAndReplica] = []
        for partition, state in some:
            for broker in state.assignment.replicas:
                here = cluster.is_online(broker, partition)
                state.replica_statuses[broker] = ReplicaStatus.ONLINE if here else ReplicaStatus.DELETION_INELIGIBLE
                if not here:
                    offline.append(PartitionAndReplica(partition, broker))
        yield from remove_from_isrs(cluster, offline)
        yield from pause()


def _set_partition_states(cluster: ClusterState, renewed: Collection[TopicPartition]) -> Steps[None]:
    """Note who is led; `renewed` need an election though their leaders are there."""
    for some in pieces(cluster.partitions()):
        for partition, state in some:
            leadership = state.leadership
            if leadership is None:
                cluster.set_status(partition, PartitionStatus.NEW)
            elif cluster.is_online(leadership.leader, partition) and partition not in renewed:
                cluster.set_status(partition, PartitionStatus.ONLINE)
            else:
                cluster.set_status(partition, PartitionStatus.OFFLINE)
        yield from pause()


def _elect_and_announce(cluster: ClusterState) -> Steps[None]:
    """Elect leaders where there are none, and tell the brokers of each partition what holds then.

    Kafka announces what it found before it elects. A client that asks in between keeps the leader epoch of then, and is answered
    FENCED_LEADER_EPOCH until it refreshes its metadata, which some do not do for that reason (librdkafka's ListOffsets).
    """
    for some in pieces(cluster.partitions()):
        batch = RequestBatch(cluster)
        yield from elect_missing_leaders_in(cluster, [partition for partition, _ in some], batch)
        for partition, state in some:
            if state.leadership is not None:
                online = [b for b, status in state.replica_statuses.items() if status is ReplicaStatus.ONLINE]
                batch.leader_and_isr(online, partition)
            batch.update_metadata((partition,))
        yield from publish(batch.commands())
        yield from pause()
