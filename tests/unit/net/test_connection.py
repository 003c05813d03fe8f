"""A client's connection against a scripted broker on a free port of this machine."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from kafkalite.errors import ErrorCode
from kafkalite.net.connection import Connection
from kafkalite.net.frames import read_request_header, response_frame
from kafkalite.protocol import codec, messages
from kafkalite.protocol.apis import APIS, PEER_SOFTWARE_NAME, ApiKey

DEADLINE_S = 10.0


@dataclass
class Request:
    """What the scripted broker received."""

    api_key: int
    version: int
    correlation_id: int
    frame: bytes = b""


@dataclass
class Peer:
    """The broker's end of one connection."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    requests: list[Request] = field(default_factory=list)

    async def read(self) -> Request:
        (size,) = struct.unpack(">i", await self.reader.readexactly(4))
        frame = await self.reader.readexactly(size)
        request = Request(*struct.unpack_from(">hhi", frame), frame)
        self.requests.append(request)
        return request

    def answer(self, request: Request, controller_id: int = 0) -> None:
        made = messages.metadata_response.MetadataResponse(controller_id=controller_id)
        body = codec.encode_response(made, request.version)
        self.writer.writelines(response_frame(APIS[request.api_key], request.version, request.correlation_id, body))

    def raw(self, data: bytes) -> None:
        self.writer.write(struct.pack(">i", len(data)) + data)

    def long_answer(self, request: Request, topics: int) -> bytes:
        m = messages.metadata_response
        made = m.MetadataResponse(topics=[m.MetadataResponseTopic(name="t" * 40) for _ in range(topics)])
        body = codec.encode_response(made, request.version)
        return b"".join(response_frame(APIS[request.api_key], request.version, request.correlation_id, body))


def run(script: Callable[[Peer], Awaitable[None]], act: Callable[[Connection], Awaitable[None]]) -> list[Request]:
    """Let a client act against a scripted broker; the requests that it received."""
    received: list[Request] = []

    async def scenario() -> None:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            try:
                await script(Peer(reader, writer, received))
            except (asyncio.IncompleteReadError, ConnectionError):
                pass
            finally:
                writer.close()

        async with asyncio.timeout(DEADLINE_S):
            server = await asyncio.start_server(serve, "127.0.0.1", 0)
            host, port = server.sockets[0].getsockname()
            connection = await Connection.open(host, port, client_id="me", timeout_s=DEADLINE_S)
            try:
                await act(connection)
            finally:
                connection.close()
                server.close()
                await server.wait_closed()

    asyncio.run(scenario())
    return received


def metadata() -> Any:
    return messages.metadata_request.MetadataRequest()


async def never(peer: Peer) -> None:
    """Reads and says nothing."""
    while True:
        await peer.read()


def test_requests_are_pipelined_and_answered_in_order() -> None:
    async def script(peer: Peer) -> None:
        requests = [await peer.read() for _ in range(50)]
        for number, request in enumerate(requests):
            peer.answer(request, number)

    async def act(connection: Connection) -> None:
        replies = await asyncio.gather(*(connection.request(metadata(), 9 - number % 3) for number in range(50)))
        assert [reply.controller_id for reply in replies] == list(range(50))
        assert connection.in_flight == 0

    requests = run(script, act)
    assert [request.version for request in requests[:4]] == [9, 8, 7, 9]
    assert [request.correlation_id for request in requests] == list(range(1, 51))


def test_an_answer_larger_than_the_receive_buffer() -> None:
    async def script(peer: Peer) -> None:
        request = await peer.read()
        m = messages.metadata_response
        body = codec.encode_response(
            m.MetadataResponse(
                cluster_id="x" * 30_000, topics=[m.MetadataResponseTopic(name="t" * 30_000) for _ in range(30)]
            ),
            request.version,
        )
        peer.writer.writelines(response_frame(APIS[request.api_key], request.version, request.correlation_id, body))

    async def act(connection: Connection) -> None:
        reply = await connection.request(metadata(), 8)
        assert [len(topic.name) for topic in reply.topics] == [30_000] * 30

    run(script, act)


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (b"\x00\x00\x00\x07" + bytes(50), "correlation id 7 instead of 1"),
        (b"\x00\x00\x00\x01", "ends in its header"),
        (b"\x00\x00\x00\x01\x00", "MetadataResponse cannot be read"),
        (b"\x01", "no room for its header"),
    ],
    ids=["wrong correlation id", "cut header", "cut body", "one byte"],
)  # fmt: skip
def test_an_answer_that_is_none_ends_the_connection(answer: bytes, message: str) -> None:
    async def script(peer: Peer) -> None:
        await peer.read()
        peer.raw(answer)
        await peer.read()

    async def act(connection: Connection) -> None:
        first, second = connection.send(metadata(), 9), connection.send(metadata(), 9)
        results = await asyncio.gather(first, second, return_exceptions=True)
        assert [type(each) for each in results] == [ConnectionError] * 2
        assert message in " ".join(map(str, results))
        assert connection.closed

    run(script, act)


@pytest.mark.parametrize("length", [-1, 0, 0x7FFFFFFF])
def test_a_bad_length_ends_the_connection(length: int) -> None:
    async def script(peer: Peer) -> None:
        await peer.read()
        peer.writer.write(struct.pack(">i", length))
        await peer.read()

    async def act(connection: Connection) -> None:
        with pytest.raises(ConnectionError, match="does not speak Kafka's protocol"):
            await connection.request(metadata(), 9)

    run(script, act)


def test_an_answer_that_nobody_asked_for_ends_the_connection() -> None:
    async def script(peer: Peer) -> None:
        request = await peer.read()
        peer.answer(request)
        peer.answer(request)
        await peer.read()

    async def act(connection: Connection) -> None:
        await connection.request(metadata(), 9)
        while not connection.closed:
            await asyncio.sleep(0.001)
        with pytest.raises(ConnectionError, match="nobody asked for"):
            connection.send(metadata(), 9)

    run(script, act)


def test_a_broker_that_leaves_fails_what_is_in_flight() -> None:
    async def script(peer: Peer) -> None:
        request = await peer.read()
        await peer.read()
        peer.answer(request, 5)
        await peer.writer.drain()

    async def act(connection: Connection) -> None:
        first, second = connection.send(metadata(), 9), connection.send(metadata(), 9)
        assert (await first).controller_id == 5
        with pytest.raises(ConnectionError, match="closed the connection"):
            await second
        with pytest.raises(ConnectionError):
            await connection.request(metadata(), 9)
        with pytest.raises(ConnectionError):
            connection.send_without_answer(metadata(), 9)

    run(script, act)


def test_a_time_out_is_told_to_the_one_and_ends_the_connection_for_the_others() -> None:
    async def act(connection: Connection) -> None:
        other = connection.send(metadata(), 9)
        with pytest.raises(TimeoutError, match=r"did not answer MetadataRequest within 0\.05 s"):
            await connection.request(metadata(), 9, timeout_s=0.05)
        with pytest.raises(ConnectionError, match="did not answer"):
            await other
        assert connection.closed

    run(never, act)


def test_one_who_gives_up_does_not_confuse_the_others() -> None:
    async def script(peer: Peer) -> None:
        first, second = await peer.read(), await peer.read()
        peer.answer(first, 1)
        peer.answer(second, 2)

    async def act(connection: Connection) -> None:
        first, second = connection.send(metadata(), 9), connection.send(metadata(), 9)
        first.cancel()
        assert (await second).controller_id == 2

    run(script, act)


def test_closing_fails_what_is_in_flight() -> None:
    async def act(connection: Connection) -> None:
        pending = connection.send(metadata(), 9)
        connection.close()
        connection.close()
        with pytest.raises(ConnectionError, match="was closed"):
            await pending

    run(never, act)


def test_requests_without_answer_are_not_waited_for() -> None:
    async def script(peer: Peer) -> None:
        await peer.read()
        peer.answer(await peer.read(), 8)

    async def act(connection: Connection) -> None:
        produce = messages.produce_request.ProduceRequest(acks=0)
        connection.send_without_answer(produce, 9)
        assert (await connection.request(metadata(), 9)).controller_id == 8

    requests = run(script, act)
    assert [request.api_key for request in requests] == [ApiKey.PRODUCE, ApiKey.METADATA]


def test_nobody_listens() -> None:
    async def scenario() -> None:
        server = await asyncio.start_server(lambda reader, writer: None, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        server.close()
        await server.wait_closed()
        with pytest.raises(ConnectionError, match=f"127.0.0.1:{port}"):
            await Connection.open("127.0.0.1", port)
        with pytest.raises(ValueError, match="SASL_SSL needs a SASL mechanism and credentials"):
            await Connection.open("127.0.0.1", port, security_protocol="SASL_SSL")
        with pytest.raises(ValueError, match="HTTPS is not known"):
            await Connection.open("127.0.0.1", port, security_protocol="HTTPS")

    asyncio.run(scenario())


# ApiVersions


def versions_reply(request: Request, version: int, error_code: int = 0) -> list[Any]:
    m = messages.api_versions_response
    keys = [
        m.ApiVersion(api_key=3, min_version=0, max_version=7),
        m.ApiVersion(api_key=1, min_version=90, max_version=99),
    ]
    body = codec.encode_response(m.ApiVersionsResponse(error_code=error_code, api_keys=keys), version)
    return response_frame(APIS[18], version, request.correlation_id, body)


def test_versions_are_negotiated() -> None:
    async def script(peer: Peer) -> None:
        request = await peer.read()
        peer.writer.writelines(versions_reply(request, request.version))

    async def act(connection: Connection) -> None:
        with pytest.raises(ValueError, match="metadata"):
            connection.version_of(ApiKey.METADATA)
        await connection.negotiate()
        assert connection.version_of(ApiKey.METADATA) == 7
        with pytest.raises(ValueError, match="speaks fetch 90 to 99, this client 4 to 17"):
            connection.version_of(ApiKey.FETCH)
        with pytest.raises(ValueError, match="produce"):
            connection.version_of(ApiKey.PRODUCE)

    assert [request.version for request in run(script, act)] == [3]


def test_versions_are_asked_again_under_another_name_only() -> None:
    """A broker that is one of ours names private APIs to its peers."""

    async def script(peer: Peer) -> None:
        for _ in range(2):
            request = await peer.read()
            peer.writer.writelines(versions_reply(request, request.version))

    async def act(connection: Connection) -> None:
        for name in ("kafkalite", "kafkalite", PEER_SOFTWARE_NAME, PEER_SOFTWARE_NAME):
            await connection.negotiate(software_name=name)

    frames = [memoryview(request.frame) for request in run(script, act)]
    bodies = [(frame, read_request_header(frame, 2).body_position) for frame in frames]
    names = [codec.decode_request(ApiKey.API_VERSIONS, 3, *body).client_software_name for body in bodies]
    assert names == ["kafkalite", "kafkalite-broker"]


def test_an_old_broker_is_asked_again_in_version_0() -> None:
    async def script(peer: Peer) -> None:
        peer.writer.writelines(versions_reply(await peer.read(), 0, ErrorCode.UNSUPPORTED_VERSION))
        peer.writer.writelines(versions_reply(await peer.read(), 0))

    async def act(connection: Connection) -> None:
        await connection.negotiate()
        assert connection.version_of(ApiKey.METADATA) == 7

    assert [request.version for request in run(script, act)] == [3, 0]


def test_a_broker_that_refuses_to_tell() -> None:
    async def script(peer: Peer) -> None:
        peer.writer.writelines(versions_reply(await peer.read(), 3, ErrorCode.CLUSTER_AUTHORIZATION_FAILED))

    async def act(connection: Connection) -> None:
        with pytest.raises(ConnectionError, match="CLUSTER_AUTHORIZATION_FAILED"):
            await connection.negotiate()

    run(script, act)


def test_requests_that_are_not_taken_pause_writing_until_they_are() -> None:
    async def scenario() -> None:
        go_on = asyncio.Event()

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await go_on.wait()
            while await reader.read(1 << 20):
                pass
            writer.close()

        async with asyncio.timeout(DEADLINE_S):
            server = await asyncio.start_server(serve, "127.0.0.1", 0)
            connection = await Connection.open("127.0.0.1", server.sockets[0].getsockname()[1])
            await connection.wait_drained()
            large = messages.metadata_request.MetadataRequestTopic(name="t" * 30_000)
            message = messages.metadata_request.MetadataRequest(topics=[large] * 30)
            while not connection.writing_paused:
                connection.send_without_answer(message, 5)
            assert connection.writing_paused
            go_on.set()
            await connection.wait_drained()
            assert not connection.writing_paused
            connection.close()
            await connection.wait_drained()
            server.close()

    asyncio.run(scenario())


def test_a_response_that_announces_too_much_is_not_read() -> None:
    async def scenario() -> None:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readexactly(4)
            writer.write(struct.pack(">i", 5_000_001) + bytes(1000))
            await reader.read()
            writer.close()

        async with asyncio.timeout(DEADLINE_S):
            server = await asyncio.start_server(serve, "127.0.0.1", 0)
            host, port = server.sockets[0].getsockname()
            for largest, negotiates in ((5_000_000, False), (1 << 30, True)):
                connection = await Connection.open(host, port, max_response_bytes=largest)
                with pytest.raises(ConnectionError, match="a frame of 5000001 bytes"):
                    if negotiates:
                        await connection.negotiate()
                    else:
                        await connection.request(messages.metadata_request.MetadataRequest(topics=[]), 9)
                assert connection.closed
            server.close()
            await server.wait_closed()

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("host", "port"), [("127.0.0.1", 70_000), ("127.0.0.1", -1), ("a\0b", 9092), ("x" * 300, 9092), ("", 0), ("..", 1)]
)
def test_addresses_that_are_none_are_connections_that_fail(host: str, port: int) -> None:
    """Metadata may name anything; an error of another kind would end the task that keeps it fresh."""
    with pytest.raises((ConnectionError, TimeoutError)):
        asyncio.run(Connection.open(host, port, timeout_s=5))


def test_a_long_answer_is_decoded_in_portions_and_those_behind_it_wait() -> None:
    """Of 5000 topics, and with it in one write, two more."""
    order: list[int] = []

    async def script(peer: Peer) -> None:
        requests = [await peer.read() for _ in range(3)]
        peer.writer.write(
            b"".join(peer.long_answer(request, n) for request, n in zip(requests, (5000, 3, 1500), strict=True))
        )
        await peer.writer.drain()

    async def act(connection: Connection) -> None:
        futures = [connection.send(messages.metadata_request.MetadataRequest(), 12) for _ in range(3)]
        for future in futures:
            future.add_done_callback(lambda done: order.append(len(done.result().topics)))
        async with asyncio.timeout(DEADLINE_S):
            await asyncio.gather(*futures)
        assert order == [5000, 3, 1500]
        assert connection.in_flight == 0 and not connection.closed

    run(script, act)


@pytest.mark.parametrize("count", [30_000_000, 2])
def test_a_broker_cannot_make_a_client_take_memory_without_bound(count: int) -> None:
    async def script(peer: Peer) -> None:
        request = await peer.read()
        brokers, cluster, controller = b"\x00" * 4, b"\xff\xff", b"\x00" * 4
        assert request.version == 4
        topics = struct.pack(">i", count) + bytes(9) * min(count, 100_000)
        peer.raw(
            struct.pack(">i", request.correlation_id) + bytes(4) + brokers + cluster + controller + topics[:500_000]
        )
        await peer.writer.drain()

    async def act(connection: Connection) -> None:
        future = connection.send(messages.metadata_request.MetadataRequest(), 4)
        async with asyncio.timeout(DEADLINE_S):
            if count == 2:
                assert len((await future).topics) == 2
            else:
                with pytest.raises(ConnectionError, match="array topics of 30000000 items"):
                    await future
                assert connection.closed

    run(script, act)
