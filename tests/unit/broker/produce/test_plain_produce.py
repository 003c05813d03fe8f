"""Requests that repeat each other are appended together, and answered, byte for byte, as if each had been served alone."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kafkalite.broker.connections.connection import ServerConnection
from kafkalite.broker.handlers import SERVED
from kafkalite.broker.identity.authorizer import ALLOW_ALL, Authorizer
from kafkalite.broker.produce.plain_produce import PlainShape, PlainShapes, PlainTurn, ShapeRoom, shape_of
from kafkalite.broker.replication.partition import Partition
from kafkalite.broker.requests.dispatch import Dispatcher
from kafkalite.broker.settings.quotas import QuotaEntity
from kafkalite.config.topic import TopicConfig
from kafkalite.errors import ErrorCode
from kafkalite.histogram import Histogram
from kafkalite.net.frames import read_request_header, request_frame, response_body_position
from kafkalite.protocol import codec, messages
from kafkalite.protocol.apis import APIS, ApiKey, request_header_version
from kafkalite.protocol.record_batches.compression import Codec
from kafkalite.protocol.record_batches.records import NewRecord, Record, build_batch, iter_batches, iter_records
from kafkalite.storage.log.partition_log import PartitionLog
from kafkalite.testing.simulation import virtual_time
from tests.case import case
from tests.unit.broker.connections.test_connection import FakeServer, FakeTransport
from tests.unit.broker.fake_log import assignment, make_partition
from tests.unit.broker.memory_parts import MemoryParts
from tests.unit.storage.logs import NOW_MS, FailingDisk, all_bytes, check_files, headers_of, new_log

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


class Peer:
    """A connection, and what it is answered."""

    def __init__(self, broker: Broker) -> None:
        self.transport = FakeTransport()
        self.connection = ServerConnection(FakeServer(), broker.dispatcher, "PLAINTEXT", 1 << 20)  # type: ignore[arg-type]
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

    def told(self, version: int = 7) -> list[tuple[int, ErrorCode, int]]:
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
        partition = make_partition(log, topic_partition=SimpleNamespace())  # type: ignore[arg-type]
        partition.topic_partition = type(log.topic_partition)("t", index)
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


def test_answers_are_those_of_requests_that_are_served_alone(tmp_path: Path) -> None:
    async def answers(broker: Broker, version: int, acks: int, client_id: str | None, repeats: bool) -> list[bytes]:
        peer = Peer(broker)
        if not repeats:
            peer.serve_alone()
        found = []
        for number, value in enumerate((b"", b"a" * 60, b"b" * 200, b"c" * 9000)):
            peer.send(produce(value, version=version, acks=acks, client_id=client_id, correlation_id=number))
            await virtual_time.settle()
            found += peer.answers()
        assert len(broker.served) == (1 if repeats else 4)
        broker.served.clear()
        return found

    async def act(broker: Broker) -> None:
        for version in range(3, 12):
            for acks, client_id in ((1, "me"), (-1, None), (1, "")):
                with case(f"version {version}, acks {acks}, client {client_id!r}"):
                    alone = await answers(broker, version, acks, client_id, repeats=False)
                    broker.logs[0].truncate_fully_and_start_at(0)
                    assert await answers(broker, version, acks, client_id, repeats=True) == alone
                    broker.logs[0].truncate_fully_and_start_at(0)

    run(tmp_path, act)


def test_requests_of_one_turn_are_one_write_for_each_partition(tmp_path: Path) -> None:
    async def act(broker: Broker) -> None:
        peers = [await broker.peer(produce(index=number % 2)) for number in range(10)]
        broker.disk.sizes.clear()
        for number, peer in enumerate(peers):
            peer.send(produce(b"%d" % number, index=number % 2, correlation_id=number))
        assert not any(peer.answers() for peer in peers) and not broker.disk.sizes
        await virtual_time.settle()
        told = [peer.told() for peer in peers]
        assert told == [[(number, ErrorCode.NONE, 5 + number // 2)] for number in range(10)]
        assert len(broker.disk.sizes) == 2 and not broker.served
        assert broker.dispatcher.latencies[ApiKey.PRODUCE].count == 20
        assert broker.parts.traffic.topics["t"].records_in == 20

    broker = run(tmp_path, act)
    for log in broker.logs:
        assert [(each.base_offset, each.partition_leader_epoch) for each in headers_of(log)] == [
            (offset, 4) for offset in range(10)
        ]
        assert log.high_watermark == 10
        check_files(log)


def test_what_is_not_plain_is_served_as_any_other_and_in_its_place(tmp_path: Path) -> None:
    damaged = bytearray(produce(correlation_id=11))
    damaged[-1] ^= 1
    others = {
        "damaged": (bytes(damaged), ErrorCode.CORRUPT_MESSAGE, -1),
        "compressed": (produce(bytes(100), correlation_id=11, codec=Codec.GZIP), ErrorCode.NONE, 2),
        "two records": (produce(correlation_id=11, count=2), ErrorCode.NONE, 2),
        "too old": (
            produce(batch=bytes(build_batch([NewRecord(b"k", b"v", 3)])), correlation_id=11),
            ErrorCode.INVALID_TIMESTAMP,
            -1,
        ),
        "too large": (produce(bytes(3000), correlation_id=11), ErrorCode.MESSAGE_TOO_LARGE, -1),
    }

    async def act(broker: Broker, other: bytes, code: ErrorCode, offset: int) -> None:
        peer = await broker.peer()
        quick = await broker.peer()
        for number, request in enumerate((produce(correlation_id=10), other, produce(correlation_id=12))):
            peer.send(request)
            quick.send(produce(correlation_id=20 + number))
        await virtual_time.settle()
        assert [each[0] for each in quick.told()] == [20, 21, 22]
        assert broker.served == [11, 12]
        told = peer.told()
        assert [each[:2] for each in told] == [(10, ErrorCode.NONE), (11, code), (12, ErrorCode.NONE)]
        assert (told[1][2] < 0) == (offset < 0) and told[0][2] < told[2][2]
        assert offset < 0 or told[0][2] < told[1][2] < told[2][2]

    config = TopicConfig(max_message_bytes=2000, message_timestamp_before_max_ms=1000)
    for name, (request, code, offset) in others.items():
        with case(name):
            run(tmp_path / name, lambda broker, other=(request, code, offset): act(broker, *other), config)  # type: ignore[misc]


def test_nothing_overtakes_what_waits_for_the_end_of_the_turn(tmp_path: Path) -> None:
    async def act(broker: Broker) -> None:
        peer = await broker.peer()
        peer.send(produce(correlation_id=1))
        peer.send(METADATA)  # another API in the same turn
        assert [int.from_bytes(each[4:8], "big") for each in peer.answers()] == [1, 9]
        peer.send(produce(correlation_id=2))
        peer.send(produce(correlation_id=3, index=1))  # of another shape
        assert [each[0] for each in peer.told()] == [2, 3]
        broker.served.clear()
        peer.send(produce(correlation_id=4, index=1))
        peer.send(METADATA, produce(correlation_id=5, index=1), produce(correlation_id=6, index=1))  # three in one read
        assert [int.from_bytes(each[4:8], "big") for each in peer.answers()] == [4, 9]
        await virtual_time.settle()
        assert peer.told() == [(5, 0, 2), (6, 0, 3)] and broker.served == [9]
        peer.send(METADATA, produce(correlation_id=7, index=1), METADATA, produce(correlation_id=8, index=1))
        assert [int.from_bytes(each[4:8], "big") for each in peer.answers()] == [9, 7, 9]
        await virtual_time.settle()
        assert peer.told() == [(8, 0, 5)]

    run(tmp_path, act)


def test_a_partition_that_changed_hands_in_the_turn_is_not_appended_to(tmp_path: Path) -> None:
    async def act(broker: Broker) -> None:
        peer = await broker.peer()
        peer.send(produce())
        broker.partition().resign()
        await virtual_time.settle()
        assert peer.told() == [(5, ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)]
        del broker.parts.replicas.partitions[broker.partition().topic_partition]
        peer.send(produce())
        await virtual_time.settle()
        assert peer.told() == [(5, ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)]

    assert run(tmp_path, act).logs[0].log_end_offset == 1


def replicated(broker: Broker, isr: tuple[int, ...] = (1, 2)) -> Partition:
    partition = broker.partition()
    partition.become_leader(assignment(leader_epoch=5, isr=isr, replicas=(1, 2)), 0.0)
    return partition


def fetched(partition: Partition, offset: int) -> None:
    """The follower has all records before `offset`."""
    now_ms = asyncio.get_running_loop().time() * 1000
    partition.follower_fetched(2, offset, 0, now_ms, SimpleNamespace(last_fetch_ms=now_ms))  # type: ignore[arg-type]


def test_acks_all_is_answered_when_the_record_is_committed(tmp_path: Path) -> None:
    async def act(broker: Broker) -> None:
        peer, hasty = await broker.peer(produce(acks=-1)), await broker.peer()
        partition = replicated(broker)
        fetched(partition, 2)
        for number in range(3):
            peer.send(produce(acks=-1, correlation_id=number))
            await virtual_time.settle()
        peer.send(METADATA)
        hasty.send(produce(correlation_id=8))
        await virtual_time.settle()
        assert hasty.told() == [(8, 0, 5)] and not peer.answers() and not broker.served
        fetched(partition, 4)
        await virtual_time.settle()
        assert peer.told() == [(0, 0, 2), (1, 0, 3)]
        fetched(partition, 6)
        await virtual_time.settle()
        answers = peer.answers()
        assert [int.from_bytes(each[4:8], "big") for each in answers] == [2, 9] and broker.served == [9]
        await asyncio.sleep(5)
        assert not peer.answers(), "no timer is left"

    run(tmp_path, act)


def test_a_request_that_waits_for_replicas_shows_what_the_next_ones_look_like(tmp_path: Path) -> None:
    async def act(broker: Broker) -> None:
        fetched(replicated(broker), 0)
        peer = Peer(broker)
        for number in range(3):
            peer.send(produce(acks=-1, correlation_id=number))
            await virtual_time.settle()
        assert broker.served == [0] and not peer.answers()
        fetched(broker.partition(), 3)
        await virtual_time.settle()
        assert peer.told() == [(0, 0, 0), (1, 0, 1), (2, 0, 2)]

    run(tmp_path, act)


def test_requests_to_several_partitions_in_turn_are_all_recognised(tmp_path: Path) -> None:
    async def act(broker: Broker) -> None:
        peer = await broker.peer(produce(), produce(index=1))
        for number in range(6):
            peer.send(produce(index=number % 2, correlation_id=number))
            await virtual_time.settle()
        assert not broker.served
        peer.send(*(produce(index=number % 2, correlation_id=number) for number in range(6)))
        await virtual_time.settle()
        assert not broker.served
        offsets = [1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6]
        assert peer.told() == [(number % 6, 0, offset) for number, offset in enumerate(offsets)]

    run(tmp_path, act)


def test_shapes_are_found_by_all_that_precedes_the_records() -> None:
    def shape(topic: str, index: int, version: int) -> tuple[bytes, PlainShape]:
        frame = produce(topic=topic, index=index, version=version)
        header = read_request_header(frame[4:], request_header_version(API, version))
        request = codec.decode_request(ApiKey.PRODUCE, version, frame[4:], header.body_position)
        found = shape_of(memoryview(frame)[4:], version, header.body_position, request)
        assert found is not None
        return frame, found

    shapes = PlainShapes(ShapeRoom())
    assert shapes.find(produce()) is None
    for version in (7, 9):
        known = [shape(topic, index, version) for topic in ("t", "u", "long") for index in range(3)]
        for _, each in known:
            shapes.add(each)
        for frame, each in known:
            found = shapes.find(frame)
            assert found is not None and found[0] is each
            assert frame[found[1] :].startswith(bytes(8))  # the batch's base offset
        assert shapes.find(produce(index=3, version=version)) is None
        assert shapes.find(produce(client_id="other", version=version)) is None


def test_so_many_shapes_are_kept_of_a_connection_and_no_more(tmp_path: Path) -> None:
    shared = ShapeRoom(2)
    shapes, others = PlainShapes(shared, most=1), PlainShapes(shared, most=0)
    frame = produce()
    header = read_request_header(frame[4:], 1)
    request = codec.decode_request(ApiKey.PRODUCE, 7, frame[4:], header.body_position)
    for left in (True, True, True, False):
        assert shapes.has_room is left
        if not left:
            assert not others.has_room
            break
        found = shape_of(memoryview(frame)[4:], 7, header.body_position, request)
        assert found is not None
        shapes.add(found)
    shapes.close()
    assert shared.left == 2 and others.has_room, "what a connection had beyond its own goes back with it"
    long = produce(client_id="c" * 600)
    header = read_request_header(long[4:], 1)
    request = codec.decode_request(ApiKey.PRODUCE, 7, long[4:], header.body_position)
    assert shape_of(memoryview(long)[4:], 7, header.body_position, request) is None


def test_an_answer_that_is_there_waits_for_those_before_it(tmp_path: Path) -> None:
    async def act(broker: Broker) -> None:
        peer = await broker.peer(produce(acks=-1))
        partition = replicated(broker)
        fetched(partition, 1)
        peer.send(produce(acks=-1, correlation_id=1))
        await virtual_time.settle()
        peer.send(produce(correlation_id=2))  # acks=1, of another shape
        peer.send(produce(correlation_id=3))
        await virtual_time.settle()
        assert not peer.answers() and broker.served == [2]
        fetched(partition, 4)
        await virtual_time.settle()
        assert peer.told() == [(1, 0, 1), (2, 0, 2), (3, 0, 3)]

    run(tmp_path, act)


@pytest.mark.parametrize("repeats", [False, True])
def test_what_is_not_committed_is_told_as_to_requests_that_are_served_alone(tmp_path: Path, repeats: bool) -> None:
    async def outcomes(broker: Broker) -> list[Any]:
        found: list[Any] = []
        peer = await broker.peer(produce(acks=-1))
        if not repeats:
            peer.serve_alone()
        partition = replicated(broker)
        fetched(partition, 1)
        peer.send(produce(acks=-1))
        await asyncio.sleep(1.4)
        assert not peer.answers()
        await asyncio.sleep(0.2)
        found.append(peer.answers())  # the time is over
        peer.send(produce(acks=-1))
        await virtual_time.settle()
        partition.resign()
        await virtual_time.settle()
        found.append(peer.answers())
        partition.become_leader(assignment(leader_epoch=6, isr=(1,), replicas=(1, 2)), 0.0)
        partition.log.config = TopicConfig(min_insync_replicas=2)
        peer.send(produce(acks=-1))  # appended by nobody
        await virtual_time.settle()
        found.append(peer.answers())
        return [*found, partition.log.log_end_offset]

    async def act(broker: Broker) -> None:
        timed_out, not_leader, not_enough, end = await outcomes(broker)
        codes = [codec.decode_response(ApiKey.PRODUCE, 7, each[0], 8) for each in (timed_out, not_leader, not_enough)]
        told = [reply.responses[0].partition_responses[0] for reply in codes]
        assert [(each.error_code, each.base_offset, each.log_start_offset) for each in told] == [
            (ErrorCode.REQUEST_TIMED_OUT, -1, 0),
            (ErrorCode.NOT_LEADER_OR_FOLLOWER, -1, 0),
            (ErrorCode.NOT_ENOUGH_REPLICAS, -1, 0),
        ]
        assert end == 3

    run(tmp_path, act)


@pytest.mark.parametrize("is_over", [False, True])
def test_what_was_appended_together_is_answered_together(tmp_path: Path, is_over: bool) -> None:
    async def act(broker: Broker) -> None:
        peers = [await broker.peer(produce(acks=-1)) for _ in range(3)]
        partition = replicated(broker)
        fetched(partition, 3)
        for number, peer in enumerate(peers):
            peer.send(produce(acks=-1, correlation_id=number))
        await virtual_time.settle()
        fetched(partition, 5)
        await virtual_time.settle()
        assert not any(peer.answers() for peer in peers), "they wait for the last one"
        if is_over:
            await asyncio.sleep(1.6)
        else:
            partition.resign()
            await virtual_time.settle()
        code = ErrorCode.REQUEST_TIMED_OUT if is_over else ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert [peer.told() for peer in peers] == [[(number, code, -1)] for number in range(3)]
        assert broker.parts.replicas.pace.waiting == 0

    run(tmp_path, act)


def test_a_failed_write_fails_all_requests_in_it_and_no_others(tmp_path: Path) -> None:
    async def act(broker: Broker) -> None:
        peers = [await broker.peer() for _ in range(3)]
        other = await broker.peer(produce(index=1))
        before = all_bytes(broker.logs[0])
        other.send(produce(index=1))  # first in the turn, for which there is room
        for peer in peers:
            peer.send(produce())
        broker.disk.room = 150
        await virtual_time.settle()
        assert other.told() == [(5, ErrorCode.NONE, 1)]
        for peer in peers:
            assert peer.told() == [(5, ErrorCode.KAFKA_STORAGE_ERROR, -1)]
        assert all_bytes(broker.logs[0]) == before
        broker.disk.room = None
        for peer in peers:
            peer.send(produce())
        await virtual_time.settle()
        assert [peer.told()[0][2] for peer in peers] == [3, 4, 5]

    check_files(run(tmp_path, act).logs[0])


def test_what_nobody_expected_is_reported_and_answered(tmp_path: Path) -> None:
    async def act(broker: Broker) -> None:
        peer = await broker.peer()

        def fail(*arguments: Any) -> int:
            raise ZeroDivisionError

        broker.partition().append_plain = fail  # type: ignore[method-assign]
        with virtual_time.expected_errors() as errors:
            peer.send(produce())
            await virtual_time.settle()
        assert peer.told() == [(5, ErrorCode.UNKNOWN_SERVER_ERROR, -1)]
        assert len(errors.contexts) == 1

    run(tmp_path, act)


def test_producers_with_numbers_are_told_of_what_they_sent_before(tmp_path: Path) -> None:
    def numbered(sequence: int, correlation_id: int) -> bytes:
        return produce(correlation_id=correlation_id, producer_id=7, producer_epoch=0, base_sequence=sequence)

    async def act(broker: Broker) -> None:
        peer = await broker.peer(numbered(0, 0))
        peer.send(numbered(1, 1))
        await virtual_time.settle()
        assert peer.told() == [(1, 0, 1)] and not broker.served
        peer.send(numbered(1, 2))  # again
        peer.send(numbered(2, 3))
        peer.send(numbered(5, 4))
        await virtual_time.settle()
        assert peer.told() == [(2, 0, 1), (3, 0, 2), (4, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1)]
        broker.served.clear()
        peer.send(numbered(3, 5))
        peer.send(numbered(4, 6), numbered(5, 7))  # three of one turn
        await virtual_time.settle()
        assert peer.told() == [(5, 0, 3), (6, 0, 4), (7, 0, 5)] and not broker.served
        other = await broker.peer(produce(index=1))
        other.send(produce())
        await virtual_time.settle()
        other.answers()
        peer.send(numbered(8, 7))  # too early
        other.send(numbered(9, 7))  # follows only that
        await virtual_time.settle()
        for each in (peer, other):
            assert each.told() == [(7, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1)]
        peer.send(numbered(6, 8), numbered(6, 9), numbered(7, 10))
        peer.send(numbered(8, 11), numbered(10, 12))
        await virtual_time.settle()
        assert [each[1:] for each in peer.told()] == [
            (0, 7),
            (0, 7),
            (0, 8),
            (0, 9),
            (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1),
        ]

    run(tmp_path, act)


@pytest.mark.parametrize(
    "config",
    [
        TopicConfig(cleanup_policy="compact"),
        TopicConfig(compression_type="gzip"),
        TopicConfig(message_timestamp_type="LogAppendTime"),
    ],
    ids=["compacted", "another codec", "append time"],
)
def test_topics_that_change_or_refuse_records_are_served_as_ever(tmp_path: Path, config: TopicConfig) -> None:
    async def act(broker: Broker) -> None:
        peer = await broker.peer()
        peer.send(produce())
        await virtual_time.settle()
        assert peer.told() == [(5, 0, 1)] and broker.served == [5]

    run(tmp_path, act, config)


def test_a_quota_silences_who_repeats_itself(tmp_path: Path) -> None:
    async def act(broker: Broker) -> None:
        peer = await broker.peer()
        broker.parts.quotas.take(QuotaEntity(client_id="me"), {"producer_byte_rate": 1.0})
        peer.send(produce())
        await virtual_time.settle()
        assert broker.served == [5] and len(peer.answers()) == 1 and not peer.transport.reading

    run(tmp_path, act)


def test_where_request_time_is_measured_each_request_is_served_alone(tmp_path: Path) -> None:
    async def act(broker: Broker) -> None:
        peer = await broker.peer()
        for around, served in ((lambda api, handle: handle, [5]), (None, [])):
            broker.dispatcher.run_within(around)
            peer.send(produce())
            await virtual_time.settle()
            assert broker.served == served and len(peer.answers()) == 1
            broker.served.clear()

    run(tmp_path, act)


def test_a_connection_that_is_gone_has_its_records_appended(tmp_path: Path) -> None:
    async def act(broker: Broker) -> None:
        peer = await broker.peer()
        peer.send(produce())
        peer.connection.connection_lost(None)
        await virtual_time.settle()
        assert not peer.answers()

    assert run(tmp_path, act).logs[0].log_end_offset == 2


def test_a_stop_serves_what_waits_for_the_end_of_the_turn(tmp_path: Path) -> None:
    async def act(broker: Broker) -> None:
        peer = await broker.peer()
        peer.send(produce())
        broker.dispatcher.cancel_all()
        assert peer.told() == [(5, ErrorCode.NONE, 1)]

    run(tmp_path, act)


def test_a_turn_takes_no_more_than_it_can_serve_at_once(tmp_path: Path) -> None:
    async def act(broker: Broker) -> None:
        peers = [await broker.peer() for _ in range(3)]
        for _ in range(200):
            for peer in peers:
                peer.send(produce())
        assert sum(len(peer.answers()) for peer in peers) == 512
        await virtual_time.settle()
        assert sum(len(peer.answers()) for peer in peers) == 88

    run(tmp_path, act)


def test_a_segment_that_is_full_is_followed_by_another(tmp_path: Path) -> None:
    async def act(broker: Broker) -> None:
        peers = [await broker.peer() for _ in range(3)]
        for _ in range(10):
            for peer in peers:
                peer.send(produce(bytes(100)))
            await virtual_time.settle()

    log = run(tmp_path, act, TopicConfig(segment_bytes=700)).logs[0]
    assert len(log.segments) > 4 and log.log_end_offset == 33
    assert max(segment.size for segment in log.segments) <= 700
    check_files(log)


def test_a_turn_is_scheduled_once() -> None:
    scheduled: list[Callable[[], None]] = []
    parts: Any = SimpleNamespace(clock=None)
    turn = PlainTurn(parts, Histogram(), now_s=lambda: 0.0, schedule=scheduled.append)
    sender: Any = SimpleNamespace()
    shape: Any = SimpleNamespace(acks=1)
    turn.take(sender, shape, b"", 0)
    turn.take(sender, shape, b"", 0)
    assert len(scheduled) == 1


def test_a_part_of_a_request_is_not_taken_for_one_as_long(tmp_path: Path) -> None:
    async def act(broker: Broker) -> None:
        short, long = produce(b"x" * 50), produce(b"x" * 60, correlation_id=6)
        peer = await broker.peer(short, short)
        peer.send(long[: len(short)])
        await virtual_time.settle()
        assert not peer.answers()
        peer.send(long[len(short) :])
        peer.send(short)
        await virtual_time.settle()
        assert peer.told() == [(6, 0, 2), (5, 0, 3)]

    run(tmp_path, act)


def test_records_as_long_as_the_one_before_and_otherwise_made_are_seen_through(tmp_path: Path) -> None:
    """With a layout that is known: keys and values that share their bytes otherwise, headers, null."""

    async def act(broker: Broker) -> None:
        peer = await broker.peer(*[produce(b"vv")] * 4)
        headers = build_batch([NewRecord(b"k", b"", NOW_MS, [("", b"")])])
        others = [NewRecord(b"kv", b"v", NOW_MS), NewRecord(b"", b"kvv", NOW_MS), NewRecord(None, b"kvv", NOW_MS)]
        for batch in (*(bytes(build_batch([each])) for each in others), bytes(headers)):
            peer.send(produce(batch=batch))
            await virtual_time.settle()
        assert [offset for _, _, offset in peer.told()] == [4, 5, 6, 7]
        assert len(broker.served) == 1, "the one with a header"
        found = [(each.key, each.value, len(each.headers)) for each in records_of(broker.logs[0])]
        assert found[4:] == [(b"kv", b"v", 0), (b"", b"kvv", 0), (None, b"kvv", 0), (b"k", b"", 1)]

    run(tmp_path, act)


def records_of(log: PartitionLog) -> list[Record]:
    data = all_bytes(log)
    return [record for header in iter_batches(data) for record in iter_records(data, header)]


@pytest.mark.parametrize("version", range(3, 12))
def test_a_refusal_says_what_the_version_knows(version: int) -> None:
    whole = produce(version=version, correlation_id=7)
    frame = memoryview(whole)[4:]
    header = read_request_header(frame, request_header_version(API, version))
    request = codec.reader(ApiKey.PRODUCE, "request", version)(frame, header.body_position)
    shape = shape_of(frame, version, header.body_position, request)
    assert shape is not None
    answer = shape.refusal(whole, ErrorCode.NOT_LEADER_OR_FOLLOWER, log_start_offset=3)
    body = answer[4:]
    reply = codec.decode_response(ApiKey.PRODUCE, version, body, response_body_position(API, version, body))
    partition = reply.responses[0].partition_responses[0]
    assert int.from_bytes(answer[:4], "big") == len(body) and body[:4] == bytes([0, 0, 0, 7])
    assert (partition.error_code, partition.base_offset, partition.log_append_time_ms) == (6, -1, -1)
    assert partition.log_start_offset == (3 if version >= 5 else -1)
