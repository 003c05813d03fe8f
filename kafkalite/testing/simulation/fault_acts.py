"""What each kind of fault does to a simulated cluster."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Final

from kafkalite import failpoints
from kafkalite.errors import KafkaError
from kafkalite.testing.simulation.absences import Absences, NotNow
from kafkalite.testing.simulation.cluster import SimulatedBroker, SimulatedCluster
from kafkalite.testing.simulation.faults import MISBEHAVIOURS, POINTS, Fault
from kafkalite.testing.simulation.processes import Process, ProcessKilled
from kafkalite.types import TopicPartition
from zk import paths
from zk.memory.memory_store import MemoryStore
from zk.store import Delete, SessionExpiredError

_NOTICE_SHARE: Final = 2 / 3
"""After this share of its session timeout without answers a client of ZooKeeper gives its connection up."""

_SUPERVISOR_S: Final = 0.5
"""After this a broker that did not come up is started again."""

_POINT_S: Final = 5.0
"""How long a failpoint stays armed."""


class ArmedFailpoints:
    """Failpoints of the whole program, each with the actions of any number of faults."""

    def __init__(self) -> None:
        self._actions: dict[str, list[Callable[[], None]]] = {}

    def arm(self, point: str, action: Callable[[], None]) -> None:
        actions = self._actions.setdefault(point, [])
        actions.append(action)

        def act() -> None:
            for each in list(actions):
                each()

        failpoints.arm(point, act)

    def disarm(self, point: str, action: Callable[[], None]) -> None:
        """Take an action away, if it is still there."""
        actions = self._actions.get(point, [])
        if action in actions:
            actions.remove(action)
            if not actions:
                del self._actions[point]
                failpoints.disarm(point)

    def disarm_all(self) -> None:
        for point in self._actions:
            failpoints.disarm(point)
        self._actions.clear()


class FaultActs:
    """Faults on the director's loop: one coroutine for each of `faults.KINDS`, of its name with underscores, that begins the fault, lets it
    last and ends it. NotNow where it makes no sense.
    """

    def __init__(self, cluster: SimulatedCluster, absences: Absences, failpoints: ArmedFailpoints) -> None:
        self._cluster = cluster
        self._absences = absences
        self._failpoints = failpoints
        self._network = cluster.simulation.network

    # what several of them need

    def _find_broker(self, fault: Fault) -> SimulatedBroker:
        """Return the broker that is the target, which runs. NotNow."""
        broker = next((each for each in self._cluster.brokers.values() if each.name == fault.targets[0]), None)
        if broker is None:
            raise NotNow(f"{fault.targets[0]} is no broker")
        if broker.process is None or not (broker.serves or fault.kind == "kill"):
            raise NotNow(f"{broker.name} is down or starts")
        return broker

    def _others(self, machine: str) -> list[str]:
        return [each for each in self._cluster.simulation.machines() if each not in (machine, "director")]

    def _find_running(self, fault: Fault) -> tuple[SimulatedBroker, Process]:
        broker = self._find_broker(fault)
        assert broker.process is not None
        return broker, broker.process

    def _find_store(self, fault: Fault) -> MemoryStore:
        store = self._find_broker(fault).store
        assert store is not None
        return store

    async def restart(self, broker: SimulatedBroker) -> None:
        """Start a broker that is down, again and again until it serves or is killed."""
        try:
            while broker.process is None:
                await self._try_to_start(broker)
        except ProcessKilled:
            pass  # by another fault, which starts it again

    async def _try_to_start(self, broker: SimulatedBroker) -> None:
        """Start the broker. It stops when its disk is bad and recovery has to write, or its first session ends; then a while passes."""
        complaints = self._cluster.simulation.may_complain
        has_bad_disk = broker.disk.full or broker.may_stop
        complaints[broker.name] += has_bad_disk
        try:
            await self._cluster.start(broker.broker_id)
        except (KafkaError, SessionExpiredError) as problem:
            if isinstance(problem, KafkaError) and not has_bad_disk:
                raise
            if broker.process is not None:
                self._cluster.kill(broker.broker_id)
            await asyncio.sleep(_SUPERVISOR_S)
        finally:
            complaints[broker.name] -= has_bad_disk

    async def _cut(self, links: Sequence[tuple[str, str]], length_s: float) -> None:
        for source, target in links:
            self._network.cut(source, target)
        await asyncio.sleep(length_s)
        for source, target in links:
            self._network.heal(source, target)

    # the kinds

    async def kill(self, fault: Fault) -> None:
        broker, process = self._find_running(fault)

        def kill_broker() -> None:
            if process.alive:
                self._cluster.kill(broker.broker_id)

        process.kill_after(int(fault.parameter("callbacks", 1.0)), kill_broker)
        while process.alive:  # it may also stop or die meanwhile, and then counts no callbacks any more
            await asyncio.sleep(0.05)
        await asyncio.sleep(fault.length_s)
        await self.restart(broker)

    async def kill_at(self, fault: Fault) -> None:
        broker, process = self._find_running(fault)
        ((point, count),) = fault.parameters
        left = int(count)

        def count_down() -> None:
            nonlocal left
            if asyncio.get_running_loop() is process.loop and process.alive:
                left -= 1
                if left <= 0:
                    self._failpoints.disarm(point, count_down)
                    broker.die_here()

        self._failpoints.arm(point, count_down)
        deadline_s = self._cluster.simulation.time.now_s + _POINT_S
        while process.alive and self._cluster.simulation.time.now_s < deadline_s:
            await asyncio.sleep(0.05)
        self._failpoints.disarm(point, count_down)
        if process.alive:
            raise NotNow(f"{broker.name} did not come to {point}")
        await asyncio.sleep(fault.length_s)
        await self.restart(broker)

    async def stall_at(self, fault: Fault) -> None:
        _, process = self._find_running(fault)
        chance = self._cluster.simulation.chance(f"stalls {fault}")

        def stall() -> None:
            if asyncio.get_running_loop() is process.loop and chance.random() < fault.parameter("chance"):
                process.stall(fault.parameter("delay_s"))

        for point in POINTS:
            self._failpoints.arm(point, stall)
        await asyncio.sleep(fault.length_s)
        for point in POINTS:
            self._failpoints.disarm(point, stall)

    async def misbehave(self, fault: Fault) -> None:
        broker = self._find_broker(fault)
        broker.requests.odds = {name: fault.parameter(name) for name in MISBEHAVIOURS}
        await asyncio.sleep(fault.length_s)
        broker.requests.odds = {}
        # Else a client would wait for what was lost as long as it likes, 300 s for JoinGroup.
        for other in self._others(broker.name):
            self._network.reset(broker.name, other)

    async def kill_all(self, fault: Fault) -> None:
        self._absences.nobody_forgot()
        for broker in self._cluster.running():
            self._cluster.kill(broker.broker_id)
        await asyncio.sleep(fault.length_s)
        await asyncio.gather(*(self.restart(each) for each in self._cluster.brokers.values()))

    async def stop(self, fault: Fault) -> None:
        broker = self._find_broker(fault)
        try:
            await self._cluster.stop(broker.broker_id)
        except ProcessKilled:
            pass  # by another fault
        await asyncio.sleep(fault.length_s)
        await self.restart(broker)

    async def pause(self, fault: Fault) -> None:
        _, process = self._find_running(fault)
        store = self._find_store(fault)
        if process.paused:
            raise NotNow("it is paused already")
        process.pause()
        store.fall_silent()
        await asyncio.sleep(fault.length_s)
        process.resume()
        if process.alive:
            store.resume()

    async def lose_power(self, fault: Fault) -> None:
        broker = self._find_broker(fault)
        self._absences.may_forget()
        self._absences.forgets(broker.broker_id)
        self._cluster.lose_power(broker.broker_id)
        chance = self._cluster.simulation.chance(f"swap {fault}")
        for _ in range(int(fault.parameter("swaps"))):
            path = broker.disk.swap_back(chance)
            self._cluster.simulation.trace.add(broker.name, f"{path} is what it was before")
        await asyncio.sleep(fault.length_s)
        await self.restart(broker)

    async def cut(self, fault: Fault) -> None:
        one, other = fault.targets
        await self._cut([(one, other), (other, one)], fault.length_s)

    async def cut_one_way(self, fault: Fault) -> None:
        one, other = fault.targets
        await self._cut([(one, other)], fault.length_s)

    async def isolate(self, fault: Fault) -> None:
        name = self._find_broker(fault).name
        links = [pair for other in self._others(name) for pair in ((name, other), (other, name))]
        await self._cut(links, fault.length_s)

    async def partition(self, fault: Fault) -> None:
        inside = [each for each in fault.targets if each in self._cluster.simulation.machines()]
        outside = [each for each in self._others("") if each not in inside]
        links = [pair for one in inside for other in outside for pair in ((one, other), (other, one))]
        await self._cut(links, fault.length_s)

    async def slow_link(self, fault: Fault) -> None:
        one, other = fault.targets
        self._network.delay(one, other, fault.parameter("delay_s"))
        await asyncio.sleep(fault.length_s)
        self._network.delay(one, other, 0.0)

    async def trickle(self, fault: Fault) -> None:
        one, other = fault.targets
        self._network.limit(one, other, fault.parameter("bytes_per_s"))
        await asyncio.sleep(fault.length_s)
        self._network.limit(one, other, 0.0)

    async def reset(self, fault: Fault) -> None:
        self._network.reset(*fault.targets)

    async def half_close(self, fault: Fault) -> None:
        self._network.half_close(*fault.targets)

    async def cut_zookeeper(self, fault: Fault) -> None:
        broker, store = self._find_broker(fault), self._find_store(fault)
        store.suspend(store.session_timeout_s * _NOTICE_SHARE)
        await asyncio.sleep(fault.length_s)
        if broker.store is store and broker.process is not None:
            store.resume()

    async def expire_session(self, fault: Fault) -> None:
        self._absences.nobody_forgot()
        self._find_store(fault).expire_session()

    async def expire_all(self, fault: Fault) -> None:
        self._absences.nobody_forgot()
        for broker in self._cluster.running():
            if broker.store is not None:
                broker.store.expire_session()

    async def lose_reply(self, fault: Fault) -> None:
        self._find_store(fault).lose_next_reply()

    async def slow_zookeeper(self, fault: Fault) -> None:
        store = self._find_store(fault)
        store.lag_s = fault.parameter("delay_s")
        await asyncio.sleep(fault.length_s)
        store.lag_s = 0.0

    async def lose_quorum(self, fault: Fault) -> None:
        zookeeper = self._cluster.zookeeper
        if not zookeeper.has_quorum:
            raise NotNow("there is none")
        zookeeper.lose_quorum()
        await asyncio.sleep(fault.length_s)
        zookeeper.regain_quorum()

    async def delete_controller(self, fault: Fault) -> None:
        self._cluster.zookeeper.administer([Delete(paths.CONTROLLER)])

    async def full_disk(self, fault: Fault) -> None:
        """Fill the disk. A replica that could not be made meanwhile comes with the next start of its broker, as in Apache Kafka."""
        broker = self._find_broker(fault)
        broker.disk.full = True
        await asyncio.sleep(fault.length_s)
        broker.disk.full = False
        if broker.serves and self._lacks_replicas(broker):
            self._cluster.kill(broker.broker_id)
            await self.restart(broker)

    def _lacks_replicas(self, broker: SimulatedBroker) -> bool:
        assert broker.app is not None and broker.app.serving is not None
        present = broker.app.serving.parts.replicas.partitions
        return any(
            broker.broker_id in replicas and TopicPartition(topic, number) not in present
            for topic in self._cluster.topics()
            if (assignment := self._cluster.assignment(topic)) is not None
            for number, replicas in assignment.partitions.items()
        )

    async def bad_disk(self, fault: Fault) -> None:
        broker = self._find_broker(fault)
        self._absences.may_forget()
        broker.may_stop = True
        complaints = self._cluster.simulation.may_complain
        complaints[broker.name] += 1
        broker.disk.fail(*(name for name, _ in fault.parameters))
        await asyncio.sleep(fault.length_s)
        broker.disk.fail()
        if broker.process is not None and broker.process.alive:
            self._cluster.kill(broker.broker_id)
        broker.may_stop = False
        complaints[broker.name] -= 1
        await self.restart(broker)

    async def slow_disk(self, fault: Fault) -> None:
        broker = self._find_broker(fault)
        broker.write_stall_s = fault.parameter("delay_s")
        await asyncio.sleep(fault.length_s)
        broker.write_stall_s = 0.0

    async def jump_clock(self, fault: Fault) -> None:
        broker = self._find_broker(fault)
        milliseconds = int(fault.parameter("seconds") * 1000)
        broker.clock.wall_offset_ms += milliseconds
        await asyncio.sleep(fault.length_s)
        broker.clock.wall_offset_ms -= milliseconds
