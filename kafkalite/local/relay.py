"""TCP proxies that tests can disturb: silent when cut, as a cable that was pulled, or in one direction only, slow, or lossy.

While a direction is cut, its connections stay open and new ones are accepted, and no byte passes; bytes that arrive then are passed on
after the repair, as TCP would retransmit them.
"""

from __future__ import annotations

import asyncio
import threading
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final, Self, TypeVar

from kafkalite.local.ports import ReservedPort

HOST: Final = "127.0.0.1"
_CHUNK_BYTES: Final = 64 * 1024
_CALL_TIMEOUT_S: Final = 10
_TRICKLE_S: Final = 0.05

Result = TypeVar("Result")


class Lane:
    """The bytes of some connections in one direction. `cut` and `repair` run on the relay's loop."""

    def __init__(self) -> None:
        self._open = asyncio.Event()
        self._open.set()
        self.delay_s = 0.0
        """How much later each portion arrives; what is behind it on its connection waits too."""
        self.bytes_per_s: float | None = None
        """A trickle; None for as fast as it goes."""
        self.swallows = False
        """Are bytes lost for good? What follows makes no sense to their reader: it is for answers of connections that are given up."""

    def cut(self) -> None:
        self._open.clear()

    def repair(self) -> None:
        """Repair the direction: nothing is cut, slow or lost any more."""
        self._open.set()
        self.delay_s, self.bytes_per_s, self.swallows = 0.0, None, False

    async def passable(self) -> None:
        await self._open.wait()

    async def carry(self, chunk: bytes, writer: asyncio.StreamWriter) -> None:
        """Let a chunk arrive, or not. OSError when the other side is gone."""
        await self._open.wait()
        if self.delay_s:
            await asyncio.sleep(self.delay_s)
            await self._open.wait()
        if self.bytes_per_s is None:
            await self._write(chunk, writer)
            return
        for start in range(0, len(chunk), portion := max(1, int(self.bytes_per_s * _TRICKLE_S))):
            await self._write(chunk[start : start + portion], writer)
            if self.bytes_per_s is not None:
                await asyncio.sleep(_TRICKLE_S)

    async def _write(self, chunk: bytes, writer: asyncio.StreamWriter) -> None:
        if not self.swallows:
            writer.write(chunk)
            await writer.drain()


class Relay(ABC):
    """Proxies in a thread of their own. A subclass chooses the lanes of each connection."""

    def __init__(self) -> None:
        self._ports: list[ReservedPort] = []
        self._servers: list[asyncio.Server] = []
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="relay", daemon=True)
        self._thread.start()

    def listen(self, target: str) -> str:
        """Return the address, `host:port`, of a new proxy in front of the server at `target`."""
        port = ReservedPort()
        self._ports.append(port)
        host, _, number = target.rpartition(":")

        async def start() -> None:
            self._servers.append(
                await asyncio.start_server(self._serve_connections(target, (host, int(number))), HOST, port.number)
            )

        self._call(start())
        return f"{HOST}:{port.number}"

    def close(self) -> None:
        """Close all connections and the ports."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_CALL_TIMEOUT_S)
        for port in self._ports:
            port.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @abstractmethod
    def _lanes(self, target: str, client_port: int, proxy_port: int) -> tuple[Lane, Lane]:
        """Return the lanes to the target and back for a connection, when it is accepted. Raises OSError."""

    def _call(self, coroutine: Coroutine[Any, Any, Result]) -> Result:
        """Run it on the loop of the proxies, and wait for it."""
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(_CALL_TIMEOUT_S)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_forever()
        finally:
            for server in self._servers:
                server.close()
            tasks = asyncio.all_tasks(self._loop)
            for task in tasks:
                task.cancel()
            self._loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
            self._loop.close()

    def _serve_connections(
        self, target: str, address: tuple[str, int]
    ) -> Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            far_writer: asyncio.StreamWriter | None = None
            pumps: list[asyncio.Task[None]] = []
            try:
                towards, back = self._lanes(
                    target, writer.get_extra_info("peername")[1], writer.get_extra_info("sockname")[1]
                )
                await towards.passable()
                await back.passable()
                far_reader, far_writer = await asyncio.open_connection(*address)
                pumps = [
                    asyncio.create_task(_pump(reader, far_writer, towards)),
                    asyncio.create_task(_pump(far_reader, writer, back)),
                ]
                await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
            except OSError:
                pass  # the target is down: the near side sees a closed connection
            finally:
                for pump in pumps:
                    pump.cancel()
                for each in (writer, far_writer):
                    if each is not None:
                        each.close()

        return serve


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, lane: Lane) -> None:
    try:
        while chunk := await reader.read(_CHUNK_BYTES):
            await lane.carry(chunk, writer)
        await lane.passable()
    except OSError:
        pass  # one side is gone; the other is closed by the caller
