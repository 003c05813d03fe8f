"""Ends another ZooKeeper session by its id and password: takes the session over and closes it at once.

Both requests leave together: a living owner connects again as soon as it has lost its connection, and would take the session back
before a close that waited for the answer to the takeover. What ZooKeeper's servers (3.5 to 3.9) answer:

- Session and password fit: the takeover is accepted (a timeout above 0), and the reply to closeSession arrives when the end is
  committed. Whether the owner lives makes no difference: a closeSession is carried out whoever has the session by then. A living owner
  at the same server loses its connection to the takeover; when it is back before the reply is sent, ours is dropped in turn, and the
  next attempt finds no session.
- Unknown session, or another password: a timeout of 0, and the connection is closed; the two are not told apart. A living owner at the
  same server has lost its connection by then and takes its session back; it loses nothing else.
- A server without a quorum, still starting, or read-only: the connection is closed, or stays without an answer. A leader that has lost
  its quorum and not noticed yet may refuse a session that is younger: a refusal proves nothing. What it accepts is not committed.
- `sessionRequireClientSASLAuth`, or `enforce.auth.schemes` (from 3.6): the takeover is accepted, closeSession is refused with the error
  SESSIONCLOSEDREQUIRESASLAUTH, and the session lives on. With credentials it is tried again with a SASL exchange in between. Whoever
  takes the session over meanwhile cuts that: so there is one attempt at a time, and the next after a random pause, as two enders would
  else cut each other for ever.

The chroot of the connect string is irrelevant: sessions belong to the ensemble.
"""

from __future__ import annotations

import asyncio
import itertools
import random
import secrets
import ssl
import struct
from collections.abc import Iterable
from typing import Final

from kazoo.hosts import collect_hosts

from zk.connect_string import split_connect
from zk.security.digest_md5 import DigestCredentials, ServerNotProven
from zk.security.store_security import StoreSecurity
from zk.store import AuthFailedError, SessionEnding, StoreError

_HEAD_START_S: Final = 0.2
"""After it the next server is asked too; two endings of one session are harmless."""
_PATIENCE_S: Final = 2.0
"""For the answer of one server, which may have hung or have lost its leader."""
_PAUSE_S: Final = 0.05
"""Before servers that have all failed are asked again."""
_LARGEST_PAUSE_S: Final = 2.0
"""Between attempts with SASL."""
_TAKEN_TIMEOUT_MS: Final = 2_000
"""Timeout of the session once it is taken over, in case its closing does not reach the server."""
_LARGEST_ANSWER_BYTES: Final = 65_536
_UNSIGNED: Final = 0xFFFF_FFFF_FFFF_FFFF

_CLOSE_SESSION: Final = -11
_SASL: Final = 102
_OK: Final = 0
_SESSION_EXPIRED: Final = -112
_AUTH_FAILED: Final = -115
_REQUIRES_SASL: Final = -124
"""Operations and error codes of ZooKeeper's protocol, `ZooDefs.OpCode` and `KeeperException.Code`."""


def end_session(
    connect: str, session_id: int, password: bytes, security: StoreSecurity, timeout_s: float
) -> SessionEnding:
    """End a session, for programs without an event loop, as `request_session_end`; block for `timeout_s` at most.

    Raises RuntimeError in a thread whose event loop runs.
    """
    return asyncio.run(request_session_end(connect, session_id, password, security, timeout_s))


async def request_session_end(
    connect: str, session_id: int, password: bytes, security: StoreSecurity, timeout_s: float
) -> SessionEnding:
    """End a session through any server of a `zookeeper.connect`, and wait until the end is committed.

    ENDED also when an attempt that stayed without an answer has done it. Raises StoreError when no server has answered in time, where
    the session may have ended nevertheless, and AuthFailedError when the servers want an identity that this client has not.
    """
    try:
        context = security.context() if security.context is not None else None
    except OSError as problem:
        raise StoreError("/", f"session 0x{session_id:x} cannot be ended: {problem}") from None
    servers = collect_hosts(split_connect(connect)[0])[0]
    ending = _Ending(session_id, password, context, security.credentials)
    try:
        async with asyncio.timeout(timeout_s):
            return await ending.ask_servers(random.sample(servers, len(servers)))
    except TimeoutError:
        why = f": {ending.problem}" if ending.problem else ""
        raise StoreError(
            "/", f"no ZooKeeper server of {connect} has ended session 0x{session_id:x} within {timeout_s:g} s{why}"
        ) from None


class _Ending:
    """The attempts to end one session."""

    def __init__(
        self, session_id: int, password: bytes, context: ssl.SSLContext | None, credentials: DigestCredentials | None
    ) -> None:
        self._session_id = session_id
        self._password = password
        self._context = context
        self._credentials = credentials
        self._was_accepted = False
        """True once a server has accepted session and password: a later refusal means that the session is gone."""
        self._identity: DigestCredentials | None = None
        """The credentials, once a server has required them."""
        self.problem = ""
        """Why the latest attempt failed."""

    async def ask_servers(self, servers: list[tuple[str, int]]) -> SessionEnding:
        """Ask one server after the other, again and again, without waiting long for one before the next, until one has answered."""
        pending: set[asyncio.Task[SessionEnding | None]] = set()
        try:
            for number, (host, port) in enumerate(itertools.cycle(servers)):
                if self._identity is not None:
                    return await self._ask_with_identity(itertools.cycle(servers))
                if number and number % len(servers) == 0:
                    await asyncio.sleep(_PAUSE_S)
                pending.add(asyncio.create_task(self._ask_server(host, port)))
                done, pending = await asyncio.wait(pending, timeout=_HEAD_START_S, return_when=asyncio.FIRST_COMPLETED)
                results = {task.result() for task in done}
                for result in (SessionEnding.ENDED, SessionEnding.REFUSED):
                    if result in results:
                        return result
        finally:
            for task in pending:
                task.cancel()
            await asyncio.gather(*pending, return_exceptions=True)
        raise StoreError("/", "there is no ZooKeeper server to ask")

    async def _ask_with_identity(self, servers: Iterable[tuple[str, int]]) -> SessionEnding:
        """Ask one server after the other until one has answered, each when the attempt before is over."""
        pause_s = 2 * _PAUSE_S
        for host, port in servers:
            await asyncio.sleep(random.uniform(0, pause_s))
            pause_s = min(2 * pause_s, _LARGEST_PAUSE_S)
            result = await self._ask_server(host, port)
            if result is not None:
                return result
        raise StoreError("/", "there is no ZooKeeper server to ask")

    async def _ask_server(self, host: str, port: int) -> SessionEnding | None:
        """Return the answer of one server, None when there is none."""
        writer: asyncio.StreamWriter | None = None
        try:
            async with asyncio.timeout(_PATIENCE_S):
                reader, writer = await asyncio.open_connection(host, port, ssl=self._context)
                return await self._exchange(reader, writer)
        except TimeoutError:
            self.problem = f"{host}:{port} does not answer"
        except EOFError:
            self.problem = f"{host}:{port} closed the connection"
        except (OSError, ValueError) as problem:
            self.problem = f"{host}:{port}: {problem}"
        finally:
            if writer is not None:
                writer.transport.abort()
        return None

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> SessionEnding | None:
        """Take the session over and close it; None when the closing was refused. Raises EOFError, OSError, ValueError."""
        takeover = takeover_request(self._session_id, self._password)
        identity = self._identity
        writer.write(takeover + close_request(1) if identity is None else takeover)
        if not is_takeover_accepted(await _read_frame(reader)):
            return SessionEnding.ENDED if self._was_accepted else SessionEnding.REFUSED
        self._was_accepted = True
        if identity is not None:
            writer.write(close_request(await _authenticate(identity, reader, writer)))
        error = reply_error(await _read_frame(reader))
        if error in (_OK, _SESSION_EXPIRED):
            return SessionEnding.ENDED
        if error == _REQUIRES_SASL:
            if self._credentials is None or identity is not None:
                raise AuthFailedError("/", "the ZooKeeper servers end no session for a client without identity")
            self._identity = self._credentials
        raise ValueError(f"closeSession was refused with error {error}")


async def _authenticate(identity: DigestCredentials, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> int:
    """Authenticate by SASL DIGEST-MD5 and return the number for the next request. Raises AuthFailedError, EOFError, OSError, ValueError."""
    exchange = identity.start_exchange(secrets.token_urlsafe(24))
    xid, token = 1, next(exchange)
    while True:
        writer.write(sasl_request(xid, token))
        answer = await _read_frame(reader)
        if error := reply_error(answer):
            if error in (_AUTH_FAILED, _REQUIRES_SASL):
                raise AuthFailedError("/", "the ZooKeeper server refused user name or password")
            raise ValueError(f"SASL was refused with error {error}")
        xid += 1
        try:
            token = exchange.send(sasl_token(answer))
        except StopIteration:
            return xid
        except ServerNotProven as problem:
            raise AuthFailedError("/", str(problem)) from None


async def _read_frame(reader: asyncio.StreamReader) -> bytes:
    """Return the next message without its length. Raises EOFError, OSError; ValueError for one that is no answer of ZooKeeper's."""
    (size_bytes,) = struct.unpack(">i", await reader.readexactly(4))
    if not 0 <= size_bytes <= _LARGEST_ANSWER_BYTES:
        raise ValueError(f"an answer of {size_bytes} bytes is not ZooKeeper's")
    return await reader.readexactly(size_bytes)


# -- frames: each is a length of four bytes and the message, in ZooKeeper's encoding Jute


def takeover_request(session_id: int, password: bytes) -> bytes:
    """Return a ConnectRequest for an existing session: protocol version, zxid seen, timeout in ms, session, password, read-only."""
    head = struct.pack(">iqiQ", 0, 0, _TAKEN_TIMEOUT_MS, session_id & _UNSIGNED)
    return _frame(head + _buffer(password) + b"\0")


def is_takeover_accepted(message: bytes) -> bool:
    """True if a ConnectResponse gives the session: its timeout is 0 where session or password do not fit. Raises ValueError."""
    if len(message) < struct.calcsize(">ii"):
        raise ValueError("the answer to the connection is too short")
    timeout_ms: int = struct.unpack_from(">ii", message)[1]
    return timeout_ms > 0


def close_request(xid: int) -> bytes:
    """Return a closeSession with the request's number."""
    return _frame(struct.pack(">ii", xid, _CLOSE_SESSION))


def sasl_request(xid: int, token: bytes) -> bytes:
    """Return a GetSASLRequest with the request's number and the client's token."""
    return _frame(struct.pack(">ii", xid, _SASL) + _buffer(token))


def reply_error(message: bytes) -> int:
    """Return the error code of a reply, 0 for none. Raises ValueError."""
    if len(message) < struct.calcsize(">iqi"):
        raise ValueError("the reply is too short")
    error: int = struct.unpack_from(">iqi", message)[2]
    return error


def sasl_token(message: bytes) -> bytes:
    """Return the server's token behind the header of a SetSASLResponse. Raises ValueError."""
    start = struct.calcsize(">iqi")
    if len(message) < start + 4:
        raise ValueError("the SASL answer is too short")
    (size_bytes,) = struct.unpack_from(">i", message, start)
    return message[start + 4 : start + 4 + max(size_bytes, 0)]


def _frame(message: bytes) -> bytes:
    return struct.pack(">i", len(message)) + message


def _buffer(data: bytes) -> bytes:
    return struct.pack(">i", len(data)) + data
