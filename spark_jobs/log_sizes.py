"""How large the logs of partitions are, as their leaders tell it (DescribeLogDirs): one request to each, answered from memory."""

from __future__ import annotations

from collections.abc import Iterable

from kafkalite.client import SyncAdmin, TopicPartition


def find_log_bytes(admin: SyncAdmin, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
    """Return the bytes of each partition's log at its leader; none of a partition without a leader. ClientError.

    Brokers tell it to those who may describe the cluster.
    """
    wanted = set(partitions)
    if not wanted:
        return {}
    described = admin.describe_topics(sorted({each.topic for each in wanted}))
    leaders = {
        TopicPartition(topic.name, each.partition): each.leader
        for topic in described
        for each in topic.partitions
        if each.leader >= 0
    }
    brokers = {leader for each, leader in leaders.items() if each in wanted}
    found: dict[TopicPartition, int] = {}
    for broker, directories in admin.describe_log_dirs(brokers, sorted(wanted)).items():
        for replica in (each for directory in directories for each in directory.replicas):
            if not replica.is_future and leaders.get(replica.topic_partition) == broker:
                found[replica.topic_partition] = replica.size_bytes
    return found
