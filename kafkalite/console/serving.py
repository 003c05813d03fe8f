"""Binds the console's address, and serves until SIGINT or SIGTERM; then event streams end, and other requests have a second."""

from __future__ import annotations

import asyncio
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

if TYPE_CHECKING:
    from starlette.types import ASGIApp

_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)
_CONNECTIONS: Final = 200
_HEAD_BYTES: Final = 128 * 1024
ARRIVAL_S: Final = 20.0
"""Time for a request to arrive completely."""
_END_S: Final = 1


class TimedProtocol(H11Protocol):
    """Closes a connection whose request does not arrive in time. uvicorn waits for the rest of a request without a limit, and refuses all
    clients while it waits for `_CONNECTIONS` of them.
    """

    _late: asyncio.TimerHandle

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._late = self.loop.call_later(ARRIVAL_S, self._close_if_late)

    def on_response_complete(self) -> None:
        self._late.cancel()
        self._late = self.loop.call_later(ARRIVAL_S, self._close_if_late)
        super().on_response_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        self._late.cancel()
        super().connection_lost(exc)

    def _close_if_late(self) -> None:
        is_being_answered = self.cycle is not None and not self.cycle.response_complete and not self.cycle.more_body
        if not is_being_answered:
            self.transport.close()


class _Server(uvicorn.Server):
    """A uvicorn server that ends on the event loop's signal; uvicorn's own handler raises the signal once more at the end.

    `ready` is called as soon as a signal ends it so.
    """

    def __init__(self, config: uvicorn.Config, ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._ready = ready

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        loop = asyncio.get_running_loop()
        for number in _SIGNALS:
            loop.add_signal_handler(number, self.handle_exit, number, None)
        try:
            self._ready()
            yield
        finally:
            for number in _SIGNALS:
                loop.remove_signal_handler(number)


def bound_socket(host: str, port: int) -> socket.socket:
    """Return a listening socket; port 0 takes a free one. Raises OSError, which names the address."""
    try:
        family, _, _, _, address = socket.getaddrinfo(
            host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        return socket.create_server(address[:2], family=family, backlog=128)
    except OSError as problem:
        raise OSError(problem.errno, f"cannot bind {host or '*'}:{port}: {problem.strerror}") from problem


async def serve(app: ASGIApp, listening: socket.socket, ready: Callable[[], None]) -> None:
    """Serve until a signal; `ready` is called before the first request is served."""
    await _Server(configuration(app), ready).serve(sockets=[listening])


def configuration(app: ASGIApp) -> uvicorn.Config:
    """Return uvicorn's configuration for the console: with bounds, and without unused features."""
    return uvicorn.Config(
        app,
        http=TimedProtocol,
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        limit_concurrency=_CONNECTIONS,
        h11_max_incomplete_event_size=_HEAD_BYTES,
        timeout_graceful_shutdown=_END_S,
    )
