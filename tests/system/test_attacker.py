"""The program of `attacker`, for a short time: it learns nothing, and others go on."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import pytest

from kafkalite.broker.handlers import SERVED
from kafkalite.client import SyncAdmin
from kafkalite.protocol import messages
from kafkalite.protocol.apis import ApiKey
from tests.case import case
from tests.system.attacker import ATTACKS, Harm, Target, harm_of, learns_nothing, ports_of, trusting
from tests.wire.secured import USER, USER_PASSWORD, SecuredCluster

pytestmark = [pytest.mark.system, pytest.mark.timeout(600)]

ATTACK_S: Final = 0.3
CONNECTIONS, ANSWERS = 300, 25
UNAUTHENTICATED, HANDSHAKES = 100, 64
HELD_S: Final = 0.1
"""How long the broker may have worked for others before it answers, as for a hostile frame."""
MEMORY_BYTES: Final = 64 * 1024 * 1024
FILES_BESIDE: Final = 60
"""What the client that logs in, and those that are being closed, have open besides."""
TRIES: Final = 3
SETTINGS: Final = {
    "listener.name.tls.ssl.client.auth": "required",
    "kafkalite.max.unauthenticated.connections": str(UNAUTHENTICATED),
    "kafkalite.max.handshakes": str(HANDSHAKES),
}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredCluster]:
    with SecuredCluster(tmp_path_factory.mktemp("attacked") / "files", 1, SETTINGS) as running:
        yield running


def test_who_has_no_credentials_learns_nothing(cluster: SecuredCluster) -> None:
    """Of any API, in its newest version, at any listener: SASL answers ApiVersions and its own handshake only."""
    ports, context = ports_of(cluster), trusting()
    open_to_all = (ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE)
    for served in SERVED:
        message = getattr(messages, f"{served.api.name}_request").ROOT()
        if served.api.key not in open_to_all:
            with case(served.api.name):
                assert learns_nothing(ports["SASL"], None, message, served.last_version)
    metadata = messages.metadata_request.MetadataRequest(topics=None)
    assert learns_nothing(ports["BOTH"], context, metadata, 12)
    assert learns_nothing(ports["TLS"], context, metadata, 12), "a certificate is wanted"


def test_others_go_on(cluster: SecuredCluster) -> None:
    """A client that is in waits hardly longer, another is let in meanwhile, and memory and files are bounded."""
    ports = ports_of(cluster)

    def log_in() -> None:
        with SyncAdmin(
            bootstrap_servers=cluster.servers("BOTH"),
            security_protocol="SASL_SSL",
            ssl_truststore_location=cluster.trust,
            sasl_mechanism="PLAIN",
            sasl_username=USER,
            sasl_password=USER_PASSWORD,
        ) as admin:
            assert admin.describe_cluster().brokers

    for attack in ATTACKS:
        with case(attack.__name__):
            found: list[Harm] = []
            for _ in range(TRIES):
                found.append(harm_of(attack, cluster.broker(1), Target(ports, CONNECTIONS), ATTACK_S, ANSWERS, log_in))
                assert found[-1].grown_bytes < MEMORY_BYTES
                assert found[-1].files <= UNAUTHENTICATED + HANDSHAKES + FILES_BESIDE
                if found[-1].longest_s <= HELD_S:
                    break
            else:
                pytest.fail(f"held for {[each.longest_s for each in found]}")
