"""The table of controller events and the procedures that process them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kafkalite.controller import events, isr_changes, producer_ids, responses
from kafkalite.controller.brokers import broker_changes, controlled_shutdown, log_directories
from kafkalite.controller.cluster_state import ClusterState
from kafkalite.controller.machines import leader_elections, request_batch
from kafkalite.controller.steps import Steps
from kafkalite.controller.topics import reassignment, topic_changes, topic_deletion

Handler = Callable[[ClusterState, Any], Steps[Any]]

HANDLERS: dict[type, Handler] = {
    events.BrokerChange: lambda cluster, event: broker_changes.process_broker_change(cluster),
    events.BrokerModifications: lambda cluster, event: broker_changes.process_broker_modifications(
        cluster, event.broker_id
    ),
    events.TopicChange: lambda cluster, event: topic_changes.process_topic_change(cluster),
    events.PartitionModifications: lambda cluster, event: topic_changes.process_partition_modifications(
        cluster, event.topic
    ),
    events.TopicDeletion: lambda cluster, event: topic_deletion.process_topic_deletion(cluster),
    events.LogDirEventNotification: lambda cluster, event: log_directories.process_log_dir_event_notification(cluster),
    events.IsrChangeNotification: lambda cluster, event: isr_changes.process_isr_change_notification(cluster),
    events.ZkPartitionReassignment: lambda cluster, event: reassignment.process_zk_reassignment(cluster),
    events.PartitionReassignmentIsrChange: lambda cluster, event: reassignment.process_partition_state_change(
        cluster, event.partition
    ),
    events.ZkPreferredElection: lambda cluster, event: leader_elections.process_zk_preferred_election(cluster),
    events.AutoPreferredReplicaLeaderElection: lambda cluster, event: leader_elections.rebalance_leaders(cluster),
    events.UncleanLeaderElectionEnable: lambda cluster, event: leader_elections.process_unclean_election_enable(
        cluster, None
    ),
    events.TopicUncleanLeaderElectionEnable: lambda cluster, event: leader_elections.process_unclean_election_enable(
        cluster, event.topic
    ),
    events.LeaderAndIsrResponseReceived: responses.process_leader_and_isr_response,
    events.StopReplicaResponseReceived: responses.process_stop_replica_response,
    events.AlterPartitionReceived: lambda cluster, event: isr_changes.process_alter_partition(cluster, event.request),
    events.IsrsAltered: lambda cluster, event: isr_changes.process_isrs_altered(cluster),
    events.MetadataWindowEnd: lambda cluster, event: request_batch.end_metadata_window(cluster),
    events.ControlledShutdown: lambda cluster, event: controlled_shutdown.process_controlled_shutdown(
        cluster, event.broker_id, event.broker_epoch
    ),
    events.ControlledShutdowns: lambda cluster, event: controlled_shutdown.process_controlled_shutdowns(
        cluster, [(each.broker_id, each.broker_epoch) for each in event.together]
    ),
    events.AllocateProducerIds: lambda cluster, event: producer_ids.allocate_producer_ids(
        cluster, event.broker_id, event.broker_epoch
    ),
    events.ReplicaLeaderElection: lambda cluster, event: leader_elections.elect_leaders(
        cluster, event.partitions, unclean=event.unclean
    ),
    events.ApiPartitionReassignment: lambda cluster, event: reassignment.process_api_reassignment(
        cluster, event.targets
    ),
    events.ListPartitionReassignments: lambda cluster, event: reassignment.list_reassignments(
        cluster, event.partitions
    ),
}
