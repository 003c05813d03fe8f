"""Replicas whose broker refused the role that the controller gave them: such a partition has a leader in ZooKeeper that does not lead.

A broker refuses where its log belongs to another topic of that name (INCONSISTENT_TOPIC_ID), or where it is no replica as it sees it.
Nothing that the controller could do helps, so it tells the operator. Storage errors are for `log_directories`; a role that was taken
already is not refused.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

from kafkalite.controller.cluster_state import ClusterState
from kafkalite.errors import ErrorCode
from kafkalite.types import BrokerId, TopicPartition

logger = logging.getLogger(__name__)

_TAKEN = frozenset({ErrorCode.NONE, ErrorCode.STALE_CONTROLLER_EPOCH})


def record_leader_and_isr_errors(
    cluster: ClusterState, broker_id: BrokerId, errors: Mapping[TopicPartition, int]
) -> None:
    """Keep and log what the broker refused, forget what it refused before and has taken."""
    refused = cluster.leader_and_isr_errors[broker_id]
    for partition, error in errors.items():
        if error in _TAKEN:
            refused.pop(partition, None)
        elif error != ErrorCode.KAFKA_STORAGE_ERROR and refused.get(partition) != error:
            refused[partition] = error
            logger.error("broker %d refuses its role for %s: %s", broker_id, partition, _name(error))


def count_replicas_with_errors(cluster: ClusterState) -> int:
    """Return how many replicas of live brokers are refused now, those of deleted topics aside."""
    return sum(
        cluster.find(partition) is not None
        for broker_id, refused in cluster.leader_and_isr_errors.items()
        if broker_id in cluster.brokers
        for partition in refused
    )


def _name(error: int) -> str:
    try:
        return ErrorCode(error).name
    except ValueError:
        return f"error {error}"
