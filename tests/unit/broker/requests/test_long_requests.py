"""Requests that are decoded in portions: the loop turns, their connection keeps its order, and what is too dear closes it."""

from __future__ import annotations

import asyncio
import logging
import struct
from types import SimpleNamespace
from typing import Any

import pytest

from kafkalite.broker.connections.connection import ServerConnection
from kafkalite.broker.requests.dispatch import Dispatcher
from kafkalite.broker.requests.served_api import serve_api
from kafkalite.errors import ErrorCode, KafkaError
from kafkalite.net.frames import RECEIVE_BYTES, request_frame
from kafkalite.protocol import codec, messages
from kafkalite.protocol.apis import ApiKey
from kafkalite.testing.simulation import virtual_time
from tests.unit.broker.connections.test_connection import FakeServer, FakeTransport

m = messages.produce_request


def _refused_metadata(*_: Any) -> Any:
    return messages.metadata_response.MetadataResponse()


class Scene:
    """A connection with a real dispatcher, whose handlers note what they got."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, int]] = []
        self.refusal: KafkaError | None = None
        self.server, self.transport = FakeServer(), FakeTransport()
        apis = [
            serve_api(ApiKey.PRODUCE, 3, 9, self._produce),
            serve_api(ApiKey.METADATA, 1, 12, self._metadata, failure=_refused_metadata),
        ]
        self.dispatcher = Dispatcher(SimpleNamespace(), apis)
        self.connection = self.connect(self.transport)

    def connect(self, transport: FakeTransport) -> ServerConnection:
        made = ServerConnection(self.server, self.dispatcher, "PLAINTEXT", 1 << 27)  # type: ignore[arg-type]
        made.connection_made(transport)  # type: ignore[arg-type]
        return made

    def _produce(self, parts: Any, request: Any, context: Any) -> Any:
        self.seen.append(("produce", len(request.topic_data)))
        return messages.produce_response.ProduceResponse()

    def _metadata(self, parts: Any, request: Any, context: Any) -> Any:
        self.seen.append((request.topics[-1].name, len(request.topics)))
        if self.refusal is not None:
            raise self.refusal
        return messages.metadata_response.MetadataResponse()

    def receive(self, *requests: bytes, connection: ServerConnection | None = None) -> None:
        data, connection = b"".join(requests), connection or self.connection
        while data and not connection.closed:
            buffer = connection.get_buffer(-1)
            count = min(len(buffer), len(data))
            buffer[:count] = data[:count]
            data = data[count:]
            connection.buffer_updated(count)


def produce(topics: int) -> bytes:
    request = m.ProduceRequest(topic_data=[m.TopicProduceData(name="a" * 50) for _ in range(topics)])
    return b"".join(request_frame(request.API, 9, 1, "me", codec.encode_request(request, 9)))


def metadata(topics: int, name: str = "t") -> bytes:
    wanted = [messages.metadata_request.MetadataRequestTopic(name=f"{name * 60}") for _ in range(topics)]
    request = messages.metadata_request.MetadataRequest(topics=wanted)
    return b"".join(request_frame(request.API, 12, 1, "me", codec.encode_request(request, 12)))


def test_what_is_read_in_one_portion_is_served_at_once() -> None:
    async def scenario() -> None:
        scene = Scene()
        scene.receive(metadata(900))
        assert scene.seen == [("t" * 60, 900)]

    virtual_time.run(scenario())


@pytest.mark.parametrize("topics", [2500, 6000], ids=["in the shared buffer", "in memory of its own"])
def test_the_loop_turns_while_a_long_request_is_decoded(topics: int) -> None:
    async def scenario() -> None:
        scene = Scene()
        data = metadata(topics)
        assert (len(data) < RECEIVE_BYTES) == (topics == 2500)
        scene.receive(data)
        assert scene.seen == []
        other = scene.connect(FakeTransport())
        scene.receive(metadata(1, "x"), connection=other)
        assert scene.seen == [("x" * 60, 1)], "and it is not in the way of others"
        scene.receive(metadata(5, "y") * 30, connection=other)  # over what was in the shared buffer
        await virtual_time.settle()
        assert scene.seen[-1] == ("t" * 60, topics)
        assert len(scene.transport.written) > 20

    virtual_time.run(scenario())


def test_no_produce_overtakes_a_long_produce_before_it() -> None:
    async def scenario() -> None:
        scene = Scene()
        scene.receive(produce(3000), produce(2))
        assert scene.seen == []
        await virtual_time.settle()
        assert scene.seen == [("produce", 3000), ("produce", 2)]

    virtual_time.run(scenario())


def test_a_request_of_somebody_who_left_is_decoded_no_further() -> None:
    async def scenario() -> None:
        scene = Scene()
        scene.receive(metadata(6000))
        scene.connection.connection_lost(None)
        await virtual_time.settle()
        assert scene.seen == []

    virtual_time.run(scenario())


@pytest.mark.parametrize("is_refused", [False, True])
def test_a_long_request_was_missing_from_the_latencies(is_refused: bool) -> None:
    async def scenario() -> None:
        scene = Scene()
        if is_refused:
            scene.refusal = KafkaError(ErrorCode.INVALID_REQUEST)
        scene.receive(metadata(6000))
        await virtual_time.settle()
        assert scene.seen and len(scene.transport.written) > 20
        assert scene.dispatcher.latencies[ApiKey.METADATA].count == 1

    virtual_time.run(scenario())


@pytest.mark.parametrize("is_at_once", [True, False])
def test_one_line_tells_who_broke_which_bound(is_at_once: bool, caplog: pytest.LogCaptureFixture) -> None:
    head = struct.pack(">hhih", 3, 1, 7, -1)
    if is_at_once:
        body = struct.pack(">i", 2_000_000) + bytes(4_000_000)
    else:  # names that take four bytes for each character, which nobody knows before they are read
        name = ("a" * 32_700 + "🙂").encode()
        long, short = struct.pack(">h", len(name)) + name, struct.pack(">h", 1) + b"a"
        body = struct.pack(">i", 2000) + short * 1100 + long * 900

    async def scenario() -> None:
        scene = Scene()
        with caplog.at_level(logging.WARNING):
            scene.receive(struct.pack(">i", len(head + body)) + head + body)
            await virtual_time.settle()
            await asyncio.sleep(1)
        assert scene.transport.aborted and scene.seen == []
        assert scene.server.bounds == ["memory"]
        (line,) = caplog.messages
        assert line.startswith(
            "closing the connection from 10.0.0.7 on PLAINTEXT: metadata version 1: its parts would take"
        )

    virtual_time.run(scenario())
