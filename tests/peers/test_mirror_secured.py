"""A mirror whose target has SASL, or SASL over TLS, between its brokers and controllers: followers and clients authenticate through the
mirror to a broker, which says who may follow. With --long.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from kafkalite.client import AdminOptions
from kafkalite.client.security import tls_context_of
from kafkalite.errors import AuthenticationError
from kafkalite.local.broker_process import wait_until
from kafkalite.local.cluster import LocalCluster
from kafkalite.local.ports import ReservedPort
from kafkalite.net.connection import Connection
from kafkalite.protocol import messages
from kafkalite.security.sasl_client import SaslCredentials
from tests.certificates import PASSWORD, Authority, write
from tests.peers import kraft
from tests.peers.apache_kafka import wait_for_controller
from tests.peers.kraft import KraftCluster
from tests.peers.mirror_program import MIRROR, TIMEOUT_S, Program, check_segments

pytestmark = [pytest.mark.peer, pytest.mark.timeout(400)]

BROKER, READER = ("broker", "broker-secret"), ("reader", "reader-secret")
LOGIN = "org.apache.kafka.common.security.plain.PlainLoginModule required "
USERS = " ".join(f'user_{name}="{secret}"' for name, secret in (BROKER, READER))
RECORDS = 50


class Secured(NamedTuple):
    """Where things are, and how they are reached."""

    program: Program
    source: LocalCluster
    target: KraftCluster
    protocol: str
    address: tuple[str, int]
    truststore: str

    def settings(self, servers: str, user: tuple[str, str]) -> dict[str, Any]:
        """Of librdkafka."""
        return {
            "bootstrap.servers": servers,
            "security.protocol": self.protocol,
            "sasl.mechanism": "PLAIN",
            "sasl.username": user[0],
            "sasl.password": user[1],
            "ssl.ca.location": self.truststore,
        }


def broker_properties(protocol: str, keystore: str, truststore: str) -> dict[str, str]:
    login = f'{LOGIN}username="{BROKER[0]}" password="{BROKER[1]}" {USERS};'
    return {
        "listener.security.protocol.map": f"PLAINTEXT:{protocol},CONTROLLER:{protocol}",
        "sasl.enabled.mechanisms": "PLAIN",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "sasl.mechanism.controller.protocol": "PLAIN",
        "listener.name.plaintext.plain.sasl.jaas.config": login,
        "listener.name.controller.plain.sasl.jaas.config": login,
        "super.users": f"User:{BROKER[0]}",
        "ssl.keystore.type": "PKCS12",
        "ssl.keystore.location": keystore,
        "ssl.keystore.password": PASSWORD,
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": truststore,
    }


@pytest.fixture(params=["SASL_PLAINTEXT", "SASL_SSL"])
def secured(tmp_path: Path, long: bool, request: pytest.FixtureRequest) -> Iterator[Secured]:
    if not long:
        pytest.skip("two Java machines start one after the other: with --long")
    kraft.fetch()
    protocol: str = request.param
    authority = Authority()
    issued = authority.issue("broker")
    keystore = write(tmp_path / "key.p12", authority.pkcs12(issued))
    truststore = write(tmp_path / "trust.pem", authority.pem)
    listener = write(
        tmp_path / "listener", f"ssl.keystore.location={write(tmp_path / 'key.pem', issued.pem)}\n".encode()
    )
    config = {"security.protocol": protocol, "sasl.mechanism": "PLAIN", "ssl.truststore.location": truststore}
    config |= {"sasl.username": BROKER[0], "sasl.password": BROKER[1]}
    to_config = write(tmp_path / "to", "".join(f"{key}={value}\n" for key, value in config.items()).encode())
    with (
        LocalCluster(brokers=1, directory=tmp_path / "source") as source,
        KraftCluster(tmp_path, 2, broker_properties(protocol, keystore, truststore)) as target,
        ReservedPort() as port,
    ):
        wait_for_controller(source.bootstrap_servers)
        options = ("--to-config", to_config, "--listen-protocol", protocol, "--listen-config", listener)
        program = Program(tmp_path / "mirror", source.bootstrap_servers, target, port.number, *options)
        yield Secured(program, source, target, protocol, ("127.0.0.1", port.number), truststore)
        program.kill()


def make_source(servers: str) -> None:
    admin = AdminClient({"bootstrap.servers": servers})
    admin.create_topics([NewTopic("mirrored", 1, 1)])["mirrored"].result(TIMEOUT_S)
    producer = confluent_kafka.Producer({"bootstrap.servers": servers})
    for number in range(RECORDS):
        producer.produce("mirrored", b"%d" % number)
    assert producer.flush(TIMEOUT_S) == 0


async def follow(secured: Secured, user: tuple[str, str]) -> messages.FetchResponse:
    """What a follower gets that authenticates as this user."""
    options = AdminOptions(
        bootstrap_servers="h:1",
        security_protocol=secured.protocol,
        sasl_mechanism="PLAIN",
        sasl_username=user[0],
        sasl_password=user[1],
        ssl_truststore_location=secured.truststore,
    )
    connection = await Connection.open(
        *secured.address,
        security_protocol=secured.protocol,
        ssl_context=tls_context_of(options),
        credentials=SaslCredentials(mechanism="PLAIN", username=user[0], password=user[1]),
    )
    m = messages.fetch_request
    topic = m.FetchTopic(topic_id=b"x" * 16, partitions=[m.FetchPartition(partition=0)])
    request = m.FetchRequest(replica_state=m.ReplicaState(replica_id=1), max_wait_ms=1, topics=[topic])
    try:
        return await connection.request(request, 17)
    finally:
        connection.close()


def test_brokers_and_clients_authenticate_through_the_mirror(secured: Secured) -> None:
    make_source(secured.source.bootstrap_servers)
    program, mirror = secured.program, f"{secured.address[0]}:{secured.address[1]}"
    program.start()
    wait_until(lambda: program.is_level({("mirrored", 0): RECORDS}), "a mirror that is level", TIMEOUT_S)

    admin = AdminClient(secured.settings(mirror, BROKER))
    admin.create_topics([NewTopic("made", 1, 1)])["made"].result(TIMEOUT_S)
    reader = AdminClient(secured.settings(mirror, READER))
    found = reader.list_topics(timeout=TIMEOUT_S)
    assert MIRROR in found.brokers and not found.topics, "it may describe nothing"
    with pytest.raises(AuthenticationError, match="Authentication failed"):
        asyncio.run(follow(secured, (READER[0], "wrong")))
    (answer,) = asyncio.run(follow(secured, BROKER)).responses[0].partitions
    assert answer.error_code, "a topic that there is not"
    with pytest.raises(ConnectionError):
        asyncio.run(follow(secured, READER))
    wait_until(
        lambda: any("does not let a connection follow" in each for each in program.read_status()["notes"]),
        "a note of the listener",
        TIMEOUT_S,
    )

    wait_until(
        lambda: program.call("switch", str(program.directory), "--dry-run").returncode == 0, "no obstacle", TIMEOUT_S
    )
    switched = program.call("switch", str(program.directory), "--yes", "--wait", str(TIMEOUT_S - 10))
    assert switched.returncode == 0, switched.stderr + program.directory.with_suffix(".log").read_text()
    assert program.wait_ended() == 0
    check_segments(secured.source, secured.target, ["mirrored-0"])
