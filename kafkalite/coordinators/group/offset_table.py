"""The offsets of one group: committed ones, pending appends, and those of open transactions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from kafkalite.coordinators.group.offset_record import CommittedOffset
from kafkalite.types import TopicPartition


class _Pending(NamedTuple):
    """An offset in an open transaction and its position in the log; None if a later commit replaced it."""

    log_offset: int
    committed: CommittedOffset | None


class OffsetTable:
    """Offsets by topic and partition.

    Committed offsets change in `apply` and `end_transaction` only, which follow the log. An offset of a transaction is committed with it,
    unless a later record in the log, of no transaction or of one that ended before, has an offset of the same partition.
    """

    def __init__(self) -> None:
        self.topics: dict[str, dict[int, CommittedOffset]] = {}
        self._in_flight: dict[TopicPartition, int] = {}
        self._transactions: dict[int, dict[TopicPartition, _Pending]] = {}
        """Offsets in the log by producer id."""
        self._arriving: dict[int, Counter[TopicPartition]] = {}
        """Appends of transactional offsets by producer id that are pending or timed out."""

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
        """Apply the record at `log_offset`; None deletes the offset."""
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
        """Apply the marker of the producer's transaction, which is behind all its records in the log."""
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
        """True if a pending append or an open transaction may change the offset (KIP-447)."""
        return (
            topic_partition in self._in_flight
            or any(topic_partition in pending for pending in self._transactions.values())
            or any(topic_partition in arriving for arriving in self._arriving.values())
        )

    # Pending appends

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
        """Remove appends that are committed or refused; those that timed out stay until the transaction's marker."""
        arriving = self._arriving.get(producer_id)
        if arriving is not None:
            arriving.subtract(partitions)
            self._arriving[producer_id] = +arriving
            if not self._arriving[producer_id]:
                del self._arriving[producer_id]

    def has_offset(self, topic_partition: TopicPartition) -> bool:
        """True if the partition has an offset, or may have one soon."""
        return self.get(*topic_partition) is not None or self.is_unstable(topic_partition)

    def _pending_partitions(self) -> Iterator[TopicPartition]:
        """Yield partitions for which `is_unstable` is true, some more than once."""
        yield from self._in_flight
        for pending in self._transactions.values():
            yield from pending
        for arriving in self._arriving.values():
            yield from arriving

    def find_offsets_of(self, by_topic: Mapping[str, Iterable[TopicPartition]]) -> list[TopicPartition]:
        """Return those of the partitions with an offset or a pending one; topics without any cost nothing."""
        topics = dict.fromkeys(each for each in self.topics if each in by_topic)
        topics |= dict.fromkeys(each.topic for each in self._pending_partitions() if each.topic in by_topic)
        return [each for topic in topics for each in by_topic[topic] if self.has_offset(each)]

    def partitions(self) -> set[TopicPartition]:
        """Return all partitions with an offset or a pending one."""
        return {topic_partition for topic_partition, _ in self.items()} | set(self._pending_partitions())
