"""What all partitions of a broker share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from kafkalite.broker.replication.action_queue import ActionQueue
from kafkalite.types import BrokerId, TopicPartition


class CountedPartition(Protocol):
    """A partition, as far as it is counted."""

    topic_partition: TopicPartition
    is_counted: bool

    @property
    def is_leader(self) -> bool: ...

    @property
    def is_under_replicated(self) -> bool: ...

    @property
    def is_under_min_isr(self) -> bool: ...


@dataclass(slots=True)
class PartitionHost:
    """A broker, as its partitions know it. `is_eligible(broker)` is True if a broker may join an ISR: metadata knows it as alive."""

    broker_id: BrokerId
    lag_max_ms: float
    is_eligible: Callable[[BrokerId], bool]
    actions: ActionQueue = field(default_factory=ActionQueue)
    unsettled: dict[TopicPartition, None] = field(default_factory=dict)
    """Partitions to look at: time alone may change the ISR or the high watermark, or the log grew. They add themselves, `Replicas`
    removes them."""
    leaders: int = 0
    under_replicated: dict[TopicPartition, CountedPartition] = field(default_factory=dict)
    """Led partitions whose ISR lacks replicas. Every partition below min.insync.replicas is one of them."""

    def count(self, partition: CountedPartition) -> None:
        """Count a partition whose leader, ISR or replicas have changed."""
        leads = partition.is_leader
        if leads is not partition.is_counted:
            partition.is_counted = leads
            self.leaders += 1 if leads else -1
        if partition.is_under_replicated:
            self.under_replicated[partition.topic_partition] = partition
        elif self.under_replicated:
            self.under_replicated.pop(partition.topic_partition, None)

    def statistics(self) -> dict[str, int]:
        """Return how many partitions are led, and how many of those lack replicas in sync."""
        return {
            "leaders": self.leaders,
            "under_replicated": len(self.under_replicated),
            "under_min_isr": sum(each.is_under_min_isr for each in self.under_replicated.values()),
        }
