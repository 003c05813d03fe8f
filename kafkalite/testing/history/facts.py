"""A history in the shape that the rules want: what became of each operation, by partition, group and transaction."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, NamedTuple

from kafkalite.testing.history.events import (
    UNKNOWN_GENERATION,
    CommitAcknowledged,
    CommitEvent,
    CommitGivenUp,
    CommitInvoked,
    ControllerElected,
    ControllerWrote,
    Drained,
    Event,
    HighWatermarkSeen,
    LeaderSeen,
    OffsetFetched,
    PartitionAssigned,
    ProducerStarted,
    ReaderStarted,
    RecordRead,
    RecordsDeleted,
    ReplicaBatch,
    ReplicaLog,
    ResourceSeen,
    SegmentChecked,
    SendAcknowledged,
    SendEvent,
    SendFailed,
    SendInvoked,
    Served,
    StateChanged,
    TransactionBegun,
    TransactionCommitted,
    TransactionEndInvoked,
    TransactionEvent,
    TransactionOffset,
    TransactionSend,
    Value,
)
from kafkalite.types import TopicPartition

ACKS_ALL: Final = -1


class Outcome(Enum):
    """UNKNOWN also for what has not ended."""

    UNKNOWN = "unknown"
    OK = "ok"
    FAILED = "failed"


@dataclass
class Sent:
    """What became of one send."""

    invoked_ns: int
    ended_ns: int | None = None
    offset: int | None = None
    failed: bool = False


@dataclass
class Commit:
    """One partition of a commit of offsets; `ended_ns` is the moment of its acknowledgement or refusal.

    `generation` is that in which it was sent; of one of unknown fate the latest in which it may have been.
    """

    member: str
    offset: int
    invoked_ns: int
    outcome: Outcome = Outcome.UNKNOWN
    ended_ns: int | None = None
    generation: int = UNKNOWN_GENERATION


class GroupPartition(NamedTuple):
    """What a group did in a partition."""

    group: str
    partition: TopicPartition

    def __str__(self) -> str:
        return f"{self.group} {self.partition}"


@dataclass
class GroupFacts:
    commits: list[Commit] = field(default_factory=list)
    fetches: list[OffsetFetched] = field(default_factory=list)
    assigned: list[PartitionAssigned] = field(default_factory=list)


@dataclass
class Transaction:
    """`outcome` OK is a commit, FAILED an abort; `end_invoked_ns` is when a commit was asked for."""

    producer: str
    number: int
    values: list[tuple[TopicPartition, Value]] = field(default_factory=list)
    offsets: list[TransactionOffset] = field(default_factory=list)
    end_invoked_ns: int | None = None
    outcome: Outcome = Outcome.UNKNOWN
    ended_ns: int | None = None

    def __str__(self) -> str:
        return f"transaction {self.number} of {self.producer}"


@dataclass
class PartitionFacts:
    """The events of one partition."""

    name: TopicPartition
    sent: dict[Value, Sent] = field(default_factory=dict)
    readers: dict[str, list[RecordRead]] = field(default_factory=lambda: defaultdict(list))
    drains: list[Drained] = field(default_factory=list)
    committed_drains: list[Drained] = field(default_factory=list)
    leaders: list[LeaderSeen] = field(default_factory=list)
    high_watermarks: list[HighWatermarkSeen] = field(default_factory=list)
    replicas: dict[int, tuple[ReplicaBatch, ...]] = field(default_factory=dict)
    segments: list[SegmentChecked] = field(default_factory=list)
    deleted_before: int = 0

    def list_drained(self, *, committed: bool = False) -> list[tuple[int, Value]]:
        """Return offsets and records of the last drain, ascending: the one that read everything, or the one of committed records."""
        drains = self.committed_drains if committed else self.drains
        reads = self.readers.get(drains[-1].reader, ()) if drains else ()
        return sorted((read.offset, Value(read.producer, read.number)) for read in reads)


@dataclass
class Facts:
    """The outcome of every operation of a history, by partition, group and transaction."""

    producers: dict[str, ProducerStarted] = field(default_factory=dict)
    readers: dict[str, ReaderStarted] = field(default_factory=dict)
    partitions: dict[TopicPartition, PartitionFacts] = field(default_factory=dict)
    groups: dict[GroupPartition, GroupFacts] = field(default_factory=lambda: defaultdict(GroupFacts))
    transactions: dict[tuple[str, int], Transaction] = field(default_factory=dict)
    elections: list[ControllerElected] = field(default_factory=list)
    controller_writes: list[ControllerWrote] = field(default_factory=list)
    served: list[Served] = field(default_factory=list)
    resources: dict[tuple[str, str], list[ResourceSeen]] = field(default_factory=lambda: defaultdict(list))
    _commits: dict[tuple[str, str, int], list[Commit]] = field(default_factory=lambda: defaultdict(list))

    def is_promised(self, value: Value) -> bool:
        """True if an acknowledgement of this record promises anything: its producer has acks=all."""
        producer = self.producers.get(value.producer)
        return producer is not None and producer.acks == ACKS_ALL

    def reads_committed(self, reader: str) -> bool:
        started = self.readers.get(reader)
        return started is not None and started.read_committed

    def partition(self, topic: str, partition: int) -> PartitionFacts:
        name = TopicPartition(topic, partition)
        found = self.partitions.get(name)
        if found is None:
            found = self.partitions[name] = PartitionFacts(name)
        return found

    def _add_to_partition(
        self,
        event: SendEvent
        | RecordRead
        | Drained
        | RecordsDeleted
        | LeaderSeen
        | HighWatermarkSeen
        | ReplicaLog
        | SegmentChecked,
    ) -> None:
        partition = self.partition(event.topic, event.partition)
        if isinstance(event, RecordRead):
            partition.readers[event.reader].append(event)
        elif isinstance(event, SendInvoked):
            partition.sent[Value(event.producer, event.number)] = Sent(event.at_ns)
        elif isinstance(event, SendEvent):
            _end_send(partition, event)
        elif isinstance(event, Drained):
            (partition.committed_drains if self.reads_committed(event.reader) else partition.drains).append(event)
        elif isinstance(event, RecordsDeleted):
            partition.deleted_before = max(partition.deleted_before, event.before_offset)
        elif isinstance(event, LeaderSeen):
            partition.leaders.append(event)
        elif isinstance(event, HighWatermarkSeen):
            partition.high_watermarks.append(event)
        elif isinstance(event, SegmentChecked):
            partition.segments.append(event)
        else:
            partition.replicas[event.broker] = event.batches

    def _add_to_group(self, event: CommitInvoked | OffsetFetched | PartitionAssigned) -> None:
        facts = self.groups[GroupPartition(event.group, TopicPartition(event.topic, event.partition))]
        if isinstance(event, OffsetFetched):
            facts.fetches.append(event)
        elif isinstance(event, PartitionAssigned):
            facts.assigned.append(event)
        else:
            commit = Commit(event.member, event.offset, event.at_ns)
            facts.commits.append(commit)
            self._commits[event.group, event.member, event.number].append(commit)

    def _end_commit(self, event: CommitEvent) -> None:
        commits = self._commits.get((event.group, event.member, event.number))
        if commits is None:
            raise ValueError(f"commit {event.number} of {event.member} in {event.group} ended without having begun")
        for commit in commits:
            if not isinstance(event, CommitGivenUp):
                commit.outcome = Outcome.OK if isinstance(event, CommitAcknowledged) else Outcome.FAILED
                commit.ended_ns = event.at_ns
            if isinstance(event, CommitAcknowledged | CommitGivenUp):
                commit.generation = event.generation

    def _add_to_transaction(self, event: TransactionEvent) -> None:
        key = event.producer, event.transaction
        if isinstance(event, TransactionBegun):
            self.transactions[key] = Transaction(*key)
            return
        transaction = self.transactions.get(key)
        if transaction is None:
            raise ValueError(f"transaction {event.transaction} of {event.producer} went on without having begun")
        if isinstance(event, TransactionSend):
            value = Value(event.producer, event.number)
            transaction.values.append((TopicPartition(event.topic, event.partition), value))
        elif isinstance(event, TransactionOffset):
            transaction.offsets.append(event)
        elif isinstance(event, TransactionEndInvoked):
            transaction.end_invoked_ns = event.at_ns if event.commits else None
        else:
            transaction.outcome = Outcome.OK if isinstance(event, TransactionCommitted) else Outcome.FAILED
            transaction.ended_ns = event.at_ns


def facts_of(events: Iterable[Event]) -> Facts:
    """Return the facts of a history. Raises ValueError for one that cannot be: an end of what did not begin."""
    facts = Facts()
    for event in events:
        if isinstance(event, ProducerStarted):
            facts.producers[event.producer] = event
        elif isinstance(event, ReaderStarted):
            facts.readers[event.reader] = event
        elif isinstance(event, CommitInvoked | OffsetFetched | PartitionAssigned):
            facts._add_to_group(event)
        elif isinstance(event, CommitEvent):
            facts._end_commit(event)
        elif isinstance(event, TransactionEvent):
            facts._add_to_transaction(event)
        elif isinstance(event, ControllerElected):
            facts.elections.append(event)
        elif isinstance(event, ControllerWrote):
            facts.controller_writes.append(event)
        elif isinstance(event, Served):
            facts.served.append(event)
        elif isinstance(event, ResourceSeen):
            facts.resources[event.process, event.resource].append(event)
        elif not isinstance(event, StateChanged):
            facts._add_to_partition(event)
    return facts


def _end_send(partition: PartitionFacts, event: SendEvent) -> None:
    value = Value(event.producer, event.number)
    sent = partition.sent.get(value)
    if sent is None:
        raise ValueError(f"{partition.name}: {value} ended without having begun")
    if isinstance(event, SendAcknowledged | SendFailed):
        sent.ended_ns = event.at_ns
    if isinstance(event, SendFailed):
        sent.failed = True
    elif isinstance(event, SendAcknowledged):
        sent.offset = event.offset
