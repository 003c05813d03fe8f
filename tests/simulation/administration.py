"""What administrators ask for in a run: topics made and deleted, partitions added, reassigned and elected, settings altered.

Each question is asked until it is answered, which its own earlier attempts may have brought about; what must hold at the end follows
from the answers that were successes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final

from kafkalite.client import Admin, AdminError, ConfigChange, ConfigResource, NewTopic, TopicPartition
from kafkalite.errors import ErrorCode
from kafkalite.testing.simulation.faults import Fault
from zk import paths

if TYPE_CHECKING:
    from tests.simulation.simulation_run import SimulationRun

_AGAIN_S: Final = 1.0


class Administration:
    """See the module."""

    def __init__(self, run: SimulationRun) -> None:
        self._run = run
        self._cluster = run.cluster
        self._asked = 0

    async def create(self, topics: list[NewTopic]) -> None:
        """Topics that nobody else makes; they are there already when the answer to an earlier attempt was lost."""

        async def create(admin: Admin) -> None:
            try:
                await admin.create_topics(topics)
            except AdminError as problem:
                if any(each.code is not ErrorCode.TOPIC_ALREADY_EXISTS for each in problem.failures.values()):
                    raise

        await self._as_client("admin", create)
        await self._run.until(lambda: not self._cluster.out_of_sync(), "new topics are in sync")

    async def ask(self, operation: Fault) -> None:
        """One operation, at its moment, until it is answered."""
        await asyncio.sleep(operation.at_s)
        self._asked += 1
        trace = self._run.simulation.trace
        trace.add("asks", str(operation).strip())

        async def attempts(admin: Admin) -> None:
            while True:
                try:
                    await self._attempt(admin, operation)
                except AdminError as problem:
                    trace.add("asks", f"{operation.kind} {operation.targets[0]} is refused: {problem}")
                    return
                except Exception as problem:
                    trace.add("asks", f"{operation.kind} {operation.targets[0]} failed: {problem!r}")
                    await asyncio.sleep(_AGAIN_S)
                else:
                    trace.add("asks", f"{operation.kind} {operation.targets[0]} is answered")
                    return

        await self._as_client(f"admin-{self._asked}", attempts)

    def is_done(self) -> bool:
        """Is no deletion and no reassignment under way, and nothing left of deleted topics?

        A replica that a reassignment took from a broker while that was down stays on its disk, as with Kafka.
        """
        tree = self._cluster.zookeeper.tree
        if tree.children(paths.DELETE_TOPICS) or tree.exists(paths.REASSIGN_PARTITIONS):
            return False
        wanted: dict[TopicPartition, set[int]] = {}
        for topic in self._cluster.topics():
            assignment = self._cluster.assignment(topic)
            assert assignment is not None
            if assignment.adding or assignment.removing:
                return False
            for number, replicas in assignment.partitions.items():
                wanted[TopicPartition(topic, number)] = set(replicas)
        for broker in self._cluster.brokers.values():
            for partition in self._cluster.replicas_on(broker.broker_id):
                if partition not in wanted:
                    return False
        return True

    async def _attempt(self, admin: Admin, operation: Fault) -> None:
        target = operation.targets[0]
        if operation.kind == "create-topic":
            await admin.create_topics([NewTopic(target, num_partitions=2, replication_factor=2)])
        elif operation.kind == "delete-topic":
            await admin.delete_topics([target])
        elif operation.kind == "add-partitions":
            await admin.create_partitions({target: 3})
        elif operation.kind == "alter-config":
            change = ConfigChange("retention.ms", "set", "604800001")
            await admin.incremental_alter_configs({ConfigResource("topic", target): [change]})
        else:
            topic, _, number = target.rpartition("-")
            partition = TopicPartition(topic, int(number))
            if operation.kind == "elect":
                await admin.elect_leaders("preferred", [partition])
            else:
                replicas = [int(value) for _, value in operation.parameters]
                await admin.alter_partition_reassignments({partition: replicas})

    async def _as_client(self, name: str, use: Callable[[Admin], Awaitable[None]]) -> None:
        process, options = self._run.client(name)

        async def run() -> None:
            while True:
                try:
                    async with Admin(**options) as admin:
                        await use(admin)
                    return
                except Exception as problem:
                    self._run.simulation.trace.add(name, f"has no cluster: {problem!r}")
                    await asyncio.sleep(_AGAIN_S)

        await self._run.within_process(process, run())
