"""Brokers with two led partitions, and clients that repeat their Produce requests, for tests of the fast path."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kafkalite.broker.connections.connection import ServerConnection
from kafkalite.broker.connections.request_order import Slot
from kafkalite.broker.handlers import SERVED
from kafkalite.broker.identity.authorizer import ALLOW_ALL, Authorizer
from kafkalite.broker.produce.request_template import RequestTemplate, make_template
from kafkalite.broker.replication.partition import Partition
from kafkalite.broker.requests.dispatch import Dispatcher
from kafkalite.config.topic import TopicConfig
from kafkalite.errors import ErrorCode
from kafkalite.net.frames import read_request_header, request_frame, response_body_position
from kafkalite.protocol import codec, messages
from kafkalite.protocol.apis import APIS, ApiKey, request_header_version
from kafkalite.protocol.record_batches.records import NewRecord, build_batch
from kafkalite.security.principal import ANONYMOUS
from kafkalite.storage.log.partition_log import PartitionLog
from kafkalite.testing.simulation import virtual_time
from kafkalite.types import TopicPartition
from tests.unit.broker.connections.test_connection import FakeServer, FakeTransport
from tests.unit.broker.fake_log import assignment, make_partition
from tests.unit.broker.memory_parts import MemoryParts
from tests.unit.storage.logs import NOW_MS, FailingDisk, new_log

API = APIS[ApiKey.PRODUCE]


class CountingDisk(FailingDisk):
    """Notes what is written."""

    def __init__(self) -> None:
        super().__init__()
        self.sizes: list[int] = []

    def check(self, path: str, size: int) -> None:
        if path.endswith(".log") and size:
            self.sizes.append(size)
        super().check(path, size)


class Clock:
    def monotonic_ms(self) -> float:
        return asyncio.get_running_loop().time() * 1000

    def now_ms(self) -> int:
        return NOW_MS


def produce(
    value: bytes = b"v",
    *,
    version: int = 7,
    acks: int = 1,
    index: int = 0,
    correlation_id: int = 5,
    topic: str = "t",
    client_id: str | None = "me",
    batch: bytes | None = None,
    count: int = 1,
    **fields: int,
) -> bytes:
    """A framed request of one batch, of one record unless `count` says more."""
    m = messages.produce_request
    records = batch or bytes(build_batch([NewRecord(b"k", value, NOW_MS)] * count, **fields))
    partition = m.PartitionProduceData(index=index, records=records)
    request = m.ProduceRequest(
        acks=acks, timeout_ms=1500, topic_data=[m.TopicProduceData(name=topic, partition_data=[partition])]
    )
    body = codec.encode_request(request, version)
    return b"".join(request_frame(API, version, correlation_id, client_id, body))


METADATA = b"".join(request_frame(APIS[ApiKey.API_VERSIONS], 0, 9, "me", []))


class ReplaceableConnection(ServerConnection):
    """Without slots, so that methods of one can be replaced."""


class Peer:
    """A connection, and what it is answered."""

    def __init__(self, broker: Broker) -> None:
        self.transport = FakeTransport()
        self.connection = ReplaceableConnection(FakeServer(), broker.dispatcher, "PLAINTEXT", 1 << 20)  # type: ignore[arg-type]
        self.connection.connection_made(self.transport)  # type: ignore[arg-type]

    def serve_alone(self) -> None:
        """No request is recognised from now on."""
        self.connection.add_template = lambda template, fast_path: None  # type: ignore[method-assign]
        self.connection._sender = None

    def send(self, *frames: bytes) -> None:
        data = b"".join(frames)
        buffer = self.connection.get_buffer(-1)
        buffer[: len(data)] = data
        self.connection.buffer_updated(len(data))

    def answers(self) -> list[bytes]:
        """The frames since the last call."""
        data, self.transport.written = self.transport.written, b""
        found = []
        while data:
            size = 4 + int.from_bytes(data[:4], "big")
            found.append(data[:size])
            data = data[size:]
        return found

    def list_outcomes(self, version: int = 7) -> list[tuple[int, ErrorCode, int]]:
        """(correlation id, error, offset) of each answer since the last call."""
        found = []
        for frame in self.answers():
            body = frame[4:]
            reply = codec.decode_response(ApiKey.PRODUCE, version, body, response_body_position(API, version, body))
            partition = reply.responses[0].partition_responses[0]
            found.append((int.from_bytes(body[:4], "big"), ErrorCode(partition.error_code), partition.base_offset))
        return found


class Broker:
    """Two partitions with real logs, of which broker 1 is the only replica."""

    def __init__(self, path: Path, config: TopicConfig | None = None, authorizer: Authorizer = ALLOW_ALL) -> None:
        self.disk = CountingDisk()
        self.logs: list[PartitionLog] = []
        partitions = [self._partition(path / str(index), index, config) for index in range(2)]
        self.parts = MemoryParts(*partitions)
        self.parts.clock = Clock()  # type: ignore[assignment]
        self.dispatcher = Dispatcher(self.parts, SERVED, authorizer)  # type: ignore[arg-type]
        self.served: list[int] = []
        """Correlation ids of what the dispatcher was given."""
        handle = self.dispatcher.handle

        def seen(frame: memoryview, connection: Any) -> Any:
            self.served.append(int.from_bytes(frame[4:8], "big"))
            return handle(frame, connection)

        self.dispatcher.handle = seen  # type: ignore[method-assign, assignment]

    def _partition(self, path: Path, index: int, config: TopicConfig | None) -> Partition:
        path.mkdir(parents=True)
        log = new_log(path, config, self.disk)
        self.logs.append(log)
        partition = make_partition(log, topic_partition=TopicPartition("t", index))  # type: ignore[arg-type]
        partition.become_leader(assignment(leader_epoch=4, isr=(1,), replicas=(1,)), 0.0)
        return partition

    def partition(self, index: int = 0) -> Partition:
        return list(self.parts.replicas.partitions.values())[index]

    async def peer(self, *first: bytes) -> Peer:
        """A connection that has sent a request like those that follow."""
        peer = Peer(self)
        for each in first or (produce(),):
            peer.send(each)
        await virtual_time.settle()
        peer.answers()
        self.served.clear()
        self.disk.sizes.clear()
        return peer


def run(path: Path, act: Callable[[Broker], Coroutine[Any, Any, None]], config: TopicConfig | None = None) -> Broker:
    async def scenario() -> Broker:
        broker = Broker(path, config)
        await act(broker)
        return broker

    return virtual_time.run(scenario())


@dataclass
class Requester:
    """A follower that fetched last at `last_fetch_ms`."""

    last_fetch_ms: float


class SilentSender:
    """A connection of which no request is served."""

    peer_host, principal = "10.0.0.7", ANONYMOUS

    def send_response(self, response: bytes) -> None:
        raise AssertionError

    def reserve_response(self) -> Slot:
        raise AssertionError

    def send_completed(self) -> None:
        raise AssertionError

    def hold_reading(self, is_held: bool) -> None:
        raise AssertionError

    def return_request(self, request: bytes) -> None:
        raise AssertionError


def template_of(frame: bytes, version: int = 7) -> RequestTemplate | None:
    """The template of a request, whose frame begins with its length."""
    header = read_request_header(frame[4:], request_header_version(API, version))
    request = codec.decode_request(ApiKey.PRODUCE, version, frame[4:], header.body_position)
    return make_template(memoryview(frame)[4:], version, header.body_position, request)


def replicated(broker: Broker, isr: tuple[int, ...] = (1, 2)) -> Partition:
    partition = broker.partition()
    partition.become_leader(assignment(leader_epoch=5, isr=isr, replicas=(1, 2)), 0.0)
    return partition


def fetched(partition: Partition, offset: int) -> None:
    """The follower has all records before `offset`."""
    now_ms = asyncio.get_running_loop().time() * 1000
    partition.follower_fetched(2, offset, 0, now_ms, Requester(now_ms))
