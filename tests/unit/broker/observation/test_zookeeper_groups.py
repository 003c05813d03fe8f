"""Groups in ZooKeeper: which broker tells of them, how often it asks, and what it makes of what it finds."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from kafkalite.broker.observation import group_metrics
from kafkalite.broker.observation.groups import GroupView, TopicLag
from kafkalite.broker.observation.zookeeper_groups import ASK_AGAIN_S, ZooKeeperGroups
from kafkalite.testing.simulation import virtual_time
from kafkalite.types import TopicPartition
from tests.unit.broker.observation.fake_broker import FakeBroker
from zk import paths
from zk.memory.memory_store import MemoryStore, MemoryZooKeeper

ENDS = {TopicPartition("t", 0): 10, TopicPartition("t", 1): 20}


def looking(scenario: Callable[[Any, ZooKeeperGroups], Awaitable[None]], **settings: str) -> None:
    """Runs a scenario with a broker that is the controller, and its view of the groups in a ZooKeeper of its own."""

    async def run() -> None:
        broker: Any = FakeBroker(**settings)
        broker.metadata.controller_id = broker.broker_id
        broker.store = MemoryStore(MemoryZooKeeper())
        await broker.store.start(10)
        await scenario(broker, ZooKeeperGroups(broker, ENDS.get))
        await broker.store.close()

    virtual_time.run(run())


async def commit(broker: Any, group: str, topic: str, partition: int, offset: bytes) -> None:
    await broker.store.create(paths.consumer_offset(group, topic, partition), offset, parents=True)


async def look(groups: ZooKeeperGroups) -> list[GroupView]:
    groups.refresh()
    await groups.wait_for_answers()
    return list(groups.views)


def test_lag_is_the_high_watermark_less_what_lies_in_zookeeper() -> None:
    async def scenario(broker: Any, groups: ZooKeeperGroups) -> None:
        await commit(broker, "old", "t", 0, b"4")
        await commit(broker, "old", "t", 1, b"20")
        await commit(broker, "old", "gone", 0, b"1")
        await broker.store.create(paths.consumer_id("old", "member-1"), b"{}", parents=True)
        (found,) = await look(groups)
        assert (found.group_id, found.members, found.lag) == ("old", 1, 6)
        assert found.topics == {"t": TopicLag(6, 6, 2, 0), "gone": TopicLag(partitions=1, unknown=1)}

    looking(scenario)


def test_groups_without_offsets_or_with_garbage_are_left_out() -> None:
    async def scenario(broker: Any, groups: ZooKeeperGroups) -> None:
        await broker.store.create(paths.consumer_ids("only-members"), parents=True)
        await commit(broker, "garbage", "t", 0, b"\xff\xfe")
        await commit(broker, "old", "t", 0, b"10")
        assert [each.group_id for each in await look(groups)] == ["old"]

    looking(scenario)


def test_only_the_controller_asks_and_tells() -> None:
    async def scenario(broker: Any, groups: ZooKeeperGroups) -> None:
        await commit(broker, "old", "t", 0, b"1")
        broker.metadata.controller_id = 2
        assert await look(groups) == []
        broker.metadata.controller_id = 1
        assert len(await look(groups)) == 1
        broker.metadata.controller_id = 2
        assert await look(groups) == []

    looking(scenario)


def test_zookeeper_is_not_asked_again_and_again() -> None:
    async def scenario(broker: Any, groups: ZooKeeperGroups) -> None:
        assert await look(groups) == []
        await commit(broker, "old", "t", 0, b"1")
        assert await look(groups) == []
        await asyncio.sleep(ASK_AGAIN_S)
        assert len(await look(groups)) == 1

    looking(scenario)


def test_at_most_so_many_groups_are_read() -> None:
    async def scenario(broker: Any, groups: ZooKeeperGroups) -> None:
        for name in "cab":
            await commit(broker, name, "t", 0, b"1")
        assert [each.group_id for each in await look(groups)] == ["a", "b"]
        assert groups.omitted == 1

    looking(scenario, kafkalite_metrics_max_groups="2")


def test_metrics_have_names_of_their_own() -> None:
    view = GroupView("old", "ZooKeeper", 1, 2, {"t": TopicLag(6, 5, 2)})
    found: dict[str, Any] = {family.name: family.samples for family in group_metrics.zookeeper_families([view], 3)}
    assert {name: [(each.labels, each.value) for each in samples] for name, samples in found.items()} == {
        "kafkalite_zookeeper_group_lag_records": [('group="old",topic="t"', 6)],
        "kafkalite_zookeeper_group_lag_max_records": [('group="old",topic="t"', 5)],
        "kafkalite_zookeeper_group_members": [('group="old"', 2)],
        "kafkalite_metrics_omitted_zookeeper_groups": [("", 3)],
    }
