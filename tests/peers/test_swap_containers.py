"""The page from-apache-kafka.md for brokers in containers: two of Apache Kafka become ours on the same volumes, under load, and go back."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import docker
import pytest
from docker.models.containers import Container

from tests.containers.conftest import engine, image
from tests.peers.apache_images import build_broker_image
from tests.peers.operated_containers import LOG_DIRS, ContainerNetwork, OperatedContainers, exit_status
from tests.peers.operated_machines import Operator
from tests.peers.test_swap_page import PAGE, SETTINGS

pytestmark = [pytest.mark.peer, pytest.mark.containers, pytest.mark.timeout(1800)]

__all__ = ["engine", "image"]
BROKERS: Final = (1, 2)
STEP: Final = "migrate step plan.toml --stop-command 'docker"
ROLLBACK: Final = "migrate rollback plan.toml --stop-command 'docker"
STOPPED: Final = (0, 143)
"""Exit statuses after SIGTERM, of ours and of Java; 137 is SIGKILL's."""


@pytest.fixture
def network(long: bool, engine: docker.DockerClient, image: str) -> Iterator[ContainerNetwork]:
    found = ContainerNetwork(engine, image)
    yield found
    found.close()


@pytest.fixture(scope="session", autouse=True)
def only_long(long: bool) -> None:
    if not long:
        pytest.skip("images of Apache Kafka are built, and Java machines started: with --long")


def test_brokers_in_containers_become_ours_on_the_same_volumes_and_go_back(
    network: ContainerNetwork, engine: docker.DockerClient, image: str, tmp_path: Path
) -> None:
    images = (build_broker_image(engine, image), image)
    containers = OperatedContainers(tmp_path / "containers", network, BROKERS, images)
    try:
        containers.start_brokers(SETTINGS)
        replace_and_take_back(Operator(PAGE, containers), containers)
    finally:
        containers.close()


def replace_and_take_back(operator: Operator, containers: OperatedContainers) -> None:
    checked = operator.run("migrate check")
    assert "Apache Kafka 3.9: 1, 2. 2 of 2 to be replaced by kafkalite" in checked, checked
    operator.run("docker create")
    for each in BROKERS:
        theirs, ours = (containers.container(f"{name}-{each}") for name in ("kafka", "kafkalite"))
        assert volume_of(theirs) == volume_of(ours)
        assert ports_of(theirs) == ports_of(ours) != {}
    with operator.reading(containers.servers):
        told = operator.run("--dry-run")
        assert "2 steps in plan.toml" in told and "becomes kafkalite" in told, told
        operator.step(STEP, "is kafkalite", "is kafkalite")
        assert "all steps of the plan are done" in operator.run(STEP, 3)
        assert are_running(containers, "kafkalite", "kafka")
        operator.run("--restart=no")
        operator.step(ROLLBACK, "is Apache Kafka", "is Apache Kafka")
        assert "no broker was replaced" in operator.run(ROLLBACK, 3)
        assert are_running(containers, "kafka", "kafkalite")
    assert "there once, in order" in operator.run("evidence after night-1")
    assert all(each in operator.taken for each in operator.blocks if "docker" in each.text)


def are_running(containers: OperatedContainers, running: str, stopped: str) -> bool:
    """True if the containers of the one program run, and those of the other have ended by SIGTERM."""
    ended = [exit_status(containers.container(f"{stopped}-{each}")) for each in BROKERS]
    assert set(ended) <= set(STOPPED), ended
    return all(exit_status(containers.container(f"{running}-{each}")) is None for each in BROKERS)


def volume_of(container: Container) -> str:
    """Return the name of the volume that has a container's log directory."""
    (found,) = (each["Name"] for each in container.attrs["Mounts"] if each["Destination"] == LOG_DIRS)
    return str(found)


def ports_of(container: Container) -> dict[str, object]:
    """Return the ports that a container publishes, with their addresses on this machine."""
    return dict(container.attrs["HostConfig"]["PortBindings"])
