"""How a controller's writes are divided among multis."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from typing import Any

import pytest

from kafkalite.controller.channel_manager import ControllerChannelManager
from kafkalite.controller.cluster_state import ClusterState
from kafkalite.controller.settings import ControllerSettings
from kafkalite.controller.steps import write
from kafkalite.controller.term import CONCURRENT_WRITES, WRITES_APART, WRITES_TOGETHER, ControllerTerm, TermEnded
from kafkalite.testing.simulation.virtual_time import run
from zk.controller_seat import elect
from zk.memory.memory_store import MemoryStore, MemoryZooKeeper
from zk.store import BadVersionError, Create, Operation, Result, Stat, StoreError, Write
from zk.top_level import create_top_level


class _Writing:
    """A term and the sizes of its multis, without their checks of the epoch."""

    def __init__(self) -> None:
        self.sizes: list[int] = []
        self.under_way = self.most_under_way = 0
        self.failures: list[StoreError] = []
        """What the next multis raise."""

    async def start(self) -> ControllerTerm:
        self.server = MemoryZooKeeper()
        store = MemoryStore(self.server)
        await store.start(10.0)
        await create_top_level(store)
        seat = await elect(store, 1, 0)
        assert seat is not None
        carry_out = store.multi

        async def multi(operations: Sequence[Operation]) -> list[Result]:
            self.sizes.append(len(operations) - 1)
            self.under_way += 1
            self.most_under_way = max(self.most_under_way, self.under_way)
            try:
                if self.failures:
                    raise self.failures.pop()
                return await carry_out(operations)
            finally:
                self.under_way -= 1

        store.multi = multi  # type: ignore[method-assign]
        cluster = ClusterState(1, seat.epoch, ControllerSettings())

        def no_channel(_: Any) -> Any:
            raise AssertionError("no broker is told anything")

        channels = ControllerChannelManager(no_channel, lambda *_: None)
        return ControllerTerm(store, seat, cluster, channels, lambda _: None, random.Random(1))


def _creations(count: int) -> list[Create]:
    return [Create(f"/n{number}", b"x") for number in range(count)]


def test_one_outdated_write_does_not_have_the_others_of_its_multi_written_alone() -> None:
    async def scenario() -> None:
        writing = _Writing()
        term = await writing.start()
        await term.perform(write(_creations(WRITES_TOGETHER)))
        assert writing.sizes == [WRITES_TOGETHER]
        writing.sizes.clear()
        writes = [Write(f"/n{number}", b"y", 7 if number == 20 else 0) for number in range(WRITES_TOGETHER)]
        results = await term.perform(write(writes))
        assert isinstance(results.pop(20), BadVersionError)
        assert all(isinstance(each, Stat) and each.version == 1 for each in results)
        assert sorted(writing.sizes) == [1] * WRITES_APART + [WRITES_APART] * (WRITES_TOGETHER // WRITES_APART) + [
            WRITES_TOGETHER
        ]

    run(scenario())


def test_a_term_that_ends_writes_none_of_the_multis_that_wait() -> None:
    """They would be written in a later session."""

    async def scenario() -> None:
        writing = _Writing()
        term = await writing.start()
        count = WRITES_TOGETHER * CONCURRENT_WRITES * 2
        writes = asyncio.ensure_future(term._perform(next(write(_creations(count)))))
        while not writing.under_way:
            await asyncio.sleep(0)
        term.end()
        with pytest.raises(TermEnded):
            await writes
        await asyncio.sleep(1)
        assert (len(writing.sizes), writing.most_under_way) == (CONCURRENT_WRITES, CONCURRENT_WRITES)

    run(scenario())


def test_a_write_that_fails_leaves_no_multi_behind_for_the_next_event() -> None:
    async def scenario() -> None:
        writing = _Writing()
        term = await writing.start()
        writing.failures.append(StoreError("throttled"))
        with pytest.raises(StoreError, match="throttled"):
            await term.perform(write(_creations(WRITES_TOGETHER * CONCURRENT_WRITES * 2)))
        ended = len(writing.sizes)
        await asyncio.sleep(1)
        assert (writing.under_way, len(writing.sizes)) == (0, ended)

    run(scenario())
