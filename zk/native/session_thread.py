"""The thread that keeps a session: it connects to one server after the other, sends and receives, and pings while the event loop is busy.

What it learns goes to the loop through a `Mailbox`, in the order of the wire. Requests come as `submit(connection, request)`: those for
a connection that is lost meanwhile are dropped, because the loop sends them again when it hears of the loss.
"""

from __future__ import annotations

import logging
import random
import secrets
import selectors
import socket
import ssl
import threading
import time
from collections import deque
from collections.abc import Iterator, Sequence
from typing import Final, Protocol

from zk.mailbox import Mailbox
from zk.protocol.connection import (
    AuthenticationRefused,
    Closed,
    Connection,
    ConnectionLost,
    Event,
    Opened,
    SessionEnded,
    SessionTicket,
    Stage,
)
from zk.protocol.requests import Request
from zk.security.store_security import StoreSecurity

logger = logging.getLogger(__name__)

_READ_BYTES: Final = 256 * 1024
_MOST_UNDELIVERED: Final = 64
"""Reads whose events the loop has not taken yet, after which no more is read: what a server sends to a busy broker is bounded."""
_LOOK_AGAIN_S: Final = 0.01
_FIRST_PATIENCE_S: Final = 0.5
"""For the first session: a server that is just starting may take a connection and never answer on it (ZooKeeper 3.9, before its database
is there). Doubled with each attempt."""
_FIRST_PAUSE_S: Final = 0.05
_LONGEST_PAUSE_S: Final = 0.25
"""After every server was tried, doubled until a session is there."""
_REFUSED_PAUSE_S: Final = 1.0
"""Kafka's: after it, credentials that were refused are tried again."""
_SHORTEST_CONNECT_TIMEOUT_S: Final = 1.0


class SessionOwner(Protocol):
    """Called on the event loop."""

    def on_connected(self, connection: int, ticket: SessionTicket) -> None:
        """Requests may be submitted for this connection."""

    def on_events(self, events: list[Event]) -> None:
        """Replies and watch events."""

    def on_lost(self, last_zxid: int) -> None:
        """The connection is lost, and with it what was submitted and not answered; `last_zxid` is the last transaction seen."""

    def on_session_ended(self, *, was_refused: bool) -> None:
        """The session is over, or the server `was_refused` proof of who this is. The next session is on its way."""

    def on_stopped(self) -> None:
        """The thread has ended, and with it the session where there was a connection."""


class SessionThread:
    """One session at a time with the servers `hosts`, from `start` to `stop`."""

    def __init__(
        self,
        hosts: Sequence[tuple[str, int]],
        session_timeout_s: float,
        security: StoreSecurity,
        mailbox: Mailbox,
        owner: SessionOwner,
    ) -> None:
        self._hosts = list(hosts)
        self._session_timeout_s = session_timeout_s
        self._security = security
        self._mailbox = mailbox
        self._owner = owner
        self._ticket = SessionTicket()
        self._last_zxid = 0
        self._number = 0
        self._patience_s: float | None = _FIRST_PATIENCE_S
        self._pause_s = _FIRST_PAUSE_S
        self._socket: socket.socket | None = None
        self._stopping = self._is_closed = False
        self._submitted: deque[tuple[int, Request]] = deque()
        self._posted = self._delivered = 0
        self._awake = False
        self._wake_reader, self._wake_writer = socket.socketpair()
        self._wake_reader.setblocking(False)
        self._wake_writer.setblocking(False)
        self.tls_problem = ""
        """Why the latest attempt to encrypt a connection failed; empty when it did not."""

    # -- from the event loop

    def start(self) -> None:
        # A daemon, so that a hanging server cannot keep the process from ending.
        threading.Thread(target=self._run, name="zookeeper session", daemon=True).start()

    def submit(self, connection: int, request: Request) -> None:
        """Send a request over the connection of this number, if it is still there."""
        self._submitted.append((connection, request))
        self._wake()

    def note_delivered(self) -> None:
        """Note that the owner has taken the events of one call."""
        self._delivered += 1

    def stop(self) -> None:
        """End the session and the thread; `on_stopped` tells when that is done."""
        self._stopping = True
        self._wake()

    def _wake(self) -> None:
        if not self._awake:
            self._awake = True
            try:
                self._wake_writer.send(b"\0")
            except OSError:
                logger.debug("the thread of the ZooKeeper session has ended")

    # -- in the thread

    def _run(self) -> None:
        try:
            while not self._stopping:
                for host, address in self._find_servers():
                    if self._stopping:
                        break
                    self._use_server(host, address)
                self._wait(random.uniform(0.5, 1.0) * self._pause_s)
                self._pause_s = min(2 * self._pause_s, _LONGEST_PAUSE_S)
        finally:
            self._wake_reader.close()
            self._wake_writer.close()
            self._mailbox.post(self._owner.on_stopped)

    def _find_servers(self) -> Iterator[tuple[str, tuple[str, int]]]:
        """Return the servers in a random order, each with its name and one of its addresses."""
        found: list[tuple[str, tuple[str, int]]] = []
        for host, port in self._hosts:
            try:
                for *_, address in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM):
                    found.append((host, (str(address[0]), port)))
            except OSError as problem:
                logger.debug("%s has no address: %s", host, problem)
        random.shuffle(found)
        return iter(found)

    def _wait(self, seconds: float) -> None:
        """Wait, unless the thread is to stop."""
        deadline_s = time.monotonic() + seconds
        with selectors.DefaultSelector() as selector:
            selector.register(self._wake_reader, selectors.EVENT_READ)
            while not self._stopping and (left_s := deadline_s - time.monotonic()) > 0:
                selector.select(left_s)
                self._take_wakeup()

    def _take_wakeup(self) -> None:
        """Read the byte that woke the thread.

        It is read before `_awake` is reset, and what was submitted is looked at after that: a request in between is seen, and the next one
        wakes the thread again. In any other order a byte could be read with nobody to send another.
        """
        try:
            self._wake_reader.recv(64)
        except BlockingIOError:
            pass
        self._awake = False

    def _use_server(self, host: str, address: tuple[str, int]) -> None:
        """Connect to a server, and stay as long as it serves the session."""
        was_open = False
        connection: Connection | None = None
        try:
            with self._connect(host, address) as connected:
                self._socket = connected
                self._number += 1
                connection = self._open_connection()
                self._serve(connected, connection)
        except SessionEnded:
            self._end_session(was_refused=False)
        except AuthenticationRefused as problem:
            logger.debug("%s:%d: %s", *address, problem)
            self._end_session(was_refused=True)
            self._wait(_REFUSED_PAUSE_S)
        except (ConnectionLost, OSError) as problem:
            logger.debug("%s:%d: %s", *address, problem)
        except Exception:
            logger.exception("the ZooKeeper connection to %s:%d failed", *address)
        finally:
            self._socket = None
            if connection is not None:
                self._last_zxid = connection.last_zxid
                was_open = connection.stage in (Stage.OPEN, Stage.CLOSING)
            if was_open:
                self._mailbox.post(self._owner.on_lost, self._last_zxid)

    def _end_session(self, *, was_refused: bool) -> None:
        had_session = self._ticket.session_id != 0
        self._ticket, self._last_zxid = SessionTicket(), 0
        if had_session or was_refused:
            self._mailbox.post(lambda: self._owner.on_session_ended(was_refused=was_refused))

    def _connect(self, host: str, address: tuple[str, int]) -> socket.socket:
        """Return a socket to a server, encrypted where it is to be. Raises OSError."""
        timeout_s = max(_SHORTEST_CONNECT_TIMEOUT_S, self._session_timeout_s / len(self._hosts))
        plain = socket.create_connection(address, timeout_s)
        try:
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connected = plain if self._security.context is None else self._encrypt(plain, host)
            connected.setblocking(False)
            return connected
        except OSError:
            plain.close()
            raise

    def _encrypt(self, plain: socket.socket, host: str) -> ssl.SSLSocket:
        try:
            encrypted = self._security.context().wrap_socket(plain, server_hostname=host)  # type: ignore[misc]
        except OSError as problem:
            self.tls_problem = str(problem)
            raise
        self.tls_problem = ""
        return encrypted

    def _open_connection(self) -> Connection:
        credentials = self._security.credentials
        exchange = None if credentials is None else credentials.start_exchange(secrets.token_urlsafe(24))
        patience_s = self._session_timeout_s / len(self._hosts)
        if self._patience_s is not None:
            patience_s = min(patience_s, self._patience_s)
            self._patience_s *= 2
        now_s = time.monotonic()
        return Connection(self._ticket, self._session_timeout_s, self._last_zxid, exchange, patience_s, now_s)

    def _serve(self, connected: socket.socket, connection: Connection) -> None:
        """Exchange bytes with a server until the session is closed. Raises OSError and what `Connection` raises."""
        with selectors.DefaultSelector() as selector:
            interest = selectors.EVENT_READ
            selector.register(connected, interest)
            selector.register(self._wake_reader, selectors.EVENT_READ)
            while True:
                now_s = time.monotonic()
                connection.tick(now_s)
                _write(connected, connection.outgoing)
                is_behind = self._posted - self._delivered >= _MOST_UNDELIVERED
                wanted = 0 if is_behind else selectors.EVENT_READ
                if connection.outgoing:
                    wanted |= selectors.EVENT_WRITE
                if wanted != interest:
                    interest = _change_interest(selector, connected, interest, wanted)
                wait_s = _LOOK_AGAIN_S if is_behind else max(connection.next_tick_s - now_s, 0.0)
                ready = selector.select(wait_s)
                now_s = time.monotonic()
                if is_behind:
                    connection.note_heard(now_s)
                for key, events in ready:
                    if key.fileobj is self._wake_reader:
                        self._take_wakeup()
                    elif events & selectors.EVENT_READ:
                        self._receive(connected, connection, now_s)
                if connection.stage is Stage.OPEN:
                    self._send_submitted(connection, now_s)
                    if self._stopping:
                        connection.close(now_s)
                elif self._stopping and connection.stage is not Stage.CLOSING:
                    return
                if self._is_closed:
                    return

    def _receive(self, connected: socket.socket, connection: Connection, now_s: float) -> None:
        """Read what is there, and post the events, also those before an error. Raises what `Connection` raises."""
        data = _read(connected)
        if data is None:
            return
        try:
            connection.receive(data, now_s)
        finally:
            self._post(connection.take_events())

    def _post(self, events: list[Event]) -> None:
        """Post events to the owner."""
        if events and isinstance(opened := events[0], Opened):
            events.pop(0)
            self._ticket = opened.ticket
            self._patience_s, self._pause_s = None, _FIRST_PAUSE_S
            self._mailbox.post(self._owner.on_connected, self._number, opened.ticket)
        if events and isinstance(events[-1], Closed):
            events.pop()
            self._is_closed = True
        if events:
            self._posted += 1
            self._mailbox.post(self._owner.on_events, events)

    def _send_submitted(self, connection: Connection, now_s: float) -> None:
        """Pass the requests that were submitted for this connection to it."""
        while self._submitted:
            number, request = self._submitted.popleft()
            if number == self._number:
                connection.send(request, now_s)


def _change_interest(selector: selectors.BaseSelector, connected: socket.socket, interest: int, wanted: int) -> int:
    """Wait for other events of a socket; return these."""
    if not wanted:
        selector.unregister(connected)
    elif not interest:
        selector.register(connected, wanted)
    else:
        selector.modify(connected, wanted)
    return wanted


def _read(connected: socket.socket) -> bytes | None:
    """Return what has arrived, None if nothing has. Raises ConnectionLost at the end of the stream, OSError."""
    try:
        data = connected.recv(_READ_BYTES)
        # What OpenSSL has decrypted already, the kernel does not know of.
        while data and isinstance(connected, ssl.SSLSocket) and (pending_bytes := connected.pending()):
            data += connected.recv(pending_bytes)
    except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
        return None
    if not data:
        raise ConnectionLost("the server closed the connection")
    return data


def _write(connected: socket.socket, outgoing: bytearray) -> None:
    """Send as much as the socket takes, and remove it. Raises OSError."""
    while outgoing:
        try:
            sent_bytes = connected.send(outgoing)
        except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return
        del outgoing[:sent_bytes]
