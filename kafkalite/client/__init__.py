"""The client library: `Producer`, `Consumer`, `Admin` for asyncio, and `SyncProducer`, `SyncConsumer`, `SyncAdmin`.

Everything that programs meet is importable from here: the clients, their options, results, errors, and what they call back. Names are
loaded at first use, so that a program pays for what it imports.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kafkalite.client.admin.admin import Admin as Admin
    from kafkalite.client.admin.configs import ConfigChange as ConfigChange
    from kafkalite.client.admin.configs import ConfigEntry as ConfigEntry
    from kafkalite.client.admin.configs import ConfigOperation as ConfigOperation
    from kafkalite.client.admin.configs import ConfigResource as ConfigResource
    from kafkalite.client.admin.configs import ConfigResourceType as ConfigResourceType
    from kafkalite.client.admin.configs import ConfigSynonym as ConfigSynonym
    from kafkalite.client.admin.credentials import ScramCredentialInfo as ScramCredentialInfo
    from kafkalite.client.admin.credentials import ScramDeletion as ScramDeletion
    from kafkalite.client.admin.credentials import ScramUpsertion as ScramUpsertion
    from kafkalite.client.admin.groups import GroupDescription as GroupDescription
    from kafkalite.client.admin.groups import GroupListing as GroupListing
    from kafkalite.client.admin.groups import GroupMember as GroupMember
    from kafkalite.client.admin.log_dirs import LogDir as LogDir
    from kafkalite.client.admin.log_dirs import LogDirReplica as LogDirReplica
    from kafkalite.client.admin.log_dirs import TopicPartitionReplica as TopicPartitionReplica
    from kafkalite.client.admin.options import AdminOptions as AdminOptions
    from kafkalite.client.admin.partitions import ElectionType as ElectionType
    from kafkalite.client.admin.partitions import NewPartitions as NewPartitions
    from kafkalite.client.admin.partitions import PartitionReassignment as PartitionReassignment
    from kafkalite.client.admin.quotas import ClientQuota as ClientQuota
    from kafkalite.client.admin.quotas import QuotaEntity as QuotaEntity
    from kafkalite.client.admin.quotas import QuotaFilter as QuotaFilter
    from kafkalite.client.admin.records import DeletedRecords as DeletedRecords
    from kafkalite.client.admin.records import DigestedRange as DigestedRange
    from kafkalite.client.admin.sync import SyncAdmin as SyncAdmin
    from kafkalite.client.admin.topics import ClusterDescription as ClusterDescription
    from kafkalite.client.admin.topics import CreatedTopic as CreatedTopic
    from kafkalite.client.admin.topics import NewTopic as NewTopic
    from kafkalite.client.admin.topics import TopicDescription as TopicDescription
    from kafkalite.client.admin.transactions import HangingTransaction as HangingTransaction
    from kafkalite.client.admin.transactions import ProducerState as ProducerState
    from kafkalite.client.admin.transactions import TransactionDescription as TransactionDescription
    from kafkalite.client.admin.transactions import TransactionListing as TransactionListing
    from kafkalite.client.cluster.offset_lookup import IsolationLevel as IsolationLevel
    from kafkalite.client.cluster.view import BrokerNode as BrokerNode
    from kafkalite.client.cluster.view import PartitionView as PartitionView
    from kafkalite.client.consumer.consumer import Consumer as Consumer
    from kafkalite.client.consumer.options import ConsumerOptions as ConsumerOptions
    from kafkalite.client.consumer.options import OffsetReset as OffsetReset
    from kafkalite.client.consumer.sync import SyncConsumer as SyncConsumer
    from kafkalite.client.consumer_record import ConsumerRecord as ConsumerRecord
    from kafkalite.client.errors import AbortableTransactionError as AbortableTransactionError
    from kafkalite.client.errors import AdminError as AdminError
    from kafkalite.client.errors import AuthenticationFailedError as AuthenticationFailedError
    from kafkalite.client.errors import BufferFullError as BufferFullError
    from kafkalite.client.errors import ClientClosedError as ClientClosedError
    from kafkalite.client.errors import ClientError as ClientError
    from kafkalite.client.errors import ClientTimeoutError as ClientTimeoutError
    from kafkalite.client.errors import CommitFailedError as CommitFailedError
    from kafkalite.client.errors import FatalTransactionError as FatalTransactionError
    from kafkalite.client.errors import LogTruncationError as LogTruncationError
    from kafkalite.client.errors import NoBrokersAvailableError as NoBrokersAvailableError
    from kafkalite.client.errors import NoOffsetForPartitionError as NoOffsetForPartitionError
    from kafkalite.client.errors import ProducerFencedError as ProducerFencedError
    from kafkalite.client.errors import RecordDeserializationError as RecordDeserializationError
    from kafkalite.client.errors import SerializationError as SerializationError
    from kafkalite.client.errors import TransactionAbortedError as TransactionAbortedError
    from kafkalite.client.errors import TransactionError as TransactionError
    from kafkalite.client.errors import TransactionStateError as TransactionStateError
    from kafkalite.client.errors import UnknownOptionError as UnknownOptionError
    from kafkalite.client.group.assignors import Assignor as Assignor
    from kafkalite.client.group.assignors import AssignorName as AssignorName
    from kafkalite.client.group.assignors import CooperativeStickyAssignor as CooperativeStickyAssignor
    from kafkalite.client.group.assignors import RangeAssignor as RangeAssignor
    from kafkalite.client.group.assignors import RoundRobinAssignor as RoundRobinAssignor
    from kafkalite.client.group.assignors import StickyAssignor as StickyAssignor
    from kafkalite.client.group.committable import Committable as Committable
    from kafkalite.client.group.committable import OnCommit as OnCommit
    from kafkalite.client.group.consumer_protocol import Subscription as Subscription
    from kafkalite.client.group.metadata import GroupMetadata as GroupMetadata
    from kafkalite.client.group.rebalance_listener import RebalanceListener as RebalanceListener
    from kafkalite.client.keywords import AdminKeywords as AdminKeywords
    from kafkalite.client.keywords import ConnectionKeywords as ConnectionKeywords
    from kafkalite.client.keywords import ConsumerKeywords as ConsumerKeywords
    from kafkalite.client.keywords import ProducerKeywords as ProducerKeywords
    from kafkalite.client.keywords import SecurityKeywords as SecurityKeywords
    from kafkalite.client.offsets import OffsetAndMetadata as OffsetAndMetadata
    from kafkalite.client.offsets import OffsetAndTimestamp as OffsetAndTimestamp
    from kafkalite.client.options import ConnectionOptions as ConnectionOptions
    from kafkalite.client.options import Opener as Opener
    from kafkalite.client.producer.columns import OnFailure as OnFailure
    from kafkalite.client.producer.columns import RecordColumns as RecordColumns
    from kafkalite.client.producer.deliveries import Delivery as Delivery
    from kafkalite.client.producer.deliveries import OnDelivery as OnDelivery
    from kafkalite.client.producer.options import Acks as Acks
    from kafkalite.client.producer.options import CompressionType as CompressionType
    from kafkalite.client.producer.options import ProducerOptions as ProducerOptions
    from kafkalite.client.producer.partitioner import PartitionerName as PartitionerName
    from kafkalite.client.producer.partitioner import PartitionFunction as PartitionFunction
    from kafkalite.client.producer.producer import Producer as Producer
    from kafkalite.client.producer.sync import SyncDelivery as SyncDelivery
    from kafkalite.client.producer.sync import SyncProducer as SyncProducer
    from kafkalite.client.producer.transaction_state import PreparedTransaction as PreparedTransaction
    from kafkalite.client.record_batches import RecordBatch as RecordBatch
    from kafkalite.client.records import CREATE_TIME as CREATE_TIME
    from kafkalite.client.records import LOG_APPEND_TIME as LOG_APPEND_TIME
    from kafkalite.client.records import Header as Header
    from kafkalite.client.records import RecordMetadata as RecordMetadata
    from kafkalite.client.security import SaslMechanism as SaslMechanism
    from kafkalite.client.security import SecurityOptions as SecurityOptions
    from kafkalite.client.security import SecurityProtocol as SecurityProtocol
    from kafkalite.client.serializers import Deserializer as Deserializer
    from kafkalite.client.serializers import DeserializerChoice as DeserializerChoice
    from kafkalite.client.serializers import FormatName as FormatName
    from kafkalite.client.serializers import Serializer as Serializer
    from kafkalite.client.serializers import SerializerChoice as SerializerChoice
    from kafkalite.clock import Clock as Clock
    from kafkalite.errors import ErrorCode as ErrorCode
    from kafkalite.errors import KafkaError as KafkaError
    from kafkalite.protocol.record_batches.record_digest import hash_record as hash_record
    from kafkalite.security.acl import AclBinding as AclBinding
    from kafkalite.security.acl import AclEntry as AclEntry
    from kafkalite.security.acl import AclFilter as AclFilter
    from kafkalite.security.acl import Operation as Operation
    from kafkalite.security.acl import PatternType as PatternType
    from kafkalite.security.acl import PermissionType as PermissionType
    from kafkalite.security.acl import ResourcePattern as ResourcePattern
    from kafkalite.security.acl import ResourceType as ResourceType
    from kafkalite.types import TopicPartition as TopicPartition

_NAMES_OF = {
    ".admin.admin": "Admin",
    ".admin.configs": "ConfigChange ConfigEntry ConfigOperation ConfigResource ConfigResourceType ConfigSynonym",
    ".admin.credentials": "ScramCredentialInfo ScramDeletion ScramUpsertion",
    ".admin.groups": "GroupDescription GroupListing GroupMember",
    ".admin.log_dirs": "LogDir LogDirReplica TopicPartitionReplica",
    ".admin.options": "AdminOptions",
    ".admin.partitions": "ElectionType NewPartitions PartitionReassignment",
    ".admin.quotas": "ClientQuota QuotaEntity QuotaFilter",
    ".admin.records": "DeletedRecords DigestedRange",
    ".admin.sync": "SyncAdmin",
    ".admin.topics": "ClusterDescription CreatedTopic NewTopic TopicDescription",
    ".admin.transactions": "HangingTransaction ProducerState TransactionDescription TransactionListing",
    ".cluster.offset_lookup": "IsolationLevel",
    ".cluster.view": "BrokerNode PartitionView",
    ".consumer.consumer": "Consumer",
    ".consumer.options": "ConsumerOptions OffsetReset",
    ".consumer.sync": "SyncConsumer",
    ".consumer_record": "ConsumerRecord",
    ".errors": (
        "AbortableTransactionError AdminError AuthenticationFailedError BufferFullError ClientClosedError ClientError "
        "ClientTimeoutError CommitFailedError "
        "FatalTransactionError LogTruncationError NoBrokersAvailableError NoOffsetForPartitionError ProducerFencedError "
        "RecordDeserializationError SerializationError TransactionAbortedError TransactionError TransactionStateError "
        "UnknownOptionError"
    ),
    ".group.assignors": "Assignor AssignorName CooperativeStickyAssignor RangeAssignor RoundRobinAssignor StickyAssignor",
    ".group.committable": "Committable OnCommit",
    ".group.consumer_protocol": "Subscription",
    ".group.metadata": "GroupMetadata",
    ".group.rebalance_listener": "RebalanceListener",
    ".keywords": "AdminKeywords ConnectionKeywords ConsumerKeywords ProducerKeywords SecurityKeywords",
    ".offsets": "OffsetAndMetadata OffsetAndTimestamp",
    ".security": "SaslMechanism SecurityOptions SecurityProtocol",
    ".options": "ConnectionOptions Opener",
    ".producer.columns": "OnFailure RecordColumns",
    ".producer.deliveries": "Delivery OnDelivery",
    ".producer.options": "Acks CompressionType ProducerOptions",
    ".producer.partitioner": "PartitionFunction PartitionerName",
    ".producer.producer": "Producer",
    ".producer.sync": "SyncDelivery SyncProducer",
    ".producer.transaction_state": "PreparedTransaction",
    ".record_batches": "RecordBatch",
    ".records": "CREATE_TIME Header LOG_APPEND_TIME RecordMetadata",
    ".serializers": "Deserializer DeserializerChoice FormatName Serializer SerializerChoice",
    "kafkalite.clock": "Clock",
    "kafkalite.errors": "ErrorCode KafkaError",
    "kafkalite.protocol.record_batches.record_digest": "hash_record",
    "kafkalite.security.acl": "AclBinding AclEntry AclFilter Operation PatternType PermissionType ResourcePattern ResourceType",
    "kafkalite.types": "TopicPartition",
}
_HOMES = {name: module for module, names in _NAMES_OF.items() for name in names.split()}

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__} has no {name}")
    globals()[name] = found = getattr(import_module(_HOMES[name], __name__), name)
    return found
