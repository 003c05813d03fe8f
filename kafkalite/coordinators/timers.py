"""A queue for many timers, few of which ever fire: sessions of group members are postponed at each heartbeat."""

from __future__ import annotations

import heapq
from collections.abc import Hashable
from typing import Generic, TypeVar

KeyT = TypeVar("KeyT", bound=Hashable)


class TimerQueue(Generic[KeyT]):
    """Timers by key, with times in ms of one clock.

    Postponing a timer costs one dictionary write: its heap entry is moved when it comes up. So the heap has at most one entry per
    timer for each time that it was set earlier than before.
    """

    def __init__(self) -> None:
        self._due: dict[KeyT, int] = {}
        self._heap: list[tuple[int, int, KeyT]] = []
        self._pushed_ms: dict[KeyT, int] = {}
        """The earliest time in the heap by key."""
        self._count = 0

    def __len__(self) -> int:
        return len(self._due)

    def set(self, key: KeyT, due_ms: int) -> None:
        """Set the timer to `due_ms`, replacing its earlier time."""
        self._due[key] = due_ms
        pushed_ms = self._pushed_ms.get(key)
        if pushed_ms is None or due_ms < pushed_ms:
            self._push(key, due_ms)

    def cancel(self, key: KeyT) -> None:
        self._due.pop(key, None)

    def _push(self, key: KeyT, due_ms: int) -> None:
        self._count += 1
        self._pushed_ms[key] = due_ms
        heapq.heappush(self._heap, (due_ms, self._count, key))

    def next_ms(self) -> int | None:
        """Return a time not later than the next timer, earlier if that was postponed or cancelled; None without timers."""
        return self._heap[0][0] if self._heap else None

    def pop_due(self, now_ms: int) -> list[KeyT]:
        """Remove and return the timers that are due, earliest first."""
        due: list[KeyT] = []
        heap = self._heap
        while heap and heap[0][0] <= now_ms:
            pushed_ms, _, key = heapq.heappop(heap)
            if self._pushed_ms.get(key) != pushed_ms:
                continue  # an earlier entry of the key was popped before
            del self._pushed_ms[key]
            due_ms = self._due.get(key)
            if due_ms is None:
                continue
            if due_ms <= now_ms:
                del self._due[key]
                due.append(key)
            else:
                self._push(key, due_ms)
        return due
