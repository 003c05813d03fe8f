"""Of those who are not authenticated few are read from in each turn of the loop, and all have their turn."""

from __future__ import annotations

import asyncio
import socket
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any, Final

import pytest
import uvloop

from kafkalite.broker.connections.unauthenticated_reads import AT_ONCE, UnauthenticatedRead, UnauthenticatedReads

CROWD: Final = 30
DEADLINE_S: Final = 30

both_loops = pytest.mark.parametrize("run", [asyncio.run, uvloop.run])


class Hall:
    """A server of unauthenticated connections, and how many of them were read from, or ended, in each turn of the loop."""

    def __init__(self) -> None:
        self.reads = UnauthenticatedReads()
        self.came: list[_Unauthenticated] = []
        self.turn = 0
        self.served: Counter[int] = Counter()
        self.received = self.ended = 0

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(DEADLINE_S):
            while not condition():
                self.turn += 1
                await asyncio.sleep(0)


class _Unauthenticated(asyncio.Protocol):
    def __init__(self, hall: Hall) -> None:
        self._hall = hall

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        made: Any = transport
        self.read: UnauthenticatedRead = self._hall.reads.add(made)
        self._hall.came.append(self)

    def data_received(self, data: bytes) -> None:
        self._hall.received += len(data)
        self._hall.served[self._hall.turn] += 1

    def connection_lost(self, exc: Exception | None) -> None:
        self._hall.ended += 1
        self._hall.served[self._hall.turn] += 1
        self.read.end_turns()


def in_hall(script: Callable[[Hall, list[socket.socket]], Awaitable[None]], run: Callable[[Any], None]) -> None:
    """A crowd has come, and said nothing yet."""

    async def scenario() -> None:
        hall, loop = Hall(), asyncio.get_running_loop()
        server = await loop.create_server(lambda: _Unauthenticated(hall), "127.0.0.1", 0, backlog=CROWD)
        clients = [socket.create_connection(server.sockets[0].getsockname()) for _ in range(CROWD)]
        await hall.until(lambda: len(hall.came) == CROWD)
        for _ in range(4):  # until all are read from in turns
            await asyncio.sleep(0)
        try:
            await script(hall, clients)
        finally:
            server.close()
            for each in clients:
                each.close()
        await hall.until(lambda: hall.ended == CROWD)
        assert not hall.reads.count
        hall.reads.close()

    run(scenario())


@both_loops
def test_a_crowd_that_speaks_at_once_is_read_in_turns(run: Callable[[Any], None]) -> None:
    """All were read at once: with what follows from that, a thousand held everybody else for 50 ms."""

    async def script(hall: Hall, clients: list[socket.socket]) -> None:
        for said in (1, 2):
            for each in clients:
                each.sendall(b"x")
            await hall.until(lambda said=said: hall.received == said * CROWD)  # type: ignore[misc]
        assert max(hall.served.values()) <= AT_ONCE

    in_hall(script, run)


@both_loops
def test_a_crowd_that_leaves_at_once_is_noticed_in_turns(run: Callable[[Any], None]) -> None:
    async def script(hall: Hall, clients: list[socket.socket]) -> None:
        for each in clients:
            each.close()
        await hall.until(lambda: hall.ended == CROWD)
        assert max(hall.served.values()) <= 2 * AT_ONCE  # the end is seen in one turn, and told in the next

    in_hall(script, run)


@both_loops
def test_an_authenticated_connection_is_read_at_once_and_a_paused_one_is_not_read(
    run: Callable[[Any], None],
) -> None:
    async def script(hall: Hall, clients: list[socket.socket]) -> None:
        paused, proven = hall.came[0], hall.came[1:]
        paused.read.pause_reading()
        for each in proven:
            each.read.end_turns()
        for client in clients:
            client.sendall(b"x")
        await hall.until(lambda: hall.received == CROWD - 1)
        assert max(hall.served.values()) > AT_ONCE
        paused.read.resume_reading()
        await hall.until(lambda: hall.received == CROWD)
        proven[0].read.pause_reading()
        assert not proven[0].read.transport.is_reading()
        proven[0].read.resume_reading()

    in_hall(script, run)


def test_what_is_no_socket_is_read_as_any_transport() -> None:
    class Transport(asyncio.Transport):
        is_paused = False

        def pause_reading(self) -> None:
            self.is_paused = True

    transport = Transport()
    UnauthenticatedReads().add(transport).pause_reading()
    assert transport.is_paused
