"""Collections of garbage wait for long requests, for a minute at most, and take little of the time."""

from __future__ import annotations

import asyncio
import gc

import pytest

from kafkalite.broker.garbage_collections import Callback, GarbageCollections
from kafkalite.testing.simulation import virtual_time

ALL_DUE = (0, 31, 0)
NOTHING_DUE = (699, 30, 0)


class Collector:
    """Stands for Python's; each collection takes `takes_s`."""

    def __init__(self, takes_s: float = 0.0) -> None:
        self.at_s: list[float] = []
        self.generations: list[int] = []
        self.is_busy, self.takes_s = False, takes_s
        self.portions = 0
        self.counts = ALL_DUE
        self._spent_s = 0.0
        self._callbacks: list[Callback] = []
        self.freezes: list[bool] = []
        """True for what was set aside, False for what was taken back, in order."""
        loop = asyncio.get_running_loop()
        self.timer = GarbageCollections(
            lambda: self.is_busy,
            lambda: self.portions,
            lambda: loop.time() + self._spent_s,
            self._collect,
            lambda: self.counts,
            self._callbacks,
            lambda: self.freezes.append(True),
            lambda: self.freezes.append(False),
        )
        self._loop = loop

    def _collect(self, generation: int) -> None:
        self.generations.append(generation)
        self.at_s.append(self._loop.time())
        self.pass_by()

    def pass_by(self) -> None:
        """Python collects."""
        for callback in self._callbacks:
            callback("start", {})
        self._spent_s += self.takes_s
        for callback in self._callbacks:
            callback("stop", {})


async def collections_in(collector: Collector, seconds: float) -> int:
    before = len(collector.at_s)
    collector.timer.start()
    await asyncio.sleep(seconds)
    collector.timer.stop()
    return len(collector.at_s) - before


def test_nothing_is_looked_at_while_long_requests_are_in_progress_for_a_minute_at_most() -> None:
    async def scenario() -> None:
        collector = Collector()
        collector.is_busy = True
        assert await collections_in(collector, 59.5) == 0
        assert await collections_in(collector, 3) == 1
        collector.is_busy = False
        assert await collections_in(collector, 3.5) == 3
        assert set(collector.generations) == {2}
        collector.counts = NOTHING_DUE
        assert await collections_in(collector, 100) == 0

    virtual_time.run(scenario())


def test_many_portions_of_long_requests_announce_more() -> None:
    """A takeover of a hundred thousand partitions is hundreds of requests, and between two of them none is in progress."""

    async def scenario() -> None:
        collector = Collector()

        async def work(portions: int) -> None:
            while True:
                collector.portions += portions
                await asyncio.sleep(0.4)

        working = asyncio.ensure_future(work(20))
        assert await collections_in(collector, 30) == 0
        working.cancel()
        working = asyncio.ensure_future(work(2))
        assert await collections_in(collector, 30) >= 28
        working.cancel()

    virtual_time.run(scenario())


def test_young_objects_that_may_hold_much_are_looked_at_after_a_second() -> None:
    async def scenario() -> None:
        collector = Collector()
        collector.counts = (700, 30, 0)
        assert await collections_in(collector, 1.5) == 1
        assert collector.generations == [0]

    virtual_time.run(scenario())


def test_they_take_less_of_the_time_than_decides_a_p99() -> None:
    async def scenario() -> None:
        assert 4 <= await collections_in(Collector(takes_s=1.0), 2500) <= 6

    virtual_time.run(scenario())


def test_what_is_alive_is_set_aside_and_seldom_looked_at_again() -> None:
    async def scenario() -> None:
        collector = Collector(takes_s=0.1)
        assert await collections_in(collector, 460) >= 8, "some 50 s after each other"
        assert collector.freezes[:2] == [False, True] and all(collector.freezes[2:-1])
        assert collector.freezes[-1] is False, "who comes after this broker finds all"
        assert await collections_in(collector, 100) >= 1
        assert collector.freezes.count(False) == 4, "everything again after 500 s, and at the end"

    virtual_time.run(scenario())


def test_collections_that_python_began_count_too() -> None:
    async def scenario() -> None:
        collector = Collector(takes_s=0.01)
        loop = asyncio.get_running_loop()
        loop.call_later(0.5, collector.pass_by)
        assert await collections_in(collector, 5) == 0
        assert await collections_in(collector, 1.5) == 1

    virtual_time.run(scenario())


def test_python_collects_by_itself_again_afterwards(monkeypatch: pytest.MonkeyPatch) -> None:
    # Not Python's own thresholds: what other tests left behind would be collected, and complain, in here.
    thresholds = [(700, 10, 10)]
    monkeypatch.setattr(gc, "get_threshold", lambda: thresholds[-1])
    monkeypatch.setattr(gc, "set_threshold", lambda *new: thresholds.append(new))

    async def scenario() -> None:
        collector = Collector()
        collector.timer.start()
        young, older, full = gc.get_threshold()
        assert young > 10_000 and min(older, full) > 1_000_000
        collector.timer.stop()
        assert gc.get_threshold() == (700, 10, 10)

    virtual_time.run(scenario())
