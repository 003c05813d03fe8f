"""HTTP/1.1 on the event loop, for few clients and small answers: GET and HEAD, no bodies, everything bounded.

h11 knows the protocol; here are the sockets, the bounds and the timeouts. A connection serves one request after the other. An
answer is a `Response`, or an `EventStream` that goes on until the client leaves or does not keep up. With a login whoever has none gets of
the pages in `open_pages` the status alone, and nothing of the others; with a context of TLS it is spoken on all connections.

Clients are not authenticated here, so few are read from in each turn of the event loop (`unauthenticated_reads`), and one answer is begun.

Bounds: connections, the size of a request's head, the time for it, for an answer, for a client to take what was sent to it, and
between two requests.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Mapping
from contextlib import aclosing
from dataclasses import dataclass, replace
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import h11

from kafkalite.broker.connections.tls_listener import TlsListener, listening_sockets
from kafkalite.broker.connections.unauthenticated_reads import UnauthenticatedRead, UnauthenticatedReads
from kafkalite.lifecycle import report
from kafkalite.net.binding import cannot_bind
from kafkalite.portions import Portions

if TYPE_CHECKING:
    import socket

    from kafkalite.net.login import Login

logger = logging.getLogger("kafkalite.broker.http")

HEAD_BYTES: Final = 16 * 1024
HEAD_TIMEOUT_S: Final = 10.0
IDLE_TIMEOUT_S: Final = 75.0
ANSWER_TIMEOUT_S: Final = 30.0
TAKE_TIMEOUT_S: Final = 20.0
"""Time for a client to receive everything that was sent to it."""

REFUSAL_DELAY_S: Final = 0.3
"""Delay before an authentication failure is sent, in seconds."""
_ASK_WHO: Final = ("WWW-Authenticate", 'Basic realm="kafkalite", charset="UTF-8"')
TEXT: Final = "text/plain; charset=utf-8"
_ALWAYS: Final = (
    ("Cache-Control", "no-store"),
    ("X-Content-Type-Options", "nosniff"),
    ("Referrer-Policy", "no-referrer"),
    # Nothing may come from elsewhere or run inline, so that no name of a topic can become a program.
    ("Content-Security-Policy", "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"),
)


@dataclass(frozen=True, slots=True)
class Response:
    """A complete response."""

    body: bytes
    content_type: str = TEXT
    status: int = HTTPStatus.OK
    headers: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class EventStream:
    """Server-sent events: encoded messages, sent as they come."""

    messages: AsyncGenerator[bytes]


Answer: TypeAlias = Response | EventStream
Page: TypeAlias = Callable[[], Awaitable[Answer]]
Encrypted: TypeAlias = "Callable[[list[socket.socket], Callable[[], asyncio.BaseProtocol]], TlsListener]"
"""Accepts connections with TLS from listening sockets."""


class HttpServer:
    """Serves `pages` by path, to at most `max_connections` connections at once."""

    def __init__(
        self,
        pages: Mapping[str, Page],
        max_connections: int,
        login: Login | None = None,
        open_pages: Collection[str] = (),
    ) -> None:
        self._pages = pages
        self._max_connections = max_connections
        self._login, self._open_pages = login, open_pages
        self._server: asyncio.AbstractServer | TlsListener | None = None
        self.connections: set[HttpConnection] = set()
        self.port = 0
        self.reads, self.turns = UnauthenticatedReads(), Portions()

    async def start(self, host: str, port: int, encrypted: Encrypted | None = None) -> None:
        """Bind and serve; `port` 0 takes a free one. Raises OSError, which names the address."""
        try:
            if encrypted is None:
                self._server = await asyncio.get_running_loop().create_server(
                    lambda: HttpConnection(self), host or None, port
                )
            else:
                sockets = await listening_sockets(host or None, port, self._max_connections)
                self._server = encrypted(sockets, lambda: HttpConnection(self))
                await self._server.start_serving()
        except OSError as problem:
            raise cannot_bind("kafkalite.http.listener", host, port, problem) from problem
        self.port = self._server.sockets[0].getsockname()[1]

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()
        for connection in tuple(self.connections):
            connection.close()
        self.reads.close()

    def admit(self, connection: HttpConnection) -> bool:
        """Count a new connection; False when there are too many."""
        if len(self.connections) >= self._max_connections:
            logger.warning("refusing an HTTP connection: there are %d", len(self.connections))
            return False
        self.connections.add(connection)
        return True

    async def answer(self, target: str, authorization: bytes | None = None) -> Answer:
        """Return the response for `target`, whose query is ignored."""
        path = target.partition("?")[0]
        page = self._pages.get(path)
        if self._login is not None and not self._login.admits(authorization):
            if page is not None and path in self._open_pages and isinstance(whole := await page(), Response):
                return replace(whole, body=b"{}\n")
            if authorization is not None:
                await asyncio.sleep(REFUSAL_DELAY_S)
            text = b"Who may look is in the file that kafkalite.http.users.file names.\n"
            return Response(text, status=HTTPStatus.UNAUTHORIZED, headers=(_ASK_WHO,))
        if page is None:
            return _text(HTTPStatus.NOT_FOUND, f"There is nothing here. Try {', '.join(self._pages)}.")
        return await page()


def _text(status: HTTPStatus, text: str) -> Response:
    return Response(f"{text}\n".encode(), status=status)


class HttpConnection(asyncio.Protocol):
    """The connection of one client."""

    def __init__(self, server: HttpServer) -> None:
        self._server = server
        self._loop = asyncio.get_running_loop()
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=HEAD_BYTES)
        self._transport: asyncio.Transport | None = None
        self._turns: UnauthenticatedRead | None = None
        self._request: h11.Request | None = None
        self._head_begun = False
        self._is_streaming = False
        self._ended = False
        """The client sends nothing more."""
        self._answering: asyncio.Task[None] | None = None
        self._untaken: asyncio.Future[None] | None = None
        self._deadline: asyncio.TimerHandle | None = None

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        made: asyncio.Transport = transport  # type: ignore[assignment]
        self._transport = made
        # With a high-water mark of 0 the TLS transport of asyncio stays paused when all is sent.
        made.set_write_buffer_limits(high=1, low=0)
        if self._server.admit(self):
            self._turns = self._server.reads.add(made)
            self._expect(HEAD_TIMEOUT_S)
        else:
            self.close()

    def data_received(self, data: bytes) -> None:
        if self._transport is None or self._transport.is_closing():  # what comes after the last answer is not served
            return
        try:
            self._http.receive_data(data)
        except RuntimeError:  # after an error or the end: whatever comes is no request
            self.close()
            return
        if self._answering is None:
            self._read_requests()
        elif len(self._http.trailing_data[0]) > HEAD_BYTES:
            self.close()

    def eof_received(self) -> bool:
        """Complete the response to a half-closed client; an event stream ends."""
        self._ended = True
        return self._answering is not None and not self._is_streaming

    def connection_lost(self, problem: Exception | None) -> None:
        self._server.connections.discard(self)
        if self._turns is not None:
            self._turns.end_turns()
        self._stop_waiting()
        self.resume_writing()
        if self._answering is not None:
            self._answering.cancel()

    def pause_writing(self) -> None:
        self._untaken = self._loop.create_future()

    def resume_writing(self) -> None:
        untaken, self._untaken = self._untaken, None
        if untaken is not None and not untaken.done():
            untaken.set_result(None)

    def close(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    # Requests

    def _expect(self, timeout_s: float) -> None:
        """Close unless something comes in time."""
        self._stop_waiting()
        self._deadline = self._loop.call_later(timeout_s, self.close)

    def _stop_waiting(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _read_requests(self) -> None:
        while self._answering is None:
            try:
                event = self._http.next_event()
            except h11.RemoteProtocolError as problem:
                status = HTTPStatus(problem.error_status_hint)
                self._start_response(self._refuse(_text(status, f"This is no request: {problem}.")))
                return
            match event:
                case h11.Request():
                    self._request = event
                case h11.EndOfMessage():
                    self._start_response(self._serve(self._request))  # type: ignore[arg-type]  # a request came before its end
                case h11.Data():
                    self._start_response(
                        self._refuse(_text(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "Requests have no body here."))
                    )
                case h11.ConnectionClosed():
                    self.close()
                    return
                case _:  # more is needed
                    if not self._head_begun and self._http.trailing_data[0]:
                        self._head_begun = True
                        self._expect(HEAD_TIMEOUT_S)
                    return

    def _start_response(self, answering: Any) -> None:
        self._stop_waiting()
        self._answering = self._loop.create_task(answering)
        self._answering.add_done_callback(self._complete_response)

    def _complete_response(self, task: asyncio.Task[None]) -> None:
        self._answering = self._request = None
        self._head_begun = False
        if not task.cancelled() and (problem := task.exception()) is not None:
            report("answering an HTTP client failed", problem)
            self.close()
        elif self._transport is None or self._transport.is_closing():
            return
        elif self._http.our_state is h11.DONE and self._http.their_state is h11.DONE and not self._ended:
            self._http.start_next_cycle()
            self._expect(IDLE_TIMEOUT_S)
            self._read_requests()
        else:
            self._transport.close()

    async def _serve(self, request: h11.Request) -> None:
        await self._server.turns.turn()
        if request.method not in (b"GET", b"HEAD"):
            refusal = _text(HTTPStatus.METHOD_NOT_ALLOWED, "Only GET and HEAD are served: nothing can be changed here.")
            await self._refuse(refusal, ("Allow", "GET, HEAD"))
            return
        target = request.target.decode("ascii", "replace")
        authorization = next((value for name, value in request.headers if name == b"authorization"), None)
        try:
            async with asyncio.timeout(ANSWER_TIMEOUT_S):
                answer = await self._server.answer(target, authorization)
        except TimeoutError:
            answer = _text(HTTPStatus.SERVICE_UNAVAILABLE, f"No answer within {ANSWER_TIMEOUT_S:g} s.")
        except Exception as problem:
            report(f"{target} failed", problem)
            answer = _text(HTTPStatus.INTERNAL_SERVER_ERROR, "The broker met an unexpected error; its log tells more.")
        if isinstance(answer, Response):
            await self._send_whole(answer, *answer.headers)
        else:
            await self._send_events(answer)

    async def _refuse(self, response: Response, *headers: tuple[str, str]) -> None:
        """Send a response and serve no more requests on this connection."""
        await self._server.turns.turn()
        await self._send_whole(response, ("Connection", "close"), *headers)

    async def _send_whole(self, response: Response, *headers: tuple[str, str]) -> None:
        length = ("Content-Length", str(len(response.body)))
        self._send(self._head(response.status, response.content_type, length, *headers))
        if self._wants_body:
            self._send(h11.Data(response.body))
        self._send(h11.EndOfMessage())
        await self._wait_until_sent()

    async def _send_events(self, stream: EventStream) -> None:
        self._send(self._head(HTTPStatus.OK, "text/event-stream", ("Connection", "close")))
        self._is_streaming = True
        async with aclosing(stream.messages) as messages:
            if self._wants_body:
                async for message in messages:
                    self._send(h11.Data(message))
                    await self._wait_until_sent()
        self._send(h11.EndOfMessage())

    @property
    def _wants_body(self) -> bool:
        return self._request is None or self._request.method != b"HEAD"

    def _head(self, status: int, content_type: str, *headers: tuple[str, str]) -> h11.Response:
        date = time.strftime("%a, %d %b %Y %H:%M:%S GMT", time.gmtime())
        return h11.Response(
            status_code=status,
            reason=HTTPStatus(status).phrase,
            headers=[("Date", date), ("Content-Type", content_type), *_ALWAYS, *headers],
        )

    def _send(self, event: h11.Event) -> None:
        data = self._http.send(event)
        if data and self._transport is not None and not self._transport.is_closing():
            self._transport.write(data)

    async def _wait_until_sent(self) -> None:
        """Wait until the client has received all that was sent, and abort the connection when that takes too long."""
        if self._untaken is None:
            return
        try:
            async with asyncio.timeout(TAKE_TIMEOUT_S):
                await self._untaken
        except TimeoutError:
            logger.info("an HTTP client does not take its answer; its connection is closed")
            self.close()
