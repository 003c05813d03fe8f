"""Passes requests of the target's clients on to a broker of the target, and its responses back as they are.

Each connection of a client has a connection to a broker of its own. So the broker sees the order, the fetch sessions and the authentication
of that client, and nobody gets the rights of the mirror. Responses go through in pieces; nothing of them is kept.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Sequence
from typing import Final

from kafkalite.cli.mirror.listener_security import ListenerSecurity
from kafkalite.errors import ProtocolViolation
from kafkalite.net.frames import LENGTH

_MAX_CLIENTS: Final = 500
_CONNECT_S: Final = 5.0
_ANSWER_S: Final = 600.0
"""Longer than a member waits for others of its group (max.poll.interval.ms, 300 s)."""
_WRITE_S: Final = 30.0
_POLL_S: Final = 1.0
SHOWN_S: Final = 60.0
"""How long a failure is shown by `kafkalite mirror status`."""
_MAX_RESPONSE_BYTES: Final = 100 * 1024 * 1024
_PIECE_BYTES: Final = 64 * 1024
CORRELATION: Final = slice(4, 8)
"""Of a request, where a response has it first."""

FindBrokers = Callable[[], Sequence[tuple[str, int]]]


class PassingRefused(ProtocolViolation):
    """Raised where nothing is passed on, for a reason that the operator was told."""


class Passing:
    """Connects clients and followers to brokers of the target; clients have a bound."""

    def __init__(self, find_brokers: FindBrokers, security: ListenerSecurity) -> None:
        self._find_brokers, self._security = find_brokers, security
        self._clients: set[Upstream] = set()
        self._failures: dict[tuple[str, int], tuple[float, str]] = {}

    async def connect(self) -> Upstream:
        """Return a connection to some broker, which is not counted as a client's: followers ask for versions and authenticate by it, too.

        Raises PassingRefused where nothing is passed on, ConnectionError when no broker is reached.
        """
        if self._security.refusal:
            raise PassingRefused(self._security.refusal)
        reader, writer = await self._open()
        return Upstream(reader, writer, self._clients.discard)

    def add_client(self, upstream: Upstream) -> None:
        """Count a connection as a client's until it is closed. Raises ProtocolViolation if there are as many as may be."""
        if upstream not in self._clients and len(self._clients) >= _MAX_CLIENTS:
            raise ProtocolViolation(f"more than {_MAX_CLIENTS} clients of the target are connected to the mirror")
        self._clients.add(upstream)

    async def _open(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        brokers = list(self._find_brokers())
        random.shuffle(brokers)
        for host, port in brokers:
            try:
                async with asyncio.timeout(_CONNECT_S):
                    opened = await asyncio.open_connection(host, port, ssl=self._security.client)
            except (OSError, TimeoutError) as problem:
                self._failures[host, port] = time.monotonic(), str(problem) or f"no connection in {_CONNECT_S:g} s"
                continue
            self._failures.pop((host, port), None)
            return opened
        raise ConnectionError("no broker of the target is reached")

    def describe_failures(self) -> list[str]:
        """Return which brokers of the target were not reached at the last attempt, and why, if that was not long ago."""
        since_s = time.monotonic() - SHOWN_S
        self._failures = {where: each for where, each in self._failures.items() if each[0] > since_s}
        return [
            f"nothing is passed on to {host}:{port} of the target: {why}"
            for (host, port), (_, why) in sorted(self._failures.items())
        ]


class Upstream:
    """A connection to a broker that takes one request after the other."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, release: Callable[[Upstream], None]
    ) -> None:
        self._reader, self._writer, self._release = reader, writer, release

    def close(self) -> None:
        """Close the connection."""
        self._writer.close()
        self._release(self)

    async def send(self, frame: bytes) -> None:
        """Send a request. Raises ConnectionError, TimeoutError."""
        self._writer.writelines([LENGTH.pack(len(frame)), frame])
        async with asyncio.timeout(_WRITE_S):
            await self._writer.drain()

    async def read_response(self, correlation: bytes, client: asyncio.StreamReader, max_bytes: int) -> bytes:
        """Return the whole response to a request, without its length. Raises as `pass_response`."""
        size = await self._read_size(client, max_bytes)
        async with asyncio.timeout(_WRITE_S):
            response = await self._reader.readexactly(size)
        _check_correlation(correlation, response[:4])
        return response

    async def pass_response(
        self, correlation: bytes, client: asyncio.StreamReader, output: asyncio.StreamWriter
    ) -> None:
        """Give the response to a request to the client. Raises ConnectionError, IncompleteReadError, TimeoutError, ProtocolViolation."""
        left = await self._read_size(client, _MAX_RESPONSE_BYTES)
        async with asyncio.timeout(_WRITE_S):
            head = await self._reader.readexactly(4)
        _check_correlation(correlation, head)
        output.writelines([LENGTH.pack(left), head])
        left -= 4
        while left:
            async with asyncio.timeout(_WRITE_S):
                piece = await self._reader.read(min(left, _PIECE_BYTES))
                if not piece:
                    raise ConnectionResetError("a broker of the target closed the connection within a response")
                output.write(piece)
                await output.drain()
            left -= len(piece)
        async with asyncio.timeout(_WRITE_S):
            await output.drain()

    async def _read_size(self, client: asyncio.StreamReader, max_bytes: int) -> int:
        """Return the size of the next response. Raises ConnectionResetError when the client goes away before it comes."""
        waiting = asyncio.ensure_future(self._reader.readexactly(4))
        try:
            async with asyncio.timeout(_ANSWER_S):
                while not waiting.done():
                    await asyncio.wait({waiting}, timeout=_POLL_S)
                    if client.at_eof() and not waiting.done():
                        raise ConnectionResetError("the client went away")
            (size,) = LENGTH.unpack(waiting.result())
        finally:
            waiting.cancel()
        if not 4 <= size <= max_bytes:
            raise ProtocolViolation(f"a response of {size} bytes of a broker of the target")
        return int(size)


def _check_correlation(correlation: bytes, head: bytes) -> None:
    if head != correlation:
        raise ProtocolViolation("a broker of the target answered another request")
