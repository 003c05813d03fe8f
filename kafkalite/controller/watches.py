"""The controller events of watches that fire."""

from __future__ import annotations

from kafkalite.controller import events
from kafkalite.types import TopicPartition
from zk import paths
from zk.store import EventType, WatchEvent

_BY_PATH: dict[str, events.Event] = {
    paths.BROKER_IDS: events.BrokerChange(),
    paths.TOPICS: events.TopicChange(),
    paths.DELETE_TOPICS: events.TopicDeletion(),
    paths.ISR_CHANGES: events.IsrChangeNotification(),
    paths.LOG_DIR_EVENTS: events.LogDirEventNotification(),
    paths.REASSIGN_PARTITIONS: events.ZkPartitionReassignment(),
    paths.PREFERRED_REPLICA_ELECTION: events.ZkPreferredElection(),
}


def event_for_watch(notification: WatchEvent) -> events.Event | None:
    """Return the event of a watch that fired, or None: deletions of brokers and topics are seen at their parents."""
    event = _BY_PATH.get(notification.path)
    if event is not None or notification.type is EventType.DELETED:
        return event
    parent, name = paths.parent(notification.path), paths.name(notification.path)
    if parent == paths.BROKER_IDS and (broker_id := paths.broker_id(name)) is not None:
        return events.BrokerModifications(broker_id)
    if parent == paths.TOPICS:
        return events.PartitionModifications(name)
    if name == "state":
        partition = paths.parent(notification.path)
        topic = paths.name(paths.parent(paths.parent(partition)))
        return events.PartitionReassignmentIsrChange(TopicPartition(topic, int(paths.name(partition))))
    return None
