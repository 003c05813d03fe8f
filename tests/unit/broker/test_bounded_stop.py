"""The bound of a stop: what a step that hangs or fails means for the others, what is told of it, and the watchdog."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any

import pytest

from kafkalite.broker.bounded_stop import HAND_OVER_SHARE, LAST_SHARE, BoundedStop, UncleanStop, Watchdog
from kafkalite.lifecycle import Jobs, end_tasks
from kafkalite.testing.simulation import virtual_time


async def hang() -> None:
    await asyncio.get_running_loop().create_future()


def test_a_step_that_hung_kept_the_logs_open(caplog: pytest.LogCaptureFixture) -> None:
    """It is told of every few seconds, with the task that does not end, then left behind; the next step has all the time that is left."""
    took_s: dict[str, float] = {}

    async def note(name: str, length_s: float = 0.0) -> None:
        took_s[name] = asyncio.get_running_loop().time()
        await asyncio.sleep(length_s)

    async def scenario() -> None:
        stop = BoundedStop(100.0)
        await stop.step("leaders", note("leaders", 20.0), HAND_OVER_SHARE)
        await stop.step("jobs", hang())
        await stop.step("logs", note("logs", 65.0), LAST_SHARE)
        assert stop.problems == ["jobs: not done within 10 s"]
        with pytest.raises(UncleanStop, match="jobs: not done within 10 s"):
            stop.end()
        assert asyncio.get_running_loop().time() == 95.0
        await virtual_time.settle()
        assert len(asyncio.all_tasks()) == 1

    virtual_time.run(scenario())
    assert took_s == {"leaders": 0.0, "logs": 30.0}
    told = [each.getMessage() for each in caplog.records if "jobs" in each.getMessage()]
    assert len(told) == 2 and all("stop: jobs in hang:" in each for each in told), told
    assert "waited for since 5 s" in told[0] and "given up after 10 s" in told[1]


def test_steps_that_all_hang_leave_the_last_one_its_time() -> None:
    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        stop = BoundedStop(100.0)
        await stop.step("leaders", hang(), HAND_OVER_SHARE)
        for number in range(12):
            await stop.step(f"step {number}", hang())
        assert loop.time() <= 77.0
        await stop.step("logs", asyncio.sleep(20.0), LAST_SHARE)
        assert len(stop.problems) == 13 and loop.time() <= 97.0

    virtual_time.run(scenario())


def test_a_step_that_failed_kept_the_next_ones_from_being_done() -> None:
    done: list[str] = []

    async def fail() -> None:
        raise ZeroDivisionError("a bug")

    async def scenario() -> None:
        stop = BoundedStop(10.0)
        with virtual_time.expected_errors() as seen:
            await stop.step("jobs", fail())
            stop.call("markers", lambda: 1 // 0)
            stop.call("checkpoints", lambda: done.append("checkpoints"))
        assert [context["message"] for context in seen.contexts] == [
            "stopping: jobs failed",
            "stopping: markers failed",
        ]
        assert len(stop.problems) == 2 and "a bug" in stop.problems[0]

    virtual_time.run(scenario())
    assert done == ["checkpoints"]


async def stubborn(cancellations: int) -> None:
    """A task that swallows some cancellations, as one that waits with `asyncio.wait_for` may."""
    while True:
        try:
            await asyncio.sleep(1000)
        except asyncio.CancelledError:
            cancellations -= 1
            if cancellations < 0:
                raise


@pytest.mark.parametrize("owner", ["jobs", "tasks"])
def test_a_task_that_swallowed_its_cancellation_was_waited_for_for_ever(
    owner: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        jobs = Jobs()
        task = jobs.spawn(stubborn(2), "a stubborn job")
        await asyncio.sleep(1)
        ending: Coroutine[Any, Any, None] = jobs.stop() if owner == "jobs" else end_tasks([task])
        async with asyncio.timeout(60):
            await ending
        assert task.cancelled()

    virtual_time.run(scenario())
    assert caplog.text.count("a stubborn job was cancelled and goes on") == 2


def test_a_process_whose_loop_is_blocked_is_ended(capfd: pytest.CaptureFixture[str]) -> None:
    statuses: list[int] = []
    ended = threading.Event()

    def end_process(status: int) -> None:
        statuses.append(status)
        ended.set()

    watchdog = Watchdog(end_process)
    watchdog.limit(1000.0, lambda: "not this one")
    watchdog.limit(0.01, lambda: "it did not stop", 3)
    assert ended.wait(30) and statuses == [3] and "it did not stop" in capfd.readouterr().err
    watchdog.limit(1000.0, lambda: "not this one either")
    watchdog.cancel()
    assert statuses == [3]


def test_nobody_reads_the_last_words_of_a_process_that_is_ended() -> None:
    """The log is a pipe that is full: what should be said last blocks, and the process ends all the same."""
    ended, forever = threading.Event(), threading.Event()
    watchdog = Watchdog(lambda status: ended.set())

    def tell() -> str:
        forever.wait(60)
        return ""

    watchdog.limit(0.0, tell)
    try:
        assert ended.wait(30)
    finally:
        forever.set()
