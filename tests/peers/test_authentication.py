"""What is said before authentication, to Apache Kafka and to us: the same frames are answered with the same bytes, or not at all.

A client of Java's talks to our listeners with SASL_SSL.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
import struct
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, closing
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from cryptography.hazmat.primitives.serialization import Encoding
from kafka import KafkaAdminClient

from kafkalite.client import SyncProducer
from kafkalite.errors import AuthenticationError
from kafkalite.local.broker_process import BROKER_COMMAND, wait_until
from kafkalite.net.connection import Connection
from kafkalite.net.frames import request_frame
from kafkalite.protocol import codec, messages
from kafkalite.protocol.apis import APIS, ApiKey
from kafkalite.security.password_encoder import decode_password, encode_password
from kafkalite.security.sasl_client import SaslCredentials
from tests.case import case
from tests.certificates import PASSWORD, write
from tests.conftest import not_run
from tests.peers import apache_kafka
from tests.peers.face_server import shared_faces
from tests.peers.kdc import HOST, REALM, Kdc, lacking
from tests.peers.tool_server import Outcome, run_tool, shared_tools
from tests.wire.bearer_tokens import AUDIENCE, KEY_SET, bearer_token
from tests.wire.logins import PROTOCOLS, REFUSED, Login
from tests.wire.logins import ours as log_in
from tests.wire.secured import USER, USER_PASSWORD, SecuredCluster
from zk import paths
from zk.kazoo_adapter.kazoo_store import KazooStore
from zk.znodes import ConfigChange, ConfigEntity

pytestmark = pytest.mark.peer

DEADLINE_S: Final = 60
SECRET: Final = "the secret"
KERBEROS: Final = "com.sun.security.auth.module.Krb5LoginModule"
SETTINGS: Final = {
    "listener.name.sasl.plain.connections.max.reauth.ms": "3600000",
    "password.encoder.secret": SECRET,
}
RIGHT: Final = f"\0{USER}\0{USER_PASSWORD}".encode()


@pytest.fixture(scope="module")
def kdc(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kdc | None]:
    """None where Kerberos is not installed."""
    if lacking() is not None:
        yield None
        return
    with Kdc(tmp_path_factory.mktemp("kdc")) as running, pytest.MonkeyPatch.context() as patch:
        for name, text in running.environment.items():
            patch.setenv(name, text)
        yield running


@pytest.fixture(scope="module")
def clusters(tmp_path_factory: pytest.TempPathFactory, kdc: Kdc | None) -> Iterator[Mapping[str, SecuredCluster]]:
    commands = {"apache": apache_kafka.broker_command(), "ours": list(BROKER_COMMAND)}
    running: dict[str, SecuredCluster] = {}
    try:
        for name, command in commands.items():
            folder = tmp_path_factory.mktemp(name)
            settings = SETTINGS | (settings_of_ours(folder, kdc) if name == "ours" else {})
            running[name] = SecuredCluster(folder / "files", 1, settings, command=command).__enter__()
            apache_kafka.wait_for_controller(running[name].bootstrap_servers)
            admin = AdminClient({"bootstrap.servers": running[name].bootstrap_servers})
            users = [
                UserScramCredentialUpsertion(USER, ScramCredentialInfo(each, 4096), USER_PASSWORD.encode())
                for each in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512)
            ]
            admin.alter_user_scram_credentials(users)[USER].result(DEADLINE_S)
        yield running
    finally:
        for each in running.values():
            each.close()


def settings_of_ours(folder: Path, kdc: Kdc | None) -> dict[str, str]:
    """OAUTHBEARER and GSSAPI at one listener, besides the other mechanisms."""
    keys = folder / "keys.json"
    keys.write_text(KEY_SET)
    mechanisms = "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER"
    settings = {
        "listener.name.both.sasl.enabled.mechanisms": mechanisms,
        "listener.name.both.sasl.oauthbearer.jwks.endpoint.url": keys.as_uri(),
        "listener.name.both.sasl.oauthbearer.expected.audience": AUDIENCE,
    }
    if kdc is not None:
        # Java asks for the name of the address, others for the address.
        names = {HOST, "localhost", socket.getnameinfo((HOST, 0), 0)[0]}
        keytab = kdc.keytab("broker", *(f"kafka/{each}" for each in names))
        settings |= {
            "listener.name.both.sasl.enabled.mechanisms": f"{mechanisms},GSSAPI",
            "listener.name.both.gssapi.sasl.jaas.config": f'{KERBEROS} required keyTab="{keytab}" principal="*";',
            "sasl.kerberos.service.name": "kafka",
            "sasl.kerberos.principal.to.local.rules": "RULE:[1:$1](.*)s/$/-of-kerberos/,DEFAULT",
        }
    return settings


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


def java_settings(cluster: SecuredCluster, listener: str, mechanism: str = "", password: str = "") -> list[str]:
    """Lines of a client's settings."""
    lines = [f"security.protocol={PROTOCOLS[listener]}", "default.api.timeout.ms=30000"]
    if listener != "SASL":
        lines += [f"ssl.truststore.location={cluster.trust}", "ssl.truststore.type=PEM"]
    if mechanism:
        module = "plain.PlainLoginModule" if mechanism == "PLAIN" else "scram.ScramLoginModule"
        user = f'username="{USER}" password="{password}"'
        lines += [f"sasl.mechanism={mechanism}"]
        lines += [f"sasl.jaas.config=org.apache.kafka.common.security.{module} required {user};"]
    return lines


def test_a_tool_of_java_is_let_in_by_each_mechanism_and_not_with_a_wrong_password(
    clusters: Mapping[str, SecuredCluster], tmp_path: Path
) -> None:
    cluster = clusters["ours"]

    def listed(listener: str, lines: list[str]) -> Outcome:
        path = write(tmp_path / "client.properties", "\n".join(lines).encode())
        servers = cluster.servers(listener)
        return shared_tools().run("kafka-topics", "--bootstrap-server", servers, "--command-config", path, "--list")

    for mechanism in ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"):
        for listener in ("SASL", "BOTH"):
            for password, status in ((USER_PASSWORD, 0), ("wrong", 1)):
                with case(f"{mechanism} at {listener}: {password}"):
                    done = listed(listener, java_settings(cluster, listener, mechanism, password))
                    assert done.status == status, done.stdout + done.stderr
                    assert status == 0 or "SaslAuthenticationException" in done.stdout + done.stderr
    for days, status in ((1, 0), (-1, 1)):
        with case(f"a certificate for {days} days"):
            own = write(tmp_path / f"client{days}.pem", cluster.authority.issue("client", days=days).pem)
            lines = [f"ssl.keystore.location={own}", "ssl.keystore.type=PEM", *java_settings(cluster, "TLS")]
            done = listed("TLS", lines)
            assert done.status == status, done.stdout + done.stderr
            assert status == 0 or "SslAuthenticationException" in done.stdout + done.stderr


def test_a_tool_of_java_is_let_in_by_a_bearer_token_and_not_by_one_for_others(
    clusters: Mapping[str, SecuredCluster], tmp_path: Path
) -> None:
    """Java's own login, which reads the token from a file."""
    cluster = clusters["ours"]
    tokens = {audience: tmp_path / audience for audience in (AUDIENCE, "elsewhere")}
    for audience, path in tokens.items():
        path.write_text(bearer_token(audience))
    allowed = ",".join(path.as_uri() for path in tokens.values())
    shared_tools().set_property("org.apache.kafka.sasl.oauthbearer.allowed.urls", allowed)
    package = "org.apache.kafka.common.security.oauthbearer"
    for audience, status in ((AUDIENCE, 0), ("elsewhere", 1)):
        with case(audience):
            lines = [
                *java_settings(cluster, "BOTH"),
                "sasl.mechanism=OAUTHBEARER",
                f"sasl.login.callback.handler.class={package}.OAuthBearerLoginCallbackHandler",
                f"sasl.oauthbearer.token.endpoint.url={tokens[audience].as_uri()}",
                # Java keeps a login by its line.
                f'sasl.jaas.config={package}.OAuthBearerLoginModule required extension_for="{audience}";',
            ]
            path = write(tmp_path / "client.properties", "\n".join(lines).encode())
            done = shared_tools().run(
                "kafka-topics", "--bootstrap-server", cluster.servers("BOTH"), "--command-config", path, "--list"
            )
            assert done.status == status, done.stdout + done.stderr
            assert status == 0 or "SaslAuthenticationException" in done.stdout + done.stderr


def test_clients_are_let_in_by_their_tickets_and_nobody_without(
    clusters: Mapping[str, SecuredCluster], kdc: Kdc | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ours, Java's tools and kafka-python; the broker says whose a ticket is, and knows no keys of other services."""
    if kdc is None:
        not_run(lacking() or "")
    cluster, keytab = clusters["ours"], str(kdc.keytab("alice", "alice"))
    kdc.keytab("others", f"other/{HOST}")

    async def owner(**wrong: str) -> str:
        """Whose delegation token somebody gets with her key."""
        who = SaslCredentials(
            **{"mechanism": "GSSAPI", "service": "kafka", "username": "alice", "keytab": keytab} | wrong
        )  # type: ignore[arg-type]
        host, _, port = cluster.servers("BOTH").rpartition(":")
        connection = await Connection.open(
            host,
            int(port),
            security_protocol="SASL_SSL",
            ssl_context=ssl.create_default_context(cafile=cluster.trust),
            credentials=who,
            timeout_s=DEADLINE_S,
        )
        made = await connection.request(messages.create_delegation_token_request.CreateDelegationTokenRequest(), 3)
        connection.close()
        return str(made.principal_name)

    assert asyncio.run(owner()) == "alice-of-kerberos"
    for wrong, reason in (({"service": "other"}, "invalid credentials"), ({"username": "nobody"}, "No credentials")):
        with case(str(wrong)), pytest.raises(AuthenticationError, match=reason):
            asyncio.run(owner(**wrong))

    with case("Java"):
        shared_tools().set_property("java.security.krb5.conf", str(kdc.library))
        lines = [
            *java_settings(cluster, "BOTH"),
            "sasl.mechanism=GSSAPI",
            "sasl.kerberos.service.name=kafka",
            f'sasl.jaas.config={KERBEROS} required useKeyTab=true storeKey=true keyTab="{keytab}" principal="alice@{REALM}";',
        ]
        path = write(tmp_path / "client.properties", "\n".join(lines).encode())
        done = shared_tools().run(
            "kafka-topics", "--bootstrap-server", cluster.servers("BOTH"), "--command-config", path, "--list"
        )
        assert done.status == 0, done.stdout + done.stderr

    with case("kafka-python"):
        monkeypatch.setenv("KRB5_CLIENT_KTNAME", keytab)
        monkeypatch.setenv("KRB5CCNAME", f"FILE:{tmp_path}/tickets")
        admin = KafkaAdminClient(
            bootstrap_servers=cluster.servers("BOTH"),
            security_protocol="SASL_SSL",
            ssl_context=ssl.create_default_context(cafile=cluster.trust),
            sasl_mechanism="GSSAPI",
            sasl_kerberos_service_name="kafka",
        )
        with closing(admin):
            admin.list_topics()


def test_credentials_that_the_tools_of_one_make_in_zookeeper_are_those_of_the_other(
    clusters: Mapping[str, SecuredCluster],
) -> None:
    """Java's tool in our ZooKeeper, ours in Apache Kafka's; who has none any more is not let in again."""
    ours, theirs = clusters["ours"], clusters["apache"]

    def java(*arguments: str) -> None:
        run_tool("kafka-configs", *arguments)

    def face(*arguments: str) -> None:
        done = shared_faces().run("kafka-configs", *arguments)
        assert done.status == 0, done.stdout + done.stderr

    for cluster, run in ((ours, java), (theirs, face)):
        with case(run.__name__):
            change = ("--zookeeper", cluster.zookeeper_connect, "--entity-type", "users", "--entity-name", "x")
            login = Login(
                listener="SASL", trust=cluster.trust, mechanism="SCRAM-SHA-512", user="x", secret="of the tool"
            )
            run(*change, "--alter", "--add-config", "SCRAM-SHA-512=[password=of the tool]")
            wait_until(partial(may_log_in, cluster, login), "the credentials", DEADLINE_S)
            run(*change, "--alter", "--delete-config", "SCRAM-SHA-512")
            wait_until(partial(is_refused, cluster, login), "the end of the credentials", DEADLINE_S)


def may_log_in(cluster: SecuredCluster, login: Login) -> bool:
    """Apache Kafka hears of credentials by a notification."""
    return not is_refused(cluster, login)


def is_refused(cluster: SecuredCluster, login: Login) -> bool:
    try:
        log_in(cluster, login, topic=None)
    except REFUSED:
        return True
    return False


KEY_STORE: Final = "listener.name.both.ssl.keystore.location"
KEY_STORE_PASSWORD: Final = "listener.name.both.ssl.keystore.password"


@asynccontextmanager
async def znodes(cluster: SecuredCluster) -> AsyncIterator[KazooStore]:
    store = KazooStore(cluster.zookeeper_connect)
    await store.start(DEADLINE_S)
    try:
        yield store
    finally:
        await store.close()


def test_passwords_in_the_dynamic_configuration_of_a_broker_are_encrypted_as_apache_kafka_does_it(
    clusters: Mapping[str, SecuredCluster],
) -> None:
    async def kept(cluster: SecuredCluster) -> str:
        async with znodes(cluster) as store:
            data, _ = await store.read(paths.broker_config(1))
            return ConfigEntity.decode(data).config[KEY_STORE_PASSWORD]

    for whose, cluster in clusters.items():
        with case(whose):
            change = ConfigEntry(KEY_STORE_PASSWORD, PASSWORD, incremental_operation=AlterConfigOpType.SET)
            broker = ConfigResource(ConfigResource.Type.BROKER, "1", incremental_configs=[change])
            admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
            admin.incremental_alter_configs([broker])[broker].result(DEADLINE_S)
            text = asyncio.run(kept(cluster))
            assert PASSWORD not in text
            assert decode_password(text, SECRET) == PASSWORD


def test_apache_kafka_reads_the_passwords_that_are_encrypted_here(
    clusters: Mapping[str, SecuredCluster], tmp_path: Path
) -> None:
    """Of a key store that it is to take over while it runs: it shows the certificate that is in it."""
    for whose, cluster in clusters.items():
        with case(whose):
            issued = cluster.authority.issue("broker")
            renewed = write(tmp_path / f"{whose}.p12", cluster.authority.pkcs12(issued, "another secret"))
            settings = {KEY_STORE: renewed, KEY_STORE_PASSWORD: encode_password("another secret", SECRET)}
            asyncio.run(configure(cluster, settings))
            wait_until(
                partial(shows, cluster, issued.certificate.public_bytes(Encoding.DER)), "the certificate", DEADLINE_S
            )


async def configure(cluster: SecuredCluster, settings: Mapping[str, str]) -> None:
    """As kafka-configs does it with --zookeeper."""
    async with znodes(cluster) as store:
        path = paths.broker_config(1)
        if await store.exists(path) is None:
            await store.create(path, b"")
        data, stat = await store.read(path)
        changed = dict(ConfigEntity.decode(data).config) | dict(settings)
        await store.write(path, ConfigEntity(changed).encode(), stat.version)
        await store.create(paths.CONFIG_CHANGE_PREFIX, ConfigChange("brokers/1").encode(), sequence=True)


def shows(cluster: SecuredCluster, certificate: bytes) -> bool:
    """Is it this one that the broker shows at its listener?"""
    host, _, port = cluster.servers("BOTH").rpartition(":")
    context = ssl.create_default_context(cafile=cluster.trust)
    with (
        socket.create_connection((host, int(port)), timeout=DEADLINE_S) as plain,
        context.wrap_socket(plain, server_hostname=host) as connection,
    ):
        return connection.getpeercert(binary_form=True) == certificate


def test_brokers_replicate_by_their_tickets(kdc: Kdc | None, tmp_path: Path) -> None:
    """Each is a service and a client of the other; nothing else lets anybody in at the listener between them."""
    if kdc is None:
        not_run(lacking() or "")
    keytab = kdc.keytab("replicas", f"replicas/{HOST}")
    line = f'{KERBEROS} required useKeyTab=true keyTab="{keytab}" principal="replicas/{HOST}@{REALM}";'
    settings = {
        "inter.broker.listener.name": "SASL",
        "sasl.mechanism.inter.broker.protocol": "GSSAPI",
        "sasl.kerberos.service.name": "replicas",
        "listener.name.sasl.sasl.enabled.mechanisms": "GSSAPI",
        "listener.name.sasl.gssapi.sasl.jaas.config": line,
        "default.replication.factor": "2",
        "min.insync.replicas": "2",
    }
    with (
        SecuredCluster(tmp_path / "files", 2, settings) as cluster,
        SyncProducer(bootstrap_servers=cluster.bootstrap_servers) as producer,
    ):
        assert producer.send_and_wait("t", b"x", partition=0).offset == 0
        assert sorted(cluster.await_isr("t", 0, size=2)) == [1, 2]
