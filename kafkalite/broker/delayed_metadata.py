"""Metadata requests that wait shortly for a new leader, instead of being answered with one that is taken for dead.

A client whose leader died asks for metadata at once. Answered with the former leader it tries that one again, and asks again after a
backoff that grows (KIP-580), so it learns of the successor late. Answered when the successor is known it goes on after one round trip.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

if TYPE_CHECKING:
    from kafkalite.broker.metadata_cache import MetadataCache
    from kafkalite.protocol.messages import metadata_request
    from kafkalite.types import BrokerId

LONGEST_WAIT_S: Final = 0.3
"""Far below the timeouts of clients' requests (30 s in Java, 60 s in librdkafka), and below the pause that asking again would cost."""

REQUEST_PARTITIONS_MAX: Final = 1_000
"""Partitions of a request that may wait; larger ones are answered at once."""

WAITING_PARTITIONS_MAX: Final = 10_000
"""Partitions of all requests that wait: each is looked at with every change of metadata, which takes some milliseconds."""


class _LedPartition(NamedTuple):
    """A partition whose leader is taken for dead."""

    topic: str
    partition: int


class DelayedMetadata:
    """Requests that wait for a change of `metadata`. `is_suspected(broker)` is true for brokers that are probably dead."""

    def __init__(self, metadata: MetadataCache, is_suspected: Callable[[BrokerId], bool]) -> None:
        self._metadata, self._is_suspected = metadata, is_suspected
        self._waiting_partitions = 0

    async def wait_for_leaders(self, topics: Sequence[metadata_request.MetadataRequestTopic] | None) -> None:
        """Wait until no asked partition is led by a broker that is probably dead, at most `LONGEST_WAIT_S`.

        Returns at once where all topics are asked for, or too many partitions, or too many wait already.
        """
        lost = self._find_lost(topics or ())
        if not lost or self._waiting_partitions + len(lost) > WAITING_PARTITIONS_MAX:
            return
        self._waiting_partitions += len(lost)
        try:
            await self._metadata.wait_until(lambda: not any(map(self._is_lost, lost)), LONGEST_WAIT_S)
        finally:
            self._waiting_partitions -= len(lost)

    def _find_lost(self, topics: Iterable[metadata_request.MetadataRequestTopic]) -> list[_LedPartition]:
        lost: list[_LedPartition] = []
        looked_at = 0
        for asked in topics:
            name = asked.name if asked.name is not None else self._metadata.topic_name(asked.topic_id)
            known = self._metadata.topics.get(name) if name is not None else None
            looked_at += 1 if known is None else len(known.partitions)
            if looked_at > REQUEST_PARTITIONS_MAX:
                return []
            if known is not None:
                led = (_LedPartition(known.name, index) for index in known.partitions)
                lost += filter(self._is_lost, led)
        return lost

    def _is_lost(self, place: _LedPartition) -> bool:
        """True if the leader is probably dead. A partition that has none is lost for longer than a request may wait."""
        topic = self._metadata.topics.get(place.topic)
        known = topic.partitions.get(place.partition) if topic is not None else None
        return known is not None and known.leader >= 0 and self._is_suspected(known.leader)


class HasDelayedMetadata(Protocol):
    @property
    def delayed_metadata(self) -> DelayedMetadata: ...
