"""Delegation tokens of a broker of ours and one of Apache Kafka on the same ZooKeeper: each takes, renews and ends those of the other."""

from __future__ import annotations

import asyncio
from base64 import b64encode
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any, Final

import pytest

from kafkalite.errors import AuthenticationError
from kafkalite.local.broker_process import BROKER_COMMAND
from kafkalite.local.cluster import LocalCluster
from kafkalite.net.connection import Connection
from kafkalite.protocol import messages
from kafkalite.security.sasl_client import SaslCredentials
from kafkalite.security.scram import ScramMechanism, salted_password
from tests.peers import apache_kafka
from tests.wire.secured import SecuredCluster

pytestmark = [pytest.mark.peer, pytest.mark.timeout(300)]

NAMES: Final = ("alice", "a b", "50%", "a/b:c=d,e", "st*r+p~", "CN=Bob Smith,OU=R&D,O=A/B")
"""Apache Kafka logs in no user with letters beyond ASCII by SCRAM."""
PASSWORD: Final = "secret"
SALT: Final = b"salt" * 4
DEADLINE_S: Final = 60
SETTINGS: Final = {"inter.broker.listener.name": "PLAINTEXT", "offsets.topic.replication.factor": "1"}


@pytest.fixture(scope="module")
def brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[SecuredCluster, SecuredCluster]]:
    """(Apache Kafka's, which is the controller, and ours)"""
    with ExitStack() as stack:
        ensemble = stack.enter_context(LocalCluster(brokers=0))
        running = []
        for number, command in enumerate((apache_kafka.broker_command(), list(BROKER_COMMAND)), 1):
            made = SecuredCluster(
                tmp_path_factory.mktemp("files") / "files",
                1,
                SETTINGS,
                command=command,
                zookeeper_connect=ensemble.zookeeper_connect,
                first_broker_id=number,
                start_timeout_s=180,
            )
            running.append(stack.enter_context(made))
        yield running[0], running[1]  # type: ignore[misc]


async def make_users(broker: SecuredCluster) -> None:
    m, mechanism = messages.alter_user_scram_credentials_request, ScramMechanism.SCRAM_SHA_256
    salted = salted_password(mechanism, PASSWORD, SALT, 4096)
    wanted = [
        m.ScramCredentialUpsertion(
            name=name, mechanism=int(mechanism), iterations=4096, salt=SALT, salted_password=salted
        )
        for name in (*NAMES, "renewer")
    ]
    host, port = broker.bootstrap_servers.split(":")
    connection = await Connection.open(host, int(port))
    reply = await connection.request(m.AlterUserScramCredentialsRequest(deletions=[], upsertions=wanted), 0)
    connection.close()
    assert {each.error_code for each in reply.results} == {0}


async def login(broker: SecuredCluster, user: str, password: str = PASSWORD, is_token: bool = False) -> Connection:
    """As soon as the broker has heard of the user or token."""
    host, port = broker.servers("SASL").split(":")
    who = SaslCredentials(mechanism="SCRAM-SHA-256", username=user, password=password, is_token=is_token)
    async with asyncio.timeout(DEADLINE_S):
        while True:
            try:
                return await Connection.open(
                    host, int(port), security_protocol="SASL_PLAINTEXT", credentials=who, timeout_s=DEADLINE_S
                )
            except AuthenticationError:
                await asyncio.sleep(0.05)


async def lend(maker: SecuredCluster, other: SecuredCluster, name: str) -> None:
    m = messages.create_delegation_token_request
    renewers = [m.CreatableRenewers(principal_type="User", principal_name=each) for each in ("renewer", f"{name}!")]
    owner = await login(maker, name)
    made: Any = await owner.request(m.CreateDelegationTokenRequest(renewers=renewers, max_lifetime_ms=-1), 3)
    assert made.error_code == 0
    worker = await login(other, made.token_id, b64encode(made.hmac).decode(), is_token=True)
    there, renewer = await login(other, name), await login(other, "renewer")
    described = await there.request(messages.describe_delegation_token_request.DescribeDelegationTokenRequest(), 3)
    (shown,) = [each for each in described.tokens if each.token_id == made.token_id]
    assert (shown.principal_name, shown.token_requester_principal_name) == (name, name)
    assert [each.principal_name for each in shown.renewers] == ["renewer", f"{name}!"]
    renew = messages.renew_delegation_token_request.RenewDelegationTokenRequest(hmac=made.hmac, renew_period_ms=60_000)
    assert (await renewer.request(renew, 2)).error_code == 0
    end = messages.expire_delegation_token_request.ExpireDelegationTokenRequest
    assert (await there.request(end(hmac=made.hmac, expiry_time_period_ms=-1), 2)).error_code == 0
    for each in (owner, worker, there, renewer):
        each.close()


def test_tokens_of_one_broker_are_served_by_the_other(brokers: tuple[SecuredCluster, SecuredCluster]) -> None:
    async def scenario() -> None:
        apache, ours = brokers
        await make_users(apache)
        for name in NAMES:
            await lend(apache, ours, name)
            await lend(ours, apache, name)

    asyncio.run(scenario())
