"""Counts of partitions for metrics are kept up as roles and ISRs change, and say what a walk over all partitions finds."""

from __future__ import annotations

from random import Random

import pytest

from kafkalite.broker.observation.topic_metrics import _lag
from kafkalite.broker.replication.follower_state import NeverFetched
from kafkalite.broker.replication.partition import Partition
from kafkalite.config.topic import TopicConfig
from kafkalite.types import TopicPartition
from tests.unit.broker.fake_log import FakeLog, assignment
from tests.unit.broker.loop_turns import measured_turns
from tests.unit.broker.replication.test_replicas import Node, on_node

REPLICAS = ((1,), (1, 2), (1, 2, 3))


def host(node: Node, number: int) -> Partition:
    name = TopicPartition("t", number)
    log = FakeLog(TopicConfig(min_insync_replicas=2))
    partition = node.replicas.partitions[name] = Partition(name, log, node.replicas._host)  # type: ignore[arg-type]
    return partition


def change(node: Node, partition: Partition, random: Random, now_ms: float) -> None:
    """Do one thing that changes a role, an ISR or how far a follower is."""
    epoch, replicas = partition.leader_epoch + random.randint(0, 1), random.choice(REPLICAS)
    isr = (1, *random.sample(replicas[1:], random.randint(0, len(replicas) - 1)))
    state = assignment(random.choice((1, 1, 1, 2)), epoch, isr, replicas, partition.partition_epoch + 1)
    action = random.randint(0, 11)
    if action < 3 and state.leader == 1:
        partition.become_leader(state, now_ms)
    elif action < 3:
        partition.become_follower(state)
    elif action == 3:
        node.replicas.partitions.pop(partition.topic_partition).resign()
    elif action < 8 and partition.is_leader:
        partition.append(bytearray(random.randint(1, 3)), 1, now_ms, 0, 9)
    elif partition.followers:
        follower = random.choice(list(partition.followers))
        offset = random.choice((partition.log.log_end_offset, random.randint(0, partition.log.log_end_offset)))
        proposed = partition.follower_fetched(follower, offset, 0, now_ms, NeverFetched()) or partition.shrink(now_ms)
        if proposed is not None and random.randint(0, 1):
            partition.isr_committed(
                proposed, proposed.isr, partition.leader_epoch, partition.partition_epoch + 1, now_ms
            )
        elif proposed is not None and random.randint(0, 1):
            partition.isr_refused(proposed)


@pytest.mark.parametrize("seed", range(10))
def test_counts_are_what_a_walk_over_all_partitions_finds(seed: int) -> None:
    async def act(node: Node) -> None:
        random, now_ms = Random(seed), 0.0
        for _ in range(300):
            now_ms += random.choice((1, 1000, 40_000))
            number = random.randint(0, 4)
            change(
                node, node.replicas.partitions.get(TopicPartition("t", number)) or host(node, number), random, now_ms
            )
            if not random.randint(0, 3):
                await node.replicas.shrink_isrs()
            led = node.replicas.leading()
            assert node.replicas.statistics() == {
                "partitions": len(node.replicas.partitions),
                "leaders": len(led),
                "under_replicated": sum(each.is_under_replicated for each in led),
                "under_min_isr": sum(each.is_under_min_isr for each in led),
            }
            assert max(map(_lag, node.replicas.lagging()), default=0) == max(map(_lag, led), default=0)

    on_node(act)


def test_counts_of_many_idle_partitions_cost_as_much_as_those_of_few() -> None:
    async def act(node: Node) -> None:
        for number in range(100):
            partition = host(node, number)
            partition.become_leader(assignment(isr=(1, 2) if number == 7 else (1, 2, 3)), 0.0)
            for follower in partition.followers:
                partition.follower_fetched(follower, 0, 0, 0.0, NeverFetched())
        await node.replicas.shrink_isrs()
        with measured_turns() as turns:
            assert node.replicas.statistics()["under_replicated"] == 1
            assert [each.topic_partition.partition for each in node.replicas.lagging()] == [7]
        assert turns.calls < 50

    on_node(act)
