"""What tests of brokers that lie, babble or refuse for ever share.

The cluster answers at once and time is virtual, so a client that asks without pause asks for ever: `Always` stops answering then.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any

from kafkalite.client.consumer.consumer import Consumer
from kafkalite.protocol import messages
from kafkalite.protocol.apis import ApiKey
from kafkalite.testing.simulation import virtual_time
from kafkalite.types import TopicPartition
from tests.unit.client.fake_broker import HANG, FakeCluster

T0 = TopicPartition("t", 0)
SECONDS = 10
REQUESTS_A_SECOND = 60
"""Of all kinds together. Without a pause it would be thousands."""


class Always(deque[Any]):
    """A script that answers every request of an API with `answer(broker id, request)`, or with `answer` itself."""

    def __init__(self, answer: Any, limit: int = 3000) -> None:
        super().__init__([answer if callable(answer) else lambda *_: answer])
        self.limit, self.count = limit, 0

    def popleft(self) -> Any:
        self.count += 1
        return self[0] if self.count <= self.limit else HANG


def run(
    scenario: Callable[[FakeCluster], Coroutine[Any, Any, None]], cluster: FakeCluster | None = None
) -> FakeCluster:
    made = cluster or FakeCluster({"t": 1}, brokers=1)
    for key in ApiKey:
        made.script[key] = made.script[key] or Always(None)

    async def in_time() -> None:
        async with asyncio.timeout(600):
            await scenario(made)

    virtual_time.run(in_time())
    return made


def consumer(cluster: FakeCluster, **options: Any) -> Consumer:
    return Consumer(
        bootstrap_servers="fake:9001",
        opener=cluster.open,
        chance=lambda: 0.5,
        **{"auto_offset_reset": "earliest", "fetch_max_wait_ms": 500, **options},
    )


def metadata_answer(leader: int = 1, brokers: int = 1, **facts: Any) -> Any:
    m = messages.metadata_response
    partition = m.MetadataResponsePartition(partition_index=0, leader_id=leader, leader_epoch=facts.pop("epoch", 0))
    return m.MetadataResponse(
        cluster_id=facts.pop("cluster_id", "fake"),
        brokers=[m.MetadataResponseBroker(node_id=n, host="fake", port=9000 + n) for n in range(1, brokers + 1)],
        topics=[m.MetadataResponseTopic(name="t", topic_id=bytes(15) + b"\1", partitions=[partition])],
    )
