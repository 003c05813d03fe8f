"""Metrics of the broker as a whole: its state, its ZooKeeper session, its event loop; and the list of all families."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from kafkalite import __version__
from kafkalite.broker.observation import (
    controller_metrics,
    failure_metrics,
    group_metrics,
    process_metrics,
    request_metrics,
    topic_metrics,
    transaction_metrics,
)
from kafkalite.broker.observation.exposition import (
    Family,
    Sample,
    counter,
    counters,
    gauge,
    gauges,
    histogram_samples,
    label_text,
)
from zk.store import SessionState

if TYPE_CHECKING:
    from kafkalite.broker.observation.groups import ClusterGroups
    from kafkalite.broker.observation.loop_lag import LoopLag
    from kafkalite.broker.observation.observed import Observed
    from kafkalite.broker.observation.session_counts import SessionCounts
    from kafkalite.broker.observation.zookeeper_groups import ZooKeeperGroups


def all_families(
    broker: Observed,
    loop_lag: LoopLag,
    sessions: SessionCounts,
    groups: ClusterGroups | None,
    zookeeper_groups: ZooKeeperGroups | None,
) -> Iterator[Family]:
    """Return all families of metrics; of a starting broker those known by then, without groups."""
    yield from _broker(broker, loop_lag)
    yield from _session(broker, sessions)
    yield from process_metrics.families()
    serving = broker.serving
    if serving is None or groups is None or zookeeper_groups is None:
        return
    yield from request_metrics.families(serving)
    yield from topic_metrics.families(serving.parts)
    yield from controller_metrics.families(serving.parts)
    yield from failure_metrics.families(serving.parts)
    yield from transaction_metrics.families(serving.parts)
    yield from group_metrics.families(groups.coordinated, broker.config.kafkalite_metrics_max_groups)
    yield from group_metrics.zookeeper_families(zookeeper_groups.views, zookeeper_groups.omitted)


def _broker(broker: Observed, loop_lag: LoopLag) -> Iterator[Family]:
    labels = label_text(version=__version__, broker_id=broker.broker_id, cluster_id=broker.cluster_id)
    yield Family("kafkalite_info", "gauge", "The broker's version and identity.", (Sample(labels, 1),))
    yield gauge(
        "kafkalite_broker_state",
        "Kafka's number: 1 starting, 2 recovering logs, 3 running, 6 handing over, 7 shutting down.",
        broker.state,
        "kafka_server_kafkaserver_brokerstate",
    )
    yield Family(
        "kafkalite_event_loop_lag_seconds",
        "histogram",
        "How much later than due a timer of the event loop comes.",
        histogram_samples(loop_lag.lags),
    )
    yield gauge("kafkalite_tasks", "Tasks of the event loop.", loop_lag.tasks)
    yield counter(
        "kafkalite_unexpected_errors_total",
        "Errors that nobody expected; the log has each with its traceback.",
        broker.errors.count,
    )


def _session(broker: Observed, sessions: SessionCounts) -> Iterator[Family]:
    now = broker.store.state
    yield gauges(
        "kafkalite_zookeeper_session_state",
        "1 for the state of the ZooKeeper session.",
        "state",
        [(state.name.lower(), int(state is now)) for state in SessionState],
    )
    yield counters(
        "kafkalite_zookeeper_session_changes_total",
        "How often the ZooKeeper session entered a state.",
        "state",
        [(state.name.lower(), sessions.entered[state]) for state in SessionState],
    )
    old = "kafka_server_sessionexpirelistener_zookeeper"
    yield counter(
        "kafkalite_zookeeper_disconnects_total",
        "Losses of the connection to ZooKeeper.",
        sessions.entered[SessionState.SUSPENDED],
        f"{old}disconnects_total",
    )
    yield counter(
        "kafkalite_zookeeper_expires_total",
        "ZooKeeper sessions that expired.",
        sessions.entered[SessionState.EXPIRED],
        f"{old}expires_total",
    )
