"""The runtime hosts machines: loading, carrying out, fencing, unloading, in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from kafkalite.coordinators.contract import Decision, DraftRecord, LogRecord, Now, Ticket
from kafkalite.coordinators.runtime import CoordinatorRuntime, HostingRules
from kafkalite.errors import ErrorCode, KafkaError
from kafkalite.protocol.record_batches.records import (
    BatchHeader,
    NewRecord,
    build_batch,
    build_marker,
    set_offset_and_epoch_in_place,
)
from kafkalite.storage.producers.verification import UNGUARDED, VerificationGuard
from kafkalite.testing.simulation import virtual_time
from tests.unit.clocks import LoopClock

RULES = {"load_buffer_bytes": 5_242_880, "append_timeout_ms": 5000, "codec": 0, "required_acks": -1}


class FakeLog:
    """Batches in memory; committed up to `high_watermark`, which follows the end unless `lagging`."""

    def __init__(self) -> None:
        self.batches: list[bytearray] = []
        self.end_offset = self.start_offset = self.high_watermark = 0
        self.lagging = False
        self.refusal: ErrorCode | None = None
        self.reads = 0
        self._waits: list[tuple[int, Callable[[ErrorCode], None]]] = []

    def read(self, offset: int, max_bytes: int) -> bytes:
        self.reads += 1
        data = b""
        for batch in self.batches:
            if BatchHeader.read(batch).last_offset >= offset and (not data or len(data) + len(batch) <= max_bytes):
                data += batch
        return data

    def append(self, batch: bytearray, guard: VerificationGuard = UNGUARDED) -> int:
        if self.refusal is not None:
            raise KafkaError(self.refusal)
        first = self.end_offset
        set_offset_and_epoch_in_place(batch, 0, first, 0)
        self.batches.append(batch)
        self.end_offset = BatchHeader.read(batch).next_offset
        if not self.lagging:
            self.commit(self.end_offset)
        return first

    def when_committed(self, end_offset: int, done: Callable[[ErrorCode], None]) -> None:
        if self.high_watermark >= end_offset:
            done(ErrorCode.NONE)
        else:
            self._waits.append((end_offset, done))

    def commit(self, offset: int, code: ErrorCode = ErrorCode.NONE) -> None:
        self.high_watermark = max(self.high_watermark, offset)
        waits, self._waits = self._waits, []
        for end_offset, done in waits:
            if end_offset <= offset:
                done(code)
            else:
                self._waits.append((end_offset, done))

    def lose(self) -> None:
        waits, self._waits = self._waits, []
        for _, done in waits:
            done(ErrorCode.NOT_LEADER_OR_FOLLOWER)


@dataclass
class Words:
    """A machine that keeps words: "say x" appends and answers, "wait" parks, "later" answers after a second."""

    known: list[str] = field(default_factory=list)
    ended: list[tuple[int, bool]] = field(default_factory=list)
    loaded_at_ms: int = -1
    later: list[Ticket] = field(default_factory=list)

    def decide(self, request: str, ticket: Ticket, now: Now) -> Decision:
        decision = Decision(now)
        if request == "wait":
            pass
        elif request.startswith("tell "):
            decision.send(request)
            decision.answer(ticket, None)
        elif request == "later":
            self.later.append(ticket)
            decision.set_timer(("later",), 1000)
        else:

            def then(code: ErrorCode, following: Decision) -> None:
                following.answer(ticket, (code, list(self.known)))

            decision.append([DraftRecord(word.encode(), b"") for word in request.split()], then)
        return decision

    def on_timer(self, key: Any, now: Now) -> Decision:
        decision = Decision(now)
        for ticket in self.later:
            decision.answer(ticket, now.monotonic_ms)
        self.later.clear()
        return decision

    def apply(self, record: LogRecord) -> None:
        self.known.append(record.key.decode())

    def apply_marker(self, producer_id: int, committed: bool) -> None:
        self.ended.append((producer_id, committed))

    def on_loaded(self, now: Now) -> Decision:
        self.loaded_at_ms = now.monotonic_ms
        return Decision(now)


@dataclass
class Host:
    runtime: CoordinatorRuntime[Words]
    fatal: list[str]
    sent: list[tuple[int, Any]]

    async def serve(self, partition: int = 0, epoch: int = 0) -> FakeLog:
        log = FakeLog()
        self.runtime.on_election(partition, epoch, log)
        await virtual_time.settle()
        return log

    def say(self, words: str, key: str = "k") -> Any:
        return self.runtime.submit(key, words, lambda reply: reply)


def host(partitions: int = 1, **rules: int) -> Host:
    fatal: list[str] = []
    sent: list[tuple[int, Any]] = []

    def spawn(coroutine: Any, name: str) -> Any:
        return asyncio.get_running_loop().create_task(coroutine, name=name)

    runtime = CoordinatorRuntime(
        "__words",
        HostingRules(**(RULES | rules)),
        lambda _: Words(),
        lambda: partitions,
        LoopClock(),
        spawn,
        fatal.append,
        lambda partition, message: sent.append((partition, message)),
    )
    return Host(runtime, fatal, sent)


def code_of(call: Callable[[], Any]) -> ErrorCode:
    with pytest.raises(KafkaError) as caught:
        call()
    return caught.value.code


def test_records_are_applied_and_answered() -> None:
    async def scenario() -> None:
        here = host()
        log = await here.serve()
        assert here.say("one two") == (ErrorCode.NONE, ["one", "two"])
        assert len(log.batches) == 1

    virtual_time.run(scenario())


def test_what_a_machine_sends_is_delivered_with_its_partition_and_epoch() -> None:
    async def scenario() -> None:
        here = host()
        assert here.runtime.coordinator_epoch(0) is None
        await here.serve(epoch=4)
        here.say("tell them")
        assert here.sent == [(0, "tell them")] and here.runtime.coordinator_epoch(0) == 4
        here.runtime.on_election(0, 6, FakeLog())
        assert here.runtime.coordinator_epoch(0) == 6, "led all along"
        here.runtime.on_resignation(0, 7)
        assert here.runtime.coordinator_epoch(0) is None

    virtual_time.run(scenario())


def test_an_answer_waits_for_the_replicas() -> None:
    async def scenario() -> None:
        here = host()
        log = await here.serve()
        log.lagging = True
        first, second = here.say("one"), here.say("two")
        assert not first.done() and not here.runtime.machine_for("k").known
        log.commit(1)
        assert first.result() == (ErrorCode.NONE, ["one"]) and not second.done()
        log.commit(2, ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND)
        code, known = second.result()
        assert code is ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND and known == ["one", "two"]

    virtual_time.run(scenario())


def test_with_fewer_acks_an_answer_does_not_wait() -> None:
    async def scenario() -> None:
        here = host(required_acks=1)
        log = await here.serve()
        log.lagging = True
        assert here.say("one") == (ErrorCode.NONE, ["one"])

    virtual_time.run(scenario())


def test_an_append_that_is_refused() -> None:
    async def scenario() -> None:
        here = host()
        log = await here.serve()
        log.refusal = ErrorCode.NOT_ENOUGH_REPLICAS
        assert here.say("one") == (ErrorCode.NOT_ENOUGH_REPLICAS, [])

    virtual_time.run(scenario())


def test_an_append_that_takes_too_long_is_applied_when_it_gets_there() -> None:
    async def scenario() -> None:
        here = host(append_timeout_ms=5000)
        log = await here.serve()
        log.lagging = True
        first = here.say("one")
        await asyncio.sleep(3)
        second = here.say("two")
        await asyncio.sleep(2.5)
        assert first.result()[0] is ErrorCode.REQUEST_TIMED_OUT and not second.done()
        log.commit(2)
        assert second.result() == (ErrorCode.NONE, ["one", "two"])

    virtual_time.run(scenario())


def test_timers_ring_on_the_loop() -> None:
    async def scenario() -> None:
        here = host()
        await here.serve()
        asked_ms = int(asyncio.get_running_loop().time() * 1000)
        assert await here.say("later") == asked_ms + 1000

    virtual_time.run(scenario())


def test_what_is_not_led_here_is_refused() -> None:
    async def scenario() -> None:
        here = host(partitions=50)
        assert code_of(lambda: here.say("one")) is ErrorCode.NOT_COORDINATOR

    virtual_time.run(scenario())


def big_log(records: int) -> FakeLog:
    log = FakeLog()
    for _ in range(records // 100):
        log.append(build_batch([NewRecord(b"w", b"x" * 50) for _ in range(100)]))
    return log


def test_while_it_loads_requests_are_refused_and_others_are_served() -> None:
    async def scenario() -> None:
        here = host(load_buffer_bytes=20_000)
        log = big_log(5000)
        here.runtime.on_election(0, 0, log)
        refused = 0
        while here.runtime.is_loading:
            assert code_of(lambda: here.say("one")) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            refused += 1
            await asyncio.sleep(0)
        assert len(here.runtime.machine_for("k").known) == 5000
        assert refused >= 10 and log.reads > 10, "the loop had its turns"

    virtual_time.run(scenario())


def test_a_log_without_its_beginning_and_with_holes_is_loaded() -> None:
    """Compaction leaves both."""

    async def scenario() -> None:
        here = host()
        log = FakeLog()
        log.append(build_batch([NewRecord(b"a", None), NewRecord(b"b", b"")]))
        log.end_offset = 10
        log.append(build_batch([NewRecord(b"c", b"")]))
        log.start_offset = 1
        here.runtime.on_election(0, 0, log)
        await virtual_time.settle()
        assert here.runtime.machine_for("k").known == ["a", "b", "c"]

    virtual_time.run(scenario())


def test_transactions_are_ended_by_their_markers() -> None:
    async def scenario() -> None:
        here = host()
        log = FakeLog()
        log.append(build_batch([NewRecord(b"a", b"")], attributes=0x10, producer_id=7, producer_epoch=0))
        log.append(build_marker(commit=True, producer_id=7, producer_epoch=0, coordinator_epoch=0, timestamp=0))
        here.runtime.on_election(0, 0, log)
        await virtual_time.settle()
        here.runtime.on_transaction_end(0, 2, 8, False)
        here.runtime.on_transaction_end(0, 1, 7, True)
        assert here.runtime.machine_for("k").ended == [(7, True), (8, False)], "a marker that was loaded counts once"

    virtual_time.run(scenario())


def test_a_marker_that_comes_while_the_end_is_being_committed_is_loaded() -> None:
    async def scenario() -> None:
        here = host(append_timeout_ms=5000)
        log = FakeLog()
        log.lagging = True
        log.append(build_batch([NewRecord(b"a", b"")], attributes=0x10, producer_id=7, producer_epoch=0))
        here.runtime.on_election(0, 0, log)
        await asyncio.sleep(1)
        log.append(build_marker(commit=True, producer_id=7, producer_epoch=0, coordinator_epoch=0, timestamp=0))
        log.when_committed(2, lambda code: here.runtime.on_transaction_end(0, 1, 7, True))
        log.commit(2)
        await virtual_time.settle()
        assert here.runtime.machine_for("k").ended == [(7, True)]

    virtual_time.run(scenario())


def test_what_is_not_committed_yet_is_not_shown() -> None:
    async def scenario() -> None:
        here = host(append_timeout_ms=5000)
        log = FakeLog()
        log.lagging = True
        log.append(build_batch([NewRecord(b"a", b"")]))
        here.runtime.on_election(0, 0, log)
        await asyncio.sleep(2)
        assert here.runtime.is_loading
        log.commit(1)
        await virtual_time.settle()
        assert not here.runtime.is_loading

    virtual_time.run(scenario())


def test_a_partition_that_cannot_commit_is_served_after_all() -> None:
    async def scenario() -> None:
        here = host(append_timeout_ms=5000)
        log = FakeLog()
        log.lagging = True
        log.append(build_batch([NewRecord(b"a", b"")]))
        here.runtime.on_election(0, 0, log)
        await asyncio.sleep(5.1)
        assert not here.runtime.is_loading

    virtual_time.run(scenario())


def test_a_load_that_fails_is_tried_again() -> None:
    async def scenario() -> None:
        here = host()
        log = big_log(100)
        good, log.batches[0] = log.batches[0], bytearray(log.batches[0])
        log.batches[0][61:] = b"\xff" * (len(good) - 61)
        here.runtime.on_election(0, 0, log)
        await asyncio.sleep(0.5)
        assert here.runtime.is_loading
        log.batches[0] = good
        await asyncio.sleep(1)
        assert len(here.runtime.machine_for("k").known) == 100

    virtual_time.run(scenario())


def test_resigning_refuses_all_who_wait() -> None:
    async def scenario() -> None:
        here = host()
        log = await here.serve()
        log.lagging = True
        waiting = [here.say("wait"), here.say("later"), here.say("one")]
        here.runtime.on_resignation(0, 1)
        for each in waiting:
            assert code_of(each.result) is ErrorCode.NOT_COORDINATOR
        assert code_of(lambda: here.say("one")) is ErrorCode.NOT_COORDINATOR
        log.commit(1)
        await asyncio.sleep(10)
        assert here.runtime.statistics() == dict.fromkeys(here.runtime.statistics(), 0) and not here.fatal

    virtual_time.run(scenario())


def test_losing_an_append_is_losing_the_partition() -> None:
    async def scenario() -> None:
        here = host()
        log = await here.serve()
        log.lagging = True
        first, second = here.say("one"), here.say("two")
        log.lose()
        assert code_of(first.result) is code_of(second.result) is ErrorCode.NOT_COORDINATOR
        assert code_of(lambda: here.say("one")) is ErrorCode.NOT_COORDINATOR

    virtual_time.run(scenario())


def test_resigning_ends_a_load() -> None:
    async def scenario() -> None:
        here = host()
        here.runtime.on_election(0, 3, big_log(5000))
        await asyncio.sleep(0)
        here.runtime.on_resignation(0, 4)
        await virtual_time.settle()
        assert code_of(lambda: here.say("one")) is ErrorCode.NOT_COORDINATOR

    virtual_time.run(scenario())


def test_old_news_is_ignored() -> None:
    async def scenario() -> None:
        here = host()
        await here.serve(epoch=5)
        here.runtime.on_resignation(0, 4)
        assert here.say("one")[0] is ErrorCode.NONE
        here.runtime.on_resignation(0, 6)
        here.runtime.on_election(0, 6, FakeLog())
        assert code_of(lambda: here.say("one")) is ErrorCode.NOT_COORDINATOR

    virtual_time.run(scenario())


def test_a_new_epoch_of_a_partition_that_is_led_all_along_changes_nothing() -> None:
    async def scenario() -> None:
        here = host()
        log = await here.serve(epoch=1)
        log.lagging = True
        waiting = here.say("one")
        here.runtime.on_election(0, 2, log)
        log.commit(1)
        assert waiting.result() == (ErrorCode.NONE, ["one"])

    virtual_time.run(scenario())


def test_a_topic_that_was_deleted_and_made_again_begins_with_small_epochs() -> None:
    async def scenario() -> None:
        here = host()
        await here.serve(epoch=9)
        here.runtime.on_resignation(0)
        await here.serve(epoch=0)
        assert here.say("one")[0] is ErrorCode.NONE

    virtual_time.run(scenario())
