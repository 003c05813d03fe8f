"""Heartbeats between running brokers; Apache Kafka's neither know them nor mind the name by which ours ask for them."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Sequence
from pathlib import Path

import pytest

from kafkalite.errors import ErrorCode
from kafkalite.local.broker_process import BROKER_COMMAND
from kafkalite.net.connection import Connection
from kafkalite.protocol import messages
from kafkalite.protocol.apis import PEER_SOFTWARE_NAME, ApiKey
from kafkalite.security.sasl_client import SaslCredentials
from tests.wire.secured import USER, USER_PASSWORD, SecuredCluster

_TIMEOUT_S = 30.0


async def _open(server: str) -> Connection:
    host, _, port = server.rpartition(":")
    return await Connection.open(host, int(port), client_id="a peer", timeout_s=_TIMEOUT_S)


def test_a_broker_answers_the_heartbeats_of_its_peers(servers: str, broker_command: Sequence[str]) -> None:
    """With the epoch and incarnation of its process; a client on the same connection finds no such API."""

    async def scenario() -> None:
        found = set()
        for server in servers.split(","):
            connection = await _open(server)
            try:
                await connection.negotiate(_TIMEOUT_S)
                with pytest.raises(ValueError, match="speaks peer_heartbeat 0 to -1"):
                    connection.version_of(ApiKey.PEER_HEARTBEAT)
                await connection.negotiate(_TIMEOUT_S, PEER_SOFTWARE_NAME)
                if broker_command != BROKER_COMMAND:
                    with pytest.raises(ValueError, match="speaks peer_heartbeat 0 to -1"):
                        connection.version_of(ApiKey.PEER_HEARTBEAT)
                    continue
                version = connection.version_of(ApiKey.PEER_HEARTBEAT)
                brokers = (await connection.request(messages.MetadataRequest(topics=[]), 9)).brokers
                responses = [
                    await connection.request(messages.PeerHeartbeatRequest(broker_id=each.node_id), version)
                    for each in brokers
                ]
                codes = sorted(each.error_code for each in responses)
                assert codes == [ErrorCode.NONE, ErrorCode.NONE, ErrorCode.INVALID_REQUEST], "the last in its own name"
                (told,) = {(each.broker_epoch, each.incarnation) for each in responses if not each.error_code}
                assert told[0] > 0 and told[1] != bytes(16)
                found.add(told)
            finally:
                connection.close()
        assert len(found) == (3 if broker_command == BROKER_COMMAND else 0), "each process has its own"

    asyncio.run(scenario())


def test_secured_brokers_serve_it_on_their_own_listener(tmp_path: Path) -> None:
    """Named after the login as well, which asks for versions in another name; on listeners of clients nobody is told or served."""

    async def ask(cluster: SecuredCluster, listener: str, protocol: str) -> int | None:
        """Return the error code of a heartbeat, None if the broker closes the connection."""
        host, _, port = cluster.servers(listener).rpartition(":")
        connection = await Connection.open(
            host,
            int(port),
            timeout_s=_TIMEOUT_S,
            security_protocol=protocol,
            ssl_context=ssl.create_default_context(cafile=cluster.trust),
            credentials=SaslCredentials(mechanism="PLAIN", username=USER, password=USER_PASSWORD),
        )
        try:
            await connection.negotiate(_TIMEOUT_S, PEER_SOFTWARE_NAME)
            if listener != "BOTH":
                with pytest.raises(ValueError, match="speaks peer_heartbeat 0 to -1"):
                    connection.version_of(ApiKey.PEER_HEARTBEAT)
            return (await connection.request(messages.PeerHeartbeatRequest(broker_id=9), 0)).error_code
        except ConnectionError:
            return None
        finally:
            connection.close()

    listeners = {"PLAINTEXT": "PLAINTEXT", "TLS": "SSL", "SASL": "SASL_PLAINTEXT", "BOTH": "SASL_SSL"}
    with SecuredCluster(tmp_path / "files", 1) as cluster:
        codes = {each: asyncio.run(ask(cluster, each, protocol)) for each, protocol in listeners.items()}
    assert codes == dict.fromkeys(listeners) | {"BOTH": ErrorCode.BROKER_ID_NOT_REGISTERED}
