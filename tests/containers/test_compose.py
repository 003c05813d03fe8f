"""deploy/compose.yaml, brought up for real: clients of this machine, health, a clean stop, and data that lasts."""

from __future__ import annotations

import os
import subprocess
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

import kafkalite
from kafkalite.client import NewTopic, SyncAdmin, SyncConsumer, SyncProducer, TopicPartition
from kafkalite.local.broker_process import wait_until
from kafkalite.local.ports import ReservedPort
from kafkalite.testing.containers.server import default_image
from tests.conftest import foreign_program

pytestmark = [pytest.mark.containers, pytest.mark.timeout(600)]

FILE: Final = Path(kafkalite.__file__).parents[1] / "deploy" / "compose.yaml"
BROKERS: Final = ("broker-1", "broker-2", "broker-3")
ZOOKEEPERS: Final = ("zookeeper-1", "zookeeper-2", "zookeeper-3")
STATUSES_AFTER_SIGTERM: Final = {"broker": ("Exited (0)",), "zookeeper": ("Exited (0)", "Exited (143)")}
READY_TIMEOUT_S: Final = 120
STOP_TIMEOUT_S: Final = 180
_STATUS: Final = '{{.Label "com.docker.compose.service"}} {{.Status}}'


class Project:
    """The Compose file with a name and ports that nobody else has."""

    def __init__(self, ports: dict[str, int]) -> None:
        self.ports = ports
        self._program = foreign_program("docker-compose", "docker-compose")
        self._name = f"kafkalite-test-{os.getpid()}"
        self._environment = os.environ | {name: str(port) for name, port in ports.items()}
        self._environment["KAFKALITE_IMAGE"] = default_image()

    def run(self, *arguments: str) -> str:
        command = [self._program, "--project-name", self._name, "--file", str(FILE), *arguments]
        done = subprocess.run(
            command,
            env=self._environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=STOP_TIMEOUT_S,
        )
        assert done.returncode == 0, done.stdout
        return done.stdout

    def statuses(self) -> dict[str, str]:
        """What Docker says of each service's container: `Up 3 seconds (healthy)`, `Exited (0) 2 seconds ago`."""
        listed = subprocess.run(
            [
                "docker",
                "ps",
                "--all",
                "--filter",
                f"label=com.docker.compose.project={self._name}",
                "--format",
                _STATUS,
            ],
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        ).stdout
        return dict(line.split(" ", 1) for line in listed.splitlines())

    def healthy(self) -> bool:
        statuses = self.statuses()
        return statuses.keys() == {*ZOOKEEPERS, *BROKERS} and all("(healthy)" in each for each in statuses.values())

    def up(self) -> None:
        self.run("up", "--detach")
        try:
            wait_until(self.healthy, "health of all services", READY_TIMEOUT_S)
        except TimeoutError as problem:
            raise TimeoutError(f"{problem}\n{self.run('ps')}\n{self.run('logs', '--tail=30', '--no-color')}") from None

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(f"localhost:{self.ports[f'KAFKALITE_PORT_{number}']}" for number in (1, 2, 3))

    def get(self, broker: int, path: str) -> tuple[int, str]:
        """What the broker's HTTP listener answers at a path."""
        address = f"http://127.0.0.1:{self.ports[f'KAFKALITE_HTTP_PORT_{broker}']}{path}"
        with urllib.request.urlopen(address, timeout=20) as answer:
            return answer.status, answer.read().decode()


@pytest.fixture(scope="module")
def project(image: str) -> Iterator[Project]:
    del image  # it is there
    names = [f"KAFKALITE_{kind}_{number}" for kind in ("PORT", "HTTP_PORT", "ZOOKEEPER_PORT") for number in (1, 2, 3)]
    reserved = {name: ReservedPort() for name in names}
    running = Project({name: port.number for name, port in reserved.items()})
    try:
        running.up()
        yield running
    finally:
        running.run("down", "--volumes", "--timeout", "20")
        for port in reserved.values():
            port.release()


def test_clients_of_this_machine_use_all_brokers(project: Project) -> None:
    with SyncAdmin(bootstrap_servers=project.bootstrap_servers) as admin:
        addresses = {f"{broker.host}:{broker.port}" for broker in admin.describe_cluster().brokers}
        assert addresses == set(project.bootstrap_servers.split(","))
        admin.create_topics([NewTopic("kept", num_partitions=3)])
        with SyncProducer(bootstrap_servers=project.bootstrap_servers) as producer:
            for number in range(30):
                producer.send("kept", b"%d" % number, partition=number % 3)
        wait_until(lambda: "kept" in admin.list_topics(), "the topic at whatever broker is asked", 30)
        (topic,) = admin.describe_topics(["kept"])
        assert {len(partition.replicas) for partition in topic.partitions} == {3}


def test_metrics_health_and_readiness_are_at_hand(project: Project) -> None:
    for broker in (1, 2, 3):
        for path in ("/health", "/ready"):
            assert project.get(broker, path)[0] == 200
        status, metrics = project.get(broker, "/metrics")
        assert status == 200
        assert "# TYPE kafkalite_" in metrics


def test_a_stop_is_clean_and_the_data_lasts(project: Project) -> None:
    """`down` removes the containers; volumes stay without --volumes."""
    project.run("stop", "--timeout", "60")
    for service, status in project.statuses().items():
        assert status.startswith(STATUSES_AFTER_SIGTERM[service.partition("-")[0]]), (service, status)
    project.run("down")
    project.up()
    partitions = [TopicPartition("kept", number) for number in range(3)]
    with SyncConsumer(bootstrap_servers=project.bootstrap_servers) as consumer:
        consumer.assign(partitions)
        consumer.seek_to_beginning()
        found: set[bytes] = set()
        wait_until(
            lambda: (
                not found.update(
                    record.value for records in consumer.poll(timeout_ms=500).values() for record in records
                )
                and len(found) >= 30
            ),
            "the records from before",
            30,
        )
    assert found == {b"%d" % number for number in range(30)}
