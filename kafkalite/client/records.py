"""What producers and consumers hand to their callers: frozen records and results, each with `.to_dict()`."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from kafkalite.types import TopicPartition

Header = tuple[str, bytes | None]

CREATE_TIME = 0
LOG_APPEND_TIME = 1


class _ConsumerRecordFields:
    """The memory of a `ConsumerRecord`; see `ConsumerRecordDraft`."""

    __slots__ = (
        "headers",
        "key",
        "leader_epoch",
        "offset",
        "partition",
        "timestamp",
        "timestamp_type",
        "topic",
        "value",
    )


@dataclass(frozen=True)
class ConsumerRecord(_ConsumerRecordFields):
    """One record as it was read.

    `timestamp` is in ms since 1970 UTC, `timestamp_type` is CREATE_TIME (0) or LOG_APPEND_TIME (1). `key` and `value` are what
    the consumer's deserializers made of the bytes; None stands for null. `headers` keeps order and duplicates; () for none.
    """

    __slots__ = ()

    topic: str
    partition: int
    offset: int
    timestamp: int
    timestamp_type: int
    key: Any
    value: Any
    headers: Sequence[Header]
    leader_epoch: int

    @property
    def topic_partition(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)

    def to_dict(self) -> dict[str, Any]:
        return {field: getattr(self, field) for field in self.__dataclass_fields__}

    def __reduce__(self) -> tuple[type[ConsumerRecord], tuple[Any, ...]]:
        return ConsumerRecord, tuple(self.to_dict().values())


class ConsumerRecordDraft(_ConsumerRecordFields):
    """A `ConsumerRecord` under construction: the same memory, plain attributes, no constructor.

    Setting the nine fields of a frozen dataclass takes longer than decoding the record, so records are filled as drafts and
    become `ConsumerRecord` by assigning `__class__`, which Python allows because the two have the same layout. It sees that soonest
    when both inherit their slots from one class, instead of comparing the names one by one for each record.
    """

    __slots__ = ()

    topic: str
    partition: int
    offset: int
    timestamp: int
    timestamp_type: int
    key: Any
    value: Any
    headers: Sequence[Header]
    leader_epoch: int


@dataclass(frozen=True, slots=True)
class RecordMetadata:
    """Where a produced record is. `offset` is -1 when the broker did not say (acks=0)."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    timestamp_type: int

    @property
    def topic_partition(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)

    def to_dict(self) -> dict[str, Any]:
        return dataclasses.asdict(self)


@dataclass(frozen=True, slots=True)
class OffsetAndTimestamp:
    """The answer to a search by time: the first offset whose timestamp (ms) is at or after the one asked for."""

    offset: int
    timestamp: int
    leader_epoch: int = -1

    def to_dict(self) -> dict[str, Any]:
        return dataclasses.asdict(self)


@dataclass(frozen=True, slots=True)
class OffsetAndMetadata:
    """A committed position: the offset of the next record to read, and a note of the program's. The leader epoch is -1 when unknown."""

    offset: int
    metadata: str = ""
    leader_epoch: int = -1

    def to_dict(self) -> dict[str, Any]:
        return dataclasses.asdict(self)
