"""The page from-apache-kafka.md on machines that systemd runs: its units, its drop-in, and what each boot starts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import docker
import pytest

from tests.containers.conftest import engine, image
from tests.peers.apache_images import build_machine_image
from tests.peers.operated_containers import ContainerNetwork
from tests.peers.operated_machines import Operator
from tests.peers.systemd_machines import LOG_DIRS, SystemdMachines
from tests.peers.test_swap_containers import network, only_long
from tests.peers.test_swap_page import BROKERS, PAGE, SETTINGS, take_blocks

pytestmark = [pytest.mark.peer, pytest.mark.containers, pytest.mark.timeout(1800)]

__all__ = ["engine", "image", "network", "only_long"]
OURS: Final = "kafkalite-broker"
THEIRS: Final = "kafka"
STATUS_AFTER_SIGTERM: Final = {OURS: "0", THEIRS: "143"}
"""Exit statuses: 128 and the signal is what Java ends with, which systemd takes for a failure unless the unit says more."""


@pytest.fixture
def machines(
    network: ContainerNetwork, engine: docker.DockerClient, image: str, tmp_path: Path
) -> Iterator[SystemdMachines]:
    found = SystemdMachines(tmp_path / "machines", network, BROKERS, build_machine_image(engine, image))
    yield found
    found.close()


def test_the_blocks_there_and_back_with_real_units(machines: SystemdMachines) -> None:
    for each in BROKERS:
        machines.write_broker(each, SETTINGS)
        assert machines.run(f"ssh kafka-{each} systemctl enable --now kafka")[0] == 0
    take_blocks(Operator(PAGE, machines), lambda: check_units(machines, OURS, THEIRS))
    check_units(machines, THEIRS, OURS)


def check_units(machines: SystemdMachines, running: str, stopped: str) -> None:
    """One service runs, as the user whose files these are, and alone starts at boot; the other has ended in order."""
    for each in BROKERS:
        assert machines.ask(each, f"systemctl is-enabled {running}; systemctl is-active {running}") == "enabled\nactive"
        ended = f"systemctl is-enabled {stopped}; systemctl show --value --property MainPID,ExecMainStatus {stopped}"
        assert machines.ask(each, ended).split() == ["disabled", "0", STATUS_AFTER_SIGTERM[stopped]], (
            machines.log_tails()
        )
        owner = f"stat -c %U /proc/$(systemctl show --property MainPID --value {running})"
        assert machines.ask(each, owner) == "kafka"
        assert machines.ask(each, f"find {LOG_DIRS} ! -user kafka") == ""
