"""What a simulated process leaves behind when the run is over."""

from __future__ import annotations

import asyncio

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
