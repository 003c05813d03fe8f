"""Requests that fail, wait or are lost on purpose: which ones a rule takes, what becomes of them, and what a test is told."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from kafkalite.broker.requests.dispatch import Dispatcher
from kafkalite.broker.requests.fault_control import FaultControl
from kafkalite.broker.requests.request_faults import RequestFaults, Rule, named_in
from kafkalite.broker.requests.served_api import serve_api
from kafkalite.errors import ErrorCode
from kafkalite.net.frames import request_frame, response_body_position
from kafkalite.protocol import codec, messages
from kafkalite.protocol.apis import APIS, ApiKey
from kafkalite.testing.simulation import virtual_time
from tests.unit.broker.requests.test_dispatch import CONNECTION

API = APIS[ApiKey.HEARTBEAT]
TOPIC_ID = b"i" * 16


def produce(*places: tuple[str, int]) -> Any:
    m = messages.produce_request
    data = [m.TopicProduceData(name=topic, partition_data=[m.PartitionProduceData(index=at)]) for topic, at in places]
    return m.ProduceRequest(topic_data=data)


def fetch(partition: int) -> Any:
    m = messages.fetch_request
    return m.FetchRequest(topics=[m.FetchTopic(topic_id=TOPIC_ID, partitions=[m.FetchPartition(partition=partition)])])


def commit(topic: str, partition: int) -> Any:
    m = messages.offset_commit_request
    places = [m.OffsetCommitRequestPartition(partition_index=partition)]
    return m.OffsetCommitRequest(topics=[m.OffsetCommitRequestTopic(name=topic, partitions=places)])


def name_of(topic_id: bytes) -> str | None:
    return "by-id" if topic_id == TOPIC_ID else None


@pytest.mark.parametrize(
    ("request_", "named"),
    [
        (produce(("a", 1), ("b", 2)), [("a", 1), ("b", 2)]),
        (fetch(3), [("by-id", 3)]),
        (commit("c", 0), [("c", 0)]),
        (messages.heartbeat_request.HeartbeatRequest(group_id="g"), []),
        (messages.delete_topics_request.DeleteTopicsRequest(topic_names=["d"]), [("d", None)]),
    ],
)
def test_what_a_request_names(request_: Any, named: list[tuple[str, int | None]]) -> None:
    assert list(named_in(request_, name_of)) == named


def took(rule: Rule, *requests: Any, client: str = "me") -> list[bool]:
    faults = RequestFaults()
    faults.add(rule)
    return [faults.decide(ApiKey(each.API.key), each, client, name_of) is rule for each in requests]


def test_a_rule_counts_only_what_it_is_about() -> None:
    rule = Rule.parse({"api": "PRODUCE", "action": "fail", "topic": "a", "partition": 1, "nth": 2, "times": 2})
    asked = [produce(("a", 1)), produce(("a", 2)), produce(("b", 1)), fetch(1)]
    assert took(rule, *asked, *asked, *asked, *asked) == [False] * 4 + [True, False, False, False] * 2 + [False] * 4
    assert (rule.seen, rule.hits) == (4, 2)


def test_a_rule_for_a_client_and_for_ever() -> None:
    rule = Rule.parse({"api": "FETCH", "action": "drop", "client_id": "me", "times": None, "topic": "by-id"})
    assert took(rule, fetch(1), fetch(2)) == [True, True]
    assert took(rule, fetch(1), client="you") == [False]


@pytest.mark.parametrize(
    "wish",
    [
        {"api": "PRODUCE", "action": "explode"},
        {"api": "PRODUCES", "action": "fail"},
        {"api": "PRODUCE", "action": "fail", "error": "NO_SUCH"},
        {"api": "PRODUCE", "action": "fail", "nth": 0},
        {"api": "PRODUCE", "action": "fail", "hits": 3},
        {"action": "fail"},
    ],
)
def test_what_no_rule_can_be_is_refused(wish: dict[str, Any]) -> None:
    assert "error" in FaultControl({}).obey(json.dumps({"add": wish}).encode())


@pytest.mark.parametrize("line", [b"{", b"[]", b"{}", b'{"hits": 7}', b'{"arm": "nowhere", "action": "exit"}', b"3"])
def test_a_line_that_nobody_understands_is_answered(line: bytes) -> None:
    assert "error" in FaultControl({}).obey(line)


class Setup:
    """A dispatcher with Heartbeat behind faults; `done` counts what was carried out."""

    def __init__(self, kind: str) -> None:
        self.done = 0

        def handle(parts: Any, request: Any, context: Any) -> Any:
            self.done += 1
            return messages.heartbeat_response.HeartbeatResponse(throttle_time_ms=5)

        async def coroutine(parts: Any, request: Any, context: Any) -> Any:
            return handle(parts, request, context)

        def future(parts: Any, request: Any, context: Any) -> Any:
            return asyncio.ensure_future(coroutine(parts, request, context))

        handler = {"sync": handle, "coroutine": coroutine, "future": future}[kind]
        self.control = FaultControl({})
        around = self.control.faults.around([serve_api(ApiKey.HEARTBEAT, 0, 4, handler)], name_of)
        self.dispatcher = Dispatcher("the parts", around)

    def fault(self, **rule: Any) -> int:
        return int(self.control.obey(json.dumps({"add": {"api": "HEARTBEAT"} | rule}).encode())["rule"])

    async def ask(self) -> Any:
        body = codec.encode_request(messages.heartbeat_request.HeartbeatRequest(group_id="g"), 4)
        frame = b"".join(request_frame(API, 4, 7, "me", body))
        reply = self.dispatcher.handle(memoryview(frame)[4:], CONNECTION)
        answer = b"".join(await reply if isinstance(reply, asyncio.Future) else reply)  # type: ignore[arg-type]
        return codec.decode_response(API.key, 4, answer, 4 + response_body_position(API, 4, answer[4:]))


@pytest.mark.parametrize("kind", ["sync", "coroutine", "future"])
def test_what_becomes_of_a_request(kind: str) -> None:
    async def scenario() -> None:
        setup, loop = Setup(kind), asyncio.get_running_loop()
        rule = setup.fault(action="fail", error="REBALANCE_IN_PROGRESS", nth=2)
        codes = [(await setup.ask()).error_code for _ in range(3)]
        assert codes == [ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.NONE]
        assert setup.done == 2
        assert setup.control.obey(json.dumps({"hits": rule}).encode()) == {"hits": 1}

        setup.fault(action="delay", delay_ms=3000)
        began_s = loop.time()
        assert (await setup.ask()).throttle_time_ms == 5
        assert loop.time() - began_s == pytest.approx(3)

        for action, done in (("drop", 0), ("drop-answer", 1)):
            before = setup.done
            setup.fault(action=action)
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(60):
                    await setup.ask()
            assert setup.done - before == done
        assert setup.control.obey(b'{"clear": true}') == {}
        assert (await setup.ask()).error_code == ErrorCode.NONE
        assert not setup.control.faults.rules

    virtual_time.run(scenario())


def test_records_of_a_produce_that_waits_are_its_own_and_nothing_overtakes_it() -> None:
    """What came next was received over the records of a delayed request: they had magic 0, and sequences were out of order."""

    class Connection(type(CONNECTION)):  # type: ignore[misc]
        alone = 0

        def stop_pipelining(self) -> None:
            self.alone += 1

    async def scenario() -> None:
        seen: list[bytes] = []

        def handle(parts: Any, request: Any, context: Any) -> Any:
            seen.append(bytes(request.topic_data[0].partition_data[0].records))
            return messages.produce_response.ProduceResponse()

        control, connection = FaultControl({}), Connection()
        dispatcher = Dispatcher("the parts", control.faults.around([serve_api(ApiKey.PRODUCE, 0, 9, handle)], name_of))
        request = produce(("a", 0))
        request.topic_data[0].partition_data[0].records = b"r" * 100
        frame = bytearray(b"".join(request_frame(APIS[ApiKey.PRODUCE], 9, 7, "me", codec.encode_request(request, 9))))
        for action in ("delay", "drop-answer"):
            control.obey(json.dumps({"add": {"api": "PRODUCE", "action": action, "delay_ms": 9}}).encode())
            received = bytearray(frame)
            dispatcher.handle(memoryview(received)[4:], connection)
            received[:] = bytes(len(received))
            await asyncio.sleep(1)
        assert seen == [b"r" * 100] * 2
        assert connection.alone == 2

    virtual_time.run(scenario())
