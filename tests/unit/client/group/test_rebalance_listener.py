"""What a rebalance listener raises is logged, and does not end the membership."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from kafkalite.types import TopicPartition
from tests.unit.client.consumer.scripted_consumer import fill
from tests.unit.client.fake_broker import FakeCluster
from tests.unit.client.group.scripted_group import group_cluster
from tests.unit.client.hostile_broker import T0, consumer, run


async def fail(_: set[TopicPartition]) -> None:
    raise ValueError("mine")


async def await_cancelled_task(_: set[TopicPartition]) -> None:
    task = asyncio.create_task(asyncio.sleep(1))
    task.cancel()
    await task


@pytest.mark.parametrize("method", [fail, await_cancelled_task])
def test_a_listener_that_raises_does_not_end_the_membership(method: Any, caplog: pytest.LogCaptureFixture) -> None:
    """A membership that ended in silence would leave the program waiting for records."""

    class Listener:
        on_partitions_assigned = staticmethod(method)

    async def scenario(cluster: FakeCluster) -> None:
        fill(cluster, T0, 3)
        async with consumer(cluster, group_id="g", enable_auto_commit=False) as target:
            target.subscribe(["t"], listener=Listener())
            found = await target.getmany(timeout_ms=5000)
            assert [record.offset for record in found[T0]] == [0, 1, 2]

    run(scenario, group_cluster())
    assert "on_partitions_assigned of the rebalance listener failed" in caplog.text


def test_a_close_does_not_wait_for_a_listener_that_awaits_for_ever() -> None:
    class Listener:
        async def on_partitions_assigned(self, _: set[TopicPartition]) -> None:
            await asyncio.get_running_loop().create_future()

    async def scenario(cluster: FakeCluster) -> None:
        async with consumer(cluster, group_id="g", enable_auto_commit=False) as target:
            target.subscribe(["t"], listener=Listener())
            await target.getmany(timeout_ms=1000)
            before_s = asyncio.get_running_loop().time()
        assert asyncio.get_running_loop().time() - before_s < 1

    run(scenario, group_cluster())
