"""Schemas of the versions that Kafka 4.0 dropped (KIP-896) and Apache Kafka 3.9 serves, in the form of `schema_notation`.

kio begins where Kafka 4 does, so this is their home. Old structures are regrouped by the codec (`adapters`). `tests/peers` compares every
version with the message definitions of Apache Kafka 3.9.1.
"""

from __future__ import annotations

from typing import Final

LEGACY_TABLES: Final[dict[str, str]] = {
    "produce_request": """
ProduceRequest 0-2
 acks int16 0-2
 timeout_ms int32 0-2
 topic_data []TopicProduceData 0-2
  name string 0-2
  partition_data []PartitionProduceData 0-2
   index int32 0-2
   records records? 0-2
""",
    "produce_response": """
ProduceResponse 0-2
 responses []TopicProduceResponse 0-2
  name string 0-2
  partition_responses []PartitionProduceResponse 0-2
   index int32 0-2
   error_code int16 0-2
   base_offset int64 0-2
   log_append_time_ms int64 2-2 default=-1
 throttle_time_ms int32 1-2
""",
    "fetch_request": """
FetchRequest 0-3
 replica_id int32 0-3 default=-1
 max_wait_ms int32 0-3
 min_bytes int32 0-3
 max_bytes int32 3-3 default=2147483647
 topics []FetchTopic 0-3
  topic string 0-3
  partitions []FetchPartition 0-3
   partition int32 0-3
   fetch_offset int64 0-3
   partition_max_bytes int32 0-3
""",
    "fetch_response": """
FetchResponse 0-3
 throttle_time_ms int32 1-3
 responses []FetchableTopicResponse 0-3
  topic string 0-3
  partitions []PartitionData 0-3
   partition_index int32 0-3
   error_code int16 0-3
   high_watermark int64 0-3
   records records? 0-3
""",
    "list_offsets_request": """
ListOffsetsRequest 0-0
 replica_id int32 0-0
 topics []ListOffsetsTopic 0-0
  name string 0-0
  partitions []ListOffsetsPartition 0-0
   partition_index int32 0-0
   timestamp int64 0-0
   max_num_offsets int32 0-0 default=1
""",
    "list_offsets_response": """
ListOffsetsResponse 0-0
 topics []ListOffsetsTopicResponse 0-0
  name string 0-0
  partitions []ListOffsetsPartitionResponse 0-0
   partition_index int32 0-0
   error_code int16 0-0
   old_style_offsets []int64 0-0
""",
    "offset_commit_request": """
OffsetCommitRequest 0-1
 group_id string 0-1
 generation_id_or_member_epoch int32 1-1 default=-1
 member_id string 1-1
 topics []OffsetCommitRequestTopic 0-1
  name string 0-1
  partitions []OffsetCommitRequestPartition 0-1
   partition_index int32 0-1
   committed_offset int64 0-1
   commit_timestamp_ms int64 1-1 default=-1
   committed_metadata string? 0-1
""",
    "offset_commit_response": """
OffsetCommitResponse 0-1
 topics []OffsetCommitResponseTopic 0-1
  name string 0-1
  partitions []OffsetCommitResponsePartition 0-1
   partition_index int32 0-1
   error_code int16 0-1
""",
    "offset_fetch_request": """
OffsetFetchRequest 0-0
 group_id string 0-0
 topics []OffsetFetchRequestTopic 0-0
  name string 0-0
  partition_indexes []int32 0-0
""",
    "offset_fetch_response": """
OffsetFetchResponse 0-0
 topics []OffsetFetchResponseTopic 0-0
  name string 0-0
  partitions []OffsetFetchResponsePartition 0-0
   partition_index int32 0-0
   committed_offset int64 0-0
   metadata string? 0-0
   error_code int16 0-0
""",
    "create_topics_request": """
CreateTopicsRequest 0-1
 topics []CreatableTopic 0-1
  name string 0-1
  num_partitions int32 0-1
  replication_factor int16 0-1
  assignments []CreatableReplicaAssignment 0-1
   partition_index int32 0-1
   broker_ids []int32 0-1
  configs []CreatableTopicConfig 0-1
   name string 0-1
   value string? 0-1
 timeout_ms int32 0-1 default=60000
 validate_only bool 1-1
""",
    "create_topics_response": """
CreateTopicsResponse 0-1
 topics []CreatableTopicResult 0-1
  name string 0-1
  error_code int16 0-1
  error_message string? 1-1
""",
    "delete_topics_request": """
DeleteTopicsRequest 0-0
 topic_names []string 0-0
 timeout_ms int32 0-0
""",
    "delete_topics_response": """
DeleteTopicsResponse 0-0
 responses []DeletableTopicResult 0-0
  name string 0-0
  error_code int16 0-0
""",
    "offset_for_leader_epoch_request": """
OffsetForLeaderEpochRequest 0-1
 topics []OffsetForLeaderTopic 0-1
  topic string 0-1
  partitions []OffsetForLeaderPartition 0-1
   partition int32 0-1
   leader_epoch int32 0-1
""",
    "offset_for_leader_epoch_response": """
OffsetForLeaderEpochResponse 0-1
 topics []OffsetForLeaderTopicResult 0-1
  topic string 0-1
  partitions []EpochEndOffset 0-1
   error_code int16 0-1
   partition int32 0-1
   leader_epoch int32 1-1 default=-1
   end_offset int64 0-1 default=-1
""",
    "describe_acls_request": """
DescribeAclsRequest 0-0
 resource_type_filter int8 0-0
 resource_name_filter string? 0-0
 principal_filter string? 0-0
 host_filter string? 0-0
 operation int8 0-0
 permission_type int8 0-0
""",
    "describe_acls_response": """
DescribeAclsResponse 0-0
 throttle_time_ms int32 0-0
 error_code int16 0-0
 error_message string? 0-0
 resources []DescribeAclsResource 0-0
  resource_type int8 0-0
  resource_name string 0-0
  acls []AclDescription 0-0
   principal string 0-0
   host string 0-0
   operation int8 0-0
   permission_type int8 0-0
""",
    "create_acls_request": """
CreateAclsRequest 0-0
 creations []AclCreation 0-0
  resource_type int8 0-0
  resource_name string 0-0
  principal string 0-0
  host string 0-0
  operation int8 0-0
  permission_type int8 0-0
""",
    "create_acls_response": """
CreateAclsResponse 0-0
 throttle_time_ms int32 0-0
 results []AclCreationResult 0-0
  error_code int16 0-0
  error_message string? 0-0
""",
    "delete_acls_request": """
DeleteAclsRequest 0-0
 filters []DeleteAclsFilter 0-0
  resource_type_filter int8 0-0
  resource_name_filter string? 0-0
  principal_filter string? 0-0
  host_filter string? 0-0
  operation int8 0-0
  permission_type int8 0-0
""",
    "delete_acls_response": """
DeleteAclsResponse 0-0
 throttle_time_ms int32 0-0
 filter_results []DeleteAclsFilterResult 0-0
  error_code int16 0-0
  error_message string? 0-0
  matching_acls []DeleteAclsMatchingAcl 0-0
   error_code int16 0-0
   error_message string? 0-0
   resource_type int8 0-0
   resource_name string 0-0
   principal string 0-0
   host string 0-0
   operation int8 0-0
   permission_type int8 0-0
""",
    "describe_configs_request": """
DescribeConfigsRequest 0-0
 resources []DescribeConfigsResource 0-0
  resource_type int8 0-0
  resource_name string 0-0
  configuration_keys []string? 0-0
""",
    "describe_configs_response": """
DescribeConfigsResponse 0-0
 throttle_time_ms int32 0-0
 results []DescribeConfigsResult 0-0
  error_code int16 0-0
  error_message string? 0-0
  resource_type int8 0-0
  resource_name string 0-0
  configs []DescribeConfigsResourceResult 0-0
   name string 0-0
   value string? 0-0
   read_only bool 0-0
   is_default bool 0-0
   is_sensitive bool 0-0
""",
    "alter_replica_log_dirs_request": """
AlterReplicaLogDirsRequest 0-0
 dirs []AlterReplicaLogDir 0-0
  path string 0-0
  topics []AlterReplicaLogDirTopic 0-0
   name string 0-0
   partitions []int32 0-0
""",
    "alter_replica_log_dirs_response": """
AlterReplicaLogDirsResponse 0-0
 throttle_time_ms int32 0-0
 results []AlterReplicaLogDirTopicResult 0-0
  topic_name string 0-0
  partitions []AlterReplicaLogDirPartitionResult 0-0
   partition_index int32 0-0
   error_code int16 0-0
""",
    "describe_log_dirs_request": """
DescribeLogDirsRequest 0-0
 topics []DescribableLogDirTopic? 0-0
  topic string 0-0
  partitions []int32 0-0
""",
    "describe_log_dirs_response": """
DescribeLogDirsResponse 0-0
 throttle_time_ms int32 0-0
 results []DescribeLogDirsResult 0-0
  error_code int16 0-0
  log_dir string 0-0
  topics []DescribeLogDirsTopic 0-0
   name string 0-0
   partitions []DescribeLogDirsPartition 0-0
    partition_index int32 0-0
    partition_size int64 0-0
    offset_lag int64 0-0
    is_future_key bool 0-0
""",
    "create_delegation_token_request": """
CreateDelegationTokenRequest 0-0
 renewers []CreatableRenewers 0-0
  principal_type string 0-0
  principal_name string 0-0
 max_lifetime_ms int64 0-0
""",
    "create_delegation_token_response": """
CreateDelegationTokenResponse 0-0
 error_code int16 0-0
 principal_type string 0-0
 principal_name string 0-0
 issue_timestamp_ms int64 0-0
 expiry_timestamp_ms int64 0-0
 max_timestamp_ms int64 0-0
 token_id string 0-0
 hmac bytes 0-0
 throttle_time_ms int32 0-0
""",
    "renew_delegation_token_request": """
RenewDelegationTokenRequest 0-0
 hmac bytes 0-0
 renew_period_ms int64 0-0
""",
    "renew_delegation_token_response": """
RenewDelegationTokenResponse 0-0
 error_code int16 0-0
 expiry_timestamp_ms int64 0-0
 throttle_time_ms int32 0-0
""",
    "expire_delegation_token_request": """
ExpireDelegationTokenRequest 0-0
 hmac bytes 0-0
 expiry_time_period_ms int64 0-0
""",
    "expire_delegation_token_response": """
ExpireDelegationTokenResponse 0-0
 error_code int16 0-0
 expiry_timestamp_ms int64 0-0
 throttle_time_ms int32 0-0
""",
    "describe_delegation_token_request": """
DescribeDelegationTokenRequest 0-0
 owners []DescribeDelegationTokenOwner? 0-0
  principal_type string 0-0
  principal_name string 0-0
""",
    "describe_delegation_token_response": """
DescribeDelegationTokenResponse 0-0
 error_code int16 0-0
 tokens []DescribedDelegationToken 0-0
  principal_type string 0-0
  principal_name string 0-0
  issue_timestamp int64 0-0
  expiry_timestamp int64 0-0
  max_timestamp int64 0-0
  token_id string 0-0
  hmac bytes 0-0
  renewers []DescribedDelegationTokenRenewer 0-0
   principal_type string 0-0
   principal_name string 0-0
 throttle_time_ms int32 0-0
""",
    "write_txn_markers_request": """
WriteTxnMarkersRequest 0-0
 markers []WritableTxnMarker 0-0
  producer_id int64 0-0
  producer_epoch int16 0-0
  transaction_result bool 0-0
  topics []WritableTxnMarkerTopic 0-0
   name string 0-0
   partition_indexes []int32 0-0
  coordinator_epoch int32 0-0
""",
    "write_txn_markers_response": """
WriteTxnMarkersResponse 0-0
 markers []WritableTxnMarkerResult 0-0
  producer_id int64 0-0
  topics []WritableTxnMarkerTopicResult 0-0
   name string 0-0
   partitions []WritableTxnMarkerPartitionResult 0-0
    partition_index int32 0-0
    error_code int16 0-0
""",
}
