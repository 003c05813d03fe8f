"""A producer against a scripted cluster, on virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from kafkalite.client.producer.producer import Producer
from kafkalite.protocol import messages
from kafkalite.testing.simulation import virtual_time
from kafkalite.types import TopicPartition
from tests.unit.client.fake_broker import FakeCluster

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def run(coroutine: Coroutine[Any, Any, None]) -> None:
    async def in_time() -> None:
        async with asyncio.timeout(20):
            await coroutine

    virtual_time.run(in_time())


def producer(cluster: FakeCluster, **options: Any) -> Producer:
    options = {"bootstrap_servers": "fake:9001", "retry_backoff_ms": 2, "retry_backoff_max_ms": 10, **options}
    return Producer(opener=cluster.open, **options)


def failing(code: int, times: int = 1) -> list[Any]:
    """Scripted Produce answers with an error for every partition."""

    def answer(_: int, request: Any) -> Any:
        m = messages.produce_response
        return m.ProduceResponse(
            responses=[
                m.TopicProduceResponse(
                    name=topic.name,
                    partition_responses=[
                        m.PartitionProduceResponse(index=each.index, error_code=code) for each in topic.partition_data
                    ],
                )
                for topic in request.topic_data
            ]
        )

    return [answer] * times
