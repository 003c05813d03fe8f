"""A producer whose batches are too large for the broker, or whose broker is slow to take them."""

from __future__ import annotations

from typing import Any

import pytest

from kafkalite.client.errors import (
    BufferFullError,
    ClientError,
)
from kafkalite.errors import ErrorCode
from kafkalite.protocol.apis import ApiKey
from kafkalite.protocol.record_batches.records import BatchHeader
from kafkalite.types import TopicPartition
from tests.unit.client.fake_broker import FakeCluster, values_in
from tests.unit.client.producer.scripted_producer import failing, producer, run

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


@pytest.mark.parametrize("acks", [1, "all"])
@pytest.mark.parametrize("codec", [None, "gzip"])
def test_a_batch_that_is_too_large_for_the_broker_is_sent_in_parts(acks: int | str, codec: str | None) -> None:
    cluster = FakeCluster({"t": 1})

    def refuse_large(_: int, request: Any) -> Any:
        (topic,) = request.topic_data
        (data,) = topic.partition_data
        return failing(10)[0](0, request) if BatchHeader.read(data.records).records_count > 3 else None

    cluster.script[ApiKey.PRODUCE].extend([refuse_large] * 40)
    heard: list[int] = []

    async def scenario() -> None:
        async with producer(cluster, acks=acks, compression_type=codec, linger_ms=5) as target:
            sent = [
                await target.send("t", b"%d" % number, on_delivery=lambda found, _: heard.append(found.offset))  # type: ignore[union-attr]
                for number in range(10)
            ]
            assert [(await each).offset for each in sent] == list(range(10))
            assert target.statistics()["buffered_bytes"] == 0 and target.statistics()["unfinished_batches"] == 0

    run(scenario())
    assert values_in(cluster, T0) == [b"%d" % number for number in range(10)] and heard == list(range(10))
    assert len(cluster.logs[T0]) == 4


def test_only_the_record_that_is_too_large_fails() -> None:
    cluster = FakeCluster({"t": 1})

    def refuse_large(_: int, request: Any) -> Any:
        data = request.topic_data[0].partition_data[0]
        return failing(10)[0](0, request) if len(data.records) > 500 else None

    cluster.script[ApiKey.PRODUCE].extend([refuse_large] * 40)

    async def scenario() -> None:
        async with producer(cluster, linger_ms=5) as target:
            sent = [await target.send("t", bytes(1000 if number == 2 else 10)) for number in range(4)]
            await target.flush()
            assert [each.exception() is None for each in sent] == [True, True, False, True]
            problem = sent[2].exception()
            assert isinstance(problem, ClientError) and problem.code is ErrorCode.MESSAGE_TOO_LARGE

    run(scenario())
    assert len(values_in(cluster, T0)) == 3


def test_requests_that_a_slow_broker_does_not_take_hold_the_program_back() -> None:
    cluster = FakeCluster({"t": 1})

    async def scenario() -> None:
        options = {"acks": 0, "batch_size": 1000, "buffer_memory": 5000, "max_block_ms": 30}
        async with producer(cluster, **options) as target:
            await (await target.send("t", b"first"))
            (connection,) = [each for each in cluster.connections if each.broker_id == 1]
            connection.writing_paused = True
            with pytest.raises(BufferFullError):
                for _ in range(100):
                    await target.send("t", bytes(400))
            before = len(cluster.requests_of(ApiKey.PRODUCE))
            assert target.statistics()["buffered_bytes"] < 6000
            connection.writing_paused = False
            connection.taken.set()
            await target.flush(5)
            assert len(cluster.requests_of(ApiKey.PRODUCE)) > before

    run(scenario())


def test_without_acknowledgements_all_batches_of_a_flush_go_out() -> None:
    cluster = FakeCluster({"t": 1})

    async def scenario() -> None:
        async with producer(cluster, acks=0, batch_size=100, linger_ms=1000) as target:
            for _ in range(8):
                await target.send("t", bytes(60), partition=0)
            await target.flush(5)

    run(scenario())
    assert len(values_in(cluster, T0)) == 8
