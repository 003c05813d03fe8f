"""The one place where unexpected errors end, and what becomes of the tasks and jobs that meet them."""

from __future__ import annotations

import asyncio
import gc
import logging

import pytest

from kafkalite.errors import InvariantBroken, ensure
from kafkalite.lifecycle import RETRIES, Jobs, start_task
from kafkalite.testing.simulation import virtual_time


def break_invariant() -> None:
    ensure(False, "two leaders")


async def fail() -> None:
    raise ZeroDivisionError("a bug")


def test_an_error_in_a_callback_ended_nowhere(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        with virtual_time.expected_errors() as seen, caplog.at_level(logging.ERROR):
            asyncio.get_running_loop().call_soon(lambda: 1 // 0)
            asyncio.get_running_loop().call_later(1, lambda: 1 // 0)
            await asyncio.sleep(2)
        assert (seen.count, seen.stopped) == (2, [])

    virtual_time.run(scenario())
    assert "ZeroDivisionError" in caplog.text and "test_lifecycle" in caplog.text


def test_a_broken_invariant_in_a_callback_did_not_stop_the_broker() -> None:
    async def scenario() -> None:
        with virtual_time.expected_errors() as seen:
            asyncio.get_running_loop().call_soon(break_invariant)
            await asyncio.sleep(0)
        (reason,) = seen.stopped
        assert (
            reason.startswith("invariant broken: two leaders (Exception in callback break_invariant") and not seen.count
        )

    virtual_time.run(scenario())


def test_a_task_that_somebody_keeps_failed_in_silence() -> None:
    async def scenario() -> None:
        with virtual_time.expected_errors() as seen:
            task = start_task(fail(), "the task")
            await asyncio.sleep(1)
        assert task.done() and [context["message"] for context in seen.contexts] == ["the task failed"]

    virtual_time.run(scenario())


def test_a_task_that_nobody_keeps_is_reported_too() -> None:
    async def scenario() -> None:
        with virtual_time.expected_errors() as seen:
            asyncio.get_running_loop().create_task(fail())
            await asyncio.sleep(1)
            gc.collect()
        assert seen.count == 1

    virtual_time.run(scenario())


def test_a_job_that_must_be_done_is_tried_again_with_growing_pauses() -> None:
    async def scenario() -> list[float]:
        began_s: list[float] = []

        async def job() -> None:
            began_s.append(asyncio.get_running_loop().time())
            if len(began_s) < 5:
                await fail()

        jobs = Jobs()
        with virtual_time.expected_errors() as seen:
            await jobs.retry(job, "the job")
        assert seen.count == 4 and "tried again in 0.8 s" in seen.contexts[-1]["message"]
        return began_s

    assert virtual_time.run(scenario()) == pytest.approx([0, 0.1, 0.3, 0.7, 1.5])
    assert RETRIES.delay_ms(1000) == 10_000


@pytest.mark.parametrize("kind", ["every", "retry", "spawn"])
def test_a_broken_invariant_ends_a_job_and_the_broker(kind: str) -> None:
    async def scenario() -> None:
        calls: list[str] = []

        async def job() -> None:
            calls.append("called")
            break_invariant()

        jobs = Jobs()
        with virtual_time.expected_errors() as seen:
            match kind:
                case "every":
                    jobs.every(1, "the job", job)
                case "retry":
                    jobs.retry(job, "the job")
                case _:
                    jobs.spawn(job(), "the job")
            await asyncio.sleep(100)
        assert calls == ["called"] and seen.stopped == ["invariant broken: two leaders (the job failed)"]
        await jobs.stop()

    virtual_time.run(scenario())


def test_a_periodic_job_goes_on_at_its_next_turn() -> None:
    async def scenario() -> int:
        jobs, calls = Jobs(), 0

        def job() -> None:
            nonlocal calls
            calls += 1
            raise ZeroDivisionError

        with virtual_time.expected_errors() as seen:
            jobs.every(1, "the job", job)
            await asyncio.sleep(3.5)
        await jobs.stop()
        assert seen.count == 3
        return calls

    assert virtual_time.run(scenario()) == 3


def test_what_is_cancelled_is_no_error() -> None:
    async def scenario() -> None:
        jobs = Jobs()
        jobs.spawn(asyncio.sleep(1000), "a")
        jobs.every(1, "b", lambda: None)
        await asyncio.sleep(0)
        await jobs.stop()

    virtual_time.run(scenario())


def test_the_exception_that_a_test_expects_is_the_handlers() -> None:
    async def scenario() -> None:
        with virtual_time.expected_errors() as seen:
            asyncio.get_running_loop().call_soon(break_invariant)
            await asyncio.sleep(0)
        assert isinstance(seen.contexts[0]["exception"], InvariantBroken)
        asyncio.get_running_loop().call_soon(break_invariant)
        await asyncio.sleep(0)

    with pytest.raises(AssertionError):
        virtual_time.run(scenario())
