"""What a partition asks of others, as data: that an ISR is written, and that somebody is told once records are committed."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import Final

from kafkalite.broker.replication.action_queue import Done
from kafkalite.types import BrokerId, TopicPartition


@dataclass(frozen=True, slots=True)
class IsrChange:
    """An ISR that the leader wants written, conditional on `partition_epoch` (the znode's version)."""

    topic_partition: TopicPartition
    topic_id: bytes
    leader_epoch: int
    partition_epoch: int
    controller_epoch: int
    isr: tuple[BrokerId, ...]
    reason: str


@dataclass(slots=True, eq=False)
class AckWait:
    """An acks=all append that waits for the high watermark to reach `required_offset`."""

    required_offset: int
    done: Done


NO_WAITS: Final[OrderedDict[AckWait, None]] = OrderedDict()
"""The waits of all partitions for which nothing waits; always empty."""
