"""One connection to a ZooKeeper server, without I/O: from the request for a session to its end.

    OPENING         the ConnectRequest is on its way: a session that is new or another connection's; timeout 0 in the answer: it has expired
    AUTHENTICATING  SASL, where there are credentials; nothing else is sent before it is over
    OPEN            requests and pings; replies come in the order of the requests, watch events in between, in the order of the changes
    CLOSING         closeSession is on its way

Whoever has the socket sends what is in `outgoing`, passes what it reads to `receive`, and calls `tick` at `next_tick_s` or sooner.
Times are those of any monotonic clock, in seconds.

A server is untrusted until TLS or SASL has proven it: a message that announces more bytes than `LARGEST_MESSAGE_BYTES` (while the
connection is opened, `_LARGEST_OPENING_BYTES`), or that is not what was asked for, breaks the connection.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from struct import Struct
from struct import error as StructError
from typing import Any, Final, NamedTuple, TypeAlias

from zk.protocol.jute import INT, MalformedError, decode_buffer, decode_int, decode_string, encode_buffer
from zk.protocol.requests import SET_WATCHES_XID, Code, ErrorCode, Request, close_session, sasl
from zk.security.digest_md5 import Exchange, ServerNotProven
from zk.store import EventType, WatchEvent

LARGEST_MESSAGE_BYTES: Final = 256 * 1024 * 1024
"""Servers do not bound their replies; the names of 2 million topics take 140 MB."""
_LARGEST_OPENING_BYTES: Final = 64 * 1024

_READ_TIMEOUT: Final = 2 / 3
"""Share of the session timeout after which a silent connection is given up, as in the Java client: it leaves time for another server."""
_PING_INTERVAL: Final = 0.3
"""Share of the session timeout after which a ping is sent if nothing else was; the Java client waits for a third of it."""
_LONGEST_PING_INTERVAL_S: Final = 10.0
"""As in the Java client."""

_CLOSING_PATIENCE_S: Final = 5.0
"""For the reply to closeSession."""

_CONNECT: Final = Struct(">iqiq")
_CONNECTED: Final = Struct(">iiq")
_REPLY: Final = Struct(">iqi")
_HEADER: Final = Struct(">ii")
_FRAME_AND_HEADER: Final = Struct(">iii")
_EVENT_XID: Final = -1
_PING_XID: Final = -2
_FIRST_XID: Final = 1
_LAST_XID: Final = 2**31 - 1
_EVENTS: Final = {1: EventType.CREATED, 2: EventType.DELETED, 3: EventType.CHANGED, 4: EventType.CHILDREN}
_LOST: Final = frozenset((ErrorCode.CONNECTION_LOSS, ErrorCode.OPERATION_TIMEOUT, ErrorCode.SESSION_MOVED))


class ConnectionLost(Exception):
    """Raised when the connection is of no use any more; the session may go on with another."""


class SessionEnded(Exception):
    """Raised when the server does not have the session any more."""


class AuthenticationRefused(Exception):
    """Raised when the server refused the credentials, or did not prove that it knows them."""


class Stage(Enum):
    OPENING = "opening"
    AUTHENTICATING = "authenticating"
    OPEN = "open"
    CLOSING = "closing"


@dataclass(frozen=True, slots=True)
class SessionTicket:
    """The session that a connection is for; `session_id` is 0 for a new one."""

    session_id: int = 0
    password: bytes = bytes(16)


@dataclass(frozen=True, slots=True)
class Opened:
    """The connection serves requests; the server grants `timeout_s` to the session."""

    ticket: SessionTicket
    timeout_s: float


class Reply(NamedTuple):
    """The reply to a request; `value` is None with an error other than OK."""

    request: Request
    error: int
    value: Any


class Closed(NamedTuple):
    """The session was ended as asked."""


Event: TypeAlias = Opened | Reply | WatchEvent | Closed


class Connection:
    """The protocol of one connection. `patience_s` bounds each answer while it is opened."""

    def __init__(
        self,
        ticket: SessionTicket,
        session_timeout_s: float,
        last_zxid: int,
        exchange: Exchange | None,
        patience_s: float,
        now_s: float,
    ) -> None:
        self.stage = Stage.OPENING
        self.last_zxid = last_zxid
        """The youngest transaction that this client has seen the effect of."""
        self.outgoing = bytearray()
        self.events: list[Event] = []
        self._ticket = ticket
        self._exchange = exchange
        self._patience_s = patience_s
        self._timeout_s = session_timeout_s
        self._incoming = bytearray()
        self._pending: deque[tuple[int, Request]] = deque()
        self._next_xid = _FIRST_XID
        self._last_sent_s = self._last_heard_s = now_s
        body = _CONNECT.pack(0, last_zxid, int(session_timeout_s * 1000), ticket.session_id)
        self._send_frame(body + encode_buffer(ticket.password) + b"\0")

    # -- time

    @property
    def next_tick_s(self) -> float:
        """When `tick` has something to do."""
        if self.stage is not Stage.OPEN:
            return self._last_heard_s + self._patience_s
        return min(self._last_sent_s + self._ping_interval_s, self._last_heard_s + _READ_TIMEOUT * self._timeout_s)

    @property
    def _ping_interval_s(self) -> float:
        return min(_PING_INTERVAL * self._timeout_s, _LONGEST_PING_INTERVAL_S)

    def tick(self, now_s: float) -> None:
        """Send a ping when it is time. Raises ConnectionLost when the server has been silent for too long."""
        silent_s = now_s - self._last_heard_s
        if silent_s >= (_READ_TIMEOUT * self._timeout_s if self.stage is Stage.OPEN else self._patience_s):
            raise ConnectionLost(f"the server has been silent for {silent_s:.2f} s")
        if self.stage is Stage.OPEN and now_s - self._last_sent_s >= self._ping_interval_s:
            self._send_frame(_HEADER.pack(_PING_XID, Code.PING))
            self._last_sent_s = now_s

    def note_heard(self, now_s: float) -> None:
        """Note that the server is not silent: it has sent what is not read yet."""
        self._last_heard_s = now_s

    # -- requests

    def send(self, request: Request, now_s: float) -> None:
        """Queue a request, in the stage OPEN."""
        if request.code is Code.SET_WATCHES:
            xid = SET_WATCHES_XID
        else:
            xid = self._next_xid
            self._next_xid = xid + 1 if xid < _LAST_XID else _FIRST_XID
        self._pending.append((xid, request))
        self.outgoing += _FRAME_AND_HEADER.pack(_HEADER.size + len(request.body), xid, request.code)
        self.outgoing += request.body
        self._last_sent_s = now_s

    def close(self, now_s: float) -> None:
        """Ask the server to end the session, in the stage OPEN; `Closed` tells that it has."""
        self.send(close_session(), now_s)
        self.stage = Stage.CLOSING
        # The server has said nothing since its last ping, and has to commit the end.
        self._last_heard_s, self._patience_s = now_s, max(self._patience_s, _CLOSING_PATIENCE_S)

    def _send_frame(self, message: bytes) -> None:
        self.outgoing += INT.pack(len(message)) + message

    # -- answers

    def receive(self, data: bytes, now_s: float) -> None:
        """Append to `events` what happens by bytes that were read. Raises ConnectionLost, SessionEnded, AuthenticationRefused."""
        self._last_heard_s = now_s
        self._incoming += data
        for message in self._take_messages():
            try:
                event = self._receive_message(message, now_s)
            except (MalformedError, StructError) as problem:
                raise ConnectionLost(f"the server sent what is not ZooKeeper's: {problem}") from None
            if event is not None:
                self.events.append(event)

    def take_events(self) -> list[Event]:
        """Return the events that were not taken yet, in the order of the wire; also after `receive` has raised."""
        events, self.events = self.events, []
        return events

    def _take_messages(self) -> Iterator[bytes]:
        """Yield the messages that are complete, and keep the rest."""
        incoming, start = self._incoming, 0
        try:
            while len(incoming) >= start + INT.size:
                (size_bytes,) = INT.unpack_from(incoming, start)
                is_opened = self.stage in (Stage.OPEN, Stage.CLOSING)
                most_bytes = LARGEST_MESSAGE_BYTES if is_opened else _LARGEST_OPENING_BYTES
                if not 0 <= size_bytes <= most_bytes:
                    raise ConnectionLost(f"the server announced a message of {size_bytes} bytes")
                end = start + INT.size + size_bytes
                if end > len(incoming):
                    break
                message = bytes(memoryview(incoming)[start + INT.size : end])
                start = end
                yield message
        finally:
            del incoming[:start]

    def _receive_message(self, message: bytes, now_s: float) -> Event | None:
        if self.stage is Stage.OPENING:
            return self._receive_session(message, now_s)
        xid, zxid, error = _REPLY.unpack_from(message)
        if xid == _PING_XID:
            return None
        if xid == _EVENT_XID:
            return _decode_event(message)
        if not self._pending or self._pending[0][0] != xid:
            raise MalformedError(f"reply {xid} is not the one to the oldest request")
        if zxid > 0:
            self.last_zxid = zxid
        _, request = self._pending.popleft()
        if request.code is Code.SASL:
            return self._receive_token(request, error, message, now_s)
        if request.code is Code.CLOSE:
            return Closed()
        return _decode_reply(request, error, message)

    def _receive_session(self, message: bytes, now_s: float) -> Event | None:
        _, timeout_ms, session_id = _CONNECTED.unpack_from(message)
        password, _ = decode_buffer(message, _CONNECTED.size)
        if timeout_ms <= 0:
            raise SessionEnded
        self._ticket, self._timeout_s = SessionTicket(session_id, password), timeout_ms / 1000
        if self._exchange is None:
            return self._open()
        self.stage = Stage.AUTHENTICATING
        self.send(sasl(next(self._exchange)), now_s)
        return None

    def _receive_token(self, request: Request, error: int, message: bytes, now_s: float) -> Event | None:
        if self._exchange is None:
            raise MalformedError("nobody authenticates")
        if error in (ErrorCode.AUTH_FAILED, ErrorCode.REQUIRES_SASL):
            raise AuthenticationRefused("the server refused user name or password")
        if error != ErrorCode.OK:
            raise ConnectionLost(f"the server refused to authenticate with error {error}")
        try:
            token = self._exchange.send(request.decode(message, _REPLY.size))
        except StopIteration:
            return self._open()
        except ServerNotProven as problem:
            raise AuthenticationRefused(str(problem)) from None
        self.send(sasl(token), now_s)
        return None

    def _open(self) -> Opened:
        self.stage = Stage.OPEN
        return Opened(self._ticket, self._timeout_s)


def _decode_reply(request: Request, error: int, message: bytes) -> Reply:
    if error == ErrorCode.OK:
        return Reply(request, error, request.decode(message, _REPLY.size))
    if error in _LOST:
        raise ConnectionLost(f"the server cannot serve this connection: error {error}")
    if error == ErrorCode.NO_NODE and request.code is Code.EXISTS:
        return Reply(request, ErrorCode.OK, None)
    return Reply(request, error, None)


def _decode_event(message: bytes) -> WatchEvent | None:
    """Return the event of a watch; None for one that is about the connection, or of a type that nobody watches."""
    number, offset = decode_int(message, _REPLY.size)
    _, offset = decode_int(message, offset)
    path, _ = decode_string(message, offset)
    event_type = _EVENTS.get(number)
    return None if event_type is None else WatchEvent(event_type, path)
