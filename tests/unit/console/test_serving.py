"""The console's server with clients that do not say what they want."""

from __future__ import annotations

import asyncio
import os
import signal
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.types import Receive, Scope, Send
from uvicorn.server import ServerState

from kafkalite.console.serving import ARRIVAL_S, TimedProtocol, bound_socket, configuration, serve
from kafkalite.testing.simulation import virtual_time

HEAD = b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\n"


class FakeTransport:
    def __init__(self) -> None:
        self.written, self.closed = b"", False

    def get_extra_info(self, name: str) -> Any:
        return None

    def write(self, data: bytes) -> None:
        self.written += data

    def close(self) -> None:
        self.closed = True

    def is_closing(self) -> bool:
        return self.closed

    def resume_reading(self) -> None:
        pass


async def app(scope: Scope, receive: Receive, send: Send) -> None:
    """Takes the body, and then as long for its answer as a follower of a topic."""
    await receive()
    await asyncio.sleep(3 * ARRIVAL_S)
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
    await send({"type": "http.response.body", "body": b"ok"})


def connected() -> tuple[TimedProtocol, FakeTransport]:
    protocol, transport = TimedProtocol(configuration(app), ServerState(), {}), FakeTransport()
    protocol.connection_made(transport)  # type: ignore[arg-type]
    return protocol, transport


def test_a_request_that_does_not_arrive_is_not_waited_for() -> None:
    """Two hundred such connections would keep everybody else out, for ever."""

    async def scenario() -> None:
        for beginning in (None, b"GET / HT", HEAD, HEAD + b"o"):
            protocol, transport = connected()
            if beginning is not None:
                protocol.data_received(beginning)
            await asyncio.sleep(ARRIVAL_S - 1)
            assert not transport.closed
            await asyncio.sleep(2)
            assert transport.closed, beginning
            protocol.connection_lost(None)

    virtual_time.run(scenario())


def test_an_answer_may_take_its_time_and_the_next_request_has_its_own() -> None:
    async def scenario() -> None:
        protocol, transport = connected()
        for answers in (1, 2):
            protocol.data_received(HEAD + b"ok")
            await asyncio.sleep(3 * ARRIVAL_S + 1)
            assert transport.written.count(b"200 OK") == answers and not transport.closed
        protocol.data_received(HEAD)  # which ends the wait that is allowed between requests
        await asyncio.sleep(ARRIVAL_S)
        assert transport.closed
        protocol.connection_lost(None)

    virtual_time.run(scenario())


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_as_soon_as_it_has_said_that_it_is_ready(number: signal.Signals) -> None:
    """A console that was stopped right after it had told its address ended as one that fails."""
    with bound_socket("127.0.0.1", 0) as listening:
        asyncio.run(serve(Starlette(), listening, lambda: os.kill(os.getpid(), number)))
