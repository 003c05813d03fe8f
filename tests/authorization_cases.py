"""One request of each API that needs permissions, and callers that have one permission each: the matrix of
`unit/broker/test_authorization`, and of `peers/test_authorization` with a live Apache Kafka.

Everybody is User:ANONYMOUS; callers are told apart by the address that they come from. A caller has its permission for what begins
with `m-`, but not for `m-denied`, and none for `other`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from kafkalite.errors import ErrorCode
from kafkalite.protocol import messages
from kafkalite.protocol.apis import ApiKey
from kafkalite.protocol.messages import Message
from kafkalite.security.acl import (
    CLUSTER_NAME,
    SUPPORTED_OPERATIONS,
    AclEntry,
    Operation,
    PatternType,
    PermissionType,
    ResourcePattern,
    ResourceType,
    pascal_case,
)

OPEN, DENIED, OTHER, PREFIX = "m-open", "m-denied", "other", "m-"
NAMES: Final = (OPEN, DENIED, OTHER)
NOBODY: Final = "127.0.2.1"
ANONYMOUS: Final = "User:ANONYMOUS"
REFUSALS: Final = frozenset(
    {
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    }
)
_NO_UUID: Final = bytes(16)
_BATCH: Final = bytes.fromhex(
    "00000000000000000000003b0000000002f3d2d1a60000000000000000019a000000000000019a00000000ffffffffffffffffffffffffffff"
    "00000001120000000100000c76616c756500"
)


class Case(NamedTuple):
    """A request, and in which versions it is asked."""

    key: ApiKey
    request: Message
    first: int = 0
    name: str = ""

    def __str__(self) -> str:
        return f"{self.key.name}{' ' if self.name else ''}{self.name}"


def callers() -> dict[str, tuple[ResourceType, Operation]]:
    """The one permission of each caller, by its address; `NOBODY` has none."""
    permissions = [
        (resource, operation)
        for resource, operations in SUPPORTED_OPERATIONS.items()
        if resource < ResourceType.DELEGATION_TOKEN
        for operation in operations
    ]
    return {f"127.0.1.{number}": each for number, each in enumerate(permissions, 1)}


def rules() -> Iterator[tuple[ResourcePattern, AclEntry]]:
    """What gives callers their permissions."""
    for host, (type_, operation) in callers().items():
        allowed = AclEntry(ANONYMOUS, host, operation, PermissionType.ALLOW)
        if type_ is ResourceType.CLUSTER:
            yield ResourcePattern(type_, CLUSTER_NAME), allowed
        else:
            yield ResourcePattern(type_, PREFIX, PatternType.PREFIXED), allowed
            yield ResourcePattern(type_, DENIED), allowed._replace(permission=PermissionType.DENY)


def told(permission: tuple[ResourceType, Operation] | None) -> str:
    return "nothing" if permission is None else " ".join(pascal_case(each) for each in permission)


def refused(answer: Any) -> list[str]:
    """The refusals in an answer, each with the names beside it: `m-denied TOPIC_AUTHORIZATION_FAILED`."""
    return sorted(_refused(answer, ""))


def _refused(part: Any, name: str) -> Iterator[str]:
    for field in part.FIELDS:
        value = getattr(part, field.name)
        if isinstance(value, str) and value in NAMES:
            name = value
    for field in part.FIELDS:
        value = getattr(part, field.name)
        if field.name.endswith("error_code") and field.name != "topic_config_error_code" and value in REFUSALS:
            yield f"{name} {ErrorCode(value).name}".strip()
        elif isinstance(value, list):
            for each in value:
                if hasattr(each, "FIELDS"):
                    yield from _refused(each, name)


def names_in(part: Any) -> set[str]:
    """The names of the matrix that an answer has."""
    found: set[str] = set()
    for field in part.FIELDS:
        value = getattr(part, field.name)
        for each in value if isinstance(value, list) else [value]:
            if hasattr(each, "FIELDS"):
                found |= names_in(each)
            elif isinstance(each, str) and each in NAMES:
                found.add(each)
    return found


def _topics(kind: Any, items: str, *partitions: Any, name: str = "name") -> list[Any]:
    return [kind(**{name: each, items: list(partitions)}) for each in NAMES]


def cases() -> list[Case]:
    """One request of each API; where its names are few, one for each name."""
    m = messages
    produce, fetch, offsets, commit = (
        m.produce_request,
        m.fetch_request,
        m.list_offsets_request,
        m.offset_commit_request,
    )
    fetched, deleted, records = m.offset_fetch_request, m.offset_delete_request, m.delete_records_request
    epochs, adding, txn_commit = (
        m.offset_for_leader_epoch_request,
        m.add_partitions_to_txn_request,
        m.txn_offset_commit_request,
    )
    found = [
        Case(
            ApiKey.PRODUCE,
            produce.ProduceRequest(
                acks=1,
                timeout_ms=1000,
                topic_data=_topics(
                    produce.TopicProduceData,
                    "partition_data",
                    produce.PartitionProduceData(index=0, records=bytearray(_BATCH)),
                ),
            ),
            3,
        ),
        Case(
            ApiKey.FETCH,
            fetch.FetchRequest(
                max_wait_ms=0,
                max_bytes=1000,
                replica_id=-1,
                session_epoch=-1,
                topics=_topics(
                    fetch.FetchTopic,
                    "partitions",
                    fetch.FetchPartition(partition=0, partition_max_bytes=1000),
                    name="topic",
                ),
            ),
            4,
        ),
        Case(
            ApiKey.FETCH,
            fetch.FetchRequest(
                max_wait_ms=0,
                max_bytes=1000,
                replica_id=7,
                session_epoch=-1,
                topics=_topics(
                    fetch.FetchTopic,
                    "partitions",
                    fetch.FetchPartition(partition=0, partition_max_bytes=1000),
                    name="topic",
                ),
            ),
            4,
            "by a follower",
        ),
        Case(
            ApiKey.LIST_OFFSETS,
            offsets.ListOffsetsRequest(
                replica_id=-1,
                topics=_topics(
                    offsets.ListOffsetsTopic,
                    "partitions",
                    offsets.ListOffsetsPartition(partition_index=0, timestamp=-1),
                ),
            ),
            1,
        ),
        Case(
            ApiKey.METADATA,
            m.metadata_request.MetadataRequest(
                topics=[m.metadata_request.MetadataRequestTopic(name=each) for each in NAMES],
                allow_auto_topic_creation=False,
            ),
            4,
        ),
        Case(ApiKey.METADATA, m.metadata_request.MetadataRequest(topics=None), 1, "of all"),
        Case(
            ApiKey.OFFSET_DELETE,
            deleted.OffsetDeleteRequest(
                group_id=OPEN,
                topics=_topics(
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
            1,
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
                topics=_topics(
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
                topics=_topics(
                    epochs.OffsetForLeaderTopic,
                    "partitions",
                    epochs.OffsetForLeaderPartition(partition=0, current_leader_epoch=-1, leader_epoch=0),
                    name="topic",
                ),
            ),
            2,
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
            1,
        ),
        Case(ApiKey.CREATE_ACLS, m.create_acls_request.CreateAclsRequest(creations=[_creation()]), 1),
        Case(ApiKey.DELETE_ACLS, m.delete_acls_request.DeleteAclsRequest(filters=[_deletion()]), 1),
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
            1,
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
                topics=_topics(m.describe_producers_request.TopicRequest, "partition_indexes", 0)
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
        Case(ApiKey.STOP_REPLICA, m.stop_replica_request.StopReplicaRequest(controller_id=9, controller_epoch=0), 3),
        Case(
            ApiKey.LEADER_AND_ISR, m.leader_and_isr_request.LeaderAndIsrRequest(controller_id=9, controller_epoch=0), 2
        ),
        Case(
            ApiKey.UPDATE_METADATA,
            m.update_metadata_request.UpdateMetadataRequest(controller_id=9, controller_epoch=0),
            5,
        ),
    ]
    for key_type, name in enumerate(("of groups", "of ids")):
        found.append(
            Case(
                ApiKey.FIND_COORDINATOR,
                m.find_coordinator_request.FindCoordinatorRequest(key_type=key_type, coordinator_keys=list(NAMES)),
                4,
                name,
            )
        )
    for name in NAMES:
        found += [
            Case(
                ApiKey.OFFSET_COMMIT,
                commit.OffsetCommitRequest(
                    group_id=name,
                    generation_id_or_member_epoch=5,
                    member_id="x",
                    topics=_topics(
                        commit.OffsetCommitRequestTopic,
                        "partitions",
                        commit.OffsetCommitRequestPartition(partition_index=0),
                    ),
                ),
                2,
                name,
            ),
            Case(
                ApiKey.OFFSET_FETCH,
                fetched.OffsetFetchRequest(
                    groups=[
                        fetched.OffsetFetchRequestGroup(
                            group_id=name, topics=_topics(fetched.OffsetFetchRequestTopics, "partition_indexes", 0)
                        )
                    ]
                ),
                2,
                name,
            ),
            Case(
                ApiKey.JOIN_GROUP,
                m.join_group_request.JoinGroupRequest(
                    group_id=name,
                    session_timeout_ms=10_000,
                    rebalance_timeout_ms=10_000,
                    protocol_type="consumer",
                    protocols=[m.join_group_request.JoinGroupRequestProtocol(name="p", metadata=b"")],
                ),
                4,
                name,
            ),
            Case(ApiKey.HEARTBEAT, m.heartbeat_request.HeartbeatRequest(group_id=name, member_id="x"), 0, name),
            Case(
                ApiKey.LEAVE_GROUP,
                m.leave_group_request.LeaveGroupRequest(
                    group_id=name, members=[m.leave_group_request.MemberIdentity(member_id="x")]
                ),
                0,
                name,
            ),
            Case(
                ApiKey.SYNC_GROUP,
                m.sync_group_request.SyncGroupRequest(
                    group_id=name, member_id="x", protocol_type="consumer", protocol_name="p"
                ),
                0,
                name,
            ),
            Case(
                ApiKey.INIT_PRODUCER_ID,
                m.init_producer_id_request.InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=1000),
                0,
                name,
            ),
            Case(
                ApiKey.ADD_OFFSETS_TO_TXN,
                m.add_offsets_to_txn_request.AddOffsetsToTxnRequest(
                    transactional_id=name, producer_id=77, producer_epoch=0, group_id=OPEN
                ),
                0,
                name,
            ),
            Case(
                ApiKey.END_TXN,
                m.end_txn_request.EndTxnRequest(transactional_id=name, producer_id=77, producer_epoch=0),
                0,
                name,
            ),
            Case(
                ApiKey.TXN_OFFSET_COMMIT,
                txn_commit.TxnOffsetCommitRequest(
                    transactional_id=name,
                    group_id=OPEN,
                    producer_id=77,
                    producer_epoch=0,
                    topics=_topics(
                        txn_commit.TxnOffsetCommitRequestTopic,
                        "partitions",
                        txn_commit.TxnOffsetCommitRequestPartition(partition_index=0),
                    ),
                ),
                0,
                name,
            ),
            Case(
                ApiKey.DELETE_TOPICS,
                m.delete_topics_request.DeleteTopicsRequest(
                    topics=[m.delete_topics_request.DeleteTopicState(name=f"{name}-absent")], timeout_ms=1000
                ),
                1,
                name,
            ),
        ]
    found.append(
        Case(
            ApiKey.ADD_PARTITIONS_TO_TXN,
            adding.AddPartitionsToTxnRequest(
                transactions=[
                    adding.AddPartitionsToTxnTransaction(
                        transactional_id=OPEN,
                        producer_id=77,
                        verify_only=True,
                        topics=_topics(adding.AddPartitionsToTxnTopic, "partitions", 0),
                    )
                ]
            ),
            4,
        )
    )
    return found


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
