"""Who may connect now: max.connections.per.ip and its overrides, max.connections, max.connection.creation.rate, and the quotas of
addresses (connection_creation_rate). Pure.

As Kafka's `ConnectionQuotas`: the listener through which brokers talk, where it is one of several, is neither refused nor held back by the
bounds of the whole broker, or a crowd of clients would cut replication off; the connection of another listener that was used least
recently gives way. Beyond max.connections Kafka lets a client wait until there is room; here its connection is closed, as beyond the
bound of its address.
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
    """What becomes of a new connection. `refusal` says why it is closed at once, empty where it is not."""

    refusal: str = ""
    hold_ms: int = 0
    """How long nothing is read from it."""
    displaces: bool = False
    """Must a connection of another listener give way?"""


class ConnectionQuotas:
    """Counts connections by address and their rate; see the module. Each `admit` is followed by one `gone`, refused or not."""

    def __init__(self, config: Current[BrokerConfig], opened: ConnectionRateQuota | None = None) -> None:
        self._config, self._opened = config, opened
        now = config.current
        self._created = ClientRate(now.quota_window_num, now.quota_window_size_seconds * 1000.0)
        self._per_host: Counter[str] = Counter()
        self._count = 0
        self.names: Mapping[str, str] = {}
        """Host names of max.connections.per.ip.overrides by the addresses that they stand for."""

    def is_protected(self, listener: str) -> bool:
        """Do the bounds of the whole broker leave this listener alone?"""
        config = self._config.current
        return listener == config.inter_broker_listener_name and len(config.listeners) > 1

    def admit(self, listener: str, host: str, now_ms: float) -> Admission:
        """May `host` have one more connection through `listener`?"""
        config, is_protected = self._config.current, self.is_protected(listener)
        hold_ms = 0
        if not is_protected:
            self._created.add(1, now_ms)
            hold_ms = self._created.throttle_ms(config.max_connection_creation_rate, now_ms)
            if self._opened is not None:
                hold_ms = max(hold_ms, self._opened.hold_ms(host, now_ms))
        self._count += 1
        self._per_host[host] += 1
        if self._per_host[host] > self._most_of(host):
            return Admission("too many connections from its address")
        if self._count <= config.max_connections:
            return Admission(hold_ms=hold_ms)
        return Admission(displaces=True) if is_protected else Admission("too many connections")

    def gone(self, host: str) -> None:
        """A connection of `host` is over."""
        self._count -= 1
        self._per_host[host] -= 1
        if not self._per_host[host]:
            del self._per_host[host]

    def _most_of(self, host: str) -> int:
        config = self._config.current
        named = self.names.get(host)
        for each, most in config.max_connections_per_ip_overrides:
            if each in (host, named):
                return most
        return config.max_connections_per_ip
