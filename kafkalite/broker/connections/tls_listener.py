"""Accepts connections with TLS: handshakes within bounds, each with the newest certificate.

asyncio's own server would start as many handshakes as clients like, say nothing of those that fail, and keep the context it started
with. Here the oldest handshake of the address that has most of them gives way to a new one when there are kafkalite.max.handshakes.
Event loops compute at once for whatever has arrived, so a hundred clients that begin together hold them for 50 ms; here each step
of a handshake waits for its turn (`unauthenticated`). Nor do they send the alert of a handshake that failed: without it clients take the
end of the connection for a failure of the network, and Java's try again where their certificate has expired.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from contextvars import ContextVar
from functools import partial
from itertools import chain
from typing import Any, Final, Self

from kafkalite.broker.connections.unauthenticated import UnauthenticatedConnections
from kafkalite.broker.connections.unauthenticated_reads import UnauthenticatedRead

logger = logging.getLogger("kafkalite.broker.connections.tls_listener")

_PAUSE_S: Final = 0.1
"""After an error of accept, which mostly is that there are no file descriptors left."""
_begun: ContextVar[_Handshake] = ContextVar("begun")


class _Early(asyncio.Protocol):
    """Keeps what arrives before the protocol that it is for is in its place."""

    def __init__(self) -> None:
        self._data = bytearray()
        self.taker: asyncio.BaseProtocol | None = None
        self.is_lost = False

    def data_received(self, data: bytes) -> None:
        self._data += data

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_lost = True
        if self.taker is not None:  # it is in its place, but this had been called for by then
            self.taker.connection_lost(exc)

    def give_data(self) -> None:
        """Pass what has arrived to the taker, as if it arrived now."""
        protocol = self.taker
        if isinstance(protocol, asyncio.Protocol) and self._data:
            protocol.data_received(bytes(self._data))
        left = memoryview(self._data)
        while left and not isinstance(protocol, asyncio.Protocol):
            buffered: Any = protocol
            buffer = buffered.get_buffer(len(left))
            size = min(len(buffer), len(left))
            buffer[:size] = left[:size]
            buffered.buffer_updated(size)
            left = left[size:]


class _Handshake:
    """A handshake in progress, which the loop's protocol of TLS continues when it is its turn. Nothing is read while it waits for that."""

    def __init__(self, accepted: socket.socket, host: str, unauthenticated: UnauthenticatedConnections) -> None:
        self.accepted, self._host = accepted, host
        self.read: UnauthenticatedRead | None = None
        self._unauthenticated, self._is_over = unauthenticated, False
        self.transport: asyncio.Transport | None = None
        """The transport below TLS, once there is one."""
        self._is_waiting = self._is_its_turn = False

    def begin_turns(self, transport: asyncio.Transport) -> None:
        """Read from the transport in turns from now on."""
        if not self._is_over and not transport.is_closing():
            self.read = self._unauthenticated.reads.add(transport)

    def end_turns(self) -> None:
        """Read as from any other connection, unless SASL is still to come: the handshake is over."""
        self._is_over = True
        if self.read is not None and self.read.above is None:
            self.read.end_turns()
        self.read = self.transport = None  # the transport's context holds this

    def may_go_on(self) -> bool:
        """True if what has arrived may be processed now; otherwise this is called again when it may."""
        if not (self._is_its_turn or self._is_waiting):
            self._is_waiting = True
            self._unauthenticated.wait_for_turn(self._host).add_done_callback(self._go_on)
            if self.read is not None:
                self.read.pause_reading()
        return self._is_its_turn

    def _go_on(self, turn: asyncio.Future[None]) -> None:
        self._is_waiting, self._is_its_turn = False, True
        if self.read is not None:
            self.read.resume_reading()
        try:
            if self.transport is not None and not self.transport.is_closing():
                protocol: Any = self.transport.get_protocol()
                protocol.buffer_updated(0)
        finally:
            self._is_its_turn = False


class InTurns(ssl.SSLObject):
    """An SSLObject that continues its handshake when it may, and sends the alert when it fails: the loop would close without one."""

    _incoming: ssl.MemoryBIO
    _outgoing: ssl.MemoryBIO
    _handshake: _Handshake | None
    below: asyncio.Transport | None
    """The transport that carries what OpenSSL writes."""

    @classmethod
    def _create(cls, incoming: ssl.MemoryBIO, outgoing: ssl.MemoryBIO, *arguments: Any, **more: Any) -> Self:
        made: Self = super()._create(incoming, outgoing, *arguments, **more)  # type: ignore[misc]  # how SSLContext makes one
        made._incoming, made._outgoing, made._handshake = incoming, outgoing, _begun.get(None)
        made.below = None if made._handshake is None else made._handshake.transport
        return made

    def do_handshake(self) -> None:
        if self._handshake is not None and self._incoming.pending and not self._handshake.may_go_on():
            raise ssl.SSLWantReadError
        try:
            super().do_handshake()
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            raise
        except ssl.SSLError:
            if self._handshake is not None:
                with suppress(OSError):
                    if alert := self._outgoing.read():
                        self._handshake.accepted.send(alert)
                    self._handshake.accepted.shutdown(socket.SHUT_WR)  # else what is unread resets the connection
            raise
        self._handshake = None

    def end_notice(self) -> bytes:
        """Write nothing more. Return what OpenSSL has for the peer, the last of it `close_notify`."""
        with suppress(ssl.SSLError):  # the peer has not said the same
            self.unwrap()
        return self._outgoing.read()


class TlsListener:
    """Accepts on `sockets` with TLS. `context()` and `make()` are called for each connection; `outcomes` counts how handshakes end.

    Each step of a handshake waits for its turn among those of `unauthenticated`; times are in seconds.
    """

    def __init__(
        self,
        sockets: list[socket.socket],
        context: Callable[[], ssl.SSLContext],
        make: Callable[[], asyncio.BaseProtocol],
        timeout_s: Callable[[], float],
        max_handshakes: Callable[[], int],
        outcomes: Counter[str],
        unauthenticated: UnauthenticatedConnections,
    ) -> None:
        self.sockets = sockets
        self._context, self._make = context, make
        self._timeout_s, self._max_handshakes = timeout_s, max_handshakes
        self._accepting: list[asyncio.Task[None]] = []
        self._handshakes: dict[str, dict[asyncio.Task[None], None]] = {}
        """Handshakes in progress by the address that they come from, oldest first."""
        self._count = 0
        self.outcomes = outcomes
        self._unauthenticated = unauthenticated

    async def start_serving(self) -> None:
        """Accept connections from now on."""
        loop = asyncio.get_running_loop()
        self._accepting = [loop.create_task(self._accept(each)) for each in self.sockets]

    def close(self) -> None:
        """Accept no more, and give up handshakes in progress; connections stay."""
        for task in (*self._accepting, *chain.from_iterable(self._handshakes.values())):
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
            is_full = self._count >= self._max_handshakes()
            if is_full:
                self._displace()
            host = address[0]
            task = loop.create_task(self._handshake(accepted, host))
            self._handshakes.setdefault(host, {})[task] = None
            self._count += 1
            task.add_done_callback(partial(self._finish_handshake, accepted, host))
            if is_full:  # who is displaced comes back at once: to accept is a step among those of handshakes then
                await self._unauthenticated.wait_for_turn()

    def _displace(self) -> None:
        busiest = max(self._handshakes, key=lambda host: len(self._handshakes[host]))
        oldest = next(iter(self._handshakes[busiest]))
        oldest.cancel()
        self._forget(oldest, busiest)

    def _forget(self, task: asyncio.Task[None], host: str) -> None:
        of_host = self._handshakes.get(host, {})
        if task in of_host:
            del of_host[task]
            self._count -= 1
            if not of_host:
                del self._handshakes[host]

    def _finish_handshake(self, accepted: socket.socket, host: str, task: asyncio.Task[None]) -> None:
        self._forget(task, host)
        if task.cancelled():  # perhaps before it began
            self.outcomes["displaced"] += 1
            accepted.close()

    async def _handshake(self, accepted: socket.socket, host: str) -> None:
        accepted.setblocking(False)
        handshake = _Handshake(accepted, host, self._unauthenticated)
        _begun.set(handshake)
        context = self._context()
        context.sslobject_class = InTurns
        try:
            async with asyncio.timeout(self._timeout_s()):
                await self._unauthenticated.wait_for_turn(host)
                encrypted, early = await _complete_handshake(handshake, context)
            protocol = self._make()
            encrypted.set_protocol(protocol)
            early.taker = protocol
            protocol.connection_made(encrypted)
            if not encrypted.is_closing():
                early.give_data()
            self.outcomes["succeeded"] += 1
        except (OSError, TimeoutError) as problem:
            self.outcomes["failed"] += 1
            reason = getattr(problem, "reason", None) or str(problem) or type(problem).__name__
            logger.info("failed TLS handshake of %s: %s", host, reason)
            accepted.close()
        finally:
            handshake.end_turns()


async def _complete_handshake(handshake: _Handshake, context: ssl.SSLContext) -> tuple[asyncio.Transport, _Early]:
    """Complete a handshake; return the encrypted transport, and the protocol that keeps what arrives meanwhile. Raises OSError.

    The loop's protocol of TLS is made by `start_tls`, because only so is it known, by the transport below it.
    """
    loop = asyncio.get_running_loop()
    before, early = _Early(), _Early()
    transport, _ = await loop.connect_accepted_socket(lambda: before, handshake.accepted)
    if transport.is_closing():
        raise ConnectionResetError("closed before the handshake")
    handshake.transport = transport

    def give_data() -> None:
        before.taker = transport.get_protocol()
        before.give_data()
        loop.call_soon(handshake.begin_turns, transport)  # after start_tls has had it read

    loop.call_soon(give_data)  # before that protocol begins
    try:
        encrypted = await loop.start_tls(transport, early, context, server_side=True)
    except BaseException:
        transport.abort()
        raise
    if encrypted is None or early.is_lost:
        raise ConnectionResetError("closed with the end of the handshake")
    return encrypted, early


async def listening_sockets(host: str | None, port: int, backlog: int) -> list[socket.socket]:
    """Return sockets that listen on every address of a host. Raises OSError if one cannot be bound."""
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
