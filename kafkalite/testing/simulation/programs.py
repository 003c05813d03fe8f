"""Users' own programs on a simulated cluster that suffers faults: `kafkalite.testing.simulate`.

A story is an async function of a `World`: it makes topics, starts programs, and asserts what must hold. `simulate` runs it once for each
seed, on virtual time, so an hour of waiting costs nothing; the seed decides when what happens, and which faults there are. The first
seed in which the story fails is named, with its faults, and runs again in the same way.

Programs are what they are in production: they make clients of `kafkalite.client` and use asyncio. They must not ask anybody but asyncio for
time, nor talk to anything that is not in the simulation. What they keep in the story's objects outlives them, as in a database.
"""

from __future__ import annotations

import asyncio
import functools
import os
import random
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final, TypeVar, overload

from kafkalite.client import Admin, Consumer, NewTopic, Producer, TopicPartition
from kafkalite.client.consumer_record import ConsumerRecord
from kafkalite.clock import SystemClock
from kafkalite.testing.simulation.cluster import SimulatedCluster
from kafkalite.testing.simulation.processes import Process, ProcessKilled, Simulation
from kafkalite.testing.simulation.virtual_time import VirtualClock

T = TypeVar("T")
Story = Callable[["World"], Awaitable[None]]
Main = Callable[[], Coroutine[Any, Any, object]]

SEED_VARIABLE: Final = "KAFKALITE_SIMULATE_SEED"
"""Environment: the one seed that all simulations run, to repeat a failure."""
_TRACE_LINES: Final = 30
_LOOK_S: Final = 0.1


@dataclass(frozen=True, slots=True)
class SimulatedFaults:
    """How many of each kind a seed draws at most, and in how many seconds from the first program's start on."""

    program_kills: int = 2
    broker_kills: int = 1
    cuts: int = 1
    within_s: float = 10.0


class SimulationFailed(AssertionError):
    """A story failed under `seed`; its cause is the exception."""

    def __init__(self, name: str, seed: int, tried: int, problem: BaseException, world: World) -> None:
        lines = world.simulation.trace.lines[-_TRACE_LINES:]
        report = [
            f"{name} fails under seed {seed}, after {tried - 1} seeds in which it holds: {type(problem).__name__}: {problem}",
            f"faults: {'; '.join(world.suffered) or 'none'}",
            f"again: {SEED_VARIABLE}={seed} pytest -k {name}",
            "what happened last:",
            *(f"  {line}" for line in lines),
        ]
        super().__init__("\n".join(report))
        self.seed = seed


class Program:
    """One of the user's programs; a supervisor starts it again a second after it was killed or has failed. `failures` are the latter."""

    def __init__(self, world: World, name: str, main: Main) -> None:
        self.name = name
        self.starts = 0
        self.failures: list[Exception] = []
        self._world, self._main = world, main
        self._process: Process | None = None
        self._task = asyncio.ensure_future(self._supervise())

    def kill(self) -> None:
        """Kill it, as kill -9 does: nothing of it runs any more, and no `finally` either."""
        if self._process is not None:
            self._process.kill()

    async def stop(self) -> None:
        """Kill it, and do not start it again."""
        self._task.cancel()
        self.kill()
        await asyncio.gather(self._task, return_exceptions=True)

    async def wait(self) -> None:
        """Wait until it has come to its end by itself."""
        await asyncio.shield(self._task)

    async def _supervise(self) -> None:
        while True:
            self.starts += 1
            self._process = self._world.simulation.process(self.name)
            try:
                await self._process.run(self._main())
                return
            except ProcessKilled:
                pass
            except Exception as problem:
                self.failures.append(problem)
                self._world.simulation.trace.add(self.name, f"failed: {problem!r}")
                self._process.kill()
            await asyncio.sleep(1.0)


class World:
    """What a story has: a cluster of `brokers`, whose faults begin with the first program. `chance` is the story's own."""

    def __init__(self, seed: int, brokers: int, faults: SimulatedFaults) -> None:
        self.seed = seed
        self.simulation = Simulation(seed)
        self.cluster = SimulatedCluster(self.simulation, brokers, {"min.insync.replicas": str(min(2, brokers))})
        self.chance = self.simulation.chance("story")
        self.programs: list[Program] = []
        self.suffered: list[str] = []
        """The faults so far, in words."""
        self._faults = faults
        self._injecting: asyncio.Task[None] | None = None
        self._asked = 0

    @property
    def bootstrap_servers(self) -> str:
        return self.cluster.bootstrap_servers

    @property
    def now_s(self) -> float:
        """Virtual seconds since the cluster's first start."""
        return self.simulation.time.now_s

    # what a story does

    async def create_topic(self, name: str, partitions: int = 1, **configs: str) -> None:
        """Create a topic with a replica on each broker, three at most; in `configs` an underscore stands for a point."""
        replicas = min(3, len(self.cluster.brokers))
        topic = NewTopic(
            name, partitions, replicas, topic_configs={key.replace("_", "."): value for key, value in configs.items()}
        )

        async def create() -> None:
            async with Admin(bootstrap_servers=self.bootstrap_servers) as admin:
                await admin.create_topics([topic])

        await self.ask(create)

    async def send(self, topic: str, values: Iterable[bytes], *, key: bytes | None = None) -> None:
        """Produce records, one after the other, with acks=all."""

        async def produce() -> None:
            async with Producer(bootstrap_servers=self.bootstrap_servers) as producer:
                for value in values:
                    await producer.send_and_wait(topic, value, key)

        await self.ask(produce)

    async def read(self, topic: str) -> list[ConsumerRecord]:
        """Return all records of a topic, partition by partition."""

        async def consume() -> list[ConsumerRecord]:
            found: list[ConsumerRecord] = []
            async with Consumer(bootstrap_servers=self.bootstrap_servers, auto_offset_reset="earliest") as consumer:
                partitions = await self._partitions(consumer, topic)
                ends = await consumer.end_offsets(partitions)
                consumer.assign(partitions)
                while any([await consumer.position(each) < ends[each] for each in partitions]):
                    for records in (await consumer.getmany(timeout_ms=500)).values():
                        found += records
            return sorted(found, key=lambda record: (record.partition, record.offset))

        return await self.ask(consume)

    async def lag(self, group: str, topic: str) -> int:
        """Return the number of records of the topic that the group has not committed."""

        async def find_lag() -> int:
            async with (
                Consumer(bootstrap_servers=self.bootstrap_servers) as consumer,
                Admin(bootstrap_servers=self.bootstrap_servers) as admin,
            ):
                partitions = await self._partitions(consumer, topic)
                ends = await consumer.end_offsets(partitions)
                found = await admin.list_group_offsets(group, partitions)
            committed = {each: offset.offset if offset is not None else 0 for each, offset in found.items()}
            return sum(ends[each] - committed.get(each, 0) for each in partitions)

        return await self.ask(find_lag)

    async def caught_up(self, group: str, topic: str, timeout_s: float = 60.0) -> None:
        """Wait until the faults are over and the group has committed all of the topic. AssertionError when it does not in time."""
        await self.wait_healed()
        deadline_s = self.now_s + timeout_s
        while (lag := await self.lag(group, topic)) > 0:
            assert self.now_s < deadline_s, (
                f"{group} has {lag} records of {topic} to go, {timeout_s:g} s after all was healed"
            )
            await asyncio.sleep(_LOOK_S)

    def start(self, name: str, main: Main) -> Program:
        """Run a program in a process of its own, on a machine of that name; the faults begin now."""
        program = Program(self, name, main)
        self.programs.append(program)
        if self._injecting is None:
            self._injecting = asyncio.ensure_future(self._inject_faults())
        return program

    async def ask(self, main: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Return the result of a coroutine that runs in a process of its own, which no fault ends."""
        self._asked += 1
        process = self.simulation.process(f"story-{self._asked}")
        try:
            return await process.run(main())
        finally:
            process.kill()

    async def until(self, condition: Callable[[], object], what: str, timeout_s: float = 60.0) -> None:
        """Wait for what programs do. AssertionError when it does not come within that many virtual seconds."""
        await self.cluster.until(condition, what, timeout_s)

    async def wait_healed(self) -> None:
        """Wait until the faults are over, and everything is healed."""
        if self._injecting is not None:
            await self._injecting

    healed = wait_healed
    """The former name of `wait_healed`."""

    # faults

    async def _inject_faults(self) -> None:
        chance, faults = self.simulation.chance("faults"), self._faults
        wanted = [
            *[self._kill_program] * chance.randint(0, faults.program_kills),
            *[self._kill_broker] * chance.randint(0, faults.broker_kills),
            *[self._cut] * chance.randint(0, faults.cuts),
        ]
        moments = sorted(chance.uniform(0.0, faults.within_s) for _ in wanted)
        chance.shuffle(wanted)
        began_s = self.now_s
        for moment_s, fault in zip(moments, wanted, strict=True):
            await asyncio.sleep(max(0.0, began_s + moment_s - self.now_s))
            await fault(chance)

    def _note_fault(self, what: str) -> None:
        self.suffered.append(f"{self.now_s:.3f} s: {what}")
        self.simulation.trace.add("fault", what)

    async def _kill_program(self, chance: random.Random) -> None:
        program = chance.choice(self.programs)
        self._note_fault(f"{program.name} is killed")
        program.kill()

    async def _kill_broker(self, chance: random.Random) -> None:
        broker_id = chance.choice(list(self.cluster.brokers))
        self._note_fault(f"broker {broker_id} is killed")
        self.cluster.kill(broker_id)
        await asyncio.sleep(chance.choice([0.1, 2.0, 9.0]))
        await self.cluster.start(broker_id)

    async def _cut(self, chance: random.Random) -> None:
        program = chance.choice(self.programs)
        broker = self.cluster.brokers[chance.choice(list(self.cluster.brokers))]
        self._note_fault(f"{program.name} and {broker.name} are cut off from each other")
        self.cluster.cut(program.name, broker.name)
        await asyncio.sleep(chance.choice([0.5, 4.0, 12.0]))
        self.cluster.heal(program.name, broker.name)

    # running

    def run(self, story: Story) -> None:
        """Run the story; raises what the story raises."""
        with _on_virtual_time(self.simulation):
            self.simulation.run(self._play(story))

    async def _play(self, story: Story) -> None:
        await self.cluster.start()
        try:
            await story(self)
        finally:
            if self._injecting is not None:
                self._injecting.cancel()
            for program in self.programs:
                await program.stop()

    @staticmethod
    async def _partitions(consumer: Consumer, topic: str) -> list[TopicPartition]:
        return [TopicPartition(topic, each) for each in sorted(await consumer.partitions_for_topic(topic) or ())]


@overload
def simulate(
    story: Story, /, *, seeds: int | Sequence[int] = ..., brokers: int = ..., faults: SimulatedFaults = ...
) -> None: ...


@overload
def simulate(
    story: None = None, /, *, seeds: int | Sequence[int] = ..., brokers: int = ..., faults: SimulatedFaults = ...
) -> Callable[[Story], Callable[[], None]]: ...


def simulate(
    story: Story | None = None,
    /,
    *,
    seeds: int | Sequence[int] = 100,
    brokers: int = 3,
    faults: SimulatedFaults = SimulatedFaults(),
) -> Callable[[Story], Callable[[], None]] | None:
    """Run a story under each seed, or, without a story, make a test of one: `@simulate(seeds=1000)`.

    `seeds` is how many, from 0 on, or which ones; KAFKALITE_SIMULATE_SEED in the environment names the only one. Raises SimulationFailed
    for the first seed in which the story raises, in which a broker stops, or in which an error is logged that nobody expected.
    """
    if story is not None:
        _run(story, seeds, brokers, faults)
        return None

    def decorate(story: Story) -> Callable[[], None]:
        @functools.wraps(story)
        def test() -> None:
            _run(story, seeds, brokers, faults)

        del test.__wrapped__  # pytest would look for a fixture named as the story's argument
        return test

    return decorate


def _run(story: Story, seeds: int | Sequence[int], brokers: int, faults: SimulatedFaults) -> None:
    only = os.environ.get(SEED_VARIABLE)
    wanted = [int(only)] if only else range(seeds) if isinstance(seeds, int) else seeds
    for tried, seed in enumerate(wanted, start=1):
        world = World(seed, brokers, faults)
        try:
            world.run(story)
        except Exception as problem:
            raise SimulationFailed(getattr(story, "__name__", "the story"), seed, tried, problem, world) from problem


@contextmanager
def _on_virtual_time(simulation: Simulation) -> Iterator[None]:
    """Give the simulation's time and chance to clients that are made without a clock, and to users of the module `random`."""
    chance, clock = random.getstate(), VirtualClock(simulation.time)
    now_ms, monotonic_ms = SystemClock.now_ms, SystemClock.monotonic_ms
    random.seed(f"{simulation.seed}/programs")
    SystemClock.now_ms = lambda _: clock.now_ms()  # type: ignore[method-assign,assignment]
    SystemClock.monotonic_ms = lambda _: clock.monotonic_ms()  # type: ignore[method-assign,assignment]
    try:
        yield
    finally:
        SystemClock.now_ms, SystemClock.monotonic_ms = now_ms, monotonic_ms  # type: ignore[method-assign]
        random.setstate(chance)
