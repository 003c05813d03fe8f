"""All fetchers of a follower: which loop fetches which partition from its leader (Kafka's ReplicaFetcherManager)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kafkalite.broker.replication.leader_fetcher import FetcherContext, LeaderFetcher
from kafkalite.broker.replication.partition import Partition
from kafkalite.protocol.java_hash import java_abs, java_hash
from kafkalite.types import BrokerId, TopicPartition


class ReplicaFetchers:
    """See the module."""

    def __init__(self, context: FetcherContext) -> None:
        self._context = context
        self._loops: dict[tuple[BrokerId, int], LeaderFetcher] = {}
        self._of: dict[TopicPartition, LeaderFetcher] = {}
        self._follows_no_more = False

    @property
    def bytes_in(self) -> int:
        """Bytes of records that came from all leaders."""
        return self._context.bytes_in

    def follow_no_more(self) -> None:
        """The broker is about to stop: what it led until now it does not begin to follow.

        1. It hands over a partition, and is out of its ISR. 2. It would fetch from the new leader, which then takes it for a replica about
        to join the ISR and lets the high watermark wait for it. 3. It stops, and acks=all would wait for a broker that is gone.
        """
        self._follows_no_more = True

    def follow(self, partition: Partition, topic_id: bytes) -> None:
        """Fetch `partition` from its leader, in its leader epoch."""
        self.stop([partition.topic_partition])
        if self._follows_no_more:
            return
        key = (partition.leader, self._index(partition.topic_partition))
        loop = self._loops.get(key)
        if loop is None:
            loop = self._loops[key] = LeaderFetcher(
                self._context, partition.leader, lambda topic_partition: self.stop([topic_partition])
            )
        self._of[partition.topic_partition] = loop
        loop.add(partition, topic_id)

    def stop(self, topic_partitions: Iterable[TopicPartition]) -> None:
        """Fetch these no more; a loop without partitions sleeps until it gets one."""
        for topic_partition in topic_partitions:
            loop = self._of.pop(topic_partition, None)
            if loop is not None:
                loop.remove(topic_partition)

    async def close(self) -> None:
        for loop in tuple(self._loops.values()):
            await loop.close()
        self._loops.clear()
        self._of.clear()

    def _index(self, topic_partition: TopicPartition) -> int:
        """Which of num.replica.fetchers loops (AbstractFetcherManager.getFetcherId).

        A partition keeps its loop when the number changes, until it is followed again.
        """
        code = java_abs(31 * java_hash(topic_partition.topic) + topic_partition.partition)
        return code % max(1, self._context.config.current.num_replica_fetchers)

    def statistics(self) -> dict[str, Any]:
        return {f"{leader}-{index}": loop.statistics() for (leader, index), loop in self._loops.items()}
