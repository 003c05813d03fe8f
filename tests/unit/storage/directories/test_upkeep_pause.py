"""Upkeep of logs that waits while roles of many replicas change."""

from __future__ import annotations

import asyncio

import pytest

from kafkalite.storage.directories.upkeep_pause import UpkeepPause
from kafkalite.testing.simulation.virtual_time import run
from tests.unit.clocks import LoopClock


async def _wait(pause: UpkeepPause) -> float:
    """Return for how many seconds upkeep had to wait."""
    began_s = asyncio.get_running_loop().time()
    await pause.wait()
    return asyncio.get_running_loop().time() - began_s


def test_upkeep_waits_the_longer_the_more_roles_change():
    async def hold(roles: int) -> float:
        pause = UpkeepPause(LoopClock())
        pause.hold(roles)
        return await _wait(pause)

    assert run(hold(0)) == 0
    assert run(hold(10)) == pytest.approx(0.002)
    assert run(hold(5_000)) == pytest.approx(1.0)


def test_upkeep_waits_longer_for_new_logs_but_never_for_long():
    async def hold(roles: int, new_logs: int) -> tuple[float, float]:
        pause = UpkeepPause(LoopClock())
        pause.hold(roles, new_logs)
        return pause.left_s(), await _wait(pause)

    assert run(hold(0, 0)) == (0, 0)
    assert run(hold(1_000, 500)) == pytest.approx((0.7, 0.7))
    assert run(hold(0, 100_000)) == pytest.approx((10.0, 10.0)), "one request with all partitions of a cluster"


def test_a_series_of_requests_is_waited_for_and_a_small_request_ends_no_pause():
    async def hold_again() -> float:
        pause = UpkeepPause(LoopClock())
        pause.hold(5_000)
        waiting = asyncio.ensure_future(_wait(pause))
        await asyncio.sleep(0.9)
        pause.hold(5_000)
        pause.hold(1)
        return await waiting

    assert run(hold_again()) == pytest.approx(1.9)


def test_upkeep_goes_on_although_roles_change_without_end():
    async def hold_for_ever() -> tuple[float, float]:
        pause = UpkeepPause(LoopClock())

        async def change_roles() -> None:
            while True:
                pause.hold(5_000)
                await asyncio.sleep(0.5)

        changing = asyncio.ensure_future(change_roles())
        await asyncio.sleep(0)
        waits = await _wait(pause), await _wait(pause)
        changing.cancel()
        return waits

    assert run(hold_for_ever()) == pytest.approx((10.0, 10.0))
