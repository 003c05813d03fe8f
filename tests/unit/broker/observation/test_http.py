"""The HTTP server: what it serves, what it refuses, and all its bounds."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any, Final

import pytest

from kafkalite.broker.observation import http
from kafkalite.broker.observation.http import Answer, EventStream, HttpServer, Response
from kafkalite.testing.simulation import virtual_time
from tests.unit.broker.observation.http_client import Client, parsed

CROWD: Final = 10


async def hello() -> Answer:
    return Response(b"hello")


async def broken() -> Answer:
    raise ZeroDivisionError("a bug")


async def endless() -> Answer:
    await asyncio.sleep(1_000_000)
    raise AssertionError


async def slow() -> Answer:
    await asyncio.sleep(1.0)
    return Response(b"at last", "application/json", 503)


class Ticks:
    """A stream of a message every second, for ever."""

    def __init__(self) -> None:
        self.is_over = False

    async def page(self) -> Answer:
        return EventStream(self._messages())

    async def _messages(self) -> AsyncGenerator[bytes]:
        try:
            for number in range(1_000_000):
                yield f"data: {number}\n\n".encode()
                await asyncio.sleep(1.0)
        finally:
            self.is_over = True


def run(scenario: Callable[[HttpServer, Ticks], Awaitable[Any]], max_connections: int = 3) -> None:
    async def all_of_it() -> None:
        ticks = Ticks()
        pages = {"/": hello, "/broken": broken, "/endless": endless, "/slow": slow, "/events": ticks.page}
        server = HttpServer(pages, max_connections)
        await scenario(server, ticks)
        await server.close()
        await asyncio.sleep(0.01)
        assert not server.connections

    virtual_time.run(all_of_it())


def test_one_connection_serves_many_requests() -> None:
    async def scenario(server: HttpServer, _: Ticks) -> None:
        client = Client(server)
        for path in ("/", "/?query=is&nothing", "/"):
            status, headers, body = await client.get(path)
            assert (status, headers["content-length"], body) == (200, "5", b"hello")
        assert headers["cache-control"] == "no-store" and "default-src 'self'" in headers["content-security-policy"]
        status, headers, body = await client.get("/", method="HEAD")
        assert (status, headers["content-length"], body) == (200, "5", b"")
        assert not client.is_closed

    run(scenario)


def test_requests_may_come_in_pieces_or_together() -> None:
    async def scenario(server: HttpServer, _: Ticks) -> None:
        client = Client(server)
        request = b"GET / HTTP/1.1\r\nHost: any\r\n\r\n"
        for byte in request[:-1]:
            assert await client.send(bytes([byte])) == b""
        assert parsed(await client.send(request[-1:]))[2] == b"hello"
        assert (await client.send(request * 3)).count(b"hello") == 3

    run(scenario)


def test_what_is_not_there_is_told_with_what_is() -> None:
    async def scenario(server: HttpServer, _: Ticks) -> None:
        status, _headers, body = await Client(server).get("/../etc/passwd")
        assert status == 404 and b"/events" in body

    run(scenario)


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "TRACE", "get"])
def test_nothing_can_be_changed(method: str) -> None:
    async def scenario(server: HttpServer, _: Ticks) -> None:
        client = Client(server)
        status, headers, _body = await client.get("/", method=method)
        assert (status, headers["allow"], headers["connection"]) == (405, "GET, HEAD", "close")
        assert client.is_closed

    run(scenario)


@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        (b"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc", 413),
        (b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n", 413),
        (b"GET / HTTP/1.1\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: a\r\nBroken header\r\n\r\n", 400),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", 400),
        (b"\x00\x00\x00\x10\x00\x12\x00\x03\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: a\r\nX: " + b"x" * http.HEAD_BYTES + b"\r\n", 431),
        (b"GET /" + b"x" * http.HEAD_BYTES, 431),
    ],
    ids=["body", "chunked", "no host", "two hosts", "header", "TLS", "Kafka", "long header", "long path"],
)
def test_what_is_no_request_is_refused(request_bytes: bytes, status: int) -> None:
    async def scenario(server: HttpServer, _: Ticks) -> None:
        client = Client(server)
        found, headers, _body = parsed(await client.send(request_bytes))
        assert (found, headers["connection"]) == (status, "close")
        assert client.is_closed
        client.connection.data_received(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")  # what was on its way is not served

    run(scenario)


def test_http_1_0_is_served_and_closed() -> None:
    async def scenario(server: HttpServer, _: Ticks) -> None:
        client = Client(server)
        assert parsed(await client.send(b"GET / HTTP/1.0\r\n\r\n"))[2] == b"hello"
        assert client.is_closed

    run(scenario)


def test_a_page_that_fails_is_logged_and_answered(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(server: HttpServer, _: Ticks) -> None:
        client = Client(server)
        with virtual_time.expected_errors() as seen:
            status, _headers, body = await client.get("/broken")
        assert seen.count == 1
        assert status == 500 and b"a bug" not in body
        assert (await client.get("/"))[0] == 200, "the connection goes on"

    with caplog.at_level(logging.ERROR):
        run(scenario)
    assert "/broken failed" in caplog.text


def test_a_page_that_takes_too_long_is_given_up() -> None:
    async def scenario(server: HttpServer, _: Ticks) -> None:
        client = Client(server)
        assert await client.send(b"GET /endless HTTP/1.1\r\nHost: a\r\n\r\n") == b""
        await asyncio.sleep(http.ANSWER_TIMEOUT_S)
        assert parsed(bytes(client.transport.written))[0] == 503

    run(scenario)


def test_more_connections_than_allowed_are_closed() -> None:
    async def scenario(server: HttpServer, _: Ticks) -> None:
        clients = [Client(server) for _ in range(4)]
        assert [client.is_closed for client in clients] == [False, False, False, True]
        clients[0].transport.close()
        await asyncio.sleep(0.001)
        assert not Client(server).is_closed

    run(scenario)


@pytest.mark.parametrize("trickle", [b"", b"GET / HT"], ids=["silent", "half a head"])
def test_a_head_that_does_not_come_is_not_waited_for(trickle: bytes) -> None:
    async def scenario(server: HttpServer, _: Ticks) -> None:
        client = Client(server)
        for second in range(int(http.HEAD_TIMEOUT_S) - 1):
            await asyncio.sleep(1.0)
            if trickle:
                client.connection.data_received(b"x" if second else trickle)
        assert not client.is_closed
        await asyncio.sleep(2.5)
        assert client.is_closed, "each byte does not begin the wait again"

    run(scenario)


def test_an_idle_connection_is_closed() -> None:
    async def scenario(server: HttpServer, _: Ticks) -> None:
        client = Client(server)
        await client.get("/")
        await asyncio.sleep(http.IDLE_TIMEOUT_S - 1)
        assert (await client.get("/"))[0] == 200
        await asyncio.sleep(http.IDLE_TIMEOUT_S + 1)
        assert client.is_closed

    run(scenario)


def test_a_client_that_does_not_take_its_answer_is_let_go() -> None:
    async def scenario(server: HttpServer, _: Ticks) -> None:
        client = Client(server)
        client.transport.stuck = True
        await client.get("/")
        await asyncio.sleep(http.TAKE_TIMEOUT_S - 1)
        assert not client.is_closed
        await asyncio.sleep(2)
        assert client.is_closed

    run(scenario)


def test_requests_that_pile_up_behind_an_answer_end_the_connection() -> None:
    async def scenario(server: HttpServer, _: Ticks) -> None:
        client = Client(server)
        await client.send(b"GET /slow HTTP/1.1\r\nHost: a\r\n\r\n")
        await client.send(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n" * 1000)
        assert client.is_closed

    run(scenario)


def test_events_come_as_they_happen_until_the_client_leaves() -> None:
    async def scenario(server: HttpServer, ticks: Ticks) -> None:
        client = Client(server)
        _status, headers, body = await client.get("/events")
        assert headers["content-type"] == "text/event-stream" and b"data: 0\n\n" in body
        await asyncio.sleep(http.IDLE_TIMEOUT_S + 10)
        assert not client.is_closed and b"data: 80\n\n" in client.transport.written
        client.transport.close()
        await asyncio.sleep(0.01)
        assert ticks.is_over

    run(scenario)


def test_events_for_a_client_that_does_not_take_them_end() -> None:
    async def scenario(server: HttpServer, ticks: Ticks) -> None:
        client = Client(server)
        await client.get("/events")
        client.transport.stuck = True
        await asyncio.sleep(http.TAKE_TIMEOUT_S + 2)
        assert client.is_closed and ticks.is_over

    run(scenario)


def test_a_client_that_closed_its_side_gets_its_answer() -> None:
    async def scenario(server: HttpServer, ticks: Ticks) -> None:
        client = Client(server)
        await client.send(b"GET /slow HTTP/1.1\r\nHost: a\r\n\r\n")
        assert client.connection.eof_received(), "the other side stays open"
        await asyncio.sleep(2)
        assert parsed(bytes(client.transport.written))[2] == b"at last" and client.is_closed
        silent, streaming = Client(server), Client(server)
        assert not silent.connection.eof_received()
        await streaming.get("/events")
        assert not streaming.connection.eof_received()
        for each in (silent, streaming):
            each.transport.close()  # which is what the loop does then

    run(scenario)


def test_closing_the_server_ends_streams() -> None:
    async def scenario(server: HttpServer, ticks: Ticks) -> None:
        await Client(server).get("/events")
        await server.close()
        await asyncio.sleep(0.01)
        assert ticks.is_over

    run(scenario)


def test_an_address_in_use_is_named() -> None:
    async def scenario() -> None:
        first, second = HttpServer({}, 1), HttpServer({}, 1)
        await first.start("127.0.0.1", 0)
        try:
            with pytest.raises(OSError, match=rf"kafkalite.http.listener cannot bind 127.0.0.1:{first.port}"):
                await second.start("127.0.0.1", first.port)
        finally:
            await first.close()

    asyncio.run(scenario())


def test_a_crowd_that_asks_at_once_is_answered_in_turns() -> None:
    """As many as there were connections were answered in one turn of the loop, with the broker's clients behind them."""
    turn, served = 0, list[int]()

    async def page() -> Answer:
        served.append(turn)
        return Response(b"page")

    async def scenario() -> None:
        nonlocal turn
        server = HttpServer({"/": page}, CROWD)
        clients = [Client(server) for _ in range(CROWD)]
        for each in clients:
            each.connection.data_received(b"GET / HTTP/1.1\r\nHost: any\r\n\r\n" * 2)
        while len(served) < 2 * CROWD:
            turn += 1
            await asyncio.sleep(0)
        await server.close()

    virtual_time.run(scenario())
    assert max(Counter(served).values()) == 1
