"""What brokers do about one that is dead, and about one that only refuses, with real processes and sessions as long as by default."""

from __future__ import annotations

import re
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

import pytest

from kafkalite.client import NewTopic, SyncAdmin, SyncProducer
from kafkalite.local.broker_process import BrokerProcess, wait_until
from kafkalite.local.cluster import LocalCluster
from kafkalite.local.cluster_facts import ClusterFacts
from kafkalite.local.link import Link
from kafkalite.local.ports import ReservedPort

pytestmark = [pytest.mark.system, pytest.mark.timeout(120)]

SETTINGS: Final = {
    "kafkalite.failover.detection": "evidence",
    "zookeeper.session.timeout.ms": "18000",
    "auto.create.topics.enable": "false",
    "auto.leader.rebalance.enable": "false",
}
ACKNOWLEDGED_WITHIN_S: Final = 2.0
TRIES: Final = 3
LEFT_ALONE_S: Final = 2.5
"""Longer than a broker that refuses, or is silent, is left alone otherwise."""
TIMEOUT_S: Final = 60


class Cluster:
    """Three brokers that nobody but each other watches."""

    def __init__(self, brokers: dict[int, BrokerProcess], facts: ClusterFacts) -> None:
        self.brokers, self.facts = brokers, facts
        self.servers = ",".join(each.address for each in brokers.values())

    def start(self, *broker_ids: int) -> None:
        """Returns when they serve, and each has answered heartbeats of all others."""
        chosen = [self.brokers[each] for each in broker_ids or self.brokers]
        for each in chosen:
            each.start()
        for each in chosen:
            each.wait_started(TIMEOUT_S)
        wait_until(lambda: all(map(self._is_watched, self.brokers)), "heartbeats between all brokers", TIMEOUT_S)

    def _is_watched(self, broker_id: int) -> bool:
        received = self._metric(broker_id, r'kafkalite_requests_total\{request="PeerHeartbeat"\}')
        return received > 3 * len(self.brokers)

    def verdicts(self, broker_id: int) -> int:
        return self._metric(broker_id, r"kafkalite_failure_verdicts_total\{.*\}")

    def _metric(self, broker_id: int, series: str) -> int:
        with urllib.request.urlopen(f"{self.brokers[broker_id].http_url}metrics", timeout=TIMEOUT_S) as response:
            return sum(int(float(n)) for n in re.findall(rf"^{series} (\S+)$", response.read().decode(), re.MULTILINE))


@contextmanager
def new_cluster(directory: Path, **settings: str) -> Iterator[Cluster]:
    own = SETTINGS | {name.replace("_", "."): value for name, value in settings.items()}
    with LocalCluster(brokers=0, directory=directory) as ensemble, ExitStack() as stack:
        facts = stack.enter_context(ClusterFacts(ensemble.zookeeper_connect))
        own["zookeeper.connect"] = ensemble.zookeeper_connect
        brokers = {}
        for number in (1, 2, 3):
            http_port = stack.enter_context(ReservedPort()).number
            brokers[number] = BrokerProcess(number, directory, own, http_port=http_port)
            stack.callback(brokers[number].close)
        yield Cluster(brokers, facts)


def test_a_killed_leader_is_replaced_long_before_its_session_times_out(tmp_path: Path) -> None:
    """Others use the machine too, and can only make it slower: the first death within the limit counts."""
    with new_cluster(tmp_path) as cluster:
        cluster.start()
        with SyncAdmin(bootstrap_servers=cluster.servers) as admin:
            admin.create_topics([NewTopic("t", 1, 3, topic_configs={"min.insync.replicas": "2"})])
        took_s: list[float] = []
        with SyncProducer(bootstrap_servers=cluster.servers, acks="all") as producer:
            while len(took_s) < TRIES and not (took_s and took_s[-1] <= ACKNOWLEDGED_WITHIN_S):
                wait_until(lambda: cluster.facts.fully_replicated("t"), "three replicas in sync", TIMEOUT_S)
                producer.send_and_wait("t", b"before", partition=0)
                victim = cluster.facts.leaders("t")[0]
                killed_s = time.monotonic()
                cluster.brokers[victim].kill()
                producer.send_and_wait("t", b"after", partition=0)
                took_s.append(time.monotonic() - killed_s)
                cluster.start(victim)
    print(took_s)
    assert min(took_s) <= ACKNOWLEDGED_WITHIN_S, took_s


def test_a_broker_whose_proxy_is_gone_is_left_alone_where_its_listener_is_marked(tmp_path: Path) -> None:
    with new_cluster(tmp_path, kafkalite_failover_proxied_listeners="PLAINTEXT") as cluster:
        hidden = cluster.brokers[3]
        with Link([hidden.address]) as proxy:
            hidden.properties["advertised.listeners"] = f"PLAINTEXT://{proxy.connect}"
            cluster.start()
            epoch = cluster.facts.broker_epoch(3)
        end_s = time.monotonic() + LEFT_ALONE_S
        while time.monotonic() < end_s:
            assert cluster.facts.broker_epoch(3) == epoch
            time.sleep(0.05)
        assert [cluster.verdicts(each) for each in cluster.brokers] == [0, 0, 0]
