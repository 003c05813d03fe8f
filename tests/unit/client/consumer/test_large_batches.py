"""Batches that would hold the event loop: another thread opens them, and meanwhile nothing else waits. The bounds are low here."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import pytest

from kafkalite.client import record_reader
from kafkalite.client.consumer import fetch_buffer
from kafkalite.client.consumer.consumer import Consumer
from kafkalite.client.errors import ClientError
from kafkalite.protocol.record_batches.compression import Codec
from kafkalite.protocol.record_batches.legacy_records import messages_around
from kafkalite.protocol.record_batches.records import BatchHeader, NewRecord, build_batch, decode_records
from kafkalite.types import TopicPartition
from tests.unit.client.fake_broker import FakeCluster
from tests.unit.client.hostile_broker import T0, consumer

T1 = TopicPartition("t", 1)
LARGE = [NewRecord(None, bytes(500)) for _ in range(40)]
SMALL = [NewRecord(None, b"small")]


@pytest.fixture(autouse=True)
def low_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetch_buffer, "AT_ONCE_BYTES", 10_000)
    monkeypatch.setattr(fetch_buffer, "_OLD_AT_ONCE_BYTES", 10_000)
    monkeypatch.setattr(fetch_buffer, "_RECORDS_AT_ONCE", 30)


@pytest.fixture
def opened_by(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[bool]]:
    """For each batch that was decompressed whole: was it the thread of the event loop?"""
    seen: list[bool] = []
    whole = record_reader.encoded_records

    def noted(*arguments: Any) -> Any:
        opened = whole(*arguments)
        seen.append(threading.current_thread() is threading.main_thread())
        return opened

    monkeypatch.setattr(record_reader, "encoded_records", noted)
    yield seen


def cluster_of(*batches: bytes | bytearray, other: bytes | bytearray | None = None) -> FakeCluster:
    cluster = FakeCluster({"t": 2}, brokers=1)
    for each in batches:
        cluster.append(T0, each)
    if other is not None:
        cluster.append(T1, other)
    return cluster


def run(scenario: Callable[[FakeCluster], Coroutine[Any, Any, None]], cluster: FakeCluster) -> None:
    """On a real loop, since threads have no virtual time."""

    async def in_time() -> None:
        async with asyncio.timeout(60):
            await scenario(cluster)

    asyncio.run(in_time())


async def read(target: Consumer, count: int) -> list[int]:
    found: list[int] = []
    while len(found) < count:
        for records in (await target.getmany(timeout_ms=1000)).values():
            found += [each.offset for each in records]
    return found


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD])
def test_a_large_batch_is_opened_by_another_thread(codec: Codec, opened_by: list[bool]) -> None:
    async def scenario(cluster: FakeCluster) -> None:
        async with consumer(cluster) as target:
            target.assign([T0])
            assert await read(target, 82) == list(range(82))

    small = build_batch(SMALL, codec=codec)
    cluster = cluster_of(small, build_batch(LARGE, codec=codec), small, build_batch(LARGE, codec=codec))
    run(scenario, cluster)
    assert opened_by.count(False) == 2


@pytest.fixture
def may_open(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """The other thread waits for it."""
    allowed = threading.Event()
    open_deferred = fetch_buffer.Chunk.open_deferred

    def late(chunk: fetch_buffer.Chunk) -> Any:
        assert allowed.wait(60)
        return open_deferred(chunk)

    monkeypatch.setattr(fetch_buffer.Chunk, "open_deferred", late)
    return allowed


def test_another_partition_is_read_meanwhile(may_open: threading.Event) -> None:
    async def scenario(cluster: FakeCluster) -> None:
        async with consumer(cluster) as target:
            target.assign([T0, T1])
            found = {}
            while not found:
                found = await target.getmany(timeout_ms=1000)
            assert list(found) == [T1]
            may_open.set()
            assert await read(target, 40) == list(range(40))

    run(scenario, cluster_of(build_batch(LARGE, codec=Codec.ZSTD), other=build_batch(SMALL)))


def test_a_seek_leaves_what_is_being_opened(may_open: threading.Event) -> None:
    async def scenario(cluster: FakeCluster) -> None:
        async with consumer(cluster) as target:
            target.assign([T0])
            while target._buffer.deferred is None:
                await target.getmany(timeout_ms=100)
            target.seek(T0, 40)
            assert target._buffer.deferred is None
            may_open.set()
            assert await read(target, 1) == [40]

    run(scenario, cluster_of(build_batch(LARGE, codec=Codec.ZSTD), build_batch(SMALL)))


def test_a_position_behind_many_records_is_looked_for_by_another_thread(opened_by: list[bool]) -> None:
    async def scenario(cluster: FakeCluster) -> None:
        async with consumer(cluster) as target:
            target.assign([T0])
            target.seek(T0, 38)
            assert await read(target, 2) == [38, 39]

    few = [NewRecord(None, b"v") for _ in range(40)]
    run(scenario, cluster_of(build_batch(few, codec=Codec.ZSTD)))
    assert opened_by == [False]


def test_a_large_batch_that_cannot_be_read_is_told_each_time() -> None:
    batch = build_batch(LARGE, codec=Codec.ZSTD)
    broken = bytearray(batch)
    broken[-3:] = b"xxx"

    async def scenario(cluster: FakeCluster) -> None:
        async with consumer(cluster, check_crcs=False) as target:
            target.assign([T0])
            for _ in range(2):
                with pytest.raises(ClientError, match="t-0: batch at offset 0"):
                    await read(target, 1)
            assert await target.position(T0) == 0
            target.seek(T0, 40)
            assert await read(target, 1) == [40]

    run(scenario, cluster_of(broken, build_batch(SMALL)))


def test_messages_of_old_formats_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """A wrapper, as brokers of 0.10 stored them."""
    apart: list[int] = []
    open_deferred = fetch_buffer.Chunk.open_deferred
    monkeypatch.setattr(fetch_buffer.Chunk, "open_deferred", lambda chunk: apart.append(1) or open_deferred(chunk))

    async def scenario(cluster: FakeCluster) -> None:
        async with consumer(cluster) as target:
            target.assign([T0])
            assert await read(target, 40) == list(range(40))

    batch = build_batch(LARGE)
    cluster = cluster_of()
    cluster.logs[T0].append(
        bytearray(messages_around(decode_records(batch, BatchHeader.read(batch)), 1, Codec.GZIP, 0))
    )
    run(scenario, cluster)
    assert apart == [1]
