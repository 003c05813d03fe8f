"""A pause in the upkeep of logs while the controller changes many roles at once.

A new controller may change the roles of a hundred thousand replicas in a few seconds, and clients wait for every one of them. Each change
also leaves something to the upkeep: checkpoints, summaries of logs. None of it is urgent, and all of it runs on the event loop that
applies the roles.
"""

from __future__ import annotations

import asyncio
from typing import Final

from kafkalite.clock import Clock

_HOLD_MS_PER_ROLE: Final = 0.2
"""Some times what it takes to apply a role, so that the next request of a series finds upkeep still at rest."""
_HOLD_MS_PER_LOG: Final = 1.0
"""The same of a new log, which takes a controller two writes to ZooKeeper as well."""
_LONGEST_S: Final = 10.0
"""Upkeep goes on after that long, whatever the controller sends."""


class UpkeepPause:
    """Holds upkeep back that need not be done at once."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._until_ms = 0.0

    def hold(self, roles: int, new_logs: int = 0) -> None:
        """Hold upkeep back for a time that grows with the number of roles that change now, and of logs that are new with them."""
        hold_ms = min(roles * _HOLD_MS_PER_ROLE + new_logs * _HOLD_MS_PER_LOG, _LONGEST_S * 1000)
        self._until_ms = max(self._until_ms, self._clock.monotonic_ms() + hold_ms)

    def left_s(self) -> float:
        """Return for how long upkeep is still held back, if no more roles change."""
        return max(self._until_ms - self._clock.monotonic_ms(), 0.0) / 1000

    async def wait(self) -> None:
        """Wait while upkeep is held back, but for 10 s at most."""
        longest_ms = self._clock.monotonic_ms() + _LONGEST_S * 1000
        while (left_ms := min(self._until_ms, longest_ms) - self._clock.monotonic_ms()) > 0:
            await asyncio.sleep(left_ms / 1000)
