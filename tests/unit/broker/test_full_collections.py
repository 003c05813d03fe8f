"""Full collections wait for long requests, for a minute at most, and take half a hundredth of the time."""

from __future__ import annotations

import asyncio
import gc

from kafkalite.broker.full_collections import FullCollections
from kafkalite.testing.simulation import virtual_time


class Collector:
    """Stands for Python's; each collection takes `takes_s`."""

    def __init__(self, takes_s: float = 0.0) -> None:
        self.at_s: list[float] = []
        self.is_busy, self.is_due, self.takes_s = False, True, takes_s
        self._spent_s = 0.0
        loop = asyncio.get_running_loop()
        limit = gc.get_threshold()[2]
        self.full = FullCollections(
            lambda: self.is_busy,
            lambda: loop.time() + self._spent_s,
            self._collect,
            lambda: (0, 0, limit + self.is_due),
        )
        self._loop = loop

    def _collect(self) -> None:
        self.at_s.append(self._loop.time())
        self._spent_s += self.takes_s


async def collections_in(collector: Collector, seconds: float) -> int:
    before = len(collector.at_s)
    collector.full.start()
    await asyncio.sleep(seconds)
    collector.full.stop()
    return len(collector.at_s) - before


def test_nothing_is_looked_at_while_long_requests_are_in_progress_for_a_minute_at_most() -> None:
    async def scenario() -> None:
        collector = Collector()
        collector.is_busy = True
        assert await collections_in(collector, 59.5) == 0
        assert await collections_in(collector, 3) == 1
        collector.is_busy = False
        assert await collections_in(collector, 3.5) == 3
        collector.is_due = False
        assert await collections_in(collector, 100) == 0

    virtual_time.run(scenario())


def test_they_take_less_of_the_time_than_decides_a_p99() -> None:
    async def scenario() -> None:
        assert 4 <= await collections_in(Collector(takes_s=1.0), 1000) <= 6

    virtual_time.run(scenario())


def test_python_collects_by_itself_again_afterwards() -> None:
    async def scenario() -> None:
        before = gc.get_threshold()
        collector = Collector()
        collector.full.start()
        assert gc.get_threshold()[:2] == before[:2] and gc.get_threshold()[2] > 1_000_000
        collector.full.stop()
        assert gc.get_threshold() == before

    virtual_time.run(scenario())
