"""The data of znodes: a frozen dataclass for each kind, with `encode() -> bytes` and `decode(bytes)`.

Written as Kafka 3.9.1 was seen to write them, byte for byte: compact JSON in Kafka's order of keys; only the entries inside
a map may stand in another order. Read tolerantly: any whitespace and order, unknown keys ignored. `decode` raises
`MalformedZnodeError`, a ValueError, on anything else.
"""

from zk.znodes.acls import AclChange, AclWords, ResourceAcls
from zk.znodes.admin import IsrChange, LogDirEvent, PartitionName, PreferredElection, ReassignPartitions
from zk.znodes.brokers import BrokerRegistration, FeatureRange, RegisteredEndpoint
from zk.znodes.cluster import ClusterId, Feature, FeatureStatus, ProducerIdBlock
from zk.znodes.configs import ConfigChange, ConfigEntity
from zk.znodes.consumers import ConsumerOffset
from zk.znodes.controller import ControllerEpoch, ControllerSeat, KraftMigration
from zk.znodes.delegation_tokens import DelegationToken
from zk.znodes.fields import MalformedZnodeError
from zk.znodes.topics import PartitionState, TopicAssignment

__all__ = [
    "AclChange",
    "AclWords",
    "BrokerRegistration",
    "ClusterId",
    "ConfigChange",
    "ConfigEntity",
    "ConsumerOffset",
    "ControllerEpoch",
    "ControllerSeat",
    "DelegationToken",
    "Feature",
    "FeatureRange",
    "FeatureStatus",
    "IsrChange",
    "KraftMigration",
    "LogDirEvent",
    "MalformedZnodeError",
    "PartitionName",
    "PartitionState",
    "PreferredElection",
    "ProducerIdBlock",
    "ReassignPartitions",
    "RegisteredEndpoint",
    "ResourceAcls",
    "TopicAssignment",
]
