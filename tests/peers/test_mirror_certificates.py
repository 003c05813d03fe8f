"""A mirror whose target has TLS without SASL between its brokers, controllers and clients: each shows a certificate. Brokers follow the
mirror; clients are refused by it, and get on with other brokers. With --long.
"""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient  # type: ignore[attr-defined]

from kafkalite.client import AdminOptions
from kafkalite.client.security import tls_context_of
from kafkalite.local.broker_process import wait_until
from kafkalite.local.cluster import LocalCluster
from kafkalite.local.ports import ReservedPort
from kafkalite.net.connection import Connection
from kafkalite.protocol import messages
from tests.certificates import PASSWORD, Authority, write
from tests.peers import kraft
from tests.peers.apache_kafka import class_command, wait_for_controller
from tests.peers.kraft import KraftCluster
from tests.peers.mirror_program import MIRROR, TIMEOUT_S, Program, check_segments
from tests.peers.test_mirror_secured import RECORDS, make_source

pytestmark = [pytest.mark.peer, pytest.mark.timeout(400)]

BROKER, ADMINISTRATOR, CLIENT = "broker", "administrator", "client"
SUPER_USERS = f"User:{BROKER};User:{ADMINISTRATOR}"
RULES = "RULE:^CN=(.*?),O=kafkalite$/$1/,DEFAULT"


class Secured(NamedTuple):
    """Where things are, and how they are reached."""

    program: Program
    source: LocalCluster
    target: KraftCluster
    address: tuple[str, int]
    truststore: str
    keystores: dict[str, str]

    def settings(self, servers: str, who: str) -> dict[str, Any]:
        """Of librdkafka."""
        return {
            "bootstrap.servers": servers,
            "security.protocol": "SSL",
            "ssl.ca.location": self.truststore,
            "ssl.certificate.location": self.keystores[who],
            "ssl.key.location": self.keystores[who],
        }

    def properties(self, who: str) -> dict[str, str]:
        """Of Java's clients and of ours."""
        return properties(self.keystores[who], self.truststore)


def properties(keystore: str, truststore: str) -> dict[str, str]:
    return {
        "security.protocol": "SSL",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": keystore,
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": truststore,
    }


def write_properties(path: Path, settings: dict[str, str]) -> str:
    return write(path, "".join(f"{key}={value}\n" for key, value in settings.items()).encode())


@pytest.fixture
def secured(tmp_path: Path, long: bool) -> Iterator[Secured]:
    if not long:
        pytest.skip("two Java machines start one after the other: with --long")
    kraft.fetch()
    authority = Authority()
    issued = {who: authority.issue(who) for who in (BROKER, ADMINISTRATOR, CLIENT)}
    keystores = {who: write(tmp_path / f"{who}.pem", each.pem) for who, each in issued.items()}
    truststore = write(tmp_path / "trust.pem", authority.pem)
    brokers = {
        "listener.security.protocol.map": "PLAINTEXT:SSL,CONTROLLER:SSL",
        "ssl.client.auth": "required",
        "super.users": SUPER_USERS,
        "ssl.principal.mapping.rules": RULES,
        "ssl.keystore.type": "PKCS12",
        "ssl.keystore.location": write(tmp_path / "broker.p12", authority.pkcs12(issued[BROKER])),
        "ssl.keystore.password": PASSWORD,
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": truststore,
    }
    own = {key: value for key, value in properties(keystores[BROKER], truststore).items() if key.startswith("ssl")}
    listener = write_properties(
        tmp_path / "listener", {**own, "super.users": SUPER_USERS, "ssl.principal.mapping.rules": RULES}
    )
    to_config = write_properties(tmp_path / "to", properties(keystores[ADMINISTRATOR], truststore))
    with (
        LocalCluster(brokers=1, directory=tmp_path / "source") as source,
        KraftCluster(tmp_path, 2, brokers) as target,
        ReservedPort() as port,
    ):
        wait_for_controller(source.bootstrap_servers)
        options = ("--to-config", to_config, "--listen-protocol", "SSL", "--listen-config", listener)
        program = Program(tmp_path / "mirror", source.bootstrap_servers, target, port.number, *options)
        yield Secured(program, source, target, ("127.0.0.1", port.number), truststore, keystores)
        program.kill()


async def follow(secured: Secured, who: str) -> messages.FetchResponse:
    """What a follower gets that shows the certificate of somebody."""
    options = AdminOptions(
        bootstrap_servers="h:1",
        security_protocol="SSL",
        ssl_truststore_location=secured.truststore,
        ssl_keystore_location=secured.keystores[who],
    )
    connection = await Connection.open(
        *secured.address, security_protocol="SSL", ssl_context=tls_context_of(options), credentials=None
    )
    m = messages.fetch_request
    topic = m.FetchTopic(topic_id=b"x" * 16, partitions=[m.FetchPartition(partition=0)])
    request = m.FetchRequest(replica_state=m.ReplicaState(replica_id=1), max_wait_ms=1, topics=[topic])
    try:
        return await connection.request(request, 17)
    finally:
        connection.close()


def make_topic_by_java(secured: Secured, path: Path, name: str) -> None:
    """Java's client asks the mirror first, and finds it among the brokers."""
    config = write_properties(path, secured.properties(ADMINISTRATOR))
    servers = f"{secured.address[0]}:{secured.address[1]},{secured.target.bootstrap_servers}"
    words = [
        "--bootstrap-server",
        servers,
        "--command-config",
        config,
        "--create",
        "--topic",
        name,
        "--partitions",
        "1",
    ]
    command = class_command(kraft.fetch(), "org.apache.kafka.tools.TopicCommand", "256m", "WARN", [], *words)
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S)
    assert done.returncode == 0, done.stdout + done.stderr


def test_brokers_follow_and_clients_turn_to_other_brokers(secured: Secured, tmp_path: Path) -> None:
    make_source(secured.source.bootstrap_servers)
    program, mirror = secured.program, f"{secured.address[0]}:{secured.address[1]}"
    program.start()
    wait_until(lambda: program.is_level({("mirrored", 0): RECORDS}), "a mirror that is level", TIMEOUT_S)

    make_topic_by_java(secured, tmp_path / "java", "made")
    servers = f"{mirror},{secured.target.bootstrap_servers}"
    admin = AdminClient(secured.settings(servers, ADMINISTRATOR))
    assert MIRROR in admin.list_topics(timeout=TIMEOUT_S).brokers
    producer = confluent_kafka.Producer(secured.settings(servers, ADMINISTRATOR))
    producer.produce("made", b"by a client", partition=0)
    assert producer.flush(TIMEOUT_S) == 0
    assert not AdminClient(secured.settings(servers, CLIENT)).list_topics(timeout=TIMEOUT_S).topics

    (answer,) = asyncio.run(follow(secured, BROKER)).responses[0].partitions
    assert answer.error_code, "a topic that there is not"
    with pytest.raises(ConnectionError):
        asyncio.run(follow(secured, CLIENT))
    refusal = f"User:{CLIENT} of 127.0.0.1 is no broker of the target"
    wait_until(
        lambda: refusal in program.directory.with_suffix(".log").read_text(), "the refusal of a client", TIMEOUT_S
    )

    wait_until(
        lambda: program.call("switch", str(program.directory), "--dry-run").returncode == 0, "no obstacle", TIMEOUT_S
    )
    switched = program.call("switch", str(program.directory), "--yes", "--wait", str(TIMEOUT_S - 10))
    assert switched.returncode == 0, switched.stderr + program.directory.with_suffix(".log").read_text()
    assert program.wait_ended() == 0
    check_segments(secured.source, secured.target, ["mirrored-0"])
    settings = {**secured.settings(secured.target.bootstrap_servers, ADMINISTRATOR), "group.id": "none"}
    consumer = confluent_kafka.Consumer(settings)
    place = confluent_kafka.TopicPartition("mirrored", 0)
    assert consumer.get_watermark_offsets(place, TIMEOUT_S) == (0, RECORDS)
    consumer.close()
