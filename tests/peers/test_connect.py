"""Kafka Connect's exactly-once source (KIP-618) on our brokers: the lines of a file are in a topic once, though the worker is killed.

Its tasks write records and the offsets of their source in one transaction; the next worker fences the producers of the dead one
(InitProducerId for their transactional ids), and goes on behind what was committed.
"""

from __future__ import annotations

import json
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from kafkalite.local.cluster import LocalCluster
from kafkalite.local.ports import ReservedPort
from tests.peers import apache_kafka
from zk.servers.java_properties import properties_text

pytestmark = [pytest.mark.peer, pytest.mark.timeout(300)]

SETTINGS: Final = {
    "auto.create.topics.enable": "false",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "1000",
}
PORTIONS: Final = 8
PER_PORTION: Final = 50
CONNECTOR: Final = {
    "connector.class": "org.apache.kafka.connect.file.FileStreamSourceConnector",
    "tasks.max": "1",
    "topic": "lines",
    "exactly.once.support": "required",
}


class Worker:
    """A distributed worker; each one is another process of the same group."""

    def __init__(self, cluster: LocalCluster, port: int, folder: Path) -> None:
        settings = {
            "bootstrap.servers": cluster.bootstrap_servers,
            "group.id": "workers",
            "listeners": f"http://127.0.0.1:{port}",
            "exactly.once.source.support": "enabled",
            "key.converter": "org.apache.kafka.connect.storage.StringConverter",
            "value.converter": "org.apache.kafka.connect.storage.StringConverter",
            "plugin.path": str(apache_kafka.fetch_connectors()),
            "plugin.discovery": "service_load",
            "session.timeout.ms": "2000",
            "heartbeat.interval.ms": "500",
            "scheduled.rebalance.max.delay.ms": "0",
        }
        for what in ("offset", "config", "status"):
            settings |= {f"{what}.storage.topic": f"connect-{what}", f"{what}.storage.replication.factor": "1"}
        settings |= {"offset.storage.partitions": "1", "status.storage.partitions": "1"}
        folder.mkdir()
        properties = folder / "worker.properties"
        properties.write_text(properties_text(settings))
        self._log, self._url = folder / "log", f"http://127.0.0.1:{port}/connectors/source/config"
        command = apache_kafka.java_command("org.apache.kafka.connect.cli.ConnectDistributed", str(properties))
        with self._log.open("wb") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)

    def configure(self, connector: dict[str, str], timeout_s: float) -> None:
        """Once it serves, and has joined its group."""
        deadline_s = time.monotonic() + timeout_s
        data, headers = json.dumps(connector).encode(), {"Content-Type": "application/json"}
        while True:
            assert self.process.poll() is None and time.monotonic() < deadline_s, self.said
            try:
                request = urllib.request.Request(self._url, data, headers, method="PUT")
                with urllib.request.urlopen(request, timeout=30):
                    return
            except (urllib.error.URLError, OSError):
                time.sleep(0.2)  # between two attempts

    @property
    def said(self) -> str:
        return self._log.read_text(errors="replace")[-4000:]

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


@pytest.fixture
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster(brokers=1, properties=SETTINGS) as running:
        admin = AdminClient({"bootstrap.servers": running.bootstrap_servers})
        admin.create_topics([NewTopic("lines", 1, 1)])["lines"].result(60)
        yield running


class Committed:
    """What a reader of committed records sees of the topic."""

    def __init__(self, servers: str) -> None:
        settings = {"bootstrap.servers": servers, "group.id": "lines", "isolation.level": "read_committed"}
        self._consumer = Consumer(settings)
        self._consumer.assign([TopicPartition("lines", 0, 0)])
        self.lines: list[str] = []

    def read(self, wanted: int, timeout_s: float, is_alive: Callable[[], bool]) -> None:
        """Until there are so many, or the time is over."""
        deadline_s = time.monotonic() + timeout_s
        while len(self.lines) < wanted and time.monotonic() < deadline_s and is_alive():
            message = self._consumer.poll(0.2)
            if message is not None and message.error() is None:
                self.lines.append((message.value() or b"").decode())

    def close(self) -> None:
        self._consumer.close()


def test_each_line_is_there_once_though_the_worker_is_killed(cluster: LocalCluster, tmp_path: Path) -> None:
    expected = [f"line {number}" for number in range(PORTIONS * PER_PORTION)]
    source, written = tmp_path / "source.txt", 0
    source.touch()

    def write_portion() -> None:
        nonlocal written
        with source.open("a") as more:
            more.write("".join(f"{each}\n" for each in expected[written : written + PER_PORTION]))
        written += PER_PORTION

    committed = Committed(cluster.bootstrap_servers)
    with ReservedPort() as port:
        workers = [Worker(cluster, port.number, tmp_path / "first")]
        try:
            workers[0].configure(CONNECTOR | {"file": str(source)}, 120)
            for number in range(PORTIONS):
                write_portion()
                if number == PORTIONS // 2:  # in the middle of that portion, or before it
                    workers[-1].kill()
                    workers.append(Worker(cluster, port.number, tmp_path / "second"))
                committed.read(written, 120, lambda: workers[-1].process.poll() is None)
            committed.read(written + 1, 1, lambda: True)  # nothing may come behind the last one
        finally:
            for each in workers:
                each.kill()
            committed.close()
    assert committed.lines == expected, workers[-1].said
