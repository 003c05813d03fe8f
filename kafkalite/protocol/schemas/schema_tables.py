"""The schemas of kio in the form of `schema_notation`.

Written by `python -m kafkalite.protocol.stubs`, never by hand, which is why it may be this long; a test compares it with kio.
"""

from __future__ import annotations

TABLES: dict[str, str] = {
    "produce_request": """
ProduceRequest 3-11
 transactional_id string? 3-11
 acks int16 3-11
 timeout_ms int32 3-11
 topic_data []TopicProduceData 3-11
  name string 3-11
  partition_data []PartitionProduceData 3-11
   index int32 3-11
   records records? 3-11
""",
    "produce_response": """
ProduceResponse 3-11
 responses []TopicProduceResponse 3-11
  name string 3-11
  partition_responses []PartitionProduceResponse 3-11
   index int32 3-11
   error_code int16 3-11
   base_offset int64 3-11
   log_append_time_ms int64 3-11 default=-1
   log_start_offset int64 5-11 default=-1
   record_errors []BatchIndexAndErrorMessage 8-11
    batch_index int32 8-11
    batch_index_error_message string? 8-11
   error_message string? 8-11
   current_leader LeaderIdAndEpoch? 10-11 tag=0
    leader_id int32 10-11 default=-1
    leader_epoch int32 10-11 default=-1
 throttle_time_ms int32 3-11
 node_endpoints []NodeEndpoint 10-11 tag=0
  node_id int32 10-11
  host string 10-11
  port int32 10-11
  rack string? 10-11
""",
    "fetch_request": """
FetchRequest 4-17
 cluster_id string? 12-17 tag=0
 replica_state ReplicaState? 15-17 tag=1
  replica_id int32 15-17 default=-1
  replica_epoch int64 15-17 default=-1
 replica_id int32 4-14 default=-1
 max_wait_ms int32 4-17
 min_bytes int32 4-17
 max_bytes int32 4-17 default=2147483647
 isolation_level int8 4-17
 session_id int32 7-17
 session_epoch int32 7-17 default=-1
 topics []FetchTopic 4-17
  topic_id uuid 13-17
  topic string 4-12
  partitions []FetchPartition 4-17
   partition int32 4-17
   current_leader_epoch int32 9-17 default=-1
   fetch_offset int64 4-17
   last_fetched_epoch int32 12-17 default=-1
   log_start_offset int64 5-17 default=-1
   partition_max_bytes int32 4-17
   replica_directory_id uuid 17-17 tag=0
 forgotten_topics_data []ForgottenTopic 7-17
  topic_id uuid 13-17
  topic string 7-12
  partitions []int32 7-17
 rack_id string 11-17
""",
    "fetch_response": """
FetchResponse 4-17
 throttle_time_ms int32 4-17
 error_code int16 7-17
 session_id int32 7-17
 responses []FetchableTopicResponse 4-17
  topic_id uuid 13-17
  topic string 4-12
  partitions []PartitionData 4-17
   partition_index int32 4-17
   error_code int16 4-17
   high_watermark int64 4-17
   last_stable_offset int64 4-17 default=-1
   log_start_offset int64 5-17 default=-1
   diverging_epoch EpochEndOffset? 12-17 tag=0
    epoch int32 12-17 default=-1
    end_offset int64 12-17 default=-1
   current_leader LeaderIdAndEpoch? 12-17 tag=1
    leader_id int32 12-17 default=-1
    leader_epoch int32 12-17 default=-1
   snapshot_id SnapshotId? 12-17 tag=2
    end_offset int64 12-17 default=-1
    epoch int32 12-17 default=-1
   aborted_transactions []AbortedTransaction? 4-17
    producer_id int64 4-17
    first_offset int64 4-17
   preferred_read_replica int32 11-17 default=-1
   records records? 4-17
 node_endpoints []NodeEndpoint 16-17 tag=0
  node_id int32 16-17
  host string 16-17
  port int32 16-17
  rack string? 16-17
""",
    "list_offsets_request": """
ListOffsetsRequest 1-9
 replica_id int32 1-9
 isolation_level int8 2-9
 topics []ListOffsetsTopic 1-9
  name string 1-9
  partitions []ListOffsetsPartition 1-9
   partition_index int32 1-9
   current_leader_epoch int32 4-9 default=-1
   timestamp int64 1-9
""",
    "list_offsets_response": """
ListOffsetsResponse 1-9
 throttle_time_ms int32 2-9
 topics []ListOffsetsTopicResponse 1-9
  name string 1-9
  partitions []ListOffsetsPartitionResponse 1-9
   partition_index int32 1-9
   error_code int16 1-9
   timestamp int64 1-9 default=-1
   offset int64 1-9 default=-1
   leader_epoch int32 4-9 default=-1
""",
    "metadata_request": """
MetadataRequest 0-12
 topics []MetadataRequestTopic? 1-12
  topic_id uuid 10-12
  name string? 10-12
  name string 1-9
 allow_auto_topic_creation bool 4-12 default=True
 include_cluster_authorized_operations bool 8-10
 include_topic_authorized_operations bool 8-12
 topics []MetadataRequestTopic 0-0
  name string 0-0
""",
    "metadata_response": """
MetadataResponse 0-12
 throttle_time_ms int32 3-12
 brokers []MetadataResponseBroker 0-12
  node_id int32 0-12
  host string 0-12
  port int32 0-12
  rack string? 1-12
 cluster_id string? 2-12
 controller_id int32 1-12 default=-1
 topics []MetadataResponseTopic 0-12
  error_code int16 0-12
  name string? 12-12
  name string 0-11
  topic_id uuid 10-12
  is_internal bool 1-12
  partitions []MetadataResponsePartition 0-12
   error_code int16 0-12
   partition_index int32 0-12
   leader_id int32 0-12
   leader_epoch int32 7-12 default=-1
   replica_nodes []int32 0-12
   isr_nodes []int32 0-12
   offline_replicas []int32 5-12
  topic_authorized_operations int32 8-12 default=-2147483648
 cluster_authorized_operations int32 8-10 default=-2147483648
""",
    "offset_commit_request": """
OffsetCommitRequest 2-9
 group_id string 2-9
 generation_id_or_member_epoch int32 2-9 default=-1
 member_id string 2-9
 group_instance_id string? 7-9
 retention_time_ms int64 2-4 default=-1
 topics []OffsetCommitRequestTopic 2-9
  name string 2-9
  partitions []OffsetCommitRequestPartition 2-9
   partition_index int32 2-9
   committed_offset int64 2-9
   committed_leader_epoch int32 6-9 default=-1
   committed_metadata string? 2-9
""",
    "offset_commit_response": """
OffsetCommitResponse 2-9
 throttle_time_ms int32 3-9
 topics []OffsetCommitResponseTopic 2-9
  name string 2-9
  partitions []OffsetCommitResponsePartition 2-9
   partition_index int32 2-9
   error_code int16 2-9
""",
    "offset_fetch_request": """
OffsetFetchRequest 1-9
 groups []OffsetFetchRequestGroup 8-9
  group_id string 8-9
  member_id string? 9-9
  member_epoch int32 9-9 default=-1
  topics []OffsetFetchRequestTopics? 8-9
   name string 8-9
   partition_indexes []int32 8-9
 group_id string 1-7
 topics []OffsetFetchRequestTopic? 2-7
  name string 2-7
  partition_indexes []int32 2-7
 require_stable bool 7-9
 topics []OffsetFetchRequestTopic 1-1
  name string 1-1
  partition_indexes []int32 1-1
""",
    "offset_fetch_response": """
OffsetFetchResponse 1-9
 throttle_time_ms int32 3-9
 groups []OffsetFetchResponseGroup 8-9
  group_id string 8-9
  topics []OffsetFetchResponseTopics 8-9
   name string 8-9
   partitions []OffsetFetchResponsePartitions 8-9
    partition_index int32 8-9
    committed_offset int64 8-9
    committed_leader_epoch int32 8-9 default=-1
    metadata string? 8-9
    error_code int16 8-9
  error_code int16 8-9
 topics []OffsetFetchResponseTopic 1-7
  name string 1-7
  partitions []OffsetFetchResponsePartition 1-7
   partition_index int32 1-7
   committed_offset int64 1-7
   committed_leader_epoch int32 5-7 default=-1
   metadata string? 1-7
   error_code int16 1-7
 error_code int16 2-7
""",
    "find_coordinator_request": """
FindCoordinatorRequest 0-6
 key string 0-3
 key_type int8 1-6
 coordinator_keys []string 4-6
""",
    "find_coordinator_response": """
FindCoordinatorResponse 0-6
 throttle_time_ms int32 1-6
 coordinators []Coordinator 4-6
  key string 4-6
  node_id int32 4-6
  host string 4-6
  port int32 4-6
  error_code int16 4-6
  error_message string? 4-6
 error_code int16 0-3
 error_message string? 1-3
 node_id int32 0-3
 host string 0-3
 port int32 0-3
""",
    "join_group_request": """
JoinGroupRequest 0-9
 group_id string 0-9
 session_timeout_ms int32 0-9
 rebalance_timeout_ms int32 1-9 default=-1
 member_id string 0-9
 group_instance_id string? 5-9
 protocol_type string 0-9
 protocols []JoinGroupRequestProtocol 0-9
  name string 0-9
  metadata bytes 0-9
 reason string? 8-9
""",
    "join_group_response": """
JoinGroupResponse 0-9
 throttle_time_ms int32 2-9
 error_code int16 0-9
 generation_id int32 0-9 default=-1
 protocol_type string? 7-9
 protocol_name string? 7-9
 protocol_name string 0-6
 leader string 0-9
 skip_assignment bool 9-9
 member_id string 0-9
 members []JoinGroupResponseMember 0-9
  member_id string 0-9
  group_instance_id string? 5-9
  metadata bytes 0-9
""",
    "heartbeat_request": """
HeartbeatRequest 0-4
 group_id string 0-4
 generation_id int32 0-4
 member_id string 0-4
 group_instance_id string? 3-4
""",
    "heartbeat_response": """
HeartbeatResponse 0-4
 throttle_time_ms int32 1-4
 error_code int16 0-4
""",
    "leave_group_request": """
LeaveGroupRequest 0-5
 group_id string 0-5
 members []MemberIdentity 3-5
  member_id string 3-5
  group_instance_id string? 3-5
  reason string? 5-5
 member_id string 0-2
""",
    "leave_group_response": """
LeaveGroupResponse 0-5
 throttle_time_ms int32 1-5
 error_code int16 0-5
 members []MemberResponse 3-5
  member_id string 3-5
  group_instance_id string? 3-5
  error_code int16 3-5
""",
    "sync_group_request": """
SyncGroupRequest 0-5
 group_id string 0-5
 generation_id int32 0-5
 member_id string 0-5
 group_instance_id string? 3-5
 protocol_type string? 5-5
 protocol_name string? 5-5
 assignments []SyncGroupRequestAssignment 0-5
  member_id string 0-5
  assignment bytes 0-5
""",
    "sync_group_response": """
SyncGroupResponse 0-5
 throttle_time_ms int32 1-5
 error_code int16 0-5
 protocol_type string? 5-5
 protocol_name string? 5-5
 assignment bytes 0-5
""",
    "describe_groups_request": """
DescribeGroupsRequest 0-5
 groups []string 0-5
 include_authorized_operations bool 3-5
""",
    "describe_groups_response": """
DescribeGroupsResponse 0-5
 throttle_time_ms int32 1-5
 groups []DescribedGroup 0-5
  error_code int16 0-5
  group_id string 0-5
  group_state string 0-5
  protocol_type string 0-5
  protocol_data string 0-5
  members []DescribedGroupMember 0-5
   member_id string 0-5
   group_instance_id string? 4-5
   client_id string 0-5
   client_host string 0-5
   member_metadata bytes 0-5
   member_assignment bytes 0-5
  authorized_operations int32 3-5 default=-2147483648
""",
    "list_groups_request": """
ListGroupsRequest 0-5
 states_filter []string 4-5
 types_filter []string 5-5
""",
    "list_groups_response": """
ListGroupsResponse 0-5
 throttle_time_ms int32 1-5
 error_code int16 0-5
 groups []ListedGroup 0-5
  group_id string 0-5
  protocol_type string 0-5
  group_state string 4-5
  group_type string 5-5
""",
    "sasl_handshake_request": """
SaslHandshakeRequest 0-1
 mechanism string 0-1
""",
    "sasl_handshake_response": """
SaslHandshakeResponse 0-1
 error_code int16 0-1
 mechanisms []string 0-1
""",
    "api_versions_request": """
ApiVersionsRequest 0-4
 client_software_name string 3-4
 client_software_version string 3-4
""",
    "api_versions_response": """
ApiVersionsResponse 0-4
 error_code int16 0-4
 api_keys []ApiVersion 0-4
  api_key int16 0-4
  min_version int16 0-4
  max_version int16 0-4
 throttle_time_ms int32 1-4
 supported_features []SupportedFeatureKey 3-4 tag=0
  name string 3-4
  min_version int16 3-4
  max_version int16 3-4
 finalized_features_epoch int64 3-4 tag=1 default=-1
 finalized_features []FinalizedFeatureKey 3-4 tag=2
  name string 3-4
  max_version_level int16 3-4
  min_version_level int16 3-4
 zk_migration_ready bool 3-4 tag=3
""",
    "create_topics_request": """
CreateTopicsRequest 2-7
 topics []CreatableTopic 2-7
  name string 2-7
  num_partitions int32 2-7
  replication_factor int16 2-7
  assignments []CreatableReplicaAssignment 2-7
   partition_index int32 2-7
   broker_ids []int32 2-7
  configs []CreatableTopicConfig 2-7
   name string 2-7
   value string? 2-7
 timeout_ms int32 2-7 default=60000
 validate_only bool 2-7
""",
    "create_topics_response": """
CreateTopicsResponse 2-7
 throttle_time_ms int32 2-7
 topics []CreatableTopicResult 2-7
  name string 2-7
  topic_id uuid 7-7
  error_code int16 2-7
  error_message string? 2-7
  topic_config_error_code int16 5-7 tag=0
  num_partitions int32 5-7 default=-1
  replication_factor int16 5-7 default=-1
  configs []CreatableTopicConfigs? 5-7
   name string 5-7
   value string? 5-7
   read_only bool 5-7
   config_source int8 5-7 default=-1
   is_sensitive bool 5-7
""",
    "delete_topics_request": """
DeleteTopicsRequest 1-6
 topics []DeleteTopicState 6-6
  name string? 6-6
  topic_id uuid 6-6
 topic_names []string 1-5
 timeout_ms int32 1-6
""",
    "delete_topics_response": """
DeleteTopicsResponse 1-6
 throttle_time_ms int32 1-6
 responses []DeletableTopicResult 1-6
  name string? 6-6
  topic_id uuid 6-6
  name string 1-5
  error_code int16 1-6
  error_message string? 5-6
""",
    "delete_records_request": """
DeleteRecordsRequest 0-2
 topics []DeleteRecordsTopic 0-2
  name string 0-2
  partitions []DeleteRecordsPartition 0-2
   partition_index int32 0-2
   offset int64 0-2
 timeout_ms int32 0-2
""",
    "delete_records_response": """
DeleteRecordsResponse 0-2
 throttle_time_ms int32 0-2
 topics []DeleteRecordsTopicResult 0-2
  name string 0-2
  partitions []DeleteRecordsPartitionResult 0-2
   partition_index int32 0-2
   low_watermark int64 0-2
   error_code int16 0-2
""",
    "init_producer_id_request": """
InitProducerIdRequest 0-5
 transactional_id string? 0-5
 transaction_timeout_ms int32 0-5
 producer_id int64 3-5 default=-1
 producer_epoch int16 3-5 default=-1
""",
    "init_producer_id_response": """
InitProducerIdResponse 0-5
 throttle_time_ms int32 0-5
 error_code int16 0-5
 producer_id int64 0-5 default=-1
 producer_epoch int16 0-5
""",
    "offset_for_leader_epoch_request": """
OffsetForLeaderEpochRequest 2-4
 replica_id int32 3-4 default=-2
 topics []OffsetForLeaderTopic 2-4
  topic string 2-4
  partitions []OffsetForLeaderPartition 2-4
   partition int32 2-4
   current_leader_epoch int32 2-4 default=-1
   leader_epoch int32 2-4
""",
    "offset_for_leader_epoch_response": """
OffsetForLeaderEpochResponse 2-4
 throttle_time_ms int32 2-4
 topics []OffsetForLeaderTopicResult 2-4
  topic string 2-4
  partitions []EpochEndOffset 2-4
   error_code int16 2-4
   partition int32 2-4
   leader_epoch int32 2-4 default=-1
   end_offset int64 2-4 default=-1
""",
    "add_partitions_to_txn_request": """
AddPartitionsToTxnRequest 0-5
 transactions []AddPartitionsToTxnTransaction 4-5
  transactional_id string 4-5
  producer_id int64 4-5
  producer_epoch int16 4-5
  verify_only bool 4-5
  topics []AddPartitionsToTxnTopic 4-5
   name string 4-5
   partitions []int32 4-5
 v3_and_below_transactional_id string 0-3
 v3_and_below_producer_id int64 0-3
 v3_and_below_producer_epoch int16 0-3
 v3_and_below_topics []AddPartitionsToTxnTopic 0-3
  name string 0-3
  partitions []int32 0-3
""",
    "add_partitions_to_txn_response": """
AddPartitionsToTxnResponse 0-5
 throttle_time_ms int32 0-5
 error_code int16 4-5
 results_by_transaction []AddPartitionsToTxnResult 4-5
  transactional_id string 4-5
  topic_results []AddPartitionsToTxnTopicResult 4-5
   name string 4-5
   results_by_partition []AddPartitionsToTxnPartitionResult 4-5
    partition_index int32 4-5
    partition_error_code int16 4-5
 results_by_topic_v3_and_below []AddPartitionsToTxnTopicResult 0-3
  name string 0-3
  results_by_partition []AddPartitionsToTxnPartitionResult 0-3
   partition_index int32 0-3
   partition_error_code int16 0-3
""",
    "add_offsets_to_txn_request": """
AddOffsetsToTxnRequest 0-4
 transactional_id string 0-4
 producer_id int64 0-4
 producer_epoch int16 0-4
 group_id string 0-4
""",
    "add_offsets_to_txn_response": """
AddOffsetsToTxnResponse 0-4
 throttle_time_ms int32 0-4
 error_code int16 0-4
""",
    "end_txn_request": """
EndTxnRequest 0-4
 transactional_id string 0-4
 producer_id int64 0-4
 producer_epoch int16 0-4
 committed bool 0-4
""",
    "end_txn_response": """
EndTxnResponse 0-4
 throttle_time_ms int32 0-4
 error_code int16 0-4
""",
    "write_txn_markers_request": """
WriteTxnMarkersRequest 1-1
 markers []WritableTxnMarker 1-1
  producer_id int64 1-1
  producer_epoch int16 1-1
  transaction_result bool 1-1
  topics []WritableTxnMarkerTopic 1-1
   name string 1-1
   partition_indexes []int32 1-1
  coordinator_epoch int32 1-1
""",
    "write_txn_markers_response": """
WriteTxnMarkersResponse 1-1
 markers []WritableTxnMarkerResult 1-1
  producer_id int64 1-1
  topics []WritableTxnMarkerTopicResult 1-1
   name string 1-1
   partitions []WritableTxnMarkerPartitionResult 1-1
    partition_index int32 1-1
    error_code int16 1-1
""",
    "txn_offset_commit_request": """
TxnOffsetCommitRequest 0-4
 transactional_id string 0-4
 group_id string 0-4
 producer_id int64 0-4
 producer_epoch int16 0-4
 generation_id int32 3-4 default=-1
 member_id string 3-4
 group_instance_id string? 3-4
 topics []TxnOffsetCommitRequestTopic 0-4
  name string 0-4
  partitions []TxnOffsetCommitRequestPartition 0-4
   partition_index int32 0-4
   committed_offset int64 0-4
   committed_leader_epoch int32 2-4 default=-1
   committed_metadata string? 0-4
""",
    "txn_offset_commit_response": """
TxnOffsetCommitResponse 0-4
 throttle_time_ms int32 0-4
 topics []TxnOffsetCommitResponseTopic 0-4
  name string 0-4
  partitions []TxnOffsetCommitResponsePartition 0-4
   partition_index int32 0-4
   error_code int16 0-4
""",
    "describe_acls_request": """
DescribeAclsRequest 1-3
 resource_type_filter int8 1-3
 resource_name_filter string? 1-3
 pattern_type_filter int8 1-3 default=3
 principal_filter string? 1-3
 host_filter string? 1-3
 operation int8 1-3
 permission_type int8 1-3
""",
    "describe_acls_response": """
DescribeAclsResponse 1-3
 throttle_time_ms int32 1-3
 error_code int16 1-3
 error_message string? 1-3
 resources []DescribeAclsResource 1-3
  resource_type int8 1-3
  resource_name string 1-3
  pattern_type int8 1-3 default=3
  acls []AclDescription 1-3
   principal string 1-3
   host string 1-3
   operation int8 1-3
   permission_type int8 1-3
""",
    "create_acls_request": """
CreateAclsRequest 1-3
 creations []AclCreation 1-3
  resource_type int8 1-3
  resource_name string 1-3
  resource_pattern_type int8 1-3 default=3
  principal string 1-3
  host string 1-3
  operation int8 1-3
  permission_type int8 1-3
""",
    "create_acls_response": """
CreateAclsResponse 1-3
 throttle_time_ms int32 1-3
 results []AclCreationResult 1-3
  error_code int16 1-3
  error_message string? 1-3
""",
    "delete_acls_request": """
DeleteAclsRequest 1-3
 filters []DeleteAclsFilter 1-3
  resource_type_filter int8 1-3
  resource_name_filter string? 1-3
  pattern_type_filter int8 1-3 default=3
  principal_filter string? 1-3
  host_filter string? 1-3
  operation int8 1-3
  permission_type int8 1-3
""",
    "delete_acls_response": """
DeleteAclsResponse 1-3
 throttle_time_ms int32 1-3
 filter_results []DeleteAclsFilterResult 1-3
  error_code int16 1-3
  error_message string? 1-3
  matching_acls []DeleteAclsMatchingAcl 1-3
   error_code int16 1-3
   error_message string? 1-3
   resource_type int8 1-3
   resource_name string 1-3
   pattern_type int8 1-3 default=3
   principal string 1-3
   host string 1-3
   operation int8 1-3
   permission_type int8 1-3
""",
    "describe_configs_request": """
DescribeConfigsRequest 1-4
 resources []DescribeConfigsResource 1-4
  resource_type int8 1-4
  resource_name string 1-4
  configuration_keys []string? 1-4
 include_synonyms bool 1-4
 include_documentation bool 3-4
""",
    "describe_configs_response": """
DescribeConfigsResponse 1-4
 throttle_time_ms int32 1-4
 results []DescribeConfigsResult 1-4
  error_code int16 1-4
  error_message string? 1-4
  resource_type int8 1-4
  resource_name string 1-4
  configs []DescribeConfigsResourceResult 1-4
   name string 1-4
   value string? 1-4
   read_only bool 1-4
   config_source int8 1-4 default=-1
   is_sensitive bool 1-4
   synonyms []DescribeConfigsSynonym 1-4
    name string 1-4
    value string? 1-4
    source int8 1-4
   config_type int8 3-4
   documentation string? 3-4
""",
    "alter_configs_request": """
AlterConfigsRequest 0-2
 resources []AlterConfigsResource 0-2
  resource_type int8 0-2
  resource_name string 0-2
  configs []AlterableConfig 0-2
   name string 0-2
   value string? 0-2
 validate_only bool 0-2
""",
    "alter_configs_response": """
AlterConfigsResponse 0-2
 throttle_time_ms int32 0-2
 responses []AlterConfigsResourceResponse 0-2
  error_code int16 0-2
  error_message string? 0-2
  resource_type int8 0-2
  resource_name string 0-2
""",
    "alter_replica_log_dirs_request": """
AlterReplicaLogDirsRequest 1-2
 dirs []AlterReplicaLogDir 1-2
  path string 1-2
  topics []AlterReplicaLogDirTopic 1-2
   name string 1-2
   partitions []int32 1-2
""",
    "alter_replica_log_dirs_response": """
AlterReplicaLogDirsResponse 1-2
 throttle_time_ms int32 1-2
 results []AlterReplicaLogDirTopicResult 1-2
  topic_name string 1-2
  partitions []AlterReplicaLogDirPartitionResult 1-2
   partition_index int32 1-2
   error_code int16 1-2
""",
    "describe_log_dirs_request": """
DescribeLogDirsRequest 1-4
 topics []DescribableLogDirTopic? 1-4
  topic string 1-4
  partitions []int32 1-4
""",
    "describe_log_dirs_response": """
DescribeLogDirsResponse 1-4
 throttle_time_ms int32 1-4
 error_code int16 3-4
 results []DescribeLogDirsResult 1-4
  error_code int16 1-4
  log_dir string 1-4
  topics []DescribeLogDirsTopic 1-4
   name string 1-4
   partitions []DescribeLogDirsPartition 1-4
    partition_index int32 1-4
    partition_size int64 1-4
    offset_lag int64 1-4
    is_future_key bool 1-4
  total_bytes int64 4-4 default=-1
  usable_bytes int64 4-4 default=-1
""",
    "sasl_authenticate_request": """
SaslAuthenticateRequest 0-2
 auth_bytes bytes 0-2
""",
    "sasl_authenticate_response": """
SaslAuthenticateResponse 0-2
 error_code int16 0-2
 error_message string? 0-2
 auth_bytes bytes 0-2
 session_lifetime_ms int64 1-2
""",
    "create_partitions_request": """
CreatePartitionsRequest 0-3
 topics []CreatePartitionsTopic 0-3
  name string 0-3
  count int32 0-3
  assignments []CreatePartitionsAssignment? 0-3
   broker_ids []int32 0-3
 timeout_ms int32 0-3
 validate_only bool 0-3
""",
    "create_partitions_response": """
CreatePartitionsResponse 0-3
 throttle_time_ms int32 0-3
 results []CreatePartitionsTopicResult 0-3
  name string 0-3
  error_code int16 0-3
  error_message string? 0-3
""",
    "create_delegation_token_request": """
CreateDelegationTokenRequest 1-3
 owner_principal_type string? 3-3
 owner_principal_name string? 3-3
 renewers []CreatableRenewers 1-3
  principal_type string 1-3
  principal_name string 1-3
 max_lifetime_ms int64 1-3
""",
    "create_delegation_token_response": """
CreateDelegationTokenResponse 1-3
 error_code int16 1-3
 principal_type string 1-3
 principal_name string 1-3
 token_requester_principal_type string 3-3
 token_requester_principal_name string 3-3
 issue_timestamp_ms int64 1-3
 expiry_timestamp_ms int64 1-3
 max_timestamp_ms int64 1-3
 token_id string 1-3
 hmac bytes 1-3
 throttle_time_ms int32 1-3
""",
    "renew_delegation_token_request": """
RenewDelegationTokenRequest 1-2
 hmac bytes 1-2
 renew_period_ms int64 1-2
""",
    "renew_delegation_token_response": """
RenewDelegationTokenResponse 1-2
 error_code int16 1-2
 expiry_timestamp_ms int64 1-2
 throttle_time_ms int32 1-2
""",
    "expire_delegation_token_request": """
ExpireDelegationTokenRequest 1-2
 hmac bytes 1-2
 expiry_time_period_ms int64 1-2
""",
    "expire_delegation_token_response": """
ExpireDelegationTokenResponse 1-2
 error_code int16 1-2
 expiry_timestamp_ms int64 1-2
 throttle_time_ms int32 1-2
""",
    "describe_delegation_token_request": """
DescribeDelegationTokenRequest 1-3
 owners []DescribeDelegationTokenOwner? 1-3
  principal_type string 1-3
  principal_name string 1-3
""",
    "describe_delegation_token_response": """
DescribeDelegationTokenResponse 1-3
 error_code int16 1-3
 tokens []DescribedDelegationToken 1-3
  principal_type string 1-3
  principal_name string 1-3
  token_requester_principal_type string 3-3
  token_requester_principal_name string 3-3
  issue_timestamp int64 1-3
  expiry_timestamp int64 1-3
  max_timestamp int64 1-3
  token_id string 1-3
  hmac bytes 1-3
  renewers []DescribedDelegationTokenRenewer 1-3
   principal_type string 1-3
   principal_name string 1-3
 throttle_time_ms int32 1-3
""",
    "delete_groups_request": """
DeleteGroupsRequest 0-2
 groups_names []string 0-2
""",
    "delete_groups_response": """
DeleteGroupsResponse 0-2
 throttle_time_ms int32 0-2
 results []DeletableGroupResult 0-2
  group_id string 0-2
  error_code int16 0-2
""",
    "elect_leaders_request": """
ElectLeadersRequest 0-2
 election_type int8 1-2
 topic_partitions []TopicPartitions? 0-2
  topic string 0-2
  partitions []int32 0-2
 timeout_ms int32 0-2 default=60000
""",
    "elect_leaders_response": """
ElectLeadersResponse 0-2
 throttle_time_ms int32 0-2
 error_code int16 1-2
 replica_election_results []ReplicaElectionResult 0-2
  topic string 0-2
  partition_result []PartitionResult 0-2
   partition_id int32 0-2
   error_code int16 0-2
   error_message string? 0-2
""",
    "incremental_alter_configs_request": """
IncrementalAlterConfigsRequest 0-1
 resources []AlterConfigsResource 0-1
  resource_type int8 0-1
  resource_name string 0-1
  configs []AlterableConfig 0-1
   name string 0-1
   config_operation int8 0-1
   value string? 0-1
 validate_only bool 0-1
""",
    "incremental_alter_configs_response": """
IncrementalAlterConfigsResponse 0-1
 throttle_time_ms int32 0-1
 responses []AlterConfigsResourceResponse 0-1
  error_code int16 0-1
  error_message string? 0-1
  resource_type int8 0-1
  resource_name string 0-1
""",
    "alter_partition_reassignments_request": """
AlterPartitionReassignmentsRequest 0-0
 timeout_ms int32 0-0 default=60000
 topics []ReassignableTopic 0-0
  name string 0-0
  partitions []ReassignablePartition 0-0
   partition_index int32 0-0
   replicas []int32? 0-0
""",
    "alter_partition_reassignments_response": """
AlterPartitionReassignmentsResponse 0-0
 throttle_time_ms int32 0-0
 error_code int16 0-0
 error_message string? 0-0
 responses []ReassignableTopicResponse 0-0
  name string 0-0
  partitions []ReassignablePartitionResponse 0-0
   partition_index int32 0-0
   error_code int16 0-0
   error_message string? 0-0
""",
    "list_partition_reassignments_request": """
ListPartitionReassignmentsRequest 0-0
 timeout_ms int32 0-0 default=60000
 topics []ListPartitionReassignmentsTopics? 0-0
  name string 0-0
  partition_indexes []int32 0-0
""",
    "list_partition_reassignments_response": """
ListPartitionReassignmentsResponse 0-0
 throttle_time_ms int32 0-0
 error_code int16 0-0
 error_message string? 0-0
 topics []OngoingTopicReassignment 0-0
  name string 0-0
  partitions []OngoingPartitionReassignment 0-0
   partition_index int32 0-0
   replicas []int32 0-0
   adding_replicas []int32 0-0
   removing_replicas []int32 0-0
""",
    "offset_delete_request": """
OffsetDeleteRequest 0-0
 group_id string 0-0
 topics []OffsetDeleteRequestTopic 0-0
  name string 0-0
  partitions []OffsetDeleteRequestPartition 0-0
   partition_index int32 0-0
""",
    "offset_delete_response": """
OffsetDeleteResponse 0-0
 error_code int16 0-0
 throttle_time_ms int32 0-0
 topics []OffsetDeleteResponseTopic 0-0
  name string 0-0
  partitions []OffsetDeleteResponsePartition 0-0
   partition_index int32 0-0
   error_code int16 0-0
""",
    "describe_client_quotas_request": """
DescribeClientQuotasRequest 0-1
 components []ComponentData 0-1
  entity_type string 0-1
  match_type int8 0-1
  match string? 0-1
 strict bool 0-1
""",
    "describe_client_quotas_response": """
DescribeClientQuotasResponse 0-1
 throttle_time_ms int32 0-1
 error_code int16 0-1
 error_message string? 0-1
 entries []EntryData? 0-1
  entity []EntityData 0-1
   entity_type string 0-1
   entity_name string? 0-1
  values []ValueData 0-1
   key string 0-1
   value float64 0-1
""",
    "alter_client_quotas_request": """
AlterClientQuotasRequest 0-1
 entries []EntryData 0-1
  entity []EntityData 0-1
   entity_type string 0-1
   entity_name string? 0-1
  ops []OpData 0-1
   key string 0-1
   value float64 0-1
   remove bool 0-1
 validate_only bool 0-1
""",
    "alter_client_quotas_response": """
AlterClientQuotasResponse 0-1
 throttle_time_ms int32 0-1
 entries []EntryData 0-1
  error_code int16 0-1
  error_message string? 0-1
  entity []EntityData 0-1
   entity_type string 0-1
   entity_name string? 0-1
""",
    "describe_user_scram_credentials_request": """
DescribeUserScramCredentialsRequest 0-0
 users []UserName? 0-0
  name string 0-0
""",
    "describe_user_scram_credentials_response": """
DescribeUserScramCredentialsResponse 0-0
 throttle_time_ms int32 0-0
 error_code int16 0-0
 error_message string? 0-0
 results []DescribeUserScramCredentialsResult 0-0
  user string 0-0
  error_code int16 0-0
  error_message string? 0-0
  credential_infos []CredentialInfo 0-0
   mechanism int8 0-0
   iterations int32 0-0
""",
    "alter_user_scram_credentials_request": """
AlterUserScramCredentialsRequest 0-0
 deletions []ScramCredentialDeletion 0-0
  name string 0-0
  mechanism int8 0-0
 upsertions []ScramCredentialUpsertion 0-0
  name string 0-0
  mechanism int8 0-0
  iterations int32 0-0
  salt bytes 0-0
  salted_password bytes 0-0
""",
    "alter_user_scram_credentials_response": """
AlterUserScramCredentialsResponse 0-0
 throttle_time_ms int32 0-0
 results []AlterUserScramCredentialsResult 0-0
  user string 0-0
  error_code int16 0-0
  error_message string? 0-0
""",
    "alter_partition_request": """
AlterPartitionRequest 2-3
 broker_id int32 2-3
 broker_epoch int64 2-3 default=-1
 topics []TopicData 2-3
  topic_id uuid 2-3
  partitions []PartitionData 2-3
   partition_index int32 2-3
   leader_epoch int32 2-3
   new_isr_with_epochs []BrokerState 3-3
    broker_id int32 3-3
    broker_epoch int64 3-3 default=-1
   new_isr []int32 2-2
   leader_recovery_state int8 2-3
   partition_epoch int32 2-3
""",
    "alter_partition_response": """
AlterPartitionResponse 2-3
 throttle_time_ms int32 2-3
 error_code int16 2-3
 topics []TopicData 2-3
  topic_id uuid 2-3
  partitions []PartitionData 2-3
   partition_index int32 2-3
   error_code int16 2-3
   leader_id int32 2-3
   leader_epoch int32 2-3
   isr []int32 2-3
   leader_recovery_state int8 2-3
   partition_epoch int32 2-3
""",
    "update_features_request": """
UpdateFeaturesRequest 0-1
 timeout_ms int32 0-1 default=60000
 feature_updates []FeatureUpdateKey 0-1
  feature string 0-1
  max_version_level int16 0-1
  upgrade_type int8 1-1 default=1
  allow_downgrade bool 0-0
 validate_only bool 1-1
""",
    "update_features_response": """
UpdateFeaturesResponse 0-1
 throttle_time_ms int32 0-1
 error_code int16 0-1
 error_message string? 0-1
 results []UpdatableFeatureResult 0-1
  feature string 0-1
  error_code int16 0-1
  error_message string? 0-1
""",
    "envelope_request": """
EnvelopeRequest 0-0
 request_data bytes 0-0
 request_principal bytes? 0-0
 client_host_address bytes 0-0
""",
    "envelope_response": """
EnvelopeResponse 0-0
 response_data bytes? 0-0
 error_code int16 0-0
""",
    "describe_cluster_request": """
DescribeClusterRequest 0-1
 include_cluster_authorized_operations bool 0-1
 endpoint_type int8 1-1 default=1
""",
    "describe_cluster_response": """
DescribeClusterResponse 0-1
 throttle_time_ms int32 0-1
 error_code int16 0-1
 error_message string? 0-1
 endpoint_type int8 1-1 default=1
 cluster_id string 0-1
 controller_id int32 0-1 default=-1
 brokers []DescribeClusterBroker 0-1
  broker_id int32 0-1
  host string 0-1
  port int32 0-1
  rack string? 0-1
 cluster_authorized_operations int32 0-1 default=-2147483648
""",
    "describe_producers_request": """
DescribeProducersRequest 0-0
 topics []TopicRequest 0-0
  name string 0-0
  partition_indexes []int32 0-0
""",
    "describe_producers_response": """
DescribeProducersResponse 0-0
 throttle_time_ms int32 0-0
 topics []TopicResponse 0-0
  name string 0-0
  partitions []PartitionResponse 0-0
   partition_index int32 0-0
   error_code int16 0-0
   error_message string? 0-0
   active_producers []ProducerState 0-0
    producer_id int64 0-0
    producer_epoch int32 0-0
    last_sequence int32 0-0 default=-1
    last_timestamp int64 0-0 default=-1
    coordinator_epoch int32 0-0
    current_txn_start_offset int64 0-0 default=-1
""",
    "broker_registration_request": """
BrokerRegistrationRequest 0-4
 broker_id int32 0-4
 cluster_id string 0-4
 incarnation_id uuid 0-4
 listeners []Listener 0-4
  name string 0-4
  host string 0-4
  port uint16 0-4
  security_protocol int16 0-4
 features []Feature 0-4
  name string 0-4
  min_supported_version int16 0-4
  max_supported_version int16 0-4
 rack string? 0-4
 is_migrating_zk_broker bool 1-4
 log_dirs []uuid 2-4
 previous_broker_epoch int64 3-4 default=-1
""",
    "broker_registration_response": """
BrokerRegistrationResponse 0-4
 throttle_time_ms int32 0-4
 error_code int16 0-4
 broker_epoch int64 0-4 default=-1
""",
    "broker_heartbeat_request": """
BrokerHeartbeatRequest 0-1
 broker_id int32 0-1
 broker_epoch int64 0-1 default=-1
 current_metadata_offset int64 0-1
 want_fence bool 0-1
 want_shut_down bool 0-1
 offline_log_dirs []uuid 1-1 tag=0
""",
    "broker_heartbeat_response": """
BrokerHeartbeatResponse 0-1
 throttle_time_ms int32 0-1
 error_code int16 0-1
 is_caught_up bool 0-1
 is_fenced bool 0-1 default=True
 should_shut_down bool 0-1
""",
    "unregister_broker_request": """
UnregisterBrokerRequest 0-0
 broker_id int32 0-0
""",
    "unregister_broker_response": """
UnregisterBrokerResponse 0-0
 throttle_time_ms int32 0-0
 error_code int16 0-0
 error_message string? 0-0
""",
    "describe_transactions_request": """
DescribeTransactionsRequest 0-0
 transactional_ids []string 0-0
""",
    "describe_transactions_response": """
DescribeTransactionsResponse 0-0
 throttle_time_ms int32 0-0
 transaction_states []TransactionState 0-0
  error_code int16 0-0
  transactional_id string 0-0
  transaction_state string 0-0
  transaction_timeout_ms int32 0-0
  transaction_start_time_ms int64 0-0
  producer_id int64 0-0
  producer_epoch int16 0-0
  topics []TopicData 0-0
   topic string 0-0
   partitions []int32 0-0
""",
    "list_transactions_request": """
ListTransactionsRequest 0-1
 state_filters []string 0-1
 producer_id_filters []int64 0-1
 duration_filter int64 1-1 default=-1
""",
    "list_transactions_response": """
ListTransactionsResponse 0-1
 throttle_time_ms int32 0-1
 error_code int16 0-1
 unknown_state_filters []string 0-1
 transaction_states []TransactionState 0-1
  transactional_id string 0-1
  producer_id int64 0-1
  transaction_state string 0-1
""",
    "allocate_producer_ids_request": """
AllocateProducerIdsRequest 0-0
 broker_id int32 0-0
 broker_epoch int64 0-0 default=-1
""",
    "allocate_producer_ids_response": """
AllocateProducerIdsResponse 0-0
 throttle_time_ms int32 0-0
 error_code int16 0-0
 producer_id_start int64 0-0
 producer_id_len int32 0-0
""",
    "consumer_group_heartbeat_request": """
ConsumerGroupHeartbeatRequest 0-0
 group_id string 0-0
 member_id string 0-0
 member_epoch int32 0-0
 instance_id string? 0-0
 rack_id string? 0-0
 rebalance_timeout_ms int32 0-0 default=-1
 subscribed_topic_names []string? 0-0
 server_assignor string? 0-0
 topic_partitions []TopicPartitions? 0-0
  topic_id uuid 0-0
  partitions []int32 0-0
""",
    "consumer_group_heartbeat_response": """
ConsumerGroupHeartbeatResponse 0-0
 throttle_time_ms int32 0-0
 error_code int16 0-0
 error_message string? 0-0
 member_id string? 0-0
 member_epoch int32 0-0
 heartbeat_interval_ms int32 0-0
 assignment Assignment? 0-0
  topic_partitions []TopicPartitions 0-0
   topic_id uuid 0-0
   partitions []int32 0-0
""",
    "consumer_group_describe_request": """
ConsumerGroupDescribeRequest 0-0
 group_ids []string 0-0
 include_authorized_operations bool 0-0
""",
    "consumer_group_describe_response": """
ConsumerGroupDescribeResponse 0-0
 throttle_time_ms int32 0-0
 groups []DescribedGroup 0-0
  error_code int16 0-0
  error_message string? 0-0
  group_id string 0-0
  group_state string 0-0
  group_epoch int32 0-0
  assignment_epoch int32 0-0
  assignor_name string 0-0
  members []Member 0-0
   member_id string 0-0
   instance_id string? 0-0
   rack_id string? 0-0
   member_epoch int32 0-0
   client_id string 0-0
   client_host string 0-0
   subscribed_topic_names []string 0-0
   subscribed_topic_regex string? 0-0
   assignment Assignment 0-0
    topic_partitions []TopicPartitions 0-0
     topic_id uuid 0-0
     topic_name string 0-0
     partitions []int32 0-0
   target_assignment Assignment 0-0
    topic_partitions []TopicPartitions 0-0
     topic_id uuid 0-0
     topic_name string 0-0
     partitions []int32 0-0
  authorized_operations int32 0-0 default=-2147483648
""",
    "describe_topic_partitions_request": """
DescribeTopicPartitionsRequest 0-0
 topics []TopicRequest 0-0
  name string 0-0
 response_partition_limit int32 0-0 default=2000
 cursor Cursor? 0-0
  topic_name string 0-0
  partition_index int32 0-0
""",
    "describe_topic_partitions_response": """
DescribeTopicPartitionsResponse 0-0
 throttle_time_ms int32 0-0
 topics []DescribeTopicPartitionsResponseTopic 0-0
  error_code int16 0-0
  name string? 0-0
  topic_id uuid 0-0
  is_internal bool 0-0
  partitions []DescribeTopicPartitionsResponsePartition 0-0
   error_code int16 0-0
   partition_index int32 0-0
   leader_id int32 0-0
   leader_epoch int32 0-0 default=-1
   replica_nodes []int32 0-0
   isr_nodes []int32 0-0
   eligible_leader_replicas []int32? 0-0
   last_known_elr []int32? 0-0
   offline_replicas []int32 0-0
  topic_authorized_operations int32 0-0 default=-2147483648
 next_cursor Cursor? 0-0
  topic_name string 0-0
  partition_index int32 0-0
""",
}
