"""PeerHeartbeat: its bytes, who learns of it, who may send it, and what is taken from it."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from kafkalite.broker.failure_detection.evidence import Accusation, Evidence, PeerHeartbeat, Sighting
from kafkalite.broker.handlers import peer_heartbeat
from kafkalite.broker.identity.authorizer import CLUSTER_ACTION, Permission
from kafkalite.errors import ErrorCode, ProtocolViolation
from kafkalite.protocol import codec, messages
from kafkalite.protocol.apis import APIS, CLIENT_SOFTWARE_NAME, FIRST_PRIVATE_KEY, PEER_SOFTWARE_NAME, ApiKey
from kafkalite.testing.simulation import virtual_time
from tests.unit.broker.memory_parts import BROKER_EPOCH, MemoryParts
from tests.unit.protocol.hostile_frames import arrays, body_with_many

INCARNATION = bytes(range(16))
CLIENTS = "CLIENT"
"""A listener that is not the one of brokers."""
q = messages.peer_heartbeat_request


def play(scenario: Callable[[], Awaitable[Any]]) -> Any:
    return virtual_time.run(scenario())  # type: ignore[arg-type]


def parts_with_two_listeners() -> MemoryParts:
    return MemoryParts(
        listeners=f"PLAINTEXT://:9092,{CLIENTS}://:9093",
        listener_security_protocol_map=f"PLAINTEXT:PLAINTEXT,{CLIENTS}:PLAINTEXT",
        inter_broker_listener_name="PLAINTEXT",
    )


def heartbeat(broker_id: int = 2, **fields: Any) -> messages.PeerHeartbeatRequest:
    return messages.PeerHeartbeatRequest(
        broker_id=broker_id,
        **{
            "broker_epoch": 55,
            "incarnation": INCARNATION,
            "session_id": 0x1234,
            "session_password": b"secret-of-broker",
            **fields,
        },
    )


class Receiver:
    """A `FailureDetection` that notes what it was given."""

    def __init__(self) -> None:
        self.broker_epoch, self.incarnation = BROKER_EPOCH, bytes(16)
        self.sightings = (Sighting(1, 66, True),)
        self.heartbeats: list[PeerHeartbeat] = []

    def note_heartbeat(self, heartbeat: PeerHeartbeat) -> None:
        self.heartbeats.append(heartbeat)


def accepted(request: messages.PeerHeartbeatRequest) -> tuple[list[PeerHeartbeat], Any]:
    """(what the failure detection was given, the response)."""
    parts, receiver = MemoryParts(), Receiver()
    parts.failure_detection = receiver  # type: ignore[assignment]
    return receiver.heartbeats, play(lambda: parts.ask(request, 0))


# Bytes


def test_the_bytes_of_a_heartbeat() -> None:
    request = heartbeat(
        accusations=[q.Accusation(broker_id=3, broker_epoch=66, evidence=2)],
        neighbours=[q.Neighbour(broker_id=4, broker_epoch=77, is_heard=True)],
    )
    expected = (
        bytes.fromhex("00000002 0000000000000037")
        + INCARNATION
        + bytes.fromhex("0000000000001234 11")
        + b"secret-of-broker"
        + bytes.fromhex("02 00000003 0000000000000042 02 00")
        + bytes.fromhex("02 00000004 000000000000004d 01 00 00")
    )
    assert b"".join(codec.encode_request(request, 0)) == expected
    assert codec.decode_request(ApiKey.PEER_HEARTBEAT, 0, expected) == request
    absent = heartbeat(session_password=None)
    assert codec.decode_request(ApiKey.PEER_HEARTBEAT, 0, b"".join(codec.encode_request(absent, 0))) == absent


def test_the_bytes_of_a_response() -> None:
    response = messages.PeerHeartbeatResponse(error_code=42, broker_epoch=BROKER_EPOCH, incarnation=INCARNATION)
    expected = bytes.fromhex("00000000 002a 0000000000000046") + INCARNATION + bytes.fromhex("01 00")
    assert b"".join(codec.encode_response(response, 0)) == expected
    assert codec.decode_response(ApiKey.PEER_HEARTBEAT, 0, expected) == response


# Who learns of it


def asking_versions(name: str) -> messages.ApiVersionsRequest:
    return messages.ApiVersionsRequest(client_software_name=name, client_software_version="1")


@pytest.mark.parametrize("version", range(5))
def test_api_versions_names_private_apis_to_brokers_only(version: int) -> None:
    """And to clients of ours those that are for clients. Every other answer has the same bytes, those of all APIs of Apache Kafka that are
    served; before version 3 there are no names."""

    async def scenario() -> None:
        parts = parts_with_two_listeners()
        of_clients = await parts.ask_bytes(asking_versions("apache-kafka-java"), version, listener=CLIENTS)
        for name in ("apache-kafka-java", "kafkalite", "kafkalite-brokers", PEER_SOFTWARE_NAME):
            for listener in ("PLAINTEXT", CLIENTS):
                given = await parts.ask_bytes(asking_versions(name), version, listener=listener)
                is_ours = name == CLIENT_SOFTWARE_NAME or (name, listener) == (PEER_SOFTWARE_NAME, "PLAINTEXT")
                assert (given == of_clients) is not (is_ours and version >= 3), (name, listener)
        to_all = (await parts.ask(asking_versions("a"), version)).api_keys
        to_peers = (await parts.ask(asking_versions(PEER_SOFTWARE_NAME), version)).api_keys
        to_clients = (await parts.ask(asking_versions(CLIENT_SOFTWARE_NAME), version, listener=CLIENTS)).api_keys
        *private, for_clients = [
            messages.api_versions_response.ApiVersion(api_key=key, min_version=0, max_version=0)
            for key in (ApiKey.PEER_HEARTBEAT, ApiKey.METADATA_DIGESTS, ApiKey.COPY_RECORDS, ApiKey.DIGEST_RECORDS)
        ]
        assert not [each for each in to_all if each.api_key >= FIRST_PRIVATE_KEY]
        assert to_peers == ([*to_all, *private, for_clients] if version >= 3 else to_all)
        assert to_clients == ([*to_all, for_clients] if version >= 3 else to_all)

    play(scenario)


# Who may send it


def test_it_is_unknown_on_listeners_of_clients() -> None:
    """Before anything of it is read, and to a client that lacks the permission too; Apache Kafka closes on an unknown key as well."""

    async def scenario() -> None:
        parts = parts_with_two_listeners()
        with pytest.raises(ProtocolViolation, match=r"^unknown api key 20000$"):
            await parts.ask(heartbeat(), 0, Judge(()), listener=CLIENTS)
        assert parts.failure_detection.find(2) is None
        assert (await parts.ask(heartbeat(), 0)).error_code == ErrorCode.NONE

    play(scenario)


class Judge:
    """An authorizer that allows these permissions."""

    def __init__(self, allowed: tuple[Permission, ...]) -> None:
        self._allowed = allowed
        self.generation = 0

    def allows(self, principal: object, host: str, permission: Permission, name: str) -> bool:
        return permission in self._allowed

    def allows_some(self, principal: object, host: str, permission: Permission) -> bool:
        raise AssertionError("nobody asked for any topic")


def test_it_needs_cluster_action() -> None:
    async def scenario() -> None:
        parts = MemoryParts()
        refused = await parts.ask(heartbeat(), 0, Judge(()))
        assert refused == messages.PeerHeartbeatResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
        assert parts.failure_detection.find(2) is None
        assert (await parts.ask(heartbeat(), 0, Judge((CLUSTER_ACTION,)))).error_code == ErrorCode.NONE
        assert parts.failure_detection.find(2) is not None

    play(scenario)


# What is taken from it


def test_a_heartbeat_is_passed_on_and_answered() -> None:
    sights = [q.Neighbour(broker_id=1, broker_epoch=66, is_heard=True), q.Neighbour(broker_id=9, is_heard=True)]
    request = heartbeat(accusations=[q.Accusation(broker_id=1, broker_epoch=66, evidence=1)], neighbours=sights * 60)
    heartbeats, response = accepted(request)
    accusations, sightings = (Accusation(1, 66, Evidence.REFUSED),), (Sighting(1, 66, True),) * 50
    assert heartbeats == [PeerHeartbeat(2, 55, INCARNATION, 0x1234, b"secret-of-broker", accusations, sightings)]
    assert type(heartbeats[0].session_password) is bytes, "not a view of the receive buffer"
    sight = messages.peer_heartbeat_response.Neighbour(broker_id=1, broker_epoch=66, is_heard=True)
    assert response == messages.PeerHeartbeatResponse(broker_epoch=BROKER_EPOCH, neighbours=[sight])


def test_accusations_that_mean_nothing_here_are_left_out() -> None:
    """Of another release, of brokers that metadata does not have; certain evidence is acted on by who has it."""
    wanted = [(1, 1), (2, 2), (9, 1), (1, 3), (1, 0), (1, -1), (1, 77), (-1, 1)]
    request = heartbeat(accusations=[q.Accusation(broker_id=who, broker_epoch=1, evidence=why) for who, why in wanted])
    (found,), _ = accepted(request)
    assert [(each.broker_id, each.evidence) for each in found.accusations] == [(1, 1), (2, 2)]


def test_more_accusations_than_brokers_can_be_are_left_out() -> None:
    request = heartbeat(accusations=[q.Accusation(broker_id=1, broker_epoch=each, evidence=1) for each in range(1500)])
    (found,), response = accepted(request)
    assert len(found.accusations) == 1000 and response.error_code == ErrorCode.NONE


@pytest.mark.parametrize(
    ("request_", "code"),
    [
        (heartbeat(1), ErrorCode.INVALID_REQUEST),
        (heartbeat(3), ErrorCode.BROKER_ID_NOT_REGISTERED),
        (heartbeat(-1), ErrorCode.BROKER_ID_NOT_REGISTERED),
        (heartbeat(session_password=bytes(65)), ErrorCode.INVALID_REQUEST),
    ],
    ids=["of this broker", "of an unknown broker", "of no broker", "a long password"],
)
def test_a_heartbeat_that_cannot_be_true_is_refused(request_: messages.PeerHeartbeatRequest, code: ErrorCode) -> None:
    heartbeats, response = accepted(request_)
    assert heartbeats == []
    assert response == messages.PeerHeartbeatResponse(error_code=code)


def test_the_longest_password_is_taken() -> None:
    (found,), _ = accepted(heartbeat(session_password=bytes(64)))
    assert found.session_password == bytes(64)


# Secrets


def test_no_text_shows_the_password() -> None:
    (found,), _ = accepted(heartbeat())
    parts = MemoryParts()
    parts.failure_detection.note_heartbeat(found)
    kept = parts.failure_detection.find(2)
    assert kept is not None and kept.password == b"secret-of-broker"
    for each in (heartbeat(), found, kept):
        assert "secret" not in repr(each)
    assert "session_password=[hidden]" in repr(heartbeat())
    long_one = play(lambda: MemoryParts().ask(heartbeat(session_password=b"secret" * 20), 0))
    assert "secret" not in repr(long_one)


@pytest.mark.parametrize(
    "message",
    [
        messages.SaslAuthenticateRequest(auth_bytes=b"secret"),
        messages.RenewDelegationTokenRequest(hmac=b"secret"),
        messages.alter_user_scram_credentials_request.ScramCredentialUpsertion(salted_password=b"secret"),
    ],
    ids=lambda each: type(each).__name__,
)
def test_no_text_shows_other_credentials(message: Any) -> None:
    assert "[hidden]" in repr(message) and "secret" not in repr(message)


# Hostile bytes


def test_cut_and_random_requests_are_violations_of_the_protocol() -> None:
    whole = b"".join(codec.encode_request(heartbeat(accusations=[q.Accusation()]), 0))
    for length in range(len(whole)):
        with pytest.raises(ProtocolViolation):
            codec.decode_request(ApiKey.PEER_HEARTBEAT, 0, whole[:length])
    schema = messages.schema(APIS[ApiKey.PEER_HEARTBEAT], "request", 0)
    assert list(arrays(schema)) == [("accusations",), ("neighbours",)]
    many = codec.decode_request(ApiKey.PEER_HEARTBEAT, 0, body_with_many(schema, ("accusations",), 5000))
    assert len(many.accusations) == 5000
    rng = random.Random(1)
    for _ in range(200):
        try:
            codec.decode_request(ApiKey.PEER_HEARTBEAT, 0, rng.randbytes(rng.randrange(120)))
        except ProtocolViolation:
            continue


def test_the_record_of_the_api_is_complete() -> None:
    (served,) = peer_heartbeat.APIS
    assert (served.api.is_private, served.cluster_permission) == (True, CLUSTER_ACTION)
