"""Responses that clients do not read: who is closed when, and who goes on."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

import pytest

from kafkalite.broker.connections.unread_responses import SHORT_BYTES, UnreadResponses
from kafkalite.broker.handlers import fetch
from kafkalite.config.broker import LiveConfig
from kafkalite.protocol import messages
from kafkalite.testing.simulation import virtual_time
from tests.unit.broker.broker_settings import broker_config
from tests.unit.broker.connections.test_connection import OTHER, Peer, frame
from tests.unit.broker.memory_parts import MemoryParts, context_of, leader

KIB = 1024
BOUND = 6400 * KIB
LIVE = LiveConfig(
    broker_config(kafkalite_unread_response_max_bytes=str(BOUND), kafkalite_response_read_timeout_ms="10000")
)


class Client:
    """A connection that is written to; its client reads when the test says so."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self.written_bytes = self._read_bytes = 0
        self.ended_s: float | None = None
        broker.clients[self] = None

    @property
    def unread_bytes(self) -> int:
        self._broker.asked += 1
        return self.written_bytes - self._read_bytes

    def end_as_unread(self, unread_s: float, total_bytes: int) -> None:
        self.ended_s = unread_s
        self._read_bytes = self.written_bytes

    def gets(self, size: int) -> None:
        unread = self._broker.unread
        self.written_bytes += size
        unread.headroom_bytes -= size
        if unread.headroom_bytes < 0:
            unread.check_readers()

    def reads(self, size: int) -> None:
        self._read_bytes = min(self.written_bytes, self._read_bytes + size)

    async def reads_for(self, seconds: int, size: int) -> None:
        """So much each second."""
        for _ in range(seconds):
            self.reads(size)
            await asyncio.sleep(1)


class Broker:
    """With a bound of 6,400 KiB."""

    def __init__(self) -> None:
        self.clients: dict[Client, None] = {}
        self.asked = 0
        self.unread = UnreadResponses(LIVE, self.clients)

    @property
    def are_short(self) -> bool:
        return self.unread.response_bytes_max == SHORT_BYTES


def run(act: Callable[[Broker], Awaitable[None]]) -> None:
    async def scenario() -> None:
        broker = Broker()
        await act(broker)
        broker.unread.close()

    virtual_time.run(scenario())


def test_connections_are_asked_seldom_while_clients_read() -> None:
    async def act(broker: Broker) -> None:
        clients = [Client(broker) for _ in range(10)]
        for _ in range(100):
            for each in clients:
                each.gets(64 * KIB)
                each.reads(64 * KIB)
        assert broker.asked <= 12 * 10, "once for each 6,400 KiB"
        assert not broker.are_short

    run(act)


def test_who_does_not_read_for_long_is_closed_only_where_much_is_unread() -> None:
    async def act(broker: Broker) -> None:
        hostile = [Client(broker) for _ in range(4)]
        for each in hostile[:3]:
            each.gets(2000 * KIB)
        await asyncio.sleep(1000)
        assert not broker.are_short and not any(each.ended_s for each in hostile), "less than the bound"
        hostile[3].gets(2000 * KIB)
        assert broker.are_short
        await asyncio.sleep(9)
        assert not any(each.ended_s for each in hostile)
        await asyncio.sleep(2.5)
        assert all(each.ended_s and each.ended_s >= 10 for each in hostile)
        assert not broker.are_short, "who reads gets whole responses again"

    run(act)


@pytest.mark.parametrize(
    ("unread_bytes", "a_second_bytes", "is_closed"), [(3000, 40, False), (3000, 1, True), (1, 1, False)]
)
def test_who_reads_steadily_is_not_closed(unread_bytes: int, a_second_bytes: int, is_closed: bool) -> None:
    """40 KiB of 3,000 in each second are enough, a KiB is not, unless that is all there is."""

    async def act(broker: Broker) -> None:
        for _ in range(5):
            Client(broker).gets(1400 * KIB)
        client = Client(broker)
        client.gets(unread_bytes * KIB)
        for _ in range(14):
            broker.unread.check_readers()
            client.gets(a_second_bytes * KIB)
            await client.reads_for(1, a_second_bytes * KIB)
            Client(broker).gets(500 * KIB)  # there are ever new ones who do not read
        assert (client.ended_s is not None) == is_closed

    run(act)


def test_beyond_twice_the_bound_who_has_read_least_for_longest_is_closed_at_once() -> None:
    async def act(broker: Broker) -> None:
        first = [Client(broker) for _ in range(7)]
        for each in first:
            each.gets(1000 * KIB)
        await asyncio.sleep(2)
        honest = Client(broker)
        for _ in range(50):
            Client(broker).gets(1000 * KIB)
            honest.gets(200 * KIB)
            honest.reads(200 * KIB)
            assert broker.unread.total_bytes <= 2 * BOUND + 1000 * KIB
        assert all(each.ended_s is not None for each in first) and honest.ended_s is None

    run(act)


def test_many_connections_are_not_asked_for_each_response_beyond_the_bound() -> None:
    async def act(broker: Broker) -> None:
        clients = [Client(broker) for _ in range(1000)]
        for each in clients[:65]:
            each.gets(100 * KIB)
        broker.asked = 0
        for each in clients:
            each.gets(KIB)
        assert broker.asked <= 1000 * KIB / (BOUND / 64) * 4 * 1000, "after each 64th part of the bound"

    run(act)


def test_a_connection_that_is_closed_for_it_says_so(caplog: pytest.LogCaptureFixture) -> None:
    async def act() -> None:
        peer = Peer()
        peer.connection._writer._unread = UnreadResponses(LIVE, peer.server.connections)
        peer.transport.read_bytes = 0
        peer.dispatcher.large = [b"." * (BOUND * 3)]
        peer.send(frame(OTHER, b"large"))
        assert peer.transport.aborted and peer.server.bounds == ["unread responses"]
        assert peer.connection.unread_bytes == 0

    with caplog.at_level(logging.WARNING):
        virtual_time.run(act())
    assert f"{BOUND * 3} bytes of responses unread for 0 s, {BOUND * 3} on all connections" in caplog.text


@pytest.mark.parametrize("replica_id", [-1, 2])
def test_a_fetch_gets_little_while_much_is_unread(replica_id: int) -> None:
    """Whoever asks: without an authorizer anybody may say that he is a follower, who else may ask for 2 GiB."""
    request = messages.fetch_request.FetchRequest(replica_id=replica_id, max_bytes=2**31 - 1)
    context = context_of(12)
    parts = MemoryParts(leader(end=5))
    assert fetch._params(parts, request, context).max_bytes == parts.config.fetch_max_bytes
    context.connection.unread.response_bytes_max = SHORT_BYTES
    assert fetch._params(parts, request, context).max_bytes == SHORT_BYTES
