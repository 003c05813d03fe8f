"""Does a history keep the promises of the cluster? One pure function per rule, numbered as usual for such judges.

    C1  an acknowledged record (acks=all) is in the final drain at exactly the offset of its acknowledgement
    C2  what is read was sent, and did not certainly fail
    C3  a record is there twice only if its producer, not an idempotent one, may have sent it twice
    C4  an offset holds one record, for all acknowledgements (acks=all), all readers, at all times
    C5  the records of a producer first appear in its order, in each partition
    C6  what is sent after an acknowledgement gets a higher offset
    C7  a reader's offsets increase, and it skips none that is there
    C8  the replicas' logs are the same, batch for batch and byte for byte
    C9  within a leader epoch the high watermark never goes back, and what it covered stays
    C10 an epoch has one leader, and nobody sees an epoch lower than one seen before

`Verdict.judged` counts what each rule looked at, so that a test can tell a good run from an empty one. A producer with acks
other than all is held to C2, C3 and C5 only: the cluster promised nothing about its acknowledgements.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from kafkalite.testing.history.events import (
    UNKNOWN_OFFSET,
    Drained,
    Event,
    HighWatermarkSeen,
    LeaderSeen,
    ProducerStarted,
    RecordRead,
    ReplicaBatch,
    SendAcknowledged,
    SendFailed,
    SendInvoked,
    SendUnknown,
    Value,
)
from kafkalite.types import NO_BROKER, TopicPartition

ACKS_ALL: Final = -1
_SHOWN: Final = 20


class Violation(NamedTuple):
    """One promise broken; `rule` is C1 to C10."""

    rule: str
    partition: TopicPartition
    text: str

    def __str__(self) -> str:
        return f"{self.rule} {self.partition}: {self.text}"


@dataclass(frozen=True)
class Verdict:
    """`judged` counts, per rule, the things that were held to it; `duplicates` are those that C3 allows."""

    violations: list[Violation]
    judged: dict[str, int]
    duplicates: int

    def __str__(self) -> str:
        counts = ", ".join(f"{rule} {count}" for rule, count in self.judged.items())
        if not self.violations:
            return f"kept: {counts}; {self.duplicates} duplicates by retries"
        shown = "\n".join(f"  {violation}" for violation in self.violations[:_SHOWN])
        return f"{len(self.violations)} violations ({counts}):\n{shown}"


@dataclass
class _Sent:
    """What became of one send."""

    invoked_ns: int
    ended_ns: int | None = None
    offset: int | None = None
    failed: bool = False


@dataclass
class _Partition:
    """The events of one partition, in the shape that the rules want."""

    name: TopicPartition
    sent: dict[Value, _Sent] = field(default_factory=dict)
    readers: dict[str, list[RecordRead]] = field(default_factory=lambda: defaultdict(list))
    drains: list[Drained] = field(default_factory=list)
    leaders: list[LeaderSeen] = field(default_factory=list)
    high_watermarks: list[HighWatermarkSeen] = field(default_factory=list)
    replicas: dict[int, tuple[ReplicaBatch, ...]] = field(default_factory=dict)

    def drained(self) -> list[tuple[int, Value]]:
        """Offsets and records of the last drain, ascending."""
        if not self.drains:
            return []
        return sorted(
            (read.offset, Value(read.producer, read.number)) for read in self.readers.get(self.drains[-1].reader, ())
        )


@dataclass
class _Facts:
    producers: dict[str, ProducerStarted] = field(default_factory=dict)
    partitions: dict[TopicPartition, _Partition] = field(default_factory=dict)

    def promised(self, value: Value) -> bool:
        """Does an acknowledgement of this record promise anything?"""
        producer = self.producers.get(value.producer)
        return producer is not None and producer.acks == ACKS_ALL


Findings = Iterator[str | None]
"""For each thing judged None when it is right, else what is wrong."""


def judge(events: Iterable[Event]) -> Verdict:
    """Hold a history to all rules. Raises ValueError for one that cannot be: an end of a send that did not begin."""
    facts = _facts(events)
    violations: list[Violation] = []
    judged: Counter[str] = Counter(dict.fromkeys(_RULES, 0))
    for rule, check in _RULES.items():
        for partition in facts.partitions.values():
            for finding in check(facts, partition):
                judged[rule] += 1
                if finding is not None:
                    violations.append(Violation(rule, partition.name, finding))
    duplicates = 0
    for partition in facts.partitions.values():
        times = Counter(value for _, value in partition.drained())
        duplicates += sum(count - 1 for count in times.values())
    return Verdict(violations, dict(judged), duplicates)


def _facts(events: Iterable[Event]) -> _Facts:
    facts = _Facts()
    for event in events:
        if isinstance(event, ProducerStarted):
            facts.producers[event.producer] = event
            continue
        name = TopicPartition(event.topic, event.partition)
        partition = facts.partitions.get(name)
        if partition is None:
            partition = facts.partitions[name] = _Partition(name)
        if isinstance(event, RecordRead):
            partition.readers[event.reader].append(event)
        elif isinstance(event, SendInvoked):
            partition.sent[Value(event.producer, event.number)] = _Sent(event.at_ns)
        elif isinstance(event, SendAcknowledged | SendFailed | SendUnknown):
            _end_send(partition, event)
        elif isinstance(event, Drained):
            partition.drains.append(event)
        elif isinstance(event, LeaderSeen):
            partition.leaders.append(event)
        elif isinstance(event, HighWatermarkSeen):
            partition.high_watermarks.append(event)
        else:
            partition.replicas[event.broker] = event.batches
    return facts


def _end_send(partition: _Partition, event: SendAcknowledged | SendFailed | SendUnknown) -> None:
    value = Value(event.producer, event.number)
    sent = partition.sent.get(value)
    if sent is None:
        raise ValueError(f"{partition.name}: {value} ended without having begun")
    if isinstance(event, SendUnknown):
        return
    sent.ended_ns = event.at_ns
    if isinstance(event, SendFailed):
        sent.failed = True
    else:
        sent.offset = event.offset


def _acknowledged_is_there(facts: _Facts, partition: _Partition) -> Findings:
    acknowledged = [(value, sent.offset) for value, sent in partition.sent.items() if sent.offset is not None]
    promised = [(value, offset) for value, offset in acknowledged if facts.promised(value)]
    if promised and not partition.drains:
        yield "records were acknowledged and the partition was not drained"
        return
    found = defaultdict(list)
    for offset, value in partition.drained():
        found[value].append(offset)
    for value, offset in promised:
        where = found.get(value, [])
        right = offset in where or (offset == UNKNOWN_OFFSET and where)
        yield None if right else f"{value} was acknowledged at {offset} and is found at {where}"


def _read_was_sent(facts: _Facts, partition: _Partition) -> Findings:
    for reader, reads in partition.readers.items():
        for read in reads:
            value = Value(read.producer, read.number)
            sent = partition.sent.get(value)
            if sent is None:
                yield f"{reader} read {value} at {read.offset}, which nobody sent"
            elif sent.failed:
                yield f"{reader} read {value} at {read.offset}, whose send had failed for certain"
            else:
                yield None


def _duplicates_are_retries(facts: _Facts, partition: _Partition) -> Findings:
    found = defaultdict(list)
    for offset, value in partition.drained():
        found[value].append(offset)
    for value, offsets in found.items():
        yield None if len(offsets) == 1 else _why_not_twice(facts, partition, value, offsets)


def _why_not_twice(facts: _Facts, partition: _Partition, value: Value, offsets: list[int]) -> str | None:
    producer, sent = facts.producers.get(value.producer), partition.sent.get(value)
    if producer is None or sent is None:
        return f"{value} is at {offsets} and was never sent"
    if producer.idempotent:
        return f"{value} of an idempotent producer is at {offsets}"
    if sent.ended_ns is not None and sent.ended_ns - sent.invoked_ns < producer.retries_after_ms * 1_000_000:
        took_ms = (sent.ended_ns - sent.invoked_ns) / 1_000_000
        return f"{value} is at {offsets} though its acknowledgement came after {took_ms:.0f} ms, before any retry"
    return None


def _offset_holds_one_record(facts: _Facts, partition: _Partition) -> Findings:
    holders: dict[int, dict[Value, str]] = defaultdict(dict)
    for value, sent in partition.sent.items():
        if sent.offset is not None and sent.offset != UNKNOWN_OFFSET and facts.promised(value):
            holders[sent.offset].setdefault(value, "an acknowledgement")
    for reader, reads in partition.readers.items():
        for read in reads:
            holders[read.offset].setdefault(Value(read.producer, read.number), reader)
    for offset, values in holders.items():
        if len(values) == 1:
            yield None
        else:
            yield f"offset {offset} holds " + " and ".join(f"{value} for {who}" for value, who in values.items())


def _producer_order(facts: _Facts, partition: _Partition) -> Findings:
    seen: set[Value] = set()
    latest: dict[str, tuple[int, int]] = {}
    for offset, value in partition.drained():
        if value in seen:
            continue  # a duplicate, which C3 judges
        seen.add(value)
        number, where = latest.get(value.producer, (-1, -1))
        yield None if value.number > number else f"{value} is at {offset}, behind number {number} at {where}"
        latest[value.producer] = max((value.number, offset), (number, where))


def _real_time_order(facts: _Facts, partition: _Partition) -> Findings:
    """Walks over the moments in order; an acknowledgement raises the offset that later sends must exceed."""
    moments: list[tuple[int, int, int, Value]] = []
    for value, sent in partition.sent.items():
        if (
            sent.offset is not None
            and sent.offset != UNKNOWN_OFFSET
            and sent.ended_ns is not None
            and facts.promised(value)
        ):
            moments += [(sent.invoked_ns, 0, sent.offset, value), (sent.ended_ns, 1, sent.offset, value)]
    floor, holder = -1, Value("", -1)
    for _, is_end, offset, value in sorted(moments):
        if not is_end:
            above = f"{value} got {offset}, sent after {holder} had been acknowledged at {floor}"
            yield None if offset > floor else above
        elif offset > floor:
            floor, holder = offset, value


def _reader_order(facts: _Facts, partition: _Partition) -> Findings:
    there = [offset for offset, _ in partition.drained()]
    for reader, reads in partition.readers.items():
        position: int | None = None
        for read in reads:
            finding = None
            if position is not None and read.offset < position:
                finding = f"{reader} read {read.offset} after {position - 1}"
            elif position is not None and read.offset > position:
                skipped = there[bisect_left(there, position) : bisect_left(there, read.offset)]
                if skipped:
                    finding = f"{reader} read {read.offset} after {position - 1} and skipped {skipped[:5]}"
            yield finding
            position = max(position or 0, read.offset + 1)


def _replicas_are_equal(facts: _Facts, partition: _Partition) -> Findings:
    yield from replica_findings(partition.replicas)


def replica_findings(replicas: dict[int, tuple[ReplicaBatch, ...]]) -> Findings:
    """Compare each broker's batches with those of the first, from the highest of their first offsets on.

    Retention and DeleteRecords may have cut the replicas' beginnings at different batches; all else must be the same.
    """
    if len(replicas) < 2:
        return
    start = max((batches[0].base_offset for batches in replicas.values() if batches), default=0)
    (first, reference), *others = ((broker, _from(start, batches)) for broker, batches in sorted(replicas.items()))
    for broker, batches in others:
        yield _first_difference(first, reference, broker, batches)


def _from(start: int, batches: Sequence[ReplicaBatch]) -> list[ReplicaBatch]:
    return [batch for batch in batches if batch.base_offset >= start]


def _first_difference(
    first: int, reference: Sequence[ReplicaBatch], broker: int, batches: Sequence[ReplicaBatch]
) -> str | None:
    for ours, theirs in zip(reference, batches, strict=False):
        if ours != theirs:
            return f"brokers {first} and {broker} differ: {_shown(ours)} and {_shown(theirs)}"
    if len(reference) != len(batches):
        longer, more = (first, reference) if len(reference) > len(batches) else (broker, batches)
        extra = more[min(len(reference), len(batches))]
        return f"only broker {longer}, of {first} and {broker}, has {_shown(extra)}"
    return None


def _shown(batch: ReplicaBatch) -> str:
    return (
        f"the batch at {batch.base_offset} of epoch {batch.leader_epoch} "
        f"(crc {batch.crc:08x}, {batch.size_bytes} bytes, digest {batch.digest[:4].hex()})"
    )


def _high_watermark_stays(facts: _Facts, partition: _Partition) -> Findings:
    highest: dict[tuple[str, int], int] = {}
    for seen in partition.high_watermarks:
        key = seen.observer, seen.leader_epoch
        before = highest.get(key, -1)
        back = f"{seen.observer} saw {seen.high_watermark} after {before} in epoch {seen.leader_epoch}"
        yield None if seen.high_watermark >= before else back
        highest[key] = max(before, seen.high_watermark)
    if partition.drains and highest:
        exposed, end = max(highest.values()), partition.drains[-1].end_offset
        yield None if end >= exposed else f"the log ends at {end}; the high watermark had been {exposed}"


def _one_leader_per_epoch(facts: _Facts, partition: _Partition) -> Findings:
    leaders: dict[int, tuple[int, str]] = {}
    latest: dict[str, int] = {}
    for seen in partition.leaders:
        finding = None
        before = latest.get(seen.observer, -1)
        if seen.leader_epoch < before:
            finding = f"{seen.observer} saw epoch {seen.leader_epoch} after {before}"
        latest[seen.observer] = max(before, seen.leader_epoch)
        if seen.leader != NO_BROKER:  # a broker that knows of no live leader says nothing about who it was
            leader, observer = leaders.setdefault(seen.leader_epoch, (seen.leader, seen.observer))
            if leader != seen.leader:
                who = f"broker {leader} for {observer} and broker {seen.leader} for {seen.observer}"
                finding = f"epoch {seen.leader_epoch} is led by {who}"
        yield finding


_RULES: Final[dict[str, Callable[[_Facts, _Partition], Findings]]] = {
    "C1": _acknowledged_is_there,
    "C2": _read_was_sent,
    "C3": _duplicates_are_retries,
    "C4": _offset_holds_one_record,
    "C5": _producer_order,
    "C6": _real_time_order,
    "C7": _reader_order,
    "C8": _replicas_are_equal,
    "C9": _high_watermark_stays,
    "C10": _one_leader_per_epoch,
}
