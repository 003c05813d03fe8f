"""Incremental fetch sessions (KIP-227): the broker remembers which partitions a client fetches, so that idle ones cost nothing.

A session keeps, for each of its partitions, what the client requested and what it was sent last, and the set of partitions that are
*ready*: those that changed since they were last read. Partitions notify their watchers of changes, and a session is one, so a fetch of a
thousand idle partitions reads none of them.

From Fetch 13 on topics go by id (KIP-516), and a client may know an id before this broker does, because the controller updates each broker
separately. Such a partition is in the session without a name until its id is resolved (Kafka's resolveUnknownTopics), because a client
names in its next fetch only what has changed. Partitions are therefore keyed by topic id: a topic that was deleted and created again may
be there twice under its name.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Container, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

from kafkalite.errors import ErrorCode, KafkaError
from kafkalite.types import NO_TOPIC_ID, TopicPartition

if TYPE_CHECKING:
    from kafkalite.broker.replication.partition import Partition
    from kafkalite.protocol import messages

    PartitionData: TypeAlias = messages.fetch_response.PartitionData
    Answers: TypeAlias = dict["PartitionKey", PartitionData]

SESSIONLESS_EPOCH = -1
FIRST_EPOCH = 0
EVICTABLE_AFTER_MS = 120_000
PARTITIONS_OF_A_SLOT = 500
"""Average over all sessions that there may be; Kafka has no such bound. A partition takes some 500 bytes."""
_MANY: Final = 2000
_REFUSED_AGAIN_MS: Final = 100.0
_NEVER_MS: Final = float("-inf")
UNKNOWN_NAME = ""
"""Stands for the name of a topic whose id is not known yet."""

PartitionKey: TypeAlias = TopicPartition | tuple[bytes, int]
"""A partition as the client names it: by topic id and index, or by topic name and index."""


@dataclass(slots=True)
class FetchItem:
    """One partition of a fetch: what is requested, and what was sent last (Kafka's CachedPartition)."""

    key: PartitionKey
    topic_partition: TopicPartition
    topic_id: bytes
    fetch_offset: int
    max_bytes: int
    current_leader_epoch: int = -1
    last_fetched_epoch: int = -1
    log_start_offset: int = -1
    is_denied: bool = False
    """True if the caller may not fetch the topic."""
    sent_high_watermark: int = -1
    sent_log_start_offset: int = -1
    sent_error: int = 0
    sent_before: int = -1
    """Epoch of the fetch after that in which the client was sent this."""
    is_drained: bool = False
    """True if the last read reached the end: there is nothing new before the partition reports a change."""
    is_full: bool = False
    """True if the last read left out a batch that did not fit: waiting brings no more bytes of the partition."""

    @property
    def is_unresolved(self) -> bool:
        """True while the name of the topic id is unknown."""
        return self.topic_partition.topic == UNKNOWN_NAME

    def update(self, requested: FetchItem, epoch: int) -> None:
        """Copy what the client requests from now on, in the fetch of this epoch.

        A follower that has heard of a new leader epoch meanwhile has not taken what it was sent in the fetch before.
        """
        if requested.current_leader_epoch != self.current_leader_epoch and self.sent_before == epoch:
            self.sent_high_watermark = self.sent_log_start_offset = -1
        self.fetch_offset = requested.fetch_offset
        self.max_bytes = requested.max_bytes
        self.current_leader_epoch = requested.current_leader_epoch
        self.last_fetched_epoch = requested.last_fetched_epoch
        self.log_start_offset = requested.log_start_offset
        if requested.topic_partition[0] != UNKNOWN_NAME:  # without a name no permission was checked
            self.is_denied = requested.is_denied

    def note_sent(self, data: PartitionData, next_epoch: int) -> None:
        """Remember what the client knows now, before its fetch `next_epoch`; after an error it knows no offset."""
        self.sent_before = next_epoch
        self.sent_high_watermark = -1 if data.error_code else data.high_watermark
        self.sent_log_start_offset = -1 if data.error_code else data.log_start_offset
        self.sent_error = data.error_code


class FetchSession:
    """One client's session; a watcher of its partitions and the requester of its fetches. `FetchSessionCache` owns and bounds them."""

    __slots__ = (
        "_told_of_epoch_ms",
        "authorized_for",
        "created_ms",
        "is_follower",
        "is_told_of_epoch",
        "items",
        "keys",
        "last_fetch_ms",
        "next_epoch",
        "on_ready",
        "ready",
        "session_id",
        "unresolved",
        "uses_topic_ids",
    )

    def __init__(self, session_id: int, is_follower: bool, uses_topic_ids: bool, now_ms: float) -> None:
        self.session_id = session_id
        self.is_follower = is_follower
        self.uses_topic_ids = uses_topic_ids
        self.next_epoch = 1
        self.items: dict[PartitionKey, FetchItem] = {}
        self.ready: dict[PartitionKey, None] = {}
        self.unresolved = 0
        """Number of items whose topic id has no name yet."""
        self.keys: dict[TopicPartition, tuple[PartitionKey, ...]] = {}
        """Keys of the items that go by topic id and have a name, by that name."""
        self.created_ms = self.last_fetch_ms = now_ms
        self.authorized_for: tuple[object, ...] | None = None
        """Generation of the ACLs, principal, host and role for which permissions were checked last; None without an authorizer."""
        self.on_ready: Callable[[Partition, bool], None] | None = None
        """Set while a fetch of the session is delayed: called with the partition and whether records were appended."""
        self.is_told_of_epoch = False
        """True if the response to a follower that is due tells of a partition that its leader epoch is over."""
        self._told_of_epoch_ms = _NEVER_MS
        """`last_fetch_ms` of the fetch whose response did so last."""

    def on_append(self, partition: Partition) -> None:
        self._mark_ready(partition)
        if self.on_ready is not None:
            self.on_ready(partition, True)

    def on_leader_epoch(self, partition: Partition) -> None:
        """Have the fetch refused, because it is of an earlier epoch.

        One refusal is enough for a follower to fetch again with the epochs that the controller has told it by then: a controller may begin
        an epoch in a hundred thousand partitions, and each refusal takes as long as the fetch that follows. For so many, one in
        `_REFUSED_AGAIN_MS` is. What waits for a follower, because not all of it is committed, is always refused.
        """
        if self.is_follower and partition.log.log_end_offset <= partition.high_watermark:
            is_lately = len(self.items) > _MANY and self.last_fetch_ms < self._told_of_epoch_ms + _REFUSED_AGAIN_MS
            if self.is_told_of_epoch or is_lately:
                return
        if self.is_follower:
            self.is_told_of_epoch, self._told_of_epoch_ms = True, self.last_fetch_ms
        self.on_append(partition)

    def on_high_watermark(self, partition: Partition) -> None:
        self._mark_ready(partition)
        if self.on_ready is not None:
            self.on_ready(partition, not self.is_follower)

    def on_isr_exit(self, partition: Partition) -> None:
        """Read the partition in the next fetch, which asks again; the delayed one lasts its time, so that nobody asks all the time."""
        self._mark_ready(partition)

    def _mark_ready(self, partition: Partition) -> None:
        """Mark the partition as one to be read, also where a read of it in portions is not noted yet (`paced_fetch`)."""
        topic_partition = partition.topic_partition
        item = self.items.get(topic_partition)
        if item is not None:
            self.ready[topic_partition] = None
            item.is_drained = False
        else:
            for key in self.keys.get(topic_partition, ()):
                self.ready[key] = None
                self.items[key].is_drained = False

    def update(self, requested: Iterable[FetchItem]) -> None:
        """Add or change partitions; they are ready for the next read."""
        for item in requested:
            key = item.key
            known = self.items.get(key)
            if known is None:
                self.items[key] = item
                if item.is_unresolved:
                    self.unresolved += 1
                else:
                    self._index_name(item)
            else:
                known.update(item, self.next_epoch - 1)
            self.ready[key] = None

    def _index_name(self, item: FetchItem) -> None:
        if item.key is not item.topic_partition:
            self.keys[item.topic_partition] = *self.keys.get(item.topic_partition, ()), item.key

    def resolve(self, item: FetchItem, topic: str) -> None:
        """Set the name of an item's topic id."""
        item.topic_partition = TopicPartition(topic, item.topic_partition.partition)
        self.unresolved -= 1
        self._index_name(item)

    def forget(self, key: PartitionKey) -> FetchItem | None:
        """Remove a partition; return its item, or None if it was not in the session."""
        item = self.items.pop(key, None)
        self.ready.pop(key, None)
        if item is not None and item.is_unresolved:
            self.unresolved -= 1
        elif item is not None:
            remaining = tuple(each for each in self.keys.pop(item.topic_partition, ()) if each != key)
            if remaining:
                self.keys[item.topic_partition] = remaining
        return item

    def forgotten_keys(self, topics: Sequence[messages.fetch_request.ForgottenTopic]) -> list[PartitionKey]:
        """Return the keys of the partitions that a request removes from the session; by id, because a deleted topic has no name."""
        if not self.uses_topic_ids:
            return [TopicPartition(topic.topic, index) for topic in topics for index in topic.partitions]
        return [
            TopicPartition(UNKNOWN_NAME, index) if topic.topic_id == NO_TOPIC_ID else (topic.topic_id, index)
            for topic in topics
            for index in topic.partitions
        ]

    def end_response(self) -> None:
        """End a response; free the memory for partitions that were ready, if none is: a dict that is emptied key by key keeps it."""
        self.is_told_of_epoch = False
        if not self.ready:
            self.ready.clear()

    def note_read(self, item: FetchItem, data: PartitionData) -> None:
        """Remove a drained partition from those that are ready; move one that got records or an error to the back."""
        key = item.key
        if data.records or data.error_code:
            self.ready.pop(key, None)
            self.ready[key] = None
        elif item.is_drained:
            self.ready.pop(key, None)

    def select_changed(self, answers: Answers) -> Answers:
        """Return the answers that an incremental response must contain, and remember that they are sent (KIP-227)."""
        changed: Answers = {}
        for key, data in answers.items():
            item = self.items.get(key)
            if item is None:
                continue
            if (
                data.records
                or data.error_code != 0
                or data.diverging_epoch is not None
                or data.preferred_read_replica >= 0
                or data.high_watermark != item.sent_high_watermark
                or data.log_start_offset != item.sent_log_start_offset
            ):
                changed[key] = data
                item.note_sent(data, self.next_epoch)
            self.note_read(item, data)
        self.end_response()
        return changed


def random_session_ids(rng: random.Random) -> Callable[[Container[int]], int]:
    """Return a chooser of session ids for `FetchSessionCache`: random, positive, not taken."""

    def choose(taken: Container[int]) -> int:
        session_id = 0
        while session_id == 0 or session_id in taken:
            session_id = rng.randrange(1, 1 << 31)
        return session_id

    return choose


class FetchSessionCache:
    """All sessions of a broker: at most `slots` (max.incremental.fetch.session.cache.slots), with `PARTITIONS_OF_A_SLOT` partitions each
    on the average, so that clients cannot fill the memory with large ones.

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
        """Number of partitions of all sessions."""

    def open(self, size: int, is_follower: bool, uses_topic_ids: bool, now_ms: float) -> FetchSession | None:
        """Return a new session, to be updated with `size` partitions; None if there is no room, and the client fetches without one."""
        if not size or self.partitions + size > self._partitions_max or not self._make_room(is_follower, size, now_ms):
            return None
        session = FetchSession(self._choose_id(self.sessions), is_follower, uses_topic_ids, now_ms)
        self.sessions[session.session_id] = session
        return session

    def update(self, session: FetchSession, items: Collection[FetchItem]) -> None:
        """Add or change partitions of a session. If they are too many, close it and raise FETCH_SESSION_ID_NOT_FOUND."""
        new = [item for item in items if item.key not in session.items]
        if self.partitions + len(new) > self._partitions_max:
            self.close(session.session_id)
            raise KafkaError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        before = len(session.items)
        session.update(items)
        self.partitions += len(session.items) - before
        for item in new:
            if not item.is_unresolved:
                self._watch(item.topic_partition, session)

    def resolve(self, session: FetchSession, item: FetchItem, topic: str) -> None:
        """Set the name of an item's topic id, and watch the partition."""
        session.resolve(item, topic)
        self._watch(item.topic_partition, session)

    def forget(self, session: FetchSession, keys: Iterable[PartitionKey]) -> None:
        """Remove partitions from a session."""
        for key in keys:
            item = session.forget(key)
            if item is None:
                continue
            self.partitions -= 1
            if not item.is_unresolved and item.topic_partition not in session.keys:
                self._unwatch(item.topic_partition, session)

    def close(self, session_id: int) -> None:
        session = self.sessions.pop(session_id, None)
        if session is not None:
            self.forget(session, list(session.items))

    def resume(self, session_id: int, epoch: int, uses_topic_ids: bool) -> FetchSession:
        """Return the session of an incremental fetch.

        Raises FETCH_SESSION_ID_NOT_FOUND, INVALID_FETCH_SESSION_EPOCH or FETCH_SESSION_TOPIC_ID_ERROR.
        """
        session = self.sessions.get(session_id)
        if session is None:
            raise KafkaError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        if epoch != session.next_epoch:
            raise KafkaError(ErrorCode.INVALID_FETCH_SESSION_EPOCH)
        if uses_topic_ids != session.uses_topic_ids:
            raise KafkaError(ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR)
        session.is_told_of_epoch = False
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
