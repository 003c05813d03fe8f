"""A mirror that listens, with clients of it and a broker of the target behind it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from kafkalite.cli.mirror.listener import Listener
from kafkalite.cli.mirror.listener_security import ListenerSecurity
from kafkalite.cli.mirror.passing import Passing
from kafkalite.cli.mirror.positions import Positions
from kafkalite.cli.mirror.relay import Relay
from kafkalite.client.cluster.view import ClusterView
from kafkalite.errors import ErrorCode
from kafkalite.net.frames import LENGTH, request_frame, response_frame
from kafkalite.protocol import codec, messages
from kafkalite.protocol.apis import APIS, ApiKey

TIMEOUT_S = 20
PLAIN = ListenerSecurity()
ANSWER = b"answered by a broker " * 10_000


class Broker:
    """A broker of the target that notes what it is asked, and answers everything but Produce with the same bytes."""

    def __init__(self) -> None:
        self.asked: list[tuple[int, bytes]] = []
        self.connections = 0
        self.closed = asyncio.Event()
        self.is_silent = False
        self.verdict = ErrorCode.UNKNOWN_TOPIC_ID
        self.requests = 0
        self.is_forgetful = False

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while True:
                (size,) = LENGTH.unpack(await reader.readexactly(4))
                frame = await reader.readexactly(size)
                self.requests += 1
                self.asked.append((self.connections, b"" if self.is_forgetful else frame))
                key = int.from_bytes(frame[:2], "big")
                if key == ApiKey.API_VERSIONS:
                    writer.writelines(tell_versions(frame))
                elif key == ApiKey.FETCH:
                    writer.writelines(answer_question(frame, self.verdict))
                elif key != ApiKey.PRODUCE and not self.is_silent:
                    body = frame[4:8] + ANSWER
                    writer.write(LENGTH.pack(len(body)) + body)
                del frame
        except asyncio.IncompleteReadError:
            self.closed.set()
            writer.close()


def tell_versions(frame: bytes) -> list[Any]:
    entry = messages.api_versions_response.ApiVersion
    keys = [entry(api_key=each, min_version=0, max_version=30) for each in (0, 1, 3, 16, 34, 62, 78)]
    response = messages.ApiVersionsResponse(api_keys=keys, finalized_features_epoch=7)
    return response_frame(
        APIS[ApiKey.API_VERSIONS], 3, int.from_bytes(frame[4:8], "big"), codec.encode_response(response, 3)
    )


def answer_question(frame: bytes, code: int) -> list[Any]:
    m = messages.fetch_response
    topic = m.FetchableTopicResponse(topic_id=b"u" * 16, partitions=[m.PartitionData(error_code=code, records=b"")])
    body = codec.encode_response(messages.FetchResponse(responses=[topic]), 17)
    return response_frame(APIS[ApiKey.FETCH], 17, int.from_bytes(frame[4:8], "big"), body)


class Source:
    view = ClusterView()

    def request_refresh(self) -> None:
        pass


class Client:
    """A connection to the mirror."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    async def send(self, request: Any, version: int, correlation: int = 5) -> bytes:
        """Send a request and return the bytes of it."""
        body = codec.encode_request(request, version)
        frame = b"".join(bytes(each) for each in request_frame(request.API, version, correlation, "me", body))
        self.writer.write(frame)
        return frame[4:]

    async def receive(self) -> bytes:
        (size,) = LENGTH.unpack(await self.reader.readexactly(4))
        return await self.reader.readexactly(size)

    async def is_closed(self) -> bool:
        return not await self.reader.read(1)


def run(
    test: Callable[[Broker, Callable[[], Awaitable[Client]]], Awaitable[None]], security: ListenerSecurity = PLAIN
) -> None:
    """Run a test with a broker of the target and a mirror that clients connect to."""

    async def attempt() -> None:
        broker = Broker()
        server = await asyncio.start_server(broker.serve, "127.0.0.1", 0, ssl=security.server)
        address = server.sockets[0].getsockname()[:2]
        source: Any = Source()
        relay = Relay(source, Positions(), lambda _: True)
        relay.strays = {b"s" * 16: "stray"}
        listener = Listener(relay, source, Passing(lambda: [("127.0.0.1", 1), address], security), security)
        await listener.listen("127.0.0.1", 0)
        assert listener._server is not None
        port = listener._server.sockets[0].getsockname()[1]
        opened: list[Client] = []

        async def connect() -> Client:
            opened.append(Client(*await asyncio.open_connection("127.0.0.1", port, ssl=security.client)))
            return opened[-1]

        try:
            async with asyncio.timeout(TIMEOUT_S):
                await test(broker, connect)
        finally:
            for each in opened:
                each.writer.close()
            await listener.close()
            server.close()

    asyncio.run(attempt())


def metadata() -> messages.MetadataRequest:
    return messages.MetadataRequest(topics=None)


def fetch(topic_id: bytes, replica: int) -> messages.FetchRequest:
    m = messages.fetch_request
    return m.FetchRequest(
        replica_state=m.ReplicaState(replica_id=replica, replica_epoch=77),
        max_wait_ms=1,
        topics=[m.FetchTopic(topic_id=topic_id, partitions=[m.FetchPartition(partition=0, fetch_offset=0)])],
    )


def handshake() -> messages.SaslHandshakeRequest:
    return messages.SaslHandshakeRequest(mechanism="PLAIN")


def produce(acks: int) -> messages.ProduceRequest:
    return messages.ProduceRequest(transactional_id="t" * 200, acks=acks, timeout_ms=1, topic_data=[])


async def ask_as_follower(client: Client) -> Any:
    await client.send(fetch(b"s" * 16, 1), 17)
    return codec.decode_response(ApiKey.FETCH, 17, await client.receive(), 5)


SASL = ListenerSecurity("SASL_PLAINTEXT")


async def ask_versions(client: Client) -> None:
    await client.send(messages.ApiVersionsRequest(client_software_name="x", client_software_version="y"), 3)
    await client.receive()


async def log_in(client: Client) -> None:
    """Authenticate, and ask what only those are answered who have."""
    await client.send(handshake(), 1)
    await client.receive()
    await client.send(metadata(), 12)
    await client.receive()
