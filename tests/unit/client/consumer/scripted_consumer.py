"""A consumer against a scripted cluster, on virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from kafkalite.client.consumer.consumer import Consumer
from kafkalite.client.record_codec import BatchWriter
from kafkalite.testing.simulation import virtual_time
from kafkalite.types import TopicPartition
from tests.unit.client.fake_broker import FakeCluster

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def run(coroutine: Coroutine[Any, Any, None]) -> None:
    async def in_time() -> None:
        async with asyncio.timeout(20):
            await coroutine

    virtual_time.run(in_time())


def consumer(cluster: FakeCluster, **options: Any) -> Consumer:
    options = {
        "auto_offset_reset": "earliest",
        "retry_backoff_ms": 2,
        "retry_backoff_max_ms": 10,
        "fetch_max_wait_ms": 20,
        **options,
    }
    return Consumer(bootstrap_servers="fake:9001", opener=cluster.open, **options)


def fill(cluster: FakeCluster, tp: TopicPartition, count: int, *, batch_records: int = 3, first_ms: int = 0) -> None:
    """Records with values "0", "1", … and timestamps in seconds."""
    number = 0
    while number < count:
        writer = BatchWriter(1 << 20)
        for _ in range(min(batch_records, count - number)):
            writer.append(first_ms + number * 1000, b"k", b"%d" % number, [])
            number += 1
        cluster.append(tp, writer.build(0))


async def offsets(target: Consumer, count: int) -> list[int]:
    found = []
    async for record in target:
        found.append(record.offset)
        if len(found) == count:
            break
    return found
