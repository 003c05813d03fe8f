"""Which connections are accepted: max.connections.per.ip and its overrides, max.connections, max.connection.creation.rate, and the quotas
of addresses (connection_creation_rate). Pure.

As in Kafka's `ConnectionQuotas`, the inter-broker listener, where it is one of several, is neither refused nor held back by the bounds of
the whole broker, or a crowd of clients would cut replication off: the least recently used connection of another listener is closed
instead. Beyond max.connections Kafka lets a client wait until there is room; here its connection is closed, as beyond the bound of its
address.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

from kafkalite.broker.settings.quotas import ConnectionRateQuota
from kafkalite.broker.settings.rates import ClientRate
from kafkalite.config.broker import BrokerConfig
from kafkalite.config.live import Current


class Admission(NamedTuple):
    """The decision on a new connection. `refusal` says why it is closed at once, empty if it is accepted."""

    refusal: str = ""
    hold_ms: int = 0
    """Time in which nothing is read from it."""
    displaces: bool = False
    """True if a connection of another listener is to be closed for it."""


class ConnectionQuotas:
    """Counts connections by address, and their rate. Each `admit` is followed by one `remove`, refused or not."""

    def __init__(self, config: Current[BrokerConfig], opened: ConnectionRateQuota | None = None) -> None:
        self._config, self._opened = config, opened
        now = config.current
        self._created = ClientRate(now.quota_window_num, now.quota_window_size_seconds * 1000.0)
        self._per_host: Counter[str] = Counter()
        self._count = 0
        self.names: Mapping[str, str] = {}
        """Host names of max.connections.per.ip.overrides by their addresses."""

    def is_protected(self, listener: str) -> bool:
        """True if the bounds of the whole broker do not apply to this listener."""
        config = self._config.current
        return listener == config.inter_broker_listener_name and len(config.listeners) > 1

    def admit(self, listener: str, host: str, now_ms: float) -> Admission:
        """Count one more connection of `host` through `listener`, and decide on it."""
        config, is_protected = self._config.current, self.is_protected(listener)
        hold_ms = 0
        if not is_protected:
            self._created.add(1, now_ms)
            hold_ms = self._created.throttle_ms(config.max_connection_creation_rate, now_ms)
            if self._opened is not None:
                hold_ms = max(hold_ms, self._opened.hold_ms(host, now_ms))
        self._count += 1
        self._per_host[host] += 1
        if self._per_host[host] > self._find_max(host):
            return Admission("too many connections from its address")
        if self._count <= config.max_connections:
            return Admission(hold_ms=hold_ms)
        return Admission(displaces=True) if is_protected else Admission("too many connections")

    def remove(self, host: str) -> None:
        """Count a connection of `host` no more."""
        self._count -= 1
        self._per_host[host] -= 1
        if not self._per_host[host]:
            del self._per_host[host]

    def _find_max(self, host: str) -> int:
        config = self._config.current
        named = self.names.get(host)
        for each, most in config.max_connections_per_ip_overrides:
            if each in (host, named):
                return most
        return config.max_connections_per_ip
