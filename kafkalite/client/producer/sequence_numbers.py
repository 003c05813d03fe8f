"""The idempotent producer's identity and sequence numbers (KIP-98). Pure.

Each partition remembers the producer id and epoch under which its sequence runs. When a sequence is lost (a batch that was sent was
given up, or the broker forgot the producer), only that partition goes on under a fresh producer id, from sequence 0; the others keep
theirs, which stays valid because a producer without transactions is never fenced. A transactional producer has one identity for all
partitions, and a lost sequence costs it the transaction (`restart`, KIP-360).
"""

from __future__ import annotations

from dataclasses import dataclass

from kafkalite.types import TopicPartition

SEQUENCES = 1 << 31
"""Sequence numbers wrap here."""


@dataclass(frozen=True, slots=True)
class ProducerIdAndEpoch:
    """What InitProducerId gave."""

    producer_id: int
    producer_epoch: int


@dataclass(slots=True)
class _PartitionSequence:
    identity: ProducerIdAndEpoch
    next_sequence: int = 0
    is_acknowledged: bool = False


class SequenceNumbers:
    """The producer ids and sequence numbers of all partitions (KIP-98). `identity` is the one that new partitions take; None when
    a fresh one is needed."""

    def __init__(self) -> None:
        self.identity: ProducerIdAndEpoch | None = None
        self._partitions: dict[TopicPartition, _PartitionSequence] = {}

    def has_identity(self, topic_partition: TopicPartition) -> bool:
        """True if a batch of this partition can be numbered now."""
        return self.identity is not None or topic_partition in self._partitions

    def number(self, topic_partition: TopicPartition, record_count: int) -> tuple[ProducerIdAndEpoch, int]:
        """(identity, base sequence) for the partition's next batch; the sequence advances by `record_count`, wrapping at 2^31."""
        sequence = self._partitions.get(topic_partition)
        if sequence is None:
            if self.identity is None:
                raise ValueError("no producer id yet")
            sequence = self._partitions[topic_partition] = _PartitionSequence(self.identity)
        base = sequence.next_sequence
        sequence.next_sequence = (base + record_count) % SEQUENCES
        return sequence.identity, base

    def acknowledge(self, topic_partition: TopicPartition, producer_id: int, producer_epoch: int) -> None:
        """Note that a broker has appended a batch which was numbered under this identity."""
        sequence = self._partitions.get(topic_partition)
        if sequence is not None and sequence.identity == ProducerIdAndEpoch(producer_id, producer_epoch):
            sequence.is_acknowledged = True

    def is_acknowledged(self, topic_partition: TopicPartition) -> bool:
        """True if brokers know the partition's sequence, so that they refuse what comes out of order.

        A broker that knows nothing of a producer takes any sequence first: of two first batches in flight it may refuse one and append
        the other (KAFKA-14359).
        """
        sequence = self._partitions.get(topic_partition)
        return sequence is not None and sequence.is_acknowledged

    def restart(self, identity: ProducerIdAndEpoch | None) -> None:
        """All partitions go on under `identity`, from sequence 0."""
        self.identity = identity
        self._partitions.clear()

    def reset(self, topic_partition: TopicPartition) -> None:
        """The partition's sequence is lost: it needs a fresh identity before its next batch."""
        sequence = self._partitions.pop(topic_partition, None)
        if sequence is not None and sequence.identity == self.identity:
            self.identity = None
