"""Produced records that take long to check: another thread checks them, in their turn, and whatever arrives meanwhile leaves them alone."""

from __future__ import annotations

import asyncio
import struct
import threading
import zlib
from pathlib import Path
from typing import Any

import pytest

from kafkalite.broker.handlers import SERVED
from kafkalite.broker.handlers import produce as produce_handler
from kafkalite.broker.requests.dispatch import Dispatcher
from kafkalite.config.topic import TopicConfig
from kafkalite.errors import ErrorCode
from kafkalite.net.frames import request_frame, response_body_position
from kafkalite.protocol import codec, messages
from kafkalite.protocol.apis import APIS, ApiKey
from kafkalite.protocol.record_batches.compression import Codec
from kafkalite.protocol.record_batches.records import NewRecord, build_batch
from kafkalite.types import TopicPartition
from tests.unit.broker.fake_log import assignment, make_partition
from tests.unit.broker.memory_parts import FakeConnection, MemoryParts
from tests.unit.storage.logs import NOW_MS, headers_of, new_log

SMALL = build_batch([NewRecord(b"k", b"small", NOW_MS)])
MANY = build_batch([NewRecord(None, None, NOW_MS)] * 33_000, codec=Codec.ZSTD)
WIDE = build_batch([NewRecord(None, bytes(1_500_000), NOW_MS)], codec=Codec.GZIP)
LONG = build_batch([NewRecord(None, bytes(1_500_000), NOW_MS)])
HEADERS = build_batch([NewRecord(None, None, NOW_MS, [("", None)] * 2000)])


def message_set(size: int) -> bytes:
    body = struct.pack(">bbqii", 1, 0, NOW_MS, -1, size) + bytes(size)
    message = struct.pack(">I", zlib.crc32(body)) + body
    return struct.pack(">qi", 0, len(message)) + message


class Broker:
    """One partition after the other with a real log, behind the dispatcher."""

    def __init__(self, path: Path, count: int = 1, **config: Any) -> None:
        topic = TopicConfig(max_message_bytes=10_000_000, **config)
        self.logs = [new_log(path / str(number), topic) for number in range(count)]
        partitions = []
        for number, log in enumerate(self.logs):
            partition = make_partition(log, topic_partition=TopicPartition("t", number))  # type: ignore[arg-type]
            partition.become_leader(assignment(leader_epoch=4, isr=(1,)), 0.0)
            partitions.append(partition)
        self.dispatcher = Dispatcher(MemoryParts(*partitions), SERVED)  # type: ignore[arg-type]
        self.connection = FakeConnection()

    def send(self, *records: Any, version: int = 9, acks: int = 1) -> Any:
        """What dispatch gives back; the memory that the request lay in is overwritten then, as the shared buffer is by the next read."""
        m = messages.produce_request
        data = [m.PartitionProduceData(index=number, records=each) for number, each in enumerate(records)]
        request = m.ProduceRequest(
            acks=acks, timeout_ms=1000, topic_data=[m.TopicProduceData(name="t", partition_data=data)]
        )
        frame = memoryview(
            bytearray(
                b"".join(request_frame(APIS[ApiKey.PRODUCE], version, 7, "me", codec.encode_request(request, version)))
            )
        )[4:]
        answer = self.dispatcher.handle(frame, self.connection)
        if len(frame) <= 256 * 1024:
            frame[:] = b"\xee" * len(frame)
        return answer

    async def produce(self, *records: Any, version: int = 9) -> list[Any]:
        answer = self.send(*records, version=version)
        if asyncio.isfuture(answer):
            answer = await answer
        frame = b"".join(answer)[4:]
        position = response_body_position(APIS[ApiKey.PRODUCE], version, frame)
        response = codec.decode_response(ApiKey.PRODUCE, version, frame, position)
        return list(response.responses[0].partition_responses)


@pytest.fixture
def threads(monkeypatch: pytest.MonkeyPatch) -> list[threading.Thread]:
    """The threads in which batches were checked apart."""
    noted: list[threading.Thread] = []
    check = produce_handler.check_in_thread

    def check_and_note(*arguments: Any, **named: Any) -> Any:
        noted.append(threading.current_thread())
        return check(*arguments, **named)

    monkeypatch.setattr(produce_handler, "check_in_thread", check_and_note)
    return noted


@pytest.mark.parametrize(
    ("records", "version"),
    [(MANY, 9), (WIDE, 9), (LONG, 9), (HEADERS, 9), (message_set(300_000), 2)],
    ids=["many", "wide", "long", "headers", "old"],
)
def test_what_takes_long_is_checked_in_another_thread(
    tmp_path: Path, threads: list[threading.Thread], records: Any, version: int
) -> None:
    broker = Broker(tmp_path)

    async def scenario() -> None:
        (answer,) = await broker.produce(SMALL, version=9)
        assert (answer.error_code, answer.base_offset, threads) == (0, 0, [])
        assert not broker.connection.alone
        (answer,) = await broker.produce(records, version=version)
        assert (answer.error_code, answer.base_offset) == (0, 1)
        assert len(threads) == 1 and threads[0] is not threading.current_thread()
        assert broker.connection.alone == 1
        assert [each.base_offset for each in broker.logs[0].segments.active.headers()] == [0, 1]

    asyncio.run(scenario())


def test_of_one_request_only_what_takes_long_waits(tmp_path: Path, threads: list[threading.Thread]) -> None:
    broker = Broker(tmp_path, count=4, compression_type="lz4")
    broken = bytearray(MANY)
    broken[-1] ^= 1

    async def scenario() -> None:
        sent = broker.send(SMALL, MANY, broken, SMALL)
        assert [log.log_end_offset for log in broker.logs] == [1, 0, 0, 1]
        await sent
        assert [log.log_end_offset for log in broker.logs] == [1, 33_000, 0, 1]
        answers = await broker.produce(SMALL, HEADERS, broken, MANY)
        codes = [answer.error_code for answer in answers]
        assert codes == [0, 0, ErrorCode.CORRUPT_MESSAGE, 0]
        assert {each.codec for log in broker.logs for each in headers_of(log)} == {Codec.LZ4}

    asyncio.run(scenario())
    assert len(threads) == 3


def test_checks_of_different_clients_follow_each_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A hundred at once would need a hundred times the memory."""
    broker = Broker(tmp_path)
    running = most = 0
    check = produce_handler.check_in_thread

    def counted(*arguments: Any, **named: Any) -> Any:
        nonlocal running, most
        running += 1
        most = max(most, running)
        try:
            return check(*arguments, **named)
        finally:
            running -= 1

    monkeypatch.setattr(produce_handler, "check_in_thread", counted)

    async def scenario() -> None:
        await asyncio.gather(*(broker.produce(HEADERS) for _ in range(20)))

    asyncio.run(scenario())
    assert most == 1 and broker.logs[0].log_end_offset == 20


def test_a_refusal_from_another_thread_is_the_answer(tmp_path: Path) -> None:
    broker = Broker(tmp_path, cleanup_policy=("compact",))

    async def scenario() -> None:
        (answer,) = await broker.produce(MANY)
        assert answer.error_code == ErrorCode.INVALID_RECORD
        assert len(answer.record_errors) == 1000, "of 33,000"
        assert broker.logs[0].log_end_offset == 0

    asyncio.run(scenario())


def test_many_partitions_are_not_read_from_memory_that_others_write_into(tmp_path: Path) -> None:
    """Their records are appended in portions, long after the buffer that all connections share received something else."""
    broker = Broker(tmp_path, count=3)

    async def scenario() -> None:
        answers = await broker.produce(*[SMALL] * 1500)
        assert [answer.error_code for answer in answers[:3]] == [0, 0, 0]

    asyncio.run(scenario())
