"""Reads of old data beside the event loop: what lies in memory is read at once, the rest is brought there by the executor first.

A read of a few hundred bytes that must wait for a disk takes longer than a hundred produce requests. So the loop reads only
what the system has in memory; where that is not enough, a thread reads it there, and the loop tries again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, TypeVar

from kafkalite.storage.open_files import NotInMemory

if TYPE_CHECKING:
    from kafkalite.storage.log.partition_log import PartitionLog

_Result = TypeVar("_Result")

LOADS_LIMIT: Final = 32
"""After so many loads (a search in an index takes ten) memory is so short that the loop reads what it has to wait for."""


async def in_memory(log: PartitionLog, read: Callable[[], _Result]) -> _Result:
    """Return the result of `read`, which reads `log` and may be called several times. Raises what it raises."""
    loop = asyncio.get_running_loop()
    for _ in range(LOADS_LIMIT):
        try:
            with log.only_in_memory:
                return read()
        except NotInMemory as cold:
            await loop.run_in_executor(None, cold.load)
    return read()


class ColdReads:
    """Loads that fetches wait for, or that are under way for the next fetch."""

    def __init__(self) -> None:
        self._loads: dict[NotInMemory, asyncio.Future[None]] = {}

    def load(self, cold: NotInMemory) -> asyncio.Future[None]:
        """Load into memory what was not there; callers that ask meanwhile share one load."""
        load = self._loads.get(cold)
        if load is None:
            load = self._loads[cold] = asyncio.get_running_loop().run_in_executor(None, cold.load)
            load.add_done_callback(lambda _: self._loads.pop(cold, None))
        return load
