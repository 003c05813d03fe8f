"""What brokers answered: the errors of partitions go to whom they concern."""

from __future__ import annotations

from kafkalite.controller import events
from kafkalite.controller.brokers import log_directories
from kafkalite.controller.brokers.leader_and_isr_errors import record_leader_and_isr_errors
from kafkalite.controller.cluster_state import ClusterState
from kafkalite.controller.steps import Steps
from kafkalite.controller.topics import topic_deletion
from kafkalite.errors import ErrorCode
from kafkalite.types import BrokerId


def process_leader_and_isr_response(cluster: ClusterState, event: events.LeaderAndIsrResponseReceived) -> Steps[None]:
    """A refused request needs no handling: its sender is out of date and will learn it elsewhere."""
    if event.error == ErrorCode.NONE and _is_current_incarnation(cluster, event.broker_id, event.broker_epoch):
        record_leader_and_isr_errors(cluster, event.broker_id, event.errors)
        yield from log_directories.update_offline_replicas(cluster, event.broker_id, event.errors)


def process_stop_replica_response(cluster: ClusterState, event: events.StopReplicaResponseReceived) -> Steps[None]:
    """Only replicas that were to be deleted matter; a refused request failed for all of them."""
    if not _is_current_incarnation(cluster, event.broker_id, event.broker_epoch):
        return
    errors = {
        partition: event.error or event.errors.get(partition, ErrorCode.NONE)
        for partition, state in event.request.partitions.items()
        if state.delete
    }
    if errors:
        yield from topic_deletion.process_replica_deletions(cluster, event.broker_id, errors)


def _is_current_incarnation(cluster: ClusterState, broker_id: BrokerId, broker_epoch: int) -> bool:
    """Did the incarnation of the broker answer that is registered now?"""
    broker = cluster.brokers.get(broker_id)
    return broker is not None and broker.epoch == broker_epoch
