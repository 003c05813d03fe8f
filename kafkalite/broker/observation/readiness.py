"""The readiness of a broker for clients, as load balancers and orchestrators ask for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.broker.broker_state import BrokerState
from zk.store import SessionState

if TYPE_CHECKING:
    from kafkalite.broker.observation.observed import Observed


def conditions(broker: Observed) -> dict[str, bool]:
    """Return the conditions by name: the broker serves, is registered under a connected session, and knows a live controller."""
    serving, is_running = broker.serving, broker.state is BrokerState.RUNNING
    is_registered = serving is not None and serving.parts.replicas.broker_epoch >= 0
    return {
        "running": is_running,
        "registered": is_running and is_registered and broker.broker_id in broker.metadata.brokers,
        "zookeeper_connected": broker.store.state is SessionState.CONNECTED,
        "controller_known": broker.metadata.controller_id in broker.metadata.brokers,
    }


def is_ready(broker: Observed) -> bool:
    return all(conditions(broker).values())
