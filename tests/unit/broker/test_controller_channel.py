"""Requests to the controller: how long one that must end in time waits for a controller that is there and does nothing."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from kafkalite.broker.controller_channel import ControllerChannel
from kafkalite.protocol import messages
from kafkalite.testing.simulation import virtual_time
from kafkalite.types import BrokerId, Endpoint

CONTROLLER: tuple[BrokerId, Endpoint] = (2, Endpoint("PLAINTEXT", "two", 9092))


class FrozenController:
    """Takes `connect_s` to be connected to, and answers nothing then."""

    def __init__(self, connect_s: float) -> None:
        self._connect_s = connect_s
        self.opened = self.closed_ones = 0
        self.closed = False

    async def connect(self, endpoint: Endpoint, client_id: str, timeout_s: float) -> Any:
        await asyncio.sleep(self._connect_s)
        self.opened += 1
        return self

    async def negotiate(self, timeout_s: float) -> None:
        await asyncio.sleep(timeout_s)
        raise TimeoutError

    def close(self) -> None:
        self.closed_ones += 1


@pytest.mark.parametrize("connect_s", [0.0, 25.0])
@pytest.mark.parametrize("others", [0, 3])
def test_a_request_waited_for_minutes_for_a_controller_that_is_frozen(connect_s: float, others: int) -> None:
    """The stop of a broker asks for 5 s at most; connecting, negotiating and waiting for others who connect were not counted."""

    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        controller = FrozenController(connect_s)
        channel = ControllerChannel(1, lambda: CONTROLLER, 30.0, controller.connect)
        request = messages.controlled_shutdown_request.ControlledShutdownRequest(broker_id=1)
        waiting = [asyncio.create_task(channel.request(request)) for _ in range(others)]
        await asyncio.sleep(0)
        began_s = loop.time()
        with pytest.raises(TimeoutError):
            await channel.request(request, began_s + 5.0)
        assert loop.time() - began_s <= 5.1
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
        assert controller.opened == controller.closed_ones

    virtual_time.run(scenario())
