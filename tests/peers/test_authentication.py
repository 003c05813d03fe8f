"""What is said before authentication, to Apache Kafka and to us: the same frames are answered with the same bytes, or not at all.

A client of Java's talks to our listeners with SASL_SSL.
"""

from __future__ import annotations

import socket
import struct
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import pytest
from confluent_kafka.admin import AdminClient, ScramCredentialInfo, ScramMechanism, UserScramCredentialUpsertion

from kafkalite.local.broker_process import BROKER_COMMAND
from kafkalite.net.frames import request_frame
from kafkalite.protocol import codec, messages
from kafkalite.protocol.apis import APIS, ApiKey
from tests.certificates import write
from tests.peers import apache_kafka
from tests.wire.secured import USER, USER_PASSWORD, SecuredCluster

pytestmark = pytest.mark.peer

DEADLINE_S: Final = 60
SETTINGS: Final = {"listener.name.sasl.plain.connections.max.reauth.ms": "3600000"}
RIGHT: Final = f"\0{USER}\0{USER_PASSWORD}".encode()


@pytest.fixture(scope="module")
def clusters(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mapping[str, SecuredCluster]]:
    commands = {"apache": apache_kafka.broker_command(), "ours": list(BROKER_COMMAND)}
    running: dict[str, SecuredCluster] = {}
    try:
        for name, command in commands.items():
            folder = tmp_path_factory.mktemp(name) / "files"
            running[name] = SecuredCluster(folder, 1, SETTINGS, command=command).__enter__()
            apache_kafka.wait_for_controller(running[name].bootstrap_servers)
            admin = AdminClient({"bootstrap.servers": running[name].bootstrap_servers})
            user = UserScramCredentialUpsertion(
                USER, ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096), USER_PASSWORD.encode()
            )
            admin.alter_user_scram_credentials([user])[USER].result(DEADLINE_S)
        yield running
    finally:
        for each in running.values():
            each.close()


def request(message: Any, version: int) -> bytes:
    frame = request_frame(APIS[message.API.key], version, 7, "me", codec.encode_request(message, version))
    return b"".join(bytes(each) for each in frame)


def handshake(version: int = 1, mechanism: str = "PLAIN") -> bytes:
    return request(messages.sasl_handshake_request.SaslHandshakeRequest(mechanism=mechanism), version)


def token(content: bytes, version: int = 2) -> bytes:
    return request(messages.sasl_authenticate_request.SaslAuthenticateRequest(auth_bytes=content), version)


def bare(content: bytes) -> bytes:
    return struct.pack(">i", len(content)) + content


def versions(version: int = 3, name: str = "a") -> bytes:
    asked = messages.api_versions_request.ApiVersionsRequest(client_software_name=name, client_software_version="1")
    frame = request(asked, min(version, 3))
    return frame[:6] + struct.pack(">h", version) + frame[8:]


METADATA = request(messages.metadata_request.MetadataRequest(topics=[]), 9)
DIALOGUES: Final[Mapping[str, list[bytes]]] = {
    "right": [handshake(), token(RIGHT)],
    "right, versions asked": [versions(), handshake(), token(RIGHT, 0)],
    "versions of the future": [versions(99), versions(), handshake(), token(RIGHT, 1)],
    "versions twice": [versions(), versions()],
    "client without a name": [versions(3, "?"), versions(), handshake()],
    "bare": [handshake(0), bare(RIGHT)],
    "bare and wrong": [handshake(0), bare(b"\0alice\0wrong")],
    "wrong password": [handshake(), token(b"\0alice\0wrong")],
    "unknown user": [handshake(), token(b"\0nobody\0wrong")],
    "no user": [handshake(), token(b"\0\0wrong")],
    "no password": [handshake(), token(b"\0alice\0")],
    "for somebody else": [handshake(), token(b"bob\0alice\0" + USER_PASSWORD.encode())],
    "one token": [handshake(), token(b"alice")],
    "four tokens": [handshake(), token(b"\0a\0b\0c")],
    "empty token": [handshake(), token(b"")],
    "unknown mechanism": [handshake(1, "GSSAPI")],
    "unknown mechanism, old": [handshake(0, "")],
    "metadata first": [METADATA],
    "metadata after the handshake": [handshake(), METADATA],
    "versions after the handshake": [handshake(), versions()],
    "handshake twice": [handshake(), handshake()],
    "handshake once more": [handshake(), token(RIGHT), handshake()],
    "token once more": [handshake(), token(RIGHT), token(RIGHT)],
    "token first": [token(RIGHT)],
    "future handshake": [handshake()[:6] + b"\0\x09" + handshake()[8:]],
    "future token": [handshake(), token(RIGHT)[:6] + b"\0\x09" + token(RIGHT)[8:]],
    "garbage": [bare(b"\x60\x82\x02\x0a\x06\x09\x2a\x86\x48")],
    "too short": [bare(b"\0")],
    "unknown api": [bare(struct.pack(">hhih", 999, 0, 7, -1))],
    "handshake without a body": [bare(struct.pack(">hhih", 17, 1, 7, -1))],
    "more than a token may have": [struct.pack(">i", 524_289)],
    "negative size": [struct.pack(">i", -1)],
    "scram, wrong form": [handshake(1, "SCRAM-SHA-256"), token(b"n,,n=alice")],
    "scram, for somebody else": [handshake(1, "SCRAM-SHA-256"), token(b"n,a=bob,n=alice,r=x")],
    "scram, with binding": [handshake(1, "SCRAM-SHA-256"), token(b"p=tls-unique,,n=alice,r=x")],
    "scram, wrong proof": [
        handshake(1, "SCRAM-SHA-256"),
        token(b"n,,n=alice,r=x"),
        token(b"c=biws,r=x,p=AAAA"),
    ],
}


def spoken(port: int, frames: list[bytes]) -> list[str]:
    """What each frame was answered with."""
    answers = []
    with socket.create_connection(("127.0.0.1", port), timeout=DEADLINE_S) as connection:
        for frame in frames:
            try:
                connection.sendall(frame)
                (size,) = struct.unpack(">i", received(connection, 4))
                answer = received(connection, size)
            except (ConnectionError, EOFError):
                return [*answers, "closed"]
            if frame[4:6] == struct.pack(">h", ApiKey.API_VERSIONS):
                answer = answer[:6]  # the rest is what each of them serves
            text = answer.hex()
            if frame[4:6] == struct.pack(">h", ApiKey.SASL_HANDSHAKE):  # Apache Kafka has no order of mechanisms
                text = f"{text[:12]} {sorted(answer[10:].split(bytes(1)))}"
            if b"r=x" in answer and b"s=" in answer:  # nonce and salt are of the moment
                text = "a challenge"
            answers.append(text)
    return answers


def received(connection: socket.socket, size: int) -> bytes:
    parts = b""
    while len(parts) < size:
        part = connection.recv(size - len(parts))
        if not part:
            raise EOFError
        parts += part
    return parts


def test_what_is_said_before_authentication_is_answered_as_apache_kafka_does(
    clusters: Mapping[str, SecuredCluster],
) -> None:
    ports = {name: int(each.servers("SASL").rpartition(":")[2]) for name, each in clusters.items()}
    different = []
    decoded_by_none = {"metadata after the handshake"}
    """Apache Kafka decodes it to shape an answer; here no more is decoded for a stranger than must be."""
    for name, frames in DIALOGUES.items():
        theirs, ours = (spoken(ports[each], frames) for each in ("apache", "ours"))
        if theirs != ours and not (name in decoded_by_none and ours == [*theirs[:-1], "closed"]):
            different.append(f"{name}: {ours} where Apache Kafka has {theirs}")
    assert not different, "\n".join(different)


def test_a_tool_of_java_is_let_in_and_one_with_a_wrong_password_is_not(
    clusters: Mapping[str, SecuredCluster], tmp_path: Path
) -> None:
    cluster = clusters["ours"]
    for password, code in ((USER_PASSWORD, 0), ("wrong", 1)):
        lines = [
            "security.protocol=SASL_SSL",
            "sasl.mechanism=SCRAM-SHA-256",
            "sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required "
            f'username="{USER}" password="{password}";',
            f"ssl.truststore.location={cluster.trust}",
            "ssl.truststore.type=PEM",
        ]
        path = write(tmp_path / "client.properties", "\n".join(lines).encode())
        command = apache_kafka.tool_command(
            "kafka-topics", "--bootstrap-server", cluster.servers("BOTH"), "--command-config", path, "--list"
        )
        done = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE_S)
        assert done.returncode == code, done.stdout + done.stderr
        if code:
            assert "SaslAuthenticationException" in done.stdout + done.stderr
