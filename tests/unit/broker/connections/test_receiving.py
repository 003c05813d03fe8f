"""What connections may claim: before they were answered, all together, and for how long."""

from __future__ import annotations

import asyncio
import logging
import struct
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from kafkalite.broker.connections.connection import ServerConnection
from kafkalite.broker.connections.request_memory import RequestMemory
from kafkalite.broker.connections.slow_senders import SlowSenders
from kafkalite.broker.connections.unauthenticated_reads import READ_BYTES
from kafkalite.broker.requests.request_handler import AuthenticationFailed
from kafkalite.config.broker import LiveConfig
from kafkalite.security.principal import ANONYMOUS
from kafkalite.testing.simulation import virtual_time
from tests.unit.broker.broker_settings import broker_config
from tests.unit.broker.connections.test_connection import OTHER, FakeDispatcher, FakeServer, FakeTransport, frame

KIB = 1024
LIVE = LiveConfig(
    broker_config(
        socket_request_max_bytes=str(1000 * KIB),
        queued_max_request_bytes=str(2000 * KIB),
        kafkalite_unproven_request_max_bytes=str(300 * KIB),
    )
)


class Broker:
    """Connections that share memory and patience."""

    def __init__(self) -> None:
        self.server = FakeServer()
        self.server.memory, self.server.slow_senders = RequestMemory(LIVE), SlowSenders(LIVE)

    def connect(self, unproven_bytes: int | None = None) -> Client:
        return Client(self.server, unproven_bytes)


class Client:
    """One of them, which sends only what is read."""

    def __init__(self, server: FakeServer, unproven_bytes: int | None) -> None:
        self.dispatcher, self.transport = FakeDispatcher(), FakeTransport()
        self.connection = ServerConnection(
            server,  # type: ignore[arg-type]
            self.dispatcher,
            "PLAINTEXT",
            LIVE.current.socket_request_max_bytes,
            unproven_bytes,
        )
        self.connection.connection_made(self.transport)  # type: ignore[arg-type]
        self._unsent = b""

    def send(self, data: bytes = b"") -> int:
        """Send this behind what was not read yet; the bytes that are left."""
        self._unsent += data
        while self._unsent and self.transport.reading and not self.connection.closed:
            buffer = self.connection.get_buffer(-1)
            assert len(buffer), "a transport takes this for a broken protocol"
            count = min(len(buffer), len(self._unsent), 64 * KIB)
            buffer[:count] = self._unsent[:count]
            self._unsent = self._unsent[count:]
            self.connection.buffer_updated(count)
        return len(self._unsent)

    async def answer(self, name: bytes) -> None:
        self.dispatcher.answer(name)
        await virtual_time.settle()

    def leave(self) -> None:
        self.connection.connection_lost(None)


def run(act: Callable[[Broker], Coroutine[Any, Any, None]]) -> None:
    async def scenario() -> None:
        await act(Broker())

    virtual_time.run(scenario())


# Before the first answer


def test_a_client_may_claim_little_before_its_first_response() -> None:
    async def act(broker: Broker) -> None:
        client = broker.connect(300 * KIB)
        client.send(struct.pack(">i", 300 * KIB + 1))
        assert client.transport.aborted
        assert broker.server.bounds == ["frame size"]

    run(act)


def test_who_was_answered_may_claim_as_much_as_everybody() -> None:
    async def act(broker: Broker) -> None:
        client = broker.connect(300 * KIB)
        client.dispatcher.at_once = {b"first", b"large"}
        client.send(frame(OTHER, b"first", size=200 * KIB))
        client.send(frame(OTHER, b"large", size=900 * KIB))
        assert client.dispatcher.started == [b"first", b"large"]
        assert not client.transport.aborted

    run(act)


def test_the_default_leaves_room_for_what_controllers_begin_with() -> None:
    """UpdateMetadata of 100,000 topics of one partition has 8.3 MB, and Apache Kafka's controller sends it first."""
    assert broker_config().kafkalite_unproven_request_max_bytes >= 10_000_000


# All together


def test_memory_is_counted_while_a_request_arrives_waits_and_is_served() -> None:
    async def act(broker: Broker) -> None:
        client, memory = broker.connect(), broker.server.memory
        client.send(frame(OTHER, b"a"))
        assert memory.used_bytes == 0, "small ones are not worth counting"
        client.send(frame(OTHER, b"b", size=500 * KIB) + frame(OTHER, b"c", size=500 * KIB)[: 400 * KIB])
        assert 900 * KIB <= memory.used_bytes <= 1010 * KIB, "one waits, one arrives"
        client.send(frame(OTHER, b"c", size=500 * KIB)[400 * KIB :])
        await client.answer(b"a")
        assert 1000 * KIB <= memory.used_bytes <= 1001 * KIB, "one is served, one waits"
        await client.answer(b"b")
        await client.answer(b"c")
        assert memory.used_bytes == 0
        client.send(frame(OTHER, b"d", size=500 * KIB)[:-1])
        assert memory.used_bytes > 0
        client.leave()
        assert memory.used_bytes == 0

    run(act)


def test_requests_of_all_connections_are_bounded_and_none_waits_for_ever() -> None:
    """Ten that send 900 KiB each where 2000 are there; only half of each at first, so that all are stuck in the middle."""

    async def act(broker: Broker) -> None:
        clients, memory = [broker.connect() for _ in range(10)], broker.server.memory
        whole = frame(OTHER, b"x", size=900 * KIB)
        for half in (whole[: 450 * KIB], whole[450 * KIB :]):
            for client in clients:
                client.send(half)
                assert memory.used_bytes <= 3000 * KIB + 10 * 64 * KIB
        assert memory.waits > 0
        small = broker.connect()
        small.dispatcher.at_once = {b"fetch"}
        small.send(frame(OTHER, b"fetch"))
        assert small.dispatcher.started == [b"fetch"], "what frees memory is not held up"
        done: set[int] = set()
        while len(done) < len(clients):
            ready = [number for number, each in enumerate(clients) if each.dispatcher.pending]
            assert ready, "nobody gets on"
            for number in ready:
                await clients[number].answer(b"x")
                done.add(number)
            for client in clients:
                client.send()
                assert memory.used_bytes <= 3000 * KIB + 10 * 64 * KIB
        assert memory.used_bytes == 0
        assert all(client.transport.reading for client in clients)

    run(act)


def test_who_leaves_makes_room_for_the_next() -> None:
    async def act(broker: Broker) -> None:
        clients = [broker.connect() for _ in range(4)]
        whole = frame(OTHER, b"x", size=900 * KIB)
        left = [client.send(whole[:-1]) for client in clients]
        assert left[3] > 0 and not clients[3].transport.reading
        for client in clients[:3]:
            client.leave()
        assert clients[3].transport.reading
        assert clients[3].send() == 0
        clients[3].leave()
        assert broker.server.memory.used_bytes == 0

    run(act)


def test_without_a_setting_four_of_the_longest_requests_fit() -> None:
    memory = RequestMemory(LiveConfig(broker_config()))
    assert memory.max_bytes == 4 * broker_config().socket_request_max_bytes


# Slow senders


@pytest.mark.parametrize("head", [b"\x00\x00", struct.pack(">i", 100), struct.pack(">i", 300 * KIB)])
def test_who_sends_a_byte_a_second_or_none_is_ended(head: bytes, caplog: pytest.LogCaptureFixture) -> None:
    async def act(broker: Broker) -> None:
        dribbling, silent = broker.connect(), broker.connect()
        silent.send(head)
        dribbling.send(head[:1])
        for byte in head[1:] + b"." * 60:
            await asyncio.sleep(1)
            dribbling.send(bytes([byte]))
        assert silent.transport.aborted and dribbling.transport.aborted
        assert broker.server.bounds == ["slow sender"] * 2
        silent.leave(), dribbling.leave()

    with caplog.at_level(logging.WARNING):
        run(act)
    assert caplog.messages[0].startswith("closing the connection from 10.0.0.7 on PLAINTEXT: ")
    assert "bytes of a request of " in caplog.messages[0]


def test_who_sends_steadily_or_nothing_is_left_alone() -> None:
    async def act(broker: Broker) -> None:
        steady, idle = broker.connect(), broker.connect()
        idle.dispatcher.at_once = {b"x"}
        idle.send(frame(OTHER, b"x"))
        data = frame(OTHER, b"y", size=900 * KIB)
        for start in range(0, len(data), 20 * KIB):  # 45 seconds
            await asyncio.sleep(1)
            steady.send(data[start : start + 20 * KIB])
        assert steady.dispatcher.started == [b"y"]
        await asyncio.sleep(100)
        assert not steady.transport.aborted and not idle.transport.aborted

    run(act)


def test_each_request_has_its_own_time() -> None:
    async def act(broker: Broker) -> None:
        client = broker.connect()
        client.dispatcher.at_once = {b"x"}
        data = frame(OTHER, b"x") * 100
        client.send(data[:5])
        for start in range(5, len(data), 7):  # there is never a moment without a request that has begun
            await asyncio.sleep(1)
            client.send(data[start : start + 7])
        assert not client.transport.aborted

    run(act)


def test_time_in_which_the_broker_does_not_read_is_not_the_clients() -> None:
    async def act(broker: Broker) -> None:
        client = broker.connect()
        client.dispatcher.at_once = {b"x"}
        data = frame(OTHER, b"x", size=1000)
        client.send(data[:100])
        client.connection.mute(300)
        await asyncio.sleep(250)
        assert not client.transport.aborted
        await asyncio.sleep(51)
        assert client.transport.reading
        await asyncio.sleep(20)
        assert client.send(data[100:]) == 0
        assert client.dispatcher.started == [b"x"]

    run(act)


def test_a_broker_that_was_stopped_reads_first_and_judges_then() -> None:
    """Between two looks, both of which find a sender late, the loop has read what was there."""

    async def act(broker: Broker) -> None:
        seen: list[float] = []

        class Late:
            def is_late(self, now_s: float, timeout_s: float) -> bool:
                seen.append(now_s)
                return True

            def end_as_slow(self, now_s: float) -> None:
                seen.append(-now_s)

        broker.server.slow_senders.watch(Late())
        await asyncio.sleep(60)
        first, second, ended = seen
        assert second - first >= 1 and ended == -second

    run(act)


def test_of_thousands_of_requests_before_authentication_few_are_cut_at_once() -> None:
    """A read of 256 KiB has 50,000 of the shortest, and what waits takes more than its bytes."""

    class Gate(FakeDispatcher):
        def attach(self, connection: ServerConnection, transport: asyncio.Transport) -> asyncio.Transport:
            return transport

        def detach(self, connection: ServerConnection) -> None: ...

    async def scenario() -> None:
        server, gate, transport = FakeServer(), Gate(), FakeTransport()
        connection = ServerConnection(server, FakeDispatcher(), "SASL", 1000 * KIB, KIB, gate)  # type: ignore[arg-type]
        connection.connection_made(transport)  # type: ignore[arg-type]
        shortest = b"\0\0\0\1x"
        buffer = connection.get_buffer(-1)
        assert len(buffer) == READ_BYTES
        count = READ_BYTES // len(shortest)
        buffer[: count * len(shortest)] = shortest * count
        connection.buffer_updated(count * len(shortest))
        assert connection.statistics()["waiting"] == count - 1 and not transport.reading
        gate.pending[b""].set_exception(AuthenticationFailed("who?"))
        await virtual_time.settle()
        assert transport.reading and connection.closed, "what TLS has to say of the end is read"
        connection.complete_authentication(ANONYMOUS, FakeDispatcher(), None)
        assert len(connection.get_buffer(-1)) > READ_BYTES
        connection.connection_lost(None)

    virtual_time.run(scenario())
