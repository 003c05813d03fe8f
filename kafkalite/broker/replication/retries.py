"""Partitions that a follower fetches again later, and how many of those that are due one request names. Pure.

A controller that elects leaders of ten thousand partitions tells all brokers at once, and a follower may ask before its leader has taken
up its roles, which takes that leader the longer, the more of them it has to refuse meanwhile. So of those that are due, few are asked for
at first, the earliest ones, which the leader takes up first: as long as it refuses them the others wait, and once it has them, twice as
many are asked for with each request (the slow start of TCP, RFC 5681).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from kafkalite.backoff import Backoff
from kafkalite.timer_queue import TimerQueue
from kafkalite.types import TopicPartition

FEWEST: Final = 500
"""Partitions that are asked for at once while the leader refuses that many; fewer are never held back."""
_PAUSES: Final = Backoff(10.0, 1000.0)
_NEXT_REQUEST_MS: Final = 25.0
"""Longest wait of a request that some which are due wait for."""


class Retries:
    """The partitions that are left out of requests until a time of their own."""

    def __init__(self) -> None:
        self._timers: TimerQueue[TopicPartition] = TimerQueue()
        self._tried: dict[TopicPartition, None] = {}
        self._asked_ms = 0.0
        self._most = FEWEST
        self._refused_in_a_row = 0
        self._not_before_ms = float("-inf")

    def __contains__(self, topic_partition: TopicPartition) -> bool:
        return topic_partition in self._timers

    def __len__(self) -> int:
        return len(self._timers)

    def due_ms(self, topic_partition: TopicPartition) -> float:
        """Return until when a partition is left out, minus infinity if it is not."""
        due_ms = self._timers.due_ms(topic_partition)
        return float("-inf") if due_ms is None else due_ms

    def put_off(self, topic_partition: TopicPartition, due_ms: float) -> None:
        """Leave a partition out until then, infinity for until it is taken out."""
        self._timers.set(topic_partition, due_ms)

    def take_out(self, topic_partition: TopicPartition) -> None:
        """Forget a partition, if it is here."""
        self._timers.cancel(topic_partition)

    def take_due(self, now_ms: float) -> list[TopicPartition]:
        """Take out those that the next request tries again, the earliest ones first."""
        if now_ms < self._not_before_ms:
            return []
        due = self._timers.pop_due(now_ms, self._most)
        self._tried, self._asked_ms = dict.fromkeys(due), now_ms
        return due

    def wait_ms(self, now_ms: float) -> float:
        """Return how long a request may wait at the leader; infinity if nothing is left out."""
        next_ms = self._timers.next_ms()
        if next_ms is None:
            return float("inf")
        if next_ms <= now_ms and self._not_before_ms <= now_ms:
            return _NEXT_REQUEST_MS
        return max(1.0, max(next_ms, self._not_before_ms) - now_ms)

    def note_answer(self, refused: Iterable[TopicPartition]) -> None:
        """Note which partitions the leader refuses in its answer to the latest request."""
        tried, self._tried = self._tried, {}
        if not tried:
            return
        was_full = len(tried) == self._most
        if was_full and 2 * sum(each in tried for each in refused) >= len(tried):
            self._refused_in_a_row += 1
            self._not_before_ms = self._asked_ms + _PAUSES.delay_ms(self._refused_in_a_row)
            self._most = FEWEST
        else:
            self._refused_in_a_row = 0
            self._most = 2 * self._most if was_full else FEWEST
