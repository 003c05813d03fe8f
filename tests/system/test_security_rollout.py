"""A plain cluster becomes a secured one by rolling restarts, and a plain one again, while records are written: none is lost or doubled.

The steps are those of Apache Kafka's documentation: more listeners and an identity for ZooKeeper; brokers among each other by the new
listener, znodes that are theirs, `zookeeper-security-migration`; without the old listener. Back in the opposite order.
"""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from kafkalite.client import NewTopic, SyncAdmin, SyncConsumer, SyncProducer
from kafkalite.local.cluster import LocalCluster
from kafkalite.local.secured import INSIDE, ClusterSecurity
from tests.peers.face_server import run_ours
from zk import paths
from zk.kazoo_adapter.kazoo_store import KazooStore
from zk.servers.ensemble import HOST, Ensemble
from zk.servers.server_settings import EnsembleTls
from zk.store import NoAuthError

pytestmark = [pytest.mark.system, pytest.mark.timeout(400)]

TOPIC, PARTITIONS, BROKERS = "app-records", 2, (1, 2)
PAUSE_S: Final = 0.02
PATIENCE_S: Final = 120.0
Settings = dict[str, str]


class Writer:
    """Writes numbered records, one after the other, until it is stopped; `acknowledged` has their values."""

    def __init__(self, name: str, options: dict[str, Any]) -> None:
        self.acknowledged: list[bytes] = []
        self._name, self._options = name, options
        self._stopping, self._problem = threading.Event(), ""
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            with SyncProducer(**self._options, acks="all", delivery_timeout_ms=int(PATIENCE_S * 1000)) as producer:
                while not self._stopping.wait(PAUSE_S):
                    value = f"{self._name}-{len(self.acknowledged)}".encode()
                    producer.send_and_wait(TOPIC, value, partition=len(self.acknowledged) % PARTITIONS)
                    self.acknowledged.append(value)
        except Exception as problem:
            self._problem = repr(problem)

    def check(self) -> None:
        assert not self._problem, self._problem

    def stop(self) -> list[bytes]:
        self._stopping.set()
        self._thread.join(PATIENCE_S + 30)
        self.check()
        assert self.acknowledged, "it wrote nothing"
        return self.acknowledged


class Rollout:
    """A cluster with the ports of all its times."""

    def __init__(self, cluster: LocalCluster, ensemble: Ensemble, security: ClusterSecurity) -> None:
        self.cluster, self.ensemble, self.security = cluster, ensemble, security
        self._before = {broker: dict(cluster.brokers[broker].properties) for broker in BROKERS}
        self._ports = {broker: (cluster._reserve_port(), cluster._reserve_port()) for broker in BROKERS}

    @property
    def plain(self) -> dict[str, Any]:
        return {"bootstrap_servers": self.cluster.bootstrap_servers}

    @property
    def secured(self) -> dict[str, Any]:
        servers = ",".join(f"{HOST}:{clients}" for clients, _ in self._ports.values())
        settings = self.security.client_settings("admin")
        return {"bootstrap_servers": servers, **{key.replace(".", "_"): text for key, text in settings.items()}}

    def settings(self, broker: int, stage: str) -> Settings:
        """Of a broker that is plain, speaks both, protects what it makes and is reached by all, or is closed."""
        before = self._before[broker]
        if stage == "plain":
            return before
        closed = {
            **before,
            **self.security.broker_settings(HOST, *self._ports[broker]),
            "zookeeper.connect": self.ensemble.secure_connect,
        }
        if stage == "closed":
            return closed
        open_too = {
            **closed,
            "listeners": f"{before['listeners']},{closed['listeners']}",
            "listener.security.protocol.map": f"PLAINTEXT:PLAINTEXT,{closed['listener.security.protocol.map']}",
            "super.users": f"{closed['super.users']};User:ANONYMOUS",
        }
        if stage == "protecting":
            return open_too
        both = open_too | {"inter.broker.listener.name": "PLAINTEXT", "zookeeper.set.acl": "false"}
        del both["authorizer.class.name"]
        return both

    def roll(self, stage: str) -> None:
        """Restart each broker with other settings, one after the other, when all replicas are in sync."""
        for broker in BROKERS:
            for partition in range(PARTITIONS):
                self.cluster.await_isr(TOPIC, partition, size=len(BROKERS), timeout_s=PATIENCE_S)
            self.cluster.brokers[broker].properties = self.settings(broker, stage)
            self.cluster.restart(broker)
        for partition in range(PARTITIONS):
            self.cluster.await_isr(TOPIC, partition, size=len(BROKERS), timeout_s=PATIENCE_S)

    def migrate(self, way: str) -> None:
        files = self.security.write_client_files("", "")
        done = run_ours(
            "zookeeper-security-migration",
            *("--zookeeper.acl", way, "--zookeeper.connect", self.ensemble.secure_connect),
            *(
                "--zk-tls-config-file",
                str(next(path for path in files.values() if path.name == "zookeeper.properties")),
            ),
        )
        assert done.status == 0, done.stdout + done.stderr

    def is_readable_by_all(self, path: str) -> bool:
        async def look() -> bool:
            store = KazooStore(self.ensemble.connect)
            await store.start(PATIENCE_S)
            try:
                await store.read(path)
            except NoAuthError:
                return False
            finally:
                await store.close()
            return True

        return asyncio.run(look())


@pytest.fixture
def rollout(tmp_path: Path) -> Iterator[Rollout]:
    security = ClusterSecurity(tmp_path / "security")
    security.make()
    tls = security.ensemble_tls()
    ensemble = Ensemble(
        tmp_path / "zookeeper",
        tls=EnsembleTls(identity=tls.identity, authorities=tls.authorities, client=tls.client, keeps_plaintext=True),
    )
    asyncio.run(ensemble.start(60))
    few = {"offsets.topic.num.partitions": "1", "default.replication.factor": "2"}
    try:
        with LocalCluster(brokers=len(BROKERS), zookeeper_connect=ensemble.connect, properties=few) as cluster:
            yield Rollout(cluster, ensemble, security)
    finally:
        asyncio.run(ensemble.stop())


def test_a_plain_cluster_is_secured_under_load_and_opened_again(rollout: Rollout) -> None:
    with SyncAdmin(**rollout.plain) as admin:
        admin.create_topics([NewTopic(TOPIC, PARTITIONS, len(BROKERS))])
    written: list[bytes] = []
    plain = Writer("plain", rollout.plain)
    rollout.roll("both")
    rollout.roll("protecting")

    async def users() -> None:
        from kafkalite.client import Admin

        async with Admin(**rollout.plain) as client:
            await rollout.security.make_users(client)

    asyncio.run(users())
    rollout.migrate("secure")
    secured = Writer("secured", rollout.secured)
    written += plain.stop()
    rollout.roll("closed")
    secured.check()
    assert not rollout.is_readable_by_all(paths.user_config("admin"))
    with SyncAdmin(**rollout.secured) as admin:
        listeners = {each.port for each in admin.describe_cluster().brokers}
        assert listeners.isdisjoint(each.port for each in rollout.cluster.brokers.values()), (
            f"only {INSIDE} and clients"
        )

    rollout.roll("protecting")
    again = Writer("again", rollout.plain)
    written += secured.stop()
    rollout.roll("both")
    rollout.migrate("unsecure")
    assert rollout.is_readable_by_all(paths.user_config("admin"))
    rollout.roll("plain")
    written += again.stop()

    with SyncConsumer(**rollout.plain, auto_offset_reset="earliest") as consumer:
        read = _all_records(consumer)
    assert Counter(read) == Counter(written), "each acknowledged record is there once"


def _all_records(consumer: SyncConsumer) -> list[bytes]:
    from kafkalite.types import TopicPartition

    places = [TopicPartition(TOPIC, partition) for partition in range(PARTITIONS)]
    consumer.assign(places)
    left = sum(consumer.end_offsets(places).values())
    found: list[bytes] = []
    while len(found) < left:
        record = next(consumer)
        assert isinstance(record.value, bytes)
        found.append(record.value)
    return found
