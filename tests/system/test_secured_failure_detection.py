"""Failure detection between brokers that authenticate: it finds the dead, needs ClusterAction, and spares those that cannot log in."""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Iterator
from functools import partial

import pytest

from kafkalite.client import NewTopic, SyncAdmin, SyncProducer
from kafkalite.errors import ErrorCode
from kafkalite.local.broker_process import wait_until
from kafkalite.local.cluster_facts import ClusterFacts
from kafkalite.net.connection import Connection
from kafkalite.protocol import messages
from kafkalite.protocol.apis import PEER_SOFTWARE_NAME, ApiKey
from kafkalite.security.sasl_client import SaslCredentials
from tests.system.secured_brokers import (
    ADMIN,
    APP,
    BROKER,
    CLIENTS,
    INSIDE,
    MECHANISM,
    SESSION_S,
    TIMEOUT_S,
    SecuredBrokers,
    run_secured_brokers,
)
from zk.servers.ensemble import HOST

pytestmark = [pytest.mark.system, pytest.mark.timeout(300)]

WELL_BEFORE_S = SESSION_S / 3
SILENCE_S = 1.6
"""After it a broker is taken for dead that answers nothing."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[SecuredBrokers, ClusterFacts]]:
    with run_secured_brokers(tmp_path_factory.mktemp("secured")) as (brokers, facts):
        brokers.await_heartbeats()
        with SyncAdmin(**brokers.client(ADMIN)) as admin:
            admin.create_topics([NewTopic("t", 1, 3, topic_configs={"min.insync.replicas": "2"})])
        wait_until(lambda: facts.fully_replicated("t"), "three replicas in sync", TIMEOUT_S)
        yield brokers, facts


async def accuse(brokers: SecuredBrokers, user: str, listener: str) -> int | None:
    """Return the error code of a heartbeat to broker 1 that accuses broker 3, None if the connection is closed."""
    request = messages.peer_heartbeat_request
    connection = await Connection.open(
        HOST,
        brokers.ports[listener][1],
        timeout_s=TIMEOUT_S,
        security_protocol="SASL_SSL",
        ssl_context=ssl.create_default_context(cafile=brokers.trust),
        credentials=SaslCredentials(mechanism=MECHANISM.config_key, username=user, password=brokers.passwords[user]),
    )
    try:
        await connection.negotiate(TIMEOUT_S, PEER_SOFTWARE_NAME)
        if listener == CLIENTS:
            with pytest.raises(ValueError, match="speaks peer_heartbeat 0 to -1"):
                connection.version_of(ApiKey.PEER_HEARTBEAT)
        accusation = request.Accusation(broker_id=3, broker_epoch=1, evidence=1)
        heartbeat = request.PeerHeartbeatRequest(broker_id=2, accusations=[accusation])
        return int((await connection.request(heartbeat, 0, TIMEOUT_S)).error_code)
    except ConnectionError:
        return None
    finally:
        connection.close()


def test_a_client_accuses_nobody(cluster: tuple[SecuredBrokers, ClusterFacts]) -> None:
    brokers, _ = cluster
    assert asyncio.run(accuse(brokers, APP, INSIDE)) == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert asyncio.run(accuse(brokers, APP, CLIENTS)) is None
    assert asyncio.run(accuse(brokers, ADMIN, CLIENTS)) is None, "whatever a user may do"


def test_who_cannot_authenticate_again_is_not_taken_for_dead(cluster: tuple[SecuredBrokers, ClusterFacts]) -> None:
    """The password of brokers is changed before they know the new one, and their certificate while they run."""
    brokers, facts = cluster
    epochs = {each: facts.broker_epoch(each) for each in brokers.brokers}
    renewed, password = brokers.renew_certificate(), brokers.passwords[BROKER]
    brokers.passwords[BROKER] = "another"
    asyncio.run(brokers.set_passwords(BROKER))
    heard: dict[int, int] = {}

    def is_quiet() -> bool:
        nonlocal heard
        before, heard = heard, {each: brokers.heartbeats(each) for each in brokers.brokers}
        return heard == before

    wait_until(is_quiet, "no heartbeats, after the next authentication", TIMEOUT_S)
    end_s = time.monotonic() + SILENCE_S
    while time.monotonic() < end_s:
        time.sleep(0.05)
    brokers.passwords[BROKER] = password
    asyncio.run(brokers.set_passwords(BROKER))
    for each in brokers.brokers:
        shown = partial(brokers.shown_certificate, each)
        wait_until(lambda shown=shown: shown() == renewed, "the renewed certificate", TIMEOUT_S)  # type: ignore[misc]
    brokers.await_heartbeats()
    assert set(brokers.verdicts().values()) == {0}
    assert {each: facts.broker_epoch(each) for each in brokers.brokers} == epochs


def test_a_dead_broker_loses_its_session_by_its_neighbours_or_its_successor(
    cluster: tuple[SecuredBrokers, ClusterFacts],
) -> None:
    brokers, facts = cluster
    wait_until(lambda: facts.fully_replicated("t"), "three replicas in sync", TIMEOUT_S)
    victim = facts.leaders("t")[0]
    last = max(each for each in brokers.brokers if each != victim)
    with SyncProducer(**brokers.client(ADMIN), acks="all") as producer:
        producer.send_and_wait("t", b"before", partition=0)
        killed_s = time.monotonic()
        brokers.brokers[victim].kill()
        wait_until(lambda: victim not in facts.brokers(), "the end of its session", WELL_BEFORE_S)
        print(f"its session ended after {time.monotonic() - killed_s:.3f} s")
        producer.send_and_wait("t", b"after", partition=0)
    epoch = facts.broker_epoch(last)
    brokers.brokers[last].kill()  # the last two never accuse each other
    killed_s = time.monotonic()
    brokers.start(last, victim)
    assert time.monotonic() - killed_s < WELL_BEFORE_S and facts.broker_epoch(last) > epoch
    assert "whose process is dead" in brokers.brokers[last].log_tail(1000)
