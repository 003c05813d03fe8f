"""Turns of an event loop's thread and of its guests: who may change what belongs to the loop at a moment.

The loop's thread holds a lock while it runs callbacks, and releases it while it waits for events. In between another thread, a guest, may
do at once what takes no waiting, as reading from a buffer: that costs half a microsecond, where a call through the loop costs 50.

What keeps it from doing harm:

- A guest waits for its turn for `_PATIENCE_S` at most and goes through the loop then. Callbacks may wait for the program's own locks, which
  the guest may hold.
- A guest gives way where the loop's thread waits (`is_wanted`), which would not get a lock that is taken again within a microsecond.
- Signal handlers may raise in a guest behind any call, and `with` cannot try to acquire a lock: a guest writes `try: … enter() … finally:`,
  and calls `lock.release` there before any function of Python, acquired or not.
- A callback of the loop, and a function of the program that a guest calls, acquires the lock again and finds a `holder`, its own thread, in
  the midst of a change: it is no guest, and goes through the loop.
"""

from __future__ import annotations

import selectors
import threading
from typing import Final

_PATIENCE_S: Final = 0.01


class LoopTurns:
    """The lock of one event loop. `holder` is the identifier of the thread that has it and may call functions of the program, 0 without."""

    __slots__ = ("_gate", "holder", "is_wanted", "lock")

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.is_wanted = False
        """True while the loop's thread waits for the lock, and has it after that; guests wait at the gate then, and do not wake twice."""
        self.holder = 0
        self._gate = threading.RLock()

    def begin(self) -> None:
        """Take the lock for callbacks; on the loop's thread, which waits as long as it takes."""
        if not self.lock.acquire(False):
            self._gate.acquire()
            self.is_wanted = True
            self.lock.acquire()
        self.holder = threading.get_ident()

    def end(self) -> None:
        """Release the lock, on the loop's thread, before it waits for events."""
        self.holder = 0
        self.lock.release()
        if self.is_wanted:
            self.is_wanted = False
            self._gate.release()

    def enter(self) -> bool:
        """Acquire the lock for a guest; False where it is not free in time. Then look at `holder`, and release it."""
        if self.is_wanted and self.holder != threading.get_ident():
            try:
                if not self._gate.acquire(timeout=_PATIENCE_S):
                    return False
            finally:
                try:
                    self._gate.release()
                except RuntimeError:  # not acquired
                    pass
        return self.lock.acquire(timeout=_PATIENCE_S)


class YieldingSelector(selectors.DefaultSelector):
    """A selector that gives guests their turns while it waits."""

    def __init__(self, turns: LoopTurns) -> None:
        super().__init__()
        self._turns = turns

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Wait for events as other selectors do, without the lock where that may take time."""
        if timeout is not None and timeout <= 0:
            return super().select(timeout)
        self._turns.end()
        try:
            return super().select(timeout)
        finally:
            self._turns.begin()
