"""Every partition is moved to other brokers, in batches and with a throttle, as kafka-reassign-partitions and its like do it.

Whoever does it is a person at a tool: what fails is asked again, a batch follows when no move is in progress, throttles are removed last.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from kafkalite.administration.replica_throttles import FOLLOWERS, LEADERS, RATES, throttle_changes, without_throttles
from kafkalite.client import Admin, ConfigChange, ConfigResource, TopicPartition
from kafkalite.testing.simulation.faults import Fault
from tests.simulation.clients import connected
from zk import paths
from zk.placement import assign
from zk.znodes import ConfigEntity

if TYPE_CHECKING:
    from tests.simulation.large.large_run import LargeRun

_ALL_BROKERS: Final = ConfigResource("broker", "")
_AGAIN_S: Final = 0.5
_FACTOR: Final = 3


class Reassigning:
    """One reassignment of everything. `targets`: where each partition is to be in the end."""

    def __init__(self, run: LargeRun, operation: Fault) -> None:
        self._run, self._operation = run, operation
        self.targets: dict[TopicPartition, tuple[int, ...]] = {}

    async def run(self) -> None:
        """Move everything; returns when no move is in progress and no throttle is left."""
        await asyncio.sleep(self._operation.at_s)
        process, options = self._run.client("reassigning")

        async def use() -> None:
            async with connected(Admin(**options)) as admin:
                await self._move_all(admin)

        await self._run.within_process(process, use())

    def find_left(self) -> list[str]:
        """Return what is not as it was asked for, in words."""
        cluster, found = self._run.cluster, []
        for partition, replicas in self.targets.items():
            assignment = cluster.assignment(partition.topic)
            assert assignment is not None
            if tuple(assignment.partitions[partition.partition]) != replicas:
                found.append(f"{partition} is on {assignment.partitions[partition.partition]}, wanted on {replicas}")
        for path in (paths.broker_config(None), *(paths.topic_config(topic) for topic in cluster.topics())):
            data = cluster.read_znode(path)
            overrides = {} if data is None else ConfigEntity.decode(data).config
            found += [f"{path} has {name}" for name in (*RATES, LEADERS, FOLLOWERS) if name in overrides]
        return found

    async def _move_all(self, admin: Admin) -> None:
        operation, run = self._operation, self._run
        current = {
            TopicPartition(topic, number): tuple(replicas)
            for topic in run.topic_names
            if (assignment := run.cluster.assignment(topic)) is not None
            for number, replicas in assignment.partitions.items()
        }
        chance = random.Random(f"{run.plan.seed}/reassigning/{operation.parameter('seed'):g}")
        self.targets = place_elsewhere(current, run.cluster.racks, chance)
        rate_bytes_s = int(operation.parameter("throttle"))
        if rate_bytes_s:
            await self._repeat(lambda: admin.incremental_alter_configs(self._throttle(current, rate_bytes_s)))
        moving, at_once = list(self.targets), int(operation.parameter("at_once"))
        for first in range(0, len(moving), at_once):
            batch = {each: self.targets[each] for each in moving[first : first + at_once]}
            await self._repeat(lambda batch=batch: admin.alter_partition_reassignments(batch))  # type: ignore[misc]
            run.simulation.trace.add("reassigning", f"{len(batch)} partitions move")
            while await self._repeat(admin.list_partition_reassignments):
                await asyncio.sleep(_AGAIN_S)
        if rate_bytes_s:
            removed = without_throttles({each.topic for each in current}, ())
            removed[_ALL_BROKERS] = [ConfigChange(name, "delete") for name in RATES]
            await self._repeat(lambda: admin.incremental_alter_configs(removed))
        run.simulation.trace.add("reassigning", "everything has moved")

    def _throttle(
        self, current: Mapping[TopicPartition, tuple[int, ...]], rate_bytes_s: int
    ) -> dict[ConfigResource, list[ConfigChange]]:
        """Return the throttles of the topics, and one rate for all brokers: some may be down, and would have to be asked one by one."""
        changes = throttle_changes(current, self.targets, {}, rate_bytes_s)
        of_topics = {each: of_it for each, of_it in changes.items() if each.type == "topic"}
        return {**of_topics, _ALL_BROKERS: [ConfigChange(name, "set", str(rate_bytes_s)) for name in RATES]}

    async def _repeat(self, ask: Callable[[], Awaitable[Any]]) -> Any:
        while True:
            try:
                return await ask()
            except Exception as problem:
                self._run.simulation.trace.add("reassigning", f"asks again: {problem!r}")
                await asyncio.sleep(_AGAIN_S)


def place_elsewhere(
    current: Mapping[TopicPartition, tuple[int, ...]], racks: Mapping[int, str], chance: random.Random
) -> dict[TopicPartition, tuple[int, ...]]:
    """Return other replicas for each partition, spread over racks; none of them is one of the present ones."""
    placed = {}
    for partition, before in current.items():
        others = [broker for broker in racks if broker not in before]
        start, shift = chance.randrange(len(others)), chance.randrange(len(others))
        (placed[partition],) = assign(
            others, 1, _FACTOR, start=start, shift=shift, racks={each: racks[each] for each in others}
        ).values()
    return placed
