"""A client of `HttpServer` without sockets: what it would write to the socket is kept, and time is virtual."""

from __future__ import annotations

import asyncio
from typing import Any

from kafkalite.broker.observation.http import HttpConnection, HttpServer


class FakeTransport(asyncio.Transport):
    """Takes everything at once, unless `stuck`."""

    def __init__(self) -> None:
        super().__init__()
        self.connection: HttpConnection | None = None
        self.written = bytearray()
        self.stuck = False
        self.closed = False

    def write(self, data: Any) -> None:
        self.written += data
        if self.stuck and self.connection is not None:
            self.connection.pause_writing()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def is_closing(self) -> bool:
        return self.closed

    def close(self) -> None:
        if not self.closed:
            self.closed = True
            assert self.connection is not None
            asyncio.get_running_loop().call_soon(self.connection.connection_lost, None)

    abort = close


class Client:
    """One connection; `send` raw bytes, `received` so far."""

    def __init__(self, server: HttpServer) -> None:
        self.connection = HttpConnection(server)
        self.transport = FakeTransport()
        self.transport.connection = self.connection
        self.connection.connection_made(self.transport)

    async def send(self, data: bytes) -> bytes:
        """What came back at once."""
        before = len(self.transport.written)
        self.connection.data_received(data)
        await asyncio.sleep(0.001)
        return bytes(self.transport.written[before:])

    async def get(self, path: str, *, method: str = "GET", headers: str = "") -> tuple[int, dict[str, str], bytes]:
        """Status, headers in lower case and body."""
        return parsed(await self.send(f"{method} {path} HTTP/1.1\r\nHost: any\r\n{headers}\r\n".encode()))

    @property
    def is_closed(self) -> bool:
        return self.transport.closed


def parsed(answer: bytes) -> tuple[int, dict[str, str], bytes]:
    head, _, body = answer.partition(b"\r\n\r\n")
    first, *lines = head.decode().split("\r\n")
    headers = {name.lower(): value for name, value in (line.split(": ", 1) for line in lines)}
    return int(first.split()[1]), headers, body
