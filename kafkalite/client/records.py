"""What records have beside keys and values, and what producers hand to their callers: frozen, with `.to_dict()`."""

from __future__ import annotations

from dataclasses import dataclass

from kafkalite.client.offsets import OffsetAndMetadata as OffsetAndMetadata
from kafkalite.client.offsets import OffsetAndTimestamp as OffsetAndTimestamp
from kafkalite.client.plain_values import PlainValues
from kafkalite.types import TopicPartition

Header = tuple[str, bytes | None]

CREATE_TIME = 0
LOG_APPEND_TIME = 1


@dataclass(frozen=True, slots=True)
class RecordMetadata(PlainValues):
    """Where a produced record is. `offset` is -1 when the broker did not say (acks=0)."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    timestamp_type: int

    @property
    def topic_partition(self) -> TopicPartition:
        """Topic and partition as one."""
        return TopicPartition(self.topic, self.partition)
