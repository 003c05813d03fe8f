"""The options of clients as keyword arguments, for type checkers (PEP 692).

Each is what a dataclass of options has as fields; a test holds the two together. Clients name these in annotations alone, so that programs
do not load them.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable, Sequence
from typing import Generic, Literal, Required, TypedDict, TypeVar

from kafkalite.client.cluster.offset_lookup import IsolationLevel
from kafkalite.client.consumer.options import OffsetReset
from kafkalite.client.group.assignors import Assignor, AssignorName
from kafkalite.client.options import Opener
from kafkalite.client.producer.options import Acks, CompressionType
from kafkalite.client.producer.partitioner import PartitionerName, PartitionFunction
from kafkalite.client.security import SaslMechanism, SecurityProtocol, StoreType
from kafkalite.client.serializers import DeserializerChoice, NamedFormat, SerializerChoice
from kafkalite.clock import Clock

KT = TypeVar("KT")
VT = TypeVar("VT")


class SecurityKeywords(TypedDict, total=False):
    """The fields of `SecurityOptions` as keyword arguments."""

    security_protocol: SecurityProtocol
    ssl_context: ssl.SSLContext | None
    ssl_keystore_type: StoreType
    ssl_keystore_location: str
    ssl_keystore_password: str
    ssl_keystore_key: str
    ssl_keystore_certificate_chain: str
    ssl_key_password: str
    ssl_truststore_type: StoreType
    ssl_truststore_location: str
    ssl_truststore_password: str
    ssl_truststore_certificates: str
    ssl_enabled_protocols: str
    ssl_cipher_suites: str
    ssl_endpoint_identification_algorithm: Literal["https", ""]
    allow_world_readable_secrets: bool
    sasl_mechanism: SaslMechanism
    sasl_username: str
    sasl_password: str
    sasl_jaas_config: str
    sasl_token: Callable[[], str] | None
    sasl_kerberos_service_name: str


class ConnectionKeywords(SecurityKeywords, total=False):
    """The fields of `ConnectionOptions` as keyword arguments."""

    bootstrap_servers: str | Sequence[str]
    client_id: str | None
    request_timeout_ms: int
    retry_backoff_ms: float
    retry_backoff_max_ms: float
    metadata_max_age_ms: int
    receive_message_max_bytes: int
    opener: Opener | None
    chance: Callable[[], float] | None


class AdminKeywords(ConnectionKeywords, total=False):
    """The fields of `AdminOptions` as keyword arguments."""

    default_api_timeout_ms: int


class ProducerKeywords(ConnectionKeywords, total=False):
    """The fields of `ProducerOptions` as keyword arguments."""

    acks: Acks
    enable_idempotence: bool | None
    compression_type: CompressionType | None
    partitioner: PartitionerName | PartitionFunction
    key_serializer: SerializerChoice
    value_serializer: SerializerChoice
    batch_size: int
    linger_ms: float
    buffer_memory: int
    max_block_ms: int
    max_request_size: int
    max_in_flight_requests_per_connection: int
    delivery_timeout_ms: int
    retries: int
    allow_auto_create_topics: bool
    transactional_id: str | None
    transaction_timeout_ms: int
    clock: Clock | None


class UntypedConsumerKeywords(ConnectionKeywords, total=False):
    """The fields of `ConsumerOptions` as keyword arguments, but for those that give keys and values their types."""

    group_id: str | None
    group_instance_id: str | None
    partition_assignment_strategy: AssignorName | Assignor | Sequence[AssignorName | Assignor]
    enable_auto_commit: bool
    auto_commit_interval_ms: int
    session_timeout_ms: int
    heartbeat_interval_ms: int
    max_poll_interval_ms: int
    auto_offset_reset: OffsetReset
    isolation_level: IsolationLevel
    fetch_min_bytes: int
    fetch_max_wait_ms: int
    fetch_max_bytes: int
    max_partition_fetch_bytes: int
    prefetch_max_bytes: int
    max_poll_records: int
    check_crcs: bool
    client_rack: str
    default_api_timeout_ms: int


class ConsumerKeywords(UntypedConsumerKeywords, total=False):
    """The fields of `ConsumerOptions` as keyword arguments."""

    key_deserializer: DeserializerChoice
    value_deserializer: DeserializerChoice


class TypedValues(UntypedConsumerKeywords, Generic[VT], total=False):
    """`ConsumerKeywords` with a function that makes values."""

    key_deserializer: NamedFormat
    value_deserializer: Required[Callable[[bytes], VT]]


class TypedKeys(UntypedConsumerKeywords, Generic[KT], total=False):
    """`ConsumerKeywords` with a function that makes keys."""

    key_deserializer: Required[Callable[[bytes], KT]]
    value_deserializer: NamedFormat


class TypedBoth(UntypedConsumerKeywords, Generic[KT, VT], total=False):
    """`ConsumerKeywords` with functions that make keys and values."""

    key_deserializer: Required[Callable[[bytes], KT]]
    value_deserializer: Required[Callable[[bytes], VT]]
