"""What a simulated process leaves behind when the run is over."""

from __future__ import annotations

import asyncio
import signal

import pytest

from kafkalite.testing.simulation.processes import Livelock, Simulation

TASKS = 20


def test_in_which_order_what_is_left_is_taken_apart_does_not_count() -> None:
    """It is that of a set of tasks: lives that failed had other digests when they were lived again."""
    simulation = Simulation(1)
    process = simulation.process("server")
    ended: list[int] = []

    async def waits(number: int) -> None:
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            ended.append(number)
            simulation.trace.count(f"sends {number}")
            simulation.trace.add("server", f"ends {number}")

    async def scenario() -> str:
        for number in range(TASKS):
            process.run(waits(number))
        await asyncio.sleep(1)
        return simulation.trace.digest

    digest = simulation.run(scenario())
    assert sorted(ended) == list(range(TASKS))
    assert simulation.trace.digest == digest and not simulation.trace.lines


def test_a_loop_that_never_waits_is_told() -> None:
    """Time would stand still, and the run never end."""
    simulation = Simulation(1)
    process = simulation.process("busy")

    async def spin() -> None:
        while True:
            await asyncio.sleep(0)

    async def scenario() -> None:
        await process.run(spin())

    with pytest.raises(Livelock, match="busy goes on for ever"):
        simulation.run(scenario())


def test_tasks_without_a_name_of_their_own_are_told_by_their_coroutine() -> None:
    """asyncio counts them over all loops: a run that failed told another name of the same task when it was lived again."""
    simulation = Simulation(1)
    process = simulation.process("server")

    async def wait_for_nobody() -> None:
        await asyncio.get_running_loop().create_future()

    async def begin() -> list[str]:
        loop = asyncio.get_running_loop()
        tasks = [loop.create_task(wait_for_nobody()), loop.create_task(wait_for_nobody(), name="named")]
        await asyncio.sleep(0)
        left = process.tasks()
        assert not any(task.done() for task in tasks)
        return left

    async def scenario() -> list[str]:
        return list(await process.run(begin()))

    own = test_tasks_without_a_name_of_their_own_are_told_by_their_coroutine.__qualname__
    left = simulation.run(scenario())
    assert "named" in left and f"{own}.<locals>.wait_for_nobody" in left
    assert not any(name.startswith("Task-") for name in left)


class Late(BaseException):
    """As pytest's Failed, which pytest-timeout raises."""


def test_a_timeout_is_raised_by_the_run_whatever_task_it_meets() -> None:
    """It ended a task of a broker, and the seed was taken for one that fails."""
    simulation = Simulation(1)
    process = simulation.process("server")

    def fail(*_: object) -> None:
        raise Late

    async def work() -> None:
        signal.raise_signal(signal.SIGALRM)

    async def scenario() -> None:
        working = asyncio.ensure_future(process.run(work()))
        await asyncio.sleep(60)
        await working

    before = signal.signal(signal.SIGALRM, fail)
    try:
        with pytest.raises(Late):
            simulation.run(scenario())
        assert simulation.time.now_s < 60
        assert signal.getsignal(signal.SIGALRM) is fail
    finally:
        signal.signal(signal.SIGALRM, before)
