"""Many records at once: where they go, in which order, and what is told of those that do not arrive."""

from __future__ import annotations

from typing import Any

import pytest

from kafkalite.client.errors import ClientClosedError, ClientError
from kafkalite.client.record_reader import read_records
from kafkalite.errors import ErrorCode
from kafkalite.protocol.apis import ApiKey
from kafkalite.protocol.record_batches.record_code import choose_partition
from kafkalite.protocol.record_batches.records import BatchHeader, iter_batches
from kafkalite.types import TopicPartition
from tests.unit.client.fake_broker import FakeCluster, values_in
from tests.unit.client.producer.scripted_producer import T0, failing, producer, run


def records_in(cluster: FakeCluster, topic_partition: TopicPartition) -> list[Any]:
    return [
        record
        for batch in cluster.logs[topic_partition]
        for record in read_records(batch, BatchHeader.read(batch), *topic_partition, 0)
    ]


@pytest.mark.parametrize("partitioner", ["murmur2", "sticky", "round_robin", "murmur3"])
def test_keys_choose_partitions_as_for_single_records(partitioner: str) -> None:
    keys = [b"key %d" % (number % 50) for number in range(300)]
    logs = []
    for at_once in (True, False):
        cluster = FakeCluster({"t": 3})

        async def scenario(cluster: FakeCluster = cluster, at_once: bool = at_once) -> None:
            async with producer(cluster, partitioner=partitioner) as target:
                values = [b"%d" % number for number in range(300)]
                if at_once:
                    await target.send_columns("t", values, keys=keys, timestamps_ms=list(range(300)))
                else:
                    for number, (key, value) in enumerate(zip(keys, values, strict=True)):
                        await target.send("t", value, key, timestamp_ms=number)

        run(scenario())
        places = [TopicPartition("t", number) for number in range(3)]
        logs.append([[(each.key, each.value, each.timestamp) for each in records_in(cluster, tp)] for tp in places])
    assert logs[0] == logs[1]
    assert sum(map(len, logs[0])) == 300
    if partitioner != "murmur3":
        assert all(choose_partition(key, 3) == number for number, log in enumerate(logs[0]) for key, _, _ in log)


def test_null_keys_fill_a_batch_and_then_the_next_partitions() -> None:
    cluster = FakeCluster({"t": 3})

    async def scenario() -> None:
        async with producer(cluster, partitioner="sticky", batch_size=1000) as target:
            await target.send_columns("t", [b"%04d" % number for number in range(400)])

    run(scenario())
    every = [values_in(cluster, TopicPartition("t", number)) for number in range(3)]
    assert sorted(value for found in every for value in found if value) == [b"%04d" % number for number in range(400)]
    for found in every:
        assert found == sorted(found, key=bytes) and len(found) > 60
    batches = [batch for number in range(3) for batch in cluster.logs[TopicPartition("t", number)]]
    assert max(len(batch) for batch in batches) <= 1000
    assert len(batches) <= 9


def test_round_robin_spreads_null_keys() -> None:
    cluster = FakeCluster({"t": 2})

    async def scenario() -> None:
        async with producer(cluster, partitioner="round_robin") as target:
            await target.send_columns("t", [b"0", b"1", b"2", b"3"], keys=[None] * 4)

    run(scenario())
    assert values_in(cluster, T0) == [b"0", b"2"]


def test_order_is_kept_between_single_records_and_columns() -> None:
    cluster = FakeCluster({"t": 1})

    async def scenario() -> None:
        async with producer(cluster, linger_ms=1000) as target:
            await target.send("t", b"first")
            await target.send_columns("t", [b"a", None, b"c"], headers=[None, [("h", b"x")], []])
            await target.send("t", b"last")

    run(scenario())
    assert values_in(cluster, T0) == [b"first", b"a", None, b"c", b"last"]
    assert [each.headers for each in records_in(cluster, T0)][2] == [("h", b"x")]
    sequences = [BatchHeader.read(batch).base_sequence for batch in cluster.logs[T0]]
    assert sequences == [0, 1, 4]


def test_partitions_that_are_given_win() -> None:
    cluster = FakeCluster({"t": 3})

    async def scenario() -> None:
        async with producer(cluster) as target:
            await target.send_columns("t", [b"a", b"b"], keys=[b"k", b"k"], partitions=[2, None])
            with pytest.raises(ClientError, match="cannot have a partition -3"):
                await target.send_columns("t", [b"a"], partitions=[-3])

    run(scenario())
    assert values_in(cluster, TopicPartition("t", 2))[:1] == [b"a"]
    assert b"b" in values_in(cluster, TopicPartition("t", choose_partition(b"k", 3)))


def test_a_partition_that_is_given_takes_no_turn_of_others() -> None:
    cluster = FakeCluster({"t": 2})

    async def scenario() -> None:
        async with producer(cluster, partitioner="round_robin") as target:
            await target.send_columns("t", [b"given", b"0", b"1"], partitions=[1, None, None])

    run(scenario())
    assert values_in(cluster, T0) == [b"0"]
    assert values_in(cluster, TopicPartition("t", 1)) == [b"given", b"1"]


def test_memory_bounds_what_waits() -> None:
    cluster = FakeCluster({"t": 2})

    async def scenario() -> None:
        async with producer(cluster, batch_size=2000, buffer_memory=10_000) as target:
            values = [b"%05d" % number + bytes(95) for number in range(1000)]
            await target.send_columns("t", values, keys=[b"%d" % number for number in range(1000)])
            assert target.statistics()["buffered_bytes"] <= 12_000

    run(scenario())
    assert sum(len(values_in(cluster, TopicPartition("t", number))) for number in range(2)) == 1000
    for number in range(2):
        assert all(len(batch) <= 2000 for batch in cluster.logs[TopicPartition("t", number)])


def test_what_fails_is_told_once_for_each_batch() -> None:
    cluster = FakeCluster({"t": 1})
    failures: list[Exception] = []

    async def scenario() -> None:
        async with producer(cluster, enable_idempotence=False) as target:
            cluster.script[ApiKey.PRODUCE].extend(failing(ErrorCode.TOPIC_AUTHORIZATION_FAILED))
            await target.send_columns("t", [b"a", b"b"], on_failure=failures.append)
            await target.flush()

    run(scenario())
    assert [each.code for each in failures if isinstance(each, ClientError)] == [ErrorCode.TOPIC_AUTHORIZATION_FAILED]


def test_a_batch_that_is_too_large_for_the_broker_is_split() -> None:
    cluster = FakeCluster({"t": 1})
    failures: list[Exception] = []

    async def scenario() -> None:
        async with producer(cluster) as target:
            cluster.script[ApiKey.PRODUCE].extend(failing(ErrorCode.MESSAGE_TOO_LARGE))
            await target.send_columns("t", [b"%d" % number for number in range(10)], on_failure=failures.append)

    run(scenario())
    assert values_in(cluster, T0) == [b"%d" % number for number in range(10)]
    assert len(list(iter_batches(b"".join(cluster.logs[T0])))) == 2 and not failures


def test_columns_that_cannot_be_sent() -> None:
    cluster = FakeCluster({"t": 1})

    async def scenario() -> None:
        async with producer(cluster, max_request_size=1000) as target:
            with pytest.raises(ValueError, match="1 keys for 2 values"):
                await target.send_columns("t", [b"a", b"b"], keys=[b"k"])
            with pytest.raises(ClientError, match="larger than max_request_size"):
                await target.send_columns("t", [b"a", bytes(1000)])
            await target.send_columns("t", [])
        with pytest.raises(ClientClosedError):
            await target.send_columns("t", [b"a"])

    run(scenario())
    assert not values_in(cluster, T0)


def test_a_row_that_is_no_record_leaves_nothing_behind() -> None:
    cluster = FakeCluster({"t": 1})

    async def scenario() -> None:
        async with producer(cluster) as target:
            await target.send("t", b"before")
            with pytest.raises(TypeError):
                await target.send_columns("t", [b"a", "text"])  # type: ignore[list-item]
            assert target.statistics()["unfinished_batches"] == 1
            await target.send_columns("t", [b"after"])

    run(scenario())
    assert values_in(cluster, T0) == [b"before", b"after"]
