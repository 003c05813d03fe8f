"""Closing a consumer that cannot say goodbye in order."""

from __future__ import annotations

import asyncio

import pytest

from tests.unit.client.consumer.scripted_consumer import fill
from tests.unit.client.fake_broker import HANG, FakeCluster
from tests.unit.client.group.scripted_group import group_cluster
from tests.unit.client.hostile_broker import T0, consumer, run


def test_a_close_that_is_cancelled_leaves_no_task_and_no_connection() -> None:
    """A second `close` would find the consumer closed, and do nothing."""

    async def scenario(cluster: FakeCluster) -> None:
        fill(cluster, T0, 3)
        target = consumer(cluster, group_id="g", auto_commit_interval_ms=3600_000)
        await target.connect()
        target.subscribe(["t"])
        assert await target.getmany(timeout_ms=1000)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(2):
                await target.close()
        await target.close()
        assert not [each for each in asyncio.all_tasks() if each.get_name().startswith("kafkalite")]
        assert all(each.closed for each in cluster.connections)

    run(scenario, group_cluster(offset_commit=HANG))
