"""The lag of the event loop: by how much a timer fires later than it was due.

Work that occupies the loop delays every request, and shows here first.
"""

from __future__ import annotations

import asyncio
from time import perf_counter
from typing import Final

from kafkalite.histogram import Histogram

EVERY_S: Final = 0.5


class LoopLag:
    """Measures from `start` to `stop`."""

    def __init__(self) -> None:
        self.lags = Histogram()
        self._due_s = 0.0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._timer: asyncio.TimerHandle | None = None

    @property
    def tasks(self) -> int:
        """Return the number of tasks of the measured loop."""
        return len(asyncio.all_tasks(self._loop)) if self._loop is not None else 0

    def start(self) -> None:
        self._due_s = perf_counter() + EVERY_S
        self._loop = asyncio.get_running_loop()
        self._timer = self._loop.call_later(EVERY_S, self._tick)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _tick(self) -> None:
        late_s = max(0.0, perf_counter() - self._due_s)
        self.start()
        self.lags.observe(late_s)
