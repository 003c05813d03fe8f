"""What brokers answered: response messages become errors by partition, and those go to whom they concern."""

from __future__ import annotations

import logging

from kafkalite.controller import events, log_directories, topic_deletion
from kafkalite.controller.cluster_state import ClusterState
from kafkalite.controller.steps import Steps
from kafkalite.errors import ErrorCode
from kafkalite.types import BrokerId, TopicPartition

logger = logging.getLogger(__name__)


def leader_and_isr(cluster: ClusterState, event: events.LeaderAndIsrResponseReceived) -> Steps[None]:
    """A refused request needs no handling: its sender is out of date and will learn it elsewhere."""
    if event.response.error_code != ErrorCode.NONE:
        logger.warning("broker %d refused LeaderAndIsr with error %d", event.broker_id, event.response.error_code)
        return
    if _present(cluster, event.broker_id, event.broker_epoch):
        names = {bytes(topic.topic_id): topic.topic_name for topic in event.request.topic_states}
        errors = {
            TopicPartition(error.topic_name, error.partition_index): error.error_code
            for error in event.response.partition_errors
        }
        for topic in event.response.topics:
            name = names.get(bytes(topic.topic_id))
            if name is not None:
                errors |= {TopicPartition(name, e.partition_index): e.error_code for e in topic.partition_errors}
        yield from log_directories.leader_and_isr_answered(cluster, event.broker_id, errors)


def stop_replica(cluster: ClusterState, event: events.StopReplicaResponseReceived) -> Steps[None]:
    """Only replicas that were to be deleted matter; a refused request failed for all of them."""
    if not _present(cluster, event.broker_id, event.broker_epoch):
        return
    deleted = {
        TopicPartition(topic.topic_name, state.partition_index)
        for topic in event.request.topic_states
        for state in topic.partition_states
        if state.delete_partition
    }
    if event.response.error_code != ErrorCode.NONE:
        errors = dict.fromkeys(deleted, event.response.error_code)
    else:
        answered = {
            TopicPartition(error.topic_name, error.partition_index): error.error_code
            for error in event.response.partition_errors
        }
        errors = {partition: answered.get(partition, ErrorCode.NONE) for partition in deleted}
    if errors:
        yield from topic_deletion.replicas_deleted(cluster, event.broker_id, errors)


def _present(cluster: ClusterState, broker_id: BrokerId, broker_epoch: int) -> bool:
    """Did the incarnation of the broker answer that is registered now?"""
    broker = cluster.brokers.get(broker_id)
    return broker is not None and broker.epoch == broker_epoch
