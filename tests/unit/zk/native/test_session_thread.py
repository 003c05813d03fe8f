"""The thread of a ZooKeeper session: how the event loop wakes it, and what it does with what a server sends."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Awaitable, Callable
from contextlib import suppress

from zk.mailbox import Mailbox
from zk.native.native_store import NativeStore
from zk.native.session_thread import SessionThread
from zk.protocol import requests
from zk.security.store_security import PLAINTEXT
from zk.store import SessionState

CLOSE = -11


class Reader:
    """The reading end of the pair that wakes the thread; something happens right before it is read."""

    def __init__(self, real: socket.socket, before: Callable[[], object]) -> None:
        self._real, self._before = real, before

    def recv(self, size: int) -> bytes:
        self._before()
        return self._real.recv(size)


def test_a_request_that_comes_while_the_thread_wakes_up_silenced_all_later_ones() -> None:
    async def scenario() -> None:
        thread = SessionThread([("h", 1)], 18.0, PLAINTEXT, Mailbox(asyncio.get_running_loop()), NativeStore("h:1"))
        real = thread._wake_reader
        request = requests.sync("/")
        thread.submit(1, request)
        thread._wake_reader = Reader(real, lambda: thread.submit(1, request))  # type: ignore[assignment]
        thread._take_wakeup()
        assert len(thread._submitted) == 2, "both are seen now"
        thread.submit(1, request)
        assert real.recv(64) == b"\0", "the next one wakes the thread again"

    asyncio.run(scenario())


class Server:
    """A ZooKeeper that opens sessions, and then does with each request what `answer` returns bytes or None (to break off) for."""

    def __init__(self, answer: Callable[[int, int], bytes | None]) -> None:
        self._answer = answer
        self.openings: list[tuple[int, int]] = []
        """The session and the last zxid of each ConnectRequest; the first may be repeated where the loop is slow to answer it."""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            _, zxid, _, session_id = struct.unpack_from(">iqiq", await self._frame(reader))
            self.openings.append((session_id, zxid))
            self._send(writer, struct.pack(">iiqi", 0, 20_000, 7, 16) + b"p" * 16 + b"\0")
            while True:
                xid, code = struct.unpack_from(">ii", await self._frame(reader))
                body = b"" if code == CLOSE else self._answer(xid, code)
                if body is None:
                    break
                self._send(writer, struct.pack(">iqi", xid, 5, 0) + body)
        writer.close()

    def _send(self, writer: asyncio.StreamWriter, message: bytes) -> None:
        writer.write(struct.pack(">i", len(message)) + message)

    async def _frame(self, reader: asyncio.StreamReader) -> bytes:
        return await reader.readexactly(struct.unpack(">i", await reader.readexactly(4))[0])


def with_store(server: Server, work: Callable[[NativeStore], Awaitable[None]]) -> None:
    async def run() -> None:
        async with await asyncio.start_server(server.serve, "127.0.0.1", 0) as listening:
            host, port = listening.sockets[0].getsockname()
            store = NativeStore(f"{host}:{port}", 20.0)
            async with asyncio.timeout(30):
                await store.start(20)
                try:
                    await work(store)
                finally:
                    await store.close()

    asyncio.run(run())


def test_a_connection_that_breaks_is_made_again_to_the_same_session_with_what_was_seen() -> None:
    broken: list[int] = []

    def answer(xid: int, code: int) -> bytes | None:
        if xid == 2 and not broken:
            broken.append(xid)
            return None
        return b""

    async def work(store: NativeStore) -> None:
        states: list[SessionState] = []
        store.add_session_listener(states.append)
        await store.sync()
        await asyncio.gather(*(store.sync() for _ in range(30)))
        assert states == [SessionState.SUSPENDED, SessionState.CONNECTED]

    server = Server(answer)
    with_store(server, work)
    assert server.openings[-2:] == [(0, 0), (7, 5)]


def test_a_reply_that_cannot_be_read_breaks_the_connection_and_is_asked_for_again() -> None:
    damaged = [b"\x7f\xff\xff\xff", b"\0\0\0\1\xff"]

    def answer(xid: int, code: int) -> bytes | None:
        return damaged.pop() if damaged else struct.pack(">ii", 1, 1) + b"a"

    async def work(store: NativeStore) -> None:
        assert await store.children("/") == ["a"]

    server = Server(answer)
    with_store(server, work)
    assert [session_id for session_id, _ in server.openings[-3:]] == [0, 7, 7]
