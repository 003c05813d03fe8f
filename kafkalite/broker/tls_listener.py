"""Accepts connections with TLS: handshakes within bounds, each with the newest certificate.

asyncio's own server would begin as many handshakes as strangers like, say nothing of those that fail, and keep the context it began
with. Here the oldest handshake of the address that has most of them gives way to a new one when there are kafkalite.max.handshakes.
Nor do event loops send the alert of a handshake that failed: without it clients take the end of the connection for a failure of the
network, and Java's try again where their certificate has expired.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from contextvars import ContextVar
from functools import partial
from typing import Any, Final, Self

logger = logging.getLogger("kafkalite.broker.tls_listener")

_PAUSE_S: Final = 0.1
"""After an error of accept, which mostly is that there are no file descriptors left."""
_accepted: ContextVar[socket.socket] = ContextVar("accepted")


class _Alerting(ssl.SSLObject):
    """Sends what OpenSSL has to say when a handshake fails: the loop closes the connection without it."""

    _outgoing: ssl.MemoryBIO
    _socket: socket.socket | None

    @classmethod
    def _create(cls, incoming: ssl.MemoryBIO, outgoing: ssl.MemoryBIO, *arguments: Any, **more: Any) -> Self:
        made: Self = super()._create(incoming, outgoing, *arguments, **more)  # type: ignore[misc]  # how SSLContext makes one
        made._outgoing, made._socket = outgoing, _accepted.get(None)
        return made

    def do_handshake(self) -> None:
        try:
            super().do_handshake()
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            raise
        except ssl.SSLError:
            if self._socket is not None and (alert := self._outgoing.read()):
                with suppress(OSError):
                    self._socket.send(alert)
            raise
        self._socket = None


class TlsListener:
    """See the module. `context()` and `make()` are asked for each connection; times in seconds; `outcomes` counts how handshakes end.

    Each awaits `turn()` before it begins: see `strangers`.
    """

    def __init__(
        self,
        sockets: list[socket.socket],
        context: Callable[[], ssl.SSLContext],
        make: Callable[[], asyncio.BaseProtocol],
        timeout_s: Callable[[], float],
        max_handshakes: Callable[[], int],
        outcomes: Counter[str],
        turn: Callable[[], Awaitable[None]],
    ) -> None:
        self.sockets = sockets
        self._context, self._make = context, make
        self._timeout_s, self._max_handshakes = timeout_s, max_handshakes
        self._accepting: list[asyncio.Task[None]] = []
        self._handshakes: dict[asyncio.Task[None], str] = {}
        """Those in progress, oldest first, with the address of each."""
        self.outcomes = outcomes
        self._turn = turn

    async def start_serving(self) -> None:
        """Begin to accept."""
        loop = asyncio.get_running_loop()
        self._accepting = [loop.create_task(self._accept(each)) for each in self.sockets]

    def close(self) -> None:
        """Accept no more, and give up handshakes in progress; connections stay."""
        for task in (*self._accepting, *self._handshakes):
            task.cancel()
        for each in self.sockets:
            each.close()

    async def _accept(self, listening: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                accepted, address = await loop.sock_accept(listening)
            except OSError as problem:
                logger.warning("accepting a connection failed: %s", problem)
                await asyncio.sleep(_PAUSE_S)
                continue
            if len(self._handshakes) >= self._max_handshakes():
                self._displace()
            task = loop.create_task(self._handshake(accepted, address[0]))
            self._handshakes[task] = address[0]
            task.add_done_callback(partial(self._ended, accepted))

    def _displace(self) -> None:
        busiest = Counter(self._handshakes.values()).most_common(1)[0][0]
        oldest = next(task for task, host in self._handshakes.items() if host == busiest)
        oldest.cancel()
        del self._handshakes[oldest]

    def _ended(self, accepted: socket.socket, task: asyncio.Task[None]) -> None:
        self._handshakes.pop(task, None)
        if task.cancelled():  # perhaps before it began
            self.outcomes["displaced"] += 1
            accepted.close()

    async def _handshake(self, accepted: socket.socket, host: str) -> None:
        accepted.setblocking(False)
        loop = asyncio.get_running_loop()
        _accepted.set(accepted)
        context = self._context()
        context.sslobject_class = _Alerting
        try:
            async with asyncio.timeout(self._timeout_s()):
                await self._turn()
                await loop.connect_accepted_socket(self._make, accepted, ssl=context)
            self.outcomes["succeeded"] += 1
        except (OSError, TimeoutError) as problem:
            self.outcomes["failed"] += 1
            reason = getattr(problem, "reason", None) or str(problem) or type(problem).__name__
            logger.info("failed TLS handshake of %s: %s", host, reason)
            accepted.close()


async def listening_sockets(host: str | None, port: int, backlog: int) -> list[socket.socket]:
    """Sockets that listen on every address of a host; OSError when one cannot be bound."""
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    sockets: list[socket.socket] = []
    try:
        for family, kind, protocol, _, address in dict.fromkeys(found):
            try:
                made = socket.socket(family, kind, protocol)
            except OSError:
                continue  # addresses of a family that the system does not have
            sockets.append(made)
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            if port == 0 and len(sockets) > 1:
                address = (address[0], sockets[0].getsockname()[1], *address[2:])
            made.bind(address)
            made.listen(backlog)
            made.setblocking(False)
    except OSError:
        for each in sockets:
            each.close()
        raise
    return sockets
