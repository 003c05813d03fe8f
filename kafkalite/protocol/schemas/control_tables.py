"""Schemas of what only brokers and controllers of a ZooKeeper cluster say to each other, in the form of `schema_notation`.

LeaderAndIsr, StopReplica, UpdateMetadata and ControlledShutdown left Kafka with ZooKeeper, and AlterPartition 0 and 1 are older than
kio, so this is their home. Old structures are regrouped by the codec (`adapters`). `tests/peers` compares every version with the message
definitions of Apache Kafka 3.9.1.
"""

from __future__ import annotations

from typing import Final

CONTROL_TABLES: Final[dict[str, str]] = {
    "leader_and_isr_request": """
LeaderAndIsrRequest 0-7
 controller_id int32 0-7
 is_kraft_controller bool 7-7
 controller_epoch int32 0-7
 broker_epoch int64 2-7 default=-1
 type int8 5-7
 topic_states []TopicState 2-7
  topic_name string 2-7
  topic_id uuid 5-7
  partition_states []PartitionState 2-7
   partition_index int32 2-7
   controller_epoch int32 2-7
   leader int32 2-7
   leader_epoch int32 2-7
   isr []int32 2-7
   partition_epoch int32 2-7
   replicas []int32 2-7
   adding_replicas []int32 3-7
   removing_replicas []int32 3-7
   is_new bool 2-7
   leader_recovery_state int8 6-7
 ungrouped_partition_states []PartitionState 0-1
  topic_name string 0-1
  partition_index int32 0-1
  controller_epoch int32 0-1
  leader int32 0-1
  leader_epoch int32 0-1
  isr []int32 0-1
  partition_epoch int32 0-1
  replicas []int32 0-1
  is_new bool 1-1
 live_leaders []LiveLeader 0-7
  broker_id int32 0-7
  host_name string 0-7
  port int32 0-7
""",
    "leader_and_isr_response": """
LeaderAndIsrResponse 0-7
 error_code int16 0-7
 topics []TopicError 5-7
  topic_id uuid 5-7
  partition_errors []PartitionError 5-7
   partition_index int32 5-7
   error_code int16 5-7
 partition_errors []PartitionError 0-4
  topic_name string 0-4
  partition_index int32 0-4
  error_code int16 0-4
""",
    "stop_replica_request": """
StopReplicaRequest 0-4
 controller_id int32 0-4
 is_kraft_controller bool 4-4
 controller_epoch int32 0-4
 broker_epoch int64 1-4 default=-1
 topic_states []TopicState 3-4
  topic_name string 3-4
  partition_states []PartitionState 3-4
   partition_index int32 3-4
   leader_epoch int32 3-4 default=-1
   delete_partition bool 3-4
 delete_partitions bool 0-2
 topics []Topic 1-2
  name string 1-2
  partition_indexes []int32 1-2
 ungrouped_partitions []UngroupedPartition 0-0
  topic_name string 0-0
  partition_index int32 0-0
""",
    "stop_replica_response": """
StopReplicaResponse 0-4
 error_code int16 0-4
 partition_errors []PartitionError 0-4
  topic_name string 0-4
  partition_index int32 0-4
  error_code int16 0-4
""",
    "update_metadata_request": """
UpdateMetadataRequest 0-8
 controller_id int32 0-8
 is_kraft_controller bool 8-8
 type int8 8-8 tag=0
 controller_epoch int32 0-8
 broker_epoch int64 5-8 default=-1
 topic_states []TopicState 5-8
  topic_name string 5-8
  topic_id uuid 7-8
  partition_states []PartitionState 5-8
   partition_index int32 5-8
   controller_epoch int32 5-8
   leader int32 5-8
   leader_epoch int32 5-8
   isr []int32 5-8
   zk_version int32 5-8
   replicas []int32 5-8
   offline_replicas []int32 5-8
 ungrouped_partition_states []PartitionState 0-4
  topic_name string 0-4
  partition_index int32 0-4
  controller_epoch int32 0-4
  leader int32 0-4
  leader_epoch int32 0-4
  isr []int32 0-4
  zk_version int32 0-4
  replicas []int32 0-4
  offline_replicas []int32 4-4
 live_brokers []LiveBroker 0-8
  id int32 0-8
  endpoints []Endpoint 1-8
   port int32 1-8
   host string 1-8
   listener string 3-8
   security_protocol int16 1-8
  rack string? 2-8
  v0_host string 0-0
  v0_port int32 0-0
""",
    "update_metadata_response": """
UpdateMetadataResponse 0-8
 error_code int16 0-8
""",
    "controlled_shutdown_request": """
ControlledShutdownRequest 0-3
 broker_id int32 0-3
 broker_epoch int64 2-3 default=-1
""",
    "controlled_shutdown_response": """
ControlledShutdownResponse 0-3
 error_code int16 0-3
 remaining_partitions []RemainingPartition 0-3
  topic_name string 0-3
  partition_index int32 0-3
""",
    "alter_partition_request": """
AlterPartitionRequest 0-1
 broker_id int32 0-1
 broker_epoch int64 0-1 default=-1
 topics []TopicData 0-1
  topic_name string 0-1
  partitions []PartitionData 0-1
   partition_index int32 0-1
   leader_epoch int32 0-1
   new_isr []int32 0-1
   leader_recovery_state int8 1-1
   partition_epoch int32 0-1
""",
    "alter_partition_response": """
AlterPartitionResponse 0-1
 throttle_time_ms int32 0-1
 error_code int16 0-1
 topics []TopicData 0-1
  topic_name string 0-1
  partitions []PartitionData 0-1
   partition_index int32 0-1
   error_code int16 0-1
   leader_id int32 0-1
   leader_epoch int32 0-1
   isr []int32 0-1
   leader_recovery_state int8 1-1
   partition_epoch int32 0-1
""",
}
