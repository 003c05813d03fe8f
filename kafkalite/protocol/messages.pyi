"""Static types of `messages`. Written by `python -m kafkalite.protocol.stubs`; a test compares them."""

from typing import ClassVar, Generic, TypeAlias, TypeVar

from kafkalite.protocol.apis import Api
from kafkalite.protocol.schemas.schema import Field, Struct
from kafkalite.types import Buffer

class Message:
    FIELDS: ClassVar[tuple[Field, ...]]
    API: ClassVar[Api]
    def __eq__(self, other: object) -> bool: ...
    __hash__: ClassVar[None]  # type: ignore[assignment]

ResponseT_co = TypeVar("ResponseT_co", bound=Message, covariant=True)

class Request(Message, Generic[ResponseT_co]): ...

def has_more_items(message: Message, most: int) -> bool: ...
def schema(api: Api, direction: str, version: int) -> Struct: ...
def declared_versions(api: Api) -> range: ...
def namespace_names() -> list[str]: ...

class produce_request:
    class PartitionProduceData(Message):
        index: int
        records: Buffer | None
        def __init__(
            self,
            *,
            index: int = ...,
            records: Buffer | None = ...,
        ) -> None: ...

    class TopicProduceData(Message):
        name: str
        partition_data: list[produce_request.PartitionProduceData]
        def __init__(
            self,
            *,
            name: str = ...,
            partition_data: list[produce_request.PartitionProduceData] = ...,
        ) -> None: ...

    class ProduceRequest(Request[produce_response.ProduceResponse]):
        transactional_id: str | None
        acks: int
        timeout_ms: int
        topic_data: list[produce_request.TopicProduceData]
        def __init__(
            self,
            *,
            transactional_id: str | None = ...,
            acks: int = ...,
            timeout_ms: int = ...,
            topic_data: list[produce_request.TopicProduceData] = ...,
        ) -> None: ...

    ROOT: TypeAlias = ProduceRequest
    CLASSES: ClassVar[dict[str, type[Message]]]

class produce_response:
    class BatchIndexAndErrorMessage(Message):
        batch_index: int
        batch_index_error_message: str | None
        def __init__(
            self,
            *,
            batch_index: int = ...,
            batch_index_error_message: str | None = ...,
        ) -> None: ...

    class LeaderIdAndEpoch(Message):
        leader_id: int
        leader_epoch: int
        def __init__(
            self,
            *,
            leader_id: int = ...,
            leader_epoch: int = ...,
        ) -> None: ...

    class PartitionProduceResponse(Message):
        index: int
        error_code: int
        base_offset: int
        log_append_time_ms: int
        log_start_offset: int
        record_errors: list[produce_response.BatchIndexAndErrorMessage]
        error_message: str | None
        current_leader: produce_response.LeaderIdAndEpoch | None
        def __init__(
            self,
            *,
            index: int = ...,
            error_code: int = ...,
            base_offset: int = ...,
            log_append_time_ms: int = ...,
            log_start_offset: int = ...,
            record_errors: list[produce_response.BatchIndexAndErrorMessage] = ...,
            error_message: str | None = ...,
            current_leader: produce_response.LeaderIdAndEpoch | None = ...,
        ) -> None: ...

    class TopicProduceResponse(Message):
        name: str
        partition_responses: list[produce_response.PartitionProduceResponse]
        def __init__(
            self,
            *,
            name: str = ...,
            partition_responses: list[produce_response.PartitionProduceResponse] = ...,
        ) -> None: ...

    class NodeEndpoint(Message):
        node_id: int
        host: str
        port: int
        rack: str | None
        def __init__(
            self,
            *,
            node_id: int = ...,
            host: str = ...,
            port: int = ...,
            rack: str | None = ...,
        ) -> None: ...

    class ProduceResponse(Message):
        responses: list[produce_response.TopicProduceResponse]
        throttle_time_ms: int
        node_endpoints: list[produce_response.NodeEndpoint]
        def __init__(
            self,
            *,
            responses: list[produce_response.TopicProduceResponse] = ...,
            throttle_time_ms: int = ...,
            node_endpoints: list[produce_response.NodeEndpoint] = ...,
        ) -> None: ...

    ROOT: TypeAlias = ProduceResponse
    CLASSES: ClassVar[dict[str, type[Message]]]

class fetch_request:
    class ReplicaState(Message):
        replica_id: int
        replica_epoch: int
        def __init__(
            self,
            *,
            replica_id: int = ...,
            replica_epoch: int = ...,
        ) -> None: ...

    class FetchPartition(Message):
        partition: int
        current_leader_epoch: int
        fetch_offset: int
        last_fetched_epoch: int
        log_start_offset: int
        partition_max_bytes: int
        replica_directory_id: bytes
        def __init__(
            self,
            *,
            partition: int = ...,
            current_leader_epoch: int = ...,
            fetch_offset: int = ...,
            last_fetched_epoch: int = ...,
            log_start_offset: int = ...,
            partition_max_bytes: int = ...,
            replica_directory_id: bytes = ...,
        ) -> None: ...

    class FetchTopic(Message):
        topic_id: bytes
        partitions: list[fetch_request.FetchPartition]
        topic: str
        def __init__(
            self,
            *,
            topic_id: bytes = ...,
            partitions: list[fetch_request.FetchPartition] = ...,
            topic: str = ...,
        ) -> None: ...

    class ForgottenTopic(Message):
        topic_id: bytes
        partitions: list[int]
        topic: str
        def __init__(
            self,
            *,
            topic_id: bytes = ...,
            partitions: list[int] = ...,
            topic: str = ...,
        ) -> None: ...

    class FetchRequest(Request[fetch_response.FetchResponse]):
        cluster_id: str | None
        replica_state: fetch_request.ReplicaState | None
        max_wait_ms: int
        min_bytes: int
        max_bytes: int
        isolation_level: int
        session_id: int
        session_epoch: int
        topics: list[fetch_request.FetchTopic]
        forgotten_topics_data: list[fetch_request.ForgottenTopic]
        rack_id: str
        replica_id: int
        def __init__(
            self,
            *,
            cluster_id: str | None = ...,
            replica_state: fetch_request.ReplicaState | None = ...,
            max_wait_ms: int = ...,
            min_bytes: int = ...,
            max_bytes: int = ...,
            isolation_level: int = ...,
            session_id: int = ...,
            session_epoch: int = ...,
            topics: list[fetch_request.FetchTopic] = ...,
            forgotten_topics_data: list[fetch_request.ForgottenTopic] = ...,
            rack_id: str = ...,
            replica_id: int = ...,
        ) -> None: ...

    ROOT: TypeAlias = FetchRequest
    CLASSES: ClassVar[dict[str, type[Message]]]

class fetch_response:
    class EpochEndOffset(Message):
        epoch: int
        end_offset: int
        def __init__(
            self,
            *,
            epoch: int = ...,
            end_offset: int = ...,
        ) -> None: ...

    class LeaderIdAndEpoch(Message):
        leader_id: int
        leader_epoch: int
        def __init__(
            self,
            *,
            leader_id: int = ...,
            leader_epoch: int = ...,
        ) -> None: ...

    class SnapshotId(Message):
        end_offset: int
        epoch: int
        def __init__(
            self,
            *,
            end_offset: int = ...,
            epoch: int = ...,
        ) -> None: ...

    class AbortedTransaction(Message):
        producer_id: int
        first_offset: int
        def __init__(
            self,
            *,
            producer_id: int = ...,
            first_offset: int = ...,
        ) -> None: ...

    class PartitionData(Message):
        partition_index: int
        error_code: int
        high_watermark: int
        last_stable_offset: int
        log_start_offset: int
        diverging_epoch: fetch_response.EpochEndOffset | None
        current_leader: fetch_response.LeaderIdAndEpoch | None
        snapshot_id: fetch_response.SnapshotId | None
        aborted_transactions: list[fetch_response.AbortedTransaction] | None
        preferred_read_replica: int
        records: Buffer | None
        def __init__(
            self,
            *,
            partition_index: int = ...,
            error_code: int = ...,
            high_watermark: int = ...,
            last_stable_offset: int = ...,
            log_start_offset: int = ...,
            diverging_epoch: fetch_response.EpochEndOffset | None = ...,
            current_leader: fetch_response.LeaderIdAndEpoch | None = ...,
            snapshot_id: fetch_response.SnapshotId | None = ...,
            aborted_transactions: list[fetch_response.AbortedTransaction] | None = ...,
            preferred_read_replica: int = ...,
            records: Buffer | None = ...,
        ) -> None: ...

    class FetchableTopicResponse(Message):
        topic_id: bytes
        partitions: list[fetch_response.PartitionData]
        topic: str
        def __init__(
            self,
            *,
            topic_id: bytes = ...,
            partitions: list[fetch_response.PartitionData] = ...,
            topic: str = ...,
        ) -> None: ...

    class NodeEndpoint(Message):
        node_id: int
        host: str
        port: int
        rack: str | None
        def __init__(
            self,
            *,
            node_id: int = ...,
            host: str = ...,
            port: int = ...,
            rack: str | None = ...,
        ) -> None: ...

    class FetchResponse(Message):
        throttle_time_ms: int
        error_code: int
        session_id: int
        responses: list[fetch_response.FetchableTopicResponse]
        node_endpoints: list[fetch_response.NodeEndpoint]
        def __init__(
            self,
            *,
            throttle_time_ms: int = ...,
            error_code: int = ...,
            session_id: int = ...,
            responses: list[fetch_response.FetchableTopicResponse] = ...,
            node_endpoints: list[fetch_response.NodeEndpoint] = ...,
        ) -> None: ...

    ROOT: TypeAlias = FetchResponse
    CLASSES: ClassVar[dict[str, type[Message]]]

class list_offsets_request:
    class ListOffsetsPartition(Message):
        partition_index: int
        current_leader_epoch: int
        timestamp: int
        max_num_offsets: int
        def __init__(
            self,
            *,
            partition_index: int = ...,
            current_leader_epoch: int = ...,
            timestamp: int = ...,
            max_num_offsets: int = ...,
        ) -> None: ...

    class ListOffsetsTopic(Message):
        name: str
        partitions: list[list_offsets_request.ListOffsetsPartition]
        def __init__(
            self,
            *,
            name: str = ...,
            partitions: list[list_offsets_request.ListOffsetsPartition] = ...,
        ) -> None: ...

    class ListOffsetsRequest(Request[list_offsets_response.ListOffsetsResponse]):
        replica_id: int
        isolation_level: int
        topics: list[list_offsets_request.ListOffsetsTopic]
        def __init__(
            self,
            *,
            replica_id: int = ...,
            isolation_level: int = ...,
            topics: list[list_offsets_request.ListOffsetsTopic] = ...,
        ) -> None: ...

    ROOT: TypeAlias = ListOffsetsRequest
    CLASSES: ClassVar[dict[str, type[Message]]]

class list_offsets_response:
    class ListOffsetsPartitionResponse(Message):
        partition_index: int
        error_code: int
        timestamp: int
        offset: int
        leader_epoch: int
        old_style_offsets: list[int]
        def __init__(
            self,
            *,
            partition_index: int = ...,
            error_code: int = ...,
            timestamp: int = ...,
            offset: int = ...,
            leader_epoch: int = ...,
            old_style_offsets: list[int] = ...,
        ) -> None: ...

    class ListOffsetsTopicResponse(Message):
        name: str
        partitions: list[list_offsets_response.ListOffsetsPartitionResponse]
        def __init__(
            self,
            *,
            name: str = ...,
            partitions: list[list_offsets_response.ListOffsetsPartitionResponse] = ...,
        ) -> None: ...

    class ListOffsetsResponse(Message):
        throttle_time_ms: int
        topics: list[list_offsets_response.ListOffsetsTopicResponse]
        def __init__(
            self,
            *,
            throttle_time_ms: int = ...,
            topics: list[list_offsets_response.ListOffsetsTopicResponse] = ...,
        ) -> None: ...

    ROOT: TypeAlias = ListOffsetsResponse
    CLASSES: ClassVar[dict[str, type[Message]]]

class metadata_request:
    class MetadataRequestTopic(Message):
        topic_id: bytes
        name: str | None
        def __init__(
            self,
            *,
            topic_id: bytes = ...,
            name: str | None = ...,
        ) -> None: ...

    class MetadataRequest(Request[metadata_response.MetadataResponse]):
        topics: list[metadata_request.MetadataRequestTopic] | None
        allow_auto_topic_creation: bool
        include_topic_authorized_operations: bool
        include_cluster_authorized_operations: bool
        def __init__(
            self,
            *,
            topics: list[metadata_request.MetadataRequestTopic] | None = ...,
            allow_auto_topic_creation: bool = ...,
            include_topic_authorized_operations: bool = ...,
            include_cluster_authorized_operations: bool = ...,
        ) -> None: ...

    ROOT: TypeAlias = MetadataRequest
    CLASSES: ClassVar[dict[str, type[Message]]]

class metadata_response:
    class MetadataResponseBroker(Message):
        node_id: int
        host: str
        port: int
        rack: str | None
        def __init__(
            self,
            *,
            node_id: int = ...,
            host: str = ...,
            port: int = ...,
            rack: str | None = ...,
        ) -> None: ...

    class MetadataResponsePartition(Message):
        error_code: int
        partition_index: int
        leader_id: int
        leader_epoch: int
        replica_nodes: list[int]
        isr_nodes: list[int]
        offline_replicas: list[int]
        def __init__(
            self,
            *,
            error_code: int = ...,
            partition_index: int = ...,
            leader_id: int = ...,
            leader_epoch: int = ...,
            replica_nodes: list[int] = ...,
            isr_nodes: list[int] = ...,
            offline_replicas: list[int] = ...,
        ) -> None: ...

    class MetadataResponseTopic(Message):
        error_code: int
        name: str | None
        topic_id: bytes
        is_internal: bool
        partitions: list[metadata_response.MetadataResponsePartition]
        topic_authorized_operations: int
        def __init__(
            self,
            *,
            error_code: int = ...,
            name: str | None = ...,
            topic_id: bytes = ...,
            is_internal: bool = ...,
            partitions: list[metadata_response.MetadataResponsePartition] = ...,
            topic_authorized_operations: int = ...,
        ) -> None: ...

    class MetadataResponse(Message):
        throttle_time_ms: int
        brokers: list[metadata_response.MetadataResponseBroker]
        cluster_id: str | None
        controller_id: int
        topics: list[metadata_response.MetadataResponseTopic]
        cluster_authorized_operations: int
        def __init__(
            self,
            *,
            throttle_time_ms: int = ...,
            brokers: list[metadata_response.MetadataResponseBroker] = ...,
            cluster_id: str | None = ...,
            controller_id: int = ...,
            topics: list[metadata_response.MetadataResponseTopic] = ...,
            cluster_authorized_operations: int = ...,
        ) -> None: ...

    ROOT: TypeAlias = MetadataResponse
    CLASSES: ClassVar[dict[str, type[Message]]]

class leader_and_isr_request:
    class PartitionState(Message):
        partition_index: int
        controller_epoch: int
        leader: int
        leader_epoch: int
        isr: list[int]
        partition_epoch: int
        replicas: list[int]
        adding_replicas: list[int]
        removing_replicas: list[int]
        is_new: bool
        leader_recovery_state: int
        topic_name: str
        def __init__(
            self,
            *,
            partition_index: int = ...,
            controller_epoch: int = ...,
            leader: int = ...,
            leader_epoch: int = ...,
            isr: list[int] = ...,
            partition_epoch: int = ...,
            replicas: list[int] = ...,
            adding_replicas: list[int] = ...,
            removing_replicas: list[int] = ...,
            is_new: bool = ...,
            leader_recovery_state: int = ...,
            topic_name: str = ...,
        ) -> None: ...

    class TopicState(Message):
        topic_name: str
        topic_id: bytes
        partition_states: list[leader_and_isr_request.PartitionState]
        def __init__(
            self,
            *,
            topic_name: str = ...,
            topic_id: bytes = ...,
            partition_states: list[leader_and_isr_request.PartitionState] = ...,
        ) -> None: ...

    class LiveLeader(Message):
        broker_id: int
        host_name: str
        port: int
        def __init__(
            self,
            *,
            broker_id: int = ...,
            host_name: str = ...,
            port: int = ...,
        ) -> None: ...

    class LeaderAndIsrRequest(Request[leader_and_isr_response.LeaderAndIsrResponse]):
        controller_id: int
        is_kraft_controller: bool
        controller_epoch: int
        broker_epoch: int
        type: int
        topic_states: list[leader_and_isr_request.TopicState]
        live_leaders: list[leader_and_isr_request.LiveLeader]
        ungrouped_partition_states: list[leader_and_isr_request.PartitionState]
        def __init__(
            self,
            *,
            controller_id: int = ...,
            is_kraft_controller: bool = ...,
            controller_epoch: int = ...,
            broker_epoch: int = ...,
            type: int = ...,
            topic_states: list[leader_and_isr_request.TopicState] = ...,
            live_leaders: list[leader_and_isr_request.LiveLeader] = ...,
            ungrouped_partition_states: list[leader_and_isr_request.PartitionState] = ...,
        ) -> None: ...

    ROOT: TypeAlias = LeaderAndIsrRequest
    CLASSES: ClassVar[dict[str, type[Message]]]

class leader_and_isr_response:
    class PartitionError(Message):
        partition_index: int
        error_code: int
        topic_name: str
        def __init__(
            self,
            *,
            partition_index: int = ...,
            error_code: int = ...,
            topic_name: str = ...,
        ) -> None: ...

    class TopicError(Message):
        topic_id: bytes
        partition_errors: list[leader_and_isr_response.PartitionError]
        def __init__(
            self,
            *,
            topic_id: bytes = ...,
            partition_errors: list[leader_and_isr_response.PartitionError] = ...,
        ) -> None: ...

    class LeaderAndIsrResponse(Message):
        error_code: int
        topics: list[leader_and_isr_response.TopicError]
        partition_errors: list[leader_and_isr_response.PartitionError]
        def __init__(
            self,
            *,
            error_code: int = ...,
            topics: list[leader_and_isr_response.TopicError] = ...,
            partition_errors: list[leader_and_isr_response.PartitionError] = ...,
        ) -> None: ...

    ROOT: TypeAlias = LeaderAndIsrResponse
    CLASSES: ClassVar[dict[str, type[Message]]]

class stop_replica_request:
    class PartitionState(Message):
        partition_index: int
        leader_epoch: int
        delete_partition: bool
        def __init__(
            self,
            *,
            partition_index: int = ...,
            leader_epoch: int = ...,
            delete_partition: bool = ...,
        ) -> None: ...

    class TopicState(Message):
        topic_name: str
        partition_states: list[stop_replica_request.PartitionState]
        def __init__(
            self,
            *,
            topic_name: str = ...,
            partition_states: list[stop_replica_request.PartitionState] = ...,
        ) -> None: ...

    class StopReplicaRequest(Request[stop_replica_response.StopReplicaResponse]):
        controller_id: int
        is_kraft_controller: bool
        controller_epoch: int
        broker_epoch: int
        topic_states: list[stop_replica_request.TopicState]
        delete_partitions: bool
        topics: list[stop_replica_request.Topic]
        ungrouped_partitions: list[stop_replica_request.UngroupedPartition]
        def __init__(
            self,
            *,
            controller_id: int = ...,
            is_kraft_controller: bool = ...,
            controller_epoch: int = ...,
            broker_epoch: int = ...,
            topic_states: list[stop_replica_request.TopicState] = ...,
            delete_partitions: bool = ...,
            topics: list[stop_replica_request.Topic] = ...,
            ungrouped_partitions: list[stop_replica_request.UngroupedPartition] = ...,
        ) -> None: ...

    class Topic(Message):
        name: str
        partition_indexes: list[int]
        def __init__(
            self,
            *,
            name: str = ...,
            partition_indexes: list[int] = ...,
        ) -> None: ...

    class UngroupedPartition(Message):
        topic_name: str
        partition_index: int
        def __init__(
            self,
            *,
            topic_name: str = ...,
            partition_index: int = ...,
        ) -> None: ...

    ROOT: TypeAlias = StopReplicaRequest
    CLASSES: ClassVar[dict[str, type[Message]]]

class stop_replica_response:
    class PartitionError(Message):
        topic_name: str
        partition_index: int
        error_code: int
        def __init__(
            self,
            *,
            topic_name: str = ...,
            partition_index: int = ...,
            error_code: int = ...,
        ) -> None: ...

    class StopReplicaResponse(Message):
        error_code: int
        partition_errors: list[stop_replica_response.PartitionError]
        def __init__(
            self,
            *,
            error_code: int = ...,
            partition_errors: list[stop_replica_response.PartitionError] = ...,
        ) -> None: ...

    ROOT: TypeAlias = StopReplicaResponse
    CLASSES: ClassVar[dict[str, type[Message]]]

class update_metadata_request:
    class PartitionState(Message):
        partition_index: int
        controller_epoch: int
        leader: int
        leader_epoch: int
        isr: list[int]
        zk_version: int
        replicas: list[int]
        offline_replicas: list[int]
        topic_name: str
        def __init__(
            self,
            *,
            partition_index: int = ...,
            controller_epoch: int = ...,
            leader: int = ...,
            leader_epoch: int = ...,
            isr: list[int] = ...,
            zk_version: int = ...,
            replicas: list[int] = ...,
            offline_replicas: list[int] = ...,
            topic_name: str = ...,
        ) -> None: ...

    class TopicState(Message):
        topic_name: str
        topic_id: bytes
        partition_states: list[update_metadata_request.PartitionState]
        def __init__(
            self,
            *,
            topic_name: str = ...,
            topic_id: bytes = ...,
            partition_states: list[update_metadata_request.PartitionState] = ...,
        ) -> None: ...

    class Endpoint(Message):
        port: int
        host: str
        listener: str
        security_protocol: int
        def __init__(
            self,
            *,
            port: int = ...,
            host: str = ...,
            listener: str = ...,
            security_protocol: int = ...,
        ) -> None: ...

    class LiveBroker(Message):
        id: int
        endpoints: list[update_metadata_request.Endpoint]
        rack: str | None
        v0_host: str
        v0_port: int
        def __init__(
            self,
            *,
            id: int = ...,
            endpoints: list[update_metadata_request.Endpoint] = ...,
            rack: str | None = ...,
            v0_host: str = ...,
            v0_port: int = ...,
        ) -> None: ...

    class UpdateMetadataRequest(Request[update_metadata_response.UpdateMetadataResponse]):
        controller_id: int
        is_kraft_controller: bool
        type: int
        controller_epoch: int
        broker_epoch: int
        topic_states: list[update_metadata_request.TopicState]
        live_brokers: list[update_metadata_request.LiveBroker]
        ungrouped_partition_states: list[update_metadata_request.PartitionState]
        def __init__(
            self,
            *,
            controller_id: int = ...,
            is_kraft_controller: bool = ...,
            type: int = ...,
            controller_epoch: int = ...,
            broker_epoch: int = ...,
            topic_states: list[update_metadata_request.TopicState] = ...,
            live_brokers: list[update_metadata_request.LiveBroker] = ...,
            ungrouped_partition_states: list[update_metadata_request.PartitionState] = ...,
        ) -> None: ...

    ROOT: TypeAlias = UpdateMetadataRequest
    CLASSES: ClassVar[dict[str, type[Message]]]

class update_metadata_response:
    class UpdateMetadataResponse(Message):
        error_code: int
        def __init__(
            self,
            *,
            error_code: int = ...,
        ) -> None: ...

    ROOT: TypeAlias = UpdateMetadataResponse
    CLASSES: ClassVar[dict[str, type[Message]]]

class controlled_shutdown_request:
    class ControlledShutdownRequest(Request[controlled_shutdown_response.ControlledShutdownResponse]):
        broker_id: int
        broker_epoch: int
        def __init__(
            self,
            *,
            broker_id: int = ...,
            broker_epoch: int = ...,
        ) -> None: ...

    ROOT: TypeAlias = ControlledShutdownRequest
    CLASSES: ClassVar[dict[str, type[Message]]]

class controlled_shutdown_response:
    class RemainingPartition(Message):
        topic_name: str
        partition_index: int
        def __init__(
            self,
            *,
            topic_name: str = ...,
            partition_index: int = ...,
        ) -> None: ...

    class ControlledShutdownResponse(Message):
        error_code: int
        remaining_partitions: list[controlled_shutdown_response.RemainingPartition]
        def __init__(
            self,
            *,
            error_code: int = ...,
            remaining_partitions: list[controlled_shutdown_response.RemainingPartition] = ...,
        ) -> None: ...

    ROOT: TypeAlias = ControlledShutdownResponse
    CLASSES: ClassVar[dict[str, type[Message]]]

class offset_commit_request:
    class OffsetCommitRequestPartition(Message):
        partition_index: int
        committed_offset: int
        committed_leader_epoch: int
        committed_metadata: str | None
        commit_timestamp_ms: int
        def __init__(
            self,
            *,
            partition_index: int = ...,
            committed_offset: int = ...,
            committed_leader_epoch: int = ...,
            committed_metadata: str | None = ...,
            commit_timestamp_ms: int = ...,
        ) -> None: ...

    class OffsetCommitRequestTopic(Message):
        name: str
        partitions: list[offset_commit_request.OffsetCommitRequestPartition]
        def __init__(
            self,
            *,
            name: str = ...,
            partitions: list[offset_commit_request.OffsetCommitRequestPartition] = ...,
        ) -> None: ...

    class OffsetCommitRequest(Request[offset_commit_response.OffsetCommitResponse]):
        group_id: str
        generation_id_or_member_epoch: int
        member_id: str
        group_instance_id: str | None
        topics: list[offset_commit_request.OffsetCommitRequestTopic]
        retention_time_ms: int
        def __init__(
            self,
            *,
            group_id: str = ...,
            generation_id_or_member_epoch: int = ...,
            member_id: str = ...,
            group_instance_id: str | None = ...,
            topics: list[offset_commit_request.OffsetCommitRequestTopic] = ...,
            retention_time_ms: int = ...,
        ) -> None: ...

    ROOT: TypeAlias = OffsetCommitRequest
    CLASSES: ClassVar[dict[str, type[Message]]]

class offset_commit_response:
    class OffsetCommitResponsePartition(Message):
        partition_index: int
        error_code: int
        def __init__(
            self,
            *,
            partition_index: int = ...,
            error_code: int = ...,
        ) -> None: ...

    class OffsetCommitResponseTopic(Message):
        name: str
        partitions: list[offset_commit_response.OffsetCommitResponsePartition]
        def __init__(
            self,
            *,
            name: str = ...,
            partitions: list[offset_commit_response.OffsetCommitResponsePartition] = ...,
        ) -> None: ...

    class OffsetCommitResponse(Message):
        throttle_time_ms: int
        topics: list[offset_commit_response.OffsetCommitResponseTopic]
        def __init__(
            self,
            *,
            throttle_time_ms: int = ...,
            topics: list[offset_commit_response.OffsetCommitResponseTopic] = ...,
        ) -> None: ...

    ROOT: TypeAlias = OffsetCommitResponse
    CLASSES: ClassVar[dict[str, type[Message]]]

class offset_fetch_request:
    class OffsetFetchRequestTopics(Message):
        name: str
        partition_indexes: list[int]
        def __init__(
            self,
            *,
            name: str = ...,
            partition_indexes: list[int] = ...,
        ) -> None: ...

    class OffsetFetchRequestGroup(Message):
        group_id: str
        member_id: str | None
        member_epoch: int
        topics: list[offset_fetch_request.OffsetFetchRequestTopics] | None
        def __init__(
            self,
            *,
            group_id: str = ...,
            member_id: str | None = ...,
            member_epoch: int = ...,
            topics: list[offset_fetch_request.OffsetFetchRequestTopics] | None = ...,
        ) -> None: ...

    class OffsetFetchRequest(Request[offset_fetch_response.OffsetFetchResponse]):
        groups: list[offset_fetch_request.OffsetFetchRequestGroup]
        require_stable: bool
        group_id: str
        topics: list[offset_fetch_request.OffsetFetchRequestTopic] | None
        def __init__(
            self,
            *,
            groups: list[offset_fetch_request.OffsetFetchRequestGroup] = ...,
            require_stable: bool = ...,
            group_id: str = ...,
            topics: list[offset_fetch_request.OffsetFetchRequestTopic] | None = ...,
        ) -> None: ...

    class OffsetFetchRequestTopic(Message):
        name: str
        partition_indexes: list[int]
        def __init__(
            self,
            *,
            name: str = ...,
            partition_indexes: list[int] = ...,
        ) -> None: ...

    ROOT: TypeAlias = OffsetFetchRequest
    CLASSES: ClassVar[dict[str, type[Message]]]

class offset_fetch_response:
    class OffsetFetchResponsePartitions(Message):
        partition_index: int
        committed_offset: int
        committed_leader_epoch: int
        metadata: str | None
        error_code: int
        def __init__(
            self,
            *,
            partition_index: int = ...,
            committed_offset: int = ...,
            committed_leader_epoch: int = ...,
            metadata: str | None = ...,
            error_code: int = ...,
        ) -> None: ...

    class OffsetFetchResponseTopics(Message):
        name: str
        partitions: list[offset_fetch_response.OffsetFetchResponsePartitions]
        def __init__(
            self,
            *,
            name: str = ...,
            partitions: list[offset_fetch_response.OffsetFetchResponsePartitions] = ...,
        ) -> None: ...

    class OffsetFetchResponseGroup(Message):
        group_id: str
        topics: list[offset_fetch_response.OffsetFetchResponseTopics]
        error_code: int
        def __init__(
            self,
            *,
            group_id: str = ...,
            topics: list[offset_fetch_response.OffsetFetchResponseTopics] = ...,
            error_code: int = ...,
        ) -> None: ...

    class OffsetFetchResponse(Message):
        throttle_time_ms: int
        groups: list[offset_fetch_response.OffsetFetchResponseGroup]
        topics: list[offset_fetch_response.OffsetFetchResponseTopic]
        error_code: int
        def __init__(
            self,
            *,
            throttle_time_ms: int = ...,
            groups: list[offset_fetch_response.OffsetFetchResponseGroup] = ...,
            topics: list[offset_fetch_response.OffsetFetchResponseTopic] = ...,
            error_code: int = ...,
        ) -> None: ...

    class OffsetFetchResponsePartition(Message):
        partition_index: int
        committed_offset: int
        committed_leader_epoch: int
        metadata: str | None
        error_code: int
        def __init__(
            self,
            *,
            partition_index: int = ...,
            committed_offset: int = ...,
            committed_leader_epoch: int = ...,
            metadata: str | None = ...,
            error_code: int = ...,
        ) -> None: ...

    class OffsetFetchResponseTopic(Message):
        name: str
        partitions: list[offset_fetch_response.OffsetFetchResponsePartition]
        def __init__(
            self,
            *,
            name: str = ...,
            partitions: list[offset_fetch_response.OffsetFetchResponsePartition] = ...,
        ) -> None: ...

    ROOT: TypeAlias = OffsetFetchResponse
    CLASSES: ClassVar[dict[str, type[Message]]]

class find_coordinator_request:
    class FindCoordinatorRequest(Request[find_coordinator_response.FindCoordinatorResponse]):
        key_type: int
        coordinator_keys: list[str]
        key: str
        def __init__(
            self,
            *,
            key_type: int = ...,
            coordinator_keys: list[str] = ...,
            key: str = ...,
        ) -> None: ...

    ROOT: TypeAlias = FindCoordinatorRequest
    CLASSES: ClassVar[dict[str, type[Message]]]

class find_coordinator_response:
    class Coordinator(Message):
        key: str
        node_id: int
        host: str
        port: int
        error_code: int
        error_message: str | None
        def __init__(
            self,
            *,
            key: str = ...,
            node_id: int = ...,
            host: str = ...,
            port: int = ...,
            error_code: int = ...,
            error_message: str | None = ...,
        ) -> None: ...

    class FindCoordinatorResponse(Message):
        throttle_time_ms: int
        coordinators: list[find_coordinator_response.Coordinator]
        error_code: int
        error_message: str | None
        node_id: int
        host: str
        port: int
        def __init__(
            self,
            *,
            throttle_time_ms: int = ...,
            coordinators: list[find_coordinator_response.Coordinator] = ...,
            error_code: int = ...,
            error_message: str | None = ...,
            node_id: int = ...,
            host: str = ...,
            port: int = ...,
        ) -> None: ...

    ROOT: TypeAlias = FindCoordinatorResponse
    CLASSES: ClassVar[dict[str, type[Message]]]

class join_group_request:
    class JoinGroupRequestProtocol(Message):
        name: str
        metadata: bytes
        def __init__(
            self,
            *,
            name: str = ...,
            metadata: bytes = ...,
        ) -> None: ...

    class JoinGroupRequest(Request[join_group_response.JoinGroupResponse]):
        group_id: str
        session_timeout_ms: int
        rebalance_timeout_ms: int
        member_id: str
        group_instance_id: str | None
        protocol_type: str
        protocols: list[join_group_request.JoinGroupRequestProtocol]
        reason: str | None
        def __init__(
            self,
            *,
            group_id: str = ...,
            session_timeout_ms: int = ...,
            rebalance_timeout_ms: int = ...,
            member_id: str = ...,
            group_instance_id: str | None = ...,
            protocol_type: str = ...,
            protocols: list[join_group_request.JoinGroupRequestProtocol] = ...,
            reason: str | None = ...,
        ) -> None: ...

    ROOT: TypeAlias = JoinGroupRequest
    CLASSES: ClassVar[dict[str, type[Message]]]

class join_group_response:
    class JoinGroupResponseMember(Message):
        member_id: str
        group_instance_id: str | None
        metadata: bytes
        def __init__(
            self,
            *,
            member_id: str = ...,
            group_instance_id: str | None = ...,
            metadata: bytes = ...,
        ) -> None: ...

    class JoinGroupResponse(Message):
        throttle_time_ms: int
        error_code: int
        generation_id: int
        protocol_type: str | None
        protocol_name: str | None
        leader: str
        skip_assignment: bool
        member_id: str
        members: list[join_group_response.JoinGroupResponseMember]
        def __init__(
            self,
            *,
            throttle_time_ms: int = ...,
            error_code: int = ...,
            generation_id: int = ...,
            protocol_type: str | None = ...,
            protocol_name: str | None = ...,
            leader: str = ...,
            skip_assignment: bool = ...,
            member_id: str = ...,
            members: list[join_group_response.JoinGroupResponseMember] = ...,
        ) -> None: ...

    ROOT: TypeAlias = JoinGroupResponse
    CLASSES: ClassVar[dict[str, type[Message]]]

class heartbeat_request:
    class HeartbeatRequest(Request[heartbeat_response.HeartbeatResponse]):
        group_id: str
        generation_id: int
        member_id: str
        group_instance_id: str | None
        def __init__(
            self,
            *,
            group_id: str = ...,
            generation_id: int = ...,
            member_id: str = ...,
            group_instance_id: str | None = ...,
        ) -> None: ...

    ROOT: TypeAlias = HeartbeatRequest
    CLASSES: ClassVar[dict[str, type[Message]]]

class heartbeat_response:
    class HeartbeatResponse(Message):
        throttle_time_ms: int
        error_code: int
        def __init__(
            self,
            *,
            throttle_time_ms: int = ...,
            error_code: int = ...,
        ) -> None: ...

    ROOT: TypeAlias = HeartbeatResponse
    CLASSES: ClassVar[dict[str, type[Message]]]

class leave_group_request:
    class MemberIdentity(Message):
        member_id: str
        group_instance_id: str | None
        reason: str | None
        def __init__(
            self,
            *,
            member_id: str = ...,
            group_instance_id: str | None = ...,
            reason: str | None = ...,
        ) -> None: ...

    class LeaveGroupRequest(Request[leave_group_response.LeaveGroupResponse]):
        group_id: str
        members: list[leave_group_request.MemberIdentity]
        member_id: str
        def __init__(
            self,
            *,
            group_id: str = ...,
            members: list[leave_group_request.MemberIdentity] = ...,
            member_id: str = ...,
        ) -> None: ...

    ROOT: TypeAlias = LeaveGroupRequest
    CLASSES: ClassVar[dict[str, type[Message]]]

class leave_group_response:
    class MemberResponse(Message):
        member_id: str
        group_instance_id: str | None
        error_code: int
        def __init__(
            self,
            *,
            member_id: str = ...,
            group_instance_id: str | None = ...,
            error_code: int = ...,
        ) -> None: ...

    class LeaveGroupResponse(Message):
        throttle_time_ms: int
        error_code: int
        members: list[leave_group_response.MemberResponse]
        def __init__(
            self,
            *,
            throttle_time_ms: int = ...,
            error_code: int = ...,
            members: list[leave_group_response.MemberResponse] = ...,
        ) -> None: ...

    ROOT: TypeAlias = LeaveGroupResponse
    CLASSES: ClassVar[dict[str, type[Message]]]

class sync_group_request:
    class SyncGroupRequestAssignment(Message):
        member_id: str
        assignment: bytes
        def __init__(
            self,
            *,
            member_id: str = ...,
            assignment: bytes = ...,
        ) -> None: ...

    class SyncGroupRequest(Request[sync_group_response.SyncGroupResponse]):
        group_id: str
        generation_id: int
        member_id: str
        group_instance_id: str | None
        protocol_type: str | None
        protocol_name: str | None
        assignments: list[sync_group_request.SyncGroupRequestAssignment]
        def __init__(
            self,
            *,
            group_id: str = ...,
            generation_id: int = ...,
            member_id: str = ...,
            group_instance_id: str | None = ...,
            protocol_type: str | None = ...,
            protocol_name: str | None = ...,
            assignments: list[sync_group_request.SyncGroupRequestAssignment] = ...,
        ) -> None: ...

    ROOT: TypeAlias = SyncGroupRequest
    CLASSES: ClassVar[dict[str, type[Message]]]

class sync_group_response:
    class SyncGroupResponse(Message):
        throttle_time_ms: int
        error_code: int
        protocol_type: str | None
        protocol_name: str | None
        assignment: bytes
        def __init__(
            self,
            *,
            throttle_time_ms: int = ...,
            error_code: int = ...,
            protocol_type: str | None = ...,
            protocol_name: str | None = ...,
            assignment: bytes = ...,
        ) -> None: ...

    ROOT: TypeAlias = SyncGroupResponse
    CLASSES: ClassVar[dict[str, type[Message]]]

class describe_groups_request:
    class DescribeGroupsRequest(Request[describe_groups_response.DescribeGroupsResponse]):
        groups: list[str]
        include_authorized_operations: bool
        def __init__(
            self,
            *,
            groups: list[str] = ...,
            include_authorized_operations: bool = ...,
        ) -> None: ...

    ROOT: TypeAlias = DescribeGroupsRequest
    CLASSES: ClassVar[dict[str, type[Message]]]

class describe_groups_response:
    class DescribedGroupMember(Message):
        member_id: str
        group_instance_id: str | None
        client_id: str
        client_host: str
        member_metadata: bytes
        member_assignment: bytes
        def __init__(
            self,
            *,
            member_id: str = ...,
            group_instance_id: str | None = ...,
            client_id: str = ...,
            client_host: str = ...,
            member_metadata: bytes = ...,
            member_assignment: bytes = ...,
        ) -> None: ...

    class DescribedGroup(Message):
        error_code: int
        group_id: str
        group_state: str
        protocol_type: str
        protocol_data: str
        members: list[describe_groups_response.DescribedGroupMember]
        authorized_operations: int
        def __init__(
            self,
            *,
            error_code: int = ...,
            group_id: str = ...,
            group_state: str = ...,
            protocol_type: str = ...,
            protocol_data: str = ...,
            members: list[describe_groups_response.DescribedGroupMember] = ...,
            authorized_operations: int = ...,
        ) -> None: ...

    class DescribeGroupsResponse(Message):
        throttle_time_ms: int
        groups: list[describe_groups_response.DescribedGroup]
        def __init__(
            self,
            *,
            throttle_time_ms: int = ...,
            groups: list[describe_groups_response.DescribedGroup] = ...,
        ) -> None: ...

    ROOT: TypeAlias = DescribeGroupsResponse
    CLASSES: ClassVar[dict[str, type[Message]]]

class list_groups_request:
    class ListGroupsRequest(Request[list_groups_response.ListGroupsResponse]):
        states_filter: list[str]
        types_filter: list[str]
        def __init__(
            self,
            *,
            states_filter: list[str] = ...,
            types_filter: list[str] = ...,
        ) -> None: ...

    ROOT: TypeAlias = ListGroupsRequest
    CLASSES: ClassVar[dict[str, type[Message]]]

class list_groups_response:
    class ListedGroup(Message):
        group_id: str
        protocol_type: str
        group_state: str
        group_type: str
        def __init__(
            self,
            *,
            group_id: str = ...,
            protocol_type: str = ...,
            group_state: str = ...,
            group_type: str = ...,
        ) -> None: ...

    class ListGroupsResponse(Message):
        throttle_time_ms: int
        error_code: int
        groups: list[list_groups_response.ListedGroup]
        def __init__(
            self,
            *,
            throttle_time_ms: int = ...,
            error_code: int = ...,
            groups: list[list_groups_response.ListedGroup] = ...,
        ) -> None: ...

    ROOT: TypeAlias = ListGroupsResponse
    CLASSES: ClassVar[dict[str, type[Message]]]

class sasl_handshake_request:
    class SaslHandshakeRequest(Request[sasl_handshake_response.SaslHandshakeResponse]):
        mechanism: str
        def __init__(
            self,
            *,
            mechanism: str = ...,
        ) -> None: ...

    ROOT: TypeAlias = SaslHandshakeRequest
    CLASSES: ClassVar[dict[str, type[Message]]]

class sasl_handshake_response:
    class SaslHandshakeResponse(Message):
        error_code: int
        mechanisms: list[str]
        def __init__(
            self,
            *,
            error_code: int = ...,
            mechanisms: list[str] = ...,
        ) -> None: ...

    ROOT: TypeAlias = SaslHandshakeResponse
    CLASSES: ClassVar[dict[str, type[Message]]]

class api_versions_request:
    class ApiVersionsRequest(Request[api_versions_response.ApiVersionsResponse]):
        client_software_name: str
        client_software_version: str
        def __init__(
            self,
            *,
            client_software_name: str = ...,
            client_software_version: str = ...,
        ) -> None: ...

    ROOT: TypeAlias = ApiVersionsRequest
    CLASSES: ClassVar[dict[str, type[Message]]]

class api_versions_response:
    class ApiVersion(Message):
        api_key: int
        min_version: int
        max_version: int
        def __init__(
            self,
            *,
            api_key: int = ...,
            min_version: int = ...,
            max_version: int = ...,
        ) -> None: ...

    class SupportedFeatureKey(Message):
        name: str
        min_version: int
        max_version: int
        def __init__(
            self,
            *,
            name: str = ...,
            min_version: int = ...,
            max_version: int = ...,
        ) -> None: ...

    class FinalizedFeatureKey(Message):
        name: str
        max_version_level: int
        min_version_level: int
        def __init__(
            self,
            *,
            name: str = ...,
            max_version_level: int = ...,
            min_version_level: int = ...,
        ) -> None: ...

    class ApiVersionsResponse(Message):
        error_code: int
        api_keys: list[api_versions_response.ApiVersion]
        throttle_time_ms: int
        supported_features: list[api_versions_response.SupportedFeatureKey]
        finalized_features_epoch: int
        finalized_features: list[api_versions_response.FinalizedFeatureKey]
        zk_migration_ready: bool
        def __init__(
            self,
            *,
            error_code: int = ...,
            api_keys: list[api_versions_response.ApiVersion] = ...,
            throttle_time_ms: int = ...,
            supported_features: list[api_versions_response.SupportedFeatureKey] = ...,
            finalized_features_epoch: int = ...,
            finalized_features: list[api_versions_response.FinalizedFeatureKey] = ...,
            zk_migration_ready: bool = ...,
        ) -> None: ...

    ROOT: TypeAlias = ApiVersionsResponse
    CLASSES: ClassVar[dict[str, type[Message]]]

class create_topics_request:
    class CreatableReplicaAssignment(Message):
        partition_index: int
        broker_ids: list[int]
        def __init__(
            self,
            *,
            partition_index: int = ...,
            broker_ids: list[int] = ...,
        ) -> None: ...

    class CreatableTopicConfig(Message):
        name: str
        value: str | None
        def __init__(
            self,
            *,
            name: str = ...,
            value: str | None = ...,
        ) -> None: ...

    class CreatableTopic(Message):
        name: str
        num_partitions: int
        replication_factor: int
        assignments: list[create_topics_request.CreatableReplicaAssignment]
        configs: list[create_topics_request.CreatableTopicConfig]
        def __init__(
            self,
            *,
            name: str = ...,
            num_partitions: int = ...,
            replication_factor: int = ...,
            assignments: list[create_topics_request.CreatableReplicaAssignment] = ...,
            configs: list[create_topics_request.CreatableTopicConfig] = ...,
        ) -> None: ...

    class CreateTopicsRequest(Request[create_topics_response.CreateTopicsResponse]):
        topics: list[create_topics_request.CreatableTopic]
        timeout_ms: int
        validate_only: bool
        def __init__(
            self,
            *,
            topics: list[create_topics_request.CreatableTopic] = ...,
            timeout_ms: int = ...,
            validate_only: bool = ...,
        ) -> None: ...

    ROOT: TypeAlias = CreateTopicsRequest
    CLASSES: ClassVar[dict[str, type[Message]]]

class create_topics_response:
    class CreatableTopicConfigs(Message):
        name: str
        value: str | None
        read_only: bool
        config_source: int
        is_sensitive: bool
        def __init__(
            self,
            *,
            name: str = ...,
            value: str | None = ...,
            read_only: bool = ...,
            config_source: int = ...,
            is_sensitive: bool = ...,
        ) -> None: ...

    class CreatableTopicResult(Message):
        name: str
        topic_id: bytes
        error_code: int
        error_message: str | None
        topic_config_error_code: int
        num_partitions: int
        replication_factor: int
        configs: list[create_topics_response.CreatableTopicConfigs] | None
        def __init__(
            self,
            *,
            name: str = ...,
            topic_id: bytes = ...,
            error_code: int = ...,
            error_message: str | None = ...,
            topic_config_error_code: int = ...,
            num_partitions: int = ...,
            replication_factor: int = ...,
            configs: list[create_topics_response.CreatableTopicConfigs] | None = ...,
        ) -> None: ...

    class CreateTopicsResponse(Message):
        throttle_time_ms: int
        topics: list[create_topics_response.CreatableTopicResult]
        def __init__(
            self,
            *,
            throttle_time_ms: int = ...,
            topics: list[create_topics_response.CreatableTopicResult] = ...,
        ) -> None: ...

    ROOT: TypeAlias = CreateTopicsResponse
    CLASSES: ClassVar[dict[str, type[Message]]]

class delete_topics_request:
    class DeleteTopicState(Message):
        name: str | None
        topic_id: bytes
        def __init__(
            self,
            *,
            name: str | None = ...,
            topic_id: bytes = ...,
        ) -> None: ...

    class DeleteTopicsRequest(Request[delete_topics_response.DeleteTopicsResponse]):
        topics: list[delete_topics_request.DeleteTopicState]
        timeout_ms: int
        topic_names: list[str]
        def __init__(
            self,
            *,
            topics: list[delete_topics_request.DeleteTopicState] = ...,
            timeout_ms: int = ...,
            topic_names: list[str] = ...,
        ) -> None: ...

    ROOT: TypeAlias = DeleteTopicsRequest
    CLASSES: ClassVar[dict[str, type[Message]]]

class delete_topics_response:
    class DeletableTopicResult(Message):
        name: str | None
        topic_id: bytes
        error_code: int
        error_message: str | None
        def __init__(
            self,
            *,
            name: str | None = ...,
            topic_id: bytes = ...,
            error_code: int = ...,
            error_message: str | None = ...,
        ) -> None: ...

    class DeleteTopicsResponse(Message):
        throttle_time_ms: int
        responses: list[delete_topics_response.DeletableTopicResult]
        def __init__(
            self,
            *,
            throttle_time_ms: int = ...,
            responses: list[delete_topics_response.DeletableTopicResult] = ...,
        ) -> None: ...

    ROOT: TypeAlias = DeleteTopicsResponse
    CLASSES: ClassVar[dict[str, type[Message]]]

class delete_records_request:
    class DeleteRecordsPartition(Message):
        partition_index: int
        offset: int
        def __init__(
            self,
            *,
            partition_index: int = ...,
            offset: int = ...,
        ) -> None: ...

    class DeleteRecordsTopic(Message):
        name: str
        partitions: list[delete_records_request.DeleteRecordsPartition]
        def __init__(
            self,
            *,
            name: str = ...,
            partitions: list[delete_records_request.DeleteRecordsPartition] = ...,
        ) -> None: ...

    class DeleteRecordsRequest(Request[delete_records_response.DeleteRecordsResponse]):
        topics: list[delete_records_request.DeleteRecordsTopic]
        timeout_ms: int
        def __init__(
            self,
            *,
            topics: list[delete_records_request.DeleteRecordsTopic] = ...,
            timeout_ms: int = ...,
        ) -> None: ...

    ROOT: TypeAlias = DeleteRecordsRequest
    CLASSES: ClassVar[dict[str, type[Message]]]

class delete_records_response:
    class DeleteRecordsPartitionResult(Message):
        partition_index: int
        low_watermark: int
        error_code: int
        def __init__(
            self,
            *,
            partition_index: int = ...,
            low_watermark: int = ...,
            error_code: int = ...,
        ) -> None: ...

    class DeleteRecordsTopicResult(Message):
        name: str
        partitions: list[delete_records_response.DeleteRecordsPartitionResult]
        def __init__(
            self,
            *,
            name: str = ...,
            partitions: list[delete_records_response.DeleteRecordsPartitionResult] = ...,
        ) -> None: ...

    class DeleteRecordsResponse(Message):
        throttle_time_ms: int
        topics: list[delete_records_response.DeleteRecordsTopicResult]
        def __init__(
            self,
            *,
            throttle_time_ms: int = ...,
            topics: list[delete_records_response.DeleteRecordsTopicResult] = ...,
        ) -> None: ...

    ROOT: TypeAlias = DeleteRecordsResponse
    CLASSES: ClassVar[dict[str, type[Message]]]

class init_producer_id_request:
    class InitProducerIdRequest(Request[init_producer_id_response.InitProducerIdResponse]):
        transactional_id: str | None
        transaction_timeout_ms: int
        producer_id: int
        producer_epoch: int
        def __init__(
            self,
            *,
            transactional_id: str | None = ...,
            transaction_timeout_ms: int = ...,
            producer_id: int = ...,
            producer_epoch: int = ...,
        ) -> None: ...

    ROOT: TypeAlias = InitProducerIdRequest
    CLASSES: ClassVar[dict[str, type[Message]]]

class init_producer_id_response:
    class InitProducerIdResponse(Message):
        throttle_time_ms: int
        error_code: int
        producer_id: int
        producer_epoch: int
        def __init__(
            self,
            *,
            throttle_time_ms: int = ...,
            error_code: int = ...,
            producer_id: int = ...,
            producer_epoch: int = ...,
        ) -> None: ...

    ROOT: TypeAlias = InitProducerIdResponse
    CLASSES: ClassVar[dict[str, type[Message]]]

class offset_for_leader_epoch_request:
    class OffsetForLeaderPartition(Message):
        partition: int
        current_leader_epoch: int
        leader_epoch: int
        def __init__(
            self,
            *,
            partition: int = ...,
            current_leader_epoch: int = ...,
            leader_epoch: int = ...,
        ) -> None: ...

    class OffsetForLeaderTopic(Message):
        topic: str
        partitions: list[offset_for_leader_epoch_request.OffsetForLeaderPartition]
        def __init__(
            self,
            *,
            topic: str = ...,
            partitions: list[offset_for_leader_epoch_request.OffsetForLeaderPartition] = ...,
        ) -> None: ...

    class OffsetForLeaderEpochRequest(Request[offset_for_leader_epoch_response.OffsetForLeaderEpochResponse]):
        replica_id: int
        topics: list[offset_for_leader_epoch_request.OffsetForLeaderTopic]
        def __init__(
            self,
            *,
            replica_id: int = ...,
            topics: list[offset_for_leader_epoch_request.OffsetForLeaderTopic] = ...,
        ) -> None: ...

    ROOT: TypeAlias = OffsetForLeaderEpochRequest
    CLASSES: ClassVar[dict[str, type[Message]]]

class offset_for_leader_epoch_response:
    class EpochEndOffset(Message):
        error_code: int
        partition: int
        leader_epoch: int
        end_offset: int
        def __init__(
            self,
            *,
            error_code: int = ...,
            partition: int = ...,
            leader_epoch: int = ...,
            end_offset: int = ...,
        ) -> None: ...

    class OffsetForLeaderTopicResult(Message):
        topic: str
        partitions: list[offset_for_leader_epoch_response.EpochEndOffset]
        def __init__(
            self,
            *,
            topic: str = ...,
            partitions: list[offset_for_leader_epoch_response.EpochEndOffset] = ...,
        ) -> None: ...

    class OffsetForLeaderEpochResponse(Message):
        throttle_time_ms: int
        topics: list[offset_for_leader_epoch_response.OffsetForLeaderTopicResult]
        def __init__(
            self,
            *,
            throttle_time_ms: int = ...,
            topics: list[offset_for_leader_epoch_response.OffsetForLeaderTopicResult] = ...,
        ) -> None: ...

    ROOT: TypeAlias = OffsetForLeaderEpochResponse
    CLASSES: ClassVar[dict[str, type[Message]]]

class add_partitions_to_txn_request:
    class AddPartitionsToTxnTopic(Message):
        name: str
        partitions: list[int]
        def __init__(
            self,
            *,
            name: str = ...,
            partitions: list[int] = ...,
        ) -> None: ...

    class AddPartitionsToTxnTransaction(Message):
        transactional_id: str
        producer_id: int
        producer_epoch: int
        verify_only: bool
        topics: list[add_partitions_to_txn_request.AddPartitionsToTxnTopic]
        def __init__(
            self,
            *,
            transactional_id: str = ...,
            producer_id: int = ...,
            producer_epoch: int = ...,
            verify_only: bool = ...,
            topics: list[add_partitions_to_txn_request.AddPartitionsToTxnTopic] = ...,
        ) -> None: ...

    class AddPartitionsToTxnRequest(Request[add_partitions_to_txn_response.AddPartitionsToTxnResponse]):
        transactions: list[add_partitions_to_txn_request.AddPartitionsToTxnTransaction]
        v3_and_below_transactional_id: str
        v3_and_below_producer_id: int
        v3_and_below_producer_epoch: int
        v3_and_below_topics: list[add_partitions_to_txn_request.AddPartitionsToTxnTopic]
        def __init__(
            self,
            *,
            transactions: list[add_partitions_to_txn_request.AddPartitionsToTxnTransaction] = ...,
            v3_and_below_transactional_id: str = ...,
            v3_and_below_producer_id: int = ...,
            v3_and_below_producer_epoch: int = ...,
            v3_and_below_topics: list[add_partitions_to_txn_request.AddPartitionsToTxnTopic] = ...,
        ) -> None: ...

    ROOT: TypeAlias = AddPartitionsToTxnRequest
    CLASSES: ClassVar[dict[str, type[Message]]]

class add_partitions_to_txn_response:
    class AddPartitionsToTxnPartitionResult(Message):
        partition_index: int
        partition_error_code: int
        def __init__(
            self,
            *,
            partition_index: int = ...,
            partition_error_code: int = ...,
        ) -> None: ...

    class AddPartitionsToTxnTopicResult(Message):
        name: str
        results_by_partition: list[add_partitions_to_txn_response.AddPartitionsToTxnPartitionResult]
        def __init__(
            self,
            *,
            name: str = ...,
            results_by_partition: list[add_partitions_to_txn_response.AddPartitionsToTxnPartitionResult] = ...,
        ) -> None: ...

    class AddPartitionsToTxnResult(Message):
        transactional_id: str
        topic_results: list[add_partitions_to_txn_response.AddPartitionsToTxnTopicResult]
        def __init__(
            self,
            *,
            transactional_id: str = ...,
            topic_results: list[add_partitions_to_txn_response.AddPartitionsToTxnTopicResult] = ...,
        ) -> None: ...

    class AddPartitionsToTxnResponse(Message):
        throttle_time_ms: int
        error_code: int
        results_by_transaction: list[add_partitions_to_txn_response.AddPartitionsToTxnResult]
        results_by_topic_v3_and_below: list[add_partitions_to_txn_response.AddPartitionsToTxnTopicResult]
        def __init__(
            self,
            *,
            throttle_time_ms: int = ...,
            error_code: int = ...,
            results_by_transaction: list[add_partitions_to_txn_response.AddPartitionsToTxnResult] = ...,
            results_by_topic_v3_and_below: list[add_partitions_to_txn_response.AddPartitionsToTxnTopicResult] = ...,
        ) -> None: ...

    ROOT: TypeAlias = AddPartitionsToTxnResponse
    CLASSES: ClassVar[dict[str, type[Message]]]

class add_offsets_to_txn_request:
    class AddOffsetsToTxnRequest(Request[add_offsets_to_txn_response.AddOffsetsToTxnResponse]):
        transactional_id: str
        producer_id: int
        producer_epoch: int
        group_id: str
        def __init__(
            self,
            *,
            transactional_id: str = ...,
            producer_id: int = ...,
            producer_epoch: int = ...,
            group_id: str = ...,
        ) -> None: ...

    ROOT: TypeAlias = AddOffsetsToTxnRequest
    CLASSES: ClassVar[dict[str, type[Message]]]

class add_offsets_to_txn_response:
    class AddOffsetsToTxnResponse(Message):
        throttle_time_ms: int
        error_code: int
        def __init__(
            self,
            *,
            throttle_time_ms: int = ...,
            error_code: int = ...,
        ) -> None: ...

    ROOT: TypeAlias = AddOffsetsToTxnResponse
    CLASSES: ClassVar[dict[str, type[Message]]]

class end_txn_request:
    class EndTxnRequest(Request[end_txn_response.EndTxnResponse]):
        transactional_id: str
        producer_id: int
        producer_epoch: int
        committed: bool
        def __init__(
            self,
            *,
            transactional_id: str = ...,
            producer_id: int = ...,
            producer_epoch: int = ...,
            committed: bool = ...,
        ) -> None: ...

    ROOT: TypeAlias = EndTxnRequest
    CLASSES: ClassVar[dict[str, type[Message]]]

class end_txn_response:
    class EndTxnResponse(Message):
        throttle_time_ms: int
        error_code: int
        def __init__(
            self,
            *,
            throttle_time_ms: int = ...,
            error_code: int = ...,
        ) -> None: ...

    ROOT: TypeAlias = EndTxnResponse
    CLASSES: ClassVar[dict[str, type[Message]]]

class write_txn_markers_request:
    class WritableTxnMarkerTopic(Message):
        name: str
        partition_indexes: list[int]
        def __init__(
            self,
            *,
            name: str = ...,
            partition_indexes: list[int] = ...,
        ) -> None: ...

    class WritableTxnMarker(Message):
        producer_id: int
        producer_epoch: int
        transaction_result: bool
        topics: list[write_txn_markers_request.WritableTxnMarkerTopic]
        coordinator_epoch: int
        def __init__(
            self,
            *,
            producer_id: int = ...,
            producer_epoch: int = ...,
            transaction_result: bool = ...,
            topics: list[write_txn_markers_request.WritableTxnMarkerTopic] = ...,
            coordinator_epoch: int = ...,
        ) -> None: ...

    class WriteTxnMarkersRequest(Request[write_txn_markers_response.WriteTxnMarkersResponse]):
        markers: list[write_txn_markers_request.WritableTxnMarker]
        def __init__(
            self,
            *,
            markers: list[write_txn_markers_request.WritableTxnMarker] = ...,
        ) -> None: ...

    ROOT: TypeAlias = WriteTxnMarkersRequest
    CLASSES: ClassVar[dict[str, type[Message]]]

class write_txn_markers_response:
    class WritableTxnMarkerPartitionResult(Message):
        partition_index: int
        error_code: int
        def __init__(
            self,
            *,
            partition_index: int = ...,
            error_code: int = ...,
        ) -> None: ...

    class WritableTxnMarkerTopicResult(Message):
        name: str
        partitions: list[write_txn_markers_response.WritableTxnMarkerPartitionResult]
        def __init__(
            self,
            *,
            name: str = ...,
            partitions: list[write_txn_markers_response.WritableTxnMarkerPartitionResult] = ...,
        ) -> None: ...

    class WritableTxnMarkerResult(Message):
        producer_id: int
        topics: list[write_txn_markers_response.WritableTxnMarkerTopicResult]
        def __init__(
            self,
            *,
            producer_id: int = ...,
            topics: list[write_txn_markers_response.WritableTxnMarkerTopicResult] = ...,
        ) -> None: ...

    class WriteTxnMarkersResponse(Message):
        markers: list[write_txn_markers_response.WritableTxnMarkerResult]
        def __init__(
            self,
            *,
            markers: list[write_txn_markers_response.WritableTxnMarkerResult] = ...,
        ) -> None: ...

    ROOT: TypeAlias = WriteTxnMarkersResponse
    CLASSES: ClassVar[dict[str, type[Message]]]

class txn_offset_commit_request:
    class TxnOffsetCommitRequestPartition(Message):
        partition_index: int
        committed_offset: int
        committed_leader_epoch: int
        committed_metadata: str | None
        def __init__(
            self,
            *,
            partition_index: int = ...,
            committed_offset: int = ...,
            committed_leader_epoch: int = ...,
            committed_metadata: str | None = ...,
        ) -> None: ...

    class TxnOffsetCommitRequestTopic(Message):
        name: str
        partitions: list[txn_offset_commit_request.TxnOffsetCommitRequestPartition]
        def __init__(
            self,
            *,
            name: str = ...,
            partitions: list[txn_offset_commit_request.TxnOffsetCommitRequestPartition] = ...,
        ) -> None: ...

    class TxnOffsetCommitRequest(Request[txn_offset_commit_response.TxnOffsetCommitResponse]):
        transactional_id: str
        group_id: str
        producer_id: int
        producer_epoch: int
        generation_id: int
        member_id: str
        group_instance_id: str | None
        topics: list[txn_offset_commit_request.TxnOffsetCommitRequestTopic]
        def __init__(
            self,
            *,
            transactional_id: str = ...,
            group_id: str = ...,
            producer_id: int = ...,
            producer_epoch: int = ...,
            generation_id: int = ...,
            member_id: str = ...,
            group_instance_id: str | None = ...,
            topics: list[txn_offset_commit_request.TxnOffsetCommitRequestTopic] = ...,
        ) -> None: ...

    ROOT: TypeAlias = TxnOffsetCommitRequest
    CLASSES: ClassVar[dict[str, type[Message]]]

class txn_offset_commit_response:
    class TxnOffsetCommitResponsePartition(Message):
        partition_index: int
        error_code: int
        def __init__(
            self,
            *,
            partition_index: int = ...,
            error_code: int = ...,
        ) -> None: ...

    class TxnOffsetCommitResponseTopic(Message):
        name: str
        partitions: list[txn_offset_commit_response.TxnOffsetCommitResponsePartition]
        def __init__(
            self,
            *,
            name: str = ...,
            partitions: list[txn_offset_commit_response.TxnOffsetCommitResponsePartition] = ...,
        ) -> None: ...

    class TxnOffsetCommitResponse(Message):
        throttle_time_ms: int
        topics: list[txn_offset_commit_response.TxnOffsetCommitResponseTopic]
        def __init__(
            self,
            *,
            throttle_time_ms: int = ...,
            topics: list[txn_offset_commit_response.TxnOffsetCommitResponseTopic] = ...,
        ) -> None: ...

    ROOT: TypeAlias = TxnOffsetCommitResponse
    CLASSES: ClassVar[dict[str, type[Message]]]

class describe_acls_request:
    class DescribeAclsRequest(Request[describe_acls_response.DescribeAclsResponse]):
        resource_type_filter: int
        resource_name_filter: str | None
        pattern_type_filter: int
        principal_filter: str | None
        host_filter: str | None
        operation: int
        permission_type: int
        def __init__(
            self,
            *,
            resource_type_filter: int = ...,
            resource_name_filter: str | None = ...,
            pattern_type_filter: int = ...,
            principal_filter: str | None = ...,
            host_filter: str | None = ...,
            operation: int = ...,
            permission_type: int = ...,
        ) -> None: ...

    ROOT: TypeAlias = DescribeAclsRequest
    CLASSES: ClassVar[dict[str, type[Message]]]

class describe_acls_response:
    class AclDescription(Message):
        principal: str
        host: str
        operation: int
        permission_type: int
        def __init__(
            self,
            *,
            principal: str = ...,
            host: str = ...,
            operation: int = ...,
            permission_type: int = ...,
        ) -> None: ...

    class DescribeAclsResource(Message):
        resource_type: int
        resource_name: str
        pattern_type: int
        acls: list[describe_acls_response.AclDescription]
        def __init__(
            self,
            *,
            resource_type: int = ...,
            resource_name: str = ...,
            pattern_type: int = ...,
            acls: list[describe_acls_response.AclDescription] = ...,
        ) -> None: ...

    class DescribeAclsResponse(Message):
        throttle_time_ms: int
        error_code: int
        error_message: str | None
        resources: list[describe_acls_response.DescribeAclsResource]
        def __init__(
            self,
            *,
            throttle_time_ms: int = ...,
            error_code: int = ...,
            error_message: str | None = ...,
            resources: list[describe_acls_response.DescribeAclsResource] = ...,
        ) -> None: ...

    ROOT: TypeAlias = DescribeAclsResponse
    CLASSES: ClassVar[dict[str, type[Message]]]

class create_acls_request:
    class AclCreation(Message):
        resource_type: int
        resource_name: str
        resource_pattern_type: int
        principal: str
        host: str
        operation: int
        permission_type: int
        def __init__(
            self,
            *,
            resource_type: int = ...,
            resource_name: str = ...,
            resource_pattern_type: int = ...,
            principal: str = ...,
            host: str = ...,
            operation: int = ...,
            permission_type: int = ...,
        ) -> None: ...

    class CreateAclsRequest(Request[create_acls_response.CreateAclsResponse]):
        creations: list[create_acls_request.AclCreation]
        def __init__(
            self,
            *,
            creations: list[create_acls_request.AclCreation] = ...,
        ) -> None: ...

    ROOT: TypeAlias = CreateAclsRequest
    CLASSES: ClassVar[dict[str, type[Message]]]

class create_acls_response:
    class AclCreationResult(Message):
        error_code: int
        error_message: str | None
        def __init__(
            self,
            *,
            error_code: int = ...,
            error_message: str | None = ...,
        ) -> None: ...

    class CreateAclsResponse(Message):
        throttle_time_ms: int
        results: list[create_acls_response.AclCreationResult]
        def __init__(
            self,
            *,
            throttle_time_ms: int = ...,
            results: list[create_acls_response.AclCreationResult] = ...,
        ) -> None: ...

    ROOT: TypeAlias = CreateAclsResponse
    CLASSES: ClassVar[dict[str, type[Message]]]

class delete_acls_request:
    class DeleteAclsFilter(Message):
        resource_type_filter: int
        resource_name_filter: str | None
        pattern_type_filter: int
        principal_filter: str | None
        host_filter: str | None
        operation: int
        permission_type: int
        def __init__(
            self,
            *,
            resource_type_filter: int = ...,
            resource_name_filter: str | None = ...,
            pattern_type_filter: int = ...,
            principal_filter: str | None = ...,
            host_filter: str | None = ...,
            operation: int = ...,
            permission_type: int = ...,
        ) -> None: ...

    class DeleteAclsRequest(Request[delete_acls_response.DeleteAclsResponse]):
        filters: list[delete_acls_request.DeleteAclsFilter]
        def __init__(
            self,
            *,
            filters: list[delete_acls_request.DeleteAclsFilter] = ...,
        ) -> None: ...

    ROOT: TypeAlias = DeleteAclsRequest
    CLASSES: ClassVar[dict[str, type[Message]]]

class delete_acls_response:
    class DeleteAclsMatchingAcl(Message):
        error_code: int
        error_message: str | None
        resource_type: int
        resource_name: str
        pattern_type: int
        principal: str
        host: str
        operation: int
        permission_type: int
        def __init__(
            self,
            *,
            error_code: int = ...,
            error_message: str | None = ...,
            resource_type: int = ...,
            resource_name: str = ...,
            pattern_type: int = ...,
            principal: str = ...,
            host: str = ...,
            operation: int = ...,
            permission_type: int = ...,
        ) -> None: ...

    class DeleteAclsFilterResult(Message):
        error_code: int
        error_message: str | None
        matching_acls: list[delete_acls_response.DeleteAclsMatchingAcl]
        def __init__(
            self,
            *,
            error_code: int = ...,
            error_message: str | None = ...,
            matching_acls: list[delete_acls_response.DeleteAclsMatchingAcl] = ...,
        ) -> None: ...

    class DeleteAclsResponse(Message):
        throttle_time_ms: int
        filter_results: list[delete_acls_response.DeleteAclsFilterResult]
        def __init__(
            self,
            *,
            throttle_time_ms: int = ...,
            filter_results: list[delete_acls_response.DeleteAclsFilterResult] = ...,
        ) -> None: ...

    ROOT: TypeAlias = DeleteAclsResponse
    CLASSES: ClassVar[dict[str, type[Message]]]

class describe_configs_request:
    class DescribeConfigsResource(Message):
        resource_type: int
        resource_name: str
        configuration_keys: list[str] | None
        def __init__(
            self,
            *,
            resource_type: int = ...,
            resource_name: str = ...,
            configuration_keys: list[str] | None = ...,
        ) -> None: ...

    class DescribeConfigsRequest(Request[describe_configs_response.DescribeConfigsResponse]):
        resources: list[describe_configs_request.DescribeConfigsResource]
        include_synonyms: bool
        include_documentation: bool
        def __init__(
            self,
            *,
            resources: list[describe_configs_request.DescribeConfigsResource] = ...,
            include_synonyms: bool = ...,
            include_documentation: bool = ...,
        ) -> None: ...

    ROOT: TypeAlias = DescribeConfigsRequest
    CLASSES: ClassVar[dict[str, type[Message]]]

class describe_configs_response:
    class DescribeConfigsSynonym(Message):
        name: str
        value: str | None
        source: int
        def __init__(
            self,
            *,
            name: str = ...,
            value: str | None = ...,
            source: int = ...,
        ) -> None: ...

    class DescribeConfigsResourceResult(Message):
        name: str
        value: str | None
        read_only: bool
        config_source: int
        is_sensitive: bool
        synonyms: list[describe_configs_response.DescribeConfigsSynonym]
        config_type: int
        documentation: str | None
        is_default: bool
        def __init__(
            self,
            *,
            name: str = ...,
            value: str | None = ...,
            read_only: bool = ...,
            config_source: int = ...,
            is_sensitive: bool = ...,
            synonyms: list[describe_configs_response.DescribeConfigsSynonym] = ...,
            config_type: int = ...,
            documentation: str | None = ...,
            is_default: bool = ...,
        ) -> None: ...

    class DescribeConfigsResult(Message):
        error_code: int
        error_message: str | None
        resource_type: int
        resource_name: str
        configs: list[describe_configs_response.DescribeConfigsResourceResult]
        def __init__(
            self,
            *,
            error_code: int = ...,
            error_message: str | None = ...,
            resource_type: int = ...,
            resource_name: str = ...,
            configs: list[describe_configs_response.DescribeConfigsResourceResult] = ...,
        ) -> None: ...

    class DescribeConfigsResponse(Message):
        throttle_time_ms: int
        results: list[describe_configs_response.DescribeConfigsResult]
        def __init__(
            self,
            *,
            throttle_time_ms: int = ...,
            results: list[describe_configs_response.DescribeConfigsResult] = ...,
        ) -> None: ...

    ROOT: TypeAlias = DescribeConfigsResponse
    CLASSES: ClassVar[dict[str, type[Message]]]

class alter_configs_request:
    class AlterableConfig(Message):
        name: str
        value: str | None
        def __init__(
            self,
            *,
            name: str = ...,
            value: str | None = ...,
        ) -> None: ...

    class AlterConfigsResource(Message):
        resource_type: int
        resource_name: str
        configs: list[alter_configs_request.AlterableConfig]
        def __init__(
            self,
            *,
            resource_type: int = ...,
            resource_name: str = ...,
            configs: list[alter_configs_request.AlterableConfig] = ...,
        ) -> None: ...

    class AlterConfigsRequest(Request[alter_configs_response.AlterConfigsResponse]):
        resources: list[alter_configs_request.AlterConfigsResource]
        validate_only: bool
        def __init__(
            self,
            *,
            resources: list[alter_configs_request.AlterConfigsResource] = ...,
            validate_only: bool = ...,
        ) -> None: ...

    ROOT: TypeAlias = AlterConfigsRequest
    CLASSES: ClassVar[dict[str, type[Message]]]

class alter_configs_response:
    class AlterConfigsResourceResponse(Message):
        error_code: int
        error_message: str | None
        resource_type: int
        resource_name: str
        def __init__(
            self,
            *,
            error_code: int = ...,
            error_message: str | None = ...,
            resource_type: int = ...,
            resource_name: str = ...,
        ) -> None: ...

    class AlterConfigsResponse(Message):
        throttle_time_ms: int
        responses: list[alter_configs_response.AlterConfigsResourceResponse]
        def __init__(
            self,
            *,
            throttle_time_ms: int = ...,
            responses: list[alter_configs_response.AlterConfigsResourceResponse] = ...,
        ) -> None: ...

    ROOT: TypeAlias = AlterConfigsResponse
    CLASSES: ClassVar[dict[str, type[Message]]]

class alter_replica_log_dirs_request:
    class AlterReplicaLogDirTopic(Message):
        name: str
        partitions: list[int]
        def __init__(
            self,
            *,
            name: str = ...,
            partitions: list[int] = ...,
        ) -> None: ...

    class AlterReplicaLogDir(Message):
        path: str
        topics: list[alter_replica_log_dirs_request.AlterReplicaLogDirTopic]
        def __init__(
            self,
            *,
            path: str = ...,
            topics: list[alter_replica_log_dirs_request.AlterReplicaLogDirTopic] = ...,
        ) -> None: ...

    class AlterReplicaLogDirsRequest(Request[alter_replica_log_dirs_response.AlterReplicaLogDirsResponse]):
        dirs: list[alter_replica_log_dirs_request.AlterReplicaLogDir]
        def __init__(
            self,
            *,
            dirs: list[alter_replica_log_dirs_request.AlterReplicaLogDir] = ...,
        ) -> None: ...

    ROOT: TypeAlias = AlterReplicaLogDirsRequest
    CLASSES: ClassVar[dict[str, type[Message]]]

class alter_replica_log_dirs_response:
    class AlterReplicaLogDirPartitionResult(Message):
        partition_index: int
        error_code: int
        def __init__(
            self,
            *,
            partition_index: int = ...,
            error_code: int = ...,
        ) -> None: ...

    class AlterReplicaLogDirTopicResult(Message):
        topic_name: str
        partitions: list[alter_replica_log_dirs_response.AlterReplicaLogDirPartitionResult]
        def __init__(
            self,
            *,
            topic_name: str = ...,
            partitions: list[alter_replica_log_dirs_response.AlterReplicaLogDirPartitionResult] = ...,
        ) -> None: ...

    class AlterReplicaLogDirsResponse(Message):
        throttle_time_ms: int
        results: list[alter_replica_log_dirs_response.AlterReplicaLogDirTopicResult]
        def __init__(
            self,
            *,
            throttle_time_ms: int = ...,
            results: list[alter_replica_log_dirs_response.AlterReplicaLogDirTopicResult] = ...,
        ) -> None: ...

    ROOT: TypeAlias = AlterReplicaLogDirsResponse
    CLASSES: ClassVar[dict[str, type[Message]]]

class describe_log_dirs_request:
    class DescribableLogDirTopic(Message):
        topic: str
        partitions: list[int]
        def __init__(
            self,
            *,
            topic: str = ...,
            partitions: list[int] = ...,
        ) -> None: ...

    class DescribeLogDirsRequest(Request[describe_log_dirs_response.DescribeLogDirsResponse]):
        topics: list[describe_log_dirs_request.DescribableLogDirTopic] | None
        def __init__(
            self,
            *,
            topics: list[describe_log_dirs_request.DescribableLogDirTopic] | None = ...,
        ) -> None: ...

    ROOT: TypeAlias = DescribeLogDirsRequest
    CLASSES: ClassVar[dict[str, type[Message]]]

class describe_log_dirs_response:
    class DescribeLogDirsPartition(Message):
        partition_index: int
        partition_size: int
        offset_lag: int
        is_future_key: bool
        def __init__(
            self,
            *,
            partition_index: int = ...,
            partition_size: int = ...,
            offset_lag: int = ...,
            is_future_key: bool = ...,
        ) -> None: ...

    class DescribeLogDirsTopic(Message):
        name: str
        partitions: list[describe_log_dirs_response.DescribeLogDirsPartition]
        def __init__(
            self,
            *,
            name: str = ...,
            partitions: list[describe_log_dirs_response.DescribeLogDirsPartition] = ...,
        ) -> None: ...

    class DescribeLogDirsResult(Message):
        error_code: int
        log_dir: str
        topics: list[describe_log_dirs_response.DescribeLogDirsTopic]
        total_bytes: int
        usable_bytes: int
        def __init__(
            self,
            *,
            error_code: int = ...,
            log_dir: str = ...,
            topics: list[describe_log_dirs_response.DescribeLogDirsTopic] = ...,
            total_bytes: int = ...,
            usable_bytes: int = ...,
        ) -> None: ...

    class DescribeLogDirsResponse(Message):
        throttle_time_ms: int
        error_code: int
        results: list[describe_log_dirs_response.DescribeLogDirsResult]
        def __init__(
            self,
            *,
            throttle_time_ms: int = ...,
            error_code: int = ...,
            results: list[describe_log_dirs_response.DescribeLogDirsResult] = ...,
        ) -> None: ...

    ROOT: TypeAlias = DescribeLogDirsResponse
    CLASSES: ClassVar[dict[str, type[Message]]]

class sasl_authenticate_request:
    class SaslAuthenticateRequest(Request[sasl_authenticate_response.SaslAuthenticateResponse]):
        auth_bytes: bytes
        def __init__(
            self,
            *,
            auth_bytes: bytes = ...,
        ) -> None: ...

    ROOT: TypeAlias = SaslAuthenticateRequest
    CLASSES: ClassVar[dict[str, type[Message]]]

class sasl_authenticate_response:
    class SaslAuthenticateResponse(Message):
        error_code: int
        error_message: str | None
        auth_bytes: bytes
        session_lifetime_ms: int
        def __init__(
            self,
            *,
            error_code: int = ...,
            error_message: str | None = ...,
            auth_bytes: bytes = ...,
            session_lifetime_ms: int = ...,
        ) -> None: ...

    ROOT: TypeAlias = SaslAuthenticateResponse
    CLASSES: ClassVar[dict[str, type[Message]]]

class create_partitions_request:
    class CreatePartitionsAssignment(Message):
        broker_ids: list[int]
        def __init__(
            self,
            *,
            broker_ids: list[int] = ...,
        ) -> None: ...

    class CreatePartitionsTopic(Message):
        name: str
        count: int
        assignments: list[create_partitions_request.CreatePartitionsAssignment] | None
        def __init__(
            self,
            *,
            name: str = ...,
            count: int = ...,
            assignments: list[create_partitions_request.CreatePartitionsAssignment] | None = ...,
        ) -> None: ...

    class CreatePartitionsRequest(Request[create_partitions_response.CreatePartitionsResponse]):
        topics: list[create_partitions_request.CreatePartitionsTopic]
        timeout_ms: int
        validate_only: bool
        def __init__(
            self,
            *,
            topics: list[create_partitions_request.CreatePartitionsTopic] = ...,
            timeout_ms: int = ...,
            validate_only: bool = ...,
        ) -> None: ...

    ROOT: TypeAlias = CreatePartitionsRequest
    CLASSES: ClassVar[dict[str, type[Message]]]

class create_partitions_response:
    class CreatePartitionsTopicResult(Message):
        name: str
        error_code: int
        error_message: str | None
        def __init__(
            self,
            *,
            name: str = ...,
            error_code: int = ...,
            error_message: str | None = ...,
        ) -> None: ...

    class CreatePartitionsResponse(Message):
        throttle_time_ms: int
        results: list[create_partitions_response.CreatePartitionsTopicResult]
        def __init__(
            self,
            *,
            throttle_time_ms: int = ...,
            results: list[create_partitions_response.CreatePartitionsTopicResult] = ...,
        ) -> None: ...

    ROOT: TypeAlias = CreatePartitionsResponse
    CLASSES: ClassVar[dict[str, type[Message]]]

class create_delegation_token_request:
    class CreatableRenewers(Message):
        principal_type: str
        principal_name: str
        def __init__(
            self,
            *,
            principal_type: str = ...,
            principal_name: str = ...,
        ) -> None: ...

    class CreateDelegationTokenRequest(Request[create_delegation_token_response.CreateDelegationTokenResponse]):
        owner_principal_type: str | None
        owner_principal_name: str | None
        renewers: list[create_delegation_token_request.CreatableRenewers]
        max_lifetime_ms: int
        def __init__(
            self,
            *,
            owner_principal_type: str | None = ...,
            owner_principal_name: str | None = ...,
            renewers: list[create_delegation_token_request.CreatableRenewers] = ...,
            max_lifetime_ms: int = ...,
        ) -> None: ...

    ROOT: TypeAlias = CreateDelegationTokenRequest
    CLASSES: ClassVar[dict[str, type[Message]]]

class create_delegation_token_response:
    class CreateDelegationTokenResponse(Message):
        error_code: int
        principal_type: str
        principal_name: str
        token_requester_principal_type: str
        token_requester_principal_name: str
        issue_timestamp_ms: int
        expiry_timestamp_ms: int
        max_timestamp_ms: int
        token_id: str
        hmac: bytes
        throttle_time_ms: int
        def __init__(
            self,
            *,
            error_code: int = ...,
            principal_type: str = ...,
            principal_name: str = ...,
            token_requester_principal_type: str = ...,
            token_requester_principal_name: str = ...,
            issue_timestamp_ms: int = ...,
            expiry_timestamp_ms: int = ...,
            max_timestamp_ms: int = ...,
            token_id: str = ...,
            hmac: bytes = ...,
            throttle_time_ms: int = ...,
        ) -> None: ...

    ROOT: TypeAlias = CreateDelegationTokenResponse
    CLASSES: ClassVar[dict[str, type[Message]]]

class renew_delegation_token_request:
    class RenewDelegationTokenRequest(Request[renew_delegation_token_response.RenewDelegationTokenResponse]):
        hmac: bytes
        renew_period_ms: int
        def __init__(
            self,
            *,
            hmac: bytes = ...,
            renew_period_ms: int = ...,
        ) -> None: ...

    ROOT: TypeAlias = RenewDelegationTokenRequest
    CLASSES: ClassVar[dict[str, type[Message]]]

class renew_delegation_token_response:
    class RenewDelegationTokenResponse(Message):
        error_code: int
        expiry_timestamp_ms: int
        throttle_time_ms: int
        def __init__(
            self,
            *,
            error_code: int = ...,
            expiry_timestamp_ms: int = ...,
            throttle_time_ms: int = ...,
        ) -> None: ...

    ROOT: TypeAlias = RenewDelegationTokenResponse
    CLASSES: ClassVar[dict[str, type[Message]]]

class expire_delegation_token_request:
    class ExpireDelegationTokenRequest(Request[expire_delegation_token_response.ExpireDelegationTokenResponse]):
        hmac: bytes
        expiry_time_period_ms: int
        def __init__(
            self,
            *,
            hmac: bytes = ...,
            expiry_time_period_ms: int = ...,
        ) -> None: ...

    ROOT: TypeAlias = ExpireDelegationTokenRequest
    CLASSES: ClassVar[dict[str, type[Message]]]

class expire_delegation_token_response:
    class ExpireDelegationTokenResponse(Message):
        error_code: int
        expiry_timestamp_ms: int
        throttle_time_ms: int
        def __init__(
            self,
            *,
            error_code: int = ...,
            expiry_timestamp_ms: int = ...,
            throttle_time_ms: int = ...,
        ) -> None: ...

    ROOT: TypeAlias = ExpireDelegationTokenResponse
    CLASSES: ClassVar[dict[str, type[Message]]]

class describe_delegation_token_request:
    class DescribeDelegationTokenOwner(Message):
        principal_type: str
        principal_name: str
        def __init__(
            self,
            *,
            principal_type: str = ...,
            principal_name: str = ...,
        ) -> None: ...

    class DescribeDelegationTokenRequest(Request[describe_delegation_token_response.DescribeDelegationTokenResponse]):
        owners: list[describe_delegation_token_request.DescribeDelegationTokenOwner] | None
        def __init__(
            self,
            *,
            owners: list[describe_delegation_token_request.DescribeDelegationTokenOwner] | None = ...,
        ) -> None: ...

    ROOT: TypeAlias = DescribeDelegationTokenRequest
    CLASSES: ClassVar[dict[str, type[Message]]]

class describe_delegation_token_response:
    class DescribedDelegationTokenRenewer(Message):
        principal_type: str
        principal_name: str
        def __init__(
            self,
            *,
            principal_type: str = ...,
            principal_name: str = ...,
        ) -> None: ...

    class DescribedDelegationToken(Message):
        principal_type: str
        principal_name: str
        token_requester_principal_type: str
        token_requester_principal_name: str
        issue_timestamp: int
        expiry_timestamp: int
        max_timestamp: int
        token_id: str
        hmac: bytes
        renewers: list[describe_delegation_token_response.DescribedDelegationTokenRenewer]
        def __init__(
            self,
            *,
            principal_type: str = ...,
            principal_name: str = ...,
            token_requester_principal_type: str = ...,
            token_requester_principal_name: str = ...,
            issue_timestamp: int = ...,
            expiry_timestamp: int = ...,
            max_timestamp: int = ...,
            token_id: str = ...,
            hmac: bytes = ...,
            renewers: list[describe_delegation_token_response.DescribedDelegationTokenRenewer] = ...,
        ) -> None: ...

    class DescribeDelegationTokenResponse(Message):
        error_code: int
        tokens: list[describe_delegation_token_response.DescribedDelegationToken]
        throttle_time_ms: int
        def __init__(
            self,
            *,
            error_code: int = ...,
            tokens: list[describe_delegation_token_response.DescribedDelegationToken] = ...,
            throttle_time_ms: int = ...,
        ) -> None: ...

    ROOT: TypeAlias = DescribeDelegationTokenResponse
    CLASSES: ClassVar[dict[str, type[Message]]]

class delete_groups_request:
    class DeleteGroupsRequest(Request[delete_groups_response.DeleteGroupsResponse]):
        groups_names: list[str]
        def __init__(
            self,
            *,
            groups_names: list[str] = ...,
        ) -> None: ...

    ROOT: TypeAlias = DeleteGroupsRequest
    CLASSES: ClassVar[dict[str, type[Message]]]

class delete_groups_response:
    class DeletableGroupResult(Message):
        group_id: str
        error_code: int
        def __init__(
            self,
            *,
            group_id: str = ...,
            error_code: int = ...,
        ) -> None: ...

    class DeleteGroupsResponse(Message):
        throttle_time_ms: int
        results: list[delete_groups_response.DeletableGroupResult]
        def __init__(
            self,
            *,
            throttle_time_ms: int = ...,
            results: list[delete_groups_response.DeletableGroupResult] = ...,
        ) -> None: ...

    ROOT: TypeAlias = DeleteGroupsResponse
    CLASSES: ClassVar[dict[str, type[Message]]]

class elect_leaders_request:
    class TopicPartitions(Message):
        topic: str
        partitions: list[int]
        def __init__(
            self,
            *,
            topic: str = ...,
            partitions: list[int] = ...,
        ) -> None: ...

    class ElectLeadersRequest(Request[elect_leaders_response.ElectLeadersResponse]):
        election_type: int
        topic_partitions: list[elect_leaders_request.TopicPartitions] | None
        timeout_ms: int
        def __init__(
            self,
            *,
            election_type: int = ...,
            topic_partitions: list[elect_leaders_request.TopicPartitions] | None = ...,
            timeout_ms: int = ...,
        ) -> None: ...

    ROOT: TypeAlias = ElectLeadersRequest
    CLASSES: ClassVar[dict[str, type[Message]]]

class elect_leaders_response:
    class PartitionResult(Message):
        partition_id: int
        error_code: int
        error_message: str | None
        def __init__(
            self,
            *,
            partition_id: int = ...,
            error_code: int = ...,
            error_message: str | None = ...,
        ) -> None: ...

    class ReplicaElectionResult(Message):
        topic: str
        partition_result: list[elect_leaders_response.PartitionResult]
        def __init__(
            self,
            *,
            topic: str = ...,
            partition_result: list[elect_leaders_response.PartitionResult] = ...,
        ) -> None: ...

    class ElectLeadersResponse(Message):
        throttle_time_ms: int
        error_code: int
        replica_election_results: list[elect_leaders_response.ReplicaElectionResult]
        def __init__(
            self,
            *,
            throttle_time_ms: int = ...,
            error_code: int = ...,
            replica_election_results: list[elect_leaders_response.ReplicaElectionResult] = ...,
        ) -> None: ...

    ROOT: TypeAlias = ElectLeadersResponse
    CLASSES: ClassVar[dict[str, type[Message]]]

class incremental_alter_configs_request:
    class AlterableConfig(Message):
        name: str
        config_operation: int
        value: str | None
        def __init__(
            self,
            *,
            name: str = ...,
            config_operation: int = ...,
            value: str | None = ...,
        ) -> None: ...

    class AlterConfigsResource(Message):
        resource_type: int
        resource_name: str
        configs: list[incremental_alter_configs_request.AlterableConfig]
        def __init__(
            self,
            *,
            resource_type: int = ...,
            resource_name: str = ...,
            configs: list[incremental_alter_configs_request.AlterableConfig] = ...,
        ) -> None: ...

    class IncrementalAlterConfigsRequest(Request[incremental_alter_configs_response.IncrementalAlterConfigsResponse]):
        resources: list[incremental_alter_configs_request.AlterConfigsResource]
        validate_only: bool
        def __init__(
            self,
            *,
            resources: list[incremental_alter_configs_request.AlterConfigsResource] = ...,
            validate_only: bool = ...,
        ) -> None: ...

    ROOT: TypeAlias = IncrementalAlterConfigsRequest
    CLASSES: ClassVar[dict[str, type[Message]]]

class incremental_alter_configs_response:
    class AlterConfigsResourceResponse(Message):
        error_code: int
        error_message: str | None
        resource_type: int
        resource_name: str
        def __init__(
            self,
            *,
            error_code: int = ...,
            error_message: str | None = ...,
            resource_type: int = ...,
            resource_name: str = ...,
        ) -> None: ...

    class IncrementalAlterConfigsResponse(Message):
        throttle_time_ms: int
        responses: list[incremental_alter_configs_response.AlterConfigsResourceResponse]
        def __init__(
            self,
            *,
            throttle_time_ms: int = ...,
            responses: list[incremental_alter_configs_response.AlterConfigsResourceResponse] = ...,
        ) -> None: ...

    ROOT: TypeAlias = IncrementalAlterConfigsResponse
    CLASSES: ClassVar[dict[str, type[Message]]]

class alter_partition_reassignments_request:
    class ReassignablePartition(Message):
        partition_index: int
        replicas: list[int] | None
        def __init__(
            self,
            *,
            partition_index: int = ...,
            replicas: list[int] | None = ...,
        ) -> None: ...

    class ReassignableTopic(Message):
        name: str
        partitions: list[alter_partition_reassignments_request.ReassignablePartition]
        def __init__(
            self,
            *,
            name: str = ...,
            partitions: list[alter_partition_reassignments_request.ReassignablePartition] = ...,
        ) -> None: ...

    class AlterPartitionReassignmentsRequest(
        Request[alter_partition_reassignments_response.AlterPartitionReassignmentsResponse]
    ):
        timeout_ms: int
        topics: list[alter_partition_reassignments_request.ReassignableTopic]
        def __init__(
            self,
            *,
            timeout_ms: int = ...,
            topics: list[alter_partition_reassignments_request.ReassignableTopic] = ...,
        ) -> None: ...

    ROOT: TypeAlias = AlterPartitionReassignmentsRequest
    CLASSES: ClassVar[dict[str, type[Message]]]

class alter_partition_reassignments_response:
    class ReassignablePartitionResponse(Message):
        partition_index: int
        error_code: int
        error_message: str | None
        def __init__(
            self,
            *,
            partition_index: int = ...,
            error_code: int = ...,
            error_message: str | None = ...,
        ) -> None: ...

    class ReassignableTopicResponse(Message):
        name: str
        partitions: list[alter_partition_reassignments_response.ReassignablePartitionResponse]
        def __init__(
            self,
            *,
            name: str = ...,
            partitions: list[alter_partition_reassignments_response.ReassignablePartitionResponse] = ...,
        ) -> None: ...

    class AlterPartitionReassignmentsResponse(Message):
        throttle_time_ms: int
        error_code: int
        error_message: str | None
        responses: list[alter_partition_reassignments_response.ReassignableTopicResponse]
        def __init__(
            self,
            *,
            throttle_time_ms: int = ...,
            error_code: int = ...,
            error_message: str | None = ...,
            responses: list[alter_partition_reassignments_response.ReassignableTopicResponse] = ...,
        ) -> None: ...

    ROOT: TypeAlias = AlterPartitionReassignmentsResponse
    CLASSES: ClassVar[dict[str, type[Message]]]

class list_partition_reassignments_request:
    class ListPartitionReassignmentsTopics(Message):
        name: str
        partition_indexes: list[int]
        def __init__(
            self,
            *,
            name: str = ...,
            partition_indexes: list[int] = ...,
        ) -> None: ...

    class ListPartitionReassignmentsRequest(
        Request[list_partition_reassignments_response.ListPartitionReassignmentsResponse]
    ):
        timeout_ms: int
        topics: list[list_partition_reassignments_request.ListPartitionReassignmentsTopics] | None
        def __init__(
            self,
            *,
            timeout_ms: int = ...,
            topics: list[list_partition_reassignments_request.ListPartitionReassignmentsTopics] | None = ...,
        ) -> None: ...

    ROOT: TypeAlias = ListPartitionReassignmentsRequest
    CLASSES: ClassVar[dict[str, type[Message]]]

class list_partition_reassignments_response:
    class OngoingPartitionReassignment(Message):
        partition_index: int
        replicas: list[int]
        adding_replicas: list[int]
        removing_replicas: list[int]
        def __init__(
            self,
            *,
            partition_index: int = ...,
            replicas: list[int] = ...,
            adding_replicas: list[int] = ...,
            removing_replicas: list[int] = ...,
        ) -> None: ...

    class OngoingTopicReassignment(Message):
        name: str
        partitions: list[list_partition_reassignments_response.OngoingPartitionReassignment]
        def __init__(
            self,
            *,
            name: str = ...,
            partitions: list[list_partition_reassignments_response.OngoingPartitionReassignment] = ...,
        ) -> None: ...

    class ListPartitionReassignmentsResponse(Message):
        throttle_time_ms: int
        error_code: int
        error_message: str | None
        topics: list[list_partition_reassignments_response.OngoingTopicReassignment]
        def __init__(
            self,
            *,
            throttle_time_ms: int = ...,
            error_code: int = ...,
            error_message: str | None = ...,
            topics: list[list_partition_reassignments_response.OngoingTopicReassignment] = ...,
        ) -> None: ...

    ROOT: TypeAlias = ListPartitionReassignmentsResponse
    CLASSES: ClassVar[dict[str, type[Message]]]

class offset_delete_request:
    class OffsetDeleteRequestPartition(Message):
        partition_index: int
        def __init__(
            self,
            *,
            partition_index: int = ...,
        ) -> None: ...

    class OffsetDeleteRequestTopic(Message):
        name: str
        partitions: list[offset_delete_request.OffsetDeleteRequestPartition]
        def __init__(
            self,
            *,
            name: str = ...,
            partitions: list[offset_delete_request.OffsetDeleteRequestPartition] = ...,
        ) -> None: ...

    class OffsetDeleteRequest(Request[offset_delete_response.OffsetDeleteResponse]):
        group_id: str
        topics: list[offset_delete_request.OffsetDeleteRequestTopic]
        def __init__(
            self,
            *,
            group_id: str = ...,
            topics: list[offset_delete_request.OffsetDeleteRequestTopic] = ...,
        ) -> None: ...

    ROOT: TypeAlias = OffsetDeleteRequest
    CLASSES: ClassVar[dict[str, type[Message]]]

class offset_delete_response:
    class OffsetDeleteResponsePartition(Message):
        partition_index: int
        error_code: int
        def __init__(
            self,
            *,
            partition_index: int = ...,
            error_code: int = ...,
        ) -> None: ...

    class OffsetDeleteResponseTopic(Message):
        name: str
        partitions: list[offset_delete_response.OffsetDeleteResponsePartition]
        def __init__(
            self,
            *,
            name: str = ...,
            partitions: list[offset_delete_response.OffsetDeleteResponsePartition] = ...,
        ) -> None: ...

    class OffsetDeleteResponse(Message):
        error_code: int
        throttle_time_ms: int
        topics: list[offset_delete_response.OffsetDeleteResponseTopic]
        def __init__(
            self,
            *,
            error_code: int = ...,
            throttle_time_ms: int = ...,
            topics: list[offset_delete_response.OffsetDeleteResponseTopic] = ...,
        ) -> None: ...

    ROOT: TypeAlias = OffsetDeleteResponse
    CLASSES: ClassVar[dict[str, type[Message]]]

class describe_client_quotas_request:
    class ComponentData(Message):
        entity_type: str
        match_type: int
        match: str | None
        def __init__(
            self,
            *,
            entity_type: str = ...,
            match_type: int = ...,
            match: str | None = ...,
        ) -> None: ...

    class DescribeClientQuotasRequest(Request[describe_client_quotas_response.DescribeClientQuotasResponse]):
        components: list[describe_client_quotas_request.ComponentData]
        strict: bool
        def __init__(
            self,
            *,
            components: list[describe_client_quotas_request.ComponentData] = ...,
            strict: bool = ...,
        ) -> None: ...

    ROOT: TypeAlias = DescribeClientQuotasRequest
    CLASSES: ClassVar[dict[str, type[Message]]]

class describe_client_quotas_response:
    class EntityData(Message):
        entity_type: str
        entity_name: str | None
        def __init__(
            self,
            *,
            entity_type: str = ...,
            entity_name: str | None = ...,
        ) -> None: ...

    class ValueData(Message):
        key: str
        value: float
        def __init__(
            self,
            *,
            key: str = ...,
            value: float = ...,
        ) -> None: ...

    class EntryData(Message):
        entity: list[describe_client_quotas_response.EntityData]
        values: list[describe_client_quotas_response.ValueData]
        def __init__(
            self,
            *,
            entity: list[describe_client_quotas_response.EntityData] = ...,
            values: list[describe_client_quotas_response.ValueData] = ...,
        ) -> None: ...

    class DescribeClientQuotasResponse(Message):
        throttle_time_ms: int
        error_code: int
        error_message: str | None
        entries: list[describe_client_quotas_response.EntryData] | None
        def __init__(
            self,
            *,
            throttle_time_ms: int = ...,
            error_code: int = ...,
            error_message: str | None = ...,
            entries: list[describe_client_quotas_response.EntryData] | None = ...,
        ) -> None: ...

    ROOT: TypeAlias = DescribeClientQuotasResponse
    CLASSES: ClassVar[dict[str, type[Message]]]

class alter_client_quotas_request:
    class EntityData(Message):
        entity_type: str
        entity_name: str | None
        def __init__(
            self,
            *,
            entity_type: str = ...,
            entity_name: str | None = ...,
        ) -> None: ...

    class OpData(Message):
        key: str
        value: float
        remove: bool
        def __init__(
            self,
            *,
            key: str = ...,
            value: float = ...,
            remove: bool = ...,
        ) -> None: ...

    class EntryData(Message):
        entity: list[alter_client_quotas_request.EntityData]
        ops: list[alter_client_quotas_request.OpData]
        def __init__(
            self,
            *,
            entity: list[alter_client_quotas_request.EntityData] = ...,
            ops: list[alter_client_quotas_request.OpData] = ...,
        ) -> None: ...

    class AlterClientQuotasRequest(Request[alter_client_quotas_response.AlterClientQuotasResponse]):
        entries: list[alter_client_quotas_request.EntryData]
        validate_only: bool
        def __init__(
            self,
            *,
            entries: list[alter_client_quotas_request.EntryData] = ...,
            validate_only: bool = ...,
        ) -> None: ...

    ROOT: TypeAlias = AlterClientQuotasRequest
    CLASSES: ClassVar[dict[str, type[Message]]]

class alter_client_quotas_response:
    class EntityData(Message):
        entity_type: str
        entity_name: str | None
        def __init__(
            self,
            *,
            entity_type: str = ...,
            entity_name: str | None = ...,
        ) -> None: ...

    class EntryData(Message):
        error_code: int
        error_message: str | None
        entity: list[alter_client_quotas_response.EntityData]
        def __init__(
            self,
            *,
            error_code: int = ...,
            error_message: str | None = ...,
            entity: list[alter_client_quotas_response.EntityData] = ...,
        ) -> None: ...

    class AlterClientQuotasResponse(Message):
        throttle_time_ms: int
        entries: list[alter_client_quotas_response.EntryData]
        def __init__(
            self,
            *,
            throttle_time_ms: int = ...,
            entries: list[alter_client_quotas_response.EntryData] = ...,
        ) -> None: ...

    ROOT: TypeAlias = AlterClientQuotasResponse
    CLASSES: ClassVar[dict[str, type[Message]]]

class describe_user_scram_credentials_request:
    class UserName(Message):
        name: str
        def __init__(
            self,
            *,
            name: str = ...,
        ) -> None: ...

    class DescribeUserScramCredentialsRequest(
        Request[describe_user_scram_credentials_response.DescribeUserScramCredentialsResponse]
    ):
        users: list[describe_user_scram_credentials_request.UserName] | None
        def __init__(
            self,
            *,
            users: list[describe_user_scram_credentials_request.UserName] | None = ...,
        ) -> None: ...

    ROOT: TypeAlias = DescribeUserScramCredentialsRequest
    CLASSES: ClassVar[dict[str, type[Message]]]

class describe_user_scram_credentials_response:
    class CredentialInfo(Message):
        mechanism: int
        iterations: int
        def __init__(
            self,
            *,
            mechanism: int = ...,
            iterations: int = ...,
        ) -> None: ...

    class DescribeUserScramCredentialsResult(Message):
        user: str
        error_code: int
        error_message: str | None
        credential_infos: list[describe_user_scram_credentials_response.CredentialInfo]
        def __init__(
            self,
            *,
            user: str = ...,
            error_code: int = ...,
            error_message: str | None = ...,
            credential_infos: list[describe_user_scram_credentials_response.CredentialInfo] = ...,
        ) -> None: ...

    class DescribeUserScramCredentialsResponse(Message):
        throttle_time_ms: int
        error_code: int
        error_message: str | None
        results: list[describe_user_scram_credentials_response.DescribeUserScramCredentialsResult]
        def __init__(
            self,
            *,
            throttle_time_ms: int = ...,
            error_code: int = ...,
            error_message: str | None = ...,
            results: list[describe_user_scram_credentials_response.DescribeUserScramCredentialsResult] = ...,
        ) -> None: ...

    ROOT: TypeAlias = DescribeUserScramCredentialsResponse
    CLASSES: ClassVar[dict[str, type[Message]]]

class alter_user_scram_credentials_request:
    class ScramCredentialDeletion(Message):
        name: str
        mechanism: int
        def __init__(
            self,
            *,
            name: str = ...,
            mechanism: int = ...,
        ) -> None: ...

    class ScramCredentialUpsertion(Message):
        name: str
        mechanism: int
        iterations: int
        salt: bytes
        salted_password: bytes
        def __init__(
            self,
            *,
            name: str = ...,
            mechanism: int = ...,
            iterations: int = ...,
            salt: bytes = ...,
            salted_password: bytes = ...,
        ) -> None: ...

    class AlterUserScramCredentialsRequest(
        Request[alter_user_scram_credentials_response.AlterUserScramCredentialsResponse]
    ):
        deletions: list[alter_user_scram_credentials_request.ScramCredentialDeletion]
        upsertions: list[alter_user_scram_credentials_request.ScramCredentialUpsertion]
        def __init__(
            self,
            *,
            deletions: list[alter_user_scram_credentials_request.ScramCredentialDeletion] = ...,
            upsertions: list[alter_user_scram_credentials_request.ScramCredentialUpsertion] = ...,
        ) -> None: ...

    ROOT: TypeAlias = AlterUserScramCredentialsRequest
    CLASSES: ClassVar[dict[str, type[Message]]]

class alter_user_scram_credentials_response:
    class AlterUserScramCredentialsResult(Message):
        user: str
        error_code: int
        error_message: str | None
        def __init__(
            self,
            *,
            user: str = ...,
            error_code: int = ...,
            error_message: str | None = ...,
        ) -> None: ...

    class AlterUserScramCredentialsResponse(Message):
        throttle_time_ms: int
        results: list[alter_user_scram_credentials_response.AlterUserScramCredentialsResult]
        def __init__(
            self,
            *,
            throttle_time_ms: int = ...,
            results: list[alter_user_scram_credentials_response.AlterUserScramCredentialsResult] = ...,
        ) -> None: ...

    ROOT: TypeAlias = AlterUserScramCredentialsResponse
    CLASSES: ClassVar[dict[str, type[Message]]]

class alter_partition_request:
    class BrokerState(Message):
        broker_id: int
        broker_epoch: int
        def __init__(
            self,
            *,
            broker_id: int = ...,
            broker_epoch: int = ...,
        ) -> None: ...

    class PartitionData(Message):
        partition_index: int
        leader_epoch: int
        new_isr_with_epochs: list[alter_partition_request.BrokerState]
        leader_recovery_state: int
        partition_epoch: int
        new_isr: list[int]
        def __init__(
            self,
            *,
            partition_index: int = ...,
            leader_epoch: int = ...,
            new_isr_with_epochs: list[alter_partition_request.BrokerState] = ...,
            leader_recovery_state: int = ...,
            partition_epoch: int = ...,
            new_isr: list[int] = ...,
        ) -> None: ...

    class TopicData(Message):
        topic_id: bytes
        partitions: list[alter_partition_request.PartitionData]
        topic_name: str
        def __init__(
            self,
            *,
            topic_id: bytes = ...,
            partitions: list[alter_partition_request.PartitionData] = ...,
            topic_name: str = ...,
        ) -> None: ...

    class AlterPartitionRequest(Request[alter_partition_response.AlterPartitionResponse]):
        broker_id: int
        broker_epoch: int
        topics: list[alter_partition_request.TopicData]
        def __init__(
            self,
            *,
            broker_id: int = ...,
            broker_epoch: int = ...,
            topics: list[alter_partition_request.TopicData] = ...,
        ) -> None: ...

    ROOT: TypeAlias = AlterPartitionRequest
    CLASSES: ClassVar[dict[str, type[Message]]]

class alter_partition_response:
    class PartitionData(Message):
        partition_index: int
        error_code: int
        leader_id: int
        leader_epoch: int
        isr: list[int]
        leader_recovery_state: int
        partition_epoch: int
        def __init__(
            self,
            *,
            partition_index: int = ...,
            error_code: int = ...,
            leader_id: int = ...,
            leader_epoch: int = ...,
            isr: list[int] = ...,
            leader_recovery_state: int = ...,
            partition_epoch: int = ...,
        ) -> None: ...

    class TopicData(Message):
        topic_id: bytes
        partitions: list[alter_partition_response.PartitionData]
        topic_name: str
        def __init__(
            self,
            *,
            topic_id: bytes = ...,
            partitions: list[alter_partition_response.PartitionData] = ...,
            topic_name: str = ...,
        ) -> None: ...

    class AlterPartitionResponse(Message):
        throttle_time_ms: int
        error_code: int
        topics: list[alter_partition_response.TopicData]
        def __init__(
            self,
            *,
            throttle_time_ms: int = ...,
            error_code: int = ...,
            topics: list[alter_partition_response.TopicData] = ...,
        ) -> None: ...

    ROOT: TypeAlias = AlterPartitionResponse
    CLASSES: ClassVar[dict[str, type[Message]]]

class update_features_request:
    class FeatureUpdateKey(Message):
        feature: str
        max_version_level: int
        upgrade_type: int
        allow_downgrade: bool
        def __init__(
            self,
            *,
            feature: str = ...,
            max_version_level: int = ...,
            upgrade_type: int = ...,
            allow_downgrade: bool = ...,
        ) -> None: ...

    class UpdateFeaturesRequest(Request[update_features_response.UpdateFeaturesResponse]):
        timeout_ms: int
        feature_updates: list[update_features_request.FeatureUpdateKey]
        validate_only: bool
        def __init__(
            self,
            *,
            timeout_ms: int = ...,
            feature_updates: list[update_features_request.FeatureUpdateKey] = ...,
            validate_only: bool = ...,
        ) -> None: ...

    ROOT: TypeAlias = UpdateFeaturesRequest
    CLASSES: ClassVar[dict[str, type[Message]]]

class update_features_response:
    class UpdatableFeatureResult(Message):
        feature: str
        error_code: int
        error_message: str | None
        def __init__(
            self,
            *,
            feature: str = ...,
            error_code: int = ...,
            error_message: str | None = ...,
        ) -> None: ...

    class UpdateFeaturesResponse(Message):
        throttle_time_ms: int
        error_code: int
        error_message: str | None
        results: list[update_features_response.UpdatableFeatureResult]
        def __init__(
            self,
            *,
            throttle_time_ms: int = ...,
            error_code: int = ...,
            error_message: str | None = ...,
            results: list[update_features_response.UpdatableFeatureResult] = ...,
        ) -> None: ...

    ROOT: TypeAlias = UpdateFeaturesResponse
    CLASSES: ClassVar[dict[str, type[Message]]]

class envelope_request:
    class EnvelopeRequest(Request[envelope_response.EnvelopeResponse]):
        request_data: bytes
        request_principal: bytes | None
        client_host_address: bytes
        def __init__(
            self,
            *,
            request_data: bytes = ...,
            request_principal: bytes | None = ...,
            client_host_address: bytes = ...,
        ) -> None: ...

    ROOT: TypeAlias = EnvelopeRequest
    CLASSES: ClassVar[dict[str, type[Message]]]

class envelope_response:
    class EnvelopeResponse(Message):
        response_data: bytes | None
        error_code: int
        def __init__(
            self,
            *,
            response_data: bytes | None = ...,
            error_code: int = ...,
        ) -> None: ...

    ROOT: TypeAlias = EnvelopeResponse
    CLASSES: ClassVar[dict[str, type[Message]]]

class describe_cluster_request:
    class DescribeClusterRequest(Request[describe_cluster_response.DescribeClusterResponse]):
        include_cluster_authorized_operations: bool
        endpoint_type: int
        def __init__(
            self,
            *,
            include_cluster_authorized_operations: bool = ...,
            endpoint_type: int = ...,
        ) -> None: ...

    ROOT: TypeAlias = DescribeClusterRequest
    CLASSES: ClassVar[dict[str, type[Message]]]

class describe_cluster_response:
    class DescribeClusterBroker(Message):
        broker_id: int
        host: str
        port: int
        rack: str | None
        def __init__(
            self,
            *,
            broker_id: int = ...,
            host: str = ...,
            port: int = ...,
            rack: str | None = ...,
        ) -> None: ...

    class DescribeClusterResponse(Message):
        throttle_time_ms: int
        error_code: int
        error_message: str | None
        endpoint_type: int
        cluster_id: str
        controller_id: int
        brokers: list[describe_cluster_response.DescribeClusterBroker]
        cluster_authorized_operations: int
        def __init__(
            self,
            *,
            throttle_time_ms: int = ...,
            error_code: int = ...,
            error_message: str | None = ...,
            endpoint_type: int = ...,
            cluster_id: str = ...,
            controller_id: int = ...,
            brokers: list[describe_cluster_response.DescribeClusterBroker] = ...,
            cluster_authorized_operations: int = ...,
        ) -> None: ...

    ROOT: TypeAlias = DescribeClusterResponse
    CLASSES: ClassVar[dict[str, type[Message]]]

class describe_producers_request:
    class TopicRequest(Message):
        name: str
        partition_indexes: list[int]
        def __init__(
            self,
            *,
            name: str = ...,
            partition_indexes: list[int] = ...,
        ) -> None: ...

    class DescribeProducersRequest(Request[describe_producers_response.DescribeProducersResponse]):
        topics: list[describe_producers_request.TopicRequest]
        def __init__(
            self,
            *,
            topics: list[describe_producers_request.TopicRequest] = ...,
        ) -> None: ...

    ROOT: TypeAlias = DescribeProducersRequest
    CLASSES: ClassVar[dict[str, type[Message]]]

class describe_producers_response:
    class ProducerState(Message):
        producer_id: int
        producer_epoch: int
        last_sequence: int
        last_timestamp: int
        coordinator_epoch: int
        current_txn_start_offset: int
        def __init__(
            self,
            *,
            producer_id: int = ...,
            producer_epoch: int = ...,
            last_sequence: int = ...,
            last_timestamp: int = ...,
            coordinator_epoch: int = ...,
            current_txn_start_offset: int = ...,
        ) -> None: ...

    class PartitionResponse(Message):
        partition_index: int
        error_code: int
        error_message: str | None
        active_producers: list[describe_producers_response.ProducerState]
        def __init__(
            self,
            *,
            partition_index: int = ...,
            error_code: int = ...,
            error_message: str | None = ...,
            active_producers: list[describe_producers_response.ProducerState] = ...,
        ) -> None: ...

    class TopicResponse(Message):
        name: str
        partitions: list[describe_producers_response.PartitionResponse]
        def __init__(
            self,
            *,
            name: str = ...,
            partitions: list[describe_producers_response.PartitionResponse] = ...,
        ) -> None: ...

    class DescribeProducersResponse(Message):
        throttle_time_ms: int
        topics: list[describe_producers_response.TopicResponse]
        def __init__(
            self,
            *,
            throttle_time_ms: int = ...,
            topics: list[describe_producers_response.TopicResponse] = ...,
        ) -> None: ...

    ROOT: TypeAlias = DescribeProducersResponse
    CLASSES: ClassVar[dict[str, type[Message]]]

class describe_transactions_request:
    class DescribeTransactionsRequest(Request[describe_transactions_response.DescribeTransactionsResponse]):
        transactional_ids: list[str]
        def __init__(
            self,
            *,
            transactional_ids: list[str] = ...,
        ) -> None: ...

    ROOT: TypeAlias = DescribeTransactionsRequest
    CLASSES: ClassVar[dict[str, type[Message]]]

class describe_transactions_response:
    class TopicData(Message):
        topic: str
        partitions: list[int]
        def __init__(
            self,
            *,
            topic: str = ...,
            partitions: list[int] = ...,
        ) -> None: ...

    class TransactionState(Message):
        error_code: int
        transactional_id: str
        transaction_state: str
        transaction_timeout_ms: int
        transaction_start_time_ms: int
        producer_id: int
        producer_epoch: int
        topics: list[describe_transactions_response.TopicData]
        def __init__(
            self,
            *,
            error_code: int = ...,
            transactional_id: str = ...,
            transaction_state: str = ...,
            transaction_timeout_ms: int = ...,
            transaction_start_time_ms: int = ...,
            producer_id: int = ...,
            producer_epoch: int = ...,
            topics: list[describe_transactions_response.TopicData] = ...,
        ) -> None: ...

    class DescribeTransactionsResponse(Message):
        throttle_time_ms: int
        transaction_states: list[describe_transactions_response.TransactionState]
        def __init__(
            self,
            *,
            throttle_time_ms: int = ...,
            transaction_states: list[describe_transactions_response.TransactionState] = ...,
        ) -> None: ...

    ROOT: TypeAlias = DescribeTransactionsResponse
    CLASSES: ClassVar[dict[str, type[Message]]]

class list_transactions_request:
    class ListTransactionsRequest(Request[list_transactions_response.ListTransactionsResponse]):
        state_filters: list[str]
        producer_id_filters: list[int]
        duration_filter: int
        def __init__(
            self,
            *,
            state_filters: list[str] = ...,
            producer_id_filters: list[int] = ...,
            duration_filter: int = ...,
        ) -> None: ...

    ROOT: TypeAlias = ListTransactionsRequest
    CLASSES: ClassVar[dict[str, type[Message]]]

class list_transactions_response:
    class TransactionState(Message):
        transactional_id: str
        producer_id: int
        transaction_state: str
        def __init__(
            self,
            *,
            transactional_id: str = ...,
            producer_id: int = ...,
            transaction_state: str = ...,
        ) -> None: ...

    class ListTransactionsResponse(Message):
        throttle_time_ms: int
        error_code: int
        unknown_state_filters: list[str]
        transaction_states: list[list_transactions_response.TransactionState]
        def __init__(
            self,
            *,
            throttle_time_ms: int = ...,
            error_code: int = ...,
            unknown_state_filters: list[str] = ...,
            transaction_states: list[list_transactions_response.TransactionState] = ...,
        ) -> None: ...

    ROOT: TypeAlias = ListTransactionsResponse
    CLASSES: ClassVar[dict[str, type[Message]]]

class allocate_producer_ids_request:
    class AllocateProducerIdsRequest(Request[allocate_producer_ids_response.AllocateProducerIdsResponse]):
        broker_id: int
        broker_epoch: int
        def __init__(
            self,
            *,
            broker_id: int = ...,
            broker_epoch: int = ...,
        ) -> None: ...

    ROOT: TypeAlias = AllocateProducerIdsRequest
    CLASSES: ClassVar[dict[str, type[Message]]]

class allocate_producer_ids_response:
    class AllocateProducerIdsResponse(Message):
        throttle_time_ms: int
        error_code: int
        producer_id_start: int
        producer_id_len: int
        def __init__(
            self,
            *,
            throttle_time_ms: int = ...,
            error_code: int = ...,
            producer_id_start: int = ...,
            producer_id_len: int = ...,
        ) -> None: ...

    ROOT: TypeAlias = AllocateProducerIdsResponse
    CLASSES: ClassVar[dict[str, type[Message]]]

class consumer_group_heartbeat_request:
    class TopicPartitions(Message):
        topic_id: bytes
        partitions: list[int]
        def __init__(
            self,
            *,
            topic_id: bytes = ...,
            partitions: list[int] = ...,
        ) -> None: ...

    class ConsumerGroupHeartbeatRequest(Request[consumer_group_heartbeat_response.ConsumerGroupHeartbeatResponse]):
        group_id: str
        member_id: str
        member_epoch: int
        instance_id: str | None
        rack_id: str | None
        rebalance_timeout_ms: int
        subscribed_topic_names: list[str] | None
        server_assignor: str | None
        topic_partitions: list[consumer_group_heartbeat_request.TopicPartitions] | None
        def __init__(
            self,
            *,
            group_id: str = ...,
            member_id: str = ...,
            member_epoch: int = ...,
            instance_id: str | None = ...,
            rack_id: str | None = ...,
            rebalance_timeout_ms: int = ...,
            subscribed_topic_names: list[str] | None = ...,
            server_assignor: str | None = ...,
            topic_partitions: list[consumer_group_heartbeat_request.TopicPartitions] | None = ...,
        ) -> None: ...

    ROOT: TypeAlias = ConsumerGroupHeartbeatRequest
    CLASSES: ClassVar[dict[str, type[Message]]]

class consumer_group_heartbeat_response:
    class TopicPartitions(Message):
        topic_id: bytes
        partitions: list[int]
        def __init__(
            self,
            *,
            topic_id: bytes = ...,
            partitions: list[int] = ...,
        ) -> None: ...

    class Assignment(Message):
        topic_partitions: list[consumer_group_heartbeat_response.TopicPartitions]
        def __init__(
            self,
            *,
            topic_partitions: list[consumer_group_heartbeat_response.TopicPartitions] = ...,
        ) -> None: ...

    class ConsumerGroupHeartbeatResponse(Message):
        throttle_time_ms: int
        error_code: int
        error_message: str | None
        member_id: str | None
        member_epoch: int
        heartbeat_interval_ms: int
        assignment: consumer_group_heartbeat_response.Assignment | None
        def __init__(
            self,
            *,
            throttle_time_ms: int = ...,
            error_code: int = ...,
            error_message: str | None = ...,
            member_id: str | None = ...,
            member_epoch: int = ...,
            heartbeat_interval_ms: int = ...,
            assignment: consumer_group_heartbeat_response.Assignment | None = ...,
        ) -> None: ...

    ROOT: TypeAlias = ConsumerGroupHeartbeatResponse
    CLASSES: ClassVar[dict[str, type[Message]]]

class consumer_group_describe_request:
    class ConsumerGroupDescribeRequest(Request[consumer_group_describe_response.ConsumerGroupDescribeResponse]):
        group_ids: list[str]
        include_authorized_operations: bool
        def __init__(
            self,
            *,
            group_ids: list[str] = ...,
            include_authorized_operations: bool = ...,
        ) -> None: ...

    ROOT: TypeAlias = ConsumerGroupDescribeRequest
    CLASSES: ClassVar[dict[str, type[Message]]]

class consumer_group_describe_response:
    class TopicPartitions(Message):
        topic_id: bytes
        topic_name: str
        partitions: list[int]
        def __init__(
            self,
            *,
            topic_id: bytes = ...,
            topic_name: str = ...,
            partitions: list[int] = ...,
        ) -> None: ...

    class Assignment(Message):
        topic_partitions: list[consumer_group_describe_response.TopicPartitions]
        def __init__(
            self,
            *,
            topic_partitions: list[consumer_group_describe_response.TopicPartitions] = ...,
        ) -> None: ...

    class Member(Message):
        member_id: str
        instance_id: str | None
        rack_id: str | None
        member_epoch: int
        client_id: str
        client_host: str
        subscribed_topic_names: list[str]
        subscribed_topic_regex: str | None
        assignment: consumer_group_describe_response.Assignment
        target_assignment: consumer_group_describe_response.Assignment
        def __init__(
            self,
            *,
            member_id: str = ...,
            instance_id: str | None = ...,
            rack_id: str | None = ...,
            member_epoch: int = ...,
            client_id: str = ...,
            client_host: str = ...,
            subscribed_topic_names: list[str] = ...,
            subscribed_topic_regex: str | None = ...,
            assignment: consumer_group_describe_response.Assignment = ...,
            target_assignment: consumer_group_describe_response.Assignment = ...,
        ) -> None: ...

    class DescribedGroup(Message):
        error_code: int
        error_message: str | None
        group_id: str
        group_state: str
        group_epoch: int
        assignment_epoch: int
        assignor_name: str
        members: list[consumer_group_describe_response.Member]
        authorized_operations: int
        def __init__(
            self,
            *,
            error_code: int = ...,
            error_message: str | None = ...,
            group_id: str = ...,
            group_state: str = ...,
            group_epoch: int = ...,
            assignment_epoch: int = ...,
            assignor_name: str = ...,
            members: list[consumer_group_describe_response.Member] = ...,
            authorized_operations: int = ...,
        ) -> None: ...

    class ConsumerGroupDescribeResponse(Message):
        throttle_time_ms: int
        groups: list[consumer_group_describe_response.DescribedGroup]
        def __init__(
            self,
            *,
            throttle_time_ms: int = ...,
            groups: list[consumer_group_describe_response.DescribedGroup] = ...,
        ) -> None: ...

    ROOT: TypeAlias = ConsumerGroupDescribeResponse
    CLASSES: ClassVar[dict[str, type[Message]]]

class describe_topic_partitions_request:
    class TopicRequest(Message):
        name: str
        def __init__(
            self,
            *,
            name: str = ...,
        ) -> None: ...

    class Cursor(Message):
        topic_name: str
        partition_index: int
        def __init__(
            self,
            *,
            topic_name: str = ...,
            partition_index: int = ...,
        ) -> None: ...

    class DescribeTopicPartitionsRequest(Request[describe_topic_partitions_response.DescribeTopicPartitionsResponse]):
        topics: list[describe_topic_partitions_request.TopicRequest]
        response_partition_limit: int
        cursor: describe_topic_partitions_request.Cursor | None
        def __init__(
            self,
            *,
            topics: list[describe_topic_partitions_request.TopicRequest] = ...,
            response_partition_limit: int = ...,
            cursor: describe_topic_partitions_request.Cursor | None = ...,
        ) -> None: ...

    ROOT: TypeAlias = DescribeTopicPartitionsRequest
    CLASSES: ClassVar[dict[str, type[Message]]]

class describe_topic_partitions_response:
    class DescribeTopicPartitionsResponsePartition(Message):
        error_code: int
        partition_index: int
        leader_id: int
        leader_epoch: int
        replica_nodes: list[int]
        isr_nodes: list[int]
        eligible_leader_replicas: list[int] | None
        last_known_elr: list[int] | None
        offline_replicas: list[int]
        def __init__(
            self,
            *,
            error_code: int = ...,
            partition_index: int = ...,
            leader_id: int = ...,
            leader_epoch: int = ...,
            replica_nodes: list[int] = ...,
            isr_nodes: list[int] = ...,
            eligible_leader_replicas: list[int] | None = ...,
            last_known_elr: list[int] | None = ...,
            offline_replicas: list[int] = ...,
        ) -> None: ...

    class DescribeTopicPartitionsResponseTopic(Message):
        error_code: int
        name: str | None
        topic_id: bytes
        is_internal: bool
        partitions: list[describe_topic_partitions_response.DescribeTopicPartitionsResponsePartition]
        topic_authorized_operations: int
        def __init__(
            self,
            *,
            error_code: int = ...,
            name: str | None = ...,
            topic_id: bytes = ...,
            is_internal: bool = ...,
            partitions: list[describe_topic_partitions_response.DescribeTopicPartitionsResponsePartition] = ...,
            topic_authorized_operations: int = ...,
        ) -> None: ...

    class Cursor(Message):
        topic_name: str
        partition_index: int
        def __init__(
            self,
            *,
            topic_name: str = ...,
            partition_index: int = ...,
        ) -> None: ...

    class DescribeTopicPartitionsResponse(Message):
        throttle_time_ms: int
        topics: list[describe_topic_partitions_response.DescribeTopicPartitionsResponseTopic]
        next_cursor: describe_topic_partitions_response.Cursor | None
        def __init__(
            self,
            *,
            throttle_time_ms: int = ...,
            topics: list[describe_topic_partitions_response.DescribeTopicPartitionsResponseTopic] = ...,
            next_cursor: describe_topic_partitions_response.Cursor | None = ...,
        ) -> None: ...

    ROOT: TypeAlias = DescribeTopicPartitionsResponse
    CLASSES: ClassVar[dict[str, type[Message]]]

ProduceRequest = produce_request.ProduceRequest
ProduceResponse = produce_response.ProduceResponse
FetchRequest = fetch_request.FetchRequest
FetchResponse = fetch_response.FetchResponse
ListOffsetsRequest = list_offsets_request.ListOffsetsRequest
ListOffsetsResponse = list_offsets_response.ListOffsetsResponse
MetadataRequest = metadata_request.MetadataRequest
MetadataResponse = metadata_response.MetadataResponse
LeaderAndIsrRequest = leader_and_isr_request.LeaderAndIsrRequest
LeaderAndIsrResponse = leader_and_isr_response.LeaderAndIsrResponse
StopReplicaRequest = stop_replica_request.StopReplicaRequest
StopReplicaResponse = stop_replica_response.StopReplicaResponse
UpdateMetadataRequest = update_metadata_request.UpdateMetadataRequest
UpdateMetadataResponse = update_metadata_response.UpdateMetadataResponse
ControlledShutdownRequest = controlled_shutdown_request.ControlledShutdownRequest
ControlledShutdownResponse = controlled_shutdown_response.ControlledShutdownResponse
OffsetCommitRequest = offset_commit_request.OffsetCommitRequest
OffsetCommitResponse = offset_commit_response.OffsetCommitResponse
OffsetFetchRequest = offset_fetch_request.OffsetFetchRequest
OffsetFetchResponse = offset_fetch_response.OffsetFetchResponse
FindCoordinatorRequest = find_coordinator_request.FindCoordinatorRequest
FindCoordinatorResponse = find_coordinator_response.FindCoordinatorResponse
JoinGroupRequest = join_group_request.JoinGroupRequest
JoinGroupResponse = join_group_response.JoinGroupResponse
HeartbeatRequest = heartbeat_request.HeartbeatRequest
HeartbeatResponse = heartbeat_response.HeartbeatResponse
LeaveGroupRequest = leave_group_request.LeaveGroupRequest
LeaveGroupResponse = leave_group_response.LeaveGroupResponse
SyncGroupRequest = sync_group_request.SyncGroupRequest
SyncGroupResponse = sync_group_response.SyncGroupResponse
DescribeGroupsRequest = describe_groups_request.DescribeGroupsRequest
DescribeGroupsResponse = describe_groups_response.DescribeGroupsResponse
ListGroupsRequest = list_groups_request.ListGroupsRequest
ListGroupsResponse = list_groups_response.ListGroupsResponse
SaslHandshakeRequest = sasl_handshake_request.SaslHandshakeRequest
SaslHandshakeResponse = sasl_handshake_response.SaslHandshakeResponse
ApiVersionsRequest = api_versions_request.ApiVersionsRequest
ApiVersionsResponse = api_versions_response.ApiVersionsResponse
CreateTopicsRequest = create_topics_request.CreateTopicsRequest
CreateTopicsResponse = create_topics_response.CreateTopicsResponse
DeleteTopicsRequest = delete_topics_request.DeleteTopicsRequest
DeleteTopicsResponse = delete_topics_response.DeleteTopicsResponse
DeleteRecordsRequest = delete_records_request.DeleteRecordsRequest
DeleteRecordsResponse = delete_records_response.DeleteRecordsResponse
InitProducerIdRequest = init_producer_id_request.InitProducerIdRequest
InitProducerIdResponse = init_producer_id_response.InitProducerIdResponse
OffsetForLeaderEpochRequest = offset_for_leader_epoch_request.OffsetForLeaderEpochRequest
OffsetForLeaderEpochResponse = offset_for_leader_epoch_response.OffsetForLeaderEpochResponse
AddPartitionsToTxnRequest = add_partitions_to_txn_request.AddPartitionsToTxnRequest
AddPartitionsToTxnResponse = add_partitions_to_txn_response.AddPartitionsToTxnResponse
AddOffsetsToTxnRequest = add_offsets_to_txn_request.AddOffsetsToTxnRequest
AddOffsetsToTxnResponse = add_offsets_to_txn_response.AddOffsetsToTxnResponse
EndTxnRequest = end_txn_request.EndTxnRequest
EndTxnResponse = end_txn_response.EndTxnResponse
WriteTxnMarkersRequest = write_txn_markers_request.WriteTxnMarkersRequest
WriteTxnMarkersResponse = write_txn_markers_response.WriteTxnMarkersResponse
TxnOffsetCommitRequest = txn_offset_commit_request.TxnOffsetCommitRequest
TxnOffsetCommitResponse = txn_offset_commit_response.TxnOffsetCommitResponse
DescribeAclsRequest = describe_acls_request.DescribeAclsRequest
DescribeAclsResponse = describe_acls_response.DescribeAclsResponse
CreateAclsRequest = create_acls_request.CreateAclsRequest
CreateAclsResponse = create_acls_response.CreateAclsResponse
DeleteAclsRequest = delete_acls_request.DeleteAclsRequest
DeleteAclsResponse = delete_acls_response.DeleteAclsResponse
DescribeConfigsRequest = describe_configs_request.DescribeConfigsRequest
DescribeConfigsResponse = describe_configs_response.DescribeConfigsResponse
AlterConfigsRequest = alter_configs_request.AlterConfigsRequest
AlterConfigsResponse = alter_configs_response.AlterConfigsResponse
AlterReplicaLogDirsRequest = alter_replica_log_dirs_request.AlterReplicaLogDirsRequest
AlterReplicaLogDirsResponse = alter_replica_log_dirs_response.AlterReplicaLogDirsResponse
DescribeLogDirsRequest = describe_log_dirs_request.DescribeLogDirsRequest
DescribeLogDirsResponse = describe_log_dirs_response.DescribeLogDirsResponse
SaslAuthenticateRequest = sasl_authenticate_request.SaslAuthenticateRequest
SaslAuthenticateResponse = sasl_authenticate_response.SaslAuthenticateResponse
CreatePartitionsRequest = create_partitions_request.CreatePartitionsRequest
CreatePartitionsResponse = create_partitions_response.CreatePartitionsResponse
CreateDelegationTokenRequest = create_delegation_token_request.CreateDelegationTokenRequest
CreateDelegationTokenResponse = create_delegation_token_response.CreateDelegationTokenResponse
RenewDelegationTokenRequest = renew_delegation_token_request.RenewDelegationTokenRequest
RenewDelegationTokenResponse = renew_delegation_token_response.RenewDelegationTokenResponse
ExpireDelegationTokenRequest = expire_delegation_token_request.ExpireDelegationTokenRequest
ExpireDelegationTokenResponse = expire_delegation_token_response.ExpireDelegationTokenResponse
DescribeDelegationTokenRequest = describe_delegation_token_request.DescribeDelegationTokenRequest
DescribeDelegationTokenResponse = describe_delegation_token_response.DescribeDelegationTokenResponse
DeleteGroupsRequest = delete_groups_request.DeleteGroupsRequest
DeleteGroupsResponse = delete_groups_response.DeleteGroupsResponse
ElectLeadersRequest = elect_leaders_request.ElectLeadersRequest
ElectLeadersResponse = elect_leaders_response.ElectLeadersResponse
IncrementalAlterConfigsRequest = incremental_alter_configs_request.IncrementalAlterConfigsRequest
IncrementalAlterConfigsResponse = incremental_alter_configs_response.IncrementalAlterConfigsResponse
AlterPartitionReassignmentsRequest = alter_partition_reassignments_request.AlterPartitionReassignmentsRequest
AlterPartitionReassignmentsResponse = alter_partition_reassignments_response.AlterPartitionReassignmentsResponse
ListPartitionReassignmentsRequest = list_partition_reassignments_request.ListPartitionReassignmentsRequest
ListPartitionReassignmentsResponse = list_partition_reassignments_response.ListPartitionReassignmentsResponse
OffsetDeleteRequest = offset_delete_request.OffsetDeleteRequest
OffsetDeleteResponse = offset_delete_response.OffsetDeleteResponse
DescribeClientQuotasRequest = describe_client_quotas_request.DescribeClientQuotasRequest
DescribeClientQuotasResponse = describe_client_quotas_response.DescribeClientQuotasResponse
AlterClientQuotasRequest = alter_client_quotas_request.AlterClientQuotasRequest
AlterClientQuotasResponse = alter_client_quotas_response.AlterClientQuotasResponse
DescribeUserScramCredentialsRequest = describe_user_scram_credentials_request.DescribeUserScramCredentialsRequest
DescribeUserScramCredentialsResponse = describe_user_scram_credentials_response.DescribeUserScramCredentialsResponse
AlterUserScramCredentialsRequest = alter_user_scram_credentials_request.AlterUserScramCredentialsRequest
AlterUserScramCredentialsResponse = alter_user_scram_credentials_response.AlterUserScramCredentialsResponse
AlterPartitionRequest = alter_partition_request.AlterPartitionRequest
AlterPartitionResponse = alter_partition_response.AlterPartitionResponse
UpdateFeaturesRequest = update_features_request.UpdateFeaturesRequest
UpdateFeaturesResponse = update_features_response.UpdateFeaturesResponse
EnvelopeRequest = envelope_request.EnvelopeRequest
EnvelopeResponse = envelope_response.EnvelopeResponse
DescribeClusterRequest = describe_cluster_request.DescribeClusterRequest
DescribeClusterResponse = describe_cluster_response.DescribeClusterResponse
DescribeProducersRequest = describe_producers_request.DescribeProducersRequest
DescribeProducersResponse = describe_producers_response.DescribeProducersResponse
DescribeTransactionsRequest = describe_transactions_request.DescribeTransactionsRequest
DescribeTransactionsResponse = describe_transactions_response.DescribeTransactionsResponse
ListTransactionsRequest = list_transactions_request.ListTransactionsRequest
ListTransactionsResponse = list_transactions_response.ListTransactionsResponse
AllocateProducerIdsRequest = allocate_producer_ids_request.AllocateProducerIdsRequest
AllocateProducerIdsResponse = allocate_producer_ids_response.AllocateProducerIdsResponse
ConsumerGroupHeartbeatRequest = consumer_group_heartbeat_request.ConsumerGroupHeartbeatRequest
ConsumerGroupHeartbeatResponse = consumer_group_heartbeat_response.ConsumerGroupHeartbeatResponse
ConsumerGroupDescribeRequest = consumer_group_describe_request.ConsumerGroupDescribeRequest
ConsumerGroupDescribeResponse = consumer_group_describe_response.ConsumerGroupDescribeResponse
DescribeTopicPartitionsRequest = describe_topic_partitions_request.DescribeTopicPartitionsRequest
DescribeTopicPartitionsResponse = describe_topic_partitions_response.DescribeTopicPartitionsResponse
