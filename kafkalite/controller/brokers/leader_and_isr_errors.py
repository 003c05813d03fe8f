"""Replicas for which brokers answered LeaderAndIsr with an error: the leader in ZooKeeper may not lead there.

A broker refuses a replica whose log belongs to another topic of that name (INCONSISTENT_TOPIC_ID). The controller cannot repair that,
so it logs and counts it for the operator. Storage errors are for `log_directories`.
"""

from __future__ import annotations

import logging

from kafkalite.controller import events
from kafkalite.controller.cluster_state import ClusterState
from kafkalite.errors import ErrorCode

logger = logging.getLogger(__name__)


def record_leader_and_isr_errors(cluster: ClusterState, event: events.LeaderAndIsrResponseReceived) -> None:
    """Store and log the errors of a response, and drop earlier ones of partitions that it accepted."""
    known = cluster.leader_and_isr_errors[event.broker_id]
    if known:
        for partition in event.accepted_partitions():
            known.pop(partition, None)
    for partition, error in event.errors.items():
        if (
            error == ErrorCode.STALE_CONTROLLER_EPOCH
        ):  # also the error for a leader epoch that the broker has applied before
            known.pop(partition, None)
        elif error != ErrorCode.KAFKA_STORAGE_ERROR and known.get(partition) != error:
            known[partition] = error
            logger.error("broker %d refuses LeaderAndIsr for %s: %s", event.broker_id, partition, _error_name(error))


def count_replicas_with_errors(cluster: ClusterState) -> int:
    """Return the number of replicas with an error, of registered brokers and known partitions."""
    return sum(
        cluster.find(partition) is not None
        for broker_id, errors in cluster.leader_and_isr_errors.items()
        if broker_id in cluster.brokers
        for partition in errors
    )


def _error_name(error: int) -> str:
    try:
        return ErrorCode(error).name
    except ValueError:
        return f"error {error}"
