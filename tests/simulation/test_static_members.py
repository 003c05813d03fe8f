"""A static member that leads its group and is killed finds the group as it was, and lets it assign what came meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

import pytest

from kafkalite.client import Admin, Consumer, NewTopic, TopicPartition
from kafkalite.client.group.membership import Membership
from kafkalite.testing.simulation.cluster import SimulatedCluster
from kafkalite.testing.simulation.processes import Process, Simulation

_SETTINGS = {"offsets.topic.replication.factor": "1", "default.replication.factor": "1", "min.insync.replicas": "1"}
_MEMBERS = ("ia", "ib")


class StaticGroup:
    """Two static members that read the topic `t` with two partitions."""

    def __init__(self) -> None:
        self.simulation = Simulation(1)
        self.cluster = SimulatedCluster(self.simulation, 1, _SETTINGS)
        self.consumers: dict[str, Consumer] = {}
        self._processes: dict[str, Process] = {}

    def start_member(self, instance_id: str) -> None:
        process = self._processes[instance_id] = self.simulation.process(f"member-{instance_id}")
        self.consumers.pop(instance_id, None)

        async def read() -> None:
            async with Consumer(
                bootstrap_servers=self.cluster.bootstrap_servers,
                group_id="g",
                group_instance_id=instance_id,
                session_timeout_ms=30_000,
                metadata_max_age_ms=60_000,
            ) as consumer:
                consumer.subscribe(["t"])
                self.consumers[instance_id] = consumer
                while True:
                    await consumer.getmany(timeout_ms=500)

        process.run(read())

    def kill_member(self, instance_id: str) -> None:
        self._processes[instance_id].kill()

    def membership(self, instance_id: str) -> Membership:
        session = self.consumers[instance_id]._group
        assert session is not None
        return session.membership

    @property
    def generations(self) -> set[int]:
        return {self.membership(each).generation for each in self.consumers}

    def has_assigned(self, partitions: Iterable[int]) -> bool:
        assigned = [each for consumer in self.consumers.values() for each in consumer.assignment()]
        return len(self.consumers) == 2 and sorted(assigned) == [TopicPartition("t", each) for each in partitions]

    async def create_partitions(self, count: int) -> None:
        async def create() -> None:
            async with Admin(bootstrap_servers=self.cluster.bootstrap_servers) as admin:
                if count == 2:
                    await admin.create_topics([NewTopic("t", count, 1)])
                else:
                    await admin.create_partitions({"t": count})

        process = self.simulation.process("admin")
        await process.run(create())
        process.kill()

    async def start(self) -> None:
        await self.cluster.start()
        await self.create_partitions(2)
        for each in _MEMBERS:
            self.start_member(each)
        await self.cluster.until(lambda: self.has_assigned(range(2)), "two partitions are assigned")


@pytest.mark.parametrize("grows", [False, True], ids=["nothing-came", "a-partition-came"])
def test_a_leader_that_was_killed_lets_the_group_rebalance_only_for_what_came(grows: bool) -> None:
    """As seed 411414 of the lies found: the partition came while nobody who had seen it led, and no member ever read it."""
    group = StaticGroup()

    async def scenario() -> None:
        await group.start()
        await asyncio.sleep(5)
        (generation,) = group.generations
        (leader,) = (each for each in _MEMBERS if group.membership(each).leadership is not None)
        group.kill_member(leader)
        if grows:
            await group.create_partitions(3)
        group.start_member(leader)
        await group.cluster.until(lambda: group.has_assigned(range(3 if grows else 2)), "all are assigned", 20)
        await asyncio.sleep(5)
        assert group.generations == {generation + grows} and group.membership(leader).leadership is not None
        for each in _MEMBERS:
            group.kill_member(each)

    group.simulation.run(scenario())
