"""Incremental fetch sessions (KIP-227): the broker remembers which partitions a client fetches, so that idle ones cost nothing.

A session keeps, for each of its partitions, what the client asked and what it was last told, and the set of partitions that are
*ready*: those that changed since they were last looked at. Partitions report changes to their watchers, and a session is one, so
a fetch of a thousand idle partitions looks at none of them.

From Fetch 13 on topics go by id (KIP-516), and a client may know an id before this broker does, because the controller tells each broker
in its own time. Such a partition is in the session like any other, without a name until its id has one, because a client names in its next
fetch only what has changed. So partitions are known by their ids: a topic that was made again may be there twice under its name.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Container, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from kafkalite.errors import ErrorCode, KafkaError
from kafkalite.types import NO_TOPIC_ID, TopicPartition

if TYPE_CHECKING:
    from kafkalite.broker.replication.partition import Partition
    from kafkalite.protocol import messages

SESSIONLESS_EPOCH = -1
FIRST_EPOCH = 0
EVICTABLE_AFTER_MS = 120_000
PARTITIONS_OF_A_SLOT = 500
"""On the average of all sessions that there may be; Kafka has no such bound. A partition takes some 500 bytes."""
NAMELESS = ""
"""Stands for the name of a topic whose id is not known yet."""

PartitionKey: TypeAlias = TopicPartition | tuple[bytes, int]
"""A partition as the client names it: by topic id and index, or where topics go by name by these."""


@dataclass(slots=True)
class FetchItem:
    """One partition of a fetch: what is asked, and what was answered last (a session leaves out what did not change)."""

    key: PartitionKey
    topic_partition: TopicPartition
    topic_id: bytes
    fetch_offset: int
    max_bytes: int
    current_leader_epoch: int = -1
    last_fetched_epoch: int = -1
    log_start_offset: int = -1
    told_high_watermark: int = -1
    told_log_start_offset: int = -1
    told_error: int = 0
    is_drained: bool = False
    """Whether the last look read to the end: nothing can be new before the partition reports a change."""
    is_full: bool = False
    """Whether the last look left out a batch that did not fit: waiting brings no more of it."""
    is_denied: bool = False
    """Whether the caller may not read the topic."""

    @property
    def is_nameless(self) -> bool:
        """True while nobody has told what the topic id stands for."""
        return self.topic_partition.topic == NAMELESS

    def take(self, asked: FetchItem) -> None:
        """The client changed what it asks of this partition."""
        self.fetch_offset = asked.fetch_offset
        self.max_bytes = asked.max_bytes
        self.current_leader_epoch = asked.current_leader_epoch
        self.last_fetched_epoch = asked.last_fetched_epoch
        self.log_start_offset = asked.log_start_offset
        if asked.topic_partition[0] != NAMELESS:  # of whose topic nothing was judged
            self.is_denied = asked.is_denied


class FetchSession:
    """One client's session; a watcher of its partitions and the requester of its fetches."""

    def __init__(self, session_id: int, is_follower: bool, uses_topic_ids: bool, now_ms: float) -> None:
        self.session_id = session_id
        self.is_follower = is_follower
        self.uses_topic_ids = uses_topic_ids
        self.next_epoch = 1
        self.items: dict[PartitionKey, FetchItem] = {}
        self.ready: dict[PartitionKey, None] = {}
        self.nameless = 0
        """How many of the items wait for a name."""
        self.keys: dict[TopicPartition, tuple[PartitionKey, ...]] = {}
        """Of the items that go by id and have a name, by that."""
        self.created_ms = self.last_fetch_ms = now_ms
        self.judged_for: tuple[object, ...] | None = None
        """Whose permissions at what time the partitions were judged by, where an authorizer is."""
        self.on_ready: Callable[[Partition, bool], None] | None = None
        """Set while a fetch of the session is delayed: called with the partition and whether records were appended."""

    def appended(self, partition: Partition) -> None:
        self._note_ready(partition)
        if self.on_ready is not None:
            self.on_ready(partition, True)

    def high_watermark_moved(self, partition: Partition) -> None:
        self._note_ready(partition)
        if self.on_ready is not None:
            self.on_ready(partition, not self.is_follower)

    def _note_ready(self, partition: Partition) -> None:
        topic_partition = partition.topic_partition
        if topic_partition in self.items:
            self.ready[topic_partition] = None
        else:
            for key in self.keys.get(topic_partition, ()):
                self.ready[key] = None

    def update(self, asked: Iterable[FetchItem]) -> None:
        """Partitions that the client added or asks differently; they are looked at next."""
        for item in asked:
            key = item.key
            known = self.items.get(key)
            if known is None:
                self.items[key] = item
                if item.is_nameless:
                    self.nameless += 1
                else:
                    self._note_name(item)
            else:
                known.take(item)
            self.ready[key] = None

    def _note_name(self, item: FetchItem) -> None:
        if item.key is not item.topic_partition:
            self.keys[item.topic_partition] = *self.keys.get(item.topic_partition, ()), item.key

    def name(self, item: FetchItem, topic: str) -> None:
        """The id of an item without a name stands for this topic."""
        item.topic_partition = TopicPartition(topic, item.topic_partition.partition)
        self.nameless -= 1
        self._note_name(item)

    def forget(self, key: PartitionKey) -> FetchItem | None:
        """Return the item that is in the session no more, None where it was not."""
        item = self.items.pop(key, None)
        self.ready.pop(key, None)
        if item is not None and item.is_nameless:
            self.nameless -= 1
        elif item is not None:
            remaining = tuple(each for each in self.keys.pop(item.topic_partition, ()) if each != key)
            if remaining:
                self.keys[item.topic_partition] = remaining
        return item

    def meant_by(self, topics: Sequence[messages.fetch_request.ForgottenTopic]) -> list[PartitionKey]:
        """The partitions that a request takes out of the session. Ids count as they came: a deleted topic has no name any more."""
        if not self.uses_topic_ids:
            return [TopicPartition(topic.topic, index) for topic in topics for index in topic.partitions]
        return [
            TopicPartition(NAMELESS, index) if topic.topic_id == NO_TOPIC_ID else (topic.topic_id, index)
            for topic in topics
            for index in topic.partitions
        ]


def random_session_ids(rng: random.Random) -> Callable[[Container[int]], int]:
    """Chooses ids that are not taken, as `FetchSessionCache` wants them."""

    def choose(taken: Container[int]) -> int:
        session_id = 0
        while session_id == 0 or session_id in taken:
            session_id = rng.randrange(1, 1 << 31)
        return session_id

    return choose


class FetchSessionCache:
    """All sessions of a broker: at most `slots` (max.incremental.fetch.session.cache.slots), of which also follows how many partitions
    they can have together, so that strangers cannot fill the memory with large ones.

    `choose_id(taken)` gives a new positive id that is not taken. `watch` and `unwatch` register a session with a partition.
    """

    def __init__(
        self,
        slots: int,
        choose_id: Callable[[Container[int]], int],
        watch: Callable[[TopicPartition, FetchSession], None],
        unwatch: Callable[[TopicPartition, FetchSession], None],
    ) -> None:
        self._slots, self._choose_id, self._watch, self._unwatch = slots, choose_id, watch, unwatch
        self.sessions: dict[int, FetchSession] = {}
        self._partitions_max = slots * PARTITIONS_OF_A_SLOT
        self.partitions = 0
        """Of all sessions together."""

    def open(
        self, items: list[FetchItem], is_follower: bool, uses_topic_ids: bool, now_ms: float, size: int = 0
    ) -> FetchSession | None:
        """A new session with these partitions; None when there is no room, and the client fetches without one.

        `size` says how many partitions it will have, where they are added in portions.
        """
        size = max(size, len(items))
        if not items or self.partitions + size > self._partitions_max or not self._make_room(is_follower, size, now_ms):
            return None
        session = FetchSession(self._choose_id(self.sessions), is_follower, uses_topic_ids, now_ms)
        self.sessions[session.session_id] = session
        self.update(session, items)
        return session

    def update(self, session: FetchSession, items: list[FetchItem]) -> None:
        """Add or change partitions of a session. FETCH_SESSION_ID_NOT_FOUND, and it ends, when they are too many."""
        new = [item for item in items if item.key not in session.items]
        if self.partitions + len(new) > self._partitions_max:
            self.close(session.session_id)
            raise KafkaError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        before = len(session.items)
        session.update(items)
        self.partitions += len(session.items) - before
        for item in new:
            if not item.is_nameless:
                self._watch(item.topic_partition, session)

    def name(self, session: FetchSession, item: FetchItem, topic: str) -> None:
        """The id of an item without a name stands for this topic."""
        session.name(item, topic)
        self._watch(item.topic_partition, session)

    def forget(self, session: FetchSession, keys: Iterable[PartitionKey]) -> None:
        """The client fetches these partitions no more."""
        for key in keys:
            item = session.forget(key)
            if item is None:
                continue
            self.partitions -= 1
            if not item.is_nameless and item.topic_partition not in session.keys:
                self._unwatch(item.topic_partition, session)

    def close(self, session_id: int) -> None:
        session = self.sessions.pop(session_id, None)
        if session is not None:
            self.forget(session, list(session.items))

    def resume(self, session_id: int, epoch: int, uses_topic_ids: bool) -> FetchSession:
        """The session of an incremental fetch. FETCH_SESSION_ID_NOT_FOUND, INVALID_FETCH_SESSION_EPOCH, …_TOPIC_ID_ERROR."""
        session = self.sessions.get(session_id)
        if session is None:
            raise KafkaError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        if epoch != session.next_epoch:
            raise KafkaError(ErrorCode.INVALID_FETCH_SESSION_EPOCH)
        if uses_topic_ids != session.uses_topic_ids:
            raise KafkaError(ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR)
        session.next_epoch = 1 if epoch == 0x7FFFFFFF else epoch + 1
        return session

    def _make_room(self, is_follower: bool, size: int, now_ms: float) -> bool:
        if len(self.sessions) < self._slots:
            return True
        victims = [s for s in self.sessions.values() if s.on_ready is None]
        stale = [s for s in victims if now_ms - s.last_fetch_ms > EVICTABLE_AFTER_MS]
        lesser = [
            s
            for s in victims
            if s.is_follower < is_follower
            or (now_ms - s.created_ms > EVICTABLE_AFTER_MS and (s.is_follower, len(s.items)) < (is_follower, size))
        ]
        if not (stale or lesser):
            return False
        victim = min(stale or lesser, key=lambda s: (s.is_follower, s.last_fetch_ms))
        self.close(victim.session_id)
        return True
