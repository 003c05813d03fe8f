"""Records, partitions and options that programs give a producer."""

from __future__ import annotations

from typing import Any

import pytest

from kafkalite.client.errors import (
    ClientError,
    NoBrokersAvailableError,
    SerializationError,
)
from kafkalite.client.producer.producer import Producer
from kafkalite.errors import ErrorCode
from kafkalite.protocol.record_batches.record_code import choose_partition
from kafkalite.types import TopicPartition
from tests.unit.client.fake_broker import FakeCluster, values_in
from tests.unit.client.producer.scripted_producer import T0, producer, run


def test_records_that_cannot_be_sent_are_refused_to_the_caller() -> None:
    cluster = FakeCluster({"t": 1})

    async def scenario() -> None:
        async with producer(cluster, value_serializer="json", max_request_size=1000) as target:
            with pytest.raises(SerializationError, match="the value of a record for t"):
                await target.send("t", object())
            with pytest.raises(SerializationError, match="the key of a record for t"):
                await target.send("t", 1, key="text")
            with pytest.raises(ClientError, match="larger than max_request_size") as raised:
                await target.send("t", "x" * 2000)
            assert raised.value.code is ErrorCode.MESSAGE_TOO_LARGE
            await target.send_and_wait("t", None, key=b"k")

    run(scenario())
    assert values_in(cluster, T0) == [None]


def test_a_record_that_cannot_be_written_leaves_no_batch() -> None:
    """One that was the first of its batch left an empty one, which no broker takes."""
    cluster = FakeCluster({"t": 1})
    odd: Any = [(b"a name that is no text", b"x")]

    async def scenario() -> None:
        async with producer(cluster) as target:
            await target.send_and_wait("t", b"a")
            for headers, timestamp_ms in ((odd, None), (None, 1 << 64)):
                with pytest.raises((TypeError, OverflowError)):
                    await target.send("t", b"x", timestamp_ms=timestamp_ms, headers=headers)
                with pytest.raises((TypeError, OverflowError)):
                    await target.send_columns("t", [b"x"], timestamps_ms=[timestamp_ms], headers=[headers])
            found = target.statistics()
            assert found["unfinished_batches"] == found["buffered_bytes"] == 0
            await target.send_and_wait("t", b"b")

    run(scenario())
    assert values_in(cluster, T0) == [b"a", b"b"]


def test_a_key_goes_where_the_topic_of_today_puts_it() -> None:
    cluster = FakeCluster({"t": 1})
    key = next(key for key in (b"%d" % number for number in range(20)) if choose_partition(key, 3))

    async def scenario() -> None:
        async with producer(cluster, linger_ms=100) as target:
            await target.send_and_wait("t", b"before", key=key)
            await target.send("t", b"in a batch that is open", key=key)
            cluster.topics["t"] = 3
            cluster.leaders |= {TopicPartition("t", number): 1 for number in range(3)}
            await target._cluster.refresh()
            found = await target.send_and_wait("t", b"after", key=key)
            assert found.partition == choose_partition(key, 3)

    run(scenario())


def test_nobody_answers() -> None:
    cluster = FakeCluster({"t": 1})
    cluster.unreachable = {1, 2}

    async def scenario() -> None:
        target = producer(cluster, bootstrap_servers="fake:9001,fake:9002")
        with pytest.raises(NoBrokersAvailableError, match=r"fake:9001: .*refused.*fake:9002: .*refused") as raised:
            await target.connect(5)
        assert set(raised.value.reasons) == {"fake:9001", "fake:9002"}
        await target.close(timeout=0)

    run(scenario())


def test_null_keys_go_round_robin_and_keys_stay() -> None:
    cluster = FakeCluster({"t": 2})

    async def scenario() -> None:
        async with producer(cluster) as target:
            nulls = [await target.send("t", b"x") for _ in range(6)]
            keyed = [await target.send("t", b"x", key=b"k") for _ in range(4)]
            assert [(await each).partition for each in nulls] == [0, 1, 0, 1, 0, 1]
            assert len({(await each).partition for each in keyed}) == 1

    run(scenario())


@pytest.mark.parametrize(
    "options",
    [
        {"acks": 2},
        {"acks": 1, "enable_idempotence": True},
        {"max_in_flight_requests_per_connection": 6},
        {"compression_type": "rar"},
        {"partitioner": "random"},
        {"value_serializer": "avro"},
        {"delivery_timeout_ms": 10},
        {"bootstrap_servers": "host:port"},
        {"bootstrap_servers": ""},
    ],
)
def test_options_that_cannot_be(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError):
        Producer(**options)


def test_dotted_names() -> None:
    found = Producer.from_config(
        {"bootstrap.servers": "h:1", "linger.ms": "5", "enable.idempotence": "false", "acks": "1", "batch.size": "10"}
    )
    assert found._accumulator.linger_ms == 5 and found._accumulator.batch_size == 10
    with pytest.raises(ValueError, match=r"no option no\.such"):
        Producer.from_config({"no.such": 1})
    with pytest.raises(ValueError, match=r"batch\.size"):
        Producer.from_config({"batch.size": "many"})
