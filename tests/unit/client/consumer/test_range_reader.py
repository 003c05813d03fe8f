"""Ranges as Arrow: the rows that belong to them and no others, whatever the batches are like."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any

import pytest

from kafkalite.client import record_codec
from kafkalite.client.consumer import fetch_buffer, range_reader
from kafkalite.client.consumer.consumer import Consumer
from kafkalite.client.consumer.sync import SyncConsumer
from kafkalite.client.errors import ClientError, ClientTimeoutError
from kafkalite.client.record_codec import BatchWriter
from kafkalite.errors import ErrorCode
from kafkalite.protocol import messages
from kafkalite.protocol.apis import ApiKey
from kafkalite.protocol.record_batches.compression import Codec
from kafkalite.protocol.record_batches.legacy_records import messages_around
from kafkalite.protocol.record_batches.records import (
    TRANSACTIONAL,
    BatchHeader,
    NewRecord,
    build_batch,
    build_marker,
    decode_records,
    iter_batches,
    set_max_timestamp_in_place,
)
from kafkalite.testing.simulation import virtual_time
from kafkalite.types import TopicPartition
from tests.unit.client.fake_broker import FakeCluster

pytest.importorskip("pyarrow")
T0 = TopicPartition("t", 0)


def run(coroutine: Coroutine[Any, Any, None]) -> None:
    async def in_time() -> None:
        async with asyncio.timeout(20):
            await coroutine

    virtual_time.run(in_time())


def consumer(cluster: FakeCluster, **options: Any) -> Consumer:
    options = {"retry_backoff_ms": 2, "fetch_max_wait_ms": 10, **options}
    return Consumer(bootstrap_servers="fake:9001", opener=cluster.open, **options)


def fill(cluster: FakeCluster, count: int, batch_records: int, codec: int = 0) -> None:
    for first in range(0, count, batch_records):
        writer = BatchWriter(1 << 20)
        for number in range(first, min(first + batch_records, count)):
            key = None if number % 3 else b"k%d" % number
            writer.append(1000 + number, key, b"%d" % number, [("h", b"x")] if number == 7 else [])
        cluster.append(T0, writer.build(codec))


async def rows_of(target: Consumer, start: int, end: int, **options: Any) -> list[dict[str, Any]]:
    return [row async for batch in target.read_range(T0, start, end, **options) for row in batch.to_pylist()]


@pytest.mark.parametrize("codec", [0, 1, 4])
def test_a_range_is_read_exactly(codec: int) -> None:
    cluster = FakeCluster({"t": 1})
    fill(cluster, 30, 4, codec)

    async def scenario() -> None:
        async with consumer(cluster) as target:
            rows = await rows_of(target, 6, 27, batch_rows=5)
            assert [row["offset"] for row in rows] == list(range(6, 27))
            assert [row["value"] for row in rows] == [b"%d" % number for number in range(6, 27)]
            assert [row["key"] for row in rows[:4]] == [b"k6", None, None, b"k9"]
            assert rows[1]["headers"] == [{"key": "h", "value": b"x"}] and rows[2]["headers"] == []
            assert {(row["partition"], row["timestamp_type"]) for row in rows} == {(0, 0)}
            assert rows[0]["timestamp"].timestamp() == 1.006
            assert await rows_of(target, 9, 9) == []

    run(scenario())


def test_one_batch_of_many_records_becomes_several() -> None:
    cluster = FakeCluster({"t": 1})
    fill(cluster, 50, 50, 4)

    async def scenario() -> None:
        async with consumer(cluster) as target:
            batches = [batch async for batch in target.read_range(T0, 3, 48, batch_rows=20)]
            assert [len(batch) for batch in batches] == [17, 20, 8]
            assert [each for batch in batches for each in batch.column("offset").to_pylist()] == list(range(3, 48))

    run(scenario())


def test_gaps_markers_and_aborted_transactions_leave_no_rows() -> None:
    cluster = FakeCluster({"t": 1})

    def add(batch: bytes) -> None:
        cluster.logs[T0].append(bytearray(batch))

    def transaction(base: int, producer_id: int) -> bytes:
        facts = {"producer_id": producer_id, "producer_epoch": 0, "base_sequence": 0, "attributes": TRANSACTIONAL}
        return bytes(build_batch([NewRecord(None, b"%d" % base)], base_offset=base, **facts))

    def marker(base: int, producer_id: int, commit: bool) -> bytes:
        facts = {"producer_id": producer_id, "producer_epoch": 0, "coordinator_epoch": 0, "timestamp": 0}
        return bytes(build_marker(commit=commit, base_offset=base, **facts))

    add(transaction(0, 1))
    add(marker(1, 1, False))
    add(bytes(build_batch([NewRecord(None, b"10")], base_offset=10)))  # 2 to 9 were compacted away
    add(transaction(11, 2))
    add(marker(12, 2, True))

    def answer(_: int, request: Any) -> Any:
        response = cluster._fetch(1, request)
        if not isinstance(response, asyncio.Future):
            m = messages.fetch_response
            data = response.responses[0].partitions[0]
            data.aborted_transactions = [m.AbortedTransaction(producer_id=1, first_offset=0)]
        return response

    cluster.script[ApiKey.FETCH].extend([answer] * 5)

    async def scenario() -> None:
        async with consumer(cluster, isolation_level="read_committed") as target:
            assert [row["offset"] for row in await rows_of(target, 0, 13)] == [10, 11]

    run(scenario())


def test_the_brokers_time_is_told_as_such() -> None:
    cluster = FakeCluster({"t": 1})
    batch = bytearray(build_batch([NewRecord(None, b"x", timestamp=5)]))
    set_max_timestamp_in_place(batch, next(iter(iter_batches(batch))), 90, log_append_time=True)
    cluster.append(T0, batch)

    async def scenario() -> None:
        async with consumer(cluster) as target:
            (row,) = await rows_of(target, 0, 1)
            assert (row["timestamp"].timestamp(), row["timestamp_type"]) == (0.09, 1)

    run(scenario())


def test_offsets_that_are_gone_are_an_error() -> None:
    cluster = FakeCluster({"t": 1})
    cluster.log_starts[T0] = 100
    fill(cluster, 3, 3)

    async def scenario() -> None:
        async with consumer(cluster) as target:
            with pytest.raises(ClientError) as raised:
                await rows_of(target, 50, 102)
            assert raised.value.code is ErrorCode.OFFSET_OUT_OF_RANGE

    run(scenario())


def test_offsets_that_do_not_come_are_a_timeout() -> None:
    cluster = FakeCluster({"t": 1})
    fill(cluster, 3, 3)

    async def scenario() -> None:
        async with consumer(cluster, default_api_timeout_ms=60) as target:
            with pytest.raises(
                ClientTimeoutError, match=r"nothing at offset 3 within 0\.06 s; the high watermark is 3"
            ):
                await rows_of(target, 0, 10)

    run(scenario())


def test_a_range_follows_the_leader() -> None:
    cluster = FakeCluster({"t": 1})
    fill(cluster, 6, 3)

    async def scenario() -> None:
        async with consumer(cluster) as target:
            assert len(await rows_of(target, 0, 6)) == 6
            cluster.move_leader(T0, 2)
            assert len(await rows_of(target, 0, 6)) == 6

    run(scenario())


def test_damaged_batches_are_named() -> None:
    cluster = FakeCluster({"t": 1})
    fill(cluster, 3, 3)
    cluster.logs[T0][0][70] ^= 0xFF

    async def scenario() -> None:
        async with consumer(cluster) as target:
            with pytest.raises(ClientError, match="t-0: the batch at offset 0 has a wrong CRC"):
                await rows_of(target, 0, 3)

    run(scenario())


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD])
@pytest.mark.parametrize("magic", [1, 2])
def test_what_becomes_much_is_opened_by_another_thread(
    codec: Codec, magic: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And what it becomes is bounded as for a consumer."""
    monkeypatch.setattr(range_reader, "AT_ONCE_BYTES", 10_000)
    monkeypatch.setattr(fetch_buffer, "_OLD_AT_ONCE_BYTES", 10_000)
    by: list[bool] = []
    take = fetch_buffer.Chunk.take_batch

    def noted(*arguments: Any) -> Any:
        found = take(*arguments)
        if found is not None:
            by.append(threading.current_thread() is threading.main_thread())
        return found

    monkeypatch.setattr(fetch_buffer.Chunk, "take_batch", noted)
    cluster = FakeCluster({"t": 1})
    for number, size in enumerate((1, 500, 1)):
        batch = build_batch([NewRecord(None, bytes(size)) for _ in range(40)], codec=codec, base_offset=40 * number)
        if magic == 1 and codec is not Codec.ZSTD:  # which messages of that format cannot have
            batch = bytearray(messages_around(decode_records(batch, BatchHeader.read(batch)), 1, codec, 0))
        cluster.logs[T0].append(batch)

    async def scenario() -> None:
        async with consumer(cluster) as target:
            assert [len(row["value"]) for row in await rows_of(target, 0, 120)] == [1] * 40 + [500] * 40 + [1] * 40
            monkeypatch.setattr(range_reader, "DECOMPRESSED_LIMIT_BYTES", 10_000)
            monkeypatch.setattr(record_codec, "DECOMPRESSED_LIMIT_BYTES", 10_000)
            monkeypatch.setattr(fetch_buffer, "DECOMPRESSED_LIMIT_BYTES", 10_000)
            with pytest.raises(ClientError, match=r"t-0: .*batch at offset (40|79).* limit of 10000 bytes"):
                await rows_of(target, 0, 120)

    asyncio.run(scenario())  # threads have no virtual time
    assert by == [True, False, True, True]


def test_the_synchronous_face() -> None:
    cluster = FakeCluster({"t": 1})
    fill(cluster, 30, 4)
    with SyncConsumer(bootstrap_servers="fake:9001", opener=cluster.open) as target:
        batches = list(target.read_range(T0, 2, 29, batch_rows=10))
    assert sum(batch.num_rows for batch in batches) == 27 and len(batches) == 3
