"""What the clients of SwapLoad.java saw, read from their ledger, and judged by what is in the topics at the end. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

from kafkalite.types import TopicPartition

ACKS, IDEMPOTENT, TRANSACTIONAL, COUNTS = "acks", "idempotent", "transactional", "counts"
KEYS: Final = 7
SOUND_STATES: Final = frozenset({"RUNNING", "REBALANCING"})
"""Of Kafka Streams while its brokers are replaced."""

Record = tuple[int, str]
"""Offset and value."""


@dataclass
class Ledger:
    """What clients saw, in the order in which they saw it."""

    acked: dict[TopicPartition, list[Record]] = field(default_factory=dict)
    read: dict[TopicPartition, list[Record]] = field(default_factory=dict)
    committed: set[str] = field(default_factory=set)
    aborted: set[str] = field(default_factory=set)
    errors: list[str] = field(default_factory=list)
    states: list[str] = field(default_factory=list)
    ended: list[str] = field(default_factory=list)
    """What has ended: "produced", "consumed"."""

    def count_acked(self, topic: str) -> int:
        return sum(len(records) for place, records in self.acked.items() if place.topic == topic)

    def count_read(self) -> int:
        return sum(map(len, self.read.values()))


def parse_ledger(lines: Iterable[str]) -> Ledger:
    """Return what is in the lines of a ledger; the last one may be cut off."""
    ledger = Ledger()
    for line in lines:
        if not line.endswith("\n"):
            break
        kind, _, rest = line.strip().partition(" ")
        if kind in ("acked", "read"):
            *_, topic, partition, offset, value = rest.split(" ")
            place = TopicPartition(topic, int(partition))
            getattr(ledger, kind).setdefault(place, []).append((int(offset), value))
        elif kind in ("committed", "aborted"):
            getattr(ledger, kind).add(rest)
        elif kind == "error":
            ledger.errors.append(rest)
        elif kind == "state":
            ledger.states.append(rest)
        elif kind in ("produced", "consumed"):
            ledger.ended.append(kind)
    return ledger


def find_problems(
    ledger: Ledger, content: Mapping[TopicPartition, Sequence[Record]], counts: Mapping[str, Sequence[int]]
) -> list[str]:
    """Return what was lost, doubled or reordered, and errors that reached a client.

    `content` are the readable records of each partition, without those of aborted transactions; `counts` are what Kafka Streams said of
    each key.
    """
    problems = [f"error: {each}" for each in ledger.errors]
    problems += [f"Kafka Streams is {each}" for each in ledger.states if each not in SOUND_STATES]
    for place, acked in sorted(ledger.acked.items()):
        problems += [f"{place}: {each}" for each in _judge_partition(ledger, place, acked, content.get(place, ()))]
    problems += _judge_numbers(content)
    return [*problems, *_judge_counts(ledger, counts)]


def _judge_partition(
    ledger: Ledger, place: TopicPartition, acked: Sequence[Record], content: Sequence[Record]
) -> Iterator[str]:
    there = dict(content)
    for offset, value in acked:
        wanted = value if _is_kept(ledger, place, value) else None
        if there.get(offset) != wanted:
            yield f"{value} was acknowledged at offset {offset}, where {there.get(offset, 'nothing')} is"
    read = list(dict.fromkeys(ledger.read.get(place, [])))  # after a rebalance some are read again
    if read != list(content):
        lost = sorted(set(content) - set(read))
        yield f"the group read other records than there are, or in another order; {len(lost)} left out: {lost[:3]}"


def _is_kept(ledger: Ledger, place: TopicPartition, value: str) -> bool:
    """True if a record is no part of an aborted transaction."""
    return place.topic != TRANSACTIONAL or value.partition(":")[0] not in ledger.aborted


def _judge_numbers(content: Mapping[TopicPartition, Sequence[Record]]) -> Iterator[str]:
    for place, records in sorted(content.items()):
        numbers = [int(value.rpartition(":")[2]) for _, value in records]
        if place.topic == ACKS:  # without idempotence, what is sent again may be there twice
            numbers = list(dict.fromkeys(numbers))
        for first, second in pairwise(numbers):
            if second <= first:
                yield f"{place}: {second} stands behind {first}"


def _judge_counts(ledger: Ledger, counts: Mapping[str, Sequence[int]]) -> Iterator[str]:
    """Find counts that are not 1, 2, 3, … to the number of records of that key."""
    acked = [value for place, records in ledger.acked.items() if place.topic == IDEMPOTENT for _, value in records]
    expected = Counter(f"key-{int(value) % KEYS}" for value in acked)
    for key in sorted(expected.keys() | counts.keys()):
        found = list(counts.get(key, ()))
        if found != list(range(1, expected[key] + 1)):
            yield f"{key} was counted to {max(found, default=0)} in {len(found)} records, and is there {expected[key]} times"
