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
import random
import sys
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Final

from kafkalite.client import (
    Admin,
    ClientError,
    ConfigChange,
    ConfigResource,
    Consumer,
    Producer,
    TopicPartition,
)
from kafkalite.testing.simulation.cluster import PORT, SimulatedBroker
from kafkalite.testing.simulation.processes import ProcessLoop
from kafkalite.testing.simulation.programs import SimulatedFaults, World, _on_virtual_time
from tests.simulation.cleaning_child import CleaningChild, cleaning_children

BOUND_S: Final = 30.0
"""`kafkalite.shutdown.timeout.ms` of these brokers, in virtual time."""
STOPS_OF_SEED: Final = 20
_SETTINGS: Final = {
    "kafkalite.shutdown.timeout.ms": str(int(BOUND_S * 1000)),
    "log.cleaner.backoff.ms": "250",
    "offsets.topic.num.partitions": "2",
    "transaction.state.log.num.partitions": "2",
    "transaction.state.log.min.isr": "2",
}
_COMPACTED: Final = {"cleanup_policy": "compact", "segment_bytes": "400", "min_cleanable_dirty_ratio": "0.01"}
_NO_FAULTS: Final = SimulatedFaults(0, 0, 0)
_PLAIN, _CUT, _KEYS, _MONEY, _COPIES = "plain", "cut", "keys", "money", "copies"


@dataclass
class Figures:
    """What was seen in some seeds: how long each stop took (virtual seconds), and how many were killed in the middle."""

    stops_s: list[float] = field(default_factory=list)
    kills: int = 0
    deaths: int = 0
    """Children of the cleaner that died with the stop of their broker."""
    acknowledged: int = 0
    committed: int = 0
    deletions: int = 0

    def add(self, other: Figures) -> None:
        self.stops_s += other.stops_s
        for name in ("kills", "deaths", "acknowledged", "committed", "deletions"):
            setattr(self, name, getattr(self, name) + getattr(other, name))

    def __str__(self) -> str:
        longest = sorted(self.stops_s)
        return (
            f"{len(longest)} stops and {self.kills} kills in the middle of one; a stop took {longest[len(longest) // 2]:.2f} s "
            f"(median), {longest[int(len(longest) * 0.99)]:.2f} s (99 %), {longest[-1]:.2f} s at most; {self.deaths} times the "
            f"cleaner's child died with it; {self.acknowledged} records acknowledged, {self.committed} transactions committed, "
            f"{self.deletions} times records deleted"
        )


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
        self._acknowledged: dict[TopicPartition, dict[int, bytes]] = {}
        self._floors: dict[TopicPartition, int] = {}
        """Where each log starts at least, as DeleteRecords was answered."""
        self._committed: set[bytes] = set()
        self.figures = Figures()

    async def run(self) -> Figures:
        world = self._world
        for topic in (_PLAIN, _CUT, _MONEY, _COPIES):
            await world.create_topic(topic, 2)
        await world.create_topic(_KEYS, **_COMPACTED)
        for name, main in self._programs().items():
            world.start(name, main)
        await asyncio.sleep(2.0)
        while self._stops_done < self._stops:
            await asyncio.sleep(self._chance.uniform(0.1, 0.8))
            await self._stop_some()
            await world.until(lambda: not world.cluster.out_of_sync(), "all replicas in sync", 120.0)
            await self._check_starts()
        for program in world.programs:
            await program.stop()
        await self._check_records()
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

    # traffic

    def _programs(self) -> dict[str, Callable[[], Any]]:
        servers = {"bootstrap_servers": self._world.bootstrap_servers}
        found: dict[str, Callable[[], Any]] = {
            "acks-0": lambda: self._produce(_PLAIN, acks=0, enable_idempotence=False, **servers),
            "acks-1": lambda: self._produce(_PLAIN, acks=1, enable_idempotence=False, **servers),
            "acks-all": lambda: self._produce(_PLAIN, acks="all", enable_idempotence=False, **servers),
            "idempotent": lambda: self._produce(_CUT, acks="all", enable_idempotence=True, **servers),
            "keys": lambda: self._produce(_KEYS, keys=3, acks="all", **servers),
            "transactions": lambda: self._transact(servers),
            "admin": lambda: self._administer(servers),
            "deleter": lambda: self._delete(servers),
            "long-poll": lambda: self._read([_PLAIN, _MONEY], fetch_max_wait_ms=5000, **servers),
        }
        for number in range(2):
            found[f"member-{number}"] = lambda: self._read_in_group(servers)
        for number in self._world.cluster.brokers:
            found[f"silent-{number}"] = lambda number=number: self._be_silent(number)  # type: ignore[misc]
        return found

    async def _produce(self, topic: str, keys: int = 0, **options: Any) -> None:
        chance, number = self._chance_here(), 0
        async with Producer(linger_ms=chance.choice([0, 5]), **options) as producer:
            fates: set[asyncio.Future[None]] = set()
            while True:
                number += 1
                value = f"{self._name_here()}-{self._world.now_s:.6f}-{number}".encode()
                key = b"key-%d" % chance.randrange(keys) if keys else None
                partition = 0 if keys else chance.randrange(2)
                delivery = await producer.send(topic, value, key=key, partition=partition)
                fate = asyncio.ensure_future(self._note(TopicPartition(topic, partition), value, delivery, options))
                fates.add(fate)
                fate.add_done_callback(fates.discard)
                await asyncio.sleep(chance.expovariate(6))

    async def _note(self, partition: TopicPartition, value: bytes, delivery: Any, options: dict[str, Any]) -> None:
        try:
            metadata = await delivery
        except ClientError:
            return
        if options["acks"] == "all" and partition.topic != _KEYS:
            self._acknowledged.setdefault(partition, {})[metadata.offset] = value
            self.figures.acknowledged += 1

    async def _transact(self, servers: dict[str, Any]) -> None:
        chance, number = self._chance_here(), 0
        async with Producer(transactional_id="money", **servers) as producer:
            await producer.init_transactions()
            while True:
                number += 1
                values = [f"t-{self._world.now_s:.6f}-{number}-{part}".encode() for part in range(3)]
                async with producer.transaction():
                    for value in values:
                        await producer.send(_MONEY, value, partition=chance.randrange(2))
                    await asyncio.sleep(chance.choice([0.0, 0.05]))
                self._committed.update(values)
                self.figures.committed += 1
                await asyncio.sleep(chance.expovariate(6))

    async def _read(self, topics: list[str], **options: Any) -> None:
        async with Consumer(*topics, auto_offset_reset="earliest", **options) as consumer:
            async for _ in consumer:
                pass

    async def _read_in_group(self, servers: dict[str, Any]) -> None:
        """A member that leaves and joins again."""
        chance = self._chance_here()
        while True:
            async with Consumer(_PLAIN, _CUT, group_id="group", auto_offset_reset="earliest", **servers) as consumer:
                left_s = self._world.now_s + chance.uniform(0.5, 6.0)
                while self._world.now_s < left_s:
                    await consumer.getmany(timeout_ms=200)
                await consumer.commit()

    async def _administer(self, servers: dict[str, Any]) -> None:
        chance, number = self._chance_here(), 0
        async with Admin(**servers) as admin:
            while True:
                number += 1
                name = f"short-lived-{number % 3}"
                replicas = chance.sample(sorted(self._world.cluster.brokers), 2)
                change = {ConfigResource("topic", _PLAIN): [ConfigChange("retention.ms", "set", str(10**9 + number))]}
                work: Awaitable[Any] = chance.choice(
                    [
                        lambda: self._world_topic(admin, name),
                        lambda: admin.delete_topics([name]),
                        lambda: admin.incremental_alter_configs(change),
                        lambda: admin.alter_partition_reassignments({TopicPartition(_COPIES, 0): replicas}),
                    ]
                )()
                try:
                    await work
                except ClientError:
                    pass
                await asyncio.sleep(chance.uniform(0.05, 0.6))

    @staticmethod
    async def _world_topic(admin: Admin, name: str) -> None:
        from kafkalite.client import NewTopic

        await admin.create_topics([NewTopic(name, num_partitions=1, replication_factor=2)])

    async def _delete(self, servers: dict[str, Any]) -> None:
        chance = self._chance_here()
        async with Admin(**servers) as admin:
            while True:
                partition = TopicPartition(_CUT, chance.randrange(2))
                known = self._acknowledged.get(partition)
                if known:
                    try:
                        (done,) = await admin.delete_records({partition: chance.choice(list(known)[-50:])})
                        self._floors[partition] = max(self._floors.get(partition, 0), done.low_watermark)
                        self.figures.deletions += 1
                    except ClientError:
                        pass
                await asyncio.sleep(chance.uniform(0.05, 0.5))

    async def _be_silent(self, broker_id: int) -> None:
        """Half a request on one connection; on another one a request for much, of whose answer nothing is read."""
        loop, host = asyncio.get_running_loop(), f"broker-{broker_id}"
        while True:
            for content in (b"\0\0\1\0\0\3", _METADATA_REQUESTS):
                try:
                    transport, _ = await loop.create_connection(asyncio.Protocol, host, PORT)
                except OSError:
                    continue
                transport.pause_reading()  # type: ignore[attr-defined]
                transport.write(content)
            await asyncio.sleep(5.0)

    def _chance_here(self) -> random.Random:
        return self._world.simulation.chance(f"{self._name_here()}/{self._world.now_s}")

    @staticmethod
    def _name_here() -> str:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, ProcessLoop)
        return loop.process.name

    # what must hold

    async def _check_starts(self) -> None:
        floors = dict(self._floors)

        async def look() -> dict[TopicPartition, int]:
            async with Consumer(bootstrap_servers=self._world.bootstrap_servers) as consumer:
                return dict(await consumer.beginning_offsets(list(floors)))

        if floors:
            starts = await self._world.ask(look)
            undone = {each: (starts[each], floor) for each, floor in floors.items() if starts[each] < floor}
            assert not undone, f"seed {self._world.seed}: records are back that were deleted (log start, deleted up to): {undone}"

    async def _check_records(self) -> None:
        for topic in (_PLAIN, _CUT):
            found = {(each.partition, each.offset): each.value for each in await self._world.read(topic)}
            for partition, records in self._acknowledged.items():
                if partition.topic == topic:
                    first = min((offset for number, offset in found if number == partition.partition), default=0)
                    lost = [o for o, v in records.items() if o >= first and found.get((partition.partition, o)) != v]
                    assert not lost, f"{partition}: acknowledged records are lost at {lost[:10]}"
        there = {each.value for each in await self._world.read(_MONEY)}
        assert self._committed <= there, f"committed records are lost: {sorted(self._committed - there)[:10]}"


_METADATA_REQUESTS: Final = b"\0\0\0\x0e\0\3\0\0\0\0\0\1\0\0\0\0\0\0" * 40


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
            for broker in world.cluster.brokers.values():
                await world.cluster.stop(broker.broker_id)  # they began without children
            await world.cluster.start()
            await stopping(children)

    figures: list[Figures] = []

    async def stopping(children: list[CleaningChild]) -> None:
        figures.append(await Stops(world, children, stops).run())

    for each in (lifecycle, shutdown):
        each.addHandler(twice)
    try:
        with _on_virtual_time(world.simulation):
            world.simulation.run(world._told(story), limit_s=36_000.0)
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
