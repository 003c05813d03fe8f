"""A broker's registration in `/brokers/ids/<id>`, made of its settings and of the listeners that are bound."""

from __future__ import annotations

from collections.abc import Mapping

from kafkalite.config.broker import BrokerConfig
from zk.znodes import BrokerRegistration, RegisteredEndpoint


def registration_of(config: BrokerConfig, bound_ports: Mapping[str, int], now_ms: int) -> BrokerRegistration:
    """Return the advertised listeners that are bound, with the ports that the system chose where none is configured, and the rack."""
    endpoints = tuple(
        RegisteredEndpoint(each.listener, each.host, each.port or bound_ports[each.listener], each.security_protocol)
        for each in config.advertised_listeners
        if each.listener in bound_ports
    )
    return BrokerRegistration(endpoints=endpoints, timestamp_ms=now_ms, rack=config.broker_rack)
