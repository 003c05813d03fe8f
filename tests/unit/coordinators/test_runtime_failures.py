"""Machines that raise: the runtime answers, goes on for the others, and loads again."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from kafkalite.coordinators.contract import Decision, DraftRecord, Now, Ticket
from kafkalite.errors import ErrorCode, KafkaError
from kafkalite.testing.simulation import virtual_time
from tests.unit.coordinators.test_runtime import FakeLog, Words, code_of, host


def test_a_machine_that_fails_on_a_timer_does_not_take_others_along(caplog: pytest.LogCaptureFixture) -> None:
    class Broken(Words):
        def on_timer(self, key: Any, now: Now) -> Decision:
            raise RuntimeError("broken")

    async def scenario() -> None:
        here = host()
        here.runtime._new_machine = lambda _: Broken()
        await here.serve()
        here.say("later")
        with virtual_time.expected_errors() as seen:
            await asyncio.sleep(2)
        assert here.say("one")[0] is ErrorCode.NONE and not here.fatal and seen.count == 1

    virtual_time.run(scenario())
    assert "broken" in caplog.text


@pytest.mark.parametrize("lagging", [False, True])
def test_a_machine_that_failed_after_an_append_left_its_request_unanswered(lagging: bool) -> None:
    kept: list[Ticket] = []

    class Broken(Words):
        def decide(self, request: str, ticket: Ticket, now: Now) -> Decision:
            def then(code: ErrorCode, following: Decision) -> None:
                following.answer(ticket, code)
                raise ZeroDivisionError("a bug")

            kept.append(ticket)
            decision = Decision(now)
            decision.append([DraftRecord(request.encode(), b"")], then)
            return decision

        def on_timer(self, key: Any, now: Now) -> Decision:
            decision = Decision(now)
            decision.answer(kept[0], "late")
            return decision

    async def scenario() -> None:
        here = host()
        here.runtime._new_machine = lambda _: Broken()
        log = await here.serve()
        log.lagging = lagging
        with virtual_time.expected_errors() as seen:
            if lagging:
                reply = here.say("one")
                log.commit(1)
                with pytest.raises(KafkaError, match="unexpected error"):
                    await reply
            else:
                assert code_of(lambda: here.say("one")) is ErrorCode.UNKNOWN_SERVER_ERROR
            here.runtime.shards[0].timers.set("late", 0)
            here.runtime._on_alarm(here.runtime.shards[0])
        assert seen.count == 1 and not here.fatal, "an answer that comes after the failure is no second one"
        assert here.runtime.statistics()["waiting"] == 0

    virtual_time.run(scenario())


def test_an_answer_that_could_not_be_shaped_took_those_of_others_along() -> None:
    def broken(reply: Any) -> Any:
        raise ZeroDivisionError("a bug")

    async def scenario() -> None:
        here = host()
        await here.serve()
        first, second = here.runtime.submit("k", "later", broken), here.say("later")
        with virtual_time.expected_errors() as seen:
            assert await second == 1000
        with pytest.raises(KafkaError, match="unexpected error"):
            await first
        assert seen.count == 1 and here.runtime.statistics()["waiting"] == 0

    virtual_time.run(scenario())


@pytest.mark.parametrize("where", ["reading the log", "the machine, when it was loaded"])
def test_an_unexpected_error_while_loading_meant_load_in_progress_for_good(where: str) -> None:
    failures = 3

    def stumble() -> None:
        nonlocal failures
        if failures:
            failures -= 1
            raise ZeroDivisionError("a bug")

    class Stumbling(Words):
        def on_loaded(self, now: Now) -> Decision:
            if where != "reading the log":
                stumble()
            return super().on_loaded(now)

    class StumblingLog(FakeLog):
        def read(self, offset: int, max_bytes: int) -> bytes:
            if where == "reading the log":
                stumble()
            return super().read(offset, max_bytes)

    async def scenario() -> None:
        here, log = host(), StumblingLog()
        here.runtime._new_machine = lambda _: Stumbling()
        first = host()
        written = await first.serve()
        first.say("one")
        log.batches, log.end_offset, log.high_watermark = written.batches, 1, 1
        with virtual_time.expected_errors() as seen:
            here.runtime.on_election(0, 0, log)
            await virtual_time.settle()
            assert code_of(lambda: here.say("two")) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            await asyncio.sleep(1)
        assert (seen.count, seen.stopped) == (3, [])
        assert here.say("two") == (ErrorCode.NONE, ["one", "two"])

    virtual_time.run(scenario())
