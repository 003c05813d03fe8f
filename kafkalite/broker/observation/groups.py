"""Consumer groups with their lag: those that this broker coordinates from its memory, the others from their coordinators.

The lag of a partition is its high watermark less the committed offset. The high watermark is known for partitions with a replica here (a
follower's is a moment old); other leaders are asked for theirs. Requests are sent only while somebody looks at the page or the metrics.
Of a broker that does not answer, the last answer is used for as long as it is alive.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Protocol

from kafkalite.broker.observation.peers import CoordinatedGroup, Peers
from kafkalite.broker.parts import HasBrokerId, HasConfig, HasGroups, HasJobs, HasMetadata, HasReplicas
from kafkalite.types import BrokerId, TopicPartition

if TYPE_CHECKING:
    from kafkalite.coordinators.group.group import Group

logger = logging.getLogger("kafkalite.broker.observation")

_PORTION: Final = 2000
"""Offsets and groups that are processed before other work of the event loop."""
_SETTLE_TIMEOUT_S: Final = 2.0
TOPICS_SHOWN: Final = 100
_ASK_AGAIN_S: Final = 1.5
"""Time for which answers of other brokers are used."""


@dataclass(slots=True)
class TopicLag:
    """The lag of a group in one topic, in records; `unknown` is the number of partitions without a known end."""

    total: int = 0
    worst: int = 0
    partitions: int = 0
    unknown: int = 0

    def add(self, committed: int, end: int | None) -> None:
        self.partitions += 1
        if end is None:
            self.unknown += 1
            return
        lag = max(0, end - committed)
        self.total += lag
        self.worst = max(self.worst, lag)


@dataclass(slots=True)
class GroupView:
    """A group as the page shows it."""

    group_id: str
    state: str
    coordinator: BrokerId
    members: int
    topics: dict[str, TopicLag] = field(default_factory=dict)

    @property
    def lag(self) -> int:
        return sum(each.total for each in self.topics.values())

    @property
    def shown_topics(self) -> list[tuple[str, TopicLag]]:
        """Return at most TOPICS_SHOWN topics, those with the greatest lag, by name."""
        most = sorted(self.topics.items(), key=lambda item: (-item[1].total, item[0]))[:TOPICS_SHOWN]
        return sorted(most)

    def to_dict(self) -> dict[str, Any]:
        return {
            "id": self.group_id,
            "state": self.state,
            "coordinator": self.coordinator,
            "members": self.members,
            "lag": self.lag,
            "topics": {
                topic: {"lag": lag.total, "partitions": lag.partitions, "unknown": lag.unknown}
                for topic, lag in self.shown_topics
            },
        }


def add_lags(
    topics: dict[str, TopicLag],
    offsets: Iterable[tuple[TopicPartition, int]],
    end_of: Callable[[TopicPartition], int | None],
) -> None:
    """Add what committed offsets lack to the high watermarks that `end_of` knows."""
    for topic_partition, committed in offsets:
        lag = topics.get(topic_partition.topic)
        if lag is None:
            lag = topics[topic_partition.topic] = TopicLag()
        lag.add(committed, end_of(topic_partition))


class Parts(HasBrokerId, HasConfig, HasGroups, HasJobs, HasMetadata, HasReplicas, Protocol):
    """The parts of a broker from which groups and their lag are derived."""


class ClusterGroups:
    """The groups of the cluster. At most `kafkalite.metrics.max.groups` groups of each other broker are requested."""

    def __init__(self, parts: Parts, peers: Peers) -> None:
        self._parts, self._peers = parts, peers
        self.coordinated: list[GroupView] = []
        """Groups of this broker as of the last `refresh`."""
        self._elsewhere: dict[BrokerId, list[GroupView]] = {}
        self._remote_ends: dict[TopicPartition, int] = {}
        self._unknown_ends: set[TopicPartition] = set()
        self._requested_s = float("-inf")
        self._requesting: asyncio.Task[None] | None = None

    @property
    def everywhere(self) -> list[GroupView]:
        """Return the groups of the whole cluster by name, as of the last refresh."""
        found = [group for groups in self._elsewhere.values() for group in groups]
        return sorted([*self.coordinated, *found], key=lambda group: group.group_id)

    async def refresh(self, *, everywhere: bool) -> None:
        """Update the groups of this broker. Ends and groups that only others know are requested in the background, for the next refresh."""
        machines = list(self._parts.groups.loaded_machines())
        groups = [group for machine in machines for group in machine.groups.values()]
        coordinated: list[GroupView] = []
        looked_at = 0
        for group in groups:
            coordinated.append(await self._view(group))
            looked_at += 1 + len(group.offsets)
            if looked_at >= _PORTION:
                looked_at = 0
                await asyncio.sleep(0)
        self.coordinated = coordinated
        if (everywhere or self._unknown_ends) and self._requesting is None:
            loop = asyncio.get_running_loop()
            if loop.time() - self._requested_s >= _ASK_AGAIN_S:
                self._requested_s = loop.time()
                self._requesting = self._parts.jobs.spawn(self._request_others(everywhere), "groups of other brokers")
                self._requesting.add_done_callback(self._finish_request)

    async def wait_for_answers(self) -> None:
        """Wait until the requests in flight are answered; a broker that does not answer is not waited for long."""
        if self._requesting is not None:
            await asyncio.wait([self._requesting], timeout=_SETTLE_TIMEOUT_S)

    def disconnect(self) -> None:
        """Close connections and forget other brokers' groups, when nobody looks any more."""
        self._peers.disconnect()
        self._elsewhere.clear()

    def _finish_request(self, _: asyncio.Task[None]) -> None:
        self._requesting = None

    async def _view(self, group: Group) -> GroupView:
        offsets = [(topic_partition, committed.offset) for topic_partition, committed in group.offsets.items()]
        topics: dict[str, TopicLag] = {}
        for begin in range(0, len(offsets), _PORTION):
            if begin:
                await asyncio.sleep(0)
            add_lags(topics, offsets[begin : begin + _PORTION], self.end_of)
        return GroupView(group.group_id, str(group.state), self._parts.broker_id, len(group.members), topics)

    def end_of(self, topic_partition: TopicPartition) -> int | None:
        """Return the high watermark; an unknown one is requested at the next refresh."""
        partition = self._parts.replicas.partitions.get(topic_partition)
        if partition is not None:
            return partition.high_watermark
        self._unknown_ends.add(topic_partition)
        return self._remote_ends.get(topic_partition)

    # What others know

    async def _request_others(self, everywhere: bool) -> None:
        if everywhere:
            alive = [broker for broker in self._parts.metadata.brokers if broker != self._parts.broker_id]
            for gone in self._elsewhere.keys() - set(alive):
                del self._elsewhere[gone]
            told = await asyncio.gather(*(self._groups_at(broker) for broker in alive))
            await self._request_ends()
            for broker, groups in zip(alive, told, strict=True):
                if groups is not None:
                    self._elsewhere[broker] = [self._view_of_coordinated(broker, each) for each in groups]
        else:
            await self._request_ends()

    def _view_of_coordinated(self, broker: BrokerId, group: CoordinatedGroup) -> GroupView:
        view = GroupView(group.group_id, group.state, broker, group.members)
        add_lags(view.topics, group.offsets, self.end_of)
        return view

    async def _groups_at(self, broker: BrokerId) -> Sequence[CoordinatedGroup] | None:
        try:
            groups = await self._peers.groups(broker, self._parts.config.kafkalite_metrics_max_groups)
        except (OSError, ValueError) as problem:  # not there, or too old for what is asked
            logger.debug("broker %d does not tell of its groups: %s", broker, problem)
            return None
        for group in groups:
            for topic_partition, _ in group.offsets:
                self.end_of(topic_partition)
        return groups

    async def _request_ends(self) -> None:
        wanted, self._unknown_ends = self._unknown_ends, set()
        by_leader: dict[BrokerId, list[TopicPartition]] = {}
        for topic_partition in wanted:
            known = self._parts.metadata.partition(topic_partition)
            if known is not None and self._parts.metadata.is_alive(known.leader):
                by_leader.setdefault(known.leader, []).append(topic_partition)
        ends = await asyncio.gather(*(self._ends_at(leader, asked) for leader, asked in by_leader.items()))
        known_before = {each: end for each, end in self._remote_ends.items() if each in wanted}
        self._remote_ends = {**known_before, **{each: end for found in ends for each, end in found.items()}}

    async def _ends_at(self, leader: BrokerId, partitions: list[TopicPartition]) -> dict[TopicPartition, int]:
        try:
            return await self._peers.ends(leader, partitions)
        except (OSError, ValueError) as problem:
            logger.debug("broker %d does not tell the ends of its partitions: %s", leader, problem)
            return {}
