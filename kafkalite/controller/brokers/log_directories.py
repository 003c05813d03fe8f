"""Log directories that fail on a running broker (KIP-112).

The broker creates a notification. The controller sends it LeaderAndIsr for all its replicas, and learns the offline ones from
the KAFKA_STORAGE_ERRORs in the response.
"""

from __future__ import annotations

import logging

from kafkalite.controller import events
from kafkalite.controller.brokers.replica_failures import on_replicas_become_offline
from kafkalite.controller.cluster_state import ClusterState, PartitionAndReplica, ReplicaStatus
from kafkalite.controller.machines.replica_state_machine import change_replica_states
from kafkalite.controller.notifications import read_notifications
from kafkalite.controller.steps import Steps, write
from kafkalite.errors import ErrorCode
from zk import paths
from zk.store import Delete
from zk.znodes import LogDirEvent

logger = logging.getLogger(__name__)


def process_log_dir_event_notification(cluster: ClusterState) -> Steps[None]:
    """Send LeaderAndIsr for all replicas of the brokers in the notifications, and delete these."""
    notified, changes = yield from read_notifications(paths.LOG_DIR_EVENTS, LogDirEvent.decode)
    affected = {change.broker_id for change in changes}.intersection(cluster.brokers)
    if affected:
        logger.warning("brokers %s lost log directories", sorted(affected))
        yield from change_replica_states(cluster, cluster.replicas_of_brokers(affected), ReplicaStatus.ONLINE)
    yield from write([Delete(path) for path in notified])


def update_offline_replicas(cluster: ClusterState, event: events.LeaderAndIsrResponseReceived) -> Steps[None]:
    """Update the offline replicas of a broker from its LeaderAndIsr response: those with KAFKA_STORAGE_ERROR."""
    broker_id = event.broker_id
    offline = cluster.offline_dir_replicas[broker_id]
    failed = [p for p, error in event.errors.items() if error == ErrorCode.KAFKA_STORAGE_ERROR and cluster.find(p)]
    newly = [partition for partition in failed if partition not in offline]
    if offline:
        offline.difference_update(event.accepted_partitions())
    offline.update(failed)
    if newly:
        logger.warning("%d replicas on broker %d are on offline log directories", len(newly), broker_id)
        yield from on_replicas_become_offline(
            cluster, [PartitionAndReplica(partition, broker_id) for partition in newly]
        )
