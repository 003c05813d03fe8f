"""Logs on this broker whose topic id is not the one by which the controller knows their topic.

The znode of a topic was removed by hand and the topic made again, or the log or ZooKeeper is an old copy. Such a log is not the topic's:
it takes no records and gives none, and stays as it is until an operator decides. Apache Kafka logs an error and goes on taking records.
"""

from __future__ import annotations

import logging
from collections.abc import Container, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kafkalite.types import TopicPartition, topic_id_to_text

if TYPE_CHECKING:
    from kafkalite.broker.metadata_cache import TopicMetadata
    from kafkalite.broker.replication.partition import Partition
    from kafkalite.controller.control_requests import UpdateMetadata
    from kafkalite.portions import Work

logger = logging.getLogger("kafkalite.broker.replication.topic_id_conflicts")


@dataclass(frozen=True, slots=True)
class TopicIdConflict:
    """The topic id of a log, and the one that the controller sent."""

    log_id: bytes
    told_id: bytes

    def __str__(self) -> str:
        return (
            f"its log has topic id {topic_id_to_text(self.log_id)}, in ZooKeeper it is {topic_id_to_text(self.told_id)}"
        )


class TopicIdConflicts:
    """The conflicts of this broker; `found` has the present ones."""

    def __init__(self) -> None:
        self.found: dict[TopicPartition, TopicIdConflict] = {}

    def note(self, topic_partition: TopicPartition, log_id: bytes, told_id: bytes) -> None:
        """Record a conflict and log it, once."""
        conflict = TopicIdConflict(log_id, told_id)
        if self.found.get(topic_partition) != conflict:
            self.found[topic_partition] = conflict
            logger.error(
                "%s is not served: %s. Was /brokers/topics/%s removed by hand? Delete the topic, with this log, and make it again; or, to "
                "have the old records back, write the log's topic id into the znode and delete /controller, so that a new one reads it.",
                topic_partition,
                conflict,
                topic_partition.topic,
            )

    def settle(self, topic_partition: TopicPartition) -> None:
        """Remove a conflict: the log was deleted, or the controller sends its id."""
        if self.found and self.found.pop(topic_partition, None) is not None:
            logger.info("%s: its log is no longer another topic's", topic_partition)

    def reasons(self) -> dict[str, str]:
        """Return what is wrong with each partition, by its name."""
        return {str(each): str(conflict) for each, conflict in sorted(self.found.items())}


def find_replaced_topics(
    update: UpdateMetadata,
    known_topics: Mapping[str, TopicMetadata],
    partitions: Mapping[TopicPartition, Partition],
    topic_ids: Container[bytes],
) -> Work[set[str]]:
    """Return the topics with partitions here that have another id in the update, which none has that was deleted before it was made.

    `topic_ids` are those of the topics with partitions here.
    """
    names = set()
    for topic in update.topics:
        yield
        known = known_topics.get(topic.name)
        if known is not None and known.topic_id == topic.topic_id:
            continue
        if known is not None and known.topic_id in topic_ids:
            names.add(topic.name)
        for index in topic.partitions:
            yield
            partition = partitions.get(TopicPartition(topic.name, index))
            if partition is not None and partition.topic_id != topic.topic_id:
                names.add(topic.name)
    return names
