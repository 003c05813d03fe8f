"""Work grows with what changed, not with what there is: requests are counted, not seconds."""

from __future__ import annotations

from typing import Any

from kafkalite.controller.requests import NewTopic
from kafkalite.testing.simulation.virtual_time import run
from tests.unit.controller.fake_cluster import FakeCluster

PARTITIONS = 2000


async def _big_cluster() -> FakeCluster:
    cluster = await FakeCluster().start(1, 2, 3, 4)
    await cluster.controller.create_topics([NewTopic("big", PARTITIONS, 3)])
    await cluster.until(lambda: len(cluster.brokers[4].leaders) == PARTITIONS)
    return cluster


class _Counter:
    """Counts the requests of a member's ZooKeeper session."""

    def __init__(self, cluster: FakeCluster, broker_id: int) -> None:
        self.requests = 0
        store: Any = cluster.members[broker_id].store
        carry_out = store._request

        def count(path: str, operation: Any) -> Any:
            self.requests += 1
            return carry_out(path, operation)

        store._request = count


def test_two_thousand_partitions_are_created_with_few_requests() -> None:
    async def scenario() -> None:
        cluster = await _big_cluster()
        assert sum(len(cluster.brokers[b].told(f"big-{PARTITIONS - 1}")) for b in (1, 2, 3, 4)) == 3
        assert max(len(broker.received) for broker in cluster.brokers.values()) < 20
        counter = _Counter(cluster, 1)
        await cluster.create_topic("small", [2, 3])
        assert counter.requests < 15, "a small topic beside a big one costs what a small one costs"
        await cluster.stop()

    run(scenario())


def test_failover_reads_each_partition_once_and_writes_in_groups() -> None:
    async def scenario() -> None:
        cluster = await _big_cluster()
        counters = [_Counter(cluster, broker) for broker in (2, 3, 4)]
        await cluster.members.pop(1).die()
        await cluster.until(lambda: any(m.controller.is_active for m in cluster.members.values()), "failover")
        await cluster.until(lambda: 1 not in cluster.brokers[cluster.controller.broker_id].leaders.values(), "leaders")
        await cluster.quiet()
        assert sum(counter.requests for counter in counters) < PARTITIONS * 1.2
        assert cluster.controller.statistics()["offline_partitions_count"] == 0
        await cluster.stop()

    run(scenario())


def test_the_death_of_a_broker_costs_grouped_writes_only() -> None:
    async def scenario() -> None:
        cluster = await _big_cluster()
        counter = _Counter(cluster, 1)
        await cluster.kill(4)
        await cluster.until(lambda: 4 not in cluster.brokers[1].leaders.values(), "leaders")
        await cluster.quiet()
        assert counter.requests < PARTITIONS / 20
        await cluster.stop()

    run(scenario())
