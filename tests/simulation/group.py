"""The members of a group in a life: they read, note what they read, and commit."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from kafkalite.client import Consumer, RebalanceListener, TopicPartition

if TYPE_CHECKING:
    from tests.simulation.life import Life

_POLL_MS: Final = 500


class _Assignments(RebalanceListener):
    """Gives each assignment of a member a name: within one its positions only move forward."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._count = 0

    @property
    def position(self) -> str:
        return f"{self._name}/{self._count}"

    def on_partitions_assigned(self, assigned: set[TopicPartition]) -> None:
        self._count += 1


class GroupReaders:
    """`committed`: the offsets that the group was told are committed; `read_offsets`: all that any member has read."""

    group: Final = "readers"

    def __init__(self, life: Life, topics: list[str]) -> None:
        self.committed: dict[TopicPartition, int] = {}
        self.read_offsets: dict[TopicPartition, set[int]] = {}
        self._life = life
        self._topics = topics
        self._stopping = False

    def stop(self) -> None:
        """Have the members leave."""
        self._stopping = True

    async def read(self, number: int) -> None:
        """One member, until `stop`."""
        life, name = self._life, f"consumer-{number}"
        process, options = life.client(name)
        workload = life.plan.workload

        async def consume() -> None:
            assignments = _Assignments(name)
            consumer = Consumer(
                group_id=self.group,
                group_instance_id=name if workload.get("static_members") else None,
                auto_offset_reset="earliest",
                enable_auto_commit=False,
                session_timeout_ms=workload.get("session_timeout_ms", 6_000),
                heartbeat_interval_ms=1_500,
                metadata_max_age_ms=10_000,
                **options,
            )
            consumer.subscribe(self._topics, listener=assignments)
            async with consumer:
                while not self._stopping:
                    found = await consumer.getmany(timeout_ms=_POLL_MS)
                    for partition, records in found.items():
                        for record in records:
                            life.note_read(assignments.position, record)
                            self.read_offsets.setdefault(partition, set()).add(record.offset)
                    if found:
                        await self._commit(consumer)
                    await asyncio.sleep(0.1)

        await life.within_process(process, consume())

    async def _commit(self, consumer: Consumer) -> None:
        offsets = {each: found.offset for each, found in consumer.consumed_offsets().items()}
        try:
            await consumer.commit()
        except Exception as problem:
            self._life.simulation.trace.add(self.group, f"a commit failed: {problem!r}")
        else:
            self.committed |= offsets
