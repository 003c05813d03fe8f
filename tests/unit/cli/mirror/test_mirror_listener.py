"""What clients of the target get who take the mirror for one of its brokers."""

from __future__ import annotations

import asyncio
import tracemalloc
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from kafkalite.cli.mirror import listener as listeners
from kafkalite.cli.mirror import logins
from kafkalite.cli.mirror import passing as passings
from kafkalite.cli.mirror.listener import Listener
from kafkalite.cli.mirror.listener_security import ListenerSecurity, load_security
from kafkalite.cli.mirror.passing import Passing
from kafkalite.cli.mirror.positions import Positions
from kafkalite.cli.mirror.relay import Relay
from kafkalite.cli.mirror.routes import ROUTES, Route, has_answer
from kafkalite.client.cluster.view import ClusterView
from kafkalite.errors import ErrorCode, ProtocolViolation
from kafkalite.net.frames import LENGTH, request_frame, response_frame
from kafkalite.protocol import codec, messages
from kafkalite.protocol.apis import APIS, ApiKey
from tests.certificates import Authority, write

TIMEOUT_S = 20
PLAIN = ListenerSecurity()
ANSWER = b"answered by a broker " * 10_000


class Broker:
    """A broker of the target that notes what it is asked, and answers everything but Produce with the same bytes."""

    def __init__(self) -> None:
        self.asked: list[tuple[int, bytes]] = []
        self.connections = 0
        self.closed = asyncio.Event()
        self.is_silent = False
        self.verdict = ErrorCode.UNKNOWN_TOPIC_ID
        self.requests = 0
        self.is_forgetful = False

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while True:
                (size,) = LENGTH.unpack(await reader.readexactly(4))
                frame = await reader.readexactly(size)
                self.requests += 1
                self.asked.append((self.connections, b"" if self.is_forgetful else frame))
                key = int.from_bytes(frame[:2], "big")
                if key == ApiKey.API_VERSIONS:
                    writer.writelines(tell_versions(frame))
                elif key == ApiKey.FETCH:
                    writer.writelines(answer_question(frame, self.verdict))
                elif key != ApiKey.PRODUCE and not self.is_silent:
                    body = frame[4:8] + ANSWER
                    writer.write(LENGTH.pack(len(body)) + body)
                del frame
        except asyncio.IncompleteReadError:
            self.closed.set()
            writer.close()


def tell_versions(frame: bytes) -> list[Any]:
    entry = messages.api_versions_response.ApiVersion
    keys = [entry(api_key=each, min_version=0, max_version=30) for each in (0, 1, 3, 16, 34, 62, 78)]
    response = messages.ApiVersionsResponse(api_keys=keys, finalized_features_epoch=7)
    return response_frame(
        APIS[ApiKey.API_VERSIONS], 3, int.from_bytes(frame[4:8], "big"), codec.encode_response(response, 3)
    )


def answer_question(frame: bytes, code: int) -> list[Any]:
    m = messages.fetch_response
    topic = m.FetchableTopicResponse(topic_id=b"u" * 16, partitions=[m.PartitionData(error_code=code, records=b"")])
    body = codec.encode_response(messages.FetchResponse(responses=[topic]), 17)
    return response_frame(APIS[ApiKey.FETCH], 17, int.from_bytes(frame[4:8], "big"), body)


class Source:
    view = ClusterView()

    def request_refresh(self) -> None:
        pass


class Client:
    """A connection to the mirror."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    async def send(self, request: Any, version: int, correlation: int = 5) -> bytes:
        """Send a request and return the bytes of it."""
        body = codec.encode_request(request, version)
        frame = b"".join(bytes(each) for each in request_frame(request.API, version, correlation, "me", body))
        self.writer.write(frame)
        return frame[4:]

    async def receive(self) -> bytes:
        (size,) = LENGTH.unpack(await self.reader.readexactly(4))
        return await self.reader.readexactly(size)

    async def is_closed(self) -> bool:
        return not await self.reader.read(1)


def run(
    test: Callable[[Broker, Callable[[], Awaitable[Client]]], Awaitable[None]], security: ListenerSecurity = PLAIN
) -> None:
    """Run a test with a broker of the target and a mirror that clients connect to."""

    async def attempt() -> None:
        broker = Broker()
        server = await asyncio.start_server(broker.serve, "127.0.0.1", 0, ssl=security.server)
        address = server.sockets[0].getsockname()[:2]
        source: Any = Source()
        relay = Relay(source, Positions())
        relay.strays = {b"s" * 16: "stray"}
        listener = Listener(relay, source, Passing(lambda: [("127.0.0.1", 1), address], security), security)
        await listener.listen("127.0.0.1", 0)
        assert listener._server is not None
        port = listener._server.sockets[0].getsockname()[1]
        opened: list[Client] = []

        async def connect() -> Client:
            opened.append(Client(*await asyncio.open_connection("127.0.0.1", port, ssl=security.client)))
            return opened[-1]

        try:
            async with asyncio.timeout(TIMEOUT_S):
                await test(broker, connect)
        finally:
            for each in opened:
                each.writer.close()
            await listener.close()
            server.close()

    asyncio.run(attempt())


def metadata() -> messages.MetadataRequest:
    return messages.MetadataRequest(topics=None)


def fetch(topic_id: bytes, replica: int) -> messages.FetchRequest:
    m = messages.fetch_request
    return m.FetchRequest(
        replica_state=m.ReplicaState(replica_id=replica, replica_epoch=77),
        max_wait_ms=1,
        topics=[m.FetchTopic(topic_id=topic_id, partitions=[m.FetchPartition(partition=0, fetch_offset=0)])],
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


def produce(acks: int) -> messages.ProduceRequest:
    return messages.ProduceRequest(transactional_id="t" * 200, acks=acks, timeout_ms=1, topic_data=[])


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
        first = await connect()
        await first.send(metadata(), 12)
        await first.receive()
        second = await connect()
        await second.send(metadata(), 12)
        assert await second.is_closed()
        follower = await connect()
        await follower.send(fetch(b"s" * 16, 1), 17)
        assert await follower.receive()

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


def handshake() -> messages.SaslHandshakeRequest:
    return messages.SaslHandshakeRequest(mechanism="PLAIN")


async def ask_as_follower(client: Client) -> Any:
    await client.send(fetch(b"s" * 16, 1), 17)
    return codec.decode_response(ApiKey.FETCH, 17, await client.receive(), 5)


def questions(broker: Broker) -> int:
    return sum(frame[:2] == ApiKey.FETCH.to_bytes(2, "big") for _, frame in broker.asked)


def test_a_broker_says_who_may_follow() -> None:
    async def test(broker: Broker, connect: Callable[[], Awaitable[Client]]) -> None:
        stranger = await connect()
        await stranger.send(fetch(b"s" * 16, 1), 17)
        assert await stranger.is_closed() and not broker.asked
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


SASL = ListenerSecurity("SASL_PLAINTEXT")


async def ask_versions(client: Client) -> None:
    await client.send(messages.ApiVersionsRequest(client_software_name="x", client_software_version="y"), 3)
    await client.receive()


async def log_in(client: Client) -> None:
    """Authenticate, and ask what only those are answered who have."""
    await client.send(handshake(), 1)
    await client.receive()
    await client.send(metadata(), 12)
    await client.receive()


def test_connections_that_do_not_authenticate_leave_room_for_followers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logins, "_OF_ONE_ADDRESS", 3)
    monkeypatch.setattr(passings, "_MAX_CLIENTS", 1)

    async def test(broker: Broker, connect: Callable[[], Awaitable[Client]]) -> None:
        known = await connect()
        await log_in(known)
        strangers = [await connect() for _ in range(2)]
        for each in strangers:
            await ask_versions(each)
        follower = await connect()
        await ask_versions(follower)
        assert await (await connect()).is_closed(), "one address has only so many"
        await follower.send(handshake(), 1)
        await follower.receive()
        assert (await ask_as_follower(follower)).responses
        one_more = await connect()
        await one_more.send(handshake(), 1)
        await one_more.receive()
        await one_more.send(metadata(), 12)
        assert await one_more.is_closed(), "clients have their bound"
        await known.send(metadata(), 12)
        assert await known.receive()

    run(test, SASL)


def test_a_connection_has_to_authenticate_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listeners, "_LOGIN_S", 1.0)

    async def test(broker: Broker, connect: Callable[[], Awaitable[Client]]) -> None:
        known = await connect()
        await log_in(known)
        stranger = await connect()
        await ask_versions(stranger)
        assert await stranger.is_closed()
        await known.send(metadata(), 12)
        assert await known.receive(), "it may stay"

    run(test, SASL)


def test_large_requests_are_refused_before_they_are_read_or_decoded(caplog: pytest.LogCaptureFixture) -> None:
    large = listeners._LARGE_BYTES + 1

    async def test(broker: Broker, connect: Callable[[], Awaitable[Client]]) -> None:
        stranger = await connect()
        stranger.writer.write(LENGTH.pack(large))
        assert await stranger.is_closed() and not broker.asked
        broker.verdict = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        client = await connect()
        await client.send(handshake(), 1)
        await client.receive()
        m = messages.metadata_request
        frame = await client.send(m.MetadataRequest(topics=[m.MetadataRequestTopic(name="n" * 249)] * 2000), 9)
        assert await client.receive() == frame[4:8] + ANSWER, "it has authenticated, though it may not follow"
        client.writer.write(LENGTH.pack(large) + b"\0\1\0\21" + b"\xff" * (large - 4))
        assert await client.is_closed()

    run(test, SASL)
    assert f"fetch of {large} bytes by a connection that may not follow" in caplog.text.lower()


def test_nothing_of_a_request_is_kept_while_its_answer_is_waited_for() -> None:
    size, count = 2 * 1024 * 1024, 4

    async def test(broker: Broker, connect: Callable[[], Awaitable[Client]]) -> None:
        broker.is_silent = broker.is_forgetful = True
        head = b"\0\3\0\14" + b"\0\0\0\5\0\0\0"
        clients = [await connect() for _ in range(count)]
        tracemalloc.start()
        try:
            for each in clients:
                each.writer.write(LENGTH.pack(size) + head + bytes(size - len(head)))
            while broker.requests < count:
                await asyncio.sleep(0.01)
            while tracemalloc.get_traced_memory()[0] > size:  # what the transports have still
                await asyncio.sleep(0.01)
        finally:
            tracemalloc.stop()

    run(test)


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
