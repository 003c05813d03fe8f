"""Requests of clients and brokers to the controller about topics and ISRs, and their results, as data.

Handlers build the requests from messages and turn the results into responses. The result of a refused item is a KafkaError.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeAlias

from kafkalite.config.dynamic import ConfigEntry
from kafkalite.errors import ErrorCode, KafkaError
from kafkalite.types import NO_TOPIC_ID, BrokerId

NOT_GIVEN: Final = -1
"""A count that stands for the cluster's default (KIP-464)."""

Charge: TypeAlias = Callable[[int], None]
"""Called with the number of partitions before they are created or deleted; raises KafkaError when the client's quota is used up."""


def free(partitions: int) -> None:
    """Charge nothing, for requests without a quota."""


class NewTopic(NamedTuple):
    """A topic to be created: counts, or replicas by partition index as given in the request, where an index may occur twice."""

    name: str
    partition_count: int = NOT_GIVEN
    replication_factor: int = NOT_GIVEN
    assignments: tuple[tuple[int, tuple[BrokerId, ...]], ...] = ()
    configs: tuple[tuple[str, str | None], ...] = ()


class CreatedTopic(NamedTuple):
    """A created topic; after a request that validates only it has NO_TOPIC_ID."""

    topic_id: bytes
    partition_count: int
    replication_factor: int
    configs: tuple[ConfigEntry, ...]


@dataclass(frozen=True, slots=True)
class NewPartitions:
    """A new total of `count` partitions for a topic; `assignments` are the replicas of the added ones, None for automatic placement."""

    name: str
    count: int
    assignments: tuple[tuple[BrokerId, ...], ...] | None = None


class AlreadyMarkedForDeletion(KafkaError):
    """Raised for a topic that is already queued for deletion."""

    def __init__(self) -> None:
        super().__init__(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "This topic is being deleted.")


class TopicReference(NamedTuple):
    """A topic by its name or by its id."""

    name: str | None = None
    topic_id: bytes = NO_TOPIC_ID


class IsrProposal(NamedTuple):
    """The ISR that a leader wants for one partition, conditional on the epochs (KIP-497)."""

    topic: TopicReference
    partition: int
    leader_epoch: int
    isr: tuple[BrokerId, ...]
    recovering: bool
    partition_epoch: int


class AlterPartition(NamedTuple):
    """Proposals of the leader `broker_id`; `broker_epoch` names its incarnation."""

    broker_id: BrokerId
    broker_epoch: int
    proposals: tuple[IsrProposal, ...]
