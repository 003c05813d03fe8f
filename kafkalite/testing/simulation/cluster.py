"""Whole brokers in a simulation: `kafkalite.broker.app.Broker` with all its parts, on a simulated network, disk, clock and ZooKeeper.

Broker 1 runs on the machine `broker-1` and listens at `broker-1:9092`; its disk outlives it. ZooKeeper answers each session in order, with
a delay of its own for each request; that its servers fail is not simulated yet. What is written to ZooKeeper and what is appended to a log
are lines of the trace, beside what the brokers log.
"""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final, NoReturn

from kafkalite.broker.app import Broker
from kafkalite.broker.connections.unauthenticated_reads import UnauthenticatedReads
from kafkalite.broker.shared_states import SharedStates
from kafkalite.config.broker import BrokerConfig
from kafkalite.protocol.record_batches.records import iter_batches
from kafkalite.storage.directories.cleaner import in_executor
from kafkalite.storage.log_files import partition_of
from kafkalite.testing.simulation.logins import BROKER_SETTINGS, PROTOCOL
from kafkalite.testing.simulation.memory_disk import Chance, MemoryDisk
from kafkalite.testing.simulation.misbehaving import ChanceFaults, MisbehavingBroker
from kafkalite.testing.simulation.processes import KilledHere, Process, Simulation
from kafkalite.testing.simulation.readiness import SimulatedPoll
from kafkalite.testing.simulation.virtual_time import VirtualClock
from kafkalite.types import BrokerId, TopicPartition
from zk import paths
from zk.memory.memory_store import MemoryStore, MemoryZooKeeper
from zk.session import Session
from zk.store import Create, NoNodeError, Operation, Result, StoreError, Write
from zk.znodes import MalformedZnodeError, PartitionState, TopicAssignment

PORT: Final = 9092
LOG_DIR: Final = "/logs"
_START_S: Final = 60.0
_POLL_S: Final = 0.02
_ZOOKEEPER_DELAY_S: Final = (0.0002, 0.005)

_SETTINGS: Final[Mapping[str, str]] = {
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "offsets.topic.num.partitions": "2",
    "zookeeper.session.timeout.ms": "6000",
    "replica.lag.time.max.ms": "5000",
    "group.initial.rebalance.delay.ms": "100",
    "controlled.shutdown.retry.backoff.ms": "500",
    "kafkalite.failover.detection": "session",
}
"""What makes small clusters whole and quick to notice a failure; the rest is as in production. Heartbeats would double what a run costs."""


class SimulatedBroker:
    """One broker through all its processes."""

    def __init__(self, cluster: SimulatedCluster, broker_id: BrokerId) -> None:
        self.broker_id = broker_id
        self.name = f"broker-{broker_id}"
        self.clock = VirtualClock(cluster.simulation.time)
        self.disk = MemoryDisk(self.clock, self._note_write)
        self.process: Process | None = None
        self._last_process: Process | None = None
        self.app: Broker | None = None
        self.store: MemoryStore | None = None
        self.runs = 0
        self.serves = False
        self.is_off = False
        self.may_stop = False
        """True while it may stop by itself, because its disk is broken."""
        self.write_stall_s = 0.0
        """How long the whole process waits whenever something is written to a log."""
        self.requests = ChanceFaults(cluster.simulation.chance(f"{self.name}/requests"))
        self._cluster = cluster
        self._config: BrokerConfig | None = None
        """Of its last process: a hundred of them would be parsed again and again."""
        self._trace = cluster.simulation.trace

    def start_process(self) -> Process:
        """Start a process with a new session, which is to run `serve`."""
        cluster, simulation = self._cluster, self._cluster.simulation
        self.runs += 1
        config = self._read_config()
        self.process = self._last_process = simulation.process(self.name)
        self.store = MemoryStore(cluster.zookeeper, config.zookeeper_session_timeout_ms / 1000)
        self.app = Broker(
            config,
            Session(self.store),
            self.disk,
            self.clock,
            simulation.chance(f"{self.name}/{self.runs}"),
            self._fatal,
            in_executor(self.disk),
            MisbehavingBroker(self.requests),
            unauthenticated_reads=UnauthenticatedReads(partial(SimulatedPoll, self.process.descriptors)),
        )
        self.app.metadata.shared = cluster.shared_states
        self.process.loop.set_exception_handler(self.app.errors.handle)
        self._trace.add(self.name, f"begins life {self.runs}")
        return self.process

    def _read_config(self) -> BrokerConfig:
        cluster = self._cluster
        properties = {
            **_SETTINGS,
            "broker.id": str(self.broker_id),
            "zookeeper.connect": "memory",
            "listeners": f"{PROTOCOL if cluster.authenticates else 'PLAINTEXT'}://{self.name}:{PORT}",
            "log.dirs": LOG_DIR,
            **(BROKER_SETTINGS if cluster.authenticates else {}),
            **({"broker.rack": cluster.racks[self.broker_id]} if self.broker_id in cluster.racks else {}),
            **cluster.settings,
        }
        if self._config is None or self._config.originals != properties:
            self._config = BrokerConfig.from_properties(properties)
        return self._config

    async def serve(self) -> None:
        """Start the broker; returns when it is ready for clients."""
        assert self.store is not None and self.app is not None
        await self.store.start(_START_S)
        await self.app.start()
        self.serves = True
        self._trace.add(self.name, "serves")

    def end_process(self, *, unheard: bool = False) -> None:
        """End the process; ZooKeeper notices it as it would, by silence."""
        assert self.process is not None and self.store is not None
        self.process.kill(unheard=unheard)
        self.store.fall_silent()
        self.disk.process_ended()
        self.process = self.app = None
        self.serves = False

    def die_here(self) -> NoReturn:
        """Kill the broker in the middle of what its own code, the caller, is doing. Raises KilledHere through it."""
        director = self._cluster.simulation.director.loop
        asyncio._set_running_loop(director)
        try:
            self._cluster.kill(self.broker_id)
        finally:
            assert self._last_process is not None
            asyncio._set_running_loop(self._last_process.loop)
        self.disk.gone = True
        director.call_soon(self._finish_unwinding)
        raise KilledHere

    def _finish_unwinding(self) -> None:
        self.disk.gone = False

    def _fatal(self, reason: str) -> None:
        if self.process is None:
            return
        simulation = self._cluster.simulation
        if self.may_stop:
            process = self.process
            simulation.director.loop.call_soon(lambda: self.end_process() if self.process is process else None)
        else:
            simulation.problems.append(f"{self.name} stops: {reason}")

    def _note_write(self, path: str, position: int, data: bytes) -> None:
        self._trace.count(f"{self.name} {path} {position} {zlib.crc32(data)} {len(data)}")
        if path.endswith(".log"):
            if self.write_stall_s and self.process is not None:
                self.process.stall(self.write_stall_s)
            log = path.rsplit("/", 2)[1]
            for batch in iter_batches(data):
                self._trace.add(
                    self.name,
                    f"{log}: offsets {batch.base_offset} to {batch.last_offset} of leader epoch {batch.partition_leader_epoch}",
                )


class SimulatedCluster:
    """Brokers 1 to `size` and their ZooKeeper; `settings` are broker properties. Used by the scenario, on the director's loop.

    Where it `authenticates`, clients need `logins.CLIENT_OPTIONS`. Brokers are in `racks`, or in none.
    """

    def __init__(
        self,
        simulation: Simulation,
        size: int = 3,
        settings: Mapping[str, str] | None = None,
        *,
        authenticates: bool = False,
        racks: Mapping[BrokerId, str] | None = None,
    ) -> None:
        self.simulation = simulation
        self.racks = racks or {}
        self.authenticates = authenticates
        self.settings = dict(settings or {})
        self.clock = VirtualClock(simulation.time)
        self.shared_states = SharedStates()
        """Of all brokers, so that each state of a partition and each list of brokers is made once; nobody may change them."""
        chance = simulation.chance("zookeeper")
        self.zookeeper = MemoryZooKeeper(lambda: chance.uniform(*_ZOOKEEPER_DELAY_S))
        self.zookeeper.loop = simulation.director.loop
        self.zookeeper.on_transaction = self._note_transaction
        self.state_listeners: list[Callable[[TopicPartition, PartitionState], None]] = []
        """Called with each state of a partition that is written to ZooKeeper."""
        self.brokers = {number: SimulatedBroker(self, number) for number in range(1, size + 1)}
        self._late: tuple[int, list[TopicPartition]] | None = None
        """What is out of sync, as of which transaction."""

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(f"{each.name}:{PORT}" for each in self.brokers.values())

    # processes

    async def start(self, *broker_ids: BrokerId) -> None:
        """Start these brokers at once, by default all; returns when they serve."""
        chosen = [self.brokers[each] for each in broker_ids or self.brokers]
        for each in chosen:
            if each.is_off:
                each.is_off = False
                for other in self.simulation.machines():
                    self.heal(each.name, other)
        await asyncio.gather(*(each.start_process().run(each.serve()) for each in chosen))

    async def stop(self, *broker_ids: BrokerId) -> None:
        """Stop these brokers cleanly, one after the other, by default all that run. AssertionError when one leaves a task behind."""
        for broker_id in broker_ids or [each.broker_id for each in self.running()]:
            broker = self.brokers[broker_id]
            assert broker.process is not None and broker.app is not None
            broker.serves = False
            await broker.process.run(broker.app.stop())
            left = broker.process.tasks()
            broker.end_process()
            self.simulation.trace.add(broker.name, "has stopped")
            assert not left, f"{broker.name} left tasks behind: {', '.join(left)}"

    def kill(self, broker_id: BrokerId) -> None:
        """Kill the broker, as kill -9 does."""
        self.brokers[broker_id].end_process()
        self.simulation.trace.add(self.brokers[broker_id].name, "is killed")

    def lose_power(self, broker_id: BrokerId, chance: Chance | None = None) -> None:
        """Turn the broker's machine off until `start`: nobody hears of it, and what was not synced is lost as chance decides."""
        broker = self.brokers[broker_id]
        broker.end_process(unheard=True)
        broker.is_off = True
        for other in self.simulation.machines():
            self.cut(broker.name, other)
        broker.disk.lose_power(chance or self.simulation.chance(f"{broker.name}/power/{broker.runs}"))
        self.simulation.trace.add(broker.name, "loses power")

    def running(self) -> list[SimulatedBroker]:
        """Return the brokers that have a process."""
        return [each for each in self.brokers.values() if each.process is not None]

    def find_session_owner(self, session_id: int) -> SimulatedBroker | None:
        """Return the broker whose session with ZooKeeper, of its process or the last one, has this id."""
        return next(
            (each for each in self.brokers.values() if each.store and each.store.session_id == session_id), None
        )

    # links

    def cut(self, one: str, other: str) -> None:
        """Cut both directions between two machines."""
        self.simulation.network.cut(one, other)
        self.simulation.network.cut(other, one)

    def heal(self, one: str, other: str) -> None:
        """Heal both directions between two machines."""
        self.simulation.network.heal(one, other)
        self.simulation.network.heal(other, one)

    # what there is

    def read_znode(self, path: str) -> bytes | None:
        """Return the data that ZooKeeper has now; None where there is no such znode."""
        try:
            return self.zookeeper.tree.read(path)[0]
        except NoNodeError:
            return None

    def partition_state(self, partition: TopicPartition) -> PartitionState | None:
        """Return the state that ZooKeeper has now; None where there is none yet."""
        data = self.read_znode(paths.partition_state(*partition))
        return None if data is None else PartitionState.decode(data)

    def broker_epoch(self, broker_id: BrokerId) -> int | None:
        """Return the epoch of the broker's registration, also of its earlier process; None without one."""
        stat = self.zookeeper.tree.exists(paths.broker(broker_id))
        return None if stat is None else stat.czxid

    def topics(self) -> list[str]:
        """Return all topics that ZooKeeper knows."""
        return [] if self.read_znode(paths.TOPICS) is None else self.zookeeper.tree.children(paths.TOPICS)

    def assignment(self, topic: str) -> TopicAssignment | None:
        """Return the assignment that ZooKeeper has now; None for an unknown topic."""
        data = self.read_znode(paths.topic(topic))
        return None if data is None else TopicAssignment.decode(data)

    def out_of_sync(self) -> list[TopicPartition]:
        """Return the partitions without a leader, with a replica outside the ISR, or in the middle of a reassignment."""
        zxid = self.zookeeper.tree.zxid
        if self._late is None or self._late[0] != zxid:  # it is asked for at every turn of a wait
            self._late = zxid, self._find_out_of_sync()
        return self._late[1]

    def partitions(self) -> list[TopicPartition]:
        """Return all partitions that ZooKeeper knows."""
        return [
            TopicPartition(topic, number)
            for topic in self.topics()
            if (assignment := self.assignment(topic)) is not None
            for number in sorted(assignment.partitions)
        ]

    def _find_out_of_sync(self) -> list[TopicPartition]:
        late = []
        for topic in self.topics():
            assignment = self.assignment(topic)
            if assignment is None:
                continue
            for number, replicas in assignment.partitions.items():
                partition = TopicPartition(topic, number)
                state = self.partition_state(partition)
                moving = assignment.adding.get(number) or assignment.removing.get(number)
                if state is None or state.leader < 0 or set(state.isr) != set(replicas) or moving:
                    late.append(partition)
        return late

    def replicas_on(self, broker_id: BrokerId) -> list[TopicPartition]:
        """Return the partitions that have a directory on a broker's disk; those that are being deleted are none."""
        found = (partition_of(entry.name) for entry in self.brokers[broker_id].disk.list(LOG_DIR) if entry.is_directory)
        return [each for each in found if each is not None]

    def log_bytes(self, broker_id: BrokerId, partition: TopicPartition) -> bytes:
        """Return all batches of a replica, as they are on its disk; none of one that is still to be made."""
        disk, directory = self.brokers[broker_id].disk, f"{LOG_DIR}/{partition}"
        if not disk.exists(directory):
            return b""
        names = sorted(entry.name for entry in disk.list(directory) if entry.name.endswith(".log"))
        return b"".join(disk.read(f"{directory}/{name}") for name in names)

    async def until(self, condition: Callable[[], object], what: str, timeout_s: float = 120.0) -> None:
        """Check the condition again and again until it holds. AssertionError naming `what` when it does not in time."""
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + timeout_s
        while not condition():
            assert loop.time() < deadline_s, f"{what}: not within {timeout_s:g} s"
            await asyncio.sleep(_POLL_S)

    # the trace

    def _note_transaction(self, session_id: int, operations: Sequence[Operation], results: Sequence[Result]) -> None:
        if any(isinstance(result, StoreError) for result in results):
            return
        broker = self.find_session_owner(session_id)
        source = "zookeeper" if broker is None else broker.name
        for operation in operations:
            try:
                written = _find_state(operation)
            except MalformedZnodeError as problem:
                self.simulation.trace.add(source, f"{operation.path}: {problem}")
                continue
            if written is None:
                self.simulation.trace.add(source, f"{type(operation).__name__.lower()} {operation.path}")
                continue
            partition, state = written
            self.simulation.trace.add(
                source,
                f"{partition}: leader {state.leader}, leader epoch {state.leader_epoch}, "
                f"ISR {sorted(state.isr)}, controller epoch {state.controller_epoch}",
            )
            for listener in self.state_listeners:
                listener(partition, state)


def _find_state(operation: Operation) -> tuple[TopicPartition, PartitionState] | None:
    """Return the partition whose state the operation writes, and the state; None where it writes something else."""
    if not isinstance(operation, Create | Write) or not operation.path.endswith("/state") or not operation.data:
        return None
    topic, _, partition = operation.path.removeprefix(f"{paths.TOPICS}/").removesuffix("/state").split("/")
    return TopicPartition(topic, int(partition)), PartitionState.decode(operation.data)
