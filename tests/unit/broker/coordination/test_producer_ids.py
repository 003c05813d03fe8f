"""Producer ids: blocks, prefetch, failures, many at once."""

from __future__ import annotations

import asyncio

import pytest

from kafkalite.broker.coordination.producer_ids import ProducerIds
from kafkalite.testing.simulation import virtual_time


class Blocks:
    """Blocks of `length` ids, each after `delay_s`; the numbers in `failing` fail."""

    def __init__(self, length: int = 10, delay_s: float = 1.0, failing: tuple[int, ...] = ()) -> None:
        self.length, self.delay_s, self.failing = length, delay_s, failing
        self.asked = 0

    async def allocate(self) -> tuple[int, int]:
        number = self.asked
        self.asked += 1
        await asyncio.sleep(self.delay_s)
        if number in self.failing:
            raise TimeoutError("no controller")
        return number * 1000, self.length


def test_ids_come_from_one_block_after_the_other() -> None:
    async def scenario() -> list[int]:
        ids = ProducerIds(Blocks(length=3).allocate)
        return [await ids.next() for _ in range(7)]

    assert virtual_time.run(scenario()) == [0, 1, 2, 1000, 1001, 1002, 2000]


def test_the_next_block_is_asked_for_before_this_one_is_used_up() -> None:
    async def scenario() -> None:
        blocks = Blocks()
        ids = ProducerIds(blocks.allocate)
        for _ in range(8):
            await ids.next()
        assert blocks.asked == 1
        await ids.next()
        await virtual_time.settle()
        assert blocks.asked == 2
        await asyncio.sleep(2)
        before_s = asyncio.get_running_loop().time()
        assert [await ids.next() for _ in range(3)] == [9, 1000, 1001]
        assert asyncio.get_running_loop().time() == before_s, "nobody had to wait"

    virtual_time.run(scenario())


def test_many_at_once_get_different_ids_and_share_the_requests() -> None:
    async def scenario() -> None:
        blocks = Blocks(length=40)
        ids = ProducerIds(blocks.allocate)
        got = await asyncio.gather(*(ids.next() for _ in range(100)))
        assert len(set(got)) == 100
        assert blocks.asked <= 4

    virtual_time.run(scenario())


def test_a_failure_reaches_those_who_wait_and_is_not_for_ever() -> None:
    async def scenario() -> None:
        blocks = Blocks(failing=(0,))
        ids = ProducerIds(blocks.allocate)
        results = await asyncio.gather(*(ids.next() for _ in range(3)), return_exceptions=True)
        assert [type(each) for each in results] == [TimeoutError] * 3
        assert await ids.next() == 1000

    virtual_time.run(scenario())


def test_a_prefetch_that_fails_is_tried_again() -> None:
    async def scenario() -> None:
        ids = ProducerIds(Blocks(length=4, failing=(1,)).allocate)
        got = [await ids.next() for _ in range(3)]
        await asyncio.sleep(5)
        got += [await ids.next() for _ in range(3)]
        assert got == [0, 1, 2, 3, 2000, 2001]

    virtual_time.run(scenario())


def test_one_who_gives_up_does_not_take_the_block_along() -> None:
    async def scenario() -> None:
        blocks = Blocks()
        ids = ProducerIds(blocks.allocate)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.5):
                await ids.next()
        assert await ids.next() == 0
        assert blocks.asked == 1

    virtual_time.run(scenario())


def test_a_block_that_is_asked_for_is_waited_for_no_more_when_the_broker_stops() -> None:
    """A transcript ended with the task left behind: the controller had been out of reach when the block was asked for."""

    async def scenario() -> None:
        ids = ProducerIds(Blocks(delay_s=1e9).allocate)
        await ids.close()
        asked = asyncio.ensure_future(ids.next())
        await asyncio.sleep(0)
        await ids.close()
        with pytest.raises(asyncio.CancelledError):
            await asked
        assert asyncio.all_tasks() == {asyncio.current_task()}

    virtual_time.run(scenario())
