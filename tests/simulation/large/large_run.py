"""The run of a large cluster in racks: dozens of topics over all brokers, writers, readers and a group, and acts that concern many at once.

What must hold is what must hold for three brokers, by the same judge. Besides, new partitions are spread over racks, a reassignment of
everything has ended as it was asked for, and what it took from brokers that never went away is gone from their disks.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from kafkalite.client import Consumer, NewTopic, TopicPartition
from kafkalite.testing.history.judge import judge
from kafkalite.testing.simulation.cluster import PORT, SimulatedCluster
from kafkalite.types import BrokerId
from tests.simulation.administration import Administration
from tests.simulation.agreement import disagreements
from tests.simulation.clients import connected
from tests.simulation.group import GroupReaders
from tests.simulation.large.plan import BROKERS, READERS, WRITERS, find_racks
from tests.simulation.large.reassigning import Reassigning
from tests.simulation.plan import Plan
from tests.simulation.simulation_run import HEALED, LIVENESS_S, SimulationRun

_BOOTSTRAP: Final = 5
"""As many brokers a client is told of, each of another rack if there are so many."""
_GROUPED: Final = 2
"""Topics that the group reads."""
_LOOK_S: Final = 0.2
"""To look at a hundred brokers takes a while."""
_ROUNDS: Final = 16
_FETCH_MS: Final = 2000


class LargeRun(SimulationRun):
    """See the module."""

    def __init__(self, plan: Plan) -> None:
        self.topic_names = tuple(f"topic-{number}" for number in range(plan.workload["topics"]))
        self.judged_topics = self.topic_names
        self._read_everything = False
        super().__init__(plan)
        self.simulation.turns.rounds = _ROUNDS

    def _make_cluster(self) -> SimulatedCluster:
        return SimulatedCluster(
            self.simulation, self.plan.workload[BROKERS], self.plan.settings, racks=find_racks(self.plan)
        )

    def options(self, name: str) -> dict[str, Any]:
        brokers = self.simulation.chance(f"{name}/bootstrap").sample(list(self.cluster.brokers.values()), _BOOTSTRAP)
        return {**super().options(name), "bootstrap_servers": ",".join(f"{each.name}:{PORT}" for each in brokers)}

    # the story

    async def _scenario(self) -> None:
        cluster, plan = self.cluster, self.plan
        await cluster.start()
        administration = Administration(self)
        await administration.create(self._topics())
        registered = {broker_id: cluster.broker_epoch(broker_id) for broker_id in cluster.brokers}
        self._check_racks()
        watching = asyncio.ensure_future(self.witness.watch())
        readers = GroupReaders(self, list(self.topic_names[:_GROUPED]))
        partitions = [each for each in cluster.partitions() if each.topic in self.topic_names]
        reading = asyncio.gather(*(readers.read(number) for number in range(2)), readers.audit())
        looking = asyncio.gather(*(self._read(number, partitions[number::READERS]) for number in range(READERS)))
        writing = asyncio.gather(
            *(
                self._produce(f"producer-{number}", "all", list(self.topic_names[number::WRITERS]))
                for number in range(WRITERS)
            )
        )
        reassignments = [Reassigning(self, each) for each in plan.operations]
        moving = asyncio.gather(*(each.run() for each in reassignments))
        await self.injection.inject(plan.faults)
        await self.injection.heal()
        self.faults_are_over = True
        self.simulation.trace.add("director", "everything is healed")
        await self._within(writing, "producers end")
        await self._within(moving, "everything has moved")
        await self.until(administration.is_done, "reassignments are as asked for")
        await self._within(administration.create([NewTopic(HEALED, 1, 3)]), "a topic is made")
        await self.until(lambda: not cluster.out_of_sync(), "all replicas are in sync")
        ends = await self._within(self._drain(partitions), "everything is read")
        grouped = {each: end for each, end in ends.items() if each.topic in self.topic_names[:_GROUPED]}
        await self.until(
            lambda: {each: readers.committed.get(each, 0) for each in grouped} == grouped,
            f"the group commits {grouped}",
        )
        readers.stop()
        self._read_everything = True
        await self._within(reading, "members leave")
        await self._within(looking, "readers end")
        await self._check_offsets(readers, grouped)
        await self._all_agree()
        self._check_moves(reassignments, registered)
        watching.cancel()
        self.witness.note_replicas(partitions)
        self.witness.note_segments(partitions)
        await self._within(cluster.stop(*list(cluster.brokers)[: max(1, len(cluster.brokers) // 20)]), "brokers stop")
        self._judge_large(ends, readers, grouped)

    def _topics(self) -> list[NewTopic]:
        count = self.plan.workload["partitions"]
        return [NewTopic(name, num_partitions=count, replication_factor=3) for name in self.topic_names]

    async def _read(self, number: int, partitions: Sequence[TopicPartition]) -> None:
        """Read some partitions without a group, as long as the run lasts."""
        name = f"reader-{number}"
        process, options = self.client(name)

        async def read() -> None:
            consumer = Consumer(auto_offset_reset="earliest", fetch_max_wait_ms=_FETCH_MS, **options)
            async with connected(consumer):
                consumer.assign(list(partitions))
                while not self._read_everything:
                    for records in (await consumer.getmany(timeout_ms=1000)).values():
                        for record in records:
                            self.note_read(name, record)

        await self.within_process(process, read())

    # the end

    def _check_racks(self) -> None:
        """AssertionError for a partition that has two replicas in one rack."""
        racks = self.cluster.racks
        for topic in self.topic_names:
            assignment = self.cluster.assignment(topic)
            assert assignment is not None
            for number, replicas in assignment.partitions.items():
                assert len({racks[each] for each in replicas}) == len(replicas), f"{topic}-{number} is on {replicas}"

    def _check_moves(self, reassignments: Sequence[Reassigning], registered: Mapping[BrokerId, int | None]) -> None:
        """AssertionError for what reassignments left; one that was absent may not have heard of it."""
        left = [problem for each in reassignments for problem in each.find_left()]
        for broker in self.cluster.brokers.values():
            if self.cluster.broker_epoch(broker.broker_id) == registered[broker.broker_id]:
                left += [f"{broker.name} has {each}" for each in self._find_strays(broker.broker_id)]
        assert not left, f"reassignments left {'; '.join(left[:10])}"

    def _find_strays(self, broker_id: int) -> list[TopicPartition]:
        found = []
        for partition in self.cluster.replicas_on(broker_id):
            assignment = self.cluster.assignment(partition.topic)
            if assignment is None or broker_id not in assignment.partitions[partition.partition]:
                found.append(partition)
        return found

    async def _all_agree(self) -> None:
        await self._until_seldom(self._replicas_are_level, "followers have all that their leaders have")
        try:
            await self._until_seldom(lambda: not disagreements(self.cluster), "brokers and ZooKeeper agree")
        except AssertionError as problem:
            raise AssertionError(f"{problem}: {'; '.join(disagreements(self.cluster)[:10])}") from None

    async def _until_seldom(self, condition: Callable[[], object], what: str) -> None:
        deadline_s = self.simulation.time.now_s + LIVENESS_S
        while not condition():
            assert self.simulation.time.now_s < deadline_s, f"{what}: not within {LIVENESS_S:g} s"
            await asyncio.sleep(_LOOK_S)

    def _judge_large(
        self, ends: dict[TopicPartition, int], readers: GroupReaders, grouped: dict[TopicPartition, int]
    ) -> None:
        verdict = self.outcome.verdict = judge(self.outcome.history)
        if verdict.violations:
            self.fail(verdict)
        for partition in grouped:
            missing = set(range(ends[partition])) - readers.read_offsets.get(partition, set())
            assert not missing, f"the group has not read {partition} at {sorted(missing)}"
