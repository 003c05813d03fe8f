"""Clean stops under every kind of traffic, a thousand of them: `python -m tests.simulation.stops --stops 1000`.

Each seed is a cluster of three brokers with producers (acks 0, 1, all, idempotent), transactions with offsets, a group whose members come
and go, long polls, readers that read nothing, connections that sent half a request, topics that are made, altered, reassigned and deleted,
DeleteRecords, and compaction whose child dies in the moment of the stop. Brokers are stopped one at a time and several at once; some are
killed in the middle of their stop. What must hold:

- a stop ends within its bound, leaves nothing behind and nobody who has to be cancelled twice,
- whatever was acknowledged with acks=all, or committed, is there in the end,
- no log starts before what a DeleteRecords was answered, after a stop or after a kill in the middle of one.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import sys
import time
from collections.abc import Callable
from typing import Any, Final

from kafkalite.client import Consumer, TopicPartition
from kafkalite.testing.simulation.cluster import PORT, SimulatedBroker
from kafkalite.testing.simulation.processes import ProcessLoop
from kafkalite.testing.simulation.programs import SimulatedFaults, World, _on_virtual_time
from tests.simulation.cleaning_child import CleaningChild, cleaning_children
from tests.stop_traffic import COMPACTED, COPIES, CUT, KEYS, MONEY, PLAIN, Figures, Traffic

BOUND_S: Final = 30.0
"""`kafkalite.shutdown.timeout.ms` of these brokers, in virtual time."""
STOPS_OF_SEED: Final = 20
_SETTINGS: Final = {
    "kafkalite.shutdown.timeout.ms": str(int(BOUND_S * 1000)),
    "log.cleaner.backoff.ms": "50",
    "offsets.topic.num.partitions": "2",
    "transaction.state.log.num.partitions": "2",
    "transaction.state.log.min.isr": "2",
}
_NO_FAULTS: Final = SimulatedFaults(0, 0, 0)


class _CancelledTwice(logging.Handler):
    """Lines about tasks that went on when they were cancelled, and steps that were waited for."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if "cancelled and goes on" in str(record.msg) or str(record.msg).startswith("stopping:"):
            self.lines.append(record.getMessage())


class Stops:
    """The traffic, the stops and the checks of one seed."""

    def __init__(self, world: World, children: list[CleaningChild], stops: int) -> None:
        self._world, self._children, self._stops = world, children, stops
        self._chance = world.simulation.chance("stops")
        self._traffic = Traffic(
            {"bootstrap_servers": world.bootstrap_servers},
            sorted(world.cluster.brokers),
            lambda: world.simulation.chance(f"{_name_here()}/{world.now_s}"),
            lambda: world.now_s,
        )
        self.figures = Figures()

    async def run(self) -> Figures:
        world = self._world
        for topic in (PLAIN, CUT, MONEY, COPIES):
            await world.create_topic(topic, 2)
        await world.create_topic(KEYS, **{key.replace(".", "_"): value for key, value in COMPACTED.items()})
        for name, main in self._programs().items():
            world.start(name, main)
        await asyncio.sleep(2.0)
        while self._stops_done < self._stops:
            await asyncio.sleep(self._chance.uniform(0.1, 0.8))
            self._traffic.interrupt()
            await self._stop_some()
            await world.until(lambda: not world.cluster.out_of_sync(), "all replicas in sync", 120.0)
            await self._check_starts()
            self._traffic.is_whole = True
        for program in world.programs:
            await program.stop()
        await self._check_records()
        self.figures.took_part(self._traffic)
        return self.figures

    @property
    def _stops_done(self) -> int:
        return len(self.figures.stops_s) + self.figures.kills

    # stops

    async def _stop_some(self) -> None:
        chance, cluster = self._chance, self._world.cluster
        count = chance.choices([1, 2, 3], [6, 2, 2])[0]
        chosen = [cluster.brokers[each] for each in chance.sample(sorted(cluster.brokers), count)]
        dies = chance.random() < 0.15
        await asyncio.gather(*(self._stop(each, dies) for each in chosen))
        await asyncio.sleep(chance.choice([0.0, 0.0, 0.2, 2.0]))
        await cluster.start(*(each.broker_id for each in chosen))

    async def _stop(self, broker: SimulatedBroker, dies: bool) -> None:
        """Stop a broker; its cleaner's child may have had the same signal. One that `dies` is killed in the middle."""
        cluster, now_s = self._world.cluster, self._world.simulation.time
        await asyncio.sleep(self._chance.choice([0.0, 0.0, 0.01, 0.3]))
        assert broker.process is not None
        for child in self._children:
            if child.returncode is None and child._loop is broker.process.loop and self._chance.random() < 0.7:
                delay_s = self._chance.choice([0.0, self._chance.uniform(0.0, 0.02)])
                broker.process.loop.call_later(delay_s, child.end)
                self.figures.deaths += 1
        began_s = now_s.now_s
        stopping = asyncio.ensure_future(cluster.stop(broker.broker_id))
        if dies:
            await asyncio.wait([stopping], timeout=self._chance.uniform(0.001, 0.5))
            if not stopping.done():
                stopping.cancel()
                cluster.kill(broker.broker_id)
                self.figures.kills += 1
                return
        await stopping
        took_s = now_s.now_s - began_s
        assert took_s <= BOUND_S, f"{broker.name} took {took_s:.1f} s to stop"
        self.figures.stops_s.append(took_s)

    def _programs(self) -> dict[str, Callable[[], Any]]:
        found = self._traffic.programs()
        for number in self._world.cluster.brokers:
            found[f"silent-{number}"] = lambda number=number: self._traffic.be_silent(f"broker-{number}", PORT)  # type: ignore[misc]
        return found

    # what must hold

    async def _check_starts(self) -> None:
        floors = dict(self._traffic.floors)

        async def look() -> dict[TopicPartition, int]:
            async with Consumer(bootstrap_servers=self._world.bootstrap_servers) as consumer:
                return dict(await consumer.beginning_offsets(list(floors)))

        if floors:
            undone = self._traffic.undone(floors, await self._world.ask(look))
            assert not undone, f"seed {self._world.seed}: {undone}"

    async def _check_records(self) -> None:
        found = {topic: await self._world.read(topic) for topic in (PLAIN, CUT, MONEY)}
        lost = self._traffic.lost({topic: [(r.partition, r.offset, r.value) for r in found[topic]] for topic in found})
        assert not lost, f"seed {self._world.seed}: {lost}"


def _name_here() -> str:
    loop = asyncio.get_running_loop()
    assert isinstance(loop, ProcessLoop)
    return loop.process.name


def run(seed: int, stops: int = STOPS_OF_SEED) -> Figures:
    """One seed. AssertionError when something does not hold."""
    world = World(seed, 3, _NO_FAULTS)
    world.cluster.settings |= _SETTINGS
    twice = _CancelledTwice()
    lifecycle, shutdown = logging.getLogger("kafkalite.lifecycle"), logging.getLogger("kafkalite.broker.shutdown")

    def disk_here() -> Any:
        loop = asyncio.get_running_loop()
        return next(b.disk for b in world.cluster.brokers.values() if b.process is not None and b.process.loop is loop)

    async def story(_: World) -> None:
        with cleaning_children(disk_here, world.simulation.chance("children")) as children:
            await world.cluster.stop()  # they began without children
            await world.cluster.start()
            await stopping(children)

    figures: list[Figures] = []

    async def stopping(children: list[CleaningChild]) -> None:
        figures.append(await Stops(world, children, stops).run())

    for each in (lifecycle, shutdown):
        each.addHandler(twice)
    try:
        with _on_virtual_time(world.simulation):
            world.simulation.run(world._play(story), limit_s=36_000.0)
    finally:
        for each in (lifecycle, shutdown):
            each.removeHandler(twice)
    assert not twice.lines, "\n".join(twice.lines)
    return figures[0]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.stops", description=__doc__)
    parser.add_argument("--stops", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1, help="the first one; each has some of the stops")
    options = parser.parse_args()
    figures, failed, began_s, seed = Figures(), 0, time.monotonic(), options.seed
    while len(figures.stops_s) < options.stops:
        try:
            figures.add(run(seed))
        except Exception as problem:
            failed += 1
            print(f"seed {seed}: {type(problem).__name__}: {problem}", flush=True)
            if failed >= 10:
                break
        seed += 1
        if figures.stops_s:
            print(f"seeds {options.seed} to {seed - 1}, {time.monotonic() - began_s:.0f} s: {figures}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
