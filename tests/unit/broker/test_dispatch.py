"""From a frame to the answer's frame: versions, errors, and an error reply for every API in every version."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from kafkalite.broker.dispatch import Dispatcher
from kafkalite.broker.error_replies import error_reply
from kafkalite.broker.handlers import HANDLERS
from kafkalite.errors import ErrorCode, InvariantBroken, KafkaError, ProtocolViolation
from kafkalite.net.frames import request_frame, response_body_position
from kafkalite.protocol import codec, messages
from kafkalite.protocol.apis import APIS, Api, ApiKey
from tests import virtual_time
from tests.unit.protocol.kio_oracle import MessageVersion
from tests.unit.protocol.test_hostile_bytes import encoded

API = APIS[ApiKey.DESCRIBE_CLUSTER]


class Setup:
    """A dispatcher with one handler for DescribeCluster."""

    def __init__(self, handler: Any) -> None:
        self.errors = virtual_time.SeenErrors()
        self.dispatcher = Dispatcher("the broker", {ApiKey.DESCRIBE_CLUSTER: handler})  # type: ignore[arg-type]

    async def ask(self, version: int = 1, api: Api = API, correlation_id: int = 77) -> Any:
        """The decoded answer; None when there is none."""
        body = codec.encode_request(getattr(messages, f"{api.name}_request").ROOT(), min(version, api.max_version))
        frame = b"".join(request_frame(api, version, correlation_id, "me", body))
        reply = self.dispatcher.handle(memoryview(frame)[4:], "a connection")  # type: ignore[arg-type]
        if isinstance(reply, asyncio.Future):
            reply = await reply
        if reply is None:
            return None
        answer = b"".join(reply)
        assert int.from_bytes(answer[:4], "big") == len(answer) - 4
        assert int.from_bytes(answer[4:8], "big") == correlation_id
        return codec.decode_response(api.key, version, answer, 4 + response_body_position(api, version, answer[4:]))


def reply_of(handler: Any, version: int = 1) -> tuple[Any, Setup]:
    async def scenario() -> tuple[Any, Setup]:
        setup = Setup(handler)
        with virtual_time.expected_errors() as setup.errors:
            return await setup.ask(version), setup

    return virtual_time.run(scenario())


def _raiser(problem: Exception, kind: str) -> Any:
    def sync(broker: Any, request: Any, context: Any) -> Any:
        raise problem

    async def coroutine(broker: Any, request: Any, context: Any) -> Any:
        await asyncio.sleep(1)
        raise problem

    def future(broker: Any, request: Any, context: Any) -> Any:
        made = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().call_later(1, made.set_exception, problem)
        return made

    return {"sync": sync, "coroutine": coroutine, "future": future}[kind]


KINDS = pytest.mark.parametrize("kind", ["sync", "coroutine", "future"])


@KINDS
def test_answers(kind: str) -> None:
    made = messages.describe_cluster_response.DescribeClusterResponse(cluster_id="c", controller_id=3)
    seen: list[Any] = []

    def sync(broker: Any, request: Any, context: Any) -> Any:
        seen.append((broker, type(request).__name__, context.api_version, context.client_id, context.connection))
        return made

    async def coroutine(broker: Any, request: Any, context: Any) -> Any:
        await asyncio.sleep(1)
        return sync(broker, request, context)

    def future(broker: Any, request: Any, context: Any) -> Any:
        pending = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().call_later(1, pending.set_result, sync(broker, request, context))
        return pending

    reply, setup = reply_of({"sync": sync, "coroutine": coroutine, "future": future}[kind])
    assert (reply.cluster_id, reply.controller_id) == ("c", 3)
    assert seen == [("the broker", "DescribeClusterRequest", 1, "me", "a connection")]
    assert setup.dispatcher.latencies[ApiKey.DESCRIBE_CLUSTER].count == 1


@pytest.mark.parametrize("kind", ["coroutine", "future"])
def test_a_latency_includes_what_a_request_waits_for(kind: str) -> None:
    async def scenario() -> Setup:
        setup = Setup(_raiser(KafkaError(ErrorCode.NOT_CONTROLLER), kind))
        setup.dispatcher.now_s = asyncio.get_running_loop().time
        await setup.ask()
        return setup

    setup = virtual_time.run(scenario())
    latency = setup.dispatcher.latencies[ApiKey.DESCRIBE_CLUSTER]
    assert (latency.count, latency.sum_s) == (1, pytest.approx(1.0))


def test_fetches_of_followers_are_timed_apart() -> None:
    async def scenario() -> Dispatcher:
        dispatcher = Dispatcher("the broker", {ApiKey.FETCH: lambda *_: None})  # type: ignore[arg-type, dict-item]
        m, api = messages.fetch_request, APIS[ApiKey.FETCH]
        follower = m.FetchRequest(replica_id=2, replica_state=m.ReplicaState(replica_id=2))
        for version, request in ((11, follower), (api.max_version, follower), (11, m.FetchRequest(replica_id=-1))):
            frame = b"".join(request_frame(api, version, 1, "me", codec.encode_request(request, version)))
            assert dispatcher.handle(memoryview(frame)[4:], "a connection") is None  # type: ignore[arg-type]
        return dispatcher

    dispatcher = virtual_time.run(scenario())
    assert (dispatcher.follower_fetches.count, dispatcher.latencies[ApiKey.FETCH].count) == (2, 1)


@KINDS
def test_a_kafka_error_becomes_the_reply(kind: str) -> None:
    reply, setup = reply_of(_raiser(KafkaError(ErrorCode.NOT_CONTROLLER, "ask another"), kind))
    assert (reply.error_code, reply.error_message) == (ErrorCode.NOT_CONTROLLER, "ask another")
    assert setup.errors.contexts == []


@KINDS
def test_anything_else_is_reported_and_answered(kind: str, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR):
        reply, setup = reply_of(_raiser(ZeroDivisionError("a bug"), kind))
    assert reply.error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert "a bug" not in reply.error_message
    assert caplog.records[0].exc_info is not None
    assert (setup.errors.count, setup.errors.stopped) == (1, [])


@KINDS
def test_a_broken_invariant_stops_the_broker(kind: str) -> None:
    reply, setup = reply_of(_raiser(InvariantBroken("two leaders"), kind))
    assert reply.error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert setup.errors.stopped == ["invariant broken: two leaders (describe_cluster version 1 failed)"]


@KINDS
def test_a_violation_is_passed_on(kind: str) -> None:
    with pytest.raises(ProtocolViolation, match="nonsense"):
        reply_of(_raiser(ProtocolViolation("nonsense"), kind))


def test_no_answer() -> None:
    assert reply_of(lambda broker, request, context: None)[0] is None


@pytest.mark.parametrize(
    "frame",
    [
        b"",
        b"\x00\x3c\x00\x01\x00\x00",
        b"\x03\xe7\x00\x00\x00\x00\x00\x01\xff\xff",
        b"\x00\x3c\x00\x63\x00\x00\x00\x01\xff\xff\x00",
        b"\x00\x3c\xff\xff\x00\x00\x00\x01\xff\xff\x00",
        b"\x00\x3c\x00\x01\x00\x00\x00\x01\x00\x09me",
        b"\x00\x3c\x00\x01\x00\x00\x00\x01\xff\xff\x00",
        b"\x00\x3c\x00\x01\x00\x00\x00\x01\x00\x02\xc3\x28\x00\x00",
        b"\x00\x3c\x00\x01\x00\x00\x00\x01\xff\xff\x01\x00\x7f",
    ],
    ids=["empty", "short", "api", "new version", "negative version", "client id", "no body", "not UTF-8", "tags"],
)
def test_what_is_no_request_is_a_violation(frame: bytes) -> None:
    setup = Setup(lambda broker, request, context: None)
    with pytest.raises(ProtocolViolation):
        setup.dispatcher.handle(memoryview(frame), "a connection")  # type: ignore[arg-type]


def test_an_unknown_version_of_api_versions_is_answered() -> None:
    async def scenario() -> Any:
        setup = Setup(None)
        api = APIS[ApiKey.API_VERSIONS]
        setup.dispatcher.routes[ApiKey.API_VERSIONS] = (api, lambda *_: None, False)
        frame = b"\x00\x12\x00\x63\x00\x00\x00\x05" + b"anything at all"
        return setup.dispatcher.handle(memoryview(frame), "a connection")  # type: ignore[arg-type]

    answer = b"".join(virtual_time.run(scenario()))
    assert answer[4:8] == b"\x00\x00\x00\x05"
    reply = codec.decode_response(ApiKey.API_VERSIONS, 0, answer, 8)
    assert reply.error_code == ErrorCode.UNSUPPORTED_VERSION
    assert [(each.api_key, each.min_version, each.max_version) for each in reply.api_keys] == [(18, 0, 4)]


def test_requests_in_progress_are_given_up_at_shutdown() -> None:
    async def scenario() -> None:
        async def handler(broker: Any, request: Any, context: Any) -> None:
            await asyncio.sleep(1000)

        setup = Setup(handler)
        asking = asyncio.create_task(setup.ask())
        await virtual_time.settle()
        setup.dispatcher.cancel_all()
        with pytest.raises(asyncio.CancelledError):
            await asking

    virtual_time.run(scenario())


# Error replies

EVERY = [
    MessageVersion(APIS[key], "request", version)
    for key in HANDLERS
    for version in range(APIS[key].min_version, APIS[key].max_version + 1)
]


@pytest.mark.parametrize("each", EVERY, ids=str)
def test_every_api_has_an_error_reply_in_every_version(each: MessageVersion) -> None:
    """It can be written, and a client of that version finds the error in it."""
    request = codec.decode_request(each.api.key, each.version, encoded(each))
    code = ErrorCode.NOT_CONTROLLER
    reply = error_reply(each.api, request, each.version, code, "a reason")
    answer = b"".join(codec.encode_response(reply, each.version))
    decoded = codec.decode_response(each.api.key, each.version, answer)
    assert code in _codes(decoded)


def _codes(message: Any) -> list[int]:
    """All error codes in a message."""
    found = []
    for field in message.FIELDS:
        value = getattr(message, field.name)
        if field.name == "error_code":
            found.append(value)
        for item in value if isinstance(value, list) else [value]:
            if isinstance(item, messages.Message):
                found += _codes(item)
    return found


@pytest.mark.parametrize("version", range(12))
def test_a_produce_without_acknowledgement_has_no_error_reply(version: int) -> None:
    """The only way to tell the producer is to close the connection."""
    request = messages.produce_request.ProduceRequest(acks=0)
    with pytest.raises(ProtocolViolation, match="acks=0"):
        error_reply(APIS[ApiKey.PRODUCE], request, version, ErrorCode.UNKNOWN_SERVER_ERROR, None)
