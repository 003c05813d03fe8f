"""One request of each API that needs permissions, for callers that have one permission each: the matrix of
`unit/broker/test_authorization`, and of `peers/test_authorization` with a live Apache Kafka.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from kafkalite.protocol import messages
from kafkalite.protocol.apis import ApiKey
from tests.authorization_callers import NAMES, OPEN, Case
from tests.authorization_group_cases import of_names, topics

_NO_SUCH_TOPIC: Final = bytes(range(16))
_BATCH: Final = bytes.fromhex(
    "00000000000000000000003b0000000002f3d2d1a60000000000000000019a000000000000019a00000000ffffffffffffffffffffffffffff"
    "00000001120000000100000c76616c756500"
)


def cases(topic_ids: Mapping[str, bytes] | None = None) -> list[Case]:
    """One request of each API; where its names are few, one for each name."""
    m = messages
    produce, fetch, offsets = (
        m.produce_request,
        m.fetch_request,
        m.list_offsets_request,
    )
    deleted, records = m.offset_delete_request, m.delete_records_request
    epochs = m.offset_for_leader_epoch_request
    found = [
        Case(
            ApiKey.PRODUCE,
            produce.ProduceRequest(
                acks=1,
                timeout_ms=1000,
                topic_data=topics(
                    produce.TopicProduceData,
                    "partition_data",
                    produce.PartitionProduceData(index=0, records=bytearray(_BATCH)),
                ),
            ),
            0,
        ),
        Case(
            ApiKey.FETCH,
            fetch.FetchRequest(
                max_wait_ms=0,
                max_bytes=1000,
                replica_id=-1,
                session_epoch=-1,
                topics=topics(
                    fetch.FetchTopic,
                    "partitions",
                    fetch.FetchPartition(partition=0, partition_max_bytes=1000),
                    name="topic",
                ),
            ),
            last=12,
        ),
        Case(
            ApiKey.FETCH,
            fetch.FetchRequest(
                max_wait_ms=0,
                max_bytes=1000,
                replica_id=7,
                session_epoch=-1,
                topics=topics(
                    fetch.FetchTopic,
                    "partitions",
                    fetch.FetchPartition(partition=0, partition_max_bytes=1000),
                    name="topic",
                ),
            ),
            0,
            "by a follower",
            12,
        ),
        Case(
            ApiKey.LIST_OFFSETS,
            offsets.ListOffsetsRequest(
                replica_id=-1,
                topics=topics(
                    offsets.ListOffsetsTopic,
                    "partitions",
                    offsets.ListOffsetsPartition(partition_index=0, timestamp=-1),
                ),
            ),
            0,
        ),
        Case(
            ApiKey.METADATA,
            m.metadata_request.MetadataRequest(
                topics=[m.metadata_request.MetadataRequestTopic(name=each) for each in NAMES],
                allow_auto_topic_creation=False,
            ),
            0,
        ),
        Case(ApiKey.METADATA, m.metadata_request.MetadataRequest(topics=None), 0, "of all"),
        Case(
            ApiKey.OFFSET_DELETE,
            deleted.OffsetDeleteRequest(
                group_id=OPEN,
                topics=topics(
                    deleted.OffsetDeleteRequestTopic,
                    "partitions",
                    deleted.OffsetDeleteRequestPartition(partition_index=0),
                ),
            ),
        ),
        Case(ApiKey.DESCRIBE_GROUPS, m.describe_groups_request.DescribeGroupsRequest(groups=list(NAMES))),
        Case(ApiKey.LIST_GROUPS, m.list_groups_request.ListGroupsRequest()),
        Case(ApiKey.DELETE_GROUPS, m.delete_groups_request.DeleteGroupsRequest(groups_names=list(NAMES))),
        Case(
            ApiKey.CREATE_TOPICS,
            m.create_topics_request.CreateTopicsRequest(
                topics=[
                    m.create_topics_request.CreatableTopic(name=each, num_partitions=1, replication_factor=1)
                    for each in NAMES
                ],
                timeout_ms=1000,
                validate_only=True,
            ),
            0,
        ),
        Case(
            ApiKey.CREATE_PARTITIONS,
            m.create_partitions_request.CreatePartitionsRequest(
                topics=[
                    m.create_partitions_request.CreatePartitionsTopic(name=each, count=9, assignments=None)
                    for each in NAMES
                ],
                timeout_ms=1000,
                validate_only=True,
            ),
        ),
        Case(
            ApiKey.DELETE_RECORDS,
            records.DeleteRecordsRequest(
                timeout_ms=1000,
                topics=topics(
                    records.DeleteRecordsTopic,
                    "partitions",
                    records.DeleteRecordsPartition(partition_index=9, offset=0),
                ),
            ),
        ),
        Case(ApiKey.INIT_PRODUCER_ID, m.init_producer_id_request.InitProducerIdRequest(transactional_id=None)),
        Case(
            ApiKey.OFFSET_FOR_LEADER_EPOCH,
            epochs.OffsetForLeaderEpochRequest(
                replica_id=-1,
                topics=topics(
                    epochs.OffsetForLeaderTopic,
                    "partitions",
                    epochs.OffsetForLeaderPartition(partition=0, current_leader_epoch=-1, leader_epoch=0),
                    name="topic",
                ),
            ),
            0,
        ),
        Case(
            ApiKey.DESCRIBE_ACLS,
            m.describe_acls_request.DescribeAclsRequest(
                resource_type_filter=2,
                resource_name_filter="none",
                pattern_type_filter=3,
                operation=1,
                permission_type=1,
            ),
            0,
        ),
        Case(ApiKey.CREATE_ACLS, m.create_acls_request.CreateAclsRequest(creations=[_creation()])),
        Case(ApiKey.DELETE_ACLS, m.delete_acls_request.DeleteAclsRequest(filters=[_deletion()])),
        *_config_cases(),
        Case(
            ApiKey.ALTER_REPLICA_LOG_DIRS,
            m.alter_replica_log_dirs_request.AlterReplicaLogDirsRequest(
                dirs=[
                    m.alter_replica_log_dirs_request.AlterReplicaLogDir(
                        path="/none",
                        topics=[m.alter_replica_log_dirs_request.AlterReplicaLogDirTopic(name="none", partitions=[0])],
                    )
                ]
            ),
            0,
        ),
        Case(
            ApiKey.ELECT_LEADERS,
            m.elect_leaders_request.ElectLeadersRequest(
                topic_partitions=[m.elect_leaders_request.TopicPartitions(topic="none", partitions=[0])],
                timeout_ms=1000,
            ),
        ),
        Case(
            ApiKey.ALTER_PARTITION_REASSIGNMENTS,
            m.alter_partition_reassignments_request.AlterPartitionReassignmentsRequest(timeout_ms=1000, topics=[]),
        ),
        Case(
            ApiKey.LIST_PARTITION_REASSIGNMENTS,
            m.list_partition_reassignments_request.ListPartitionReassignmentsRequest(timeout_ms=1000, topics=[]),
        ),
        Case(
            ApiKey.DESCRIBE_CLIENT_QUOTAS,
            m.describe_client_quotas_request.DescribeClientQuotasRequest(components=[], strict=False),
        ),
        Case(
            ApiKey.ALTER_CLIENT_QUOTAS,
            m.alter_client_quotas_request.AlterClientQuotasRequest(
                entries=[
                    m.alter_client_quotas_request.EntryData(
                        entity=[m.alter_client_quotas_request.EntityData(entity_type="user", entity_name="u")], ops=[]
                    )
                ],
                validate_only=True,
            ),
        ),
        Case(
            ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS,
            m.describe_user_scram_credentials_request.DescribeUserScramCredentialsRequest(
                users=[m.describe_user_scram_credentials_request.UserName(name="u")]
            ),
        ),
        Case(
            ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
            m.alter_user_scram_credentials_request.AlterUserScramCredentialsRequest(
                deletions=[m.alter_user_scram_credentials_request.ScramCredentialDeletion(name="u", mechanism=1)],
                upsertions=[],
            ),
        ),
        Case(
            ApiKey.UPDATE_FEATURES,
            m.update_features_request.UpdateFeaturesRequest(timeout_ms=1000, feature_updates=[]),
        ),
        Case(
            ApiKey.DESCRIBE_PRODUCERS,
            m.describe_producers_request.DescribeProducersRequest(
                topics=topics(m.describe_producers_request.TopicRequest, "partition_indexes", 0)
            ),
        ),
        Case(
            ApiKey.DESCRIBE_TRANSACTIONS,
            m.describe_transactions_request.DescribeTransactionsRequest(transactional_ids=list(NAMES)),
        ),
        Case(ApiKey.LIST_TRANSACTIONS, m.list_transactions_request.ListTransactionsRequest()),
        Case(
            ApiKey.WRITE_TXN_MARKERS,
            m.write_txn_markers_request.WriteTxnMarkersRequest(
                markers=[
                    m.write_txn_markers_request.WritableTxnMarker(
                        producer_id=1,
                        topics=[m.write_txn_markers_request.WritableTxnMarkerTopic(name="none", partition_indexes=[0])],
                    )
                ]
            ),
        ),
        Case(
            ApiKey.ALLOCATE_PRODUCER_IDS,
            m.allocate_producer_ids_request.AllocateProducerIdsRequest(broker_id=99, broker_epoch=1),
        ),
        Case(
            ApiKey.ALTER_PARTITION,
            m.alter_partition_request.AlterPartitionRequest(broker_id=99, broker_epoch=1, topics=[]),
        ),
        Case(
            ApiKey.CONTROLLED_SHUTDOWN,
            m.controlled_shutdown_request.ControlledShutdownRequest(broker_id=99, broker_epoch=1),
        ),
        Case(ApiKey.STOP_REPLICA, m.stop_replica_request.StopReplicaRequest(controller_id=9, controller_epoch=0)),
        Case(ApiKey.LEADER_AND_ISR, m.leader_and_isr_request.LeaderAndIsrRequest(controller_id=9, controller_epoch=0)),
        Case(
            ApiKey.UPDATE_METADATA,
            m.update_metadata_request.UpdateMetadataRequest(controller_id=9, controller_epoch=0),
            0,
        ),
    ]
    return [*found, *_of_nobody(), *_by_ids(topic_ids or {}), *of_names()]


def _of_nobody() -> Iterator[Case]:
    """What names nothing that ACLs of these callers are about."""
    m = messages
    yield Case(ApiKey.API_VERSIONS, m.api_versions_request.ApiVersionsRequest())
    yield Case(ApiKey.SASL_HANDSHAKE, m.sasl_handshake_request.SaslHandshakeRequest(mechanism="PLAIN"))
    yield Case(ApiKey.SASL_AUTHENTICATE, m.sasl_authenticate_request.SaslAuthenticateRequest(auth_bytes=b"x"))
    yield Case(ApiKey.DESCRIBE_LOG_DIRS, m.describe_log_dirs_request.DescribeLogDirsRequest(topics=None))
    yield Case(
        ApiKey.DESCRIBE_CLUSTER,
        m.describe_cluster_request.DescribeClusterRequest(include_cluster_authorized_operations=True, endpoint_type=1),
    )
    yield Case(
        ApiKey.METADATA,
        m.metadata_request.MetadataRequest(
            topics=[m.metadata_request.MetadataRequestTopic(name=each) for each in NAMES],
            include_topic_authorized_operations=True,
            include_cluster_authorized_operations=True,
        ),
        8,
        "and what may be done",
        10,
    )
    yield Case(ApiKey.CREATE_DELEGATION_TOKEN, m.create_delegation_token_request.CreateDelegationTokenRequest())
    yield Case(ApiKey.RENEW_DELEGATION_TOKEN, m.renew_delegation_token_request.RenewDelegationTokenRequest())
    yield Case(ApiKey.EXPIRE_DELEGATION_TOKEN, m.expire_delegation_token_request.ExpireDelegationTokenRequest())
    yield Case(ApiKey.DESCRIBE_DELEGATION_TOKEN, m.describe_delegation_token_request.DescribeDelegationTokenRequest())
    yield Case(ApiKey.ENVELOPE, m.envelope_request.EnvelopeRequest())
    yield Case(
        ApiKey.CONSUMER_GROUP_DESCRIBE,
        m.consumer_group_describe_request.ConsumerGroupDescribeRequest(group_ids=list(NAMES)),
    )


def _by_ids(topic_ids: Mapping[str, bytes]) -> Iterator[Case]:
    """Topics by their ids, of which those who may not see them learn no name."""
    fetch, metadata, deleted = messages.fetch_request, messages.metadata_request, messages.delete_topics_request
    ids = list(topic_ids.values())
    if not ids:
        return
    partition = fetch.FetchPartition(partition=0, partition_max_bytes=1000)
    yield Case(
        ApiKey.FETCH,
        fetch.FetchRequest(
            max_wait_ms=0,
            max_bytes=1000,
            session_epoch=-1,
            topics=[fetch.FetchTopic(topic_id=each, partitions=[partition]) for each in ids],
        ),
        13,
        "by ids",
    )
    yield Case(
        ApiKey.METADATA,
        metadata.MetadataRequest(topics=[metadata.MetadataRequestTopic(name=None, topic_id=each) for each in ids]),
        12,
        "by ids",
    )
    yield Case(
        ApiKey.DELETE_TOPICS,
        deleted.DeleteTopicsRequest(
            topics=[deleted.DeleteTopicState(name=None, topic_id=_NO_SUCH_TOPIC)], timeout_ms=1
        ),
        6,
        "by an id that there is not",
    )


def _creation() -> Any:
    return messages.create_acls_request.AclCreation(
        resource_type=4,
        resource_name="no-cluster",
        resource_pattern_type=3,
        principal="User:x",
        host="*",
        operation=8,
        permission_type=3,
    )


def _deletion() -> Any:
    return messages.delete_acls_request.DeleteAclsFilter(
        resource_type_filter=2, resource_name_filter="none", pattern_type_filter=3, operation=1, permission_type=1
    )


def _config_cases() -> Iterator[Case]:
    described, altered = messages.describe_configs_request, messages.alter_configs_request
    incremental = messages.incremental_alter_configs_request
    resources = [*((2, each) for each in NAMES), (4, "1")]
    yield Case(
        ApiKey.DESCRIBE_CONFIGS,
        described.DescribeConfigsRequest(
            resources=[
                described.DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=["x"])
                for kind, name in resources
            ]
        ),
    )
    yield Case(
        ApiKey.ALTER_CONFIGS,
        altered.AlterConfigsRequest(
            resources=[
                altered.AlterConfigsResource(resource_type=kind, resource_name=name, configs=[])
                for kind, name in resources
            ],
            validate_only=True,
        ),
    )
    yield Case(
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        incremental.IncrementalAlterConfigsRequest(
            resources=[
                incremental.AlterConfigsResource(resource_type=kind, resource_name=name, configs=[])
                for kind, name in resources
            ],
            validate_only=True,
        ),
    )
