"""Log directories that fail under a running broker (KIP-112).

The broker leaves a notification; the controller answers it by telling the broker all its replicas once more, and
learns from the KAFKA_STORAGE_ERRORs of the response which of them are gone.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

from kafkalite.controller.brokers.replica_failures import on_replicas_become_offline
from kafkalite.controller.cluster_state import ClusterState, PartitionAndReplica, ReplicaStatus
from kafkalite.controller.machines.replica_state_machine import change_replica_states
from kafkalite.controller.steps import Steps, list_children, read, write
from kafkalite.errors import ErrorCode
from kafkalite.types import BrokerId, TopicPartition
from zk import paths
from zk.store import Delete
from zk.znodes import LogDirEvent, MalformedZnodeError

logger = logging.getLogger(__name__)


def process_log_dir_event_notification(cluster: ClusterState) -> Steps[None]:
    """Brokers lost log directories."""
    names = yield from list_children(paths.LOG_DIR_EVENTS, watch=True)
    notes = [paths.child(paths.LOG_DIR_EVENTS, name) for name in sorted(names)]
    brokers: set[BrokerId] = set()
    for path, znode in zip(notes, (yield from read(notes)), strict=True):
        try:
            if znode is not None:
                brokers.add(LogDirEvent.decode(znode[0]).broker_id)
        except MalformedZnodeError as problem:
            logger.error("%s is ignored: %s", path, problem)
    affected = brokers.intersection(cluster.brokers)
    if affected:
        logger.warning("brokers %s lost log directories", sorted(affected))
        yield from change_replica_states(cluster, cluster.replicas_of_brokers(affected), ReplicaStatus.ONLINE)
    yield from write([Delete(path) for path in notes])


def update_offline_replicas(
    cluster: ClusterState, broker_id: BrokerId, errors: Mapping[TopicPartition, int]
) -> Steps[None]:
    """A broker answered a LeaderAndIsr: a storage error means that the replica's directory is offline."""
    offline = cluster.offline_dir_replicas[broker_id]
    failed = [p for p, error in errors.items() if error == ErrorCode.KAFKA_STORAGE_ERROR and cluster.find(p)]
    newly = [partition for partition in failed if partition not in offline]
    offline.difference_update(partition for partition, error in errors.items() if error == ErrorCode.NONE)
    offline.update(failed)
    if newly:
        logger.warning("%d replicas on broker %d are on offline log directories", len(newly), broker_id)
        yield from on_replicas_become_offline(
            cluster, [PartitionAndReplica(partition, broker_id) for partition in newly]
        )
