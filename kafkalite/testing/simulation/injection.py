"""Faults done to a simulated cluster: each begins at its moment, lasts, and ends; `heal` makes whole whatever is left.

Some faults take what the cluster never promised to keep: a replica that forgets what it had (`lose-power`, `bad-disk`) may do so while all
the others still have it. Such a fault is left out where a partition has not all its replicas in sync, and any fault whose target is not
there (a broker that is down already); `begun` says which faults there really were.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final, TypeAlias

from kafkalite import failpoints
from kafkalite.errors import KafkaError
from kafkalite.testing.simulation.absences import Absences, NotNow
from kafkalite.testing.simulation.cluster import SimulatedBroker, SimulatedCluster
from kafkalite.testing.simulation.faults import MISBEHAVIOURS, POINTS, Fault
from kafkalite.testing.simulation.processes import ProcessKilled
from kafkalite.types import TopicPartition
from zk import paths
from zk.store import Delete, NoNodeError, SessionExpiredError
from zk.znodes import ControllerSeat

_NOTICE_SHARE: Final = 2 / 3
"""After this share of its session timeout without answers a client of ZooKeeper gives its connection up."""

_SUPERVISOR_S: Final = 0.5
"""After this a broker that did not come up is started again."""

_POINT_S: Final = 5.0
"""So long a failpoint stays armed."""

Act: TypeAlias = Callable[["Injection", Fault], Awaitable[None]]


class Injection:
    """Injects faults into a simulated cluster, on the director's loop."""

    def __init__(self, cluster: SimulatedCluster, *, survives_a_loss: bool) -> None:
        """`survives_a_loss`: acknowledged records are on two replicas at least (min.insync.replicas), so one may forget them."""
        self.cluster = cluster
        self._absences = Absences(cluster, survives_a_loss=survives_a_loss)
        self.begun: list[Fault] = []
        self._armed: dict[str, list[Callable[[], None]]] = {}
        """What happens at each failpoint."""
        self._network = cluster.simulation.network

    async def inject(self, faults: Sequence[Fault]) -> None:
        """All of them; until the last one has ended."""
        await asyncio.gather(*(self._inject_one(number, fault) for number, fault in enumerate(faults)))

    def close(self) -> None:
        """Nothing stays armed behind a life that ended early."""
        for point in list(self._armed):
            self._armed.pop(point)
            failpoints.disarm(point)

    async def heal(self) -> None:
        """Let every broker run again, and nothing be slow, full or broken."""
        cluster = self.cluster
        if not cluster.zookeeper.has_quorum:
            cluster.zookeeper.regain_quorum()
        down = [each.broker_id for each in cluster.brokers.values() if each.process is None]
        if down:
            await cluster.start(*down)

    async def _inject_one(self, number: int, fault: Fault) -> None:
        await asyncio.sleep(fault.at_s)
        trace = self.cluster.simulation.trace
        try:
            targets = tuple(map(self._machine, fault.targets))
            if len(set(targets)) < len(targets):
                raise NotNow("twice the same machine")
            chosen = Fault(fault.at_s, fault.kind, targets, fault.length_s, fault.parameters)
            trace.add("fault", str(chosen).strip())
            with self._absences.taking_away(chosen):
                await _ACTS[fault.kind](self, chosen)
        except NotNow as reason:
            trace.add("fault", f"{fault.kind} is left out: {reason}")
        else:
            self.begun.append(fault)
            trace.add("fault", f"{fault.kind} {' '.join(targets)} is over".replace("  ", " "))

    # targets

    def _machine(self, target: str) -> str:
        if target == "controller":
            try:
                data, _ = self.cluster.zookeeper.tree.read(paths.CONTROLLER)
            except NoNodeError:
                raise NotNow("there is no controller") from None
            return f"broker-{ControllerSeat.decode(data).broker_id}"
        role, _, name = target.partition(":")
        if not name:
            return target
        topic, _, partition = name.rpartition("-")
        state = self.cluster.partition_state(TopicPartition(topic, int(partition)))
        if state is None:
            raise NotNow(f"there is no {name}")
        if role == "leader" and state.leader >= 0:
            return f"broker-{state.leader}"
        followers = sorted(each for each in state.isr if each != state.leader)
        if role == "follower" and followers:
            return f"broker-{followers[0]}"
        raise NotNow(f"{name} has no {role}")

    def _broker(self, fault: Fault) -> SimulatedBroker:
        """The one that runs. NotNow."""
        broker = next((each for each in self.cluster.brokers.values() if each.name == fault.targets[0]), None)
        if broker is None:
            raise NotNow(f"{fault.targets[0]} is no broker")
        if broker.process is None or not (broker.serves or fault.kind == "kill"):
            raise NotNow(f"{broker.name} is down or starts")
        return broker

    def _others(self, machine: str) -> list[str]:
        return [each for each in self.cluster.simulation.machines() if each not in (machine, "director")]

    # what several faults need

    async def _restart(self, broker: SimulatedBroker) -> None:
        try:
            while broker.process is None:
                await self._try_to_start(broker)
        except ProcessKilled:
            pass  # by another fault, which starts it again

    async def _try_to_start(self, broker: SimulatedBroker) -> None:
        """It stops when its disk is bad and recovery has to write, or its first session ends; whoever watches over it waits a while."""
        complaints = self.cluster.simulation.may_complain
        has_bad_disk = broker.disk.full or broker.may_stop
        may_complain_meanwhile = has_bad_disk and broker.name not in complaints
        if may_complain_meanwhile:
            complaints[broker.name] = None
        try:
            await self.cluster.start(broker.broker_id)
        except (KafkaError, SessionExpiredError) as problem:
            if isinstance(problem, KafkaError) and not has_bad_disk:
                raise
            if broker.process is not None:
                self.cluster.kill(broker.broker_id)
            await asyncio.sleep(_SUPERVISOR_S)
        finally:
            if may_complain_meanwhile:
                complaints.pop(broker.name, None)

    @contextmanager
    def _cut(self, links: Sequence[tuple[str, str]]) -> Iterator[None]:
        for source, target in links:
            self._network.cut(source, target)
        try:
            yield
        finally:
            for source, target in links:
                self._network.heal(source, target)

    @contextmanager
    def _away_from_zookeeper(self, broker: SimulatedBroker) -> Iterator[None]:
        store = broker.store
        assert store is not None
        store.suspend(store.session_timeout_s * _NOTICE_SHARE)
        try:
            yield
        finally:
            if broker.store is store and broker.process is not None:
                store.resume()

    # the kinds

    async def kill(self, fault: Fault) -> None:
        broker = self._broker(fault)
        assert broker.process is not None
        gone = asyncio.Event()

        def record_kill() -> None:
            if broker.process is not None and broker.process.alive:
                self.cluster.kill(broker.broker_id)
            gone.set()

        broker.process.kill_after(int(fault.parameter("callbacks", 1.0)), record_kill)
        # A broker that has stopped or died meanwhile counts no callbacks any more.
        process = broker.process
        while not gone.is_set() and process.alive:
            await asyncio.sleep(0.05)
        await asyncio.sleep(fault.length_s)
        await self._restart(broker)

    async def kill_at(self, fault: Fault) -> None:
        broker = self._broker(fault)
        process = broker.process
        assert process is not None
        ((point, count),) = fault.parameters
        left = int(count)

        def reached() -> None:
            nonlocal left
            if asyncio.get_running_loop() is process.loop and process.alive:
                left -= 1
                if left <= 0:
                    self._disarm(point, reached)
                    broker.die_here()

        self._arm(point, reached)
        deadline_s = self.cluster.simulation.time.now_s + _POINT_S
        while process.alive and self.cluster.simulation.time.now_s < deadline_s:
            await asyncio.sleep(0.05)
        self._disarm(point, reached)
        if process.alive:
            raise NotNow(f"{broker.name} did not come to {point}")
        await asyncio.sleep(fault.length_s)
        await self._restart(broker)

    def _arm(self, point: str, reached: Callable[[], None]) -> None:
        actions = self._armed.setdefault(point, [])
        actions.append(reached)

        def all_of_them() -> None:
            for each in list(actions):
                each()

        failpoints.arm(point, all_of_them)

    def _disarm(self, point: str, reached: Callable[[], None]) -> None:
        actions = self._armed.get(point, [])
        if reached in actions:
            actions.remove(reached)
            if not actions:
                del self._armed[point]
                failpoints.disarm(point)

    async def stall_at(self, fault: Fault) -> None:
        process = self._broker(fault).process
        assert process is not None
        chance = self.cluster.simulation.chance(f"stalls {fault}")

        def reached() -> None:
            if asyncio.get_running_loop() is process.loop and chance.random() < fault.parameter("chance"):
                process.stall(fault.parameter("delay_s"))

        for point in POINTS:
            self._arm(point, reached)
        await asyncio.sleep(fault.length_s)
        for point in POINTS:
            self._disarm(point, reached)

    async def misbehave(self, fault: Fault) -> None:
        broker = self._broker(fault)
        broker.requests.odds = {name: fault.parameter(name) for name in MISBEHAVIOURS}
        await asyncio.sleep(fault.length_s)
        broker.requests.odds = {}
        for other in self._others(
            broker.name
        ):  # else who asked would wait for what was lost as long as it likes, 300 s for JoinGroup
            self._network.reset(broker.name, other)

    async def kill_all(self, fault: Fault) -> None:
        self._absences.nobody_forgot()
        for broker in self.cluster.running():
            self.cluster.kill(broker.broker_id)
        await asyncio.sleep(fault.length_s)
        await asyncio.gather(*(self._restart(each) for each in self.cluster.brokers.values()))

    async def stop(self, fault: Fault) -> None:
        broker = self._broker(fault)
        try:
            await self.cluster.stop(broker.broker_id)
        except ProcessKilled:
            pass  # by another fault
        await asyncio.sleep(fault.length_s)
        await self._restart(broker)

    async def pause(self, fault: Fault) -> None:
        broker = self._broker(fault)
        process, store = broker.process, broker.store
        assert process is not None and store is not None
        if process.paused:
            raise NotNow("it is paused already")
        process.pause()
        store.fall_silent()
        await asyncio.sleep(fault.length_s)
        process.resume()
        if process.alive:
            store.resume()

    async def lose_power(self, fault: Fault) -> None:
        broker = self._broker(fault)
        self._absences.may_forget()
        self._absences.forgets(broker.broker_id)
        self.cluster.lose_power(broker.broker_id)
        chance = self.cluster.simulation.chance(f"swap {fault}")
        for _ in range(int(fault.parameter("swaps"))):
            path = broker.disk.swap_back(chance)
            self.cluster.simulation.trace.add(broker.name, f"{path} is what it was before")
        await asyncio.sleep(fault.length_s)
        await self._restart(broker)

    async def cut(self, fault: Fault) -> None:
        one, other = fault.targets
        with self._cut([(one, other), (other, one)]):
            await asyncio.sleep(fault.length_s)

    async def cut_one_way(self, fault: Fault) -> None:
        one, other = fault.targets
        with self._cut([(one, other)]):
            await asyncio.sleep(fault.length_s)

    async def isolate(self, fault: Fault) -> None:
        name = self._broker(fault).name
        with self._cut([pair for other in self._others(name) for pair in ((name, other), (other, name))]):
            await asyncio.sleep(fault.length_s)

    async def partition(self, fault: Fault) -> None:
        inside = [each for each in fault.targets if each in self.cluster.simulation.machines()]
        outside = [each for each in self._others("") if each not in inside]
        with self._cut([pair for one in inside for other in outside for pair in ((one, other), (other, one))]):
            await asyncio.sleep(fault.length_s)

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
        with self._away_from_zookeeper(self._broker(fault)):
            await asyncio.sleep(fault.length_s)

    async def expire_session(self, fault: Fault) -> None:
        self._absences.nobody_forgot()
        store = self._broker(fault).store
        assert store is not None
        store.expire_session()

    async def expire_all(self, fault: Fault) -> None:
        self._absences.nobody_forgot()
        for broker in self.cluster.running():
            if broker.store is not None:
                broker.store.expire_session()

    async def lose_reply(self, fault: Fault) -> None:
        store = self._broker(fault).store
        assert store is not None
        store.lose_next_reply()

    async def slow_zookeeper(self, fault: Fault) -> None:
        store = self._broker(fault).store
        assert store is not None
        store.lag_s = fault.parameter("delay_s")
        await asyncio.sleep(fault.length_s)
        store.lag_s = 0.0

    async def lose_quorum(self, fault: Fault) -> None:
        zookeeper = self.cluster.zookeeper
        if not zookeeper.has_quorum:
            raise NotNow("there is none")
        zookeeper.lose_quorum()
        await asyncio.sleep(fault.length_s)
        zookeeper.regain_quorum()

    async def delete_controller(self, fault: Fault) -> None:
        self.cluster.zookeeper.administer([Delete(paths.CONTROLLER)])

    async def full_disk(self, fault: Fault) -> None:
        """A replica that could not be made meanwhile comes with the next start of its broker, as in Apache Kafka."""
        broker = self._broker(fault)
        broker.disk.full = True
        await asyncio.sleep(fault.length_s)
        broker.disk.full = False
        if broker.serves and self._lacks_replicas(broker):
            self.cluster.kill(broker.broker_id)
            await self._restart(broker)

    def _lacks_replicas(self, broker: SimulatedBroker) -> bool:
        assert broker.app is not None and broker.app.serving is not None
        present = broker.app.serving.parts.replicas.partitions
        return any(
            broker.broker_id in replicas and TopicPartition(topic, number) not in present
            for topic in self.cluster.topics()
            if (assignment := self.cluster.assignment(topic)) is not None
            for number, replicas in assignment.partitions.items()
        )

    async def bad_disk(self, fault: Fault) -> None:
        broker = self._broker(fault)
        self._absences.may_forget()
        broker.may_stop = True
        complaints = self.cluster.simulation.may_complain
        complaints[broker.name] = None
        broker.disk.fail(*(name for name, _ in fault.parameters))
        await asyncio.sleep(fault.length_s)
        broker.disk.fail()
        if broker.process is not None and broker.process.alive:
            self.cluster.kill(broker.broker_id)
        broker.may_stop = False
        complaints.pop(broker.name, None)
        await self._restart(broker)

    async def slow_disk(self, fault: Fault) -> None:
        broker = self._broker(fault)
        broker.write_stall_s = fault.parameter("delay_s")
        await asyncio.sleep(fault.length_s)
        broker.write_stall_s = 0.0

    async def jump_clock(self, fault: Fault) -> None:
        broker = self._broker(fault)
        milliseconds = int(fault.parameter("seconds") * 1000)
        broker.clock.wall_offset_ms += milliseconds
        await asyncio.sleep(fault.length_s)
        broker.clock.wall_offset_ms -= milliseconds


_ACTS: Final[dict[str, Act]] = {
    "kill": Injection.kill,
    "kill-at": Injection.kill_at,
    "stall-at": Injection.stall_at,
    "misbehave": Injection.misbehave,
    "kill-all": Injection.kill_all,
    "stop": Injection.stop,
    "pause": Injection.pause,
    "lose-power": Injection.lose_power,
    "cut": Injection.cut,
    "cut-one-way": Injection.cut_one_way,
    "isolate": Injection.isolate,
    "partition": Injection.partition,
    "slow-link": Injection.slow_link,
    "trickle": Injection.trickle,
    "reset": Injection.reset,
    "half-close": Injection.half_close,
    "cut-zookeeper": Injection.cut_zookeeper,
    "expire-session": Injection.expire_session,
    "expire-all": Injection.expire_all,
    "lose-reply": Injection.lose_reply,
    "slow-zookeeper": Injection.slow_zookeeper,
    "lose-quorum": Injection.lose_quorum,
    "delete-controller": Injection.delete_controller,
    "full-disk": Injection.full_disk,
    "bad-disk": Injection.bad_disk,
    "slow-disk": Injection.slow_disk,
    "jump-clock": Injection.jump_clock,
}
