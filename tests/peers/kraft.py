"""Apache Kafka 4: brokers of a KRaft cluster, fetched by Maven. The first one is the controller, too."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Final

from kafkalite.local.broker_process import wait_until
from kafkalite.local.ports import ReservedPort
from tests.peers.apache_kafka import class_command, fetch_folder
from zk.servers.ensemble import end_with_parent
from zk.servers.java_properties import properties_text

VERSION: Final = "4.1.1"
ARTIFACTS: Final = (
    ("org.apache.kafka", "kafka_2.13", VERSION),
    ("org.apache.kafka", "kafka-tools", VERSION),
    ("org.slf4j", "slf4j-reload4j", "1.7.36"),
)
CLUSTER_ID: Final = "AAAAAAAAAAAAAAAAAAAAAQ"
_START_S: Final = 120
_STOP_S: Final = 60
_STARTED: Final = b"Kafka Server started"


def fetch() -> Path:
    """Return the folder with the jars, fetched at the first call; the test is not run without Maven or Java."""
    return fetch_folder(f"apache-kafka-{VERSION}", ARTIFACTS)


class KraftCluster:
    """A running cluster of so many brokers, with ids from 1, an authorizer, and the default features of its release; `properties` win."""

    def __init__(self, directory: Path, brokers: int, properties: Mapping[str, str] | None = None) -> None:
        self._directory, self._count, self._properties = directory, brokers, dict(properties or {})
        self._ports = [ReservedPort() for _ in range(brokers + 1)]
        self._processes: list[subprocess.Popen[bytes]] = []
        self.controllers = f"127.0.0.1:{self._ports[0].number}"
        self.bootstrap_servers = ",".join(f"127.0.0.1:{each.number}" for each in self._ports[1:])

    def log_dir(self, node: int) -> Path:
        """Where a node keeps its logs."""
        return self._directory / f"kraft-{node}"

    def _command(self, main: str, *arguments: str) -> list[str]:
        return class_command(fetch(), main, "384m", "INFO", [], *arguments)

    def _write_properties(self, node: int) -> Path:
        is_controller = node == 1
        listeners = f"PLAINTEXT://127.0.0.1:{self._ports[node].number}"
        properties = {
            "node.id": str(node),
            "process.roles": "broker,controller" if is_controller else "broker",
            "controller.quorum.bootstrap.servers": self.controllers,
            "controller.listener.names": "CONTROLLER",
            "listeners": f"{listeners},CONTROLLER://{self.controllers}" if is_controller else listeners,
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "inter.broker.listener.name": "PLAINTEXT",
            "log.dirs": str(self.log_dir(node)),
            "offsets.topic.replication.factor": "1",
            "offsets.topic.num.partitions": "2",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "transaction.state.log.num.partitions": "2",
            "group.initial.rebalance.delay.ms": "0",
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:ANONYMOUS",
        }
        path = self._directory / f"kraft-{node}.properties"
        path.write_text(properties_text(properties | self._properties))
        return path

    def __enter__(self) -> KraftCluster:
        for node in range(1, self._count + 1):
            path = self._write_properties(node)
            role = ["--standalone"] if node == 1 else []
            command = self._command("kafka.tools.StorageTool", "format", *role, "-t", CLUSTER_ID, "-c", str(path))
            done = subprocess.run(command, capture_output=True, text=True, timeout=_START_S)
            if done.returncode:
                raise RuntimeError(done.stdout + done.stderr)
        try:
            for node in range(1, self._count + 1):
                with self._log(node).open("wb") as output:
                    command = self._command("kafka.Kafka", str(self._directory / f"kraft-{node}.properties"))
                    self._processes.append(
                        subprocess.Popen(command, stdout=output, stderr=output, preexec_fn=end_with_parent())
                    )
            for node in range(1, self._count + 1):
                wait_until(lambda node=node: self._has_started(node), f"start of KRaft node {node}", _START_S)  # type: ignore[misc]
        except BaseException:
            self._stop()
            raise
        return self

    def _log(self, node: int) -> Path:
        return self._directory / f"kraft-{node}.log"

    def _has_started(self, node: int) -> bool:
        text = self._log(node).read_bytes()
        if self._processes[node - 1].poll() is not None:
            raise RuntimeError(text[-3000:].decode(errors="replace"))
        return _STARTED in text

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop()

    def _stop(self) -> None:
        for each in self._processes[1:] + self._processes[:1]:  # the controller last
            each.terminate()
            try:
                each.wait(_STOP_S)
            finally:
                each.kill()
                each.wait()
        for port in self._ports:
            port.release()
