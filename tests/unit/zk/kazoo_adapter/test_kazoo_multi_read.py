"""multiRead's bytes, and how a store does without it at servers that do not serve it, played by a socket of this machine."""

from __future__ import annotations

import asyncio
import struct
from collections import Counter
from collections.abc import Awaitable, Callable

import kazoo.exceptions
import pytest
from kazoo.protocol.serialization import GetData, MultiHeader

from zk.kazoo_adapter.kazoo_multi_read import MultiRead
from zk.kazoo_adapter.kazoo_store import KazooStore
from zk.store import NoAuthError, Stat, StoreError
from zk.znode_sizes import ZnodeSizes

CREATE, PING, GET_DATA, CLOSE = 1, 11, 4, -11
NO_NODE, NO_AUTH, UNIMPLEMENTED, MARSHALLING = -101, -102, -6, -5
STAT = (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11)
SHOWN_STAT = Stat(1, 2, 3, 4, 5, 6, 8, 9, 10)
PATHS = [f"/{n}" for n in range(600)]
FOUND = [(path.encode(), SHOWN_STAT) for path in PATHS]


def encode_read(data: bytes | None) -> bytes:
    length = struct.pack(">i", -1 if data is None else len(data))
    return length + (data or b"") + struct.pack(">qqqqiiiqiiq", *STAT)


def result(data: bytes | None) -> bytes:
    return bytes(MultiHeader(GET_DATA, False, 0).serialize()) + encode_read(data)


def error_result(code: int) -> bytes:
    return bytes(MultiHeader(-1, False, code).serialize()) + struct.pack(">i", code)


END = bytes(MultiHeader(-1, True, -1).serialize())


def paths_of(request: bytes) -> list[str]:
    """The paths in a multiRead's bytes."""
    paths, offset = [], 0
    while True:
        header, offset = MultiHeader.deserialize(request, offset)
        if header.done:
            assert offset == len(request)
            return paths
        assert (header.type, header.err) == (GET_DATA, -1)
        length = struct.unpack_from(">i", request, offset)[0]
        read = GetData(request[offset + 4 : offset + 4 + length].decode(), None)
        assert request[offset : offset + 5 + length] == read.serialize()
        paths.append(read.path)
        offset += 5 + length


def test_a_request_is_reads_without_watches_with_an_end():
    assert paths_of(MultiRead(["/a", "/sn\N{SNOWMAN}w"]).serialize()) == ["/a", "/sn\N{SNOWMAN}w"]


def test_an_answer_has_a_result_or_an_error_for_each_path():
    answer = b"head" + result(b"one") + error_result(NO_NODE) + result(None) + error_result(NO_AUTH) + result(b"") + END
    one, absent, none, refused, empty = MultiRead.deserialize(answer, 4)
    assert one == (b"one", SHOWN_STAT)
    assert none == empty == (b"", SHOWN_STAT)
    assert isinstance(absent, kazoo.exceptions.NoNodeError)
    assert isinstance(refused, kazoo.exceptions.NoAuthError)


def test_requests_are_bounded_by_paths_and_by_bytes():
    split_paths = ZnodeSizes(4_194_304).split_paths
    assert [len(some) for some in split_paths(PATHS)] == [250, 250, 100]
    long = ["/" + str(n) * 100_000 for n in range(5)] + ["/a"]
    assert list(split_paths(long)) == [long[:2], long[2:4], long[4:]]
    assert list(split_paths(["/" + "x" * 300_000])) == [["/" + "x" * 300_000]]
    assert list(split_paths([])) == []


def test_requests_are_bounded_by_the_large_znodes_that_were_read():
    sizes = ZnodeSizes(4_194_304)
    for path in PATHS[:10]:
        sizes.note(path, 300_000)
    assert [len(some) for some in sizes.split_paths(PATHS)] == [2, 2, 2, 2, 170, 250, 172]
    for path in PATHS[:10]:
        sizes.note(path, 10)
    assert [len(some) for some in sizes.split_paths(PATHS)] == [250, 250, 100]
    assert [len(some) for some in ZnodeSizes(20_000).split_paths(PATHS[:40])] == [18, 18, 4]


class Server:
    """A ZooKeeper whose znodes have their path as data; `answer_multi_read` gives a result, an error, or None to break the connection."""

    def __init__(self, answer_multi_read: Callable[[list[str]], int | bytes | None]) -> None:
        self.answer_multi_read = answer_multi_read
        self.requests: Counter[int] = Counter()
        self.connections = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            await self._frame(reader)
            self._send(writer, struct.pack(">iiq", 0, 20_000, 7) + struct.pack(">i", 16) + b"p" * 16 + b"\0")
            while await self._answer(await self._frame(reader), writer):
                pass
        except asyncio.IncompleteReadError:
            pass
        finally:
            writer.close()

    async def _answer(self, request: bytes, writer: asyncio.StreamWriter) -> bool:
        """Answer a request; False where the connection is closed then."""
        xid, kind = struct.unpack_from(">ii", request)
        self.requests[kind] += 1
        reply: int | bytes | None = b""
        if kind == MultiRead.type:
            reply = self.answer_multi_read(paths_of(request[8:]))
        elif kind == GET_DATA:
            length = struct.unpack_from(">i", request, 8)[0]
            path = request[12 : 12 + length]
            reply = NO_NODE if path == b"/absent" else encode_read(path)
        if reply is None:
            return False
        code, body = (reply, b"") if isinstance(reply, int) else (0, reply)
        self._send(writer, struct.pack(">iqi", xid, 5, code) + body)
        return kind != CLOSE and code not in (UNIMPLEMENTED, MARSHALLING)

    def _send(self, writer: asyncio.StreamWriter, message: bytes) -> None:
        writer.write(struct.pack(">i", len(message)) + message)

    async def _frame(self, reader: asyncio.StreamReader) -> bytes:
        return await reader.readexactly(struct.unpack(">i", await reader.readexactly(4))[0])


def with_store(server: Server, work: Callable[[KazooStore], Awaitable[None]]) -> None:
    async def run() -> None:
        async with await asyncio.start_server(server.serve, "127.0.0.1", 0) as listening:
            host, port = listening.sockets[0].getsockname()
            store = KazooStore(f"{host}:{port}", 20.0)
            await store.start(20)
            try:
                async with asyncio.timeout(30):
                    await work(store)
            finally:
                await store.close()

    asyncio.run(run())


def serve_results(paths: list[str]) -> bytes:
    return b"".join(result(path.encode()) for path in paths) + END


def test_many_znodes_take_few_requests():
    async def work(store: KazooStore) -> None:
        assert await store.read_many(PATHS) == FOUND
        assert await store.read_many(PATHS) == FOUND
        assert server.requests[MultiRead.type] == 6
        assert await store.read_many(PATHS[:1]) == FOUND[:1]
        assert server.requests[GET_DATA] == 1
        assert server.connections == 1

    server = Server(serve_results)
    with_store(server, work)


def test_large_znodes_are_read_by_more_requests_once_they_are_known():
    asked: list[int] = []

    def answer(paths: list[str]) -> bytes:
        asked.append(len(paths))
        return b"".join(result(b"x" * 100_000) for _ in paths) + END

    async def work(store: KazooStore) -> None:
        await store.read_many(PATHS[:20])
        await store.read_many(PATHS[:20])
        assert asked == [20, 7, 7, 6]

    with_store(Server(answer), work)


@pytest.mark.parametrize("refusal", [UNIMPLEMENTED, MARSHALLING])
def test_a_server_before_3_6_is_asked_once(refusal: int):
    async def work(store: KazooStore) -> None:
        wanted = [*PATHS, "/absent"]
        for _ in range(3):
            assert await store.read_many(wanted) == [*FOUND, None]
        assert server.requests[MultiRead.type] == 1
        assert server.connections == 2

    server = Server(lambda paths: refusal)
    with_store(server, work)


def test_a_server_that_breaks_the_connection_at_it_is_asked_twice():
    """The refusal of a server before 3.6 may be lost with the connection, which it closes then."""

    async def work(store: KazooStore) -> None:
        for _ in range(3):
            assert await store.read_many(PATHS) == FOUND
        assert server.requests[MultiRead.type] == 2
        assert server.connections == 3

    server = Server(lambda paths: None)
    with_store(server, work)


def test_in_a_mixed_ensemble_an_older_server_comes_after_a_newer_one():
    async def work(store: KazooStore) -> None:
        assert await store.read_many(PATHS) == FOUND
        server.answer_multi_read = lambda paths: UNIMPLEMENTED
        assert await store.read_many(PATHS) == FOUND
        asked = server.requests[MultiRead.type]
        server.answer_multi_read = serve_results
        assert await store.read_many(PATHS) == FOUND
        assert server.requests[MultiRead.type] == asked

    server = Server(serve_results)
    with_store(server, work)


def test_znodes_at_which_the_connection_breaks_are_read_one_by_one():
    """As of other requests, what is in flight behind the one at fault is lost with it; here nothing is."""

    def answer(paths: list[str]) -> bytes | None:
        return None if "/550" in paths else serve_results(paths)

    async def work(store: KazooStore) -> None:
        for _ in range(2):
            server.requests.clear()
            assert await store.read_many(PATHS) == FOUND
            assert server.requests[GET_DATA] == 100

    server = Server(answer)
    with_store(server, work)


@pytest.mark.parametrize(("code", "error"), [(NO_AUTH, NoAuthError), (-111, StoreError)])
def test_an_error_of_one_path_is_that_of_a_single_read(code: int, error: type[StoreError]):
    async def work(store: KazooStore) -> None:
        with pytest.raises(error) as caught:
            await store.read_many(["/a", "/b", "/c"])
        assert caught.value.path == "/b"

    with_store(Server(lambda paths: result(b"") + error_result(code) + result(b"") + END), work)
