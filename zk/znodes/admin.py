"""Znodes by which tools and brokers ask the controller for something: below `/admin` and the notification paths."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, NamedTuple, Self

from zk.znodes.fields import Fields, to_json


class PartitionName(NamedTuple):
    """A partition of a topic; equal to, and hashed as, any other (topic, partition) tuple."""

    topic: str
    partition: int


@dataclass(frozen=True, slots=True)
class ReassignPartitions:
    """`/admin/reassign_partitions`: target replicas by partition, from tools before KIP-455. Version 1."""

    replicas: Mapping[PartitionName, tuple[int, ...]]

    def encode(self) -> bytes:
        partitions = [
            {"topic": topic, "partition": partition, "replicas": brokers}
            for (topic, partition), brokers in self.replicas.items()
        ]
        return to_json({"version": 1, "partitions": partitions})

    @classmethod
    def decode(cls, data: bytes) -> ReassignPartitions:
        """Raises MalformedZnodeError when an entry is incomplete; of a repeated partition the last entry counts."""
        fields = Fields.parse("reassign partitions", data)
        return cls({_partition_name(entry): entry.brokers("replicas") for entry in fields.objects("partitions")})


@dataclass(frozen=True, slots=True)
class _PartitionSet:
    """Partitions in the order written. Version 1."""

    kind: ClassVar[str]
    partitions: tuple[PartitionName, ...]

    def encode(self) -> bytes:
        partitions = [{"topic": topic, "partition": partition} for topic, partition in self.partitions]
        return to_json({"version": 1, "partitions": partitions})

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Decode the partitions. Raises MalformedZnodeError when an entry is incomplete."""
        fields = Fields.parse(cls.kind, data)
        return cls(tuple(_partition_name(entry) for entry in fields.objects("partitions")))


@dataclass(frozen=True, slots=True)
class PreferredElection(_PartitionSet):
    """`/admin/preferred_replica_election`: partitions whose preferred replica shall lead."""

    kind: ClassVar[str] = "preferred replica election"


@dataclass(frozen=True, slots=True)
class IsrChange(_PartitionSet):
    """`/isr_change_notification/isr_change_N`: partitions whose leaders changed the ISR (below 2.7-IV2)."""

    kind: ClassVar[str] = "ISR change"


@dataclass(frozen=True, slots=True)
class LogDirEvent:
    """`/log_dir_event_notification/log_dir_event_N`: a broker lost a log directory (KIP-112). Version 1, event 1."""

    broker_id: int

    def encode(self) -> bytes:
        return to_json({"version": 1, "broker": self.broker_id, "event": 1})

    @classmethod
    def decode(cls, data: bytes) -> LogDirEvent:
        """Raises MalformedZnodeError when the broker is missing."""
        return cls(Fields.parse("log directory event", data).integer("broker"))


def _partition_name(entry: Fields) -> PartitionName:
    return PartitionName(entry.text("topic"), entry.integer("partition"))
