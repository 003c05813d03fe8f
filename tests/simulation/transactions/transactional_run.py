"""The run of transactions in one cluster under one plan: a feeder writes, two copiers carry over, exactly once; all of them may die.

The feeder writes to flights within transactions, some of which it aborts, and a producer without transactions writes between them. Two
members of a group read what is committed there, write each record to freight and to ledger, and commit their offsets with it, in one
transaction (consume, transform, produce; KIP-447). Processes are killed between any two callbacks and replaced; zombies wake up behind
their successors.

The history is held to `kafkalite.testing.history.judge`: transactions are seen whole or not at all (C13), nothing is read early (C14),
offsets are those that were committed (C11). In the end both outputs have every committed record of the input once, in the order of its
partition, and the group's offsets lie behind the last one.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from dataclasses import replace
from typing import Any, Final

from kafkalite.client import Admin, ClientError, Consumer, NewTopic, TopicPartition
from kafkalite.testing.history.events import Drained, OffsetFetched, ReaderStarted, RecordRead, Value
from kafkalite.testing.history.judge import judge
from kafkalite.types import OFFSETS_TOPIC
from tests.simulation.administration import Administration
from tests.simulation.clients import connected
from tests.simulation.plan import CLIENT_FAULTS, Plan
from tests.simulation.simulation_run import FLIGHTS, FREIGHT, SimulationRun
from tests.simulation.transactions.copying import GROUP, Copying
from tests.simulation.transactions.plan import BASE, COPIERS, FEEDER
from tests.simulation.transactions.recorded import RecordedProducer
from tests.simulation.transactions.seats import Seat

LEDGER: Final = "ledger"
_PARTITIONS: Final = 2
_LOOK_S: Final = 1.0


class TransactionalRun(SimulationRun):
    """See the module."""

    def __init__(self, plan: Plan) -> None:
        super().__init__(replace(plan, settings={**BASE, **plan.settings}))
        self.copying = Copying(self, FLIGHTS, (FREIGHT, LEDGER))
        self.copies_are_wanted = True
        seats = [Seat(self, FEEDER, self._feed), *(Seat(self, each, self.copying.copy) for each in COPIERS)]
        self.seats = {each.name: each for each in seats}

    # the story

    async def _scenario(self) -> None:
        cluster = self.cluster
        await cluster.start()
        await Administration(self).create(self._topics())
        watching = asyncio.ensure_future(self.witness.watch())
        auditing = asyncio.ensure_future(self._audit())
        plain = asyncio.ensure_future(self._produce("producer-all", "all", [FLIGHTS]))
        feeding, *copying = (asyncio.ensure_future(each.run()) for each in self.seats.values())
        faults = [each for each in self.plan.faults if each.kind not in CLIENT_FAULTS]
        suffering = [
            self.seats[each.targets[0]].suffer(each) for each in self.plan.faults if each.kind in CLIENT_FAULTS
        ]
        await asyncio.gather(self.injection.inject(faults), *suffering)
        await self.injection.heal()
        self.outcome.begun += [each.kind for each in self.plan.faults if each.kind in CLIENT_FAULTS]
        self.faults_are_over = True
        self.simulation.trace.add("director", "everything is healed")
        await self._within(plain, "the producer ends")
        await self._within(feeding, "the feeder ends")
        await self.until(lambda: not cluster.out_of_sync(), "all replicas are in sync")
        inputs = [TopicPartition(FLIGHTS, number) for number in range(_PARTITIONS)]
        await self.until(lambda: self._is_stable(inputs), "every transaction of the feeder ends")
        wanted = await self._within(self._read(inputs, committed=True), "what is committed is read")
        lasts = {partition: rows[-1][0] for partition, rows in wanted.items() if rows}
        await self.until(
            lambda: all(self.copying.committed.get(each, 0) > last for each, last in lasts.items()),
            f"the copiers commit offsets behind {lasts}",
        )
        self.copies_are_wanted = False
        await self._within(asyncio.gather(*copying, auditing), "the copiers end")
        outputs = [TopicPartition(topic, number) for topic in (FREIGHT, LEDGER) for number in range(_PARTITIONS)]
        await self.until(lambda: self._is_stable(outputs), "every transaction of the copiers ends")
        copied = await self._within(self._read(outputs, committed=True), "what is committed is read")
        await self._within(self._read([*inputs, *outputs], committed=False), "everything is read")
        await self._all_agree()
        watching.cancel()
        self.witness.note_replicas([*inputs, *outputs])
        await self._within(cluster.stop(), "brokers stop")
        self.witness.note_segments([*inputs, *outputs])
        self._judge_copies(wanted, copied)

    def _topics(self) -> list[NewTopic]:
        minimum = {name: {"min.insync.replicas": str(number)} for name, number in self._minimum.items()}
        return [
            NewTopic(name, num_partitions=_PARTITIONS, replication_factor=3, topic_configs=minimum.get(name, {}))
            for name in (FLIGHTS, FREIGHT, LEDGER)
        ]

    async def _feed(self, producer: RecordedProducer, _: dict[str, Any]) -> None:
        chance, workload = self.simulation.chance(f"{producer.name}/pace"), self.plan.workload
        count = 0
        while count < workload.get("records", 10) or not self.faults_are_over:
            count += 1
            async with producer.transaction(commits=chance.random() * 100 >= workload.get("aborted_percent", 20)):
                for _ in range(chance.randrange(1, 4)):
                    await producer.send(TopicPartition(FLIGHTS, chance.randrange(_PARTITIONS)), None)
                    await asyncio.sleep(chance.choice([0.0, 0.0, 0.05, 0.3]))
            await asyncio.sleep(chance.expovariate(1000 / workload.get("pace_ms", 100)))

    async def _audit(self) -> None:
        """Ask every now and then what the group has committed for certain (`require_stable`), as long as copies are wanted."""
        process, options = self.client("watcher")

        async def ask() -> None:
            async with connected(Admin(**options)) as admin:
                while self.copies_are_wanted:
                    await self._ask(admin)
                    await asyncio.sleep(_LOOK_S)

        await self.within_process(process, ask())

    async def _ask(self, admin: Admin) -> None:
        """A coordinator that cannot know of its successor tells what it has: that proves nothing."""
        asked_ns, has_zombie = self.now_ns, self.witness.has_zombie(OFFSETS_TOPIC)
        try:
            found = await admin.list_group_offsets(GROUP, require_stable=True)
        except ClientError as problem:
            self.simulation.trace.add("watcher", f"was not told: {problem!r}")
            return
        if has_zombie or self.witness.has_zombie(OFFSETS_TOPIC):
            return
        for partition, told in found.items():
            if told is not None:
                self.note(OffsetFetched(self.now_ns, asked_ns, "watcher", GROUP, *partition, told.offset))
                self.copying.committed[partition] = told.offset

    # the end

    def _is_stable(self, partitions: list[TopicPartition]) -> bool:
        """Is no transaction open in these partitions, as far as their leaders know?"""
        leaders = {}
        for broker in self.cluster.running():
            if broker.app is not None and broker.app.serving is not None:
                for name, partition in broker.app.serving.parts.replicas.partitions.items():
                    if partition.is_leader:
                        leaders[name] = partition
        return all(
            each in leaders and leaders[each].log.last_stable_offset == leaders[each].log.log_end_offset
            for each in partitions
        )

    async def _read(
        self, partitions: list[TopicPartition], *, committed: bool
    ) -> dict[TopicPartition, list[tuple[int, bytes | None]]]:
        """Offsets and keys of all records, as the history gets them too."""
        name = f"drain-{'committed' if committed else 'all'}-{partitions[0].topic}"
        process, options = self.client(name)
        level = "read_committed" if committed else "read_uncommitted"
        rows: dict[TopicPartition, list[tuple[int, bytes | None]]] = defaultdict(list)

        async def drain() -> dict[TopicPartition, int]:
            async with Consumer(auto_offset_reset="earliest", isolation_level=level, **options) as consumer:
                ends: dict[TopicPartition, int] = await consumer.end_offsets(partitions)
                consumer.assign(partitions)
                while any([await consumer.position(each) < ends[each] for each in partitions]):
                    for partition, records in (await consumer.getmany(timeout_ms=500)).items():
                        for record in records:
                            self.note_read(name, record)
                            rows[partition].append((record.offset, record.key))
                return ends

        self.note(ReaderStarted(self.now_ns, name, "", committed))
        ends = await self.within_process(process, drain())
        for each in partitions:
            self.note(Drained(self.now_ns, name, *each, 0, ends[each]))
        return rows

    def note_copied(self, reader: str, record: Any) -> None:
        value = Value.from_bytes(record.value)
        self.note(RecordRead(self.now_ns, reader, record.topic, record.partition, record.offset, *value))

    def _judge_copies(
        self,
        wanted: dict[TopicPartition, list[tuple[int, bytes | None]]],
        copied: dict[TopicPartition, list[tuple[int, bytes | None]]],
    ) -> None:
        verdict = self.outcome.verdict = judge(self.outcome.history)
        if verdict.violations:
            self.fail(verdict)
        for topic in (FREIGHT, LEDGER):
            sources: dict[TopicPartition, list[int]] = defaultdict(list)
            for number in range(_PARTITIONS):
                for _, key in copied.get(TopicPartition(topic, number), ()):
                    source, _, offset = (key or b"").decode().rpartition(":")
                    sources[TopicPartition(FLIGHTS, int(source))].append(int(offset))
            for partition, rows in wanted.items():
                offsets = [offset for offset, _ in rows]
                assert sources[partition] == offsets, (
                    f"{topic} has of {partition} the offsets {sources[partition]}, what is committed there are {offsets}"
                )
