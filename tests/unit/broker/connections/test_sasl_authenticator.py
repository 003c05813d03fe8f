"""What a connection may say before it is authenticated: the steps, and what ends them."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from kafkalite.broker.connections.sasl_authenticator import SaslAuthenticator, Session
from kafkalite.broker.connections.unauthenticated import UnauthenticatedConnections
from kafkalite.broker.requests.request_handler import AuthenticationFailed
from kafkalite.errors import ErrorCode, ProtocolViolation
from kafkalite.net.frames import request_frame, response_body_position
from kafkalite.protocol import codec, messages
from kafkalite.protocol.apis import APIS, ApiKey
from kafkalite.security.principal import ANONYMOUS, KafkaPrincipal
from kafkalite.security.sasl_server import PlainServer

RIGHT, WRONG, BOB = b"\0alice\0right", b"\0alice\0wrong", b"\0bob\0right"
NOT_LET_IN = "Authentication failed: Invalid username or password"


class FakeListener:
    """PLAIN for alice and bob, and a clock."""

    def __init__(self, max_session_ms: int = 0) -> None:
        self.mechanisms: tuple[str, ...] = ("PLAIN", "SCRAM-SHA-256")
        self.failure_delay_s, self.timeout_s = 0.0, 60.0
        self.outcomes: Counter[str] = Counter()
        self._max_session_ms, self.clock_ms = max_session_ms, 1_000_000
        self.unauthenticated, self.token_bytes = (
            UnauthenticatedConnections(lambda: 10, lambda: 0.0, self.outcomes),
            500_000,
        )

    def server(self, mechanism: str) -> PlainServer:
        return PlainServer({"alice": "right", "bob": "right"})

    def max_session_ms(self, mechanism: str) -> int:
        return self._max_session_ms

    def now_ms(self) -> int:
        return self.clock_ms


class FakeDispatcher:
    """Serves everything but ApiVersions of the future."""

    def handle(self, frame: memoryview, connection: Any) -> list[bytes]:
        return [bytes(8) + b"\0\x23"] if frame[2:4] == b"\0\x63" else [b"served"]


class Client:
    """One connection, as broker and client see it."""

    def __init__(self, max_session_ms: int = 0) -> None:
        self.listener = FakeListener(max_session_ms)
        self.dispatcher: Any = SaslAuthenticator(self.listener, FakeDispatcher())
        self.principal, self.peer_host, self.closed = ANONYMOUS, "host", False
        self.wants_template = False

    def stop_pipelining(self) -> None: ...

    def complete_authentication(self, principal: KafkaPrincipal, handler: Any, lifetime_ms: int | None) -> None:
        self.principal, self.dispatcher, self.lifetime_ms = principal, handler, lifetime_ms

    async def raw(self, frame: bytes) -> bytes:
        answer = self.dispatcher.handle(memoryview(frame), self)
        return b"".join(await answer if isinstance(answer, asyncio.Future) else answer)

    async def ask(self, message: Any, version: int) -> Any:
        api = APIS[message.API.key]
        request = b"".join(request_frame(api, version, 1, "me", codec.encode_request(message, version)))[4:]
        return decoded(api.key, version, await self.raw(request))

    async def handshake(self, version: int = 1, mechanism: str = "PLAIN") -> Any:
        request = messages.sasl_handshake_request.SaslHandshakeRequest(mechanism=mechanism)
        return await self.ask(request, version)

    async def token(self, token: bytes, version: int = 2) -> Any:
        request = messages.sasl_authenticate_request.SaslAuthenticateRequest(auth_bytes=token)
        return await self.ask(request, version)

    async def versions(self, version: int = 3) -> bytes:
        request = messages.api_versions_request.ApiVersionsRequest(
            client_software_name="a", client_software_version="1"
        )
        body = codec.encode_request(request, min(version, 3))
        frame = b"".join(request_frame(APIS[ApiKey.API_VERSIONS], min(version, 3), 1, "me", body))[4:]
        return await self.raw(frame[:2] + version.to_bytes(2, "big") + frame[4:])


def decoded(api_key: int, version: int, answer: bytes) -> Any:
    if answer == b"served":
        return answer
    frame = memoryview(answer)[4:]
    return codec.decode_response(api_key, version, frame, response_body_position(APIS[api_key], version, frame))


def act(script: Callable[[Client], Awaitable[None]], max_session_ms: int = 0) -> Client:
    client = Client(max_session_ms)
    asyncio.run(script(client))  # type: ignore[arg-type]
    return client


@pytest.mark.parametrize("version", [0, 1, 2])
@pytest.mark.parametrize("asks_versions", [False, True])
def test_a_client_is_let_in(version: int, asks_versions: bool) -> None:
    async def script(client: Client) -> None:
        if asks_versions:
            assert await client.versions() == b"served"
        assert (await client.handshake()).mechanisms == ["PLAIN", "SCRAM-SHA-256"]
        answer = await client.token(RIGHT, version)
        assert (answer.error_code, answer.error_message, answer.auth_bytes) == (0, "", b"")
        assert answer.session_lifetime_ms == 0
        assert await client.raw(b"anything") == b"served"

    client = act(script)
    assert (str(client.principal), client.listener.outcomes) == ("User:alice", Counter(succeeded=1))


def test_tokens_come_bare_after_the_first_handshake_version() -> None:
    async def script(client: Client) -> None:
        await client.handshake(0)
        assert await client.raw(RIGHT) == bytes(4)

    assert str(act(script).principal) == "User:alice"


def test_a_private_api_is_unknown_before_authentication() -> None:
    """A client that has not proven who it is does not learn that there is such an API."""

    async def script(client: Client) -> None:
        with pytest.raises(AuthenticationFailed, match="the first packet is no request") as caught:
            await client.raw(ApiKey.PEER_HEARTBEAT.to_bytes(2, "big") + bytes(20))
        assert caught.value.answer is None

    act(script)


def test_the_first_token_of_kerberos_needs_no_handshake() -> None:
    """So did clients of 0.9, which knew no other mechanism."""

    async def script(client: Client) -> None:
        client.listener.mechanisms = ("PLAIN", "GSSAPI")
        assert await client.raw(RIGHT) == bytes(4)

    assert str(act(script).principal) == "User:alice"


def test_versions_are_asked_again_after_one_that_is_not_known_and_never_twice() -> None:
    async def script(client: Client) -> None:
        await client.versions(99)
        await client.versions()
        with pytest.raises(ProtocolViolation, match="once more"):
            await client.versions()

    act(script)


async def wrong_password(client: Client) -> None:
    await client.handshake()
    await client.token(WRONG)


async def wrong_password_bare(client: Client) -> None:
    await client.handshake(0)
    await client.raw(WRONG)


async def malformed(client: Client) -> None:
    await client.handshake()
    await client.token(b"\0\xff\0")


async def unknown_mechanism(client: Client) -> None:
    await client.handshake(1, "GSSAPI")


async def metadata_first(client: Client) -> None:
    await client.ask(messages.metadata_request.MetadataRequest(topics=None), 9)


async def metadata_instead_of_a_token(client: Client) -> None:
    await client.handshake()
    await client.ask(messages.metadata_request.MetadataRequest(topics=None), 9)


async def token_first(client: Client) -> None:
    await client.token(RIGHT)


async def gssapi_of_old(client: Client) -> None:
    await client.raw(b"\x60\x82\x02\x0a\x06\x09\x2a\x86\x48")


async def cut(client: Client) -> None:
    await client.raw(b"\0")


@pytest.mark.parametrize(
    ("script", "reason", "shown"),
    [
        (wrong_password, NOT_LET_IN, (ErrorCode.SASL_AUTHENTICATION_FAILED, NOT_LET_IN)),
        (wrong_password_bare, NOT_LET_IN, None),
        (
            malformed,
            "due to invalid credentials",
            (
                ErrorCode.SASL_AUTHENTICATION_FAILED,
                "Authentication failed during authentication due to invalid credentials with SASL mechanism PLAIN",
            ),
        ),
        (unknown_mechanism, "Unsupported SASL mechanism", (ErrorCode.UNSUPPORTED_SASL_MECHANISM, None)),
        (metadata_first, "of type METADATA during SASL handshake", None),
        (metadata_instead_of_a_token, "of type METADATA during SASL authentication", None),
        (token_first, "of type SASL_AUTHENTICATE during SASL handshake", None),
        (gssapi_of_old, "no GSSAPI", None),
        (cut, "no GSSAPI", None),
    ],
)
def test_who_is_not_let_in_is_told_no_more_than_apache_kafka_tells(
    script: Callable[[Client], Awaitable[None]], reason: str, shown: tuple[ErrorCode, str | None] | None
) -> None:
    async def tried(client: Client) -> None:
        with pytest.raises(AuthenticationFailed, match=reason) as problem:
            await script(client)
        answer = problem.value.answer
        if shown is None:
            assert answer is None
        else:
            key = ApiKey.SASL_HANDSHAKE if shown[1] is None else ApiKey.SASL_AUTHENTICATE
            told = decoded(key, 1 if shown[1] is None else 2, b"".join(answer or []))
            assert (told.error_code, getattr(told, "error_message", None)) == shown

    client = act(tried)
    assert (client.principal, client.listener.outcomes) == (ANONYMOUS, Counter(failed=1))


def test_a_session_ends_unless_it_is_begun_again() -> None:
    async def script(client: Client) -> None:
        await client.handshake()
        assert (await client.token(RIGHT)).session_lifetime_ms == 60_000
        assert isinstance(client.dispatcher, Session)
        assert (await client.handshake()).error_code == 0
        assert (await client.token(RIGHT)).session_lifetime_ms == 60_000
        assert await client.handshake() == b"served"  # within a second once more: the handler refuses it
        client.listener.clock_ms += 59_000
        assert (await client.handshake()).error_code == 0
        assert (await client.token(RIGHT)).session_lifetime_ms == 60_000
        client.listener.clock_ms += 60_000
        assert await client.raw(b"anything") == b"served"
        client.listener.clock_ms += 1
        with pytest.raises(ProtocolViolation, match="session is over"):
            await client.raw(b"anything")
        await client.handshake()  # Kafka lets it begin again also then
        await client.token(RIGHT)

    assert act(script, 60_000).listener.outcomes == Counter(succeeded=4, expired=1)


def test_a_session_stays_with_its_principal_and_mechanism() -> None:
    async def other_principal(client: Client) -> None:
        await client.handshake()
        await client.token(RIGHT)
        client.listener.clock_ms += 2_000
        await client.handshake()
        with pytest.raises(AuthenticationFailed, match=r"Cannot change principals .* from User\.alice: User\.bob"):
            await client.token(BOB)

    async def other_mechanism(client: Client) -> None:
        await client.handshake()
        await client.token(RIGHT)
        client.listener.clock_ms += 2_000
        assert (await client.handshake(1, "SCRAM-SHA-256")).error_code == 0
        with pytest.raises(AuthenticationFailed, match="not supported for re-authentication of mechanism 'PLAIN'"):
            await client.token(RIGHT)

    for script in (other_principal, other_mechanism):
        assert str(act(script, 60_000).principal) == "User:alice"


def test_who_does_not_authenticate_in_time_is_closed() -> None:
    async def scenario() -> None:
        client = Client()
        client.listener.timeout_s = 0.0
        closed = asyncio.Event()
        client.close = closed.set  # type: ignore[attr-defined]
        client.dispatcher.attach(client, asyncio.Transport())
        async with asyncio.timeout(30):
            await closed.wait()
        assert client.listener.outcomes == Counter(late=1)

    asyncio.run(scenario())


def test_a_step_that_is_under_way_ends_with_its_connection() -> None:
    """A broker that stopped while a failed login waited for its delay left the task of that login behind."""

    async def scenario() -> None:
        client = Client()
        client.listener.failure_delay_s = 3600.0
        waiting_for_its_turn = client.dispatcher.handle(memoryview(b"no request"), client)
        client.dispatcher.detach(client)
        await asyncio.wait([waiting_for_its_turn], timeout=30)
        assert waiting_for_its_turn.cancelled()
        client = Client()
        client.listener.failure_delay_s = 3600.0
        delayed = client.dispatcher.handle(memoryview(b"no request"), client)
        while not client.listener.outcomes["failed"]:
            await asyncio.sleep(0)
        client.dispatcher.detach(client)
        await asyncio.wait([delayed], timeout=30)
        assert delayed.cancelled()

    asyncio.run(scenario())


def test_who_failed_leaves_nothing_to_the_garbage_collector() -> None:
    """A flood of failures left cycles, and their collection held everybody for 40 ms."""

    async def scenario() -> weakref.ref[Any]:
        client = Client()
        answer = client.dispatcher.handle(memoryview(b"no request"), client)
        await asyncio.wait([answer])
        assert isinstance(answer.exception(), AuthenticationFailed)
        client.dispatcher.detach(client)
        return weakref.ref(client.dispatcher)

    gc.disable()
    try:
        assert asyncio.run(scenario())() is None
    finally:
        gc.enable()
