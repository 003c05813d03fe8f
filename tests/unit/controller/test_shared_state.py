"""What partitions of the controller's state share, because there are a hundred thousand of them, and that nobody changes it for others."""

from __future__ import annotations

import tracemalloc
from typing import Final

from kafkalite.controller.assignment import ReplicaAssignment, make_assignment, share_brokers
from kafkalite.controller.cluster_state import (
    ClusterState,
    Leadership,
    PartitionContext,
    PartitionStatus,
    ReplicaStatus,
)
from kafkalite.controller.settings import ControllerSettings
from kafkalite.testing.simulation.virtual_time import run
from kafkalite.types import TopicPartition
from tests.unit.controller.fake_cluster import FakeCluster

PARTITIONS: Final = 2000
T0: Final = TopicPartition("t", 0)


def partitions_of(cluster: FakeCluster, name: str) -> list[PartitionContext]:
    assert cluster.controller.cluster is not None
    return list(cluster.controller.cluster.topics[name].partitions.values())


def test_partitions_with_the_same_replicas_share_what_is_the_same() -> None:
    async def scenario() -> None:
        cluster = await FakeCluster().start(1, 2, 3)
        await cluster.create_topic("t", [2, 3], [2, 3], [3, 2])
        await cluster.kill(1)
        one, same, other = partitions_of(cluster, "t")
        assert one.leadership is not None and same.leadership is not None
        assert one.assignment is same.assignment and one.leadership.isr is same.leadership.isr
        assert one.replica_statuses is same.replica_statuses
        assert one.assignment is not other.assignment and other.assignment.replicas == (3, 2)
        await cluster.stop()

    run(scenario())


def test_a_change_of_one_partition_is_none_of_another() -> None:
    state, other = (PartitionContext(T0, make_assignment((1, 2))) for _ in range(2))
    for each in (state, other):
        each.set_replica_statuses({1: ReplicaStatus.ONLINE, 2: ReplicaStatus.ONLINE})
    state.set_replica_statuses({**state.replica_statuses, 2: ReplicaStatus.OFFLINE})
    assert dict(other.replica_statuses) == {1: ReplicaStatus.ONLINE, 2: ReplicaStatus.ONLINE}
    state.set_replica_statuses({**state.replica_statuses, 2: ReplicaStatus.ONLINE})
    assert state.replica_statuses is other.replica_statuses
    assert dict(PartitionContext(T0, make_assignment((1, 2))).replica_statuses) == {}


def test_an_assignment_under_reassignment_is_a_partitions_own() -> None:
    moving = make_assignment((1, 2, 3), adding=(3,), removing=(1,))
    assert moving == ReplicaAssignment((1, 2, 3), (3,), (1,))
    assert make_assignment((1, 2, 3)) == ReplicaAssignment((1, 2, 3))


def test_a_partition_takes_half_a_kilobyte() -> None:
    """Of 100 brokers with three replicas of each partition, whose ids are no small numbers of the interpreter."""
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        cluster = ClusterState(1, 5, ControllerSettings())
        for number in range(PARTITIONS):
            partition = TopicPartition(f"topic-{number // 100}", number % 100)
            if not partition.partition:
                cluster.add_topic(partition.topic, bytes([number // 100]) * 16)
            replicas = [int(str(1001 + (number + each) % 100)) for each in range(3)]
            cluster.set_assignment(partition, make_assignment(tuple(replicas)))
            state = cluster.partition(partition)
            isr = share_brokers(tuple(int(str(each)) for each in replicas))
            state.leadership = Leadership(replicas[0], 1, isr, 5, 3, False, 1 << 33)
            state.set_replica_statuses(dict.fromkeys(replicas, ReplicaStatus.ONLINE))
            cluster.set_status(partition, PartitionStatus.ONLINE)
        assert (tracemalloc.get_traced_memory()[0] - before) / PARTITIONS < 700
    finally:
        tracemalloc.stop()
