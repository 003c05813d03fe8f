"""Is the broker ready for clients? What a load balancer or an orchestrator asks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.broker.broker_state import BrokerState
from zk.store import SessionState

if TYPE_CHECKING:
    from kafkalite.broker.app import Broker


def conditions(broker: Broker) -> dict[str, bool]:
    """What must hold, by name: the broker serves, is registered under a session that is connected, and knows a live controller."""
    is_running = broker.state is BrokerState.RUNNING
    return {
        "running": is_running,
        "registered": is_running and broker.replicas.broker_epoch >= 0 and broker.broker_id in broker.metadata.brokers,
        "zookeeper_connected": broker.store.state is SessionState.CONNECTED,
        "controller_known": broker.metadata.controller_id in broker.metadata.brokers,
    }


def is_ready(broker: Broker) -> bool:
    return all(conditions(broker).values())
