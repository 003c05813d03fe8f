"""The fetch loops of a broker, and which loop fetches which partition from its leader (Kafka's ReplicaFetcherManager)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kafkalite.broker.replication.leader_fetcher import FetcherContext, LeaderFetcher
from kafkalite.broker.replication.partition import Partition
from kafkalite.protocol.java_hash import java_abs, java_hash
from kafkalite.types import BrokerId, TopicPartition


class ReplicaFetchers:
    """One `LeaderFetcher` for each leader and each of num.replica.fetchers."""

    def __init__(self, context: FetcherContext) -> None:
        self._context = context
        self._loops: dict[tuple[BrokerId, int], LeaderFetcher] = {}
        self._of: dict[TopicPartition, LeaderFetcher] = {}
        self._refuses_partitions = False

    @property
    def bytes_in(self) -> int:
        """Return the bytes of records fetched from all leaders."""
        return self._context.bytes_in

    def refuse_partitions(self) -> None:
        """Follow no further partitions, because the broker is about to stop and hands over those that it leads.

        1. It hands over a partition, and is out of its ISR. 2. It would fetch from the new leader, which then takes it for a replica about
        to join the ISR and lets the high watermark wait for it. 3. It stops, and acks=all would wait for a broker that is gone.
        """
        self._refuses_partitions = True

    def follow(self, partition: Partition, topic_id: bytes) -> None:
        """Fetch `partition` from its leader, in its leader epoch."""
        topic_partition = partition.topic_partition
        key = (partition.leader, self._index(topic_partition))
        loop = self._loops.get(key)
        if loop is None or self._of.get(topic_partition) is not loop or self._refuses_partitions:
            self._stop(topic_partition)
        if self._refuses_partitions:
            return
        if loop is None:
            loop = self._loops[key] = LeaderFetcher(self._context, partition.leader, self._stop)
        self._of[topic_partition] = loop
        loop.add(partition, topic_id)

    def stop(self, topic_partitions: Iterable[TopicPartition]) -> None:
        """Stop fetching these partitions; a loop without partitions sleeps until it gets one."""
        for topic_partition in topic_partitions:
            self._stop(topic_partition)

    def _stop(self, topic_partition: TopicPartition) -> None:
        loop = self._of.pop(topic_partition, None)
        if loop is not None:
            loop.remove(topic_partition)

    async def close(self) -> None:
        for loop in tuple(self._loops.values()):
            await loop.close()
        self._loops.clear()
        self._of.clear()

    def _index(self, topic_partition: TopicPartition) -> int:
        """Return which of num.replica.fetchers loops fetches a partition (AbstractFetcherManager.getFetcherId).

        A partition keeps its loop when the number changes, until it is followed again.
        """
        loops = self._context.config.current.num_replica_fetchers
        if loops <= 1:
            return 0
        return java_abs(31 * java_hash(topic_partition.topic) + topic_partition.partition) % loops

    def statistics(self) -> dict[str, Any]:
        return {f"{leader}-{index}": loop.statistics() for (leader, index), loop in self._loops.items()}
