"""A queue for many timers, few of which ever fire: sessions of group members are postponed at each heartbeat. Pure."""

from __future__ import annotations

import heapq
from collections.abc import Hashable
from itertools import count
from typing import Final, Generic, TypeVar

KeyT = TypeVar("KeyT", bound=Hashable)

_STALE_MAX: Final = 64
"""Heap entries that there may be beside twice as many as timers."""


class TimerQueue(Generic[KeyT]):
    """Timers by key, with times in ms of one clock; one at infinity never fires.

    Postponing a timer costs one dictionary write: its heap entry is moved when it comes up.
    """

    def __init__(self) -> None:
        self._due: dict[KeyT, float] = {}
        self._heap: list[tuple[float, int, KeyT]] = []
        self._pushed_ms: dict[KeyT, float] = {}
        """The earliest time in the heap by key; other entries of the key do not count."""
        self._numbers = count()

    def __len__(self) -> int:
        return len(self._due)

    def __contains__(self, key: KeyT) -> bool:
        return key in self._due

    def due_ms(self, key: KeyT) -> float | None:
        """Return when the timer is due, None without one."""
        return self._due.get(key)

    def set(self, key: KeyT, due_ms: float) -> None:
        """Set the timer to `due_ms`, replacing its earlier time."""
        self._due[key] = due_ms
        pushed_ms = self._pushed_ms.get(key)
        if pushed_ms is None or due_ms < pushed_ms:
            self._push(key, due_ms)
            self._drop_stale()

    def cancel(self, key: KeyT) -> None:
        """Remove the timer, if there is one."""
        if self._due.pop(key, None) is not None:
            self._drop_stale()

    def next_ms(self) -> float | None:
        """Return when the next timer is due, None without timers."""
        heap = self._heap
        while heap and not self._has_timer_first():
            continue
        return heap[0][0] if heap else None

    def pop_due(self, now_ms: float, most: int | None = None) -> list[KeyT]:
        """Remove and return the timers that are due, earliest first, at most so many."""
        due: list[KeyT] = []
        heap = self._heap
        while heap and heap[0][0] <= now_ms and len(due) != most:
            if self._has_timer_first():
                key = heapq.heappop(heap)[2]
                del self._pushed_ms[key], self._due[key]
                due.append(key)
        return due

    def _has_timer_first(self) -> bool:
        """True if the first heap entry is a timer's time; otherwise remove it, or move it to the time that the timer was put off to."""
        pushed_ms, _, key = self._heap[0]
        due_ms = self._due.get(key)
        if self._pushed_ms.get(key) != pushed_ms:  # the key has an earlier entry, which came up before
            heapq.heappop(self._heap)
        elif due_ms is None:
            heapq.heappop(self._heap)
            del self._pushed_ms[key]
        elif due_ms > pushed_ms:
            heapq.heappop(self._heap)
            self._push(key, due_ms)
        else:
            return True
        return False

    def _push(self, key: KeyT, due_ms: float) -> None:
        self._pushed_ms[key] = due_ms
        heapq.heappush(self._heap, (due_ms, next(self._numbers), key))

    def _drop_stale(self) -> None:
        """Rebuild the heap once most of its entries are of timers that were cancelled or brought forward."""
        if len(self._heap) > 2 * len(self._due) + _STALE_MAX:
            self._pushed_ms = dict(self._due)
            self._heap = [(due_ms, next(self._numbers), key) for key, due_ms in self._due.items()]
            heapq.heapify(self._heap)
