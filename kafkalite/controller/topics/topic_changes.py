"""New and removed topics and partitions in ZooKeeper."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from kafkalite.controller.cluster_state import ClusterState, PartitionAndReplica, PartitionStatus, ReplicaStatus
from kafkalite.controller.machines import partition_state_machine
from kafkalite.controller.machines.replica_state_machine import change_replica_states
from kafkalite.controller.steps import Pause, Steps, list_children, pieces, write
from kafkalite.controller.topics.topic_validation import legal_names
from kafkalite.controller.topics.topic_znodes import load_topics, read_topic, topic_write
from kafkalite.types import TopicPartition
from zk import paths

logger = logging.getLogger(__name__)


def process_topic_change(cluster: ClusterState) -> Steps[None]:
    """Compare /brokers/topics with memory; remove topics that vanished and create the partitions of new ones."""
    names = set(legal_names((yield from list_children(paths.TOPICS, watch=True))))
    for name in sorted(cluster.topics.keys() - names):
        logger.info("topic %s vanished", name)
        cluster.remove_topic(name)
    new = sorted(names - cluster.topics.keys())
    if new:
        created = yield from load_topics(cluster, new)
        logger.info("%d new topics with %d partitions", len(new), len(created))
        yield from on_new_partition_creation(cluster, created)


def process_partition_modifications(cluster: ClusterState, name: str) -> Steps[None]:
    """Create the partitions that were added to a topic's znode; only the controller makes other changes to it."""
    found = yield from read_topic(name)
    topic = cluster.topics.get(name)
    if found is None or topic is None:
        return
    added = {TopicPartition(name, index): a for index, a in found.items() if index not in topic.partitions}
    if not added:
        return
    if cluster.is_queued_for_deletion(name):
        logger.warning("partitions added to topic %s are removed again, it is being deleted", name)
        yield from write((topic_write(topic),))
        return
    for partition, assignment in added.items():
        cluster.set_assignment(partition, assignment)
    yield from on_new_partition_creation(cluster, list(added))


def on_new_partition_creation(cluster: ClusterState, partitions: Sequence[TopicPartition]) -> Steps[None]:
    """Move partitions and replicas from NonExistent to Online."""
    if not partitions:
        return
    replicas: list[PartitionAndReplica] = []
    for some in pieces(partitions):
        yield Pause()
        partition_state_machine.change_partition_states(cluster, some, PartitionStatus.NEW)
        replicas += [PartitionAndReplica(p, b) for p in some for b in cluster.partition(p).assignment.replicas]
    yield from change_replica_states(cluster, replicas, ReplicaStatus.NEW)
    yield from partition_state_machine.bring_partitions_online(cluster, partitions)
    yield from change_replica_states(cluster, replicas, ReplicaStatus.ONLINE)
