"""The controller dies after any number of requests to ZooKeeper; the next one brings every operation to its end."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from kafkalite.errors import KafkaError
from kafkalite.testing.simulation.virtual_time import run
from kafkalite.types import TopicPartition
from tests.unit.controller.fake_cluster import FakeCluster
from zk import paths


async def _die_during(cluster: FakeCluster, after_requests: int, operation: Callable[[], Awaitable[object]]) -> None:
    """Run the operation; controller 1 loses its session after so many requests, at the latest when all is done."""
    member = cluster.members[1]
    answer_next, count = member.store._answer_next, 0

    def die() -> None:
        member.store._cut_off = True
        cluster.zookeeper.expire(member.store.session_id)

    def count_and_die() -> None:
        nonlocal count
        if count == after_requests:
            die()
        count += 1
        answer_next()

    member.store._answer_next = count_and_die  # type: ignore[method-assign]
    try:
        await operation()
    except KafkaError:
        pass  # who asks a dying controller may be refused
    await cluster.quiet()
    if count <= after_requests:
        die()
    del cluster.members[1]
    await cluster.until(lambda: any(m.controller.is_active for m in cluster.members.values()), "failover")
    await cluster.quiet()


@pytest.mark.parametrize("after_requests", range(24))
def test_completing_a_reassignment(after_requests: int) -> None:
    async def scenario() -> None:
        cluster = await FakeCluster().start(1, 2, 3, 4)
        await cluster.create_topic("t", [2, 3])

        async def reassign() -> None:
            await cluster.controller.alter_partition_reassignments({TopicPartition("t", 0): (4, 3)})
            await cluster.quiet()
            await cluster.alter_partition("t-0", 2, [2, 3, 4])

        await _die_during(cluster, after_requests, reassign)
        if not (await cluster.topic("t")).adding and (await cluster.topic("t")).partitions[0] == (2, 3):
            await cluster.controller.alter_partition_reassignments({TopicPartition("t", 0): (4, 3)})  # it had not begun
            await cluster.quiet()
        leader = (await cluster.state("t-0")).leader
        if (await cluster.topic("t")).adding:
            await cluster.alter_partition("t-0", leader, [2, 3, 4])
        topic = await cluster.topic("t")
        assert (topic.partitions[0], dict(topic.adding), dict(topic.removing)) == ((4, 3), {}, {})
        state = await cluster.state("t-0")
        assert state.leader in (3, 4)
        assert set(state.isr) == {3, 4}
        assert cluster.brokers[2].stopped("t-0")[-1][0], "the removed replica is deleted"
        await cluster.stop()

    run(scenario())


@pytest.mark.parametrize("after_requests", range(20))
def test_deleting_a_topic(after_requests: int) -> None:
    async def scenario() -> None:
        cluster = await FakeCluster().start(1, 2, 3)
        await cluster.create_topic("t", [2, 3], [3, 2])
        await _die_during(cluster, after_requests, lambda: cluster.delete_topic("t"))
        for path in (paths.topic("t"), paths.topic_config("t"), paths.delete_topic("t")):
            assert not await cluster.has(path), path
        assert not cluster.controller.cluster.topics
        assert not cluster.brokers[2].leaders
        await cluster.stop()

    run(scenario())


@pytest.mark.parametrize("after_requests", range(8))
def test_a_broker_that_hands_over(after_requests: int) -> None:
    async def scenario() -> None:
        cluster = await FakeCluster().start(1, 2, 3)
        await cluster.create_topic("t", [2, 3], [3, 2])

        async def shut_down() -> None:
            await cluster.controller.controlled_shutdown(2, cluster.brokers[2].epoch)

        await _die_during(cluster, after_requests, shut_down)
        if cluster.controller.broker_id == 2:
            return  # it governs again, and will be asked again by itself
        assert await cluster.controller.controlled_shutdown(2, cluster.brokers[2].epoch) == []
        for partition in ("t-0", "t-1"):
            assert (await cluster.short_state(partition))[:2] == (3, [3])
        await cluster.stop()

    run(scenario())


@pytest.mark.parametrize("after_requests", range(12))
def test_a_broker_dies_and_the_controller_while_it_elects(after_requests: int) -> None:
    async def scenario() -> None:
        cluster = await FakeCluster().start(1, 2, 3)
        await cluster.create_topic("t", [2, 3], [3, 2])
        await _die_during(cluster, after_requests, lambda: cluster.kill(2))
        for partition in ("t-0", "t-1"):
            assert (await cluster.short_state(partition))[:2] == (3, [3])
            assert cluster.brokers[3].told(partition)[-1][:3] == (3, (await cluster.state(partition)).leader_epoch, [3])
        await cluster.stop()

    run(scenario())
