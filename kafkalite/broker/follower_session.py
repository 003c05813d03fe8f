"""The follower's side of an incremental fetch session (KIP-227): what the leader knows, and what the next request must say."""

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
        self.sent: set[TopicPartition] = set()
        self._forgotten: dict[TopicPartition, bytes] = {}

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

    def forget(self, topic_partition: TopicPartition, topic_id: bytes) -> None:
        self.changed.pop(topic_partition, None)
        if topic_partition in self.sent:
            self.sent.discard(topic_partition)
            self._forgotten[topic_partition] = topic_id

    def take_forgotten(self) -> dict[TopicPartition, bytes]:
        taken, self._forgotten = self._forgotten, {}
        return {tp: topic_id for tp, topic_id in taken.items() if tp not in self.sent}
