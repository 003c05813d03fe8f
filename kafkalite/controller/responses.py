"""Responses of brokers to LeaderAndIsr and StopReplica."""

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
    """Record the errors of partitions. A request refused as a whole is ignored: this controller is out of date then."""
    if event.error == ErrorCode.NONE and _is_current_incarnation(cluster, event.broker_id, event.broker_epoch):
        record_leader_and_isr_errors(cluster, event)
        yield from log_directories.update_offline_replicas(cluster, event)


def process_stop_replica_response(cluster: ClusterState, event: events.StopReplicaResponseReceived) -> Steps[None]:
    """Process the outcome for replicas to be deleted; an error of the whole request counts for all of them."""
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
    """True if the response is from the registered incarnation of the broker."""
    broker = cluster.brokers.get(broker_id)
    return broker is not None and broker.epoch == broker_epoch
