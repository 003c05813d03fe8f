"""Foreign clients at listeners with TLS and SASL: who is let in, and who is not."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
import time
from base64 import b64encode
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import (
    AdminClient,
    NewTopic,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)

from kafkalite.cli.completion.words import BUDGET_VARIABLE
from kafkalite.client import AuthenticationFailedError, SyncAdmin, SyncConsumer, SyncProducer, TopicPartition
from kafkalite.errors import AuthenticationError, ErrorCode
from kafkalite.net.connection import Connection
from kafkalite.protocol import messages
from kafkalite.security.sasl_client import SaslCredentials
from tests.case import case
from tests.certificates import Authority, write
from tests.wire.bearer_tokens import AUDIENCE, KEY_SET, bearer_token
from tests.wire.logins import CLIENTS, PROTOCOLS, REFUSED, Login
from tests.wire.secured import USER, USER_PASSWORD, SecuredCluster

MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
DEADLINE_S = 60


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredCluster]:
    folder = tmp_path_factory.mktemp("secured")
    (folder / "keys.json").write_text(KEY_SET)
    bearer = {
        "sasl.enabled.mechanisms": ",".join((*MECHANISMS, "OAUTHBEARER")),
        "sasl.oauthbearer.jwks.endpoint.url": (folder / "keys.json").as_uri(),
        "sasl.oauthbearer.expected.audience": AUDIENCE,
    }
    with SecuredCluster(folder / "files", settings=bearer) as running:
        admin = AdminClient({"bootstrap.servers": running.bootstrap_servers})
        set_password(admin, USER)
        admin.create_topics([NewTopic("t", 2, 2)])["t"].result(DEADLINE_S)
        yield running


def set_password(admin: AdminClient, user: str) -> None:
    changes = [
        UserScramCredentialUpsertion(user, ScramCredentialInfo(each, 4096), USER_PASSWORD.encode())
        for each in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512)
    ]
    admin.alter_user_scram_credentials(changes)[user].result(DEADLINE_S)


def confluent(cluster: SecuredCluster, listener: str, **more: Any) -> dict[str, Any]:
    own = {"bootstrap.servers": cluster.servers(listener), "security.protocol": PROTOCOLS[listener]}
    return own | {"ssl.ca.location": cluster.trust, "log_level": 0} | more


def sent(settings: dict[str, Any]) -> None:
    """A record is written. KafkaException says why not: the first error that the client tells of."""
    errors: list[Any] = []
    producer = Producer(settings | {"error_cb": errors.append})
    delivered: list[Any] = []
    producer.produce("t", b"x", on_delivery=lambda error, message: delivered.append(error))
    deadline_s = time.monotonic() + DEADLINE_S
    while not delivered and time.monotonic() < deadline_s:
        producer.poll(0.1)
        if errors:
            producer.purge()
            raise KafkaException(errors[0])
    assert delivered == [None]


@pytest.mark.parametrize("listener", ["SASL", "BOTH"])
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_each_mechanism_lets_in_who_knows_the_password_and_nobody_else(
    cluster: SecuredCluster, listener: str, mechanism: str
) -> None:
    who = {"sasl.mechanism": mechanism, "sasl.username": USER, "sasl.password": USER_PASSWORD}
    sent(confluent(cluster, listener, **who))
    for wrong in ({"sasl.password": "wrong"}, {"sasl.username": "nobody"}):
        with pytest.raises(KafkaException, match="Authentication failed"):
            sent(confluent(cluster, listener, **(who | wrong)))


@pytest.mark.parametrize("client", CLIENTS)
def test_each_client_is_let_in_by_each_mechanism_with_and_without_tls(cluster: SecuredCluster, client: str) -> None:
    log_in = CLIENTS[client]
    for mechanism in (*MECHANISMS, "OAUTHBEARER"):
        right, wrong = USER_PASSWORD, "wrong"
        if mechanism == "OAUTHBEARER":
            right, wrong = bearer_token(), bearer_token("elsewhere")
        for listener in ("SASL", "BOTH"):
            with case(f"{mechanism} at {listener}"):
                login = Login(listener=listener, trust=cluster.trust, mechanism=mechanism, user=USER, secret=right)
                log_in(cluster, login)
                with pytest.raises(REFUSED):
                    log_in(cluster, login.but(secret=wrong))


@pytest.mark.parametrize("client", CLIENTS)
def test_each_client_shows_its_certificate(cluster: SecuredCluster, client: str, tmp_path: Path) -> None:
    log_in, others = CLIENTS[client], Authority("others")
    login = Login(listener="TLS", trust=cluster.trust)
    log_in(cluster, login)
    good = write(tmp_path / "good.pem", cluster.authority.issue("client").pem)
    log_in(cluster, replace(login, certificate=good))
    for name, bad in (("expired", cluster.authority.issue("client", days=-1)), ("foreign", others.issue("client"))):
        with case(name), pytest.raises(REFUSED):
            log_in(cluster, login.but(certificate=write(tmp_path / f"{name}.pem", bad.pem)))
    with case("a broker of others"), pytest.raises(REFUSED):
        log_in(cluster, login.but(trust=write(tmp_path / "others.pem", others.pem)))


def test_certificates_that_expired_or_are_foreign_are_refused(cluster: SecuredCluster, tmp_path: Path) -> None:
    def with_certificate(pem: bytes) -> dict[str, Any]:
        path = write(tmp_path / "client.pem", pem)
        return confluent(cluster, "TLS", **{"ssl.certificate.location": path, "ssl.key.location": path})

    sent(confluent(cluster, "TLS"))
    sent(with_certificate(cluster.authority.issue("client").pem))
    for wrong in (cluster.authority.issue("client", days=-1), Authority("others").issue("client")):
        with pytest.raises(KafkaException):
            sent(with_certificate(wrong.pem))
    trusts_others = write(tmp_path / "others.pem", Authority("others").pem)
    with pytest.raises(KafkaException, match="certificate verify failed"):
        sent(confluent(cluster, "TLS") | {"ssl.ca.location": trusts_others})


def test_a_user_who_is_revoked_is_not_let_in_again(cluster: SecuredCluster) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    set_password(admin, "leaver")
    who = {"sasl.mechanism": "SCRAM-SHA-256", "sasl.username": "leaver", "sasl.password": USER_PASSWORD}
    sent(confluent(cluster, "SASL", **who))
    login = Login(listener="SASL", trust=cluster.trust, mechanism="SCRAM-SHA-256", user="leaver", secret=USER_PASSWORD)
    for log_in in CLIENTS.values():
        log_in(cluster, login)
    gone = UserScramCredentialDeletion("leaver", ScramMechanism.SCRAM_SHA_256)
    admin.alter_user_scram_credentials([gone])["leaver"].result(DEADLINE_S)
    with pytest.raises(KafkaException, match="invalid credentials"):
        sent(confluent(cluster, "SASL", **who))
    for name, log_in in CLIENTS.items():
        with case(name), pytest.raises(REFUSED):
            log_in(cluster, login.but())


def test_brokers_replicate_to_each_other_over_tls_and_sasl(cluster: SecuredCluster) -> None:
    for partition in (0, 1):
        cluster.await_isr("t", partition, size=2)


@pytest.mark.parametrize("listener", PROTOCOLS)
def test_our_clients_are_let_in_and_know_a_refusal(cluster: SecuredCluster, listener: str) -> None:
    own: dict[str, Any] = {
        "bootstrap_servers": cluster.servers(listener),
        "security_protocol": PROTOCOLS[listener],
        "ssl_truststore_location": cluster.trust,
        "sasl_mechanism": "SCRAM-SHA-256",
        "sasl_username": USER,
        "sasl_password": USER_PASSWORD,
    }
    with SyncProducer(**own) as producer:
        sent_at = producer.send_and_wait("t", listener.encode(), partition=0)
    with SyncConsumer(**own, auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition("t", 0)])
        consumer.seek(TopicPartition("t", 0), sent_at.offset)
        assert next(iter(consumer)).value == listener.encode()
    if listener != "TLS":
        with (
            pytest.raises(AuthenticationFailedError, match="invalid credentials"),
            SyncAdmin(**own | {"sasl_password": "x"}),
        ):
            pass


def test_commands_and_faces_take_the_settings_of_java_from_a_file(cluster: SecuredCluster, tmp_path: Path) -> None:
    settings = {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "PLAIN",
        "sasl.jaas.config": f'x.PlainLoginModule required username="{USER}" password="{USER_PASSWORD}";',
        "ssl.truststore.location": cluster.trust,
        "ssl.truststore.type": "PEM",
    }
    path = write(tmp_path / "client.properties", "".join(f"{key}={text}\n" for key, text in settings.items()).encode())
    servers = cluster.servers("BOTH")
    for program, arguments in (
        ("kafkalite.legacy.topics.tool", ["--bootstrap-server", servers, "--command-config", path, "--list"]),
        ("kafkalite", ["topic", "list", "--bootstrap-server", servers, "--command-config", path]),
    ):
        code = "import sys; from kafkalite.legacy.topics.tool import main; sys.exit(main())"
        command = [sys.executable, *(["-c", code] if "legacy" in program else ["-m", program]), *arguments]
        done = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE_S, check=True)
        assert re.search(r"(?m)^t\b", done.stdout), done.stdout
        assert USER_PASSWORD not in done.stdout + done.stderr


@pytest.mark.parametrize("listener", PROTOCOLS)
def test_names_are_completed_for_who_is_let_in(cluster: SecuredCluster, listener: str, tmp_path: Path) -> None:
    """By the settings of a file, as Java has them."""

    def completed(password: str) -> list[str]:
        lines = [
            f"security.protocol={PROTOCOLS[listener]}",
            f"ssl.truststore.location={cluster.trust}",
            "sasl.mechanism=SCRAM-SHA-256",
            f'sasl.jaas.config=x.ScramLoginModule required username="{USER}" password="{password}";',
        ]
        path = write(tmp_path / "client.properties", "\n".join(lines).encode())
        words = f"kafkalite topic describe --bootstrap-server {cluster.servers(listener)} --command-config {path} "
        shell = {"_KAFKALITE_COMPLETE": "bash_complete", "COMP_LINE": words, BUDGET_VARIABLE: "30000"}
        program = "from kafkalite.cli.main import main; main(prog_name='kafkalite')"
        done = subprocess.run(
            [sys.executable, "-c", program], env=os.environ | shell, capture_output=True, text=True, timeout=DEADLINE_S
        )
        return [line.partition(",")[2] for line in done.stdout.splitlines()]

    assert completed(USER_PASSWORD) == ["t"]
    if listener == "SASL":
        assert "t" not in completed("wrong")


def test_a_bearer_token_lets_in_until_it_is_for_somebody_else(cluster: SecuredCluster) -> None:
    def settings(audience: str) -> dict[str, Any]:
        token, end_s = bearer_token(audience), time.time() + 600
        more = {"sasl.mechanism": "OAUTHBEARER", "oauth_cb": lambda config: (token, end_s)}
        return confluent(cluster, "BOTH", **more)

    sent(settings("kafka"))
    with pytest.raises(KafkaException, match="authentication"):
        sent(settings("elsewhere"))


def test_a_delegation_token_lets_in_at_every_broker(cluster: SecuredCluster) -> None:
    addresses = [each.rpartition(":") for each in cluster.servers("SASL").split(",")]

    async def connected(address: tuple[str, str, str], who: SaslCredentials) -> Connection:
        return await Connection.open(
            address[0], int(address[2]), security_protocol="SASL_PLAINTEXT", credentials=who, timeout_s=DEADLINE_S
        )

    async def scenario() -> None:
        mechanism = "SCRAM-SHA-256"
        owner = SaslCredentials(mechanism=mechanism, username=USER, password=USER_PASSWORD)
        connection = await connected(addresses[0], owner)
        asked = messages.create_delegation_token_request.CreateDelegationTokenRequest(max_lifetime_ms=600_000)
        made = await connection.request(asked, 3)
        connection.close()
        assert (made.error_code, made.principal_name) == (0, USER)
        worker = SaslCredentials(
            mechanism=mechanism, username=made.token_id, password=b64encode(made.hmac).decode(), is_token=True
        )
        for address in addresses:
            async with asyncio.timeout(DEADLINE_S):
                while True:
                    try:
                        connection = await connected(address, worker)
                        break
                    except AuthenticationError:  # the other broker has not read it yet
                        await asyncio.sleep(0.05)
            again = await connection.request(asked, 3)
            connection.close()
            assert again.error_code == ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED  # a token makes no tokens

    asyncio.run(scenario())
