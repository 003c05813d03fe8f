"""What all partitions of a broker share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from kafkalite.broker.replication.action_queue import ActionQueue
from kafkalite.types import BrokerId, TopicPartition


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
