"""The controller's requests to brokers, as data: LeaderAndIsr, UpdateMetadata, StopReplica, and MetadataDigests to brokers of ours.

`request_batch` builds these from the cluster's state and `wire` encodes them; a broker's handlers decode them
(`broker/handlers/control`) for its replicas and its metadata cache. Instances for single partitions are made by the ten thousand, so
they are not frozen, which would be slower; nothing changes them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from kafkalite.types import BrokerId, Endpoint, TopicPartition

EPOCH_DURING_DELETE: Final = -2
"""Leader epoch in StopReplica that deletes the replica whatever its epoch is."""

NO_EPOCH: Final = -1
"""Leader epoch in StopReplica that stops the replica whatever its epoch is."""


ANY_BROKER_EPOCH: Final = -1
"""Broker epoch in requests of senders older than KIP-380, which is not checked."""


@dataclass(frozen=True, slots=True)
class ControlRequest:
    """A request of a controller; `broker_epoch` is the incarnation of the broker that it is meant for (KIP-380)."""

    controller_id: BrokerId
    controller_epoch: int
    broker_epoch: int


class LeaderAndIsrPartition(NamedTuple):
    """Replicas, ISR and leader of a partition; `partition_epoch` is the version of its state znode. A tuple takes half as long to make."""

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
    """Make the broker a leader or follower of partitions. `live_leaders` are the leaders' endpoints."""

    topics: Sequence[LeaderAndIsrTopic]
    live_leaders: Mapping[BrokerId, Endpoint] = field(default_factory=dict)

    def leaders_first(self, broker_id: BrokerId) -> Iterator[tuple[LeaderAndIsrTopic, LeaderAndIsrPartition]]:
        """Yield the states that make this broker a leader, then the others, as Kafka does: followers elsewhere fetch from it soon."""
        for leads in (True, False):
            for topic in self.topics:
                for state in topic.partitions:
                    if (state.leader == broker_id) is leads:
                        yield topic, state


@dataclass(slots=True)
class PartitionMetadata:
    """A partition's metadata for clients; its lists go into responses without a copy."""

    leader: BrokerId
    leader_epoch: int
    isr: list[BrokerId]
    replicas: list[BrokerId]
    offline_replicas: list[BrokerId]
    partition_epoch: int
    controller_epoch: int


@dataclass(frozen=True, slots=True)
class UpdateMetadataTopic:
    """Partitions of a topic by index; `deleted` are those to be removed because the topic is being deleted."""

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
    """Changed partitions, and all live brokers."""

    topics: Sequence[UpdateMetadataTopic]
    brokers: Sequence[LiveBroker]


@dataclass(frozen=True, slots=True)
class MetadataDigests(ControlRequest):
    """A question for the digests of the broker's metadata, in so many buckets (`metadata_digests`)."""

    buckets: int


@dataclass(slots=True)
class StopReplicaPartition:
    """A replica to be stopped unless it has a later leader epoch, and deleted if `delete` is set."""

    leader_epoch: int
    delete: bool


@dataclass(frozen=True, slots=True)
class StopReplica(ControlRequest):
    """Stop replicas of a broker."""

    partitions: Mapping[TopicPartition, StopReplicaPartition]


@dataclass(frozen=True, slots=True)
class Command:
    """A request for one broker."""

    broker_id: BrokerId
    request: ControlRequest
