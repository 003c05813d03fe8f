"""Metrics of the controller: on every broker whether it is active, and on the active one its view of the cluster."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, Protocol

from kafkalite.broker.observation.exposition import (
    Family,
    Sample,
    finish_with_pauses,
    gauge,
    histogram_samples,
    label_text,
)
from kafkalite.portions import Work

_CLUSTER: Final = {
    "active_broker_count": ("brokers", "Live brokers.", "activebrokercount"),
    "global_topic_count": ("topics", "Topics of the cluster.", "globaltopiccount"),
    "topic_list_bytes": ("topic_list_bytes", "Size of ZooKeeper's list of topics.", None),
    "topic_list_max_bytes": ("topic_list_max_bytes", "Size of that list above which topics are refused.", None),
    "global_partition_count": ("partitions", "Partitions of the cluster.", "globalpartitioncount"),
    "offline_partitions_count": ("offline_partitions", "Partitions without a leader.", "offlinepartitionscount"),
    "preferred_replica_imbalance_count": (
        "preferred_replica_imbalance",
        "Partitions that their preferred replica does not lead.",
        "preferredreplicaimbalancecount",
    ),
    "reassigning_partitions_count": ("reassigning_partitions", "Partitions that are being moved.", None),
    "topics_to_delete_count": ("topics_to_delete", "Topics whose deletion is under way.", "topicstodeletecount"),
    "topics_ineligible_to_delete_count": (
        "topics_ineligible_to_delete",
        "Topics whose deletion cannot go on.",
        "topicsineligibletodeletecount",
    ),
    "replicas_to_delete_count": ("replicas_to_delete", "Replicas to be deleted.", "replicastodeletecount"),
    "replicas_ineligible_to_delete_count": (
        "replicas_ineligible_to_delete",
        "Replicas whose deletion cannot go on.",
        "replicasineligibletodeletecount",
    ),
    "refused_replicas_count": ("refused_replicas", "Replicas whose broker refuses the role it was given.", None),
}
_OLD: Final = "kafka_controller_kafkacontroller_"


class Controller(Protocol):
    """The controller as far as metrics read it."""

    def make_statistics(self) -> Work[dict[str, Any]]: ...


class Parts(Protocol):
    """The parts of a broker that these metrics read."""

    @property
    def controller(self) -> Controller: ...


def families(parts: Parts) -> Iterator[Family]:
    """Return the families. As in Kafka, an inactive controller counts nothing, so that sums over all brokers are right."""
    statistics = yield from finish_with_pauses(parts.controller.make_statistics())
    yield gauge(
        "kafkalite_controller_active",
        "1 on the broker that is the controller.",
        statistics["active_controller_count"],
        f"{_OLD}activecontrollercount",
    )
    yield gauge(
        "kafkalite_controller_epoch", "Controller epoch of this broker's last term.", statistics["controller_epoch"]
    )
    for key, (name, help, old) in _CLUSTER.items():
        old_name = f"{_OLD}{old}" if old else None
        yield gauge(f"kafkalite_controller_{name}", f"{help} 0 unless active.", statistics.get(key, 0), old_name)
    yield from _queue(statistics)
    yield from _channels(statistics)


def _queue(statistics: dict[str, Any]) -> Iterator[Family]:
    yield gauge(
        "kafkalite_controller_event_queue_length",
        "Events that wait for their turn.",
        statistics["queued_events"],
        "kafka_controller_controllereventmanager_eventqueuesize",
    )
    yield Family(
        "kafkalite_controller_events_total",
        "counter",
        "Events that were handled, by type.",
        [Sample(label_text(event=event), count) for event, count in sorted(statistics["handled_events"].items())],
    )
    yield Family(
        "kafkalite_controller_event_queue_seconds",
        "histogram",
        "How long events waited for their turn.",
        histogram_samples(statistics["event_waits"]),
    )
    yield Family(
        "kafkalite_controller_event_handling_seconds",
        "histogram",
        "How long events took.",
        histogram_samples(statistics["event_handling"]),
    )


def _channels(statistics: dict[str, Any]) -> Iterator[Family]:
    for key, name, kind, help in (
        ("queued_requests", "queued_requests", "gauge", "Requests to a broker that are not answered yet."),
        ("request_retries", "request_retries_total", "counter", "Requests to a broker that had to be sent again."),
    ):
        yield Family(
            f"kafkalite_controller_{name}",
            kind,
            help,
            [Sample(label_text(to_broker=broker), count) for broker, count in sorted(statistics.get(key, {}).items())],
        )
