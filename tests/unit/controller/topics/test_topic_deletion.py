"""Topics are deleted on every broker, wait for those that are away, and survive a change of controller on the way."""

from __future__ import annotations

import asyncio

from kafkalite.testing.simulation.virtual_time import run
from kafkalite.types import TopicPartition
from tests.unit.controller.fake_cluster import FakeCluster
from zk import paths


async def _is_gone(cluster: FakeCluster, name: str) -> bool:
    kept = [paths.topic(name), paths.topic_config(name), paths.delete_topic(name)]
    return not any([await cluster.has(path) for path in kept])


def test_a_topic_is_stopped_deleted_and_forgotten() -> None:
    async def scenario() -> None:
        cluster = await FakeCluster().start(1, 2, 3)
        await cluster.create_topic("t", [1, 2], [2, 3])
        await cluster.delete_topic("t")
        assert await _is_gone(cluster, "t")
        assert cluster.brokers[1].stopped("t-0") == [(False, -2), (True, -2)]
        assert cluster.brokers[2].stopped("t-1") == [(False, -2), (True, -2)]
        assert -2 in [state.leader for state in cluster.brokers[3].metadata_of("t-0")]
        assert all(not broker.leaders for broker in cluster.brokers.values())
        await cluster.create_topic("t", [3, 2])
        assert await cluster.short_state("t-0") == (3, [3, 2], 0)
        await cluster.stop()

    run(scenario())


def test_deletion_waits_for_a_broker_that_is_down() -> None:
    async def scenario() -> None:
        cluster = await FakeCluster().start(1, 2, 3)
        await cluster.create_topic("t", [2, 3])
        await cluster.kill(3)
        await cluster.delete_topic("t")
        assert await cluster.has(paths.topic("t"))
        assert cluster.brokers[2].stopped("t-0")[-1] == (True, -2)
        assert cluster.controller.statistics()["topics_ineligible_to_delete_count"] == 1
        await cluster.restart(3)
        assert await _is_gone(cluster, "t")
        assert cluster.brokers[3].stopped("t-0")[-1] == (True, -2)
        await cluster.stop()

    run(scenario())


def test_a_broker_dies_while_it_is_to_delete() -> None:
    async def scenario() -> None:
        cluster = await FakeCluster().start(1, 2, 3)
        await cluster.create_topic("t", [2, 3])
        cluster.brokers[3].unreachable = True
        await cluster.delete_topic("t")
        assert await cluster.has(paths.topic("t"))
        await cluster.kill(3)
        await cluster.restart(3)
        assert await _is_gone(cluster, "t")
        await cluster.stop()

    run(scenario())


def test_a_failed_deletion_is_tried_again_when_the_broker_comes_back() -> None:
    async def scenario() -> None:
        cluster = await FakeCluster().start(1, 2)
        await cluster.create_topic("t", [1, 2])
        cluster.brokers[2].delete_errors[TopicPartition("t", 0)] = 56
        await cluster.delete_topic("t")
        assert await cluster.has(paths.delete_topic("t"))
        await cluster.kill(2)
        await cluster.restart(2)
        assert await _is_gone(cluster, "t")
        await cluster.stop()

    run(scenario())


def test_the_next_controller_finishes_a_deletion() -> None:
    async def scenario() -> None:
        cluster = await FakeCluster().start(1, 2, 3)
        await cluster.create_topic("t", [2, 3])
        cluster.brokers[3].unreachable = True
        await cluster.delete_topic("t")
        await cluster.kill(1)
        assert await cluster.has(paths.topic("t"))
        cluster.brokers[3].unreachable = False
        await cluster.until(lambda: "t" not in cluster.controller.cluster.topics, "deletion")
        await cluster.quiet()
        assert await _is_gone(cluster, "t")
        await cluster.stop()

    run(scenario())


def test_markers_without_a_topic_vanish_and_so_do_all_when_deletion_is_disabled() -> None:
    async def scenario() -> None:
        cluster = await FakeCluster(delete_topic_enable=False).start(1)
        await cluster.create_topic("t", [1])
        await cluster.delete_topic("t")
        await cluster.delete_topic("ghost")
        assert await cluster.has(paths.topic("t"))
        assert not await cluster.has(paths.delete_topic("t"))
        assert not await cluster.has(paths.delete_topic("ghost"))
        await cluster.stop()

    run(scenario())


def test_partitions_added_to_a_topic_that_is_being_deleted_are_taken_back() -> None:
    async def scenario() -> None:
        cluster = await FakeCluster().start(1, 2)
        await cluster.create_topic("t", [1, 2])
        cluster.brokers[2].unreachable = True
        await cluster.delete_topic("t")
        before = await cluster.topic("t")
        grown = type(before)({**before.partitions, 1: (1,)}, before.topic_id)
        await cluster.tool.write(paths.topic("t"), grown.encode())
        await cluster.quiet()
        assert (await cluster.topic("t")).partitions == before.partitions
        await cluster.stop()

    run(scenario())


def test_who_waits_for_a_deletion_hears_of_it_at_once_and_at_the_end_of_a_term() -> None:
    async def scenario() -> None:
        cluster = await FakeCluster().start(1, 2)
        controller = cluster.controller
        assert await controller.wait_until_deleted("never-made", 0)
        for name in ("t", "stuck"):
            await cluster.create_topic(name, [1, 2])
        waiting = asyncio.ensure_future(controller.wait_until_deleted("t", 5))
        await cluster.delete_topic("t")
        assert waiting.done() and await waiting
        cluster.brokers[2].unreachable = True
        await cluster.delete_topic("stuck")
        assert not await controller.wait_until_deleted("stuck", 0.5)
        waiting = asyncio.ensure_future(controller.wait_until_deleted("stuck", 5))
        await cluster.quiet()
        await controller.stop()
        assert await waiting, "whoever governs next does the rest"
        await cluster.stop()

    run(scenario())


def test_who_waits_for_brokers_to_know_waits_for_the_slowest_and_not_for_ever() -> None:
    async def scenario() -> None:
        cluster = await FakeCluster().start(1, 2)
        controller = cluster.controller
        await cluster.create_topic("t", [1, 2])
        assert await controller.wait_until_brokers_know(0.5)
        cluster.brokers[2].unreachable = True
        await cluster.create_topic("u", [1])
        assert not await controller.wait_until_brokers_know(0.5)
        waiting = asyncio.ensure_future(controller.wait_until_brokers_know(5))
        cluster.brokers[2].unreachable = False
        await cluster.quiet()
        assert await waiting
        await controller.stop()
        assert await controller.wait_until_brokers_know(0), "whoever governs next tells them"
        await cluster.stop()

    run(scenario())
