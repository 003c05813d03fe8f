"""What clients did and saw while a cluster was tormented: the events of a history, from which `judge` decides.

A history is a list of events in the order in which they were recorded. An operation is invoked, and then ends as acknowledged, failed (it
certainly had no effect) or unknown (nobody answered: it may have had its effect, once or more often, also later); one that never ends is
unknown too. A record is known by who sent it and a number that counts the records of that producer in that partition from 0;
`Value.to_bytes` puts both into the record. Moments are nanoseconds of one monotonic clock.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple, TypeAlias

UNKNOWN_OFFSET: Final = -1
"""Of an acknowledgement without an offset: the broker knew the record as one it had, but not where."""
NO_OFFSET: Final = -1
"""Of a group that has committed nothing in a partition."""
UNKNOWN_GENERATION: Final = -1
"""Of a member whose client does not tell."""


class Value(NamedTuple):
    """One record of a history: `number` counts what `producer` sent to the record's partition."""

    producer: str
    number: int

    def to_bytes(self, size_bytes: int = 0) -> bytes:
        """Return the record's value, filled up to `size_bytes`."""
        return f"{self.producer}:{self.number}:".encode().ljust(size_bytes, b".")

    @classmethod
    def from_bytes(cls, data: bytes | None) -> Value:
        """Return what `to_bytes` wrote; anything else becomes a value that no producer sent."""
        producer, _, rest = (data or b"").decode(errors="replace").partition(":")
        number = rest.partition(":")[0]
        return cls(producer, int(number)) if number.isdecimal() else cls(f"?{data!r}", -1)


@dataclass(frozen=True, slots=True)
class HistoryEvent:
    """Something that happened, or was seen, at a moment."""

    at_ns: int


@dataclass(frozen=True, slots=True)
class ProducerStarted(HistoryEvent):
    """A producer and what it was configured for; `acks` is -1 for all.

    `retries_after_ms`: an acknowledgement that came sooner than this after the send cannot be that of a second attempt.
    """

    producer: str
    acks: int
    idempotent: bool
    retries_after_ms: int


@dataclass(frozen=True, slots=True)
class SendEvent(HistoryEvent):
    """A step of one send."""

    topic: str
    partition: int
    producer: str
    number: int


@dataclass(frozen=True, slots=True)
class SendInvoked(SendEvent):
    """The producer was given the record."""


@dataclass(frozen=True, slots=True)
class SendAcknowledged(SendEvent):
    """`offset` may be UNKNOWN_OFFSET."""

    offset: int


@dataclass(frozen=True, slots=True)
class SendFailed(SendEvent):
    """The record was certainly not appended."""

    error: str


@dataclass(frozen=True, slots=True)
class SendUnknown(SendEvent):
    """The producer gave up; the record may have been appended, once or more often."""

    error: str


@dataclass(frozen=True, slots=True)
class ReaderStarted(HistoryEvent):
    """What a reader is; one without this event is in no group and reads uncommitted records. `group` may be empty."""

    reader: str
    group: str
    read_committed: bool


@dataclass(frozen=True, slots=True)
class RecordRead(HistoryEvent):
    """`reader` names one position that only moves forward: a consumer that was assigned the partition once."""

    reader: str
    topic: str
    partition: int
    offset: int
    producer: str
    number: int


@dataclass(frozen=True, slots=True)
class Drained(HistoryEvent):
    """After all sends had ended, `reader` read the whole partition: every record from `start_offset` up to `end_offset`."""

    reader: str
    topic: str
    partition: int
    start_offset: int
    end_offset: int


@dataclass(frozen=True, slots=True)
class RecordsDeleted(HistoryEvent):
    """Somebody had the records before `before_offset` deleted: they may be gone, or there still."""

    topic: str
    partition: int
    before_offset: int


@dataclass(frozen=True, slots=True)
class LeaderSeen(HistoryEvent):
    """`observer` names one source whose knowledge only grows: ZooKeeper, or one run of one broker."""

    observer: str
    topic: str
    partition: int
    leader_epoch: int
    leader: int


@dataclass(frozen=True, slots=True)
class HighWatermarkSeen(HistoryEvent):
    """`observer` names one connection; the leader answered as leader in `leader_epoch`. A last stable offset of -1 was not told."""

    observer: str
    topic: str
    partition: int
    leader_epoch: int
    high_watermark: int
    last_stable_offset: int = -1


class ReplicaBatch(NamedTuple):
    """One record batch as it lies in a replica's segment; `digest` is that of all its bytes."""

    base_offset: int
    leader_epoch: int
    crc: int
    size_bytes: int
    digest: bytes


@dataclass(frozen=True, slots=True)
class ReplicaLog(HistoryEvent):
    """All batches of a broker's replica, when nothing was written any more."""

    broker: int
    topic: str
    partition: int
    batches: tuple[ReplicaBatch, ...]


@dataclass(frozen=True, slots=True)
class SegmentChecked(HistoryEvent):
    """A file of a replica was read back by itself (`storage.inspection`); `faults` is what is wrong with it."""

    broker: int
    topic: str
    partition: int
    file: str
    faults: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class StateChanged(HistoryEvent):
    """A line for the reader of a violation: what a broker or ZooKeeper said about its state. No rule looks at it."""

    source: str
    text: str


# groups


@dataclass(frozen=True, slots=True)
class PartitionAssigned(HistoryEvent):
    """A member was given a partition. `generation` may be UNKNOWN_GENERATION."""

    group: str
    member: str
    generation: int
    topic: str
    partition: int


@dataclass(frozen=True, slots=True)
class CommitEvent(HistoryEvent):
    """A step of a member's commit. `number` counts them; a commit of several partitions is invoked by several events with one number."""

    group: str
    member: str
    number: int


@dataclass(frozen=True, slots=True)
class CommitInvoked(CommitEvent):
    """The member asks for one partition of a commit."""

    topic: str
    partition: int
    offset: int


@dataclass(frozen=True, slots=True)
class CommitAcknowledged(CommitEvent):
    """`generation` is that in which it was sent, UNKNOWN_GENERATION when the member may have changed it meanwhile."""

    generation: int


@dataclass(frozen=True, slots=True)
class CommitFailed(CommitEvent):
    """The coordinator refused it: nothing was committed."""

    error: str


@dataclass(frozen=True, slots=True)
class CommitGivenUp(CommitEvent):
    """Its fate stays unknown. It was sent in no later generation than this one, so it has no effect once a later one has committed."""

    generation: int


@dataclass(frozen=True, slots=True)
class OffsetFetched(HistoryEvent):
    """What OffsetFetch said, NO_OFFSET for nothing; asked after `asked_ns`, answered before `at_ns`. Several may ask at the same time."""

    asked_ns: int
    observer: str
    group: str
    topic: str
    partition: int
    offset: int


# transactions


@dataclass(frozen=True, slots=True)
class TransactionEvent(HistoryEvent):
    """A step of a transaction. `transaction` counts those of `producer`, which is one client process with one transactional id."""

    producer: str
    transaction: int


@dataclass(frozen=True, slots=True)
class TransactionBegun(TransactionEvent):
    """The producer began it."""


@dataclass(frozen=True, slots=True)
class TransactionSend(TransactionEvent):
    """The record is part of the transaction; its SendInvoked follows."""

    topic: str
    partition: int
    number: int


@dataclass(frozen=True, slots=True)
class TransactionOffset(TransactionEvent):
    """The transaction commits this offset of a group."""

    group: str
    topic: str
    partition: int
    offset: int


@dataclass(frozen=True, slots=True)
class TransactionEndInvoked(TransactionEvent):
    """The producer asks for a commit, or else for an abort."""

    commits: bool


@dataclass(frozen=True, slots=True)
class TransactionCommitted(TransactionEvent):
    """EndTxn was answered."""


@dataclass(frozen=True, slots=True)
class TransactionAborted(TransactionEvent):
    """Certainly: EndTxn was answered, or its producer was fenced before it had asked for a commit."""


# the cluster


@dataclass(frozen=True, slots=True)
class ControllerElected(HistoryEvent):
    """`zxid` is the order in which ZooKeeper took things; a broker claimed the seat and this controller epoch."""

    zxid: int
    broker: int
    controller_epoch: int


@dataclass(frozen=True, slots=True)
class ControllerWrote(HistoryEvent):
    """A write of what only controllers write, in a controller epoch; `broker` is -1 when it is unknown."""

    zxid: int
    broker: int
    controller_epoch: int
    path: str


@dataclass(frozen=True, slots=True)
class Served(HistoryEvent):
    """Once everything was healed, `what` was asked for: how long it took and may have taken. `error` is empty when it went well."""

    what: str
    took_ms: int
    bound_ms: int
    error: str


@dataclass(frozen=True, slots=True)
class ResourceSeen(HistoryEvent):
    """How many of `resource` (files, tasks, waiting requests, watches) a process has; first its baseline, then what it came back to."""

    process: str
    resource: str
    is_baseline: bool
    count: int
    slack: int


Event: TypeAlias = (
    ProducerStarted
    | SendInvoked
    | SendAcknowledged
    | SendFailed
    | SendUnknown
    | ReaderStarted
    | RecordRead
    | Drained
    | RecordsDeleted
    | LeaderSeen
    | HighWatermarkSeen
    | ReplicaLog
    | SegmentChecked
    | StateChanged
    | PartitionAssigned
    | CommitInvoked
    | CommitAcknowledged
    | CommitFailed
    | CommitGivenUp
    | OffsetFetched
    | TransactionBegun
    | TransactionSend
    | TransactionOffset
    | TransactionEndInvoked
    | TransactionCommitted
    | TransactionAborted
    | ControllerElected
    | ControllerWrote
    | Served
    | ResourceSeen
)
