"""Consume, transform, produce, exactly once: what is committed in one topic goes to others, together with the group's offsets (KIP-447)."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from kafkalite.client import AbortableTransactionError, Consumer, RebalanceListener, TopicPartition
from kafkalite.testing.history.events import ReaderStarted
from tests.simulation.group import REBALANCE_MS
from tests.simulation.transactions.recorded import RecordedProducer

if TYPE_CHECKING:
    from tests.simulation.transactions.transactional_run import TransactionalRun

GROUP: Final = "copiers"
_POLL_MS: Final = 300


class _Reader(RebalanceListener):
    """Names the positions of one consumer: with each assignment, and whenever it goes back, they begin at what is committed."""

    def __init__(self, run: TransactionalRun, name: str) -> None:
        self._run, self._name, self._count = run, name, 0
        self.position = ""
        self.begin()

    def begin(self) -> None:
        self._count += 1
        self.position = f"{self._name}#{self._count}"
        self._run.note(ReaderStarted(self._run.now_ns, self.position, GROUP, True))

    def on_partitions_assigned(self, assigned: set[TopicPartition]) -> None:
        self.begin()


class Copying:
    """From `source` to `targets`. `committed`: the group's offsets, as an observer was told of them."""

    def __init__(self, run: TransactionalRun, source: str, targets: Sequence[str]) -> None:
        self.committed: dict[TopicPartition, int] = {}
        self._run, self._source, self._targets = run, source, targets

    async def copy(self, producer: RecordedProducer, options: dict[str, Any]) -> None:
        """One member, as long as copies are wanted. ClientError."""
        run, workload = self._run, self._run.plan.workload
        chance = run.simulation.chance(f"{producer.name}/copies")
        reader = _Reader(run, producer.name)
        seat = producer.name.partition("/")[0]
        async with Consumer(
            group_id=GROUP,
            group_instance_id=seat if workload.get("static_members") else None,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            isolation_level="read_committed",
            session_timeout_ms=workload.get("session_timeout_ms", 6_000),
            heartbeat_interval_ms=1_500,
            max_poll_interval_ms=REBALANCE_MS,
            metadata_max_age_ms=10_000,
            fetch_max_wait_ms=500,
            **options,
        ) as consumer:
            consumer.subscribe([self._source], listener=reader)
            while run.copies_are_wanted:
                found = await consumer.getmany(timeout_ms=_POLL_MS)
                if not found:
                    continue
                for records in found.values():
                    for record in records:
                        run.note_copied(reader.position, record)
                try:
                    if await self._transaction(producer, consumer, found, chance):
                        continue
                except AbortableTransactionError as problem:
                    run.simulation.trace.add(producer.name, f"aborted: {problem}")
                reader.begin()
                await self._go_back(consumer)

    async def _transaction(
        self, producer: RecordedProducer, consumer: Consumer, found: dict[TopicPartition, Any], chance: random.Random
    ) -> bool:
        """Has it been committed?"""
        commits = chance.random() * 200 >= self._run.plan.workload.get("aborted_percent", 20)
        async with producer.transaction(commits=commits):
            for partition, records in found.items():
                for record in records:
                    for number, topic in enumerate(self._targets):
                        target = TopicPartition(topic, (partition.partition + number) % 2)
                        await producer.send(target, b"%d:%d" % (partition.partition, record.offset))
                    await asyncio.sleep(chance.choice([0.0, 0.0, 0.02]))
            offsets = {each: offset for each, offset in consumer.consumed_offsets().items() if each in found}
            await producer.send_offsets(offsets, consumer.group_metadata())
        return commits

    async def _go_back(self, consumer: Consumer) -> None:
        """To what is committed. ClientError."""
        for partition, offset in (await consumer.committed_offsets(consumer.assignment())).items():
            if partition in consumer.assignment():
                consumer.seek(partition, 0 if offset is None else offset.offset)
