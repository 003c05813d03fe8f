"""Replicas that were taken from this broker by a controller that did not live to say so.

A controller first writes the assignment without the broker, and then sends StopReplica. The next controller knows only the assignment: it
sends UpdateMetadata for all partitions, and nothing to brokers that have no replica. Apache Kafka's brokers keep the log then.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING

from kafkalite.controller.control_requests import StopReplicaPartition
from kafkalite.types import NO_TOPIC_ID, BrokerId, TopicPartition

if TYPE_CHECKING:
    from kafkalite.broker.metadata_cache import TopicMetadata
    from kafkalite.broker.replication.partition import Partition
    from kafkalite.controller.control_requests import UpdateMetadata
    from kafkalite.portions import Work

logger = logging.getLogger("kafkalite.broker.replication.lost_replicas")


def find_lost_replicas(
    update: UpdateMetadata,
    known: Mapping[str, TopicMetadata],
    hosted: Mapping[TopicPartition, Partition],
    broker_id: BrokerId,
) -> Work[dict[TopicPartition, StopReplicaPartition]]:
    """Return what is to be deleted: partitions of `hosted` that are on other brokers by an update, which `known` has by now.

    The leader epoch is later than this broker's, which it had as a replica: no request from before is believed. Without topic ids (before
    Kafka 2.8) a topic of the same name may be another one.
    """
    lost: dict[TopicPartition, StopReplicaPartition] = {}
    for told in update.topics:
        yield
        topic = known.get(told.name)
        if topic is None or topic.topic_id == NO_TOPIC_ID:
            continue
        for index in told.partitions:
            yield
            state = topic.partitions.get(index)
            if state is None or broker_id in state.replicas:
                continue
            name = TopicPartition(told.name, index)
            partition = hosted.get(name)
            if partition and partition.topic_id == topic.topic_id and partition.leader_epoch < state.leader_epoch:
                lost[name] = StopReplicaPartition(state.leader_epoch, delete=True)
                logger.info("%s: moved to brokers %s, its log is deleted", name, state.replicas)
    return lost
