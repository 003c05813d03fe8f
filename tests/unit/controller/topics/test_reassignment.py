"""Partitions move to other brokers: by API, by the znode of old tools, cancelled, superseded, across failovers."""

from __future__ import annotations

from typing import Any

import pytest

from kafkalite.controller.assignment import ReplicaAssignment
from kafkalite.errors import ErrorCode
from kafkalite.testing.simulation.virtual_time import run
from kafkalite.types import TopicPartition
from tests.unit.controller.fake_cluster import FakeCluster, code_of
from zk import paths
from zk.znodes import PartitionName, ReassignPartitions


@pytest.mark.parametrize(
    ("before", "target", "after"),
    [
        (ReplicaAssignment((1, 2, 3)), (3, 4, 2), ReplicaAssignment((3, 4, 2, 1), (4,), (1,))),
        (ReplicaAssignment((3, 4, 2, 1), (4,), (1,)), (5, 2), ReplicaAssignment((5, 2, 3, 1), (5,), (3, 1))),
        (ReplicaAssignment((3, 4, 2, 1), (4,), (1,)), (3, 2, 1), ReplicaAssignment((3, 2, 1))),
        (ReplicaAssignment((1, 2)), (1, 2), ReplicaAssignment((1, 2))),
    ],
)
def test_arithmetic_of_kip_455(before: ReplicaAssignment, target: tuple[int, ...], after: ReplicaAssignment) -> None:
    assert before.reassign_to(target) == after


async def _reassign(cluster: FakeCluster, name: str, **targets: list[int] | None) -> dict[int, int]:
    wanted = {
        TopicPartition(name, int(index[1:])): None if replicas is None else tuple(replicas)
        for index, replicas in targets.items()
    }
    results = await cluster.controller.alter_partition_reassignments(wanted)
    await cluster.quiet()
    return {partition.partition: code_of(problem) for partition, problem in results.items()}


async def _listed(cluster: FakeCluster) -> dict[tuple[str, int], tuple[list[int], list[int], list[int]]]:
    moving = await cluster.controller.list_partition_reassignments(None)
    return {tuple(p): (list(a.replicas), list(a.adding), list(a.removing)) for p, a in moving.items()}


def test_a_partition_moves_to_other_brokers() -> None:
    async def scenario() -> None:
        cluster = await FakeCluster().start(1, 2, 3, 4)
        await cluster.create_topic("t", [1, 2])
        assert await _reassign(cluster, "t", p0=[3, 4]) == {0: 0}
        topic = await cluster.topic("t")
        assert (topic.partitions[0], topic.adding[0], topic.removing[0]) == ((3, 4, 1, 2), (3, 4), (1, 2))
        assert await _listed(cluster) == {("t", 0): ([3, 4, 1, 2], [3, 4], [1, 2])}
        assert await cluster.short_state("t-0") == (1, [1, 2], 1)
        assert cluster.brokers[3].told("t-0")[0] == (1, 1, [1, 2], True)
        assert cluster.brokers[1].told("t-0")[-1] == (1, 1, [1, 2], False)

        await cluster.alter_partition("t-0", 1, [1, 2, 3])
        assert await _listed(cluster) != {}, "broker 4 is not in sync yet"
        await cluster.alter_partition("t-0", 1, [1, 2, 3, 4])
        topic = await cluster.topic("t")
        assert (dict(topic.partitions), dict(topic.adding), dict(topic.removing)) == ({0: (3, 4)}, {}, {})
        state = await cluster.state("t-0")
        assert (state.leader, set(state.isr)) == (3, {3, 4})
        assert await _listed(cluster) == {}
        for gone in (1, 2):
            assert cluster.brokers[gone].stopped("t-0")[-1][0], "the old replicas are deleted"
        assert cluster.brokers[4].metadata_of("t-0")[-1].replicas == [3, 4]
        await cluster.stop()

    run(scenario())


def test_a_move_is_cancelled() -> None:
    async def scenario() -> None:
        cluster = await FakeCluster().start(1, 2, 3, 4)
        await cluster.create_topic("t", [1, 2, 3])
        assert await _reassign(cluster, "t", p0=None) == {0: ErrorCode.NO_REASSIGNMENT_IN_PROGRESS}
        await _reassign(cluster, "t", p0=[3, 4, 2])
        assert await _reassign(cluster, "t", p0=None) == {0: 0}
        topic = await cluster.topic("t")
        assert (topic.partitions[0], dict(topic.adding), dict(topic.removing)) == ((3, 2, 1), {}, {})
        assert cluster.brokers[4].stopped("t-0")[-1][0]
        assert await _listed(cluster) == {}
        assert set((await cluster.state("t-0")).isr) == {1, 2, 3}
        await cluster.stop()

    run(scenario())


def test_a_later_target_supersedes_an_earlier_one() -> None:
    async def scenario() -> None:
        cluster = await FakeCluster().start(1, 2, 3, 4, 5)
        await cluster.create_topic("t", [1, 2, 3])
        await _reassign(cluster, "t", p0=[3, 4, 2])
        assert await _reassign(cluster, "t", p0=[5, 2]) == {0: 0}
        assert await _listed(cluster) == {("t", 0): ([5, 2, 3, 1], [5], [3, 1])}
        assert cluster.brokers[4].stopped("t-0")[-1][0], "4 is wanted no more"
        await cluster.alter_partition("t-0", 1, [1, 2, 3, 5])
        assert (await cluster.topic("t")).partitions[0] == (5, 2)
        assert set((await cluster.state("t-0")).isr) == {2, 5}
        await cluster.stop()

    run(scenario())


def test_what_is_refused() -> None:
    async def scenario() -> None:
        cluster = await FakeCluster().start(1, 2)
        await cluster.create_topic("t", [1, 2])
        invalid = ErrorCode.INVALID_REPLICA_ASSIGNMENT
        for bad in ([], [1, 1], [-1, 2], [1, 9]):
            assert await _reassign(cluster, "t", p0=bad) == {0: invalid}, bad
        assert await _reassign(cluster, "t", p7=[1]) == {7: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
        assert await _reassign(cluster, "t", p7=[9]) == {7: invalid}, (
            "what is asked for is looked at first, as in Kafka"
        )
        assert await _reassign(cluster, "t", p7=None) == {7: ErrorCode.NO_REASSIGNMENT_IN_PROGRESS}
        assert await _reassign(cluster, "t", p0=[1, 2]) == {0: 0}
        assert await cluster.short_state("t-0") == (1, [1, 2], 0), "nothing to do, nothing done"
        await cluster.stop()

    run(scenario())


def test_a_mere_change_of_order_is_done_at_once() -> None:
    async def scenario() -> None:
        cluster = await FakeCluster().start(1, 2)
        await cluster.create_topic("t", [1, 2])
        await _reassign(cluster, "t", p0=[2, 1])
        assert (await cluster.topic("t")).partitions[0] == (2, 1)
        assert (await cluster.state("t-0")).leader == 1
        assert await _listed(cluster) == {}
        await cluster.stop()

    run(scenario())


def test_the_znode_of_old_tools() -> None:
    async def scenario() -> None:
        cluster = await FakeCluster().start(1, 2, 3)
        await cluster.create_topic("t", [1], [2])
        wish = {PartitionName("t", 0): (3,), PartitionName("t", 1): (1,), PartitionName("ghost", 0): (1,)}
        await cluster.tool.create(paths.REASSIGN_PARTITIONS, ReassignPartitions(wish).encode())
        await cluster.quiet()
        left = ReassignPartitions.decode((await cluster.tool.read(paths.REASSIGN_PARTITIONS))[0])
        assert set(left.replicas) == {("t", 0), ("t", 1)}
        await cluster.alter_partition("t-0", 1, [1, 3])
        left = ReassignPartitions.decode((await cluster.tool.read(paths.REASSIGN_PARTITIONS))[0])
        assert set(left.replicas) == {("t", 1)}
        assert await _reassign(cluster, "t", p1=[3]) == {1: 0}
        assert not await cluster.has(paths.REASSIGN_PARTITIONS), "the API supersedes the znode"
        await cluster.alter_partition("t-1", 2, [2, 3])
        assert (await cluster.topic("t")).partitions == {0: (3,), 1: (3,)}
        await cluster.tool.create(paths.REASSIGN_PARTITIONS, ReassignPartitions({PartitionName("t", 0): (2,)}).encode())
        await cluster.quiet()
        assert await _listed(cluster) == {("t", 0): ([2, 3], [2], [3])}, "the znode is watched again"
        await cluster.stop()

    run(scenario())


def test_an_unreadable_znode_is_deleted() -> None:
    async def scenario() -> None:
        cluster = await FakeCluster().start(1)
        await cluster.tool.create(paths.REASSIGN_PARTITIONS, b"{broken")
        await cluster.quiet()
        assert not await cluster.has(paths.REASSIGN_PARTITIONS)
        await cluster.stop()

    run(scenario())


def test_the_next_controller_goes_on_with_a_move() -> None:
    async def scenario() -> None:
        cluster = await FakeCluster().start(1, 2, 3, 4)
        await cluster.create_topic("t", [2, 3])
        await _reassign(cluster, "t", p0=[4, 3])
        await cluster.kill(1)
        assert await _listed(cluster) == {("t", 0): ([4, 3, 2], [4], [2])}
        await cluster.alter_partition("t-0", 2, [2, 3, 4])
        assert (await cluster.topic("t")).partitions[0] == (4, 3)
        assert cluster.brokers[2].stopped("t-0")[-1][0]
        await cluster.stop()

    run(scenario())


def test_a_controller_that_died_before_the_last_step_is_followed_by_one_that_does_it() -> None:
    async def scenario() -> None:
        cluster = await FakeCluster().start(1, 2, 3)
        await cluster.create_topic("t", [2])
        await _reassign(cluster, "t", p0=[3])
        # The target is in sync, the controller dies before it hears of it.
        state, version = await cluster.state_and_version("t-0")
        in_sync = type(state)(state.leader, state.leader_epoch, (2, 3), state.controller_epoch)
        await cluster.tool.write(paths.partition_state("t", 0), in_sync.encode(), version)
        await cluster.kill(1)
        assert (await cluster.topic("t")).partitions[0] == (3,)
        assert (await cluster.short_state("t-0"))[:2] == (3, [3])
        await cluster.stop()

    run(scenario())


def test_a_topic_that_is_moving_is_deleted_afterwards() -> None:
    async def scenario() -> None:
        cluster = await FakeCluster().start(1, 2)
        await cluster.create_topic("t", [1])
        await _reassign(cluster, "t", p0=[2])
        await cluster.delete_topic("t")
        assert await cluster.has(paths.topic("t"))
        await cluster.alter_partition("t-0", 1, [1, 2])
        assert not await cluster.has(paths.topic("t"))
        await cluster.stop()

    run(scenario())


def test_reassignments_while_leaders_write_isrs_themselves() -> None:
    async def scenario() -> None:
        cluster = await FakeCluster(inter_broker_protocol_version="2.6").start(1, 2)
        await cluster.create_topic("t", [1])
        assert (await cluster.topic("t")).topic_id is None
        await _reassign(cluster, "t", p0=[2])
        state, version = await cluster.state_and_version("t-0")
        in_sync: Any = type(state)(state.leader, state.leader_epoch, (1, 2), state.controller_epoch)
        await cluster.tool.write(paths.partition_state("t", 0), in_sync.encode(), version)
        await cluster.quiet()
        assert (await cluster.topic("t")).partitions[0] == (2,)
        await cluster.stop()

    run(scenario())


def test_a_replica_that_joined_while_its_move_was_cancelled_is_not_left_in_sync() -> None:
    """1. The controller takes the new replica, which is not in sync, away. 2. Its leader has written an ISR with it meanwhile."""

    async def scenario() -> None:
        cluster = await FakeCluster(inter_broker_protocol_version="2.6").start(1, 2, 3)
        await cluster.create_topic("t", [1, 2])
        state, version = await cluster.state_and_version("t-0")
        stale: Any = type(state)(state.leader, state.leader_epoch, (1, 2, 3), state.controller_epoch)
        await cluster.tool.write(paths.partition_state("t", 0), stale.encode(), version)
        await _reassign(cluster, "t", p0=[2, 1])
        assert (await cluster.topic("t")).partitions[0] == (2, 1)
        assert (await cluster.state("t-0")).isr == (1, 2)
        await cluster.stop()

    run(scenario())
