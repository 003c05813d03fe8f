"""What clients of the target get who take the mirror for one of its brokers."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from kafkalite.cli.mirror import listener as listeners
from kafkalite.cli.mirror import passing as passings
from kafkalite.cli.mirror.listener import Listener
from kafkalite.cli.mirror.listener_security import ListenerSecurity, load_security
from kafkalite.cli.mirror.passing import Passing
from kafkalite.cli.mirror.positions import Positions
from kafkalite.cli.mirror.relay import Relay
from kafkalite.cli.mirror.routes import ROUTES, Route, has_answer
from kafkalite.errors import ErrorCode, ProtocolViolation
from kafkalite.net.frames import LENGTH, request_frame
from kafkalite.protocol import codec, messages
from kafkalite.protocol.apis import APIS, ApiKey
from tests.certificates import Authority, write
from tests.unit.cli.mirror.listened import (
    ANSWER,
    PLAIN,
    Broker,
    Client,
    Source,
    ask_as_follower,
    ask_versions,
    fetch,
    handshake,
    metadata,
    produce,
    run,
)


def test_a_request_reaches_a_broker_and_its_response_the_client_as_they_are() -> None:
    async def test(broker: Broker, connect: Callable[[], Awaitable[Client]]) -> None:
        client = await connect()
        for correlation in (5, 6):
            frame = await client.send(metadata(), 12, correlation)
            assert await client.receive() == frame[4:8] + ANSWER
            assert broker.asked[-1] == (1, frame), "a connection of its own, with order and authentication"
        other = await connect()
        await other.send(metadata(), 12)
        await other.receive()
        assert broker.asked[-1][0] == 2
        client.writer.close()
        await broker.closed.wait()

    run(test)


def test_versions_are_those_of_a_broker_where_the_mirror_does_not_answer_itself() -> None:
    async def test(broker: Broker, connect: Callable[[], Awaitable[Client]]) -> None:
        client = await connect()
        await client.send(messages.ApiVersionsRequest(client_software_name="x", client_software_version="y"), 3)
        told = codec.decode_response(ApiKey.API_VERSIONS, 3, await client.receive(), 4)
        newest = {each.api_key: each.max_version for each in told.api_keys}
        assert newest == {0: 30, 1: 18, 3: 30, 16: APIS[16].max_version, 78: 30}, (
            "no AlterReplicaLogDirs, no BrokerRegistration"
        )
        assert told.finalized_features_epoch == 7

    run(test)


def test_what_every_broker_is_asked_about_itself_is_not_told_twice() -> None:
    async def test(broker: Broker, connect: Callable[[], Awaitable[Client]]) -> None:
        client = await connect()
        for request, version in (
            (messages.ListGroupsRequest(), 5),
            (messages.ListTransactionsRequest(), 1),
            (messages.DescribeLogDirsRequest(topics=None), 4),
        ):
            await client.send(request, version)
            told = codec.decode_response(request.API.key, version, await client.receive(), 5)
            assert told.error_code == 0
        assert not broker.asked

    run(test)


def test_a_client_that_fetches_is_sent_to_look_for_the_leader_and_a_follower_of_anothers_topic_gets_an_empty_log() -> (
    None
):
    async def test(broker: Broker, connect: Callable[[], Awaitable[Client]]) -> None:
        client = await connect()
        for replica, code, watermark in ((-1, ErrorCode.NOT_LEADER_OR_FOLLOWER, -1), (1, 0, 0)):
            await client.send(fetch(b"s" * 16, replica), 17)
            told = codec.decode_response(ApiKey.FETCH, 17, await client.receive(), 5)
            (answer,) = told.responses[0].partitions
            assert (answer.error_code, answer.high_watermark) == (code, watermark)
        assert not broker.asked

    run(test)


@pytest.mark.parametrize(
    "request_", [messages.ListOffsetsRequest(replica_id=-1), messages.OffsetForLeaderEpochRequest(replica_id=-2)]
)
def test_a_client_that_asks_for_offsets_is_answered_by_a_broker(request_: Any) -> None:
    async def test(broker: Broker, connect: Callable[[], Awaitable[Client]]) -> None:
        client = await connect()
        frame = await client.send(request_, 4)
        assert await client.receive() == frame[4:8] + ANSWER

    run(test)


def test_a_request_without_a_response_does_not_hold_those_behind_it() -> None:
    async def test(broker: Broker, connect: Callable[[], Awaitable[Client]]) -> None:
        client = await connect()
        await client.send(produce(0), 9)
        frame = await client.send(metadata(), 12, 6)
        assert await client.receive() == frame[4:8] + ANSWER
        assert [each[1] for each in broker.asked][-1] == frame

    run(test)


@pytest.mark.parametrize("version", [3, 8, 9, 11])
@pytest.mark.parametrize("acks", [-1, 0, 1])
def test_only_produce_with_acks_0_has_no_response(version: int, acks: int) -> None:
    request = produce(acks)
    body = codec.encode_request(request, version)
    frame = b"".join(bytes(each) for each in request_frame(request.API, version, 1, "me", body))[4:]
    assert has_answer(ApiKey.PRODUCE, version, frame) is (acks != 0)
    with pytest.raises(ProtocolViolation):
        has_answer(ApiKey.PRODUCE, version, frame[:20])


def test_a_connection_ends_with_its_broker_with_its_client_and_with_what_is_not_for_a_mirror(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(passings, "_POLL_S", 0.01)

    async def test(broker: Broker, connect: Callable[[], Awaitable[Client]]) -> None:
        client = await connect()
        await client.send(messages.BrokerHeartbeatRequest(), 0)
        assert await client.is_closed() and not broker.asked
        broker.is_silent = True
        waiting = await connect()
        await waiting.send(metadata(), 12)
        waiting.writer.close()
        await broker.closed.wait()

    run(test)


def test_clients_have_a_bound_and_followers_do_not_share_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(passings, "_MAX_CLIENTS", 1)

    async def test(broker: Broker, connect: Callable[[], Awaitable[Client]]) -> None:
        follower = await connect()
        await ask_versions(follower)
        assert (await ask_as_follower(follower)).responses
        await broker.closed.wait()  # it holds no connection to a broker of the target
        first = await connect()
        await first.send(metadata(), 12)
        await first.receive()
        second = await connect()
        await second.send(metadata(), 12)
        assert await second.is_closed()
        follower = await connect()
        await ask_versions(follower)
        assert (await ask_as_follower(follower)).responses

    run(test)


def test_large_requests_are_received_and_too_large_ones_end_the_connection() -> None:
    async def test(broker: Broker, connect: Callable[[], Awaitable[Client]]) -> None:
        client = await connect()
        topics = [messages.metadata_request.MetadataRequestTopic(name="n" * 249) for _ in range(2000)]
        frame = await client.send(messages.MetadataRequest(topics=topics), 9)
        assert len(frame) > listeners._LARGE_BYTES and await client.receive() == frame[4:8] + ANSWER
        client.writer.write(LENGTH.pack(listeners._MAX_REQUEST_BYTES + 1))
        assert await client.is_closed()

    run(test)


def test_what_goes_wrong_with_connections_is_told_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    brokers = [("127.0.0.1", 1)]
    passing = Passing(lambda: brokers, PLAIN)
    source: Any = Source()
    listener = Listener(Relay(source, Positions(), lambda _: True), source, passing, PLAIN)

    async def test(broker: Broker, connect: Callable[[], Awaitable[Client]]) -> None:
        assert not listener.describe_problems()
        await listener.listen("127.0.0.1", 0)
        assert listener._server is not None
        reader, writer = await asyncio.open_connection(*listener._server.sockets[0].getsockname()[:2])
        with pytest.raises(ConnectionError):
            await passing.connect()
        assert "nothing is passed on to 127.0.0.1:1 of the target" in listener.describe_problems()[0]
        client = Client(reader, writer)
        await client.send(messages.BrokerHeartbeatRequest(), 0)
        assert await client.is_closed()
        assert listener.describe_problems()[1] == "the listener ended a connection: API 63 is not for a mirror"
        monkeypatch.setattr(passings, "SHOWN_S", -1)
        monkeypatch.setattr(listeners, "SHOWN_S", -1)
        assert not listener.describe_problems()
        writer.close()
        await listener.close()

    run(test)


def test_nobody_is_passed_on_with_a_refusal() -> None:
    async def test(broker: Broker, connect: Callable[[], Awaitable[Client]]) -> None:
        client = await connect()
        await client.send(metadata(), 12)
        assert await client.is_closed() and not broker.asked

    run(test, ListenerSecurity(refusal="not by TLS"))


def test_the_table_leaves_out_what_is_for_controllers_or_for_the_directories_of_one_broker() -> None:
    controllers = {ApiKey.LEADER_AND_ISR, ApiKey.ALTER_PARTITION, ApiKey.ENVELOPE, ApiKey.BROKER_HEARTBEAT}
    assert not ROUTES.keys() & {*controllers, ApiKey.ALTER_REPLICA_LOG_DIRS}
    assert all(key in APIS for key, route in ROUTES.items() if route is not Route.PASSED_ON), "the mirror answers these"


# SASL and TLS


def questions(broker: Broker) -> int:
    return sum(frame[:2] == ApiKey.FETCH.to_bytes(2, "big") for _, frame in broker.asked)


def test_a_broker_says_who_may_follow() -> None:
    async def test(broker: Broker, connect: Callable[[], Awaitable[Client]]) -> None:
        anonymous = await connect()
        await anonymous.send(fetch(b"s" * 16, 1), 17)
        assert await anonymous.is_closed() and not broker.asked
        client = await connect()
        for asked in (1, 2):
            await client.send(handshake(), 1)
            await client.receive()
            for _ in range(2):
                (answer,) = (await ask_as_follower(client)).responses[0].partitions
                assert answer.error_code == 0 and questions(broker) == asked, "once after each authentication"
        broker.verdict = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        other = await connect()
        await other.send(handshake(), 1)
        await other.receive()
        await other.send(fetch(b"s" * 16, 1), 17)
        assert await other.is_closed() and questions(broker) == 3

    run(test, ListenerSecurity("SASL_PLAINTEXT"))


def test_a_large_request_of_a_follower_that_has_authenticated_again_is_answered() -> None:
    m = messages.fetch_request
    request = fetch(b"s" * 16, 1)
    request.topics[0].partitions = [m.FetchPartition(partition=each) for each in range(10_000)]

    async def test(broker: Broker, connect: Callable[[], Awaitable[Client]]) -> None:
        follower = await connect()
        for asked in (1, 2):
            await follower.send(handshake(), 1)
            await follower.receive()
            assert len(await follower.send(request, 17)) > listeners._LARGE_BYTES
            assert await follower.receive() and questions(broker) == asked

    run(test, ListenerSecurity("SASL_PLAINTEXT"))


def test_consumers_need_no_leave_to_be_sent_away() -> None:
    async def test(broker: Broker, connect: Callable[[], Awaitable[Client]]) -> None:
        client = await connect()
        await client.send(fetch(b"s" * 16, -1), 17)
        await client.receive()
        assert not broker.asked

    run(test, ListenerSecurity("SASL_PLAINTEXT"))


def test_tls_ends_at_the_mirror_and_begins_again_without_its_certificate(tmp_path: Path) -> None:
    authority = Authority()
    keystore = write(tmp_path / "key.pem", authority.issue("mirror").pem)
    truststore = write(tmp_path / "trust.pem", authority.pem)
    target = {
        "bootstrap_servers": "h:1",
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": "PLAIN",
        "sasl_username": "u",
        "sasl_password": "p",
        "ssl_truststore_location": truststore,
        "ssl_keystore_location": keystore,
    }
    security = load_security("SASL_SSL", {"ssl_keystore_location": keystore}, target)

    async def test(broker: Broker, connect: Callable[[], Awaitable[Client]]) -> None:
        client = await connect()
        frame = await client.send(metadata(), 12)
        assert await client.receive() == frame[4:8] + ANSWER

    run(test, security)
    with pytest.raises(ValueError, match=r"ssl\.keystore"):
        load_security("SASL_SSL", {}, target)
    with pytest.raises(ValueError, match="SASL_PLAINTEXT listener between"):
        load_security("SASL_PLAINTEXT", {}, target)
    assert "refused" in load_security("PLAINTEXT", {}, target).refusal
    assert load_security("PLAINTEXT", {}, {"bootstrap_servers": "h:1"}) == PLAIN
