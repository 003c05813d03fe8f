"""The controller's queue counts how long events wait and take."""

from __future__ import annotations

import asyncio
from typing import Any

from kafkalite.controller import events
from kafkalite.controller.event_manager import ControllerEventManager
from kafkalite.testing.simulation import virtual_time


def test_waiting_and_handling_are_timed_apart() -> None:
    async def handle(event: events.Event) -> None:
        await asyncio.sleep(2.0)

    async def scenario() -> dict[str, Any]:
        queue = ControllerEventManager(handle, now_s=asyncio.get_running_loop().time)
        queue.start()
        for _ in range(3):
            queue.put(events.Startup())
        await queue.submit(events.Expire())
        figures = queue.statistics()
        await queue.stop()
        return figures

    figures = virtual_time.run(scenario())
    assert figures["handled_events"] == {"Startup": 3, "Expire": 1} and figures["queued_events"] == 0
    waits, handling = figures["event_waits"], figures["event_handling"]
    assert (waits.count, round(waits.sum_s, 6)) == (4, 0 + 2 + 4 + 6)
    assert (handling.count, round(handling.sum_s, 6)) == (4, 8)
