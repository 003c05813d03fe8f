"""A broker stops while its log cleaner's child is at work, or has just ended: the cleaner ends with the broker's other jobs."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from kafkalite.lifecycle import Jobs
from kafkalite.storage.cleaning import cleaning_process
from kafkalite.storage.cleaning.cleaning_process import in_process
from kafkalite.testing.simulation import virtual_time
from tests.unit.storage.directories.test_cleaner import A, cleaner_of, fill, store_at

TURNS = 40
"""More turns of the loop than there are between the end of a child and the pause of its worker."""


class Stdin:
    """The pipe to a child, which takes everything, and whose end ends the child."""

    def __init__(self, child: Child) -> None:
        self._child = child

    def write(self, data: bytes) -> None:
        pass

    async def drain(self) -> None:
        pass

    async def wait_closed(self) -> None:
        """Nothing that was written is left."""

    def close(self) -> None:
        self._child.end()


class Child:
    """A process as asyncio gives it, which the test ends: by a signal, or after the last message of a pass."""

    def __init__(self) -> None:
        self.stdin = Stdin(self)
        self.source = self.stdout = asyncio.StreamReader()
        self.ended = asyncio.Event()
        self.returncode = -15

    async def wait(self) -> int:
        await self.ended.wait()
        return self.returncode

    def end(self) -> None:
        if not self.ended.is_set():
            self.ended.set()
            self.source.feed_eof()

    def kill(self) -> None:
        self.end()


@pytest.mark.parametrize("last_words", [b"", cleaning_process._message(None)], ids=["killed", "done"])
def test_a_cleaner_whose_child_had_just_ended_outlived_the_stop(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch, last_words: bytes
) -> None:
    """A signal to the process group ends the child and stops the broker in the same moment.

    1. The child is gone, and the pass waits for its status with a timeout. 2. It has the status. 3. The broker cancels its jobs.
    4. `asyncio.wait_for` of Python 3.11 returns the status and forgets the cancellation. 5. The worker sleeps and looks for dirty logs
    for ever, and the stop waits for it.
    """
    outlived = [
        turns for turns in range(TURNS) if not virtual_time.run(_stopped(tmp_path, monkeypatch, turns, last_words))
    ]
    assert not outlived, f"cancelled so many turns of the loop after the child's end, it goes on: {outlived}"


async def _stopped(tmp_path: Any, monkeypatch: pytest.MonkeyPatch, turns: int, last_words: bytes) -> bool:
    """Do the jobs end that are stopped so many turns of the loop after the end of the child?"""
    children: list[Child] = []

    async def start(*words: str, **options: Any) -> Child:
        children.append(Child())
        return children[-1]

    monkeypatch.setattr(asyncio, "create_subprocess_exec", start)
    store = await store_at(tmp_path / str(turns))
    fill(store.create(A), 3)
    jobs = Jobs()
    cleaner_of(store, in_process).start_workers(jobs.retry)
    while not children:
        await asyncio.sleep(0)
    await virtual_time.settle()
    children[0].source.feed_data(last_words)
    children[0].end()
    for _ in range(turns):
        await asyncio.sleep(0)
    stopping = asyncio.create_task(jobs.stop())
    ended, _ = await asyncio.wait([stopping], timeout=600)
    while not stopping.done():
        for task in tuple(jobs._tasks):
            task.cancel()
        await virtual_time.settle()
    await store.close()
    return bool(ended)
