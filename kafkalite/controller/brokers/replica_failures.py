"""What follows when replicas go away, whether with their broker or with a log directory."""

from __future__ import annotations

from collections.abc import Sequence

from kafkalite.controller.cluster_state import ClusterState, PartitionAndReplica, PartitionStatus, ReplicaStatus
from kafkalite.controller.machines.partition_machine import elect_leaderless, move_in_memory
from kafkalite.controller.machines.replica_machine import move_replicas
from kafkalite.controller.machines.request_batch import RequestBatch
from kafkalite.controller.steps import Steps, publish
from kafkalite.controller.topics import topic_deletion


def on_replicas_become_offline(cluster: ClusterState, replicas: Sequence[PartitionAndReplica]) -> Steps[None]:
    """New leaders first, because clients wait for them; then the replicas leave their ISRs."""
    going = [replica for replica in replicas if cluster.is_queued_for_deletion(replica.partition.topic)]
    staying = [replica for replica in replicas if not cluster.is_queued_for_deletion(replica.partition.topic)]
    headless = [replica.partition for replica in staying if _led_by(cluster, replica)]
    move_in_memory(cluster, headless, PartitionStatus.OFFLINE)
    yield from elect_leaderless(cluster)
    yield from move_replicas(cluster, staying, ReplicaStatus.OFFLINE)
    if going:
        yield from topic_deletion.fail_replica_deletion(cluster, going)
    if not headless:  # nobody has heard of anything yet, but which replicas are offline has changed
        batch = RequestBatch(cluster)
        batch.update_metadata(())
        yield from publish(batch.commands())


def _led_by(cluster: ClusterState, replica: PartitionAndReplica) -> bool:
    leadership = cluster.leadership(replica.partition)
    return leadership is not None and leadership.leader == replica.broker_id
