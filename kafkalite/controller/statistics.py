"""Figures about the controller's state of the cluster, under names made from Kafka's gauges."""

from __future__ import annotations

from kafkalite.controller.brokers.leader_and_isr_errors import count_replicas_with_errors
from kafkalite.controller.cluster_state import ClusterState, PartitionContext, ReplicaStatus
from kafkalite.controller.machines.leader_elections import is_misplaced
from kafkalite.controller.topics.size_policy import usable_bytes
from kafkalite.portions import Work
from kafkalite.types import TopicPartition
from zk.size_limits import list_bytes


def cluster_statistics(cluster: ClusterState) -> Work[dict[str, int]]:
    """Return counts of brokers, topics and partitions, and of those that are offline, misplaced or waiting. A unit is a partition."""
    offline = misplaced = replicas_to_delete = ineligible_to_delete = partitions = 0
    for topic in list(cluster.topics.values()):
        for state in list(topic.partitions.values()):
            yield
            partition = state.topic_partition
            partitions += 1
            if cluster.is_queued_for_deletion(partition.topic):
                statuses = list(state.replica_statuses.values())
                replicas_to_delete += len(statuses) - statuses.count(ReplicaStatus.DELETION_SUCCESSFUL)
                ineligible_to_delete += statuses.count(ReplicaStatus.DELETION_INELIGIBLE)
                continue
            offline += not _has_leader(cluster, partition, state)
            misplaced += is_misplaced(state)
    return {
        "active_broker_count": len(cluster.brokers),
        "global_topic_count": len(cluster.topics),
        "global_partition_count": partitions,
        "topic_list_bytes": list_bytes(cluster.topics),
        "topic_list_max_bytes": usable_bytes(cluster.settings.size_limits.response_bytes),
        "offline_partitions_count": offline,
        "preferred_replica_imbalance_count": misplaced,
        "reassigning_partitions_count": len(cluster.reassigning),
        "topics_to_delete_count": len(cluster.deletions.queued),
        "topics_ineligible_to_delete_count": len(cluster.deletions.ineligible),
        "replicas_to_delete_count": replicas_to_delete,
        "replicas_ineligible_to_delete_count": ineligible_to_delete,
        "refused_replicas_count": count_replicas_with_errors(cluster),
    }


def _has_leader(cluster: ClusterState, partition: TopicPartition, state: PartitionContext) -> bool:
    """True if the leader is registered and its log directory online; NO_BROKER never is."""
    return state.leader is not None and cluster.is_online(state.leader, partition, with_shutting_down=True)
