"""The state-change trace: one line for each transition of a partition or replica, on logger `kafkalite.state_change`.

Every line has the same keys in the same order, so that it can be searched across the logs of all controllers. Of a creation only the first
leader of each partition is logged at INFO. The steps before it and those of its replicas say nothing else, and are at DEBUG (Kafka has the
latter at TRACE).
"""

from __future__ import annotations

import logging

from kafkalite.controller.cluster_state import (
    ClusterState,
    Leadership,
    PartitionAndReplica,
    PartitionStatus,
    ReplicaStatus,
)
from kafkalite.types import TopicPartition

logger = logging.getLogger("kafkalite.state_change")


def log_partition_change(
    cluster: ClusterState, partition: TopicPartition, before: PartitionStatus, after: PartitionStatus
) -> None:
    """Log that a partition changed its state, or kept it with a new leader or ISR."""
    level = logging.DEBUG if after is PartitionStatus.NEW else logging.INFO
    if logger.isEnabledFor(level):
        _write(level, cluster, partition, "-", before.value, after.value, cluster.leadership(partition))


def log_replica_change(
    cluster: ClusterState, replica: PartitionAndReplica, before: ReplicaStatus, after: ReplicaStatus
) -> None:
    """Log that a replica changed its state."""
    is_creation = after is ReplicaStatus.NEW or (before is ReplicaStatus.NEW and after is ReplicaStatus.ONLINE)
    level = logging.DEBUG if is_creation else logging.INFO
    if logger.isEnabledFor(level):
        leadership = cluster.leadership(replica.partition)
        _write(level, cluster, replica.partition, str(replica.broker_id), before.value, after.value, leadership)


def log_failed_change(
    cluster: ClusterState, subject: TopicPartition | PartitionAndReplica, before: str, after: str, why: str
) -> None:
    """Log a transition that was illegal or failed."""
    if isinstance(subject, PartitionAndReplica):
        name = f"{subject.partition} broker={subject.broker_id}"
    else:
        name = f"{subject} broker=-"
    logger.error(
        "partition=%s transition=%s->%s refused=%r controller=%d controller_epoch=%d reason=%s",
        name,
        before,
        after,
        why,
        cluster.controller_id,
        cluster.epoch,
        cluster.reason,
    )


def _write(
    level: int,
    cluster: ClusterState,
    partition: TopicPartition,
    broker: str,
    before: str,
    after: str,
    leadership: Leadership | None,
) -> None:
    logger.log(
        level,
        "partition=%s broker=%s transition=%s->%s leader=%s isr=%s leader_epoch=%s "
        "controller=%d controller_epoch=%d reason=%s",
        partition,
        broker,
        before,
        after,
        "-" if leadership is None else leadership.leader,
        "-" if leadership is None else list(leadership.isr),
        "-" if leadership is None else leadership.leader_epoch,
        cluster.controller_id,
        cluster.epoch,
        cluster.reason,
    )
