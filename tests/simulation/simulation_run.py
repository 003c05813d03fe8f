"""The run of one cluster under one plan: three brokers, producers, a group of two, what administrators ask for, and faults.

While faults last only safety counts. Then everything is healed, and what was begun must end in bounded time: producers, the group,
deletions, reassignments, replicas in sync. The history is held to the promises of `kafkalite.testing.history.judge`, and to these: the
group has read every record and committed where the partitions end, a compacted topic has the newest value of each key, a topic can be made,
brokers and ZooKeeper agree on who leads and governs, brokers stop without leaving a task.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final, NoReturn

from kafkalite.client import Admin, Consumer, NewTopic, Producer, TopicPartition
from kafkalite.protocol.record_batches.records import iter_batches
from kafkalite.testing.history.events import (
    Drained,
    Event,
    ProducerStarted,
    RecordRead,
    SendAcknowledged,
    SendInvoked,
    SendUnknown,
    Served,
    Value,
)
from kafkalite.testing.history.judge import Verdict, judge
from kafkalite.testing.history.recorder import Recorder
from kafkalite.testing.history.report import explain
from kafkalite.testing.simulation.cluster import SimulatedCluster
from kafkalite.testing.simulation.injection import Injection
from kafkalite.testing.simulation.logins import CLIENT_OPTIONS
from kafkalite.testing.simulation.processes import Process, Simulation
from kafkalite.testing.simulation.witness import Witness
from tests.simulation.administration import Administration
from tests.simulation.agreement import disagreements
from tests.simulation.brink import Brink
from tests.simulation.clients import connected
from tests.simulation.group import GroupReaders
from tests.simulation.knobs import portions_of, ways_of_large_clusters
from tests.simulation.pipelining import Pipelining
from tests.simulation.plan import CLIENT_FAULTS, REPLICAS_ON_THE_BRINK, Plan
from tests.simulation.unauthenticated import Unauthenticated

FLIGHTS, FREIGHT, LATEST, LOOSE = "flights", "freight", "latest", "loose"
HEALED: Final = "healed"
"""A topic that is made when everything is healed."""
_CODECS: Final = (None, "gzip", "snappy", "lz4", "zstd")
_KEYS: Final = 3
LIVENESS_S: Final = 150.0
"""Of virtual time: what was healed serves within it. The longest wait is a client's delivery timeout of 120 s."""
_REQUEST_TIMEOUT_MS: Final = 5_000
_GIVEN_BACK_S: Final = 2 * _REQUEST_TIMEOUT_MS / 1000
"""A request with acks=all waits for its timeout at a leader that does not know its successor, however well everything else serves."""


@dataclass
class Outcome:
    """What a plan led to."""

    plan: Plan
    simulation: Simulation
    history: list[Event] = field(default_factory=list)
    verdict: Verdict | None = None
    begun: list[str] = field(default_factory=list)
    """The kinds of faults that really began."""

    @property
    def digest(self) -> str:
        return self.simulation.trace.digest


class SimulationRun:
    """See the module."""

    judged_topics: tuple[str, ...] = (FLIGHTS, FREIGHT)
    """Of these the witness sees leaders and high watermarks, and the group must have read every record."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.simulation = Simulation(plan.seed)
        self.simulation.network.send_buffer_bytes = (
            plan.workload.get("portion_bytes") or self.simulation.network.send_buffer_bytes
        )
        self.authenticates = bool(plan.workload.get("authenticates"))
        self.cluster = self._make_cluster()
        self._minimum = {name: plan.workload.get(f"{name}_min_isr", 2) for name in (FLIGHTS, FREIGHT)}
        self.injection = Injection(self.cluster, survives_a_loss=min(self._minimum.values()) > 1)
        self.recorder = Recorder(lambda: int(self.simulation.time.now_s * 1e9))
        self.outcome = Outcome(plan, self.simulation, self.recorder.events)
        self.witness = Witness(self.cluster, self.recorder, self.judged_topics)
        self.unauthenticated = Unauthenticated(self)
        self.brink = Brink(self) if plan.workload.get(REPLICAS_ON_THE_BRINK) else None
        self.latest: dict[bytes, int] = {}
        """Of each key of the compacted topic the highest number that was acknowledged."""
        self.faults_are_over = False
        self.explains = True
        """Is a violation shown with the operations and changes that belong to it? Finding these takes seconds."""

    def _make_cluster(self) -> SimulatedCluster:
        return SimulatedCluster(self.simulation, 3, self.plan.settings, authenticates=self.authenticates)

    def run(self) -> Outcome:
        try:
            with (
                portions_of(self.plan.workload.get("portion_bytes", 0)),
                ways_of_large_clusters(are_taken=bool(self.plan.workload.get("proves_metadata"))),
            ):
                self.simulation.run(self._scenario(), limit_s=900.0)
        finally:
            self.injection.close()
            self.outcome.begun += [each.kind for each in self.injection.begun]
        return self.outcome

    def client(self, name: str) -> tuple[Process, dict[str, Any]]:
        """A process, and the options of a client in it."""
        return self.simulation.process(name), self.options(name)

    def options(self, name: str) -> dict[str, Any]:
        """Of a client in the process of that name."""
        return {
            "bootstrap_servers": self.cluster.bootstrap_servers,
            "client_id": name,
            "request_timeout_ms": _REQUEST_TIMEOUT_MS,
            "chance": self.simulation.chance(f"{name}/chance").random,
            **(CLIENT_OPTIONS if self.authenticates else {}),
        }

    def note(self, event: Event) -> None:
        self.recorder.add(event)

    @property
    def now_ns(self) -> int:
        return self.recorder.now_ns()

    # the story

    async def _scenario(self) -> None:
        cluster, plan = self.cluster, self.plan
        await cluster.start()
        administration = Administration(self)
        await administration.create(self._topics())
        self.witness.note_resources(is_baseline=True)
        watching = asyncio.ensure_future(self.witness.watch())
        readers = GroupReaders(self, [FLIGHTS, FREIGHT])
        reading = asyncio.gather(*(readers.read(number) for number in range(2)), readers.audit())
        work = [self._produce("producer-all", "all", [FLIGHTS, FREIGHT])]
        if plan.workload.get("acks_one"):
            work.append(self._produce("producer-one", 1, [LOOSE]))
        if plan.workload.get("compacts"):
            work.append(self._update())
        if self.brink is not None:
            work.append(self.brink.produce())
        if plan.workload.get("pipelines"):
            work.append(Pipelining(self, {FLIGHTS: -1, LOOSE: 1}).run())
        if self.authenticates:
            work.append(self.unauthenticated.run())
        working = asyncio.gather(*work)
        asking = asyncio.gather(*(administration.ask(each) for each in plan.operations))
        of_members = [each for each in plan.faults if each.kind in CLIENT_FAULTS]
        others = [each for each in plan.faults if each.kind not in CLIENT_FAULTS]
        await asyncio.gather(self.injection.inject(others), *map(readers.suffer, of_members))
        self.outcome.begun += [each.kind for each in of_members]
        await self.injection.heal()
        self.faults_are_over = True
        self.simulation.trace.add("director", "everything is healed")
        await self._within(working, "producers end")
        await self._within(asking, "administrators are answered")
        await self.until(administration.is_done, "topics, deletions and reassignments are as asked for")
        await self._within(administration.create([NewTopic(HEALED, 1, 3)]), "a topic is made")
        if self.authenticates:
            await self._within(self.unauthenticated.check_logins(), "logins are served")
        await self.until(lambda: not cluster.out_of_sync(), "all replicas are in sync")
        partitions = [each for each in self.cluster.partitions() if each.topic in (FLIGHTS, FREIGHT, LOOSE)]
        ends = await self._within(self._drain(partitions), "everything is read")
        grouped = {each: end for each, end in ends.items() if each.topic in (FLIGHTS, FREIGHT)}
        await self.until(
            lambda: {each: readers.committed.get(each, 0) for each in grouped} == grouped,
            f"the group commits {grouped}",
        )
        readers.stop()
        await self._within(reading, "members leave")
        await self._check_offsets(readers, grouped)
        if plan.workload.get("compacts"):
            await self._within(self._check_latest(), "the compacted topic is read")
        if self.brink is not None:
            await self._within(self.brink.check(), "the topic with unclean elections is read")
        await self._all_agree()
        watching.cancel()
        with suppress(AssertionError):  # the judge says what is left (rule C16)
            await self.cluster.until(self.witness.resources_are_back, "resources are given back", _GIVEN_BACK_S)
        self.witness.note_resources(is_baseline=False)
        self.witness.note_replicas(partitions)
        await self._within(cluster.stop(), "brokers stop")
        self.witness.note_segments(partitions)
        self._judge(ends, readers)

    def _topics(self) -> list[NewTopic]:
        on_the_brink = [] if self.brink is None else [self.brink.topic()]
        minimum = {name: {"min.insync.replicas": str(number)} for name, number in self._minimum.items()}
        return [
            NewTopic(FLIGHTS, num_partitions=2, replication_factor=3, topic_configs=minimum[FLIGHTS]),
            NewTopic(FREIGHT, num_partitions=1, replication_factor=2, topic_configs=minimum[FREIGHT]),
            NewTopic(LOOSE, num_partitions=1, replication_factor=3, topic_configs={"min.insync.replicas": "1"}),
            NewTopic(
                LATEST,
                num_partitions=1,
                replication_factor=3,
                topic_configs={
                    "cleanup.policy": "compact",
                    "segment.bytes": "500",
                    "min.cleanable.dirty.ratio": "0.01",
                },
            ),
            *on_the_brink,
        ]

    async def _within(self, work: Awaitable[Any], what: str) -> Any:
        began_ns = self.now_ns
        try:
            outcome = await asyncio.wait_for(work, LIVENESS_S)  # type: ignore[arg-type]
        except TimeoutError:
            raise AssertionError(f"{what}: not within {LIVENESS_S:g} s after everything was healed") from None
        took_ms = (self.now_ns - began_ns) // 1_000_000
        self.note(Served(self.now_ns, what, took_ms, int(LIVENESS_S * 1000), ""))
        return outcome

    async def _all_agree(self) -> None:
        """Replicas among each other, and every broker with ZooKeeper."""
        await self.until(self._replicas_are_level, "followers have all that their leaders have")
        try:
            await self.until(lambda: not disagreements(self.cluster), "brokers and ZooKeeper agree")
        except AssertionError as problem:
            raise AssertionError(f"{problem}: {'; '.join(disagreements(self.cluster)[:10])}") from None

    # producers

    async def _produce(self, name: str, acks: Any, topics: list[str]) -> None:
        process, options = self.client(name)
        pace = self.simulation.chance(f"{name}/pace")
        workload = self.plan.workload
        records, pace_s = workload.get("records", 30), workload.get("pace_ms", 100) / 1000
        at_once = workload.get("at_once", 1)
        targets = [each for each in self.cluster.partitions() if each.topic in topics]

        async def produce() -> None:
            self.note(ProducerStarted(self.now_ns, name, -1 if acks == "all" else 1, acks == "all", 0))
            producer = Producer(
                clock=self.cluster.clock,
                acks=acks,
                enable_idempotence=acks == "all",
                batch_size=workload.get("batch_size", 16384) if at_once == 1 else 1,
                linger_ms=workload.get("linger_ms", 0),
                compression_type=_CODECS[workload.get("compression", 0) if at_once == 1 else 0],
                **({} if acks == "all" else {"max_in_flight_requests_per_connection": 1}),
                **options,
            )
            async with connected(producer):
                counts = dict.fromkeys(targets, 0)
                fates: list[Awaitable[None]] = []
                number = 0
                while number < records or not self.faults_are_over:
                    partition = pace.choice(targets)
                    value = Value(name, counts[partition])
                    counts[partition] += 1
                    number += 1
                    self.note(SendInvoked(self.now_ns, *partition, *value))
                    data = value.to_bytes(pace.randrange(20, 300))
                    delivery = await producer.send(partition.topic, data, partition=partition.partition)
                    fates.append(asyncio.ensure_future(self._fate(partition, value, delivery)))
                    if number % at_once == 0:
                        await asyncio.sleep(pace.expovariate(1 / pace_s) * at_once * (1 if number < records else 8))
                await asyncio.gather(*fates)

        await self.within_process(process, produce())

    async def _fate(self, partition: TopicPartition, value: Value, delivery: Any) -> None:
        try:
            metadata = await delivery
        except Exception as problem:
            self.note(SendUnknown(self.now_ns, *partition, *value, repr(problem)))
        else:
            self.note(SendAcknowledged(self.now_ns, *partition, *value, metadata.offset))

    async def _update(self) -> None:
        """New values for a few keys, one after the other."""
        process, options = self.client("producer-keys")
        pace = self.simulation.chance("keys/pace")

        async def update() -> None:
            keeping = Producer(clock=self.cluster.clock, acks="all", enable_idempotence=True, **options)
            async with connected(keeping) as producer:
                number = 0
                while number < 20 or not self.faults_are_over:
                    number += 1
                    key = b"key-%d" % pace.randrange(_KEYS)
                    delivery = await producer.send(LATEST, b"%d" % number, key=key, partition=0)
                    try:
                        await delivery
                    except Exception as problem:
                        self.simulation.trace.add("producer-keys", f"{key!r} {number}: {problem!r}")
                    else:
                        self.latest[key] = number
                    await asyncio.sleep(pace.uniform(0.0, 0.4))

        await self.within_process(process, update())

    # the end

    async def _drain(self, partitions: list[TopicPartition]) -> dict[TopicPartition, int]:
        """Read everything; the ends."""
        process, options = self.client("drain")

        async def drain() -> dict[TopicPartition, int]:
            async with Consumer(auto_offset_reset="earliest", **options) as consumer:
                ends: dict[TopicPartition, int] = await consumer.end_offsets(partitions)
                consumer.assign(partitions)
                while any([await consumer.position(each) < ends[each] for each in partitions]):
                    for records in (await consumer.getmany(timeout_ms=500)).values():
                        for record in records:
                            self.note_read("drain", record)
                return ends

        ends = await self.within_process(process, drain())
        for each in partitions:
            self.note(Drained(self.now_ns, "drain", *each, 0, ends[each]))
        return dict(ends)

    def note_read(self, reader: str, record: Any) -> None:
        self.note_read_of(reader, TopicPartition(record.topic, record.partition), record.offset, record.value)

    def note_read_of(self, reader: str, partition: TopicPartition, offset: int, data: bytes | None) -> None:
        """As `note_read`, of a record in parts."""
        self.note(RecordRead(self.now_ns, reader, *partition, offset, *Value.from_bytes(data)))

    async def _check_offsets(self, readers: GroupReaders, ends: dict[TopicPartition, int]) -> None:
        process, options = self.client("auditor")

        async def look() -> dict[TopicPartition, int]:
            async with Admin(**options) as admin:
                found = await admin.list_group_offsets(readers.group)
                return {partition: offset.offset for partition, offset in found.items() if offset and offset.offset}

        found = await self._within(self.within_process(process, look()), "offsets are told")
        wanted = {each: end for each, end in ends.items() if end}
        for partition, late in readers.open_commits.items():
            if found.get(partition) in late:
                wanted[partition] = found[partition]
        assert found == wanted, f"the group has committed {found}, the partitions end at {ends}"

    async def _check_latest(self) -> None:
        process, options = self.client("reader-of-keys")

        async def read() -> dict[bytes, int]:
            found: dict[bytes, int] = {}
            partition = TopicPartition(LATEST, 0)
            async with Consumer(auto_offset_reset="earliest", **options) as consumer:
                end = (await consumer.end_offsets([partition]))[partition]
                consumer.assign([partition])
                while await consumer.position(partition) < end:
                    for records in (await consumer.getmany(timeout_ms=500)).values():
                        for record in records:
                            found[record.key] = int(record.value)
                return found

        found = await self.within_process(process, read())
        lost = {key: number for key, number in self.latest.items() if found.get(key, 0) < number}
        assert not lost, f"of keys that were acknowledged as {lost} the compacted topic has {found}"

    def _replicas_are_level(self) -> bool:
        for partition in self.cluster.partitions():
            assignment = self.cluster.assignment(partition.topic)
            assert assignment is not None
            ends = {self._end(each, partition) for each in assignment.partitions[partition.partition]}
            if len(ends) > 1:
                return False
        return True

    def _end(self, broker_id: int, partition: TopicPartition) -> int:
        batches = list(iter_batches(self.cluster.log_bytes(broker_id, partition)))
        return batches[-1].last_offset + 1 if batches else 0

    def _judge(self, ends: dict[TopicPartition, int], readers: GroupReaders) -> None:
        verdict = self.outcome.verdict = judge(self.outcome.history)
        if verdict.violations:
            self.fail(verdict)
        for partition, end in ends.items():
            if partition.topic in self.judged_topics:
                missing = set(range(end)) - readers.read_offsets.get(partition, set())
                assert not missing, f"the group has not read {partition} at {sorted(missing)}"

    def fail(self, verdict: Verdict) -> NoReturn:
        """AssertionError, with all that belongs to the violations unless nobody reads it."""
        if not self.explains:
            raise AssertionError(str(verdict))
        self.witness.note_trace()
        raise AssertionError(explain(self.outcome.history, verdict))

    async def within_process(self, process: Process, coroutine: Any) -> Any:
        """Run it in its process, which ends with it. AssertionError when it left tasks behind."""
        outcome = await process.run(coroutine)
        left = process.tasks()
        process.kill()
        assert not left, f"{process.name} left tasks behind: {', '.join(left)}"
        return outcome

    async def until(self, condition: Callable[[], object], what: str) -> None:
        """As `SimulatedCluster.until`, within the bound for what was healed."""
        began_ns = self.now_ns
        await self.cluster.until(condition, what, LIVENESS_S)
        took_ms = (self.now_ns - began_ns) // 1_000_000
        self.note(Served(self.now_ns, what, took_ms, int(LIVENESS_S * 1000), ""))
