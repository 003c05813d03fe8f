"""C1 to C6: what producers were answered, beside what readers found."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from kafkalite.testing.history.events import UNKNOWN_OFFSET, Value
from kafkalite.testing.history.facts import Facts, PartitionFacts
from kafkalite.testing.history.rules.findings import Findings


def acknowledged_is_there(facts: Facts, partition: PartitionFacts) -> Findings:
    acknowledged = [(value, sent.offset) for value, sent in partition.sent.items() if sent.offset is not None]
    promised = [(value, offset) for value, offset in acknowledged if facts.is_promised(value)]
    if promised and not partition.drains:
        yield "records were acknowledged and the partition was not drained"
        return
    found = _offsets_by_value(partition)
    for value, offset in promised:
        where = found.get(value, [])
        right = offset in where or (offset == UNKNOWN_OFFSET and where)
        deleted = 0 <= offset < partition.deleted_before and not where
        yield None if right or deleted else f"{value} was acknowledged at {offset} and is found at {where}"


def read_was_sent(facts: Facts, partition: PartitionFacts) -> Findings:
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


def duplicates_are_retries(facts: Facts, partition: PartitionFacts) -> Findings:
    for value, offsets in _offsets_by_value(partition).items():
        yield None if len(offsets) == 1 else _why_not_twice(facts, partition, value, offsets)


def _offsets_by_value(partition: PartitionFacts) -> dict[Value, list[int]]:
    found = defaultdict(list)
    for offset, value in partition.list_drained():
        found[value].append(offset)
    return found


def _why_not_twice(facts: Facts, partition: PartitionFacts, value: Value, offsets: list[int]) -> str | None:
    producer, sent = facts.producers.get(value.producer), partition.sent.get(value)
    if producer is None or sent is None:
        return f"{value} is at {offsets} and was never sent"
    if producer.idempotent:
        return f"{value} of an idempotent producer is at {offsets}"
    if sent.ended_ns is not None and sent.ended_ns - sent.invoked_ns < producer.retries_after_ms * 1_000_000:
        took_ms = (sent.ended_ns - sent.invoked_ns) / 1_000_000
        return f"{value} is at {offsets} though its acknowledgement came after {took_ms:.0f} ms, before any retry"
    return None


def offset_holds_one_record(facts: Facts, partition: PartitionFacts) -> Findings:
    holders: dict[int, dict[Value, str]] = defaultdict(dict)
    for value, sent in partition.sent.items():
        if sent.offset is not None and sent.offset != UNKNOWN_OFFSET and facts.is_promised(value):
            holders[sent.offset].setdefault(value, "an acknowledgement")
    for reader, reads in partition.readers.items():
        for read in reads:
            holders[read.offset].setdefault(Value(read.producer, read.number), reader)
    for offset, values in holders.items():
        if len(values) == 1:
            yield None
        else:
            yield f"offset {offset} holds " + " and ".join(f"{value} for {who}" for value, who in values.items())


def producer_order(facts: Facts, partition: PartitionFacts) -> Findings:
    """Duplicates are left out, which C3 judges."""
    first: dict[Value, int] = {}
    for offset, value in partition.list_drained():
        first.setdefault(value, offset)
    yield from numbers_ascend((offset, value) for value, offset in first.items())


def numbers_ascend(rows: Iterable[tuple[int, Value]]) -> Findings:
    """Compare each record, given with its offset, with the latest one of its producer."""
    latest: dict[str, tuple[int, int]] = {}
    for offset, value in rows:
        number, where = latest.get(value.producer, (-1, -1))
        yield None if value.number > number else f"{value} is at {offset}, behind number {number} at {where}"
        latest[value.producer] = max((value.number, offset), (number, where))


def real_time_order(facts: Facts, partition: PartitionFacts) -> Findings:
    """Walks over the moments in order; an acknowledgement raises the offset that later sends must exceed."""
    moments: list[tuple[int, int, int, Value]] = []
    for value, sent in partition.sent.items():
        if (
            sent.offset is not None
            and sent.offset != UNKNOWN_OFFSET
            and sent.ended_ns is not None
            and facts.is_promised(value)
        ):
            moments += [(sent.invoked_ns, 0, sent.offset, value), (sent.ended_ns, 1, sent.offset, value)]
    floor, holder = -1, Value("", -1)
    for _, is_end, offset, value in sorted(moments):
        if not is_end:
            above = f"{value} got {offset}, sent after {holder} had been acknowledged at {floor}"
            yield None if offset > floor else above
        elif offset > floor:
            floor, holder = offset, value
