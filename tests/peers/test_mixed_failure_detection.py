"""One cluster of three brokers of ours, which end the sessions of dead ones on evidence, and one of Apache Kafka, which governs it."""

from __future__ import annotations

import re
import time
import urllib.request
from contextlib import ExitStack
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from kafkalite.local.broker_process import BROKER_COMMAND, BrokerProcess, wait_until
from kafkalite.local.cluster import LocalCluster
from kafkalite.local.cluster_facts import ClusterFacts
from kafkalite.local.ports import ReservedPort
from tests.peers import apache_kafka

pytestmark = [pytest.mark.peer, pytest.mark.timeout(300)]

OURS, APACHE = (1, 2, 3), 4
OUR_SESSION_S, WELL_BEFORE_S = 60, 20
APACHE_SESSION_S = 6
TIMEOUT_S = 90
EVIDENCE = {"kafkalite.failover.detection": "evidence", "zookeeper.session.timeout.ms": str(OUR_SESSION_S * 1000)}


def heartbeats_received(broker: BrokerProcess) -> int:
    with urllib.request.urlopen(f"{broker.http_url}metrics", timeout=TIMEOUT_S) as response:
        found = re.search(
            r'^kafkalite_requests_total\{request="PeerHeartbeat"\} (\S+)$', response.read().decode(), re.M
        )
    return int(float(found[1])) if found else 0


def test_a_dead_broker_of_ours_loses_its_session_and_a_dead_one_of_apache_kafka_keeps_it(tmp_path: Path) -> None:
    apache_kafka.fetch()
    with ExitStack() as stack:
        ensemble = stack.enter_context(LocalCluster(brokers=0, directory=tmp_path))
        facts = stack.enter_context(ClusterFacts(ensemble.zookeeper_connect))
        settings = {"zookeeper.connect": ensemble.zookeeper_connect}
        theirs = BrokerProcess(
            APACHE,
            tmp_path,
            settings | {"zookeeper.session.timeout.ms": str(APACHE_SESSION_S * 1000)},
            apache_kafka.broker_command(),
        )
        stack.callback(theirs.close)
        theirs.start()
        theirs.wait_started(TIMEOUT_S)
        wait_until(lambda: facts.controller() == APACHE, "Apache Kafka governs", TIMEOUT_S)
        ours = {}
        for number in OURS:
            http_port = stack.enter_context(ReservedPort()).number
            ours[number] = BrokerProcess(number, tmp_path, settings | EVIDENCE, BROKER_COMMAND, http_port=http_port)
            stack.callback(ours[number].close)
            ours[number].start()
        for broker in ours.values():
            broker.wait_started(TIMEOUT_S)
        wait_until(lambda: all(heartbeats_received(each) > 10 for each in ours.values()), "heartbeats", TIMEOUT_S)
        admin = AdminClient({"bootstrap.servers": theirs.address})
        admin.create_topics([NewTopic("t", 1, replica_assignment=[[1, 2, 4]])])["t"].result(TIMEOUT_S)
        wait_until(lambda: facts.fully_replicated("t"), "three replicas in sync", TIMEOUT_S)

        ours[1].kill()
        wait_until(lambda: facts.brokers() == {2, 3, APACHE}, "the end of its session", WELL_BEFORE_S)
        wait_until(lambda: facts.leaders("t") == [2], "another leader", WELL_BEFORE_S)

        killed_s = time.monotonic()
        theirs.kill()
        wait_until(lambda: facts.brokers() == {2, 3}, "the end of its session", TIMEOUT_S)
        assert time.monotonic() - killed_s > APACHE_SESSION_S / 2, "nobody but ZooKeeper has ended it"
        wait_until(lambda: facts.controller() in (2, 3), "another controller", TIMEOUT_S)
