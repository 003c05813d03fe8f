"""Brokers whose metadata changes all the time or tells of what nobody asked for: no client keeps it, nor connections to it."""

from __future__ import annotations

from collections import deque
from typing import Any

import pytest

from kafkalite.protocol import messages
from kafkalite.protocol.apis import ApiKey
from tests.unit.client.fake_broker import FakeCluster
from tests.unit.client.hostile_broker import T0, Always, consumer, metadata_answer, run


def test_metadata_of_what_nobody_asked_for_is_not_kept() -> None:
    def more(_: int, request: Any) -> Any:
        answer = metadata_answer()
        m = messages.metadata_response
        answer.topics += [m.MetadataResponseTopic(name=f"other{len(names)}-{n}") for n in range(100)]
        names.append(request)
        return answer

    names: list[Any] = []

    async def scenario(cluster: FakeCluster) -> None:
        cluster.script[ApiKey.METADATA] = Always(more)
        async with consumer(cluster, metadata_max_age_ms=100) as target:
            target.assign([T0])
            await target.getmany(timeout_ms=3000)
            assert len(names) > 5 and set(target._cluster.view.topics) == {"t"}

    run(scenario)


def test_connections_to_brokers_that_metadata_forgot_are_closed() -> None:
    moving = [metadata_answer() for _ in range(30)]
    for number, each in enumerate(moving):
        each.brokers[0].port = 9001 + number % 3
        each.brokers[0].host = f"fake{number}"

    async def scenario(cluster: FakeCluster) -> None:
        cluster.brokers = {n: ("fake", 9000 + n) for n in range(1, 4)}
        cluster.script[ApiKey.METADATA] = deque(lambda *_, each=each: each for each in moving)
        async with consumer(cluster, metadata_max_age_ms=100, fetch_max_wait_ms=50) as target:
            target.assign([T0])
            await target.getmany(timeout_ms=8000)
            assert not any(map(callable, cluster.script[ApiKey.METADATA]))
            assert len(target._cluster._links) < 5
            assert sum(not each.closed for each in cluster.connections) < 5

    run(scenario)


def test_a_cluster_that_becomes_another_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    ids = iter("abcdefghijklmnopqrstuvwxyz" * 10)

    async def scenario(cluster: FakeCluster) -> None:
        cluster.script[ApiKey.METADATA] = Always(lambda *_: metadata_answer(cluster_id=next(ids)))
        async with consumer(cluster, metadata_max_age_ms=100) as target:
            target.assign([T0])
            await target.getmany(timeout_ms=3000)

    run(scenario)
    assert sum("are of cluster" in each.message for each in caplog.records) == 1
