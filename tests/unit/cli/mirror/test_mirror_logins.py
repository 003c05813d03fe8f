"""How much of the mirror those may have who have not authenticated, and how much of a request it keeps."""

from __future__ import annotations

import asyncio
import tracemalloc
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from kafkalite.cli.mirror import listener as listeners
from kafkalite.cli.mirror import logins
from kafkalite.cli.mirror import passing as passings
from kafkalite.cli.mirror.positions import Positions
from kafkalite.cli.mirror.relay import Relay
from kafkalite.errors import ErrorCode
from kafkalite.net.frames import LENGTH
from kafkalite.protocol import messages
from kafkalite.protocol.apis import ApiKey
from tests.unit.cli.mirror.listened import (
    ANSWER,
    SASL,
    Broker,
    Client,
    Source,
    ask_as_follower,
    ask_versions,
    handshake,
    log_in,
    metadata,
    produce,
    run,
)


def large_metadata() -> messages.MetadataRequest:
    topics = [messages.metadata_request.MetadataRequestTopic(name="n" * 249)] * 2000
    return messages.MetadataRequest(topics=topics)


def test_connections_that_do_not_authenticate_leave_room_for_followers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logins, "_OF_ONE_ADDRESS", 3)
    monkeypatch.setattr(passings, "_MAX_CLIENTS", 1)

    async def test(broker: Broker, connect: Callable[[], Awaitable[Client]]) -> None:
        known = await connect()
        await log_in(known)
        anonymous_peers = [await connect() for _ in range(2)]
        for each in anonymous_peers:
            await ask_versions(each)
        follower = await connect()
        await ask_versions(follower)
        assert await (await connect()).is_closed(), "one address has only so many"
        await follower.send(handshake(), 1)
        await follower.receive()
        assert (await ask_as_follower(follower)).responses
        one_more = await connect()
        await one_more.send(handshake(), 1)
        await one_more.receive()
        await one_more.send(metadata(), 12)
        assert await one_more.is_closed(), "clients have their bound"
        large = await connect()
        await large.send(handshake(), 1)
        await large.receive()
        await large.send(large_metadata(), 9)
        assert await large.is_closed(), "also those whose first request is large"
        await known.send(metadata(), 12)
        assert await known.receive()

    run(test, SASL)


def test_a_request_without_a_response_does_not_pass_for_authentication() -> None:
    async def test(broker: Broker, connect: Callable[[], Awaitable[Client]]) -> None:
        anonymous = await connect()
        await anonymous.send(produce(0), 9)
        assert await anonymous.is_closed() and not broker.asked
        client = await connect()
        await client.send(handshake(), 1)
        await client.receive()
        for _ in range(2):
            await client.send(produce(0), 9)
        await client.send(metadata(), 12)
        await client.receive()
        keys = [int.from_bytes(frame[:2], "big") for _, frame in broker.asked]
        before = [ApiKey.SASL_HANDSHAKE, ApiKey.FETCH]
        assert keys == [*before, ApiKey.PRODUCE, ApiKey.PRODUCE, ApiKey.METADATA], "a broker is asked before, once"

    run(test, SASL)


def test_a_connection_that_is_refused_among_too_many_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logins, "_OF_ONE_ADDRESS", 0)
    source: Any = Source()
    passing = passings.Passing(list, SASL)
    listener = listeners.Listener(Relay(source, Positions(), lambda _: True), source, passing, SASL)

    async def test() -> None:
        await listener.listen("127.0.0.1", 0)
        assert listener._server is not None
        reader, writer = await asyncio.open_connection(*listener._server.sockets[0].getsockname()[:2])
        assert await Client(reader, writer).is_closed()
        (problem,) = listener.describe_problems()
        assert "too many of 127.0.0.1, or of all addresses, have not authenticated" in problem
        writer.close()
        await listener.close()

    asyncio.run(test())


def test_a_connection_has_to_authenticate_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    peers: list[Any] = []
    make = listeners._Peer

    def note_peer(*values: Any, **named: Any) -> Any:
        peers.append(make(*values, **named))
        return peers[-1]

    monkeypatch.setattr(listeners, "_Peer", note_peer)

    async def test(broker: Broker, connect: Callable[[], Awaitable[Client]]) -> None:
        known = await connect()
        await ask_versions(known)
        assert peers[0].login.when() is not None
        await log_in(known)
        assert peers[0].login.when() is None, "it may stay"
        monkeypatch.setattr(listeners, "_LOGIN_S", 0.05)
        assert await (await connect()).is_closed()
        await known.send(metadata(), 12)
        assert await known.receive()

    run(test, SASL)


def test_large_requests_are_refused_before_they_are_read_or_decoded(caplog: pytest.LogCaptureFixture) -> None:
    large = listeners._LARGE_BYTES + 1

    async def test(broker: Broker, connect: Callable[[], Awaitable[Client]]) -> None:
        anonymous = await connect()
        anonymous.writer.write(LENGTH.pack(large))
        assert await anonymous.is_closed() and not broker.asked
        broker.verdict = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        client = await connect()
        await client.send(handshake(), 1)
        await client.receive()
        frame = await client.send(large_metadata(), 9)
        assert await client.receive() == frame[4:8] + ANSWER, "it has authenticated, though it may not follow"
        client.writer.write(LENGTH.pack(large) + b"\0\1\0\21" + b"\xff" * (large - 4))
        assert await client.is_closed()

    run(test, SASL)
    assert f"fetch of {large} bytes: a broker of the target does not let a connection follow" in caplog.text.lower()


def test_nothing_of_a_request_is_kept_while_its_answer_is_waited_for() -> None:
    size, count = 2 * 1024 * 1024, 4

    async def test(broker: Broker, connect: Callable[[], Awaitable[Client]]) -> None:
        broker.is_silent = broker.is_forgetful = True
        head = b"\0\3\0\14" + b"\0\0\0\5\0\0\0"
        clients = [await connect() for _ in range(count)]
        tracemalloc.start()
        try:
            for each in clients:
                each.writer.write(LENGTH.pack(size) + head + bytes(size - len(head)))
            while broker.requests < count:
                await asyncio.sleep(0.01)
            while tracemalloc.get_traced_memory()[0] > size:  # what the transports have still
                await asyncio.sleep(0.01)
        finally:
            tracemalloc.stop()

    run(test)
