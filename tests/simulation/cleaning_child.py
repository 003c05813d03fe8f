"""The process of a compaction pass, simulated: it works on a broker's disk, takes time, and may be ended by a signal at any moment.

The broker's side of the pipes is production's (`cleaning_process.in_process`).
"""

from __future__ import annotations

import asyncio
import pickle
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final
from unittest.mock import patch

from kafkalite.storage.cleaning.cleaning import Progress, clean
from kafkalite.storage.cleaning.cleaning_process import _LENGTH, _message, in_process
from kafkalite.storage.disk import Disk

_STEP_S: Final = (0.0001, 0.02)
_WORK_S: Final = (0.01, 0.6)
"""A step of a pass: so long that there mostly is a child when a broker stops."""
_EXIT_S: Final = (0.0001, 0.005)
KILLED: Final = -15
_BY_CLOSED_INPUT: Final = 1


class CleaningChild:
    """What `asyncio.create_subprocess_exec` gives, in the loop that runs."""

    def __init__(self, disk: Disk, chance: random.Random) -> None:
        self._disk, self._chance, self._loop = disk, chance, asyncio.get_running_loop()
        self._asked = b""
        self._ended = asyncio.Event()
        self.stdin, self.stdout = self, asyncio.StreamReader()
        self.returncode: int | None = None

    # its standard input

    def write(self, data: bytes) -> None:
        self._asked += data
        (length,) = _LENGTH.unpack(self._asked[: _LENGTH.size])
        if len(self._asked) == _LENGTH.size + length:
            task, _ = pickle.loads(self._asked[_LENGTH.size :])
            self._later(_STEP_S, self._work, clean(task, self._disk))

    async def drain(self) -> None:
        if self.returncode is not None:
            raise BrokenPipeError

    async def wait_closed(self) -> None:
        """Nothing that was written is left."""

    def close(self) -> None:
        self._later(_EXIT_S, self.end, _BY_CLOSED_INPUT)

    # the process

    async def wait(self) -> int | None:
        await self._ended.wait()
        return self.returncode

    def kill(self) -> None:
        self.end(-9)

    def end(self, status: int = KILLED) -> None:
        """It is gone: by itself, by a signal."""
        if self.returncode is None:
            self.returncode = status
            self.stdout.feed_eof()
            self._ended.set()

    def _work(self, steps: Any) -> None:
        if self.returncode is not None:
            return
        step = next(steps, None)
        if not isinstance(step, Progress):
            self.stdout.feed_data(_message(step))
        if step is None:
            self.end(0)
        else:
            self._later(_WORK_S, self._work, steps)

    def _later(self, between_s: tuple[float, float], call: Callable[..., None], *arguments: Any) -> None:
        self._loop.call_later(self._chance.uniform(*between_s), call, *arguments)


@contextmanager
def cleaning_children(disk_here: Callable[[], Disk], chance: random.Random) -> Iterator[list[CleaningChild]]:
    """Brokers of a simulation that start meanwhile make their passes as in production; the list has the children, dead ones too."""
    children: list[CleaningChild] = []

    async def start(*words: str, **options: Any) -> CleaningChild:
        await asyncio.sleep(chance.uniform(*_STEP_S))
        children.append(CleaningChild(disk_here(), chance))
        return children[-1]

    with (
        patch("kafkalite.testing.simulation.cluster.in_executor", lambda disk: in_process),
        patch("asyncio.create_subprocess_exec", start),
    ):
        try:
            yield children
        finally:
            for child in children:  # whoever waits for one when the simulation is taken apart waits no longer
                child.end()
