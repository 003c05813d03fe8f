"""Accepts connections on the broker's listeners, within bounds, and closes those that idle.

Bounds: max.connections and max.connections.per.ip (a connection beyond them is closed at once), connections.max.idle.ms.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from typing import TYPE_CHECKING

from kafkalite.broker.connection import ServerConnection

if TYPE_CHECKING:
    from kafkalite.broker.dispatch import Dispatcher
    from kafkalite.config.broker import LiveConfig

logger = logging.getLogger("kafkalite.broker.server")

_BACKLOG = 1024
"""More than socket.listen.backlog.size, because a burst of clients beyond it waits a second for each retry."""


class Server:
    """See the module."""

    def __init__(self, config: LiveConfig, dispatcher: Dispatcher) -> None:
        self._config = config
        self._dispatcher = dispatcher
        self._servers: list[asyncio.AbstractServer] = []
        self._idle_check: asyncio.TimerHandle | None = None
        self.connections: set[ServerConnection] = set()
        self._per_host: Counter[str] = Counter()
        self.bound_ports: dict[str, int] = {}
        self.accepted = 0
        self.refused = 0

    async def bind(self) -> None:
        """Bind every listener, without serving yet. OSError names listener and address."""
        loop = asyncio.get_running_loop()
        for listener in self._config.current.listeners:
            try:
                server = await loop.create_server(
                    lambda name=listener.listener: ServerConnection(
                        self, self._dispatcher, name, self._config.current.socket_request_max_bytes
                    ),
                    listener.host or None,
                    listener.port,
                    backlog=max(_BACKLOG, self._config.current.socket_listen_backlog_size),
                    start_serving=False,
                )
            except OSError as problem:
                raise OSError(
                    problem.errno,
                    f"listener {listener.listener} cannot bind {listener.host or '*'}:{listener.port}: {problem.strerror}",
                ) from problem
            self._servers.append(server)
            self.bound_ports[listener.listener] = server.sockets[0].getsockname()[1]

    async def serve(self) -> None:
        """Begin to accept."""
        for server in self._servers:
            await server.start_serving()
        self._schedule_idle_check()

    async def close(self) -> None:
        """Stop accepting and close all connections."""
        if self._idle_check is not None:
            self._idle_check.cancel()
        for server in self._servers:
            server.close()
        for connection in tuple(self.connections):
            connection.close()

    def admit(self, connection: ServerConnection) -> bool:
        """Called by a new connection; False when it is one too many."""
        self.connections.add(connection)
        self._per_host[connection.peer_host] += 1
        config = self._config.current
        full = len(self.connections) > config.max_connections
        if full or self._per_host[connection.peer_host] > config.max_connections_per_ip:
            self.refused += 1
            logger.warning("refusing a connection from %s: %s", connection.peer_host, "too many connections")
            return False
        self.accepted += 1
        return True

    def gone(self, connection: ServerConnection) -> None:
        if connection in self.connections:
            self.connections.remove(connection)
            self._per_host[connection.peer_host] -= 1
            if not self._per_host[connection.peer_host]:
                del self._per_host[connection.peer_host]

    def _schedule_idle_check(self) -> None:
        idle_s = self._config.current.connections_max_idle_ms / 1000
        if idle_s > 0:
            loop = asyncio.get_running_loop()
            self._idle_check = loop.call_later(min(30.0, idle_s / 2), self._close_idle, idle_s)

    def _close_idle(self, idle_s: float) -> None:
        now_s = asyncio.get_running_loop().time()
        for connection in tuple(self.connections):
            if connection.is_idle and now_s - connection.last_used_s > idle_s:
                connection.close()
        self._schedule_idle_check()
