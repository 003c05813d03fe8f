"""Which broker a consumer fetches each partition from (KIP-392): the leader, or the replica that it has named for the consumer's rack.

The leader names one in place of records. It is fetched from until it has an error, or cannot be reached, or for as long as Kafka's
consumers keep their metadata; then the leader is asked again. After a failure it is asked for the records and not for a replica for a
while: it does not know that the client cannot reach the replica, and Kafka's consumers go to and fro.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from kafkalite.client.cluster.view import ClusterView
from kafkalite.errors import ErrorCode
from kafkalite.types import BrokerId, TopicPartition

KEPT_S: Final = 300.0
"""The default of Kafka's metadata.max.age.ms."""
AVOIDED_S: Final = 30.0

NOT_AT_REPLICA: Final = frozenset(
    {
        ErrorCode.OFFSET_OUT_OF_RANGE,
        ErrorCode.OFFSET_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.KAFKA_STORAGE_ERROR,
    }
)
"""What a replica may answer while the leader has the records."""


class ReadReplicas:
    """The named replicas of the partitions of a consumer in `rack`; without one, none is asked for."""

    def __init__(self, rack: str) -> None:
        self._rack = rack
        self._named: dict[TopicPartition, tuple[BrokerId, float]] = {}
        """With the time in s until which it holds."""
        self._avoided: dict[TopicPartition, float] = {}
        """Until when the leader is to give the records itself."""

    def choose(self, topic_partition: TopicPartition, view: ClusterView, now_s: float) -> BrokerId:
        """Return the broker to fetch from; that of the view's leader may be one that is not known."""
        named = self._named.get(topic_partition)
        if named is not None:
            if named[0] in view.brokers and now_s < named[1]:
                return named[0]
            del self._named[topic_partition]
        return view.leader_of(topic_partition)

    def rack_for(self, topic_partitions: Iterable[TopicPartition], now_s: float) -> str:
        """Return the rack for a fetch of these partitions; "" where it must bring the records of one that avoids its replica."""
        if self._avoided and any(now_s < self._avoided.get(each, now_s) for each in topic_partitions):
            return ""
        return self._rack

    def note(self, topic_partition: TopicPartition, replica: BrokerId, now_s: float) -> None:
        """Take the replica that an answer names; -1 names none."""
        if replica >= 0:
            self._named[topic_partition] = replica, now_s + KEPT_S

    def avoid(self, topic_partition: TopicPartition, now_s: float) -> bool:
        """Fetch from the leader for a while, since the replica has failed; False if that is so already."""
        if self._named.pop(topic_partition, None) is None:
            return False
        self._avoided[topic_partition] = now_s + AVOIDED_S
        return True
