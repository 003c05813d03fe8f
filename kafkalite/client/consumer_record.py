"""The record that consumers hand to their callers. Producers do without: the library that makes it takes a program 8 ms to load."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic

import msgspec

from kafkalite.client.records import Header
from kafkalite.types import TopicPartition

if TYPE_CHECKING:  # with a default (PEP 696), so that a record without parameters is one of Any
    from typing_extensions import TypeVar

    K = TypeVar("K", default=Any, covariant=True)
    V = TypeVar("V", default=Any, covariant=True)
else:
    from typing import TypeVar

    K = TypeVar("K")
    V = TypeVar("V")


@dataclass(frozen=True, init=False, repr=False, match_args=False)
class ConsumerRecord(msgspec.Struct, Generic[K, V], frozen=True, gc=False):
    """One record as it was read. `ConsumerRecord[str | None, Flight | None]` names the types of key and value for type checkers.

    `timestamp` is in ms since 1970 UTC, `timestamp_type` is CREATE_TIME (0) or LOG_APPEND_TIME (1). `key` and `value` are what
    the consumer's deserializers made of the bytes; None stands for null. `headers` keeps order and duplicates; () for none.

    A frozen dataclass in msgspec's memory: its constructor is compiled, and the garbage collector does not follow records. Both are
    felt, because a reader makes a million of them in a second. A value that is changed to refer to its own record is never freed.
    """

    topic: str
    partition: int
    offset: int
    timestamp: int
    timestamp_type: int
    key: K
    value: V
    headers: Sequence[Header]
    leader_epoch: int

    @property
    def topic_partition(self) -> TopicPartition:
        """Topic and partition as one."""
        return TopicPartition(self.topic, self.partition)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values under the names of the fields, for JSON and tables."""
        return {field: getattr(self, field) for field in self.__dataclass_fields__}
