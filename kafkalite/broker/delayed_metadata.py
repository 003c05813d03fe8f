"""Requests that wait shortly for a new leader, instead of being answered with one that is taken for dead: Metadata and FindCoordinator.

A client whose leader died asks for metadata at once, before the controller knows. Answered with the former leader it tries that one again,
and asks again after a pause: librdkafka after a second, Java's clients after a backoff that grows (KIP-580). Answered when the successor is
known it goes on after one round trip. What the client sends behind the request waits with it, on its connection.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from typing import TYPE_CHECKING, Final, Protocol

from kafkalite.types import NO_BROKER, TopicPartition

if TYPE_CHECKING:
    from kafkalite.broker.metadata_cache import MetadataCache
    from kafkalite.controller.control_requests import LiveBroker
    from kafkalite.protocol.messages import metadata_request
    from kafkalite.types import BrokerId

LONGEST_WAIT_S: Final = 0.3
"""Far below the timeouts of clients' requests (30 s in Java, 60 s in librdkafka), and below the pause that asking again would cost."""

REQUEST_PARTITIONS_MAX: Final = 1_000
"""Partitions of a request that may wait; larger ones are answered at once."""

WAITING_PARTITIONS_MAX: Final = 10_000
"""Partitions of all requests that wait: each is looked at with every change of metadata, which takes some milliseconds."""


class DelayedMetadata:
    """Requests that wait for a change of `metadata`. `is_suspected(broker)` is true for brokers that are probably dead.

    `look_around()` waits shortly until it is known of others whether they are: a client may know it some milliseconds earlier.

    `find_left()` gives the brokers that have left a short while ago, which responses to clients go on to list: a librdkafka that learns of
    a successor and of the end of the former leader in one response loses the successor again, until its next query a second later.
    """

    def __init__(
        self,
        metadata: MetadataCache,
        is_suspected: Callable[[BrokerId], bool],
        look_around: Callable[[], Awaitable[None]] | None = None,
        find_left: Callable[[], Sequence[LiveBroker]] = tuple,
    ) -> None:
        self._metadata, self._is_suspected, self._look_around = metadata, is_suspected, look_around
        self.find_left = find_left
        self._waiting_partitions = 0

    async def wait_for_leaders(self, topics: Sequence[metadata_request.MetadataRequestTopic] | None) -> None:
        """Wait until no asked partition is led by a broker that is probably dead, at most `LONGEST_WAIT_S`.

        Returns at once where all topics are asked for, or too many partitions, or too many wait already.
        """
        if not topics:
            return
        if self._look_around is not None:
            await self._look_around()
        if self._has_suspects():
            await self.wait_for_leader_of(self._find_partitions(topics))

    async def wait_for_leader_of(self, partitions: Collection[TopicPartition]) -> None:
        """Wait for the leaders of these partitions like `wait_for_leaders`."""
        if not self._has_suspects() or len(partitions) > REQUEST_PARTITIONS_MAX:
            return
        lost = [each for each in partitions if self._is_lost(each)]
        if not lost or self._waiting_partitions + len(lost) > WAITING_PARTITIONS_MAX:
            return
        self._waiting_partitions += len(lost)
        try:
            await self._metadata.wait_until(lambda: not any(map(self._is_led_by_dead, lost)), LONGEST_WAIT_S)
        finally:
            self._waiting_partitions -= len(lost)

    def _has_suspects(self) -> bool:
        return any(map(self._is_suspected, self._metadata.brokers))

    def _find_partitions(self, topics: Iterable[metadata_request.MetadataRequestTopic]) -> list[TopicPartition]:
        """Return the partitions of the topics, none if they are too many."""
        partitions: list[TopicPartition] = []
        for number, asked in enumerate(topics):
            name = asked.name if asked.name is not None else self._metadata.topic_name(asked.topic_id)
            known = self._metadata.topics.get(name) if name is not None else None
            if known is not None:
                partitions += [TopicPartition(known.name, index) for index in known.partitions]
            if max(number, len(partitions)) > REQUEST_PARTITIONS_MAX:
                return []
        return partitions

    def _is_lost(self, place: TopicPartition) -> bool:
        """True if the leader is probably dead."""
        leader = self._find_leader(place)
        return leader >= 0 and self._is_suspected(leader)

    def _is_led_by_dead(self, place: TopicPartition) -> bool:
        """True if the leader is probably dead, or has left while its successor is not known yet.

        The controller tells of many partitions in several requests, all of them without the dead broker.
        """
        return self._is_lost(place) or (
            (leader := self._find_leader(place)) >= 0 and not self._metadata.is_alive(leader)
        )

    def _find_leader(self, place: TopicPartition) -> BrokerId:
        """Return the leader, NO_BROKER if there is none: such a partition may be without for longer than a request may wait."""
        topic = self._metadata.topics.get(place.topic)
        known = topic.partitions.get(place.partition) if topic is not None else None
        return NO_BROKER if known is None else known.leader


class HasDelayedMetadata(Protocol):
    @property
    def delayed_metadata(self) -> DelayedMetadata: ...
