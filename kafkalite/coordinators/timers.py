"""Many timers, few of which ever fire: the sessions of group members are put off at each heartbeat.

A timer that is put off costs one dictionary write: its entry in the heap stays where it is, and moves when it comes up. So the heap
has at most one entry per timer for each time it was set *earlier* than before.
"""

from __future__ import annotations

import heapq
from collections.abc import Hashable
from typing import Generic, TypeVar

KeyT = TypeVar("KeyT", bound=Hashable)


class TimerQueue(Generic[KeyT]):
    """Times in ms of one clock; see the module."""

    def __init__(self) -> None:
        self._due: dict[KeyT, int] = {}
        self._heap: list[tuple[int, int, KeyT]] = []
        self._pushed_ms: dict[KeyT, int] = {}
        """The earliest time at which the heap has an entry of the key."""
        self._count = 0

    def __len__(self) -> int:
        return len(self._due)

    def set(self, key: KeyT, due_ms: int) -> None:
        """Have `key` come up at `due_ms`, instead of when it was to come up before."""
        self._due[key] = due_ms
        listed = self._pushed_ms.get(key)
        if listed is None or due_ms < listed:
            self._push(key, due_ms)

    def cancel(self, key: KeyT) -> None:
        self._due.pop(key, None)

    def _push(self, key: KeyT, due_ms: int) -> None:
        self._count += 1
        self._pushed_ms[key] = due_ms
        heapq.heappush(self._heap, (due_ms, self._count, key))

    def next_ms(self) -> int | None:
        """Not later than the next timer; earlier when that was put off or cancelled. None without timers."""
        return self._heap[0][0] if self._heap else None

    def pop_due(self, now_ms: int) -> list[KeyT]:
        """Take out the timers that are due, earliest first."""
        due: list[KeyT] = []
        heap = self._heap
        while heap and heap[0][0] <= now_ms:
            listed_ms, _, key = heapq.heappop(heap)
            if self._pushed_ms.get(key) != listed_ms:
                continue  # another entry of the key came up earlier
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
