"""Clocks for tests, each a `kafkalite.clock.Clock`."""

from __future__ import annotations

import asyncio


class HandClock:
    """A clock that stands at `ms`, wall time and monotonic time alike, until a test moves it."""

    def __init__(self, ms: float = 0) -> None:
        self.ms = ms

    def now_ms(self) -> int:
        return int(self.ms)

    def monotonic_ms(self) -> float:
        return float(self.ms)


class LoopClock:
    """The time of the running event loop."""

    def now_ms(self) -> int:
        return int(self.monotonic_ms())

    def monotonic_ms(self) -> float:
        return asyncio.get_running_loop().time() * 1000
