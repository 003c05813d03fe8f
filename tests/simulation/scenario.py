"""The life of one cluster under one seed: three brokers, a producer, a group of two, and faults of which the seed decides.

The promises that the history is held to are those of `kafkalite.testing.history.judge`, and these: what was committed is where
the group ends, the group has read every record, every broker stops without leaving a task.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from dataclasses import dataclass, field
from typing import Any

from kafkalite.client import Admin, Consumer, NewTopic, Producer, RebalanceListener, TopicPartition
from kafkalite.testing.history.events import (
    NO_OFFSET,
    UNKNOWN_GENERATION,
    CommitAcknowledged,
    CommitInvoked,
    Drained,
    Event,
    OffsetFetched,
    PartitionAssigned,
    ProducerStarted,
    RecordRead,
    SendAcknowledged,
    SendInvoked,
    SendUnknown,
    Value,
)
from kafkalite.testing.history.judge import Verdict, judge
from kafkalite.testing.history.recorder import Recorder
from kafkalite.testing.history.report import explain
from kafkalite.testing.simulation.cluster import SimulatedCluster
from kafkalite.testing.simulation.processes import Process, Simulation
from kafkalite.testing.simulation.witness import Witness

TOPIC = "flights"
GROUP = "readers"
PARTITIONS = [TopicPartition(TOPIC, number) for number in range(3)]
RECORDS = 120
_PRODUCER = "producer"
_AUDIT_S = 1.0


@dataclass
class Outcome:
    """What a seed led to."""

    simulation: Simulation
    history: list[Event] = field(default_factory=list)
    verdict: Verdict | None = None
    faults: list[str] = field(default_factory=list)
    steps: int = 0

    @property
    def digest(self) -> str:
        return self.simulation.trace.digest


class _Reader(RebalanceListener):
    """Gives each assignment of a member a name: within one its positions only move forward."""

    def __init__(self, name: str, recorder: Recorder) -> None:
        self._name = name
        self._recorder = recorder
        self._assignments = 0
        self.consumer: Consumer | None = None

    @property
    def position(self) -> str:
        return f"{self._name}/{self._assignments}"

    @property
    def generation(self) -> int:
        assert self.consumer is not None and self.consumer._group is not None
        return self.consumer._group.membership.generation

    def on_partitions_assigned(self, assigned: set[TopicPartition]) -> None:
        self._assignments += 1
        for each in assigned:
            now_ns = self._recorder.now_ns()
            self._recorder.add(PartitionAssigned(now_ns, GROUP, self._name, self.generation, *each))


class Life:
    """See the module."""

    def __init__(self, seed: int) -> None:
        self.simulation = Simulation(seed)
        self.cluster = SimulatedCluster(self.simulation)
        self.recorder = Recorder(lambda: int(self.simulation.time.now_s * 1e9))
        self.outcome = Outcome(self.simulation, self.recorder.events)
        self.witness = Witness(self.cluster, self.recorder, PARTITIONS)
        self.committed: dict[TopicPartition, int] = {}
        self.read_by_group: dict[TopicPartition, set[int]] = {each: set() for each in PARTITIONS}
        self.commits = 0
        self.faults_are_over = False

    def run(self) -> Outcome:
        self.simulation.run(self._scenario(), limit_s=600.0)
        return self.outcome

    def _client(self, name: str) -> tuple[Process, dict[str, Any]]:
        """A process, and the options of a client in it."""
        chance = self.simulation.chance(f"{name}/chance").random
        options = {
            "bootstrap_servers": self.cluster.bootstrap_servers,
            "client_id": name,
            "request_timeout_ms": 5_000,
            "chance": chance,
        }
        return self.simulation.process(name), options

    def _note(self, event: Event) -> None:
        self.recorder.add(event)

    @property
    def _now_ns(self) -> int:
        return self.recorder.now_ns()

    # the story

    async def _scenario(self) -> None:
        cluster = self.cluster
        await cluster.start()
        await self._create_topic()
        self.witness.note_resources(is_baseline=True)
        done = asyncio.Event()
        consumers = [self._consume(f"consumer-{number}", done) for number in range(2)]
        reading = asyncio.gather(*consumers)
        producing = asyncio.ensure_future(self._produce())
        watching = asyncio.ensure_future(self.witness.watch())
        auditing = asyncio.ensure_future(self._audit(done))
        await self._torment()
        self.faults_are_over = True
        await producing
        await cluster.until(self._whole, "all replicas in sync")
        ends = await self._drain()
        await cluster.until(lambda: self.committed == ends, f"the group has committed {ends}")
        done.set()
        await reading
        await auditing
        await self._check_offsets(ends)
        watching.cancel()
        self.witness.note_resources(is_baseline=False)
        self.witness.note_replicas()
        await cluster.stop()
        self.witness.note_segments()
        self._judge(ends)

    async def _create_topic(self) -> None:
        process, options = self._client("admin")

        async def create() -> None:
            async with Admin(**options) as admin:
                await admin.create_topics([NewTopic(TOPIC, num_partitions=3, replication_factor=3)])

        await self._in(process, create())

    async def _produce(self) -> None:
        process, options = self._client(_PRODUCER)
        pace = self.simulation.chance("pace")

        async def produce() -> None:
            self._note(ProducerStarted(self._now_ns, _PRODUCER, -1, True, 0))
            producer = Producer(clock=self.cluster.clock, acks="all", enable_idempotence=True, **options)
            async with producer:
                counts = dict.fromkeys(PARTITIONS, 0)
                deliveries: list[Awaitable[object]] = []
                number = 0
                while number < RECORDS or not self.faults_are_over:
                    partition = pace.choice(PARTITIONS)
                    value = Value(_PRODUCER, counts[partition])
                    counts[partition] += 1
                    number += 1
                    self._note(SendInvoked(self._now_ns, *partition, *value))
                    delivery = await producer.send(
                        TOPIC, value.to_bytes(pace.randrange(20, 400)), partition=partition.partition
                    )
                    deliveries.append(self._fate(partition, value, delivery))
                    await asyncio.sleep(pace.expovariate(1 / 0.15))
                await asyncio.gather(*deliveries)

        await self._in(process, produce())

    async def _fate(self, partition: TopicPartition, value: Value, delivery: Any) -> None:
        try:
            metadata = await delivery
        except Exception as problem:
            self._note(SendUnknown(self._now_ns, *partition, *value, repr(problem)))
        else:
            self._note(SendAcknowledged(self._now_ns, *partition, *value, metadata.offset))

    async def _consume(self, name: str, done: asyncio.Event) -> None:
        process, options = self._client(name)
        stopping = False

        async def consume() -> None:
            reader = _Reader(name, self.recorder)
            reader.consumer = consumer = Consumer(
                group_id=GROUP,
                auto_offset_reset="earliest",
                enable_auto_commit=False,
                session_timeout_ms=6_000,
                heartbeat_interval_ms=1_000,
                **options,
            )
            consumer.subscribe(TOPIC, listener=reader)
            async with consumer:
                while not stopping:
                    found = await consumer.getmany(timeout_ms=500)
                    for partition, records in found.items():
                        for record in records:
                            self._note_read(reader.position, record)
                            self.read_by_group[partition].add(record.offset)
                    if found:
                        await self._commit(consumer, name, reader)

        async def stop() -> None:
            nonlocal stopping
            await done.wait()
            stopping = True

        await asyncio.gather(self._in(process, consume()), stop())

    async def _commit(self, consumer: Consumer, name: str, reader: _Reader) -> None:
        offsets = {each: found.offset for each, found in consumer.consumed_offsets().items()}
        self.commits += 1
        number, generation = self.commits, reader.generation
        for partition, offset in offsets.items():
            self._note(CommitInvoked(self._now_ns, GROUP, name, number, *partition, offset))
        try:
            await consumer.commit(offsets)
        except Exception as problem:
            self.simulation.trace.add(GROUP, f"a commit failed: {problem!r}")
        else:
            if offsets:
                known = generation if generation == reader.generation else UNKNOWN_GENERATION
                self._note(CommitAcknowledged(self._now_ns, GROUP, name, number, known))
            self.committed |= offsets

    def _note_read(self, reader: str, record: Any) -> None:
        value = Value.from_bytes(record.value)
        self._note(RecordRead(self._now_ns, reader, record.topic, record.partition, record.offset, *value))

    # faults

    async def _torment(self) -> None:
        chance = self.simulation.chance("faults")
        faults = [self._kill_leader(chance), self._cut_link(chance)]
        faults += [chance.choice([self._kill_leader, self._cut_link, self._lose_power, self._stop_leader])(chance)]
        chance.shuffle(faults)
        running = []
        for fault in faults:
            await asyncio.sleep(chance.uniform(0.5, 4.0))
            running.append(asyncio.ensure_future(fault))
            if chance.random() < 0.7:
                await running[-1]
        await asyncio.gather(*running)
        await asyncio.sleep(1.0)

    def _pick_leader(self, chance: Any) -> int | None:
        """The leader of some partition; None when a broker is down already, so that a quorum of each log's replicas stays."""
        state = self.cluster.partition_state(chance.choice(PARTITIONS))
        if state is None or state.leader < 0 or not all(each.serves for each in self.cluster.brokers.values()):
            return None
        return state.leader

    async def _kill_leader(self, chance: Any) -> None:
        """Half of the time its followers cannot reach it for a while before: what they do not have must not be acknowledged."""
        if (leader := self._pick_leader(chance)) is not None:
            is_alone = chance.random() < 0.5
            self.outcome.faults.append(f"kill {leader}{' alone' if is_alone else ''}")
            name = self.cluster.brokers[leader].name
            others = [each.name for each in self.cluster.brokers.values() if each.name != name] if is_alone else []
            for other in others:
                self.cluster.cut(name, other)
            await asyncio.sleep(chance.uniform(0.5, 3.0) if is_alone else 0.0)
            still_serves = self.cluster.brokers[leader].serves  # another fault may have come first
            if still_serves:
                self.cluster.kill(leader)
            for other in others:
                self.cluster.heal(name, other)
            if not still_serves:
                return
            await asyncio.sleep(chance.choice([0.1, 2.0, 9.0]))
            await self.cluster.start(leader)

    async def _lose_power(self, chance: Any) -> None:
        if (leader := self._pick_leader(chance)) is not None:
            self.outcome.faults.append(f"power of {leader}")
            self.cluster.lose_power(leader)
            await asyncio.sleep(chance.uniform(9.0, 12.0))  # until its session has ended: nobody takes it for whole
            await self.cluster.start(leader)

    async def _stop_leader(self, chance: Any) -> None:
        if (leader := self._pick_leader(chance)) is not None:
            self.outcome.faults.append(f"stop {leader}")
            await self.cluster.stop(leader)
            await self.cluster.start(leader)

    async def _cut_link(self, chance: Any) -> None:
        machines = [broker.name for broker in self.cluster.brokers.values()]
        one, other = chance.sample([*machines, _PRODUCER, "consumer-0", "consumer-1"], 2)
        self.outcome.faults.append(f"cut {one} {other}")
        self.simulation.trace.add("network", f"cuts {one} from {other}")
        self.cluster.cut(one, other)
        await asyncio.sleep(chance.choice([0.5, 4.0, 12.0]))
        self.cluster.heal(one, other)
        self.simulation.trace.add("network", f"heals {one} and {other}")

    # the end

    def _whole(self) -> bool:
        states = [self.cluster.partition_state(each) for each in PARTITIONS]
        return all(state is not None and len(state.isr) == 3 and state.leader >= 0 for state in states)

    async def _drain(self) -> dict[TopicPartition, int]:
        """Read everything; the ends."""
        process, options = self._client("drain")

        async def drain() -> dict[TopicPartition, int]:
            async with Consumer(auto_offset_reset="earliest", **options) as consumer:
                ends = await consumer.end_offsets(PARTITIONS)
                consumer.assign(PARTITIONS)
                while any([await consumer.position(each) < ends[each] for each in PARTITIONS]):
                    for records in (await consumer.getmany(timeout_ms=500)).values():
                        for record in records:
                            self._note_read("drain", record)
                return ends

        ends = await self._in(process, drain())
        for each in PARTITIONS:
            self._note(Drained(self._now_ns, "drain", *each, 0, ends[each]))
        return ends

    async def _check_offsets(self, ends: dict[TopicPartition, int]) -> None:
        process, options = self._client("auditor")

        async def look() -> dict[TopicPartition, int]:
            async with Admin(**options) as admin:
                found = await admin.list_group_offsets(GROUP)
                return {partition: offset.offset for partition, offset in found.items() if offset is not None}

        assert await self._in(process, look()) == ends

    async def _audit(self, done: asyncio.Event) -> None:
        """Ask every now and then what the group has committed."""
        process, options = self._client("watcher")

        async def ask() -> None:
            async with Admin(**options) as admin:
                while not done.is_set():
                    asked_ns = self._now_ns
                    try:
                        found = await admin.list_group_offsets(GROUP, PARTITIONS)
                    except Exception as problem:
                        self.simulation.trace.add("watcher", f"was not told: {problem!r}")
                    else:
                        for partition in PARTITIONS:
                            told = found.get(partition)
                            offset = NO_OFFSET if told is None else told.offset
                            self._note(OffsetFetched(self._now_ns, asked_ns, "watcher", GROUP, *partition, offset))
                    await asyncio.sleep(_AUDIT_S)

        await self._in(process, ask())

    def _judge(self, ends: dict[TopicPartition, int]) -> None:
        verdict = self.outcome.verdict = judge(self.outcome.history)
        if verdict.violations:
            self.witness.note_trace()
            raise AssertionError(explain(self.outcome.history, verdict))
        assert {each: set(range(end)) for each, end in ends.items()} == self.read_by_group

    async def _in(self, process: Process, coroutine: Any) -> Any:
        """Run it in its process, which ends with it. AssertionError when it left tasks behind."""
        outcome = await process.run(coroutine)
        left = process.tasks()
        process.kill()
        assert not left, f"{process.name} left tasks behind: {', '.join(left)}"
        return outcome
