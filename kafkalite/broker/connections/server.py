"""Accepts connections on the broker's listeners, within the bounds of `connection_quotas`, and closes those that idle.

Listeners may be added, removed and moved while the broker runs (KIP-226): see `rebind`. Idle time: connections.max.idle.ms.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from kafkalite.broker.connections.connection import ServerConnection
from kafkalite.broker.connections.connection_quotas import ConnectionQuotas
from kafkalite.broker.connections.request_memory import RequestMemory
from kafkalite.broker.connections.slow_senders import SlowSenders
from kafkalite.broker.connections.tls_listener import TlsListener, listening_sockets
from kafkalite.broker.connections.unread_responses import UnreadResponses
from kafkalite.broker.produce.request_template import TemplateBudget
from kafkalite.broker.requests.request_handler import RequestHandler
from kafkalite.broker.settings.quotas import ConnectionRateQuota
from kafkalite.config.keys import ConfigError
from kafkalite.config.listeners import is_address
from kafkalite.net.binding import cannot_bind
from kafkalite.types import Endpoint

if TYPE_CHECKING:
    from kafkalite.broker.connections.listener_security import ListenerSecurity
    from kafkalite.config.broker import LiveConfig

logger = logging.getLogger("kafkalite.broker.connections.server")

_BACKLOG = 1024
"""More than socket.listen.backlog.size, because a burst of clients beyond it waits a second for each retry."""


class _Bound(NamedTuple):
    """A listener as it is configured, and what accepts for it."""

    endpoint: Endpoint
    server: asyncio.AbstractServer | TlsListener
    port: int


class Server:
    """The listeners of the broker, their connections, and what those share."""

    def __init__(
        self,
        config: LiveConfig,
        dispatcher: RequestHandler,
        security: ListenerSecurity,
        opened: ConnectionRateQuota | None = None,
    ) -> None:
        self._config = config
        self._dispatcher = dispatcher
        self._security = security
        self._bound: dict[str, _Bound] = {}
        self._idle_check: asyncio.TimerHandle | None = None
        self._rebinding = asyncio.Lock()
        self._quotas = ConnectionQuotas(config, opened)
        self.memory = RequestMemory(config)
        self.slow_senders = SlowSenders(config)
        self.template_budget = TemplateBudget()
        self.connections: dict[ServerConnection, None] = {}
        self.unread = UnreadResponses(config, self.connections)
        self.accepted = 0
        self.refused = 0
        self.handshakes: Counter[str] = Counter()
        """Number of TLS handshakes by outcome."""
        self.bounds_exceeded: Counter[str] = Counter()
        """Number of connections that were closed because they exceeded a bound, by bound."""

    @property
    def bound_ports(self) -> dict[str, int]:
        """Return the port of each listener that is bound, also if the system chose it."""
        return {name: bound.port for name, bound in self._bound.items()}

    @property
    def authentications(self) -> Counter[str]:
        """Return the number of authentications by SASL by outcome."""
        return self._security.outcomes

    async def bind(self) -> None:
        """Bind every listener, without accepting yet. OSError names listener and address."""
        await self.resolve_names()
        for endpoint in self._config.current.listeners:
            await self._bind(endpoint)

    async def _bind(self, endpoint: Endpoint) -> None:
        config, listener = self._config.current, endpoint.listener
        make, backlog = self._connections_of(endpoint), max(_BACKLOG, config.socket_listen_backlog_size)
        server: asyncio.AbstractServer | TlsListener
        try:
            if endpoint.security_protocol.endswith("SSL"):
                server = TlsListener(
                    await listening_sockets(endpoint.host or None, endpoint.port, backlog),
                    lambda: self._security.context(listener),
                    make,
                    lambda: self._config.current.kafkalite_handshake_timeout_ms / 1000,
                    lambda: self._config.current.kafkalite_max_handshakes,
                    self.handshakes,
                    self._security.unauthenticated,
                )
            else:
                server = await asyncio.get_running_loop().create_server(
                    make, endpoint.host or None, endpoint.port, backlog=backlog, start_serving=False
                )
        except OSError as problem:
            raise cannot_bind(f"listener {listener}", endpoint.host, endpoint.port, problem) from problem
        self._bound[listener] = _Bound(endpoint, server, server.sockets[0].getsockname()[1])

    def _connections_of(self, endpoint: Endpoint) -> Callable[[], ServerConnection]:
        """Return the factory of a listener's connections."""
        config, listener, security = self._config.current, endpoint.listener, self._security
        unproven_bytes = config.kafkalite_unproven_request_max_bytes
        if endpoint.security_protocol.startswith("SASL"):
            gate = security.gate(endpoint, self._dispatcher)
            unproven_bytes = min(unproven_bytes, security.max_receive_bytes(listener))
            return lambda: ServerConnection(
                self, self._dispatcher, listener, config.socket_request_max_bytes, unproven_bytes, gate()
            )
        identify = security.identify(listener) if endpoint.security_protocol == "SSL" else None
        return lambda: ServerConnection(
            self, self._dispatcher, listener, config.socket_request_max_bytes, unproven_bytes, None, identify
        )

    async def rebind(self) -> None:
        """Bind and close listeners so that they agree with `listeners` again. One that cannot be bound is logged and left out.

        The connections of a listener that was removed are closed; those of one that moved stay.
        """
        async with self._rebinding:
            wanted = {each.listener: each for each in self._config.current.listeners}
            for name, bound in tuple(self._bound.items()):
                if wanted.get(name) != bound.endpoint:
                    bound.server.close()
                    del self._bound[name]
            for connection in tuple(self.connections):
                if connection.listener not in wanted:
                    connection.close()
            for name in [each for each in wanted if each not in self._bound]:
                try:
                    await self._security.prepare()
                    await self._bind(wanted[name])
                    await self._bound[name].server.start_serving()
                except (OSError, ConfigError) as problem:
                    logger.error("%s", problem)

    async def renew_security(self) -> None:
        """Secure new connections by the settings as they are now."""
        await self._security.look()

    async def resolve_names(self) -> None:
        """Look up the host names in max.connections.per.ip.overrides; unknown ones are logged and match nobody."""
        names: dict[str, str] = {}
        for name, _ in self._config.current.max_connections_per_ip_overrides:
            if not is_address(name):
                try:
                    found = await asyncio.get_running_loop().getaddrinfo(name, None, type=socket.SOCK_STREAM)
                except OSError as problem:
                    logger.warning("max.connections.per.ip.overrides names %s: %s", name, problem)
                else:
                    names |= {str(each[4][0]): name for each in found}
        self._quotas.names = names

    async def serve(self) -> None:
        """Accept connections from now on."""
        for bound in self._bound.values():
            await bound.server.start_serving()
        self._schedule_idle_check()

    async def close(self) -> None:
        """Stop accepting and close all connections."""
        if self._idle_check is not None:
            self._idle_check.cancel()
        self.slow_senders.close()
        self.unread.close()
        for bound in self._bound.values():
            bound.server.close()
        for connection in tuple(self.connections):
            connection.close()
        self._security.unauthenticated.reads.close()

    def admit(self, connection: ServerConnection) -> bool:
        """Count a new connection; False if it is refused."""
        self.connections[connection] = None
        now_ms = asyncio.get_running_loop().time() * 1000
        admission = self._quotas.admit(connection.listener, connection.peer_host, now_ms)
        if admission.refusal:
            self.refused += 1
            logger.warning("refusing a connection from %s: %s", connection.peer_host, admission.refusal)
            return False
        self.accepted += 1
        if admission.hold_ms:
            connection.mute(admission.hold_ms / 1000)
        if admission.displaces:
            self._displace()
        return True

    def _displace(self) -> None:
        """Close the connection that was used least recently on a listener whose connections may have to give way."""
        others = [each for each in self.connections if not each.closed and not self._quotas.is_protected(each.listener)]
        if others:
            min(others, key=lambda each: each.last_used_s).close()

    def remove(self, connection: ServerConnection) -> None:
        if connection in self.connections:
            del self.connections[connection]
            self._quotas.remove(connection.peer_host)

    def bound_exceeded(self, bound: str) -> None:
        """Count a connection that is closed because it exceeded the bound."""
        self.bounds_exceeded[bound] += 1

    def _schedule_idle_check(self) -> None:
        idle_s = self._config.current.connections_max_idle_ms / 1000
        if idle_s > 0:
            loop = asyncio.get_running_loop()
            self._idle_check = loop.call_later(min(30.0, idle_s / 2), self._close_idle, idle_s)

    def _close_idle(self, idle_s: float) -> None:
        self._schedule_idle_check()  # first of all, so that the checks go on whatever one connection does
        now_s = asyncio.get_running_loop().time()
        for connection in tuple(self.connections):
            if connection.is_idle and now_s - connection.last_used_s > idle_s:
                connection.close()
