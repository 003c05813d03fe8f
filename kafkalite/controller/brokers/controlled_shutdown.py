"""Controlled shutdown: leaderships move off a broker before it stops (KIP-4, KIP-380)."""

from __future__ import annotations

import logging
from collections.abc import Sequence

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
    (remaining,) = yield from process_controlled_shutdowns(cluster, [(broker_id, broker_epoch)])
    if isinstance(remaining, KafkaError):
        raise remaining
    return remaining


def process_controlled_shutdowns(
    cluster: ClusterState, requests: Sequence[tuple[BrokerId, int]]
) -> Steps[list[list[TopicPartition] | KafkaError]]:
    """Move leaderships off several brokers; return what each still leads, or its error.

    They are handled together, and none leads another's partitions for a moment, if others can lead all of these. Otherwise they are
    handled one after the other, as if they had come so: the last one is left with what only they could lead, and the rest can stop.
    """
    refusals = [_find_refusal(cluster, broker_id, broker_epoch) for broker_id, broker_epoch in requests]
    stopping = [broker_id for (broker_id, _), refusal in zip(requests, refusals, strict=True) if refusal is None]
    together = frozenset(stopping)
    remaining: dict[BrokerId, list[TopicPartition]] = {}
    if _have_heirs(cluster, together):
        remaining = yield from _hand_over(cluster, together)
    else:
        for broker_id in stopping:
            remaining |= yield from _hand_over(cluster, frozenset((broker_id,)))
    return [
        remaining[broker_id] if refusal is None else refusal
        for (broker_id, _), refusal in zip(requests, refusals, strict=True)
    ]


def _have_heirs(cluster: ClusterState, stopping: frozenset[BrokerId]) -> bool:
    """True if every partition that these brokers lead has another in-sync replica online, or is nobody else's."""
    for partition, broker_id in cluster.replicas_of_brokers(stopping):
        state = cluster.partition(partition)
        if state.leadership is None or state.leader != broker_id or len(state.assignment.replicas) == 1:
            continue
        others = [each for each in state.leadership.isr if each not in stopping]
        if not any(cluster.is_online(each, partition) for each in others):
            return False
    return True


def _hand_over(cluster: ClusterState, stopping: frozenset[BrokerId]) -> Steps[dict[BrokerId, list[TopicPartition]]]:
    """Move the leaderships of these brokers, none of them to another one of these; return what each still leads."""
    cluster.shutting_down.update(stopping)
    led: dict[TopicPartition, BrokerId] = {}
    followed: list[PartitionAndReplica] = []
    for replica in cluster.replicas_of_brokers(stopping):
        state = cluster.partition(replica.partition)
        if len(state.assignment.replicas) == 1 or state.leadership is None:
            continue
        if not cluster.is_queued_for_deletion(replica.partition.topic):
            if state.leader == replica.broker_id:
                led[replica.partition] = replica.broker_id
            else:
                followed.append(replica)
    if led:
        yield from bring_partitions_online(cluster, sorted(led), Strategy.CONTROLLED_SHUTDOWN)
        for partition, broker_id in led.items():
            state = cluster.partition(partition)
            if state.leader != broker_id == state.assignment.preferred:
                cluster.handed_over[partition] = broker_id
    if followed:
        batch = RequestBatch(cluster)
        for partition, broker_id in followed:
            batch.stop_replica(broker_id, partition, delete=False)
        yield from batch.publish()
        yield from change_replica_states(cluster, followed, ReplicaStatus.OFFLINE)
    remaining = {broker_id: list[TopicPartition]() for broker_id in stopping}
    for partition, broker_id in led.items():
        if cluster.partition(partition).leader == broker_id:
            remaining[broker_id].append(partition)
    for broker_id in sorted(stopping):
        logger.info("broker %d is shutting down; it still leads %d partitions", broker_id, len(remaining[broker_id]))
    return remaining


def _find_refusal(cluster: ClusterState, broker_id: BrokerId, broker_epoch: int) -> KafkaError | None:
    known = cluster.brokers.get(broker_id)
    if known is None:
        return KafkaError(ErrorCode.BROKER_NOT_AVAILABLE, f"Broker id {broker_id} does not exist.")
    if broker_epoch != ANY_EPOCH and broker_epoch < known.epoch:
        return KafkaError(ErrorCode.STALE_BROKER_EPOCH, f"broker {broker_id} has epoch {known.epoch} now")
    return None
