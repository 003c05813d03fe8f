"""Replicas that go offline with their broker or its log directory."""

from __future__ import annotations

from collections.abc import Sequence

from kafkalite.controller.cluster_state import ClusterState, PartitionAndReplica, PartitionStatus
from kafkalite.controller.machines.partition_state_machine import change_partition_states, elect_missing_leaders
from kafkalite.controller.machines.replica_state_machine import take_replicas_offline
from kafkalite.controller.machines.request_batch import publish_metadata
from kafkalite.controller.steps import Steps
from kafkalite.controller.topics import topic_deletion


def on_replicas_become_offline(cluster: ClusterState, replicas: Sequence[PartitionAndReplica]) -> Steps[None]:
    """Elect new leaders first, because clients wait for them, then take the replicas out of their ISRs."""
    queued_for_deletion = [replica for replica in replicas if cluster.is_queued_for_deletion(replica.partition.topic)]
    remaining = [replica for replica in replicas if not cluster.is_queued_for_deletion(replica.partition.topic)]
    leaderless = [replica.partition for replica in remaining if _is_leader(cluster, replica)]
    change_partition_states(cluster, leaderless, PartitionStatus.OFFLINE)
    failures = yield from elect_missing_leaders(cluster)
    announced = {partition for partition in leaderless if partition not in failures}
    yield from take_replicas_offline(cluster, remaining, announced)
    if queued_for_deletion:
        yield from topic_deletion.fail_replica_deletion(cluster, queued_for_deletion)
    yield from publish_metadata(cluster, can_wait=True)  # of the brokers, if none was sent yet


def _is_leader(cluster: ClusterState, replica: PartitionAndReplica) -> bool:
    leadership = cluster.leadership(replica.partition)
    return leadership is not None and leadership.leader == replica.broker_id
