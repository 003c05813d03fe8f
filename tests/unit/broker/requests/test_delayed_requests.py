"""Requests that wait are always answered: also when what they wait for, or their own look at it, fails."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from kafkalite.broker.fetch.delayed_fetch import DelayedFetch
from kafkalite.broker.fetch.partition_reader import FetchParams
from kafkalite.broker.handlers import SERVED
from kafkalite.broker.produce.delayed_produce import AwaitedRecords, DelayedProduce
from kafkalite.broker.replication.action_queue import ActionQueue
from kafkalite.broker.replication.follower_state import NeverFetched
from kafkalite.broker.replication.partition import Partition
from kafkalite.broker.requests.dispatch import Dispatcher
from kafkalite.errors import ErrorCode, InvariantBroken
from kafkalite.net.frames import request_frame, response_body_position
from kafkalite.portions import Portions
from kafkalite.protocol import codec, messages
from kafkalite.protocol.apis import APIS, ApiKey
from kafkalite.testing.simulation import virtual_time
from tests.unit.broker.fake_log import make_partition
from tests.unit.broker.memory_parts import FakeConnection
from tests.unit.broker.replication.test_partition import append, assignment

LIMITS = FetchParams(replica_id=-1, version=11, max_wait_ms=500, min_bytes=1, max_bytes=1000, isolation_level=0)
BAD_PROBLEMS = pytest.mark.parametrize("problem", [ZeroDivisionError("a bug"), InvariantBroken("two leaders")])


def led_with_follower() -> Partition:
    """A partition of brokers 1, which leads, and 2, which is in sync."""
    partition = make_partition(actions=ActionQueue())
    partition.become_leader(assignment(leader=1, isr=(1, 2), replicas=(1, 2)), 0.0)
    return partition


def follow(partition: Partition, offset: int) -> None:
    partition.follower_fetched(2, offset, 0, 0.0, NeverFetched())


def answer_of(key: ApiKey, request: Any, version: int, begin: Callable[[], asyncio.Future[Any]]) -> tuple[Any, Any]:
    """(the decoded answer to a request whose handler gives `begin()`'s future, the errors that were reported)."""

    async def scenario() -> tuple[Any, Any]:
        dispatcher = Dispatcher(
            None, [replace(each, handle=lambda *_: begin()) for each in SERVED if each.api.key == key]
        )  # type: ignore[arg-type]
        frame = b"".join(request_frame(APIS[key], version, 7, "me", codec.encode_request(request, version)))
        with virtual_time.expected_errors() as seen:
            reply = await dispatcher.handle(memoryview(frame)[4:], FakeConnection())  # type: ignore[misc]
        answer = b"".join(reply)
        at = 4 + response_body_position(APIS[key], version, answer[4:])
        return codec.decode_response(key, version, answer, at), seen

    return virtual_time.run(scenario())


def judge(seen: virtual_time.SeenErrors, problem: Exception) -> None:
    if isinstance(problem, InvariantBroken):
        assert [reason.partition(" (")[0] for reason in seen.stopped] == ["invariant broken: two leaders"]
    else:
        assert (seen.count, seen.stopped) == (1, [])


@BAD_PROBLEMS
@pytest.mark.parametrize("when", ["at its time", "at news", "when it shapes the reply"])
def test_a_delayed_fetch_whose_look_failed_was_never_answered(problem: Exception, when: str) -> None:
    released: list[bool] = []

    def begin() -> asyncio.Future[Any]:
        def gather() -> Any:
            if when == "when it shapes the reply":
                return {}, 0, False
            raise problem

        def reply(answers: Any) -> Any:
            raise problem

        fetch = DelayedFetch(LIMITS, 0, gather, reply, lambda: released.append(True), lambda: 1, Portions())
        if when == "at news":
            fetch.notify(make_partition(), True)
        return fetch.future

    answer, seen = answer_of(ApiKey.FETCH, messages.fetch_request.FetchRequest(replica_id=-1), 11, begin)
    assert answer.error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert released == [True]
    judge(seen, problem)


@BAD_PROBLEMS
def test_a_delayed_produce_whose_expiration_failed_was_never_answered(
    problem: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    m = messages.produce_request
    topic = m.TopicProduceData(name="t", partition_data=[m.PartitionProduceData(index=0, records=b"")])

    def fail(partition: Partition, wait: Any) -> None:
        raise problem

    monkeypatch.setattr(Partition, "forget_wait", fail)

    def begin() -> asyncio.Future[Any]:
        partition = led_with_follower()
        answer = messages.produce_response.PartitionProduceResponse(index=0)
        reply = messages.produce_response.ProduceResponse()
        return DelayedProduce(reply, [AwaitedRecords(partition, append(partition, 1), answer)], 100).future

    request = m.ProduceRequest(acks=-1, topic_data=[topic])
    answer, seen = answer_of(ApiKey.PRODUCE, request, 9, begin)
    assert answer.responses[0].partition_responses[0].error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    judge(seen, problem)


def delayed_produce(partition: Partition, required: int) -> tuple[DelayedProduce, Any]:
    answer = messages.produce_response.PartitionProduceResponse(index=0, base_offset=3)
    reply = messages.produce_response.ProduceResponse()
    return DelayedProduce(reply, [AwaitedRecords(partition, required, answer)], 100), answer


def test_a_delayed_produce_that_timed_out_stays_so() -> None:
    """The commit may come in the very turn of the timeout, when the answer is about to be written."""

    async def scenario() -> Any:
        partition = led_with_follower()
        produce, answer = delayed_produce(partition, append(partition, 1))
        asyncio.get_running_loop().call_later(0.1, follow, partition, 1)
        produce._timer.cancel()
        asyncio.get_running_loop().call_later(0.1, produce._expire)
        await produce.future
        await virtual_time.settle()
        return answer

    answer = virtual_time.run(scenario())
    assert (answer.error_code, answer.base_offset) == (ErrorCode.REQUEST_TIMED_OUT, -1)


# Whose turn it is


def test_a_producers_completion_ran_within_the_fetch_of_a_follower() -> None:
    async def scenario() -> list[str]:
        happened: list[str] = []
        partition = led_with_follower()
        for number in (1, 2):
            partition.when_committed(append(partition, 1), lambda code, n=number: happened.append(f"done {n}"))  # type: ignore[misc]
        follow(partition, 2)
        happened.append("the fetch goes on")
        await asyncio.sleep(0)
        return happened

    assert virtual_time.run(scenario()) == ["the fetch goes on", "done 1", "done 2"]


def test_a_completion_that_fails_keeps_no_other_from_its_own() -> None:
    async def scenario() -> Any:
        codes: list[ErrorCode] = []
        partition = led_with_follower()
        partition.when_committed(append(partition, 1), lambda code: 1 // 0)  # type: ignore[arg-type, return-value]
        partition.when_committed(append(partition, 1), codes.append)
        with virtual_time.expected_errors() as seen:
            follow(partition, 2)
            await asyncio.sleep(0)
        return codes, seen.count

    assert virtual_time.run(scenario()) == ([ErrorCode.NONE], 1)


def test_what_is_committed_at_once_does_not_overtake_what_waits_its_turn() -> None:
    """1. A waits. 2. The ISR shrinks, so A is committed and its turn comes next. 3. B is appended, and committed at once."""

    async def scenario() -> list[str]:
        happened: list[str] = []
        partition = led_with_follower()
        partition.when_committed(append(partition, 1), lambda code: happened.append("A"))
        partition.become_leader(assignment(leader=1, isr=(1,), replicas=(1, 2), partition_epoch=1), 1e9)
        partition.when_committed(append(partition, 1, now_ms=1e9), lambda code: happened.append("B"))
        assert partition.high_watermark == 2
        await virtual_time.settle()
        return happened

    assert virtual_time.run(scenario()) == ["A", "B"]


def test_a_completion_that_completes_others_lets_the_loop_turn() -> None:
    async def scenario() -> list[str]:
        queue, happened = ActionQueue(), list[str]()

        def again(code: ErrorCode) -> None:
            happened.append("completion")
            if len(happened) < 4:
                queue.add(again, code)

        queue.add(again, ErrorCode.NONE)
        while not queue.is_empty:
            await asyncio.sleep(0)
            happened.append("turn")
        return happened

    assert virtual_time.run(scenario()) == ["completion", "turn"] * 3


def test_a_watcher_that_comes_back_into_its_partition_is_a_broken_invariant() -> None:
    class Meddler:
        def on_append(self, partition: Partition) -> None:
            partition.after_append(0, 0.0)

        def on_leader_epoch(self, partition: Partition) -> None: ...

        def on_high_watermark(self, partition: Partition) -> None: ...

        def on_isr_exit(self, partition: Partition) -> None: ...

    partition = led_with_follower()
    partition.watchers = {Meddler(): None}
    with pytest.raises(InvariantBroken, match="came back"):
        append(partition, 1)


def test_news_came_between_the_end_of_a_connection_and_its_tasks() -> None:
    """The future was cancelled, the fetch not closed yet: its answer was an error that nobody expected."""

    async def scenario() -> None:
        released: list[bool] = []
        fetch = DelayedFetch(
            LIMITS, 0, lambda: ({}, 0, True), lambda answers: None, lambda: released.append(True), lambda: 1, Portions()
        )  # type: ignore[arg-type, return-value]
        fetch.notify(make_partition(), True)
        fetch.future.cancel()
        await virtual_time.settle()
        assert released == [True]

    virtual_time.run(scenario())
