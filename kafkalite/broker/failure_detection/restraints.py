"""Finds out by ZooKeeper's data whether a verdict is carried out: wrong ones would cost records, or help nobody.

- A broker is the only one in sync of a partition that allows unclean elections: a successor would lose what it acknowledged alone.
- It was silent, and its end would help nobody: no partition has it and another one in sync, and it is not the controller. Followers count,
  because writers with acks=all wait for them.

What is read stays true until the session has ended, because one broker at a time ends sessions (`ending_claim`). Otherwise two could each
end one of the last two in sync.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from kafkalite.broker.failure_detection.detector import Verdict
from kafkalite.broker.failure_detection.evidence import Evidence
from kafkalite.types import BrokerId, Endpoint, TopicPartition
from zk import paths
from zk.store import NoNodeError, Store
from zk.znodes import BrokerRegistration, MalformedZnodeError, PartitionState, TopicAssignment

if TYPE_CHECKING:
    from kafkalite.broker.failure_detection.unclean_topics import UncleanTopics
    from kafkalite.broker.metadata_cache import MetadataCache

_ASSIGNMENTS_READ_TOGETHER: Final = 200
_STATES_READ: Final = 3000
"""Partition states that are read before a session is ended; a broker with more of those that matter is left to its session."""


class SessionIsOver(Exception):
    """Raised when a session that is to end owns its registration no more: mostly another broker was faster."""


class Restraints:
    """Reads what speaks against ending a session."""

    def __init__(self, store: Store, metadata: MetadataCache, unclean_topics: UncleanTopics) -> None:
        self._store, self._metadata, self._unclean_topics = store, metadata, unclean_topics

    async def find(self, verdict: Verdict, session_id: int, refusing: frozenset[Endpoint]) -> str | None:
        """Return why a verdict is not carried out; None if it is. `refusing` are the listeners that refused.

        Raises SessionIsOver, and StoreError.
        """
        try:
            return await self._find(verdict, session_id, refusing)
        except MalformedZnodeError as problem:  # what cannot be read may be what speaks against it
            return str(problem)

    async def _find(self, verdict: Verdict, session_id: int, refusing: frozenset[Endpoint]) -> str | None:
        broker = verdict.broker_id
        try:
            # One after the other on the same connection, so that the others see what the first has waited for.
            _, (data, stat), topics = await asyncio.gather(
                self._store.sync(paths.BROKER_IDS),
                self._store.read(paths.broker(broker)),
                self._store.children(paths.TOPICS),
            )
        except NoNodeError:
            raise SessionIsOver from None
        registration = BrokerRegistration.decode(data)
        if stat.ephemeral_owner != session_id:
            raise SessionIsOver
        if verdict.evidence is Evidence.REFUSED:
            tried = {(each.host, each.port) for each in refusing}
            if tried != {(each.host, each.port) for each in registration.endpoints}:
                return "it has moved its listeners"
        if verdict.evidence is Evidence.SILENT and not self._is_waited_for(broker):
            return "its end would help nobody"
        only = await self._find_only_in_sync(broker, topics)
        return f"it is the only one in sync of {only}, which allows unclean elections" if only else None

    def _is_waited_for(self, broker: BrokerId) -> bool:
        """True if the controller would elect others instead of this broker, writers wait for it, or it is the controller."""
        alive = self._metadata.brokers.keys() - {broker}
        return self._metadata.controller_id == broker or any(
            broker in partition.isr and not alive.isdisjoint(partition.isr)
            for topic in self._metadata.topics.values()
            for partition in topic.partitions.values()
        )

    async def _find_only_in_sync(self, broker: BrokerId, topics: list[str]) -> TopicPartition | None:
        """Return a partition of `topics` that allows unclean elections and of which no other replica in sync is registered.

        ZooKeeper's data say so. The metadata are not asked: they are late where the controller is, and lack partitions on a broker that has
        just started. Nor does an ISR count whose other members are gone already.
        """
        unclean = sorted(await self._unclean_topics.find_allowing(topics))
        at_risk: list[TopicPartition] = []
        for first in range(0, len(unclean), _ASSIGNMENTS_READ_TOGETHER):
            some = unclean[first : first + _ASSIGNMENTS_READ_TOGETHER]
            for topic, assignment in zip(some, await asyncio.gather(*map(self._read_assignment, some)), strict=True):
                at_risk += (
                    TopicPartition(topic, number)
                    for number, replicas in assignment.items()
                    if broker in replicas and len(replicas) > 1
                )
            if len(at_risk) > _STATES_READ:
                return at_risk[-1]
        if not at_risk:
            return None
        ids, *isrs = await asyncio.gather(self._store.children(paths.BROKER_IDS), *map(self._read_isr, at_risk))
        registered = set(ids)
        for each, isr in zip(at_risk, isrs, strict=True):
            if broker in isr and not any(str(other) in registered for other in isr if other != broker):
                return each
        return None

    async def _read_assignment(self, topic: str) -> Mapping[int, tuple[BrokerId, ...]]:
        try:
            data, _ = await self._store.read(paths.topic(topic))
        except NoNodeError:
            return {}
        return TopicAssignment.decode(data).partitions

    async def _read_isr(self, topic_partition: TopicPartition) -> tuple[BrokerId, ...]:
        try:
            data, _ = await self._store.read(paths.partition_state(*topic_partition))
            return PartitionState.decode(data).isr
        except (NoNodeError, MalformedZnodeError):
            return ()
