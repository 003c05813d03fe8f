"""Which topics allow that a replica outside the ISR is elected leader, known beforehand because a verdict does not wait for much."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from kafkalite.broker.metadata_cache import MetadataCache
    from kafkalite.config.topic import TopicConfig

_READ_AT_ONCE: Final = 20
"""In each of the brief turns that go on all the time."""
_READ_TOGETHER: Final = 200
"""While a verdict waits."""


class UncleanTopics:
    """Reads unclean.leader.election.enable of topics, each once until its configuration or its id changes."""

    def __init__(self, metadata: MetadataCache, read_config: Callable[[str], Awaitable[TopicConfig]]) -> None:
        self._metadata, self._read_config = metadata, read_config
        self._known: dict[str, tuple[bytes, bool]] = {}
        """Of each topic its id and whether it allows unclean elections."""

    async def find_allowing(self, topics: Iterable[str]) -> set[str]:
        """Return those of `topics` that allow unclean elections; unknown ones are read together. Raises StoreError."""
        found, unknown = set(), []
        for topic in topics:
            topic_id, allows = self._known.get(topic, (None, False))
            if topic_id != self._find_id(topic):
                unknown.append(topic)
            elif allows:
                found.add(topic)
        for first in range(0, len(unknown), _READ_TOGETHER):
            some = unknown[first : first + _READ_TOGETHER]
            answers = await asyncio.gather(*map(self._read, some))
            found.update(topic for topic, allows in zip(some, answers, strict=True) if allows)
        return found

    def _find_id(self, topic: str) -> bytes:
        """Return the id that a topic has in the metadata; empty for one that they lack."""
        named = self._metadata.topics.get(topic)
        return b"" if named is None else named.topic_id

    async def _read(self, topic: str) -> bool:
        topic_id = self._find_id(topic)
        self._known.pop(topic, None)
        allows = (await self._read_config(topic)).unclean_leader_election_enable
        self._known[topic] = topic_id, allows
        return allows

    def forget(self, topic: str) -> None:
        """Forget what is known of a topic, because its configuration has changed."""
        self._known.pop(topic, None)

    def forget_all(self) -> None:
        """Forget what is known of all topics, because the broker's defaults have changed."""
        self._known.clear()

    async def read_some(self) -> None:
        """Read the configurations of a few topics that are not known yet; forget topics that are gone. Raises StoreError."""
        topics = self._metadata.topics
        if len(self._known) > len(topics):
            self._known = {topic: known for topic, known in self._known.items() if topic in topics}
        if len(self._known) < len(topics):
            await self.find_allowing([topic for topic in topics if topic not in self._known][:_READ_AT_ONCE])
