"""A TCP link that a test can cut: a proxy in front of some servers, silent when cut, as a cable that was pulled.

While the link is cut, connections stay open and new ones are accepted, and no byte passes in either direction; what
arrives then is passed on after `mend`, as TCP would retransmit it.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Sequence
from types import TracebackType
from typing import Final

from kafkalite.testing.ports import ReservedPort

_HOST: Final = "127.0.0.1"
_CHUNK_BYTES: Final = 64 * 1024


class Link:
    """One listening port per target `host:port`; `connect` lists them in the order of the targets."""

    def __init__(self, targets: Sequence[str]) -> None:
        self._targets = [(host, int(port)) for host, _, port in (target.rpartition(":") for target in targets)]
        self._ports = [ReservedPort() for _ in targets]
        self._loop = asyncio.new_event_loop()
        self._open = asyncio.Event()
        self._open.set()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, name="link", daemon=True)
        self._thread.start()
        self._ready.wait(10)

    @property
    def connect(self) -> str:
        """The proxy's addresses, in the form of `zookeeper.connect`."""
        return ",".join(f"{_HOST}:{port.number}" for port in self._ports)

    def cut(self) -> None:
        """From the return of this call on nothing passes."""
        self._call(self._open.clear)

    def mend(self) -> None:
        self._call(self._open.set)

    def close(self) -> None:
        """Close all connections and the ports."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        for port in self._ports:
            port.release()

    def __enter__(self) -> Link:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _call(self, function: Callable[[], None]) -> None:
        done = threading.Event()

        def act() -> None:
            function()
            done.set()

        self._loop.call_soon_threadsafe(act)
        done.wait(10)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        servers = [
            self._loop.run_until_complete(asyncio.start_server(self._connected(target), _HOST, port.number))
            for target, port in zip(self._targets, self._ports, strict=True)
        ]
        self._ready.set()
        try:
            self._loop.run_forever()
        finally:
            for server in servers:
                server.close()
            tasks = asyncio.all_tasks(self._loop)
            for task in tasks:
                task.cancel()
            self._loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
            self._loop.close()

    def _connected(
        self, target: tuple[str, int]
    ) -> Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            far_writer: asyncio.StreamWriter | None = None
            try:
                await self._open.wait()
                far_reader, far_writer = await asyncio.open_connection(*target)
                pumps = [
                    asyncio.create_task(self._pump(reader, far_writer)),
                    asyncio.create_task(self._pump(far_reader, writer)),
                ]
                await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
            except OSError:
                pass  # the target is down: the near side sees a closed connection
            finally:
                for each in (writer, far_writer):
                    if each is not None:
                        each.close()

        return serve

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while chunk := await reader.read(_CHUNK_BYTES):
                await self._open.wait()
                writer.write(chunk)
                await writer.drain()
            await self._open.wait()
        except OSError:
            pass  # one side is gone; the other is closed by the caller
