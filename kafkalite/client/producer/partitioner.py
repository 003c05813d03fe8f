"""Which partition a record goes to; pure but for a counter per topic.

Keys are hashed (murmur2 as Kafka's default partitioner does, or murmur3), so equal keys share a partition for as long as the topic
keeps its number of partitions. Null keys go round robin (0, 1, 2, …), or stay on one partition per batch ("sticky", KIP-480).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, Literal, get_args

import mmh3

from kafkalite.protocol.record_batches.record_code import choose_partition, choose_partitions

PartitionerName = Literal["murmur2", "round_robin", "sticky", "murmur3"]
PartitionFunction = Callable[[bytes | None, Sequence[int], Sequence[int]], int]
"""(key, all partitions, partitions with a leader) -> partition, the signature that aiokafka and kafka-python use."""

_NAMES: Final[tuple[str, ...]] = get_args(PartitionerName)


def murmur3_partition(key: bytes, partition_count: int) -> int:
    """mmh3's 32-bit hash, unsigned, modulo the number of partitions."""
    return mmh3.hash(key, signed=False) % partition_count


class Partitioner:
    """The choice for all topics of one producer.

    `choice` is "murmur2" (keys by murmur2, null keys round robin), "round_robin" (the same, by the name of what it does to null
    keys), "sticky" (keys by murmur2, null keys sticky), "murmur3" (keys by mmh3, null keys round robin) or a `PartitionFunction`.
    Raises ValueError for another name.
    """

    def __init__(self, choice: PartitionerName | PartitionFunction = "murmur2") -> None:
        self._function: PartitionFunction | None = None
        self._hash: Callable[[bytes, int], int] = choose_partition
        self._sticky = False
        self._counters: dict[str, int] = {}
        if callable(choice):
            self._function = choice
        elif choice in _NAMES:
            self._sticky = choice == "sticky"
            if choice == "murmur3":
                self._hash = murmur3_partition
        else:
            raise ValueError(f"no partitioner {choice!r}; there are {', '.join(_NAMES)} or a callable")

    @property
    def hashes_keys(self) -> bool:
        """True where keys alone say where their records go, however often that is asked; not where the choice is the program's."""
        return self._function is None

    def partition(self, topic: str, key: bytes | None, partitions: Sequence[int], available: Sequence[int]) -> int:
        """Return the partition for a record; `available` are those that have a leader, `partitions` all, from 0 without gaps."""
        if self._function is not None:
            return self._function(key, partitions, available)
        if key is not None:
            return self._hash(key, len(partitions))
        candidates = available or partitions
        turn = self._counters.get(topic, 0)
        if not self._sticky:
            self._counters[topic] = turn + 1
        return candidates[turn % len(candidates)]

    def partitions(
        self, topic: str, keys: Sequence[bytes | None], partitions: Sequence[int], available: Sequence[int]
    ) -> list[int | None]:
        """Return what `partition` does for each key; None for a null key that goes with its batch, where these are sticky."""
        if self._function is None and self._hash is choose_partition:
            found = choose_partitions(keys, len(partitions))
            if self._sticky or None not in found:
                return found
        else:
            found = [None] * len(keys)
        return [
            self.partition(topic, key, partitions, available) if chosen is None else chosen
            for key, chosen in zip(keys, found, strict=True)
        ]

    def batch_filled(self, topic: str) -> None:
        """A batch of `topic` is complete: sticky null keys move on to the next partition."""
        if self._sticky:
            self._counters[topic] = self._counters.get(topic, 0) + 1
