"""From a frame to the answer's frame: versions, errors, and an error reply for every API in every version."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from kafkalite.broker.handlers import SERVED, api_versions, produce
from kafkalite.broker.identity.authorizer import Operation, Permission, ResourceType
from kafkalite.broker.requests.dispatch import Dispatcher
from kafkalite.broker.requests.served_api import serve_api
from kafkalite.errors import ErrorCode, InvariantBroken, KafkaError, ProtocolViolation
from kafkalite.net.frames import request_frame, response_body_position
from kafkalite.protocol import codec, messages
from kafkalite.protocol.apis import APIS, Api, ApiKey
from kafkalite.security.principal import ANONYMOUS, KafkaPrincipal
from kafkalite.testing.simulation import virtual_time
from tests.unit.protocol.kio_oracle import MessageVersion
from tests.unit.protocol.test_hostile_bytes import encoded
from zk.store import SessionExpiredError

API = APIS[ApiKey.DESCRIBE_CLUSTER]


class FakeConnection:
    """Where requests come from."""

    listener, peer_host, principal = "PLAINTEXT", "host", ANONYMOUS
    wants_template = False

    def stop_pipelining(self) -> None: ...

    def mute(self, duration_s: float) -> None: ...


CONNECTION = FakeConnection()


class Setup:
    """A dispatcher with one handler for DescribeCluster."""

    def __init__(self, handler: Any) -> None:
        self.errors = virtual_time.SeenErrors()
        self.dispatcher = Dispatcher("the parts", [serve_api(ApiKey.DESCRIBE_CLUSTER, 0, 1, handler)])

    async def ask(self, version: int = 1, api: Api = API, correlation_id: int = 77) -> Any:
        """The decoded answer; None when there is none."""
        body = codec.encode_request(getattr(messages, f"{api.name}_request").ROOT(), min(version, api.max_version))
        frame = b"".join(request_frame(api, version, correlation_id, "me", body))
        reply = self.dispatcher.handle(memoryview(frame)[4:], CONNECTION)
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
    def sync(parts: Any, request: Any, context: Any) -> Any:
        raise problem

    async def coroutine(parts: Any, request: Any, context: Any) -> Any:
        await asyncio.sleep(1)
        raise problem

    def future(parts: Any, request: Any, context: Any) -> Any:
        made = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().call_later(1, made.set_exception, problem)
        return made

    return {"sync": sync, "coroutine": coroutine, "future": future}[kind]


KINDS = pytest.mark.parametrize("kind", ["sync", "coroutine", "future"])


@KINDS
def test_answers(kind: str) -> None:
    made = messages.describe_cluster_response.DescribeClusterResponse(cluster_id="c", controller_id=3)
    seen: list[Any] = []

    def sync(parts: Any, request: Any, context: Any) -> Any:
        seen.append((parts, type(request).__name__, context.api_version, context.client_id, context.connection))
        return made

    async def coroutine(parts: Any, request: Any, context: Any) -> Any:
        await asyncio.sleep(1)
        return sync(parts, request, context)

    def future(parts: Any, request: Any, context: Any) -> Any:
        pending = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().call_later(1, pending.set_result, sync(parts, request, context))
        return pending

    reply, setup = reply_of({"sync": sync, "coroutine": coroutine, "future": future}[kind])
    assert (reply.cluster_id, reply.controller_id) == ("c", 3)
    assert seen == [("the parts", "DescribeClusterRequest", 1, "me", CONNECTION)]
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
        dispatcher = Dispatcher("the parts", [serve_api(ApiKey.FETCH, 4, 17, lambda *_: None)])  # type: ignore[arg-type]
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
def test_the_end_of_a_session_with_zookeeper_was_an_unexpected_error(kind: str) -> None:
    """A paused broker that woke up was told its roles, and read a topic's configuration in a session that was over."""
    reply, setup = reply_of(_raiser(SessionExpiredError("/config/topics/t", "the session ended"), kind))
    assert reply.error_code == ErrorCode.REQUEST_TIMED_OUT
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
    assert reply_of(lambda parts, request, context: None)[0] is None


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
    setup = Setup(lambda parts, request, context: None)
    with pytest.raises(ProtocolViolation):
        setup.dispatcher.handle(memoryview(frame), CONNECTION)


def test_an_unknown_version_of_api_versions_is_answered() -> None:
    async def scenario() -> Any:
        dispatcher = Dispatcher(None, api_versions.APIS)  # type: ignore[arg-type]
        frame = b"\x00\x12\x00\x63\x00\x00\x00\x05" + b"anything at all"
        return dispatcher.handle(memoryview(frame), CONNECTION)

    answer = b"".join(virtual_time.run(scenario()))
    assert answer[4:8] == b"\x00\x00\x00\x05"
    reply = codec.decode_response(ApiKey.API_VERSIONS, 0, answer, 8)
    assert reply.error_code == ErrorCode.UNSUPPORTED_VERSION
    assert [(each.api_key, each.min_version, each.max_version) for each in reply.api_keys] == [(18, 0, 4)]


def test_requests_in_progress_are_given_up_at_shutdown() -> None:
    async def scenario() -> None:
        async def handler(parts: Any, request: Any, context: Any) -> None:
            await asyncio.sleep(1000)

        setup = Setup(handler)
        asking = asyncio.create_task(setup.ask())
        await virtual_time.settle()
        setup.dispatcher.cancel_all()
        with pytest.raises(asyncio.CancelledError):
            await asking

    virtual_time.run(scenario())


# Failures


def test_every_api_has_a_failure_in_every_version() -> None:
    """It can be written, and a client of that version finds the error in it; DescribeLogDirs has a place for it from version 3 on."""
    code = ErrorCode.NOT_CONTROLLER
    for each in SERVED:
        first = 3 if each.api.key == ApiKey.DESCRIBE_LOG_DIRS else each.first_version
        for version in range(first, each.last_version + 1):
            asked = MessageVersion(each.api, "request", version)
            request = codec.decode_request(each.api.key, version, encoded(asked))
            answer = b"".join(codec.encode_response(each.failure(request, code, "a reason"), version))
            assert code in _codes(codec.decode_response(each.api.key, version, answer)), asked


SPOKEN_ONLY = {
    ApiKey.BROKER_REGISTRATION,
    ApiKey.BROKER_HEARTBEAT,
    ApiKey.UNREGISTER_BROKER,
    ApiKey.DESCRIBE_TOPIC_PARTITIONS,
}
"""APIs that only clients of ours use, with Apache Kafka."""


def test_every_api_is_served_once_and_in_versions_that_the_codec_knows() -> None:
    keys = [each.api.key for each in SERVED]
    assert sorted(keys) == sorted(set(keys)) == sorted(set(ApiKey) - SPOKEN_ONLY)
    with pytest.raises(InvariantBroken, match="the codec knows 0 to 1"):
        serve_api(ApiKey.DESCRIBE_CLUSTER, 0, 2, lambda *_: None)


def _codes(message: Any) -> list[int]:
    """All error codes in a message."""
    found = []
    for field in message.FIELDS:
        value = getattr(message, field.name)
        if field.name in ("error_code", "partition_error_code"):
            found.append(value)
        for item in value if isinstance(value, list) else [value]:
            if isinstance(item, messages.Message):
                found += _codes(item)
    return found


def test_a_produce_without_acknowledgement_has_no_failure_to_tell() -> None:
    """The only way to tell the producer is to close the connection."""
    request = messages.produce_request.ProduceRequest(acks=0)
    with pytest.raises(ProtocolViolation, match="acks=0"):
        produce.APIS[0].failure(request, ErrorCode.UNKNOWN_SERVER_ERROR, None)


# Permissions


class Denying:
    """Allows everything on the cluster but `denied`; notes what it was asked."""

    def __init__(self, denied: Operation) -> None:
        self.denied = denied
        self.generation = 0
        self.asked: list[Any] = []

    def allows(self, principal: KafkaPrincipal, host: str, permission: Permission, name: str) -> bool:
        self.asked.append((str(principal), host, permission, name))
        return permission.operation is not self.denied

    def allows_some(self, principal: KafkaPrincipal, host: str, permission: Permission) -> bool:
        raise AssertionError("nobody asked for any topic")


@KINDS
def test_what_needs_a_permission_of_the_cluster_is_refused_without_it(kind: str) -> None:
    """The handler is not asked, and the failure has the API's own shape."""
    permission = Permission(Operation.ALTER, ResourceType.CLUSTER)
    handler = _raiser(AssertionError("it was asked"), kind)

    async def scenario(denied: Operation) -> tuple[Any, Denying]:
        authorizer = Denying(denied)
        setup = Setup(handler)
        api = serve_api(ApiKey.DESCRIBE_CLUSTER, 0, 1, handler, permission)
        setup.dispatcher = Dispatcher("the parts", [api], authorizer)
        with virtual_time.expected_errors():
            return await setup.ask(), authorizer

    reply, authorizer = virtual_time.run(scenario(Operation.ALTER))
    assert reply.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert authorizer.asked == [("User:ANONYMOUS", "host", permission, "kafka-cluster")]
    reply, _ = virtual_time.run(scenario(Operation.DESCRIBE))
    assert reply.error_code == ErrorCode.UNKNOWN_SERVER_ERROR, "it was asked"


def test_dispatch_checks_permissions_of_the_cluster_only() -> None:
    with pytest.raises(InvariantBroken, match="DESCRIBE_CLUSTER: dispatch checks a permission of the cluster"):
        serve_api(ApiKey.DESCRIBE_CLUSTER, 0, 1, lambda *_: None, Permission(Operation.READ, ResourceType.TOPIC))


def test_handlers_find_the_authorizer_in_the_context() -> None:
    seen: list[Any] = []
    authorizer = Denying(Operation.READ)

    async def scenario() -> None:
        setup = Setup(None)
        api = serve_api(ApiKey.DESCRIBE_CLUSTER, 0, 1, lambda parts, request, context: seen.append(context))
        setup.dispatcher = Dispatcher("the parts", [api], authorizer)
        assert await setup.ask() is None

    virtual_time.run(scenario())
    assert seen[0].authorizer is authorizer and authorizer.asked == [], "what depends on names is the handler's"
