"""The listener of the mirror: followers of the target connect to it as to any leader, and clients as to any broker.

Followers are answered from the source. What clients ask is passed on to a broker of the target, or answered as `routes` says. With SASL a
connection authenticates to that broker, too, which is asked by the same connection whether it lets who is there follow, before the mirror
gives out anything: a Fetch of a topic that there is not is answered UNKNOWN_TOPIC_ID only to those with ClusterAction. With SSL alone the
certificate says who follows (`follower_rights`), and nothing is passed on.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from kafkalite.cli.mirror.following import is_of_follower, make_question, read_verdict
from kafkalite.cli.mirror.listener_security import ListenerSecurity
from kafkalite.cli.mirror.logins import Logins
from kafkalite.cli.mirror.passing import CORRELATION, SHOWN_S, Passing, PassingRefused, Upstream
from kafkalite.cli.mirror.relay import Relay, SourceLinks
from kafkalite.cli.mirror.routes import ROUTES, Route, has_answer, limit_versions, make_empty_answer, newest_version
from kafkalite.errors import ErrorCode, ProtocolViolation
from kafkalite.net.frames import LENGTH, read_head, read_request_header, response_body_position, response_frame
from kafkalite.protocol import codec
from kafkalite.protocol.apis import APIS, Api, ApiKey, request_header_version
from kafkalite.types import Buffer

if TYPE_CHECKING:
    from kafkalite.client.cluster.client import ClusterClient

log = logging.getLogger("kafkalite.mirror")

_MAX_REQUEST_BYTES: Final = 16 * 1024 * 1024
_LARGE_BYTES: Final = 256 * 1024
_LARGE_AT_ONCE: Final = 16
"""Requests above that size whose bytes are there together."""
_MAX_CONNECTIONS: Final = 1000
_MAX_VERSIONS_BYTES: Final = 256 * 1024
_IDLE_S: Final = 600.0
"""connections.max.idle.ms of Kafka's brokers."""
_RECEIVE_S: Final = 30.0
_LOGIN_S: Final = 30.0
"""How long a connection has to authenticate, its requests before that included."""
_LOGIN_APIS: Final = frozenset({ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE})
"""What a broker answers before authentication; anything else makes it close the connection."""
_TOPIC_ID_BYTES: Final = 16
_CODE: Final = slice(4, 6)
"""The error code of a response to ApiVersions of any version."""


@dataclass(slots=True)
class _Peer:
    """A connection to the mirror, with its connections to brokers of both clusters."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    links: SourceLinks
    login: asyncio.Timeout
    """The time that is left to authenticate, none after that."""
    is_known: bool
    """True once who is behind it has authenticated, or needs not to."""
    find_refusal: Callable[[], str]
    """Says why it may not follow by its certificate, nothing where others decide."""
    upstream: Upstream | None = None
    has_asked: bool = False
    may_follow: bool = False
    """True once a broker of the target has let who is behind it do what followers do."""

    def close(self) -> None:
        self.links.close()
        if self.upstream is not None:
            self.upstream.close()
        self.writer.close()


class Listener:
    """Serves the relay on a socket."""

    def __init__(self, relay: Relay, source: ClusterClient, passing: Passing, security: ListenerSecurity) -> None:
        self._relay, self._source, self._passing, self._security = relay, source, passing, security
        self._large = asyncio.Semaphore(_LARGE_AT_ONCE)
        self._logins = Logins()
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()
        self._problem: tuple[float, str] | None = None
        """When and why a connection was ended last by the mirror itself."""

    async def listen(self, host: str, port: int) -> None:
        """Accept connections from now on. Raises OSError."""
        tls = self._security.server
        patience_s = None if tls is None else _RECEIVE_S
        self._server = await asyncio.start_server(self._accept, host, port, ssl=tls, ssl_handshake_timeout=patience_s)

    def describe_problems(self) -> list[str]:
        """Return what the listener has met with lately: brokers that were not reached, ACLs that were not read, and why it ended a
        connection.
        """
        found = self._passing.describe_failures()
        if self._security.rights is not None:
            found += self._security.rights.describe_problems()
        if self._problem is not None and self._has_problem():
            found.append(f"the listener ended a connection: {self._problem[1]}")
        return found

    def _has_problem(self) -> bool:
        return self._problem is not None and self._problem[0] > time.monotonic() - SHOWN_S

    async def close(self) -> None:
        """End the listener and all connections."""
        if self._server is not None:
            self._server.close()
        for each in list(self._connections):
            each.cancel()
        if self._connections:
            await asyncio.wait(self._connections)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        if task is None or len(self._connections) >= _MAX_CONNECTIONS:
            writer.close()
            return
        address = str((writer.get_extra_info("peername") or ("",))[0])
        find_refusal = self._recognize(writer, address)
        is_known = not self._security.has_sasl and not find_refusal()
        if not is_known and not self._logins.add_connection(task, address):
            self._problem = time.monotonic(), f"too many of {address}, or of all addresses, have not authenticated"
            writer.close()
            return
        self._connections.add(task)
        links = SourceLinks(self._source)
        login = asyncio.timeout(None if is_known else _LOGIN_S)
        peer = _Peer(reader, writer, links, login, is_known, find_refusal)
        try:
            async with login:
                while True:
                    await self._serve_request(peer)
        except (asyncio.IncompleteReadError, ConnectionError, TimeoutError):
            pass  # the peer has gone, or the broker that answered it
        except PassingRefused as problem:
            log.info("a client was refused: %s", problem)
            if not self._has_problem():
                self._problem = time.monotonic(), str(problem)
        except (ProtocolViolation, ValueError) as problem:
            self._problem = time.monotonic(), str(problem)
            log.warning("a connection was ended: %s", problem)
        except asyncio.CancelledError:
            pass  # the listener closes
        finally:
            self._connections.discard(task)
            self._logins.remove_connection(task)
            peer.close()

    def _recognize(self, writer: asyncio.StreamWriter, address: str) -> Callable[[], str]:
        """Return the function that says why a connection may not follow by its certificate."""
        if self._security.rights is None:
            return str
        connection = writer.get_extra_info("ssl_object")
        return self._security.rights.recognize(connection.getpeercert(binary_form=True), address)

    async def _serve_request(self, peer: _Peer) -> None:
        async with AsyncExitStack() as held:
            finish = await self._handle_request(peer, await self._receive(peer, held))
        await finish()

    async def _handle_request(self, peer: _Peer, frame: bytes) -> Callable[[], Awaitable[None]]:
        """Handle a request; return the coroutine function that sends its response, so the frame is freed meanwhile."""
        key, version, correlation_id = read_head(frame)
        route = ROUTES.get(key)
        if route is None:
            raise ProtocolViolation(f"API {key} is not for a mirror")
        if key == ApiKey.API_VERSIONS:
            await self._tell_versions(peer, frame)
            return _do_nothing
        if route is Route.PASSED_ON:
            peer.may_follow = peer.may_follow and key != ApiKey.SASL_HANDSHAKE
            return await self._pass_on(peer, frame)
        api = APIS[key]
        if version > newest_version(key):
            raise ProtocolViolation(
                f"{api.name} version {version} is newer than {newest_version(key)}; so is the target's release"
            )
        read_as = min(version, api.max_version)
        if route is Route.EMPTY:
            return partial(_respond, peer, api, read_as, correlation_id, make_empty_answer(key))
        if self._security.knows_followers and not peer.may_follow and len(frame) > _LARGE_BYTES:
            await self._require_follower(peer, f"{api.name} of {len(frame)} bytes")
        header = read_request_header(frame, request_header_version(api, version))
        request = codec.decode_request(key, read_as, frame, header.body_position)
        if key != ApiKey.FETCH and request.replica_id < 0:
            return await self._pass_on(peer, frame)
        if self._security.knows_followers and not peer.may_follow and is_of_follower(request):
            await self._require_follower(peer, api.name)
        if peer.upstream is not None and is_of_follower(request):
            peer.upstream.close()
            peer.upstream = None
        return partial(self._answer_follower, peer, api, read_as, correlation_id, request)

    async def _receive(self, peer: _Peer, held: AsyncExitStack) -> bytes:
        """Return the next request without its length. Raises IncompleteReadError, TimeoutError, ProtocolViolation.

        A request above 256 KiB is read only after authentication, and holds one of 16 places until `held` exits.
        """
        async with asyncio.timeout(_IDLE_S if peer.has_asked else _RECEIVE_S):
            (size,) = LENGTH.unpack(await peer.reader.readexactly(LENGTH.size))
        peer.has_asked = True
        if not 0 < size <= _MAX_REQUEST_BYTES:
            raise ProtocolViolation(f"a request of {size} bytes")
        if size > _LARGE_BYTES:
            if not peer.is_known:
                await self._ask_rights(peer)
            await held.enter_async_context(self._large)
        async with asyncio.timeout(_RECEIVE_S):
            return await peer.reader.readexactly(size)

    async def _pass_on(self, peer: _Peer, frame: bytes) -> Callable[[], Awaitable[None]]:
        """Have a broker of the target answer a request; return what gives its response to the peer."""
        key, version, _ = read_head(frame)
        is_answered = has_answer(key, version, frame)
        if not is_answered and not peer.is_known and self._security.has_sasl:
            await self._ask_rights(peer)  # no response would show that the broker has closed the connection
        if peer.upstream is None:
            peer.upstream = await self._passing.connect()
        if key not in _LOGIN_APIS:
            self._passing.add_client(peer.upstream)
        await peer.upstream.send(frame)
        if key not in _LOGIN_APIS:
            self._note_known(peer)
        if not is_answered:
            return _do_nothing
        return partial(peer.upstream.pass_response, frame[CORRELATION], peer.reader, peer.writer)

    def _note_known(self, peer: _Peer) -> None:
        """End the authentication deadline; brokers close unauthenticated connections themselves."""
        if not peer.is_known:
            peer.is_known = True
            peer.login.reschedule(None)
            self._logins.remove_connection(asyncio.current_task())

    async def _require_follower(self, peer: _Peer, what: str) -> None:
        """Raise ProtocolViolation for `what` if a broker of the target does not let the peer follow."""
        if self._security.rights is not None:
            if refusal := peer.find_refusal():
                raise ProtocolViolation(f"{what}: {refusal}")
            return
        code = await self._ask_rights(peer)
        if not peer.may_follow:
            raise ProtocolViolation(f"{what}: a broker of the target does not let a connection follow: error {code}")

    async def _ask_rights(self, peer: _Peer) -> int:
        """Note whether a peer has authenticated, and may follow; return the error code of the broker that says so.

        Raises ProtocolViolation, ConnectionError for one that has not authenticated.
        """
        if peer.upstream is None:
            raise ProtocolViolation(peer.find_refusal() or "a connection has not authenticated")
        frame = make_question(os.urandom(_TOPIC_ID_BYTES))
        await peer.upstream.send(frame)
        told = await peer.upstream.read_response(frame[CORRELATION], peer.reader, _MAX_VERSIONS_BYTES)
        code = read_verdict(told)
        peer.may_follow = code == ErrorCode.UNKNOWN_TOPIC_ID
        self._note_known(peer)
        return code

    async def _tell_versions(self, peer: _Peer, frame: bytes) -> None:
        """Answer ApiVersions as a broker of the target does, without what is not for the mirror."""
        _, version, correlation_id = read_head(frame)
        if peer.upstream is None:
            peer.upstream = await self._passing.connect()
        await peer.upstream.send(frame)
        told = await peer.upstream.read_response(frame[CORRELATION], peer.reader, _MAX_VERSIONS_BYTES)
        api = APIS[ApiKey.API_VERSIONS]
        code = int.from_bytes(told[_CODE], "big")
        if code or version > api.max_version:  # it is told in another version, which then is asked for
            await _write(peer, [LENGTH.pack(len(told)), told])
            return
        response = codec.decode_response(ApiKey.API_VERSIONS, version, told, response_body_position(api, version, told))
        limit_versions(response)
        await _respond(peer, api, version, correlation_id, response)

    async def _answer_follower(self, peer: _Peer, api: Api, version: int, correlation_id: int, request: Any) -> None:
        """Answer a follower from the source."""
        response: Any
        match request.API.key:
            case ApiKey.FETCH:
                response = await self._relay.answer_fetch(peer.links, request)
            case ApiKey.LIST_OFFSETS:
                response = await self._relay.answer_offsets(request)
            case _:
                response = await self._relay.answer_epochs(request)
        await _respond(peer, api, version, correlation_id, response)


async def _do_nothing() -> None:
    pass


async def _respond(peer: _Peer, api: Api, version: int, correlation_id: int, response: Any) -> None:
    await _write(peer, response_frame(api, version, correlation_id, codec.encode_response(response, version)))


async def _write(peer: _Peer, buffers: Sequence[Buffer]) -> None:
    """Write a response to a peer that reads it. Raises ConnectionError, TimeoutError."""
    peer.writer.writelines(buffers)
    async with asyncio.timeout(_RECEIVE_S):
        await peer.writer.drain()
