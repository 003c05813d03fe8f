"""The topics as brokers tell them, never going back to an earlier leader epoch, and the changes from one look to the next."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from kafkalite.administration.cluster_changes import ClusterChanges, PartitionChange
from kafkalite.console.changes import Changes, TimedChange, time_partition_changes
from kafkalite.types import TopicPartition
from zk.store import StoreError
from zk.znodes.topics import PartitionState

if TYPE_CHECKING:
    from kafkalite.client import PartitionView, TopicDescription
    from kafkalite.clock import Clock
    from kafkalite.console.membership import Told
    from kafkalite.console.state_sources import ZooKeeperSource

_PORTION: Final = 500
"""Partitions that are compared in one turn of the event loop, and states that ZooKeeper is asked for at once."""
_TIMES_S: Final = 1.0
"""Time that ZooKeeper has for the times of changes."""


class TopicStates:
    """The last known topics by name. `changes` gets what has changed, with the times of ZooKeeper where there is one."""

    def __init__(
        self, known: ClusterChanges, changes: Changes, zookeeper: ZooKeeperSource | None, clock: Clock
    ) -> None:
        self._known, self._changes, self._zookeeper, self._clock = known, changes, zookeeper, clock
        self.topics: dict[str, TopicDescription] = {}

    async def take(self, told: Told) -> None:
        """Take in all topics and note what has changed, in portions, so that other requests are served in between."""
        known, changes = self._known, list[PartitionChange]()
        topics: dict[str, TopicDescription] = {}
        for number, (name, told_topic) in enumerate((told.topics or {}).items(), 1):
            changes += self._changes_of_recreated(told_topic)
            topics[name] = self._without_older_states(told_topic)
            if number % _PORTION == 0:
                await asyncio.sleep(0)
        gone = set(known.states)
        partitions = ((topic.name, each) for topic in topics.values() for each in topic.partitions)
        for number, (topic, each) in enumerate(partitions, 1):
            place = TopicPartition(topic, each.partition)
            gone.discard(place)
            before = known.states.get(place)
            if before is None or (each.leader, each.leader_epoch, each.isr) != (
                before.leader,
                before.leader_epoch,
                before.isr,
            ):
                changes += known.state_is(place, PartitionState(each.leader, each.leader_epoch, each.isr, -1))
            if number % _PORTION == 0:
                await asyncio.sleep(0)
        for place in sorted(gone):
            changes += known.state_is(place, None)
        known.all_known()
        self.topics = topics
        self._changes.extend(await self._add_times(changes))

    def _changes_of_recreated(self, topic: TopicDescription) -> list[PartitionChange]:
        """Return the end of the partitions of a topic that was deleted and made again under its name since the last look."""
        before = self.topics.get(topic.name)
        if before is None or before.topic_id == topic.topic_id:
            return []
        places = [TopicPartition(topic.name, each.partition) for each in before.partitions]
        return [change for place in places for change in self._known.state_is(place, None)]

    def _without_older_states(self, topic: TopicDescription) -> TopicDescription:
        """Return the topic with those partitions as they are known of which it has an earlier leader epoch: its broker lags behind."""
        known = self.topics.get(topic.name)
        if known is None or known.topic_id != topic.topic_id:
            return topic

        def newer(each: PartitionView) -> PartitionView:
            before = known.partition(each.partition)
            is_older = before is not None and 0 <= each.leader_epoch < before.leader_epoch
            return before if before is not None and is_older else each

        newest = tuple(newer(each) for each in topic.partitions)
        return topic if newest == topic.partitions else replace(topic, partitions=newest)

    async def _add_times(self, changes: Sequence[PartitionChange]) -> list[TimedChange]:
        """Return the changes with the times of ZooKeeper, if it answers in time."""
        noticed_ms = self._clock.now_ms()
        if not changes or self._zookeeper is None:
            return time_partition_changes(noticed_ms, changes, {})
        try:
            async with asyncio.timeout(_TIMES_S):
                places = [each.topic_partition for each in changes[:_PORTION]]
                states = await self._zookeeper.ask_states(places)
        except (StoreError, OSError):
            states = {}
        return time_partition_changes(noticed_ms, changes, states)
