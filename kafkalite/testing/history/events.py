"""What clients did and saw while a cluster was tormented: events, and the files that keep them.

A history is a list of events in the order in which they were recorded; `kafkalite.testing.history.judge` decides whether it is one
that the promises of the cluster allow. A file of it is a row of msgpack values: the header `["kafkalite-history", 1]`,
then one array `[name of the event's class, field, ...]` per event. `read_history` gives the events of such a file, also
when its end was cut off by the death of the writer.

A record is known by who sent it and a number that counts the records of that producer in that partition from 0;
`Value.to_bytes` puts both into the record. Moments are nanoseconds of one monotonic clock.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias

import msgpack  # type: ignore[import-untyped]

FORMAT: Final = "kafkalite-history"
VERSION: Final = 1
UNKNOWN_OFFSET: Final = -1
"""Of an acknowledgement without an offset: the broker knew the record as one it had, but not where."""


class Value(NamedTuple):
    """One record of a history: `number` counts what `producer` sent to the record's partition."""

    producer: str
    number: int

    def to_bytes(self, size_bytes: int = 0) -> bytes:
        """The record's value, filled up to `size_bytes`."""
        return f"{self.producer}:{self.number}:".encode().ljust(size_bytes, b".")

    @classmethod
    def from_bytes(cls, data: bytes | None) -> Value:
        """What `to_bytes` wrote; anything else becomes a value that no producer sent."""
        producer, _, rest = (data or b"").decode(errors="replace").partition(":")
        number = rest.partition(":")[0]
        return cls(producer, int(number)) if number.isdecimal() else cls(f"?{data!r}", -1)


@dataclass(frozen=True, slots=True)
class ProducerStarted:
    """A producer and what it was configured for; `acks` is -1 for all.

    `retries_after_ms`: an acknowledgement that came sooner than this after the send cannot be that of a second attempt.
    """

    at_ns: int
    producer: str
    acks: int
    idempotent: bool
    retries_after_ms: int


@dataclass(frozen=True, slots=True)
class SendInvoked:
    at_ns: int
    topic: str
    partition: int
    producer: str
    number: int


@dataclass(frozen=True, slots=True)
class SendAcknowledged:
    """`offset` may be UNKNOWN_OFFSET."""

    at_ns: int
    topic: str
    partition: int
    producer: str
    number: int
    offset: int


@dataclass(frozen=True, slots=True)
class SendFailed:
    """The record was certainly not appended."""

    at_ns: int
    topic: str
    partition: int
    producer: str
    number: int
    error: str


@dataclass(frozen=True, slots=True)
class SendUnknown:
    """The producer gave up; the record may have been appended, once or more often."""

    at_ns: int
    topic: str
    partition: int
    producer: str
    number: int
    error: str


@dataclass(frozen=True, slots=True)
class RecordRead:
    """`reader` names one position that only moves forward: a consumer that was assigned the partition once."""

    at_ns: int
    reader: str
    topic: str
    partition: int
    offset: int
    producer: str
    number: int


@dataclass(frozen=True, slots=True)
class Drained:
    """After all sends had ended, `reader` read the whole partition: every record from `start_offset` up to `end_offset`."""

    at_ns: int
    reader: str
    topic: str
    partition: int
    start_offset: int
    end_offset: int


@dataclass(frozen=True, slots=True)
class LeaderSeen:
    """`observer` names one source whose knowledge only grows: ZooKeeper, or one run of one broker."""

    at_ns: int
    observer: str
    topic: str
    partition: int
    leader_epoch: int
    leader: int


@dataclass(frozen=True, slots=True)
class HighWatermarkSeen:
    """`observer` names one connection; the leader answered as leader in `leader_epoch`."""

    at_ns: int
    observer: str
    topic: str
    partition: int
    leader_epoch: int
    high_watermark: int


class ReplicaBatch(NamedTuple):
    """One record batch as it lies in a replica's segment; `digest` is that of all its bytes."""

    base_offset: int
    leader_epoch: int
    crc: int
    size_bytes: int
    digest: bytes


@dataclass(frozen=True, slots=True)
class ReplicaLog:
    """All batches of a broker's replica, when nothing was written any more."""

    at_ns: int
    broker: int
    topic: str
    partition: int
    batches: tuple[ReplicaBatch, ...]


Event: TypeAlias = (
    ProducerStarted
    | SendInvoked
    | SendAcknowledged
    | SendFailed
    | SendUnknown
    | RecordRead
    | Drained
    | LeaderSeen
    | HighWatermarkSeen
    | ReplicaLog
)
_KINDS: Final[dict[str, type[Any]]] = {kind.__name__: kind for kind in Event.__args__}
_FIELDS: Final = {name: tuple(field.name for field in fields(kind)) for name, kind in _KINDS.items()}


def write_history(path: Path, events: Iterable[Event]) -> None:
    """Write a history's file, over one that is there."""
    packer = msgpack.Packer()
    with path.open("wb") as file:
        file.write(packer.pack([FORMAT, VERSION]))
        for event in events:
            name = type(event).__name__
            file.write(packer.pack([name, *(getattr(event, field) for field in _FIELDS[name])]))


def read_history(path: Path) -> list[Event]:
    """The events of a file; an unfinished last one is left out. Raises ValueError when it is no history."""
    with path.open("rb") as file:
        rows = iter(msgpack.Unpacker(file, use_list=False))
        try:
            header = next(rows, None)
            if header != (FORMAT, VERSION):
                raise ValueError(f"{path} is no history: it begins with {header!r}")
            return [_event(row, path) for row in rows]
        except (msgpack.UnpackException, TypeError) as problem:
            raise ValueError(f"{path} is no history: {problem}") from problem


def _event(row: Sequence[Any], path: Path) -> Event:
    kind = _KINDS.get(row[0])
    if kind is None:
        raise ValueError(f"{path} holds an event {row[0]!r} that is not known")
    if kind is ReplicaLog:
        row = (*row[:-1], tuple(ReplicaBatch(*batch) for batch in row[-1]))
    event: Event = kind(*row[1:])
    return event
