"""The follower's side of an incremental fetch session (KIP-227): what the leader knows, and what the next request must say.

A topic that was deleted and made again has another id. In a session of topic ids (Fetch 13, KIP-516) the partition of the old one must be
forgotten even though that of the new one, of the same name, is sent: the leader answers at once as long as it has an error to tell.
"""

from __future__ import annotations

from collections.abc import Iterable

from kafkalite.types import TopicPartition


class FetchSessionState:
    """The fetcher's side of an incremental session: what must be sent with the next request."""

    def __init__(self) -> None:
        self.session_id = 0
        self.epoch = 0
        self.uses_topic_ids = False
        self.changed: dict[TopicPartition, None] = {}
        self.sent: dict[TopicPartition, bytes] = {}
        """What the leader knows, with the topic's id."""
        self._forgotten: dict[tuple[TopicPartition, bytes], None] = {}

    def reset(self, followed: Iterable[TopicPartition]) -> None:
        """The next fetch is a full one, for a new session."""
        self.session_id = self.epoch = 0
        self.changed = dict.fromkeys(followed)
        self.sent.clear()
        self._forgotten.clear()

    def answered(self, session_id: int) -> None:
        """The request was served, in the session of that id (0: none, so every fetch is a full one)."""
        if session_id == 0:
            self.session_id = self.epoch = 0
            self.changed.update(dict.fromkeys(self.sent))
            self.sent.clear()
        else:
            self.session_id = session_id
            self.epoch = 1 if self.epoch == 0x7FFFFFFF else self.epoch + 1

    def send(self, topic_partition: TopicPartition, topic_id: bytes) -> None:
        """The next request has it."""
        self.changed.pop(topic_partition, None)
        if self.knows(topic_partition, topic_id):
            return
        self.forget(topic_partition)
        self.sent[topic_partition] = topic_id

    def knows(self, topic_partition: TopicPartition, topic_id: bytes) -> bool:
        """Was the partition of this topic sent, and not forgotten since?"""
        sent = self.sent.get(topic_partition)
        return sent == topic_id or (sent is not None and not self.uses_topic_ids)

    def forget(self, topic_partition: TopicPartition) -> None:
        """The next request takes it out of the session, if it is in it."""
        self.changed.pop(topic_partition, None)
        topic_id = self.sent.pop(topic_partition, None)
        if topic_id is not None:
            self._forgotten[topic_partition, topic_id] = None

    def refuse(self, topic_partition: TopicPartition, topic_id: bytes) -> None:
        """An answer told of a partition that is not wanted: the next request takes it out of the session."""
        self._forgotten[topic_partition, topic_id] = None

    def take_forgotten(self) -> list[tuple[TopicPartition, bytes]]:
        """What the request must take out, each with its topic's id."""
        taken, self._forgotten = self._forgotten, {}
        return [each for each in taken if not self.knows(*each)]
