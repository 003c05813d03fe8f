"""Garbage in ZooKeeper: brokers and controller go on, name the path, and are well again when the znode is mended.

A round writes the same garbage to many paths at once, lets another controller take over that finds it all, and mends it. After each step
records are produced to a topic that was well from the beginning.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from kafkalite.client import Admin, NewTopic, Producer
from kafkalite.testing.simulation.cluster import SimulatedCluster
from kafkalite.testing.simulation.processes import Simulation
from tests.simulation.znode_garbage import EVERYWHERE, NONSENSE, SICK, WELL, anything, nonsense, text
from zk import paths
from zk.memory.memory_store import MemoryStore
from zk.store import NoNodeError

NOTICE_S = 1.0


class Patient:
    """A cluster of two brokers, and somebody who writes into its ZooKeeper."""

    def __init__(self) -> None:
        self.simulation = Simulation(1)
        settings = {"default.replication.factor": "2", "min.insync.replicas": "1"}
        self.cluster = SimulatedCluster(self.simulation, 2, settings)
        self.store = MemoryStore(self.cluster.zookeeper)
        self._clients = 0

    def run(self, story: Callable[[], Coroutine[Any, Any, None]]) -> None:
        async def scenario() -> None:
            await self.cluster.start()
            await self.store.start(10)
            await self.client(self._create)
            await self.works()
            await story()
            await self.cluster.stop()
            await self.store.close()

        self.simulation.run(scenario(), limit_s=3_600.0)

    async def client(self, use: Callable[[dict[str, Any]], Awaitable[None]]) -> None:
        self._clients += 1
        process = self.simulation.process(f"client-{self._clients}")
        chance = self.simulation.chance(process.name).random
        options = {"bootstrap_servers": self.cluster.bootstrap_servers, "client_id": "c", "chance": chance}

        async def run() -> None:
            await use(options)

        await asyncio.wait_for(process.run(run()), 30)
        process.kill()

    async def _create(self, options: dict[str, Any]) -> None:
        async with Admin(**options) as admin:
            await admin.create_topics([NewTopic(name, num_partitions=1, replication_factor=2) for name in (WELL, SICK)])

    async def works(self, topic: str = WELL) -> None:
        async def use(options: dict[str, Any]) -> None:
            # Not idempotent: a broker without ids for producers needs a controller, and there may be none.
            producer = Producer(clock=self.cluster.clock, acks="all", enable_idempotence=False, **options)
            async with producer:
                await (await producer.send(topic, b"x", partition=0))

        await self.client(use)

    async def write(self, path: str, data: bytes) -> None:
        if await self.store.exists(path) is None:
            await self.store.create(path, data, parents=True)
        else:
            await self.store.write(path, data)

    async def remove(self, path: str) -> None:
        try:
            for name in await self.store.children(path):
                await self.remove(paths.child(path, name))
            await self.store.delete(path)
        except NoNodeError:
            pass

    async def another_controller(self) -> None:
        await self.remove(paths.CONTROLLER)
        await asyncio.sleep(NOTICE_S)

    async def round(self, garbage: dict[str, bytes]) -> str:
        """Write, take over, mend; what was logged as an error."""
        before: dict[str, bytes | None] = {}
        for path, data in garbage.items():
            before[path] = (await self.store.read(path))[0] if await self.store.exists(path) else None
            await self.write(path, data)
            if path.startswith(paths.CONFIG) and not path.startswith(paths.CONFIG_CHANGES):
                note = text({"version": 2, "entity_path": path.removeprefix(f"{paths.CONFIG}/")})
                await self.store.create(paths.CONFIG_CHANGE_PREFIX, note, sequence=True)
        await asyncio.sleep(NOTICE_S)
        await self.works()
        await self.another_controller()
        await self.works()
        for path, mended in before.items():
            await (self.remove(path) if mended is None else self.write(path, mended))
        await asyncio.sleep(NOTICE_S)
        await self.works()
        await self.works(SICK)
        problems, causes = self.simulation.problems, self.simulation.causes
        unexpected = [each for each in causes if each is not None]
        assert not unexpected, f"an error that nobody expected: {unexpected}"
        assert len(problems) < 8 * len(garbage), "so many lines for so few znodes"
        lines = "\n".join(problems)
        problems.clear()
        causes.clear()
        return lines


def test_what_is_nothing_of_its_kind() -> None:
    patient = Patient()

    async def story() -> None:
        for what, data in anything():
            lines = await patient.round(dict.fromkeys(EVERYWHERE, data))
            if data:
                named = (
                    paths.topic("broken"),
                    paths.partition_state(SICK, 0),
                    paths.topic_config(SICK),
                    paths.broker(7),
                )
                missing = [path for path in named if path not in lines]
                assert what == "an unknown version" or not missing, f"{what}: no line names {missing}"

    patient.run(story)


def test_what_looks_like_its_kind_and_makes_no_sense() -> None:
    patient = Patient()

    async def story() -> None:
        for number in range(NONSENSE):
            await patient.round(nonsense(number))

    patient.run(story)


def test_a_seat_and_an_epoch_that_cannot_be_read() -> None:
    """Nobody can govern meanwhile, but brokers serve; and somebody does when they are mended. An unreadable epoch left nobody trying."""
    patient = Patient()

    async def governs() -> None:
        await patient.cluster.until(
            lambda: any(each.app and each.app.serving.parts.controller.is_active for each in patient.cluster.running()),  # type: ignore[union-attr]
            "a controller",
        )

    async def story() -> None:
        epoch, _ = await patient.store.read(paths.CONTROLLER_EPOCH)
        for data in (b"x", b"-5", b"9" * 30, b" 1_000 "):
            await patient.write(paths.CONTROLLER_EPOCH, data)
            await patient.another_controller()
            await patient.works()
            await patient.write(paths.CONTROLLER_EPOCH, b"%d" % (int(epoch) + 100))
            await governs()
        for data in (b"", b"[]", text({"version": 2, "brokerid": "x"}), text({"version": 2, "brokerid": -9})):
            await patient.write(paths.CONTROLLER, data)
            await asyncio.sleep(NOTICE_S)
            await patient.works()
            await patient.another_controller()
            await governs()
        assert not [each for each in patient.simulation.causes if each is not None]
        assert len(patient.simulation.problems) < 100
        patient.simulation.problems.clear()

    patient.run(story)
