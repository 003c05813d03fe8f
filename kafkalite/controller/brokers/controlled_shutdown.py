"""Controlled shutdown: leaderships move off a broker before it stops (KIP-4, KIP-380)."""

from __future__ import annotations

import logging

from kafkalite.controller.cluster_state import ClusterState, PartitionAndReplica, ReplicaStatus
from kafkalite.controller.machines.partition_state_machine import Strategy, bring_partitions_online
from kafkalite.controller.machines.replica_state_machine import change_replica_states
from kafkalite.controller.machines.request_batch import RequestBatch
from kafkalite.controller.steps import Steps
from kafkalite.errors import ErrorCode, KafkaError
from kafkalite.types import BrokerId, TopicPartition

logger = logging.getLogger(__name__)

ANY_EPOCH = -1


def process_controlled_shutdown(
    cluster: ClusterState, broker_id: BrokerId, broker_epoch: int
) -> Steps[list[TopicPartition]]:
    """Move leaderships off a broker and return the replicated partitions that it still leads; it retries while there are any.

    Raises KafkaError STALE_BROKER_EPOCH for an earlier incarnation, BROKER_NOT_AVAILABLE for an unknown broker.
    """
    known = cluster.brokers.get(broker_id)
    if known is None:
        raise KafkaError(ErrorCode.BROKER_NOT_AVAILABLE, f"Broker id {broker_id} does not exist.")
    if broker_epoch != ANY_EPOCH and broker_epoch < known.epoch:
        raise KafkaError(ErrorCode.STALE_BROKER_EPOCH, f"broker {broker_id} has epoch {known.epoch} now")
    cluster.shutting_down.add(broker_id)
    led: list[TopicPartition] = []
    followed: list[TopicPartition] = []
    for partition in sorted(cluster.replicas_on.get(broker_id, ())):
        state = cluster.partition(partition)
        if len(state.assignment.replicas) == 1 or state.leadership is None:
            continue
        if not cluster.is_queued_for_deletion(partition.topic):
            (led if state.leader == broker_id else followed).append(partition)
    if led:
        yield from bring_partitions_online(cluster, led, Strategy.CONTROLLED_SHUTDOWN)
        for partition in led:
            state = cluster.partition(partition)
            if state.leader != broker_id == state.assignment.preferred:
                cluster.handed_over[partition] = broker_id
    if followed:
        batch = RequestBatch(cluster)
        for partition in followed:
            batch.stop_replica(broker_id, partition, delete=False)
        yield from batch.publish()
        replicas = [PartitionAndReplica(partition, broker_id) for partition in followed]
        yield from change_replica_states(cluster, replicas, ReplicaStatus.OFFLINE)
    remaining = [partition for partition in led if cluster.partition(partition).leader == broker_id]
    logger.info("broker %d is shutting down; it still leads %d partitions", broker_id, len(remaining))
    return remaining
