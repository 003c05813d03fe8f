"""The table of events: which procedure the active controller runs for each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kafkalite.controller import events, isr_changes, producer_ids, responses
from kafkalite.controller.brokers import broker_changes, controlled_shutdown, log_directories
from kafkalite.controller.cluster_state import ClusterState
from kafkalite.controller.machines import leader_elections
from kafkalite.controller.steps import Steps
from kafkalite.controller.topics import reassignment, topic_changes, topic_deletion

Handler = Callable[[ClusterState, Any], Steps[Any]]

HANDLERS: dict[type, Handler] = {
    events.BrokerChange: lambda cluster, event: broker_changes.broker_change(cluster),
    events.BrokerModifications: lambda cluster, event: broker_changes.broker_modifications(cluster, event.broker_id),
    events.TopicChange: lambda cluster, event: topic_changes.topic_change(cluster),
    events.PartitionModifications: lambda cluster, event: topic_changes.partition_modifications(cluster, event.topic),
    events.TopicDeletion: lambda cluster, event: topic_deletion.topic_deletion(cluster),
    events.LogDirEventNotification: lambda cluster, event: log_directories.log_dir_event_notification(cluster),
    events.IsrChangeNotification: lambda cluster, event: isr_changes.isr_change_notification(cluster),
    events.ZkPartitionReassignment: lambda cluster, event: reassignment.znode_reassignments(cluster),
    events.PartitionReassignmentIsrChange: lambda cluster, event: reassignment.state_changed(cluster, event.partition),
    events.ZkPreferredElection: lambda cluster, event: leader_elections.znode_election(cluster),
    events.AutoPreferredReplicaLeaderElection: lambda cluster, event: leader_elections.rebalance_leaders(cluster),
    events.UncleanLeaderElectionEnable: lambda cluster, event: leader_elections.unclean_enabled(cluster, None),
    events.TopicUncleanLeaderElectionEnable: lambda cluster, event: leader_elections.unclean_enabled(
        cluster, event.topic
    ),
    events.LeaderAndIsrResponseReceived: responses.leader_and_isr,
    events.StopReplicaResponseReceived: responses.stop_replica,
    events.AlterPartitionReceived: lambda cluster, event: isr_changes.alter_partition(cluster, event.request),
    events.ControlledShutdown: lambda cluster, event: controlled_shutdown.controlled_shutdown(
        cluster, event.broker_id, event.broker_epoch
    ),
    events.AllocateProducerIds: lambda cluster, event: producer_ids.allocate_producer_ids(
        cluster, event.broker_id, event.broker_epoch
    ),
    events.ReplicaLeaderElection: lambda cluster, event: leader_elections.elect_leaders(
        cluster, event.partitions, unclean=event.unclean
    ),
    events.ApiPartitionReassignment: lambda cluster, event: reassignment.alter_reassignments(cluster, event.targets),
    events.ListPartitionReassignments: lambda cluster, event: reassignment.listed(cluster, event.partitions),
}
