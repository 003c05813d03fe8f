"""Everything that can happen to a controller, as data; the queue of `loop` holds nothing else.

Watches and requests only enqueue. An event that is answered carries the request; the answer goes to the future that
was queued with it. Events say what to look at, not what was seen: their handlers read ZooKeeper afresh.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from kafkalite.controller.control_requests import StopReplica
from kafkalite.controller.requests import AlterPartition
from kafkalite.types import BrokerId, TopicPartition

# -- election; handled whether or not this broker is the active controller


@dataclass(frozen=True, slots=True)
class Startup:
    """The broker is ready: watch the seat, try to take it."""


@dataclass(frozen=True, slots=True)
class ControllerChange:
    """Somebody took the seat."""


@dataclass(frozen=True, slots=True)
class Reelect:
    """The seat may be free: it was vacated, or a new ZooKeeper session began."""


@dataclass(frozen=True, slots=True)
class Expire:
    """The session ended: resign before anything else."""


# -- watches


@dataclass(frozen=True, slots=True)
class BrokerChange:
    """Brokers came or went."""


@dataclass(frozen=True, slots=True)
class BrokerModifications:
    """A broker's registration changed, for example its endpoints."""

    broker_id: BrokerId


@dataclass(frozen=True, slots=True)
class TopicChange:
    """Topics came or went."""


@dataclass(frozen=True, slots=True)
class PartitionModifications:
    """A topic's assignment was rewritten."""

    topic: str


@dataclass(frozen=True, slots=True)
class TopicDeletion:
    """Topics were marked for deletion."""


@dataclass(frozen=True, slots=True)
class LogDirEventNotification:
    """A broker lost a log directory."""


@dataclass(frozen=True, slots=True)
class IsrChangeNotification:
    """Leaders changed ISRs in ZooKeeper themselves (before KIP-497)."""


@dataclass(frozen=True, slots=True)
class ZkPartitionReassignment:
    """/admin/reassign_partitions appeared or changed."""


@dataclass(frozen=True, slots=True)
class PartitionReassignmentIsrChange:
    """The state of a partition that is being reassigned changed (before KIP-497)."""

    partition: TopicPartition


@dataclass(frozen=True, slots=True)
class ZkPreferredElection:
    """/admin/preferred_replica_election appeared."""


# -- time


@dataclass(frozen=True, slots=True)
class AutoPreferredReplicaLeaderElection:
    """Time to see whether leaders are where they should be."""


# -- dynamic configuration


@dataclass(frozen=True, slots=True)
class UncleanLeaderElectionEnable:
    """Unclean elections were allowed for the whole cluster."""


@dataclass(frozen=True, slots=True)
class TopicUncleanLeaderElectionEnable:
    """Unclean elections were allowed for one topic."""

    topic: str


# -- answers of brokers


@dataclass(frozen=True, slots=True)
class LeaderAndIsrResponseReceived:
    """`error` is that of the whole request, `errors` those of partitions; `broker_epoch` names the incarnation that answered."""

    broker_id: BrokerId
    broker_epoch: int
    error: int
    errors: Mapping[TopicPartition, int]


@dataclass(frozen=True, slots=True)
class StopReplicaResponseReceived:
    """Likewise, to `request`."""

    broker_id: BrokerId
    broker_epoch: int
    request: StopReplica
    error: int
    errors: Mapping[TopicPartition, int]


# -- requests of brokers and clients


@dataclass(frozen=True, slots=True)
class AlterPartitionReceived:
    """A leader wants other ISRs."""

    request: AlterPartition


@dataclass(frozen=True, slots=True)
class ControlledShutdown:
    """A broker is about to stop and hands its partitions over."""

    broker_id: BrokerId
    broker_epoch: int


@dataclass(frozen=True, slots=True)
class AllocateProducerIds:
    """A broker needs a block of producer ids."""

    broker_id: BrokerId
    broker_epoch: int


@dataclass(frozen=True, slots=True)
class ReplicaLeaderElection:
    """ElectLeaders; None for `partitions` means all of them."""

    partitions: tuple[TopicPartition, ...] | None
    unclean: bool


@dataclass(frozen=True, slots=True)
class ApiPartitionReassignment:
    """AlterPartitionReassignments: the new replicas by partition, None to cancel."""

    targets: dict[TopicPartition, tuple[BrokerId, ...] | None]


@dataclass(frozen=True, slots=True)
class ListPartitionReassignments:
    """None for `partitions` means all of them."""

    partitions: tuple[TopicPartition, ...] | None


Event: TypeAlias = (
    Startup
    | ControllerChange
    | Reelect
    | Expire
    | BrokerChange
    | BrokerModifications
    | TopicChange
    | PartitionModifications
    | TopicDeletion
    | LogDirEventNotification
    | IsrChangeNotification
    | ZkPartitionReassignment
    | PartitionReassignmentIsrChange
    | ZkPreferredElection
    | AutoPreferredReplicaLeaderElection
    | UncleanLeaderElectionEnable
    | TopicUncleanLeaderElectionEnable
    | LeaderAndIsrResponseReceived
    | StopReplicaResponseReceived
    | AlterPartitionReceived
    | ControlledShutdown
    | AllocateProducerIds
    | ReplicaLeaderElection
    | ApiPartitionReassignment
    | ListPartitionReassignments
)
