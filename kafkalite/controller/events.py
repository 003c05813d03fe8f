"""The events of a controller under Kafka's names; the queue of `event_manager` holds nothing else.

Events of watches carry no data that was seen: their handlers read ZooKeeper again. Events of requests carry the request;
its result goes to the future that was queued with it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from kafkalite.controller.control_requests import StopReplica
from kafkalite.controller.requests import AlterPartition
from kafkalite.types import BrokerId, TopicPartition


@dataclass(frozen=True, slots=True)
class Event:
    """Base class of all events."""


# -- election; handled whether or not this broker is the active controller


@dataclass(frozen=True, slots=True)
class Startup(Event):
    """The broker is ready: watch /controller and try to be elected."""


@dataclass(frozen=True, slots=True)
class ControllerChange(Event):
    """/controller was created or changed."""


@dataclass(frozen=True, slots=True)
class Reelect(Event):
    """/controller was deleted, or a new ZooKeeper session began."""


@dataclass(frozen=True, slots=True)
class Expire(Event):
    """The ZooKeeper session ended: resign before anything else."""


# -- watches


@dataclass(frozen=True, slots=True)
class BrokerChange(Event):
    """The children of /brokers/ids changed."""


@dataclass(frozen=True, slots=True)
class BrokerModifications(Event):
    """A broker's registration changed, for example its endpoints."""

    broker_id: BrokerId


@dataclass(frozen=True, slots=True)
class TopicChange(Event):
    """The children of /brokers/topics changed."""


@dataclass(frozen=True, slots=True)
class PartitionModifications(Event):
    """A topic's assignment was rewritten."""

    topic: str


@dataclass(frozen=True, slots=True)
class TopicDeletion(Event):
    """Topics were marked for deletion."""


@dataclass(frozen=True, slots=True)
class LogDirEventNotification(Event):
    """A broker lost a log directory."""


@dataclass(frozen=True, slots=True)
class IsrChangeNotification(Event):
    """Leaders wrote ISRs to ZooKeeper (before KIP-497)."""


@dataclass(frozen=True, slots=True)
class ZkPartitionReassignment(Event):
    """/admin/reassign_partitions appeared or changed."""


@dataclass(frozen=True, slots=True)
class PartitionReassignmentIsrChange(Event):
    """The state of a partition that is being reassigned changed (before KIP-497)."""

    partition: TopicPartition


@dataclass(frozen=True, slots=True)
class ZkPreferredElection(Event):
    """/admin/preferred_replica_election appeared."""


# -- time


@dataclass(frozen=True, slots=True)
class AutoPreferredReplicaLeaderElection(Event):
    """The interval leader.imbalance.check.interval.seconds has passed."""


# -- dynamic configuration


@dataclass(frozen=True, slots=True)
class IsrsAltered(Event):
    """ISRs have changed of partitions under reassignment, or whose leaders had handed over before a restart."""


@dataclass(frozen=True, slots=True)
class MetadataWindowEnd(Event):
    """Metadata that waited since the last of its kind was published is due."""


@dataclass(frozen=True, slots=True)
class UncleanLeaderElectionEnable(Event):
    """Unclean elections were allowed for the whole cluster."""


@dataclass(frozen=True, slots=True)
class TopicUncleanLeaderElectionEnable(Event):
    """Unclean elections were allowed for one topic."""

    topic: str


# -- responses of brokers


@dataclass(frozen=True, slots=True)
class LeaderAndIsrResponseReceived(Event):
    """`error` is that of the whole request, `errors` those of partitions; `broker_epoch` is the incarnation that answered.

    `accepted` has the indexes of the partitions without an error by topic: they are many, and hardly ever looked at.
    """

    broker_id: BrokerId
    broker_epoch: int
    error: int
    errors: Mapping[TopicPartition, int]
    accepted: Mapping[str, Sequence[int]]

    def accepted_partitions(self) -> Iterator[TopicPartition]:
        """Yield the partitions without an error."""
        for topic, indexes in self.accepted.items():
            for index in indexes:
                yield TopicPartition(topic, index)


@dataclass(frozen=True, slots=True)
class StopReplicaResponseReceived(Event):
    """The response to `request`: `error` is that of the whole request, `errors` those of partitions."""

    broker_id: BrokerId
    broker_epoch: int
    request: StopReplica
    error: int
    errors: Mapping[TopicPartition, int]


# -- requests of brokers and clients


@dataclass(frozen=True, slots=True)
class AlterPartitionReceived(Event):
    """A leader proposes ISRs (KIP-497)."""

    request: AlterPartition


@dataclass(frozen=True, slots=True)
class ControlledShutdown(Event):
    """A broker is about to stop and moves its leaderships to others."""

    broker_id: BrokerId
    broker_epoch: int


@dataclass(frozen=True, slots=True)
class ControlledShutdowns(Event):
    """Several of them that were queued one behind the other."""

    together: tuple[ControlledShutdown, ...]


@dataclass(frozen=True, slots=True)
class AllocateProducerIds(Event):
    """A broker needs a block of producer ids."""

    broker_id: BrokerId
    broker_epoch: int


@dataclass(frozen=True, slots=True)
class ReplicaLeaderElection(Event):
    """ElectLeaders for `partitions`, None for all."""

    partitions: tuple[TopicPartition, ...] | None
    unclean: bool


@dataclass(frozen=True, slots=True)
class ApiPartitionReassignment(Event):
    """AlterPartitionReassignments: the target replicas by partition, None to cancel."""

    targets: dict[TopicPartition, tuple[BrokerId, ...] | None]


@dataclass(frozen=True, slots=True)
class ListPartitionReassignments(Event):
    """ListPartitionReassignments for `partitions`, None for all."""

    partitions: tuple[TopicPartition, ...] | None
