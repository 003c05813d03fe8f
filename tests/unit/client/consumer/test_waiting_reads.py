"""Reads of the buffer: what follows from them is called for where there is something to do, since that wakes another thread."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, cast

import pytest

from kafkalite.client.consumer.fetch_buffer import FetchBuffer
from kafkalite.client.consumer.fetcher import Fetcher
from kafkalite.client.consumer.large_batches import LargeBatches
from kafkalite.client.consumer.waiting_reads import BufferedReads
from kafkalite.types import TopicPartition
from tests.unit.client.consumer.scripted_consumer import T0, consumer, fill, run
from tests.unit.client.fake_broker import FakeCluster


class _Fetcher:
    def __init__(self, waits_for_reader: bool) -> None:
        self.waits_for_reader = waits_for_reader


def count_calls(*, freed_bytes: int, waits: bool, fails: bool = False, is_deferred: bool = False) -> int:
    """Return how often one read calls for what follows from it."""
    buffer = FetchBuffer(1000)
    buffer.buffered_bytes = 500
    if is_deferred:
        buffer.deferred = cast(Any, object())
    calls: list[object] = []

    def read(limit: int, only: Collection[TopicPartition] | None) -> dict[TopicPartition, list[int]]:
        buffer.buffered_bytes -= freed_bytes
        if fails:
            raise KeyboardInterrupt
        return {T0: [1]}

    reads = BufferedReads(buffer, cast(LargeBatches, None), cast(Fetcher, _Fetcher(waits)))
    if fails:
        with pytest.raises(KeyboardInterrupt):
            reads.read(read, 10, None, calls.append)
    else:
        assert reads.read(read, 10, None, calls.append) == {T0: [1]}
    return len(calls)


def test_freed_room_is_told_of_while_a_fetch_waits_for_it() -> None:
    assert count_calls(freed_bytes=100, waits=True) == 1
    assert count_calls(freed_bytes=100, waits=False) == 0, "the next fetch is under way"
    assert count_calls(freed_bytes=0, waits=True) == 0


def test_a_read_that_was_interrupted_and_a_deferred_batch_are_told_of_always() -> None:
    assert count_calls(freed_bytes=100, waits=False, fails=True) == 1
    assert count_calls(freed_bytes=0, waits=False, is_deferred=True) == 1


def test_a_full_buffer_waits_for_the_reader_and_an_empty_one_for_the_broker() -> None:
    cluster = FakeCluster({"t": 1})
    fill(cluster, T0, 300, batch_records=10)

    async def scenario() -> None:
        async with consumer(cluster, max_partition_fetch_bytes=1000) as target:
            target.assign([T0])
            seen = len((await target.getmany(timeout_ms=1000, max_records=1))[T0])
            while not target._fetcher.waits_for_reader:
                await target._wait_for_news()
            while seen < 300:
                seen += sum(map(len, (await target.getmany(timeout_ms=1000, max_records=7)).values()))
            assert not await target.getmany(timeout_ms=100)
            assert not target._fetcher.waits_for_reader

    run(scenario())
