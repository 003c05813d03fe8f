"""What a request that waits keeps: a client chooses for how long, so not more than about its own bytes, and of a Produce no records."""

from __future__ import annotations

import gc
import tracemalloc
from typing import Any

import pytest

from kafkalite.broker.connections.connection import ServerConnection
from kafkalite.broker.connections.request_order import HELD_OVERHEAD_BYTES
from kafkalite.broker.fetch.partition_reader import PartitionReader
from kafkalite.broker.handlers import SERVED
from kafkalite.broker.replication.partition import Partition
from kafkalite.broker.requests.dispatch import Dispatcher
from kafkalite.config.keys import INT_MAX
from kafkalite.errors import ErrorCode, KafkaError
from kafkalite.net.frames import request_frame
from kafkalite.protocol import codec, messages
from kafkalite.protocol.apis import APIS, ApiKey
from kafkalite.testing.simulation import virtual_time
from tests.unit.broker.connections.test_connection import FakeServer, FakeTransport
from tests.unit.broker.memory_parts import FakeConnection, MemoryParts, leader
from tests.unit.broker.requests.test_delayed_requests import follow

VERSION = 12
WAITING = 2
KEPT_BYTES = 24 * 1024
"""Of each request that waits, beside its bytes."""
PRODUCE_VERSION = 9
SENDERS = 10
SENT_BY_EACH = 100
KEPT_OF_PRODUCE_BYTES = 8 * 1024


def fetch(max_wait_ms: int, topics: int, partitions: int = 1) -> bytes:
    """Of a partition without news, and of so many topics without partitions."""
    m = messages.fetch_request
    asked = [m.FetchPartition(partition=0, fetch_offset=5, partition_max_bytes=1000)] * partitions
    named = [m.FetchTopic(topic="t", partitions=asked), *[m.FetchTopic(topic="", partitions=[])] * topics]
    request = m.FetchRequest(max_wait_ms=max_wait_ms, min_bytes=1, max_bytes=1 << 20, topics=named)
    body = codec.encode_request(request, VERSION)
    return b"".join(request_frame(APIS[ApiKey.FETCH], VERSION, 1, "me", body))[4:]


@pytest.mark.parametrize(("topics", "partitions"), [(20_000, 1), (1_300, 1), (0, 1800)])
def test_a_fetch_that_waits_keeps_its_bytes_and_not_what_they_stand_for(topics: int, partitions: int) -> None:
    frame = memoryview(fetch(1_000_000, topics, partitions))

    async def scenario() -> None:
        dispatcher = Dispatcher(MemoryParts(leader(end=5)), SERVED)
        waiting = [dispatcher.handle(frame, FakeConnection())]
        await virtual_time.settle()
        gc.collect()
        tracemalloc.start()
        try:
            waiting += [dispatcher.handle(frame, FakeConnection()) for _ in range(WAITING)]
            await virtual_time.settle()
            gc.collect()
            kept_bytes = tracemalloc.get_traced_memory()[0] / WAITING
        finally:
            tracemalloc.stop()
        assert not any(each.done() for each in waiting)  # type: ignore[union-attr]
        assert kept_bytes < KEPT_BYTES + (8 if partitions > 1 else 1) * len(frame)
        dispatcher.cancel_all()
        await virtual_time.settle()

    virtual_time.run(scenario())


def test_the_failure_of_a_fetch_that_waited_names_what_it_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        parts = MemoryParts(leader(end=5))
        answer = Dispatcher(parts, SERVED).handle(memoryview(fetch(100, 2000)), FakeConnection())

        def fail(*_: Any) -> Any:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR)

        await virtual_time.settle()
        for name in ("read_in_memory", "read_all"):
            monkeypatch.setattr(PartitionReader, name, fail)
        frame = b"".join(await answer)  # type: ignore[arg-type, misc]
        reply = codec.decode_response(ApiKey.FETCH, VERSION, frame, 9)
        assert reply.error_code == ErrorCode.KAFKA_STORAGE_ERROR
        assert [each.topic for each in reply.responses] == ["t"] + [""] * 2000

    virtual_time.run(scenario())


# Produce


class Senders:
    """Connections to a broker whose partition has a follower that does not fetch, and how many answers each got."""

    def __init__(self, count: int) -> None:
        self.partition: Partition = leader(isr=(1, 2))
        self.server, self.transports = FakeServer(), [FakeTransport() for _ in range(count)]
        dispatcher = Dispatcher(MemoryParts(self.partition), SERVED)
        self.connections = [ServerConnection(self.server, dispatcher, "PLAINTEXT", 1 << 20) for _ in range(count)]  # type: ignore[arg-type]
        for each, transport in zip(self.connections, self.transports, strict=True):
            each.connection_made(transport)  # type: ignore[arg-type]

    def send(self, number: int, data: bytes) -> None:
        """In two pieces, so that the request has memory of its own; only what is read."""
        connection, transport = self.connections[number], self.transports[number]
        while data and transport.reading:
            buffer = connection.get_buffer(-1)
            count = min(len(buffer), -(-len(data) // 2))
            buffer[:count] = data[:count]
            connection.buffer_updated(count)
            data = data[count:]

    async def replicate(self) -> None:
        follow(self.partition, self.partition.log.log_end_offset)
        await virtual_time.settle()


def produce(records_bytes: int, version: int = PRODUCE_VERSION, partitions: int = 1) -> bytes:
    """With acks=all, of a client with all the time in the world."""
    m = messages.produce_request
    asked = [m.PartitionProduceData(index=0, records=bytes(records_bytes))] * partitions
    topic = m.TopicProduceData(name="t", partition_data=asked)
    body = codec.encode_request(m.ProduceRequest(acks=-1, timeout_ms=INT_MAX, topic_data=[topic]), version)
    return b"".join(request_frame(APIS[ApiKey.PRODUCE], version, 1, "me", body))


@pytest.mark.parametrize("records_bytes", [20_000, 300_000])
def test_a_thousand_produces_that_wait_for_replication_keep_none_of_their_records(records_bytes: int) -> None:
    """Nor do they count: what they wait for, the fetches of followers, needs memory too."""
    data = produce(records_bytes)

    async def scenario() -> None:
        senders = Senders(SENDERS)
        memory = senders.server.memory
        senders.send(0, data)
        await virtual_time.settle()
        await senders.replicate()
        gc.collect()
        tracemalloc.start()
        try:
            for number in range(SENDERS):
                for _ in range(SENT_BY_EACH):
                    senders.send(number, data)
                    assert memory.used_bytes == 0
            await virtual_time.settle()
            kept_bytes = tracemalloc.get_traced_memory()[0] / SENDERS / SENT_BY_EACH
        finally:
            tracemalloc.stop()
        assert [each.in_progress for each in senders.connections] == [SENT_BY_EACH] * SENDERS
        assert kept_bytes < KEPT_OF_PRODUCE_BYTES
        answered = [each.writes for each in senders.transports]
        await senders.replicate()
        assert [each.in_progress for each in senders.connections] == [0] * SENDERS
        assert [each.writes for each in senders.transports] > answered
        assert memory.used_bytes == 0

    virtual_time.run(scenario())


def test_produces_behind_too_many_that_wait_count_until_they_begin() -> None:
    data = produce(100_000)

    async def scenario() -> None:
        senders = Senders(1)
        (connection,), (transport,) = senders.connections, senders.transports
        memory, sent = senders.server.memory, 0
        while transport.reading:
            senders.send(0, data)
            sent += 1
        await virtual_time.settle()
        waiting = connection.statistics()["waiting"]
        assert sent == connection.in_progress + waiting
        assert waiting > 1
        assert memory.used_bytes == waiting * (len(data) - 4 + HELD_OVERHEAD_BYTES)
        await senders.replicate()
        assert transport.reading
        assert memory.used_bytes == 0
        assert connection.in_progress == waiting
        senders.send(0, data)
        connection.connection_lost(None)
        assert memory.used_bytes == 0
        await senders.replicate()

    virtual_time.run(scenario())


@pytest.mark.parametrize("version", [3, 8, 9, 11])
def test_the_records_of_a_long_produce_of_one_partition_are_found_where_they_lie(version: int) -> None:
    async def scenario() -> None:
        senders = Senders(1)
        log, found = senders.partition.log, []
        append = log.append_as_leader

        def note(records: memoryview, **rest: Any) -> Any:
            place = rest["check"].place
            if place is not None:
                memory, position = place
                records[7] = 77
                assert memory[position + 7] == 77 and len(records) == 300_000
            found.append(place is not None)
            return append(records, **rest)

        log.append_as_leader = note  # type: ignore[method-assign, assignment]
        for partitions, size in ((1, 300_000), (2, 300_000), (1, 3000), (1, 300_000)):
            senders.send(0, produce(size, version, partitions))
        assert found == [True, False, False, False, True]
        await senders.replicate()

    virtual_time.run(scenario())
