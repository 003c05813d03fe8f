"""The fetcher's side of an incremental fetch session (KIP-227), for consumers and followers alike (Kafka's FetchSessionHandler). Pure.

A full fetch (epoch 0) names all partitions; the broker may answer with a session. From then on a fetch, numbered by its epoch, names
partitions of which something else is wanted than before, and those to be forgotten; the answer leaves out partitions without news.
Whenever the two sides may disagree (an error, a lost connection) the next fetch is a full one, which also ends the old session.

A topic that was deleted and made again has another id. In a session of topic ids (Fetch 13, KIP-516) the partition of the old one must be
forgotten even though that of the new one, of the same name, is sent: the broker answers at once as long as it has an error to tell.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from kafkalite.errors import ErrorCode
from kafkalite.types import TopicPartition

FULL_FETCH_EPOCH: Final = 0
_LAST_EPOCH: Final = 2**31 - 1

SESSION_IS_OVER: Final = frozenset(
    {
        ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
        ErrorCode.INVALID_FETCH_SESSION_EPOCH,
        ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
    }
)
"""Answers to a whole fetch after which a new session is begun at once."""


class FetchSessionHandler:
    """The fetch session of one follower or consumer with one broker; partitions are fetched from `send` until `forget` or `reset`.

    A request takes `session_id`, `epoch` and `take_forgotten()`; then `complete_fetch` follows, or `reset` when anything went wrong.
    """

    def __init__(self) -> None:
        self.session_id = 0
        self.epoch = FULL_FETCH_EPOCH
        self.uses_topic_ids = True
        """True if fetches name topics by id; a session cannot change it, so `reset` comes before."""
        self._sent: dict[TopicPartition, bytes] = {}
        """Partitions that the broker knows, with the topic's id."""
        self._forgotten: dict[tuple[TopicPartition, bytes], None] = {}

    @property
    def sent(self) -> Collection[TopicPartition]:
        """Return the partitions that are fetched, once the next request is sent."""
        return self._sent.keys()

    def reset(self, *, is_lost: bool = False) -> None:
        """Make the next fetch a full one, for a new session; `is_lost`: the broker does not know the old one any more."""
        self.epoch = FULL_FETCH_EPOCH
        if is_lost:
            self.session_id = 0
        self._sent.clear()
        self._forgotten.clear()

    def complete_fetch(self, session_id: int) -> None:
        """Note that the fetch was served in the session of that id; after 0, for none, the next fetch is a full one again."""
        if session_id == 0:
            self.reset(is_lost=True)
        else:
            self.session_id = session_id
            self.epoch = self.epoch % _LAST_EPOCH + 1

    def send(self, topic_partition: TopicPartition, topic_id: bytes) -> None:
        """Name the partition in the next request."""
        if not self.knows(topic_partition, topic_id):
            self.forget(topic_partition)
            self._sent[topic_partition] = topic_id

    def knows(self, topic_partition: TopicPartition, topic_id: bytes) -> bool:
        """True if the partition of this topic was sent, and not forgotten since."""
        sent = self._sent.get(topic_partition)
        return sent == topic_id or (sent is not None and not self.uses_topic_ids)

    def forget(self, topic_partition: TopicPartition) -> None:
        """Take the partition out of the session with the next request, if it is in it."""
        topic_id = self._sent.pop(topic_partition, None)
        if topic_id is not None:
            self._forgotten[topic_partition, topic_id] = None

    def refuse(self, topic_partition: TopicPartition, topic_id: bytes) -> None:
        """Take a partition that came unwanted out of the session with the next request."""
        self._forgotten[topic_partition, topic_id] = None

    def take_forgotten(self) -> list[tuple[TopicPartition, bytes]]:
        """Return the partitions that the request must take out, each with its topic's id."""
        taken, self._forgotten = self._forgotten, {}
        return [each for each in taken if not self.knows(*each)]
