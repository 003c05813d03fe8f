"""What clients and brokers ask of the controller about topics and ISRs, and what it answers, as data.

Handlers make the one out of request messages and shape the other into responses. What one item of a request could not be granted is a
KafkaError in its place.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeAlias

from kafkalite.config.dynamic import ConfigEntry
from kafkalite.errors import ErrorCode, KafkaError
from kafkalite.types import NO_TOPIC_ID, BrokerId

NOT_GIVEN: Final = -1
"""As a count: the default of the cluster (KIP-464)."""

Charge: TypeAlias = Callable[[int], None]
"""Called with the number of partitions before they are created or deleted. KafkaError: the asking client may not have it done now."""


def free(partitions: int) -> None:
    """Anybody may create and delete as much as they like."""


class NewTopic(NamedTuple):
    """A topic to be created: counts, or the replicas of each partition by index, as they were given (an index may be there twice)."""

    name: str
    partition_count: int = NOT_GIVEN
    replication_factor: int = NOT_GIVEN
    assignments: tuple[tuple[int, tuple[BrokerId, ...]], ...] = ()
    configs: tuple[tuple[str, str | None], ...] = ()


class CreatedTopic(NamedTuple):
    """A topic that is in ZooKeeper now, or that could be; then it has no id."""

    topic_id: bytes
    partition_count: int
    replication_factor: int
    configs: tuple[ConfigEntry, ...]


@dataclass(frozen=True, slots=True)
class NewPartitions:
    """A topic shall have `count` partitions; `assignments` are the replicas of those that are added, None to have them chosen."""

    name: str
    count: int
    assignments: tuple[tuple[BrokerId, ...], ...] | None = None


class AlreadyMarkedForDeletion(KafkaError):
    """Raised for a topic whose deletion was asked for before: unknown to who no longer sees it, else deleted once more."""

    def __init__(self) -> None:
        super().__init__(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "This topic is being deleted.")


class TopicReference(NamedTuple):
    """A topic by name or by id; one of them."""

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
    """What the leader `broker_id`, in the life that `broker_epoch` names, proposes."""

    broker_id: BrokerId
    broker_epoch: int
    proposals: tuple[IsrProposal, ...]
