"""A client's connection to one broker: pipelined requests, answered in order.

Used by the client library, the replica fetchers and the controller's channels. Responses are matched by order, and the
correlation id must agree. A request that times out breaks the connection, because its answer could not be distinguished from later ones.
A long response is decoded a portion at each turn of the loop; nothing more is read meanwhile.
"""

from __future__ import annotations

import asyncio
import os
import ssl
from collections import deque
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar
from weakref import WeakKeyDictionary

from kafkalite.errors import AuthenticationError, ErrorCode, ProtocolViolation
from kafkalite.net.frames import (
    LENGTH,
    FrameReader,
    ReceiveBuffers,
    owned_copy,
    request_frame,
    response_body_position,
)
from kafkalite.protocol import codec, messages
from kafkalite.protocol.apis import APIS, CLIENT_SOFTWARE_NAME, Api, ApiKey
from kafkalite.protocol.bounds import PLAIN_BYTES
from kafkalite.server_addresses import address_text
from kafkalite.types import Buffer, Endpoint

if TYPE_CHECKING:
    from kafkalite.protocol.messages import Message, Request
    from kafkalite.protocol.schemas.compiler import Reading
    from kafkalite.security.sasl_client import SaslCredentials

ResponseT = TypeVar("ResponseT", bound="Message")

MAX_RESPONSE_BYTES = 1 << 30
_FIRST_RESPONSE_BYTES = 256 * 1024
"""The most that ApiVersions may take: nothing is known of the other side yet. Apache Kafka's has less than a kilobyte."""
WRITE_BUFFER_BYTES = 4 * 1024 * 1024
"""Requests that the broker has not taken yet: above this `writing_paused` says so, until a quarter is left."""
SECURITY_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_RENEWED_AT = 0.85
"""At this part of a session's time it is authenticated again (Kafka's clients: 85 to 95 %)."""
_RENEWAL_S = 30.0
_UNSUPPORTED_VERSION = ErrorCode.UNSUPPORTED_VERSION.to_bytes(2, "big")
_buffers_of_loops: WeakKeyDictionary[asyncio.AbstractEventLoop, ReceiveBuffers] = WeakKeyDictionary()


def receive_buffers(loop: asyncio.AbstractEventLoop) -> ReceiveBuffers:
    """Return the memory that all connections of one loop receive into; a read into the shared buffer is consumed before the next."""
    buffers = _buffers_of_loops.get(loop)
    if buffers is None:
        buffers = _buffers_of_loops[loop] = ReceiveBuffers()
    return buffers


class OpenToBroker(Protocol):
    """Connects to the inter-broker listener of a broker with its owner's credentials. Raises OSError, TimeoutError."""

    async def __call__(self, endpoint: Endpoint, client_id: str, timeout_s: float) -> Connection: ...


async def open_unauthenticated(endpoint: Endpoint, client_id: str, timeout_s: float) -> Connection:
    """Return an `OpenToBroker` without credentials."""
    return await Connection.open(
        endpoint.host,
        endpoint.port,
        client_id=client_id,
        timeout_s=timeout_s,
        security_protocol=endpoint.security_protocol,
    )


class _Expected(NamedTuple):
    """A request that was sent, with the reader of its response and the future that waits for it."""

    correlation_id: int
    api_key: int
    version: int
    future: asyncio.Future[Any]


class Connection(asyncio.BufferedProtocol):
    """A connection to a broker, made by `Connection.open`, whose requests may be under way together."""

    def __init__(
        self,
        host: str,
        port: int,
        client_id: str | None,
        loop: asyncio.AbstractEventLoop,
        max_response_bytes: int = MAX_RESPONSE_BYTES,
    ) -> None:
        self.host, self.port, self.client_id = host, port, client_id
        self.on_end: Callable[[], object] | None = None
        """Called when the connection ends, from whichever side."""
        self._loop = loop
        self._max_response_bytes = max_response_bytes
        self._frames = FrameReader(receive_buffers(loop), max_response_bytes)
        self._waiting: deque[_Expected] = deque()
        self._decoding: asyncio.Task[None] | None = None
        self._behind: deque[memoryview] = deque()
        """Answers that came in one read with the long one that is being decoded."""
        self._next_correlation_id = 0
        self._transport: asyncio.Transport | None = None
        self._reason: Exception | None = None
        self._versions: dict[int, tuple[int, int]] = {}
        self._negotiated_as = ""
        self._drained: asyncio.Future[None] | None = None
        self._credentials: SaslCredentials | None = None
        self._held: list[tuple[list[Buffer], _Expected | None]] | None = None
        """Requests that wait for the end of an authentication."""
        self._renewal: asyncio.TimerHandle | None = None
        self._renewing: asyncio.Task[None] | None = None

    @property
    def descriptor(self) -> int:
        """Return the file descriptor of the socket; -1 when the connection is closed, or has none."""
        held = None if self._transport is None or self._reason is not None else self._transport.get_extra_info("socket")
        return -1 if held is None else int(held.fileno())

    @property
    def address(self) -> str:
        """Return `host:port`, for messages."""
        return address_text(self.host, self.port)

    @classmethod
    async def open(
        cls,
        host: str,
        port: int,
        *,
        client_id: str | None = None,
        timeout_s: float = 10.0,
        security_protocol: str = "PLAINTEXT",
        ssl_context: ssl.SSLContext | None = None,
        max_response_bytes: int = MAX_RESPONSE_BYTES,
        credentials: SaslCredentials | None = None,
    ) -> Connection:
        """Connect, with TLS where the security protocol has it (`ssl_context`, by default the system's authorities), and authenticate.

        A response that announces more than `max_response_bytes` ends the connection before anything of it is kept.
        ConnectionError (an OSError) or TimeoutError names host and port, `AuthenticationError` (a ConnectionError) why the credentials
        are not taken. ValueError for a protocol that there is not, or one with SASL and no credentials.
        """
        if security_protocol not in SECURITY_PROTOCOLS:
            known = ", ".join(SECURITY_PROTOCOLS)
            raise ValueError(f"security protocol {security_protocol} is not known; use one of {known}")
        has_sasl = security_protocol.startswith("SASL")
        if has_sasl and credentials is None:
            raise ValueError(f"security protocol {security_protocol} needs a SASL mechanism and credentials")
        tls = (ssl_context or ssl.create_default_context()) if security_protocol.endswith("SSL") else None
        loop = asyncio.get_running_loop()
        connection = cls(host, port, client_id, loop, max_response_bytes)
        try:
            async with asyncio.timeout(timeout_s):
                await loop.create_connection(lambda: connection, host, port, ssl=tls)
        except TimeoutError:
            raise TimeoutError(f"no connection to {address_text(host, port)} within {timeout_s:g} s") from None
        except OSError as problem:
            refused = problem.errno if isinstance(problem, ConnectionError) and problem.errno else 0
            why = os.strerror(refused) if refused else problem.strerror or str(problem) or type(problem).__name__
            if tls is not None and isinstance(problem, ssl.SSLError | ConnectionResetError | ConnectionAbortedError):
                why = f"no TLS with it ({why}); is it a PLAINTEXT port?"
            raise ConnectionError(f"no connection to {address_text(host, port)}: {why}") from problem
        except (ValueError, OverflowError) as problem:  # brokers tell addresses, which may be anything
            raise ConnectionError(f"no connection to {address_text(host, port)}: {problem}") from problem
        if has_sasl:
            connection._credentials = credentials
            await connection._prove_first(timeout_s)
        return connection

    async def _prove_first(self, timeout_s: float) -> None:
        """Authenticate a new connection, or close it."""
        try:
            async with asyncio.timeout(timeout_s):
                await self.negotiate(timeout_s)
                await self._prove()
        except BaseException as problem:
            self.close()
            if isinstance(problem, TimeoutError):
                raise TimeoutError(f"{self.address} did not authenticate within {timeout_s:g} s") from None
            if isinstance(problem, AuthenticationError):
                raise AuthenticationError(f"{self.address}: {problem}") from None
            raise

    async def _prove(self) -> None:
        """Authenticate, and see to it that this is done again before its time is over (KIP-368)."""
        if self._credentials is None:
            raise ValueError("there are no credentials")
        from kafkalite.net.authentication import authenticate  # with what it takes to compute proofs

        lifetime_ms = await authenticate(self._write_proof, self.version_of, self._credentials, self.host)
        if lifetime_ms:
            self._renewal = self._loop.call_later(_RENEWED_AT * lifetime_ms / 1000, self._renew)

    def _renew(self) -> None:
        if self._reason is None:
            self._held = []
            self._renewing = self._loop.create_task(self._prove_again(), name="kafkalite-reauthentication")

    async def _prove_again(self) -> None:
        """Authenticate again; requests wait meanwhile, since a broker takes nothing but tokens until it has done so."""
        try:
            async with asyncio.timeout(_RENEWAL_S):
                await self._prove()
        except (OSError, TimeoutError, ValueError) as problem:
            self._end(ConnectionError(f"{self.address} did not authenticate again: {problem or 'no answer in time'}"))
            return
        held, self._held = self._held or [], None
        if self._transport is not None and self._reason is None:
            for frame, expected in held:
                self._transport.writelines(frame)
                if expected is not None:
                    self._waiting.append(expected)

    @property
    def closed(self) -> bool:
        return self._reason is not None

    @property
    def in_flight(self) -> int:
        """Return how many requests wait for their response."""
        return len(self._waiting) + (self._decoding is not None) + len(self._held or ())

    @property
    def writing_paused(self) -> bool:
        """True if the broker takes requests more slowly than they come, so that requests sent now are kept in memory."""
        return self._drained is not None

    async def wait_drained(self) -> None:
        """Wait until requests may be sent without piling up; returns at once on a closed connection."""
        if self._drained is not None:
            await asyncio.shield(self._drained)

    def send(self, message: Request[ResponseT], version: int) -> asyncio.Future[ResponseT]:
        """Send a request; the future holds its response. ConnectionError at once when the connection is closed."""
        return self.send_encoded(message.API.key, version, codec.encode_request(message, version))

    def send_encoded(self, api_key: int, version: int, body: list[Buffer]) -> asyncio.Future[Any]:
        """Send a request as `send` does, whose body was encoded before, as for several brokers."""
        if self._held is None:
            return self._write(APIS[api_key], version, body)
        frame, expected = self._frame_body(APIS[api_key], version, body)
        self._held.append((frame, expected))
        return expected.future

    def _write_proof(self, message: Request[ResponseT], version: int) -> asyncio.Future[ResponseT]:
        """Send a request of an authentication, which is not held until that is done."""
        return self._write(message.API, version, codec.encode_request(message, version))

    def _write(self, api: Api, version: int, body: list[Buffer]) -> asyncio.Future[Any]:
        if self._reason is not None or self._transport is None:
            raise ConnectionError(str(self._reason or "not connected"))
        frame, expected = self._frame_body(api, version, body)
        self._transport.writelines(frame)
        self._waiting.append(expected)
        return expected.future

    def _frame_body(self, api: Api, version: int, body: list[Buffer]) -> tuple[list[Buffer], _Expected]:
        self._next_correlation_id = correlation_id = (self._next_correlation_id + 1) & 0x7FFFFFFF
        frame = request_frame(api, version, correlation_id, self.client_id, body)
        return frame, _Expected(correlation_id, api.key, version, self._loop.create_future())

    def send_without_answer(self, message: Message, version: int) -> None:
        """Send a request that has no response: Produce with acks=0."""
        if self._reason is not None or self._transport is None:
            raise ConnectionError(str(self._reason or "not connected"))
        frame, _ = self._frame_body(message.API, version, codec.encode_request(message, version))
        if self._held is None:
            self._transport.writelines(frame)
        else:
            self._held.append((frame, None))

    async def request(self, message: Request[ResponseT], version: int, timeout_s: float = 30.0) -> ResponseT:
        """Send a request and wait for its response. ConnectionError when the connection ends first, TimeoutError."""
        return await self.answer_to(message, self.send(message, version), timeout_s)

    async def answer_to(self, request: object, future: asyncio.Future[ResponseT], timeout_s: float = 30.0) -> ResponseT:
        """Wait for the response to a request that was sent. ConnectionError, TimeoutError, which names the type of `request`."""
        try:
            async with asyncio.timeout(timeout_s):
                return await future
        except TimeoutError:
            reason = TimeoutError(f"{self.address} did not answer {type(request).__name__} within {timeout_s:g} s")
            self._end(ConnectionError(f"closed, because {reason}"))
            raise reason from None

    async def negotiate(self, timeout_s: float = 10.0, software_name: str = CLIENT_SOFTWARE_NAME) -> None:
        """Learn which versions the broker speaks (ApiVersions, KIP-35), falling back as KIP-511 says; what is known is not asked again.

        To another `software_name` the broker may speak other APIs, so it is asked again (`apis.PEER_SOFTWARE_NAME`).
        """
        if self._versions and software_name == self._negotiated_as:
            return
        request = messages.api_versions_request.ApiVersionsRequest(
            client_software_name=software_name, client_software_version="0.1"
        )
        self._frames = FrameReader(receive_buffers(self._loop), _FIRST_RESPONSE_BYTES)
        response = await self.request(request, 3, timeout_s)
        if response.error_code == ErrorCode.UNSUPPORTED_VERSION:
            response = await self.request(request, 0, timeout_s)
        if response.error_code:
            known_codes = {int(each): each.name for each in ErrorCode}
            why = known_codes.get(response.error_code, f"error {response.error_code}")
            raise ConnectionError(f"{self.address} refused ApiVersions: {why}")
        known = [each for each in response.api_keys if each.api_key in APIS]
        self._versions = {each.api_key: (each.min_version, each.max_version) for each in known}
        self._negotiated_as = software_name
        self._frames = FrameReader(receive_buffers(self._loop), self._max_response_bytes)

    @property
    def versions(self) -> Mapping[int, tuple[int, int]]:
        """Return lowest and highest version that the broker speaks, by API that is known here; nothing before `negotiate`."""
        return self._versions

    def version_of(self, api_key: int, *, with_dropped: bool = False) -> int:
        """Return the highest version that both sides speak, `with_dropped` also one that Kafka 4 has not kept.

        Raises ValueError, naming the API, when there is none.
        """
        api = APIS[api_key]
        oldest = api.min_version if with_dropped else api.kept_from
        low, high = self._versions.get(api_key, (0, -1))
        version = min(high, api.max_version)
        if version < max(low, oldest):
            raise ValueError(
                f"{self.address} speaks {api.name} {low} to {high}, this client {oldest} to {api.max_version}"
            )
        return version

    def close(self) -> None:
        """Close at once; requests in flight fail."""
        self._end(ConnectionError(f"connection to {self.address} was closed"))

    # asyncio.BufferedProtocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport  # type: ignore[assignment]
        self._transport.set_write_buffer_limits(WRITE_BUFFER_BYTES, WRITE_BUFFER_BYTES // 4)  # type: ignore[union-attr]

    def pause_writing(self) -> None:
        if self._drained is None and self._reason is None:
            self._drained = self._loop.create_future()

    def resume_writing(self) -> None:
        drained, self._drained = self._drained, None
        if drained is not None and not drained.done():
            drained.set_result(None)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._frames.get_buffer()

    def buffer_updated(self, nbytes: int) -> None:
        try:
            for frame, owned in self._frames.receive(nbytes):
                kept = frame if owned else owned_copy(frame)
                if self._decoding is None:
                    self._answer(kept)
                else:
                    self._behind.append(kept)
            if self._frames.violation:
                raise ProtocolViolation(self._frames.violation)
        except ProtocolViolation as problem:
            self._not_kafka(problem)

    def _not_kafka(self, problem: ProtocolViolation) -> None:
        self._end(ConnectionError(f"{self.address} does not speak Kafka's protocol: {problem}"))

    def connection_lost(self, exc: Exception | None) -> None:
        self._end(ConnectionError(f"{self.address} closed the connection" + (f": {exc}" if exc else "")))

    def _answer(self, frame: memoryview) -> None:
        if not self._waiting:
            raise ProtocolViolation("a response that nobody asked for")
        if len(frame) < LENGTH.size:
            raise ProtocolViolation(f"a response of {len(frame)} bytes has no room for its header")
        correlation_id, api_key, version, future = self._waiting.popleft()
        got = int.from_bytes(frame[:4], "big", signed=True)
        if got != correlation_id:
            self._fail(future, ConnectionError(f"correlation id {got} instead of {correlation_id}"))
            raise ProtocolViolation(f"correlation id {got} instead of {correlation_id}")
        if future.done():
            return
        if api_key == ApiKey.API_VERSIONS and version > 0 and bytes(frame[4:6]) == _UNSUPPORTED_VERSION:
            version = 0  # UNSUPPORTED_VERSION is always written in version 0
        try:
            position = response_body_position(APIS[api_key], version, frame)
            if len(frame) <= PLAIN_BYTES:
                future.set_result(codec.decode_response(api_key, version, frame, position))
                return
            portions = codec.response_portions(api_key, version, frame, position)
            try:
                next(portions)
            except StopIteration as end:
                future.set_result(end.value)
            else:
                self._transport.pause_reading()  # type: ignore[union-attr]
                self._decoding = self._loop.create_task(self._decode(portions, future))
        except ProtocolViolation as problem:
            self._fail(future, ConnectionError(f"response of {self.address}: {problem}"))
            raise

    async def _decode(self, portions: Reading, future: asyncio.Future[Any]) -> None:
        """Decode the rest of a long response, then those that came with it."""
        try:
            while self._reason is None and not future.done():
                await asyncio.sleep(0)
                next(portions)
        except StopIteration as end:
            if not future.done():
                future.set_result(end.value)
        except ProtocolViolation as problem:
            self._fail(future, ConnectionError(f"response of {self.address}: {problem}"))
            self._not_kafka(problem)
        if self._reason is not None:
            self._fail(future, self._reason)
        self._decoding = None
        try:
            while self._behind and self._reason is None and self._decoding is None:
                self._answer(self._behind.popleft())
        except ProtocolViolation as problem:
            self._not_kafka(problem)
        if self._decoding is None and self._reason is None:
            self._transport.resume_reading()  # type: ignore[union-attr]

    def _end(self, reason: Exception) -> None:
        if self._reason is not None:
            return
        self._reason = reason
        self.resume_writing()
        if self._transport is not None:
            self._transport.abort()
        if self._renewal is not None:
            self._renewal.cancel()
        while self._waiting:
            self._fail(self._waiting.popleft().future, reason)
        held, self._held = self._held or [], None
        for _, expected in held:
            if expected is not None:
                self._fail(expected.future, reason)
        if self.on_end is not None:
            self.on_end()

    @staticmethod
    def _fail(future: asyncio.Future[Any], reason: Exception) -> None:
        if not future.done():
            future.set_exception(reason)
            future.exception()  # retrieved: whoever awaits still sees it, nobody is warned when none does
