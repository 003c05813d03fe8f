"""The loop of virtual time: order and clock are exact, and a hang is an error."""

from __future__ import annotations

import asyncio

import pytest

from kafkalite.testing.simulation import virtual_time


def test_sleeping_moves_the_clock_and_nothing_else() -> None:
    seen: list[tuple[str, float]] = []

    async def sleeper(name: str, seconds: float) -> None:
        await asyncio.sleep(seconds)
        seen.append((name, asyncio.get_running_loop().time()))

    async def scenario() -> float:
        await asyncio.gather(sleeper("c", 3600), sleeper("a", 0.5), sleeper("b", 7))
        return asyncio.get_running_loop().time()

    assert virtual_time.run(scenario()) == 3600
    assert seen == [("a", 0.5), ("b", 7), ("c", 3600)]


def test_time_outs_work() -> None:
    async def scenario() -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(30):
                await asyncio.Event().wait()

    virtual_time.run(scenario())


def test_waiting_for_nothing_is_an_error() -> None:
    async def scenario() -> None:
        await asyncio.Event().wait()

    with pytest.raises(virtual_time.Deadlock):
        virtual_time.run(scenario())


def test_executors_run_at_once() -> None:
    async def scenario() -> int:
        return await asyncio.get_running_loop().run_in_executor(None, lambda: 7)

    assert virtual_time.run(scenario()) == 7


def test_a_callback_that_fails_fails_the_test() -> None:
    async def scenario() -> None:
        asyncio.get_running_loop().call_soon(lambda: 1 // 0)
        await virtual_time.settle()

    with pytest.raises(AssertionError, match="Exception in callback"):
        virtual_time.run(scenario())
