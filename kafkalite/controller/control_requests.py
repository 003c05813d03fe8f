"""What the controller tells brokers, as data: LeaderAndIsr, UpdateMetadata, StopReplica.

`request_batch` makes these from the cluster's state and `wire` makes messages of them; a broker's handlers read them back
(`broker/handlers/control`) for its replicas and its metadata cache. Those of single partitions are made by the ten thousand, so they are
plain slots; nobody changes them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from kafkalite.types import BrokerId, Endpoint, TopicPartition

EPOCH_DURING_DELETE: Final = -2
"""As leader epoch in StopReplica: delete whatever epoch you know."""

NO_EPOCH: Final = -1
"""As leader epoch in StopReplica: stop whatever epoch you know."""


ANY_BROKER_EPOCH: Final = -1
"""Senders older than KIP-380 do not say for which incarnation of the broker a request is meant."""


@dataclass(frozen=True, slots=True)
class ControlRequest:
    """Who governs, and for which incarnation of the broker it is meant (KIP-380)."""

    controller_id: BrokerId
    controller_epoch: int
    broker_epoch: int


@dataclass(slots=True)
class LeaderAndIsrPartition:
    """Who holds a partition, who is in sync, who leads; `partition_epoch` is the version of its state znode."""

    topic_partition: TopicPartition
    controller_epoch: int
    leader: BrokerId
    leader_epoch: int
    partition_epoch: int
    isr: tuple[BrokerId, ...]
    replicas: tuple[BrokerId, ...]
    adding_replicas: tuple[BrokerId, ...] = ()
    removing_replicas: tuple[BrokerId, ...] = ()
    is_new: bool = False
    """The replica has no log yet."""
    recovering: bool = False


@dataclass(frozen=True, slots=True)
class LeaderAndIsrTopic:
    """Partitions of a topic."""

    name: str
    topic_id: bytes
    partitions: Sequence[LeaderAndIsrPartition]


@dataclass(frozen=True, slots=True)
class LeaderAndIsr(ControlRequest):
    """Roles that a broker takes with its replicas. `live_leaders` says where the leaders are reached."""

    topics: Sequence[LeaderAndIsrTopic]
    live_leaders: Mapping[BrokerId, Endpoint] = field(default_factory=dict)


@dataclass(slots=True)
class PartitionMetadata:
    """What clients see of a partition. Lists, because they go into responses as they are."""

    leader: BrokerId
    leader_epoch: int
    isr: list[BrokerId]
    replicas: list[BrokerId]
    offline_replicas: list[BrokerId]
    partition_epoch: int
    controller_epoch: int


@dataclass(frozen=True, slots=True)
class UpdateMetadataTopic:
    """Partitions of a topic by index; apart from them those to be forgotten, because the topic is being deleted."""

    name: str
    topic_id: bytes
    partitions: dict[int, PartitionMetadata]
    deleted: dict[int, PartitionMetadata] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class LiveBroker:
    """A registered broker as others and clients know it, its endpoints by listener."""

    broker_id: BrokerId
    endpoints: Mapping[str, Endpoint]
    rack: str | None = None


@dataclass(frozen=True, slots=True)
class UpdateMetadata(ControlRequest):
    """Partitions that changed, and all live brokers."""

    topics: Sequence[UpdateMetadataTopic]
    brokers: Sequence[LiveBroker]


@dataclass(slots=True)
class StopReplicaPartition:
    """Stop a replica that is in no later leader epoch, and delete it where that is wished."""

    leader_epoch: int
    delete: bool


@dataclass(frozen=True, slots=True)
class StopReplica(ControlRequest):
    """Replicas that a broker stops."""

    partitions: Mapping[TopicPartition, StopReplicaPartition]


@dataclass(frozen=True, slots=True)
class Command:
    """A request for one broker."""

    broker_id: BrokerId
    request: ControlRequest
