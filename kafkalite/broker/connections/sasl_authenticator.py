"""Requests and responses of a connection before it is authenticated by SASL (Kafka's SaslServerAuthenticator).

    INITIAL ──ApiVersions──▶ HANDSHAKE ──SaslHandshake──▶ AUTHENTICATE ──tokens──▶ done: the dispatcher takes over
        └──────────────────SaslHandshake─────────────────────┘

After SaslHandshake 0 tokens come bare, after 1 within SaslAuthenticate. A failure is answered after a delay, if there is an answer, and
the connection is closed; nothing is told about which users there are. A session with an end (KIP-368) begins again with
SaslHandshake, as the same principal by the same mechanism, once a second at most; after its end any other request closes the connection.
Each step waits for its turn among those of all unauthenticated connections.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from enum import Enum, auto
from typing import Any, Final, Protocol

from kafkalite.broker.connections.connection import ServerConnection
from kafkalite.broker.connections.unauthenticated import UnauthenticatedConnections
from kafkalite.broker.connections.unauthenticated_reads import Readable, UnauthenticatedRead
from kafkalite.broker.requests.request_handler import Answer, AuthenticationFailed, RequestHandler
from kafkalite.errors import ErrorCode, ProtocolViolation
from kafkalite.net.frames import LENGTH, read_head, read_request_header, response_frame
from kafkalite.protocol import codec, messages
from kafkalite.protocol.apis import APIS, KAFKA_APIS, ApiKey, request_header_version
from kafkalite.security.principal import KafkaPrincipal
from kafkalite.security.sasl_server import Identity, SaslMalformed, SaslRefused, SaslServer

logger = logging.getLogger("kafkalite.broker.authentication")

_HANDSHAKE: Final = ApiKey.SASL_HANDSHAKE.to_bytes(2, "big")
_REAUTHENTICATION_INTERVAL_MS: Final = 1000
_ERROR: Final = slice(8, 10)
"""Position of the error code in the frame of an ApiVersions response."""
_ALLOWED: Final = (ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE)


class SaslListener(Protocol):
    """The settings by which one listener authenticates."""

    mechanisms: tuple[str, ...]
    failure_delay_s: float
    timeout_s: float
    outcomes: Counter[str]
    """Authentications by how they ended."""
    unauthenticated: UnauthenticatedConnections
    token_bytes: int
    """The largest request with a bearer token."""

    def server(self, mechanism: str) -> SaslServer: ...

    def max_session_ms(self, mechanism: str) -> int:
        """Return connections.max.reauth.ms, 0 for sessions without end."""

    def now_ms(self) -> int: ...


class State(Enum):
    """The requests that a connection may send next."""

    INITIAL = auto()
    HANDSHAKE_OR_VERSIONS = auto()
    HANDSHAKE = auto()
    AUTHENTICATE = auto()
    BAD_MECHANISM = auto()


class SaslAuthenticator:
    """Authenticates one connection; `before` is its principal and mechanism where it re-authenticates."""

    def __init__(
        self, listener: SaslListener, dispatcher: RequestHandler, before: tuple[KafkaPrincipal, str] | None = None
    ) -> None:
        self._listener, self._dispatcher, self._before = listener, dispatcher, before
        self._state = State.INITIAL if before is None else State.HANDSHAKE
        self._wrapped = False
        """True if tokens come within SaslAuthenticate."""
        self._mechanism = ""
        self._server: SaslServer | None = None
        self._doing = "authentication" if before is None else "re-authentication"
        self._began_ms = listener.now_ms()
        self._step: asyncio.Task[Answer] | None = None
        self._deadline: asyncio.TimerHandle | None = None
        self._read: UnauthenticatedRead | None = None

    def attach(self, connection: ServerConnection, transport: asyncio.Transport) -> Readable:
        """Require authentication within the listener's timeout; until then the connection is read from in turns."""
        self._listener.unauthenticated.add(connection)
        loop = asyncio.get_running_loop()
        self._deadline = loop.call_later(self._listener.timeout_s, self._close_late_in_turn, connection)
        self._read = self._listener.unauthenticated.reads.add(transport)
        return self._read

    def detach(self, connection: ServerConnection) -> None:
        """Cancel the step in progress, because the connection is lost: a stop of the broker leaves no task behind."""
        self._listener.unauthenticated.remove(connection)
        if self._step is not None:
            self._step.cancel()
        self._step = None  # its failure holds this, and a flood of them would be left to the garbage collector
        if self._deadline is not None:
            self._deadline.cancel()
        if self._read is not None:
            self._read.end_turns()

    def _close_late_in_turn(self, connection: ServerConnection) -> None:
        # The time of many may be over at once.
        turn = self._listener.unauthenticated.wait_for_turn(connection.peer_host)
        turn.add_done_callback(lambda _: self._close_late(connection))

    def _close_late(self, connection: ServerConnection) -> None:
        if not connection.closed and connection.dispatcher is self:
            self._listener.outcomes["late"] += 1
            logger.info("closing the connection from %s: not authenticated in time", connection.peer_host)
            connection.close()

    def handle(self, frame: memoryview, connection: ServerConnection) -> Answer | asyncio.Future[Answer]:
        """Return a future of the response to the next step."""
        connection.stop_pipelining()
        self._step = asyncio.get_running_loop().create_task(self._respond(bytes(frame), connection))
        return self._step

    async def _respond(self, frame: bytes, connection: ServerConnection) -> Answer:
        await self._listener.unauthenticated.wait_for_turn(connection.peer_host)
        if connection.closed:
            return None
        try:
            return await self._handle_frame(memoryview(frame), connection)
        except AuthenticationFailed as problem:
            reason, answer = str(problem), problem.answer  # the exception would hold its frames through the waits
        self._listener.outcomes["failed"] += 1
        logger.info("failed %s of %s: %s", self._doing, connection.peer_host, reason)
        await asyncio.sleep(self._listener.failure_delay_s)
        # The waits of many may be over at once.
        await self._listener.unauthenticated.wait_for_turn(connection.peer_host)
        raise AuthenticationFailed(reason, answer)

    async def _handle_frame(self, frame: memoryview, connection: ServerConnection) -> Answer:
        if self._state is State.BAD_MECHANISM:
            raise AuthenticationFailed(self._bad_mechanism_text())
        if self._state is State.AUTHENTICATE:
            return await self._evaluate_token(frame, connection)
        if len(frame) < 8 or read_head(frame)[0] not in KAFKA_APIS:
            if self._state is State.INITIAL and "GSSAPI" in self._listener.mechanisms:  # as clients of 0.9 begin
                self._mechanism, self._state = "GSSAPI", State.AUTHENTICATE
                self._server = self._listener.server(self._mechanism)
                return await self._evaluate_token(frame, connection)
            raise AuthenticationFailed("the first packet is no request, and there is no GSSAPI")
        api_key, version, correlation_id = read_head(frame)
        if api_key not in _ALLOWED:
            raise AuthenticationFailed(
                f"Unexpected Kafka request of type {ApiKey(api_key).name} during SASL handshake."
            )
        if api_key == ApiKey.API_VERSIONS:
            return self._answer_versions(frame, connection)
        request = _decode_request(frame, api_key, version)
        self._wrapped = version > 0
        m = messages.sasl_handshake_response
        is_known = request.mechanism in self._listener.mechanisms
        reply = m.SaslHandshakeResponse(
            error_code=ErrorCode.NONE if is_known else ErrorCode.UNSUPPORTED_SASL_MECHANISM,
            mechanisms=list(self._listener.mechanisms),
        )
        answer = _encode_response(api_key, version, correlation_id, reply)
        if not is_known:
            raise AuthenticationFailed("Unsupported SASL mechanism", answer)
        self._mechanism = request.mechanism
        if self._before is not None and self._before[1] != self._mechanism:
            self._state = State.BAD_MECHANISM
        else:
            self._server = self._listener.server(self._mechanism)
            self._state = State.AUTHENTICATE
            if self._mechanism == "OAUTHBEARER" and self._before is None:
                connection.expect(self._listener.token_bytes)
        return answer

    def _answer_versions(self, frame: memoryview, connection: ServerConnection) -> Answer:
        """Answer ApiVersions once; an unknown version may be followed by a known one (KIP-511)."""
        if self._state is State.HANDSHAKE:
            raise ProtocolViolation("ApiVersions once more before authentication")
        answer = self._dispatcher.handle(frame, connection)
        if isinstance(answer, asyncio.Future):
            raise ProtocolViolation("an ApiVersions request that is decoded in portions")
        is_refused = any(b"".join(answer or ())[_ERROR])
        self._state = State.HANDSHAKE_OR_VERSIONS if is_refused else State.HANDSHAKE
        return answer

    async def _evaluate_token(self, frame: memoryview, connection: ServerConnection) -> Answer:
        """Evaluate a token, bare or within SaslAuthenticate, and return the response."""
        server = self._server
        if server is None:
            raise ProtocolViolation("a token without a mechanism")
        if not self._wrapped:
            try:
                token = await server.evaluate(bytes(frame))
            except (SaslRefused, SaslMalformed) as problem:
                raise AuthenticationFailed(str(problem)) from None
            if server.identity is not None:
                self._complete(server.identity, connection)
            return [LENGTH.pack(len(token)) + token]
        api_key, version, correlation_id = read_head(frame)
        if api_key != ApiKey.SASL_AUTHENTICATE:
            name = ApiKey(api_key).name if api_key in KAFKA_APIS else str(api_key)
            reason = f"Unexpected Kafka request of type {name} during SASL authentication."
            raise AuthenticationFailed(reason, _refuse_out_of_order(api_key, version, correlation_id))
        request = _decode_request(frame, api_key, version)
        m = messages.sasl_authenticate_response
        lifetime_ms = 0
        try:
            token = await server.evaluate(bytes(request.auth_bytes))
            if server.identity is not None:
                lifetime_ms = self._complete(server.identity, connection)
        except (SaslRefused, SaslMalformed) as problem:
            shown = str(problem)
            if isinstance(problem, SaslMalformed):  # what it says could tell whether there is such a user
                shown = f"Authentication failed during {self._doing} due to invalid credentials with SASL mechanism {self._mechanism}"
            reply = m.SaslAuthenticateResponse(error_code=ErrorCode.SASL_AUTHENTICATION_FAILED, error_message=shown)
            raise AuthenticationFailed(shown, _encode_response(api_key, version, correlation_id, reply)) from None
        reply = m.SaslAuthenticateResponse(error_message="", auth_bytes=token, session_lifetime_ms=lifetime_ms)
        return _encode_response(api_key, version, correlation_id, reply)

    def _complete(self, identity: Identity, connection: ServerConnection) -> int:
        """Complete the authentication. Return the session's lifetime in ms, 0 without end. SaslRefused if the principal changes."""
        principal, listener = identity.principal, self._listener
        if self._before is not None and principal != self._before[0]:
            old = self._before[0]
            raise SaslRefused(
                f"Cannot change principals during re-authentication from {old.type}.{old.name}: {principal.type}.{principal.name}"
            )
        now_ms = listener.now_ms()
        limits = [] if identity.expires_ms is None else [max(0, identity.expires_ms - now_ms)]
        if (longest_ms := listener.max_session_ms(self._mechanism)) > 0:
            limits.append(longest_ms)
        handler = self._dispatcher
        if limits:
            renewed_ms = None if self._before is None else self._began_ms
            of = principal, self._mechanism
            handler = Session(listener, self._dispatcher, of, now_ms + min(limits), renewed_ms)
        listener.outcomes["succeeded"] += 1
        if self._deadline is not None:
            self._deadline.cancel()
        if self._read is not None:
            self._read.end_turns()
        listener.unauthenticated.remove(connection)
        lifetime_ms = min(limits, default=0)
        connection.complete_authentication(principal, handler, lifetime_ms if limits else None)
        return lifetime_ms

    def _bad_mechanism_text(self) -> str:
        before = self._before[1] if self._before is not None else ""
        return f"SASL mechanism '{self._mechanism}' requested by client is not supported for re-authentication of mechanism '{before}'"


class Session:
    """Serves a connection whose authentication ends at `expires_ms` (since 1970), and was repeated at `renewed_ms`, if ever (KIP-368)."""

    def __init__(
        self,
        listener: SaslListener,
        dispatcher: RequestHandler,
        of: tuple[KafkaPrincipal, str],
        expires_ms: int,
        renewed_ms: int | None,
    ) -> None:
        self._listener, self._dispatcher, self._of, self._expires_ms = listener, dispatcher, of, expires_ms
        self._renewed_ms = renewed_ms

    def handle(self, frame: memoryview, connection: ServerConnection) -> Answer | asyncio.Future[Answer]:
        """Return the response, or a future of it. ProtocolViolation once the session is over."""
        now_ms = self._listener.now_ms()
        if frame[:2] == _HANDSHAKE:
            if self._renewed_ms is None or now_ms - self._renewed_ms >= _REAUTHENTICATION_INTERVAL_MS:
                again = SaslAuthenticator(self._listener, self._dispatcher, self._of)
                connection.dispatcher = again
                return again.handle(frame, connection)
        elif now_ms > self._expires_ms:
            self._listener.outcomes["expired"] += 1
            raise ProtocolViolation("its session is over, and it did not authenticate again (KIP-368)")
        return self._dispatcher.handle(frame, connection)


def _decode_request(frame: memoryview, api_key: int, version: int) -> Any:
    api = APIS[api_key]
    if not 0 <= version <= api.max_version:
        raise AuthenticationFailed(f"Version {version} is not supported for apiKey {api.name}")
    header = read_request_header(frame, request_header_version(api, version))
    return codec.reader(api_key, "request", version)(frame, header.body_position)


def _refuse_out_of_order(api_key: int, version: int, correlation_id: int) -> Answer:
    """Return the response to a request that is out of order; None where the connection only ends. Unlike Kafka it is not decoded."""
    reply: Any = None
    if api_key == ApiKey.SASL_HANDSHAKE and version <= 1:
        reply = messages.SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE)
    elif api_key == ApiKey.API_VERSIONS and version <= APIS[ApiKey.API_VERSIONS].max_version:
        reply = messages.ApiVersionsResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE)
    return None if reply is None else _encode_response(api_key, version, correlation_id, reply)


def _encode_response(api_key: int, version: int, correlation_id: int, reply: Any) -> Answer:
    return response_frame(APIS[api_key], version, correlation_id, codec.encode_response(reply, version))
