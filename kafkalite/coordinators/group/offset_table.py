"""The offsets of one group: committed ones, those on their way to the log, and those of transactions that have not ended.

Committed offsets change in `apply` and `end_transaction` only, which follow the log. An offset of a transaction counts once that is
committed, unless a plain commit of the same partition came after it in the log, or one of a transaction that ended before.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from kafkalite.coordinators.group.offset_record import CommittedOffset
from kafkalite.types import TopicPartition


class _Pending(NamedTuple):
    """What a transaction that has not ended would commit, and where it lies in the log; None when something later made it void."""

    log_offset: int
    committed: CommittedOffset | None


class OffsetTable:
    """See the module."""

    def __init__(self) -> None:
        self.topics: dict[str, dict[int, CommittedOffset]] = {}
        self._in_flight: dict[TopicPartition, int] = {}
        self._transactions: dict[int, dict[TopicPartition, _Pending]] = {}
        """By producer id, as the log has them."""
        self._arriving: dict[int, Counter[TopicPartition]] = {}
        """By producer id those of transactions that are on their way to the log, or may be: an append timed out."""

    @property
    def is_empty(self) -> bool:
        return not self.topics and not self._in_flight and not self.has_transactions

    def __len__(self) -> int:
        return sum(map(len, self.topics.values()))

    def get(self, topic: str, partition: int) -> CommittedOffset | None:
        partitions = self.topics.get(topic)
        return partitions.get(partition) if partitions is not None else None

    def items(self) -> Iterator[tuple[TopicPartition, CommittedOffset]]:
        for topic, partitions in self.topics.items():
            for partition, committed in partitions.items():
                yield TopicPartition(topic, partition), committed

    def apply(
        self,
        topic: str,
        partition: int,
        committed: CommittedOffset | None,
        producer_id: int = -1,
        log_offset: int = -1,
    ) -> None:
        """The record at `log_offset` says so; None: the offset is deleted."""
        key = TopicPartition(topic, partition)
        if producer_id >= 0:
            self._transactions.setdefault(producer_id, {})[key] = _Pending(log_offset, committed)
            return
        for pending in self._transactions.values():
            if key in pending:
                if committed is None:
                    del pending[key]
                else:
                    pending[key] = _Pending(log_offset, None)
        partitions = self.topics.get(topic)
        if committed is not None:
            if partitions is None:
                partitions = self.topics[topic] = {}
            partitions[partition] = committed
        elif partitions is not None and partitions.pop(partition, None) is not None and not partitions:
            del self.topics[topic]

    def end_transaction(self, producer_id: int, committed: bool) -> None:
        """The marker of the producer's transaction is in the log, behind all that it committed here."""
        self._arriving.pop(producer_id, None)
        pending = self._transactions.pop(producer_id, None)
        if not pending or not committed:
            return
        for key, (log_offset, offset) in pending.items():
            if offset is None:
                continue
            self.topics.setdefault(key.topic, {})[key.partition] = offset
            for other in self._transactions.values():
                if key in other and other[key].log_offset < log_offset:
                    other[key] = _Pending(log_offset, None)

    @property
    def has_transactions(self) -> bool:
        return bool(self._arriving) or any(self._transactions.values())

    def is_unstable(self, topic_partition: TopicPartition) -> bool:
        """May an offset of the partition yet come of what is on its way, or of a transaction that has not ended? (KIP-447)"""
        return (
            topic_partition in self._in_flight
            or any(topic_partition in pending for pending in self._transactions.values())
            or any(topic_partition in arriving for arriving in self._arriving.values())
        )

    # On the way to the log

    def add_pending(self, partitions: Iterable[TopicPartition]) -> None:
        for each in partitions:
            self._in_flight[each] = self._in_flight.get(each, 0) + 1

    def remove_pending(self, partitions: Iterable[TopicPartition]) -> None:
        for each in partitions:
            left = self._in_flight[each] - 1
            if left:
                self._in_flight[each] = left
            else:
                del self._in_flight[each]

    def add_pending_transactional(self, producer_id: int, partitions: Iterable[TopicPartition]) -> None:
        self._arriving.setdefault(producer_id, Counter()).update(partitions)

    def remove_pending_transactional(self, producer_id: int, partitions: Iterable[TopicPartition]) -> None:
        """They are in the log, or will never be. Where nobody knows the marker of the transaction will tell, so this is not called."""
        arriving = self._arriving.get(producer_id)
        if arriving is not None:
            arriving.subtract(partitions)
            self._arriving[producer_id] = +arriving
            if not self._arriving[producer_id]:
                del self._arriving[producer_id]

    def has_offset(self, topic_partition: TopicPartition) -> bool:
        """Is there an offset to be deleted, or may there be one?"""
        return self.get(*topic_partition) is not None or self.is_unstable(topic_partition)

    def _uncommitted(self) -> Iterator[TopicPartition]:
        """Partitions of which `is_unstable` is true, some of them more than once."""
        yield from self._in_flight
        for pending in self._transactions.values():
            yield from pending
        for arriving in self._arriving.values():
            yield from arriving

    def find_offsets_of(self, by_topic: Mapping[str, Iterable[TopicPartition]]) -> list[TopicPartition]:
        """Of these partitions those that have an offset or are about to have one; work only for topics that have any."""
        topics = dict.fromkeys(each for each in self.topics if each in by_topic)
        topics |= dict.fromkeys(each.topic for each in self._uncommitted() if each.topic in by_topic)
        return [each for topic in topics for each in by_topic[topic] if self.has_offset(each)]

    def partitions(self) -> set[TopicPartition]:
        """All that have an offset or are about to have one."""
        return {topic_partition for topic_partition, _ in self.items()} | set(self._uncommitted())
