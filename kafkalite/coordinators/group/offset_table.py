"""The offsets of one group: committed ones, those on their way to the log, and those of transactions that have not ended.

Committed offsets change in `apply` and `end_transaction` only, which follow the log. An offset of a transaction counts once that is
committed, unless a plain commit of the same partition came after it in the log.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from kafkalite.coordinators.group.offset_record import CommittedOffset
from kafkalite.types import TopicPartition


class OffsetTable:
    """See the module."""

    def __init__(self) -> None:
        self.topics: dict[str, dict[int, CommittedOffset]] = {}
        self._in_flight: dict[TopicPartition, int] = {}
        self._transactions: dict[int, dict[TopicPartition, CommittedOffset | None]] = {}
        """By producer id; None where a later plain commit or deletion makes the offset void."""

    @property
    def is_empty(self) -> bool:
        return not self.topics and not self._in_flight and not self._transactions

    def __len__(self) -> int:
        return sum(map(len, self.topics.values()))

    def get(self, topic: str, partition: int) -> CommittedOffset | None:
        partitions = self.topics.get(topic)
        return partitions.get(partition) if partitions is not None else None

    def items(self) -> Iterator[tuple[TopicPartition, CommittedOffset]]:
        for topic, partitions in self.topics.items():
            for partition, committed in partitions.items():
                yield TopicPartition(topic, partition), committed

    def apply(self, topic: str, partition: int, committed: CommittedOffset | None, producer_id: int = -1) -> None:
        """A record of the log says so; None: the offset is deleted."""
        if producer_id >= 0:
            self._transactions.setdefault(producer_id, {})[TopicPartition(topic, partition)] = committed
            return
        if self._transactions:
            for pending in self._transactions.values():
                if TopicPartition(topic, partition) in pending:
                    pending[TopicPartition(topic, partition)] = None
        partitions = self.topics.get(topic)
        if committed is not None:
            if partitions is None:
                partitions = self.topics[topic] = {}
            partitions[partition] = committed
        elif partitions is not None and partitions.pop(partition, None) is not None and not partitions:
            del self.topics[topic]

    def end_transaction(self, producer_id: int, committed: bool) -> None:
        pending = self._transactions.pop(producer_id, None)
        if pending and committed:
            for (topic, partition), offset in pending.items():
                if offset is not None:
                    self.topics.setdefault(topic, {})[partition] = offset

    @property
    def has_transactions(self) -> bool:
        return bool(self._transactions)

    def is_unstable(self, topic: str, partition: int) -> bool:
        """Does a transaction that has not ended hold an offset of the partition? (KIP-447)"""
        return any(TopicPartition(topic, partition) in pending for pending in self._transactions.values())

    # On the way to the log

    def begin(self, partitions: Iterable[TopicPartition]) -> None:
        for each in partitions:
            self._in_flight[each] = self._in_flight.get(each, 0) + 1

    def end(self, partitions: Iterable[TopicPartition]) -> None:
        for each in partitions:
            left = self._in_flight[each] - 1
            if left:
                self._in_flight[each] = left
            else:
                del self._in_flight[each]

    def is_busy(self, topic_partition: TopicPartition) -> bool:
        """Would a deletion now race with a commit that is on its way?"""
        return topic_partition in self._in_flight or self.is_unstable(*topic_partition)

    def has(self, topic_partition: TopicPartition) -> bool:
        return self.get(*topic_partition) is not None or topic_partition in self._in_flight

    def held_of(self, by_topic: Mapping[str, Iterable[TopicPartition]]) -> list[TopicPartition]:
        """Of these partitions those that have an offset or are about to have one; work only for topics that have any."""
        topics = dict.fromkeys(each for each in self.topics if each in by_topic)
        topics |= dict.fromkeys(each.topic for each in self._in_flight if each.topic in by_topic)
        return [each for topic in topics for each in by_topic[topic] if self.has(each)]

    def partitions(self) -> set[TopicPartition]:
        """All that have an offset or are about to have one."""
        return {topic_partition for topic_partition, _ in self.items()} | self._in_flight.keys()
