"""The reply of each API when the whole request fails: the error at the top where the API has a place for it, else on every item."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kafkalite.broker.user_credentials import users_of
from kafkalite.errors import ErrorCode, ProtocolViolation
from kafkalite.protocol import messages
from kafkalite.protocol.apis import Api, ApiKey


def error_reply(api: Api, request: Any, version: int, code: ErrorCode, message: str | None) -> Any:
    """A response that carries `code`. ProtocolViolation for a Produce with acks=0: it has no answer, so the connection is closed."""
    special = _SPECIAL.get(api.key)
    if special is not None:
        return special(request, code, message)
    reply = getattr(messages, f"{api.name}_response").ROOT()
    fields = {field.name for field in reply.FIELDS}
    if "error_code" in fields:
        reply.error_code = code
    if "error_message" in fields:
        reply.error_message = message
    return reply


def _produce(request: Any, code: ErrorCode, message: str | None) -> Any:
    if request.acks == 0:
        raise ProtocolViolation(f"a produce request with acks=0 failed: {code.name}")
    m = messages.produce_response
    return m.ProduceResponse(
        responses=[
            m.TopicProduceResponse(
                name=topic.name,
                partition_responses=[
                    m.PartitionProduceResponse(index=p.index, error_code=code, base_offset=-1, error_message=message)
                    for p in topic.partition_data
                ],
            )
            for topic in request.topic_data
        ]
    )


def _fetch(request: Any, code: ErrorCode, message: str | None) -> Any:
    """Before version 7 there is no error of the whole request."""
    m = messages.fetch_response
    return m.FetchResponse(
        error_code=code,
        responses=[
            m.FetchableTopicResponse(
                topic=topic.topic,
                topic_id=topic.topic_id,
                partitions=[
                    m.PartitionData(partition_index=p.partition, error_code=code, high_watermark=-1)
                    for p in topic.partitions
                ],
            )
            for topic in request.topics
        ],
    )


def _list_offsets(request: Any, code: ErrorCode, message: str | None) -> Any:
    m = messages.list_offsets_response
    return m.ListOffsetsResponse(
        topics=[
            m.ListOffsetsTopicResponse(
                name=topic.name,
                partitions=[
                    m.ListOffsetsPartitionResponse(partition_index=p.partition_index, error_code=code)
                    for p in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def _metadata(request: Any, code: ErrorCode, message: str | None) -> Any:
    m = messages.metadata_response
    return m.MetadataResponse(
        topics=[
            m.MetadataResponseTopic(name=t.name, topic_id=t.topic_id, error_code=code) for t in request.topics or []
        ]
    )


def _create_topics(request: Any, code: ErrorCode, message: str | None) -> Any:
    m = messages.create_topics_response
    return m.CreateTopicsResponse(
        topics=[m.CreatableTopicResult(name=t.name, error_code=code, error_message=message) for t in request.topics]
    )


def _delete_topics(request: Any, code: ErrorCode, message: str | None) -> Any:
    m = messages.delete_topics_response
    return m.DeleteTopicsResponse(
        responses=[
            m.DeletableTopicResult(name=t.name, topic_id=t.topic_id, error_code=code, error_message=message)
            for t in request.topics
        ]
    )


def _create_partitions(request: Any, code: ErrorCode, message: str | None) -> Any:
    m = messages.create_partitions_response
    return m.CreatePartitionsResponse(
        results=[
            m.CreatePartitionsTopicResult(name=t.name, error_code=code, error_message=message) for t in request.topics
        ]
    )


def _delete_records(request: Any, code: ErrorCode, message: str | None) -> Any:
    m = messages.delete_records_response
    return m.DeleteRecordsResponse(
        topics=[
            m.DeleteRecordsTopicResult(
                name=topic.name,
                partitions=[
                    m.DeleteRecordsPartitionResult(partition_index=p.partition_index, low_watermark=-1, error_code=code)
                    for p in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def _describe_configs(request: Any, code: ErrorCode, message: str | None) -> Any:
    m = messages.describe_configs_response
    return m.DescribeConfigsResponse(
        results=[
            m.DescribeConfigsResult(
                error_code=code, error_message=message, resource_type=r.resource_type, resource_name=r.resource_name
            )
            for r in request.resources
        ]
    )


def _find_coordinator(request: Any, code: ErrorCode, message: str | None) -> Any:
    m = messages.find_coordinator_response
    return m.FindCoordinatorResponse(
        coordinators=[
            m.Coordinator(key=key, node_id=-1, port=-1, error_code=code, error_message=message)
            for key in request.coordinator_keys
        ]
    )


def _offset_for_leader_epoch(request: Any, code: ErrorCode, message: str | None) -> Any:
    m = messages.offset_for_leader_epoch_response
    return m.OffsetForLeaderEpochResponse(
        topics=[
            m.OffsetForLeaderTopicResult(
                topic=topic.topic,
                partitions=[m.EpochEndOffset(partition=p.partition, error_code=code) for p in topic.partitions],
            )
            for topic in request.topics
        ]
    )


def _elect_leaders(request: Any, code: ErrorCode, message: str | None) -> Any:
    """Version 0 has no error of the whole request."""
    m = messages.elect_leaders_response
    return m.ElectLeadersResponse(
        error_code=code,
        replica_election_results=[
            m.ReplicaElectionResult(
                topic=topic.topic,
                partition_result=[
                    m.PartitionResult(partition_id=index, error_code=code, error_message=message)
                    for index in topic.partitions
                ],
            )
            for topic in request.topic_partitions or []
        ],
    )


def _alter_configs(request: Any, code: ErrorCode, message: str | None) -> Any:
    m = getattr(messages, f"{request.API.name}_response")
    return m.ROOT(
        responses=[
            m.AlterConfigsResourceResponse(
                error_code=code, error_message=message, resource_type=r.resource_type, resource_name=r.resource_name
            )
            for r in request.resources
        ]
    )


def _describe_client_quotas(request: Any, code: ErrorCode, message: str | None) -> Any:
    m = messages.describe_client_quotas_response
    return m.DescribeClientQuotasResponse(error_code=code, error_message=message, entries=None)


def _alter_client_quotas(request: Any, code: ErrorCode, message: str | None) -> Any:
    m = messages.alter_client_quotas_response
    return m.AlterClientQuotasResponse(
        entries=[
            m.EntryData(
                error_code=code,
                error_message=message,
                entity=[m.EntityData(entity_type=e.entity_type, entity_name=e.entity_name) for e in entry.entity],
            )
            for entry in request.entries
        ]
    )


def _describe_producers(request: Any, code: ErrorCode, message: str | None) -> Any:
    m = messages.describe_producers_response
    return m.DescribeProducersResponse(
        topics=[
            m.TopicResponse(
                name=topic.name,
                partitions=[
                    m.PartitionResponse(partition_index=index, error_code=code, error_message=message)
                    for index in topic.partition_indexes
                ],
            )
            for topic in request.topics
        ]
    )


def _offset_commit(request: Any, code: ErrorCode, message: str | None) -> Any:
    m = messages.offset_commit_response
    return m.OffsetCommitResponse(
        topics=[
            m.OffsetCommitResponseTopic(
                name=topic.name,
                partitions=[
                    m.OffsetCommitResponsePartition(partition_index=p.partition_index, error_code=code)
                    for p in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def _offset_fetch(request: Any, code: ErrorCode, message: str | None) -> Any:
    m = messages.offset_fetch_response
    return m.OffsetFetchResponse(
        groups=[
            m.OffsetFetchResponseGroup(
                group_id=group.group_id,
                error_code=code,
                topics=[
                    m.OffsetFetchResponseTopics(
                        name=topic.name,
                        partitions=[
                            m.OffsetFetchResponsePartitions(
                                partition_index=index, committed_offset=-1, metadata="", error_code=code
                            )
                            for index in topic.partition_indexes
                        ],
                    )
                    for topic in group.topics or []
                ],
            )
            for group in request.groups
        ]
    )


def _describe_groups(request: Any, code: ErrorCode, message: str | None) -> Any:
    m = messages.describe_groups_response
    return m.DescribeGroupsResponse(groups=[m.DescribedGroup(group_id=g, error_code=code) for g in request.groups])


def _delete_groups(request: Any, code: ErrorCode, message: str | None) -> Any:
    m = messages.delete_groups_response
    return m.DeleteGroupsResponse(
        results=[m.DeletableGroupResult(group_id=g, error_code=code) for g in request.groups_names]
    )


def _alter_replica_log_dirs(request: Any, code: ErrorCode, message: str | None) -> Any:
    m = messages.alter_replica_log_dirs_response
    return m.AlterReplicaLogDirsResponse(
        results=[
            m.AlterReplicaLogDirTopicResult(
                topic_name=topic.name,
                partitions=[
                    m.AlterReplicaLogDirPartitionResult(partition_index=index, error_code=code)
                    for index in topic.partitions
                ],
            )
            for directory in request.dirs
            for topic in directory.topics
        ]
    )


def _describe_log_dirs(request: Any, code: ErrorCode, message: str | None) -> Any:
    """Before version 3 there is no error of the whole request."""
    m = messages.describe_log_dirs_response
    return m.DescribeLogDirsResponse(error_code=code, results=[m.DescribeLogDirsResult(error_code=code)])


def _create_acls(request: Any, code: ErrorCode, message: str | None) -> Any:
    m = messages.create_acls_response
    result = m.AclCreationResult(error_code=code, error_message=message)
    return m.CreateAclsResponse(results=[result] * len(request.creations))


def _delete_acls(request: Any, code: ErrorCode, message: str | None) -> Any:
    m = messages.delete_acls_response
    result = m.DeleteAclsFilterResult(error_code=code, error_message=message)
    return m.DeleteAclsResponse(filter_results=[result] * len(request.filters))


def _alter_user_scram_credentials(request: Any, code: ErrorCode, message: str | None) -> Any:
    m = messages.alter_user_scram_credentials_response
    return m.AlterUserScramCredentialsResponse(
        results=[
            m.AlterUserScramCredentialsResult(user=user, error_code=code, error_message=message)
            for user in users_of(request)
        ]
    )


def _describe_transactions(request: Any, code: ErrorCode, message: str | None) -> Any:
    m = messages.describe_transactions_response
    return m.DescribeTransactionsResponse(
        transaction_states=[
            m.TransactionState(transactional_id=each, error_code=code) for each in request.transactional_ids
        ]
    )


_SPECIAL: dict[ApiKey, Callable[[Any, ErrorCode, str | None], Any]] = {
    ApiKey.PRODUCE: _produce,
    ApiKey.FETCH: _fetch,
    ApiKey.LIST_OFFSETS: _list_offsets,
    ApiKey.METADATA: _metadata,
    ApiKey.CREATE_TOPICS: _create_topics,
    ApiKey.DELETE_TOPICS: _delete_topics,
    ApiKey.CREATE_PARTITIONS: _create_partitions,
    ApiKey.DELETE_RECORDS: _delete_records,
    ApiKey.CREATE_ACLS: _create_acls,
    ApiKey.DELETE_ACLS: _delete_acls,
    ApiKey.DESCRIBE_CONFIGS: _describe_configs,
    ApiKey.ALTER_CONFIGS: _alter_configs,
    ApiKey.INCREMENTAL_ALTER_CONFIGS: _alter_configs,
    ApiKey.ALTER_REPLICA_LOG_DIRS: _alter_replica_log_dirs,
    ApiKey.DESCRIBE_LOG_DIRS: _describe_log_dirs,
    ApiKey.DESCRIBE_CLIENT_QUOTAS: _describe_client_quotas,
    ApiKey.ALTER_CLIENT_QUOTAS: _alter_client_quotas,
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: _alter_user_scram_credentials,
    ApiKey.DESCRIBE_TRANSACTIONS: _describe_transactions,
    ApiKey.DESCRIBE_PRODUCERS: _describe_producers,
    ApiKey.FIND_COORDINATOR: _find_coordinator,
    ApiKey.OFFSET_COMMIT: _offset_commit,
    ApiKey.OFFSET_FETCH: _offset_fetch,
    ApiKey.DESCRIBE_GROUPS: _describe_groups,
    ApiKey.DELETE_GROUPS: _delete_groups,
    ApiKey.OFFSET_FOR_LEADER_EPOCH: _offset_for_leader_epoch,
    ApiKey.ELECT_LEADERS: _elect_leaders,
}
