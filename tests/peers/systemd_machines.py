"""Machines with systemd, played by containers in which it is the first process: `ssh` and `scp` of an operator go by `docker`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from docker.models.containers import Container

from kafkalite.local.broker_process import wait_until
from tests.peers.operated_containers import ContainerNetwork
from tests.peers.operated_machines import UNIT, OperatedPlace
from zk.servers.java_properties import properties_text

LOG_DIRS: Final = "/var/lib/kafka/logs"
_CGROUPS: Final = "/sys/fs/cgroup"
_BOOT_S: Final = 60
_BOOTED: Final = ("running", "degraded")
_INSTALL: Final = "[Install]\nWantedBy=multi-user.target\n"
_SSH: Final = """#!/bin/sh
# ssh HOST COMMAND...: as root in its home, without the caller's variables.
host=$1
shift
exec docker exec --interactive --workdir /root "$host-{suffix}" sh -c "$*"
"""
_SCP: Final = """#!/bin/sh
# scp FILE HOST:PATH
exec docker cp "$1" "${{2%%:*}}-{suffix}:${{2#*:}}" > /dev/null
"""


class SystemdMachines(OperatedPlace):
    """The machines `kafka-ID` of brokers, in a network with ZooKeeper, and a folder from which they are operated.

    They have the rights that systemd needs for its services' namespaces and control groups, which are fewer than those of `--privileged`.
    """

    def __init__(self, folder: Path, network: ContainerNetwork, servers: Iterable[int], image: str) -> None:
        super().__init__(folder)
        self._network = network
        self._machines = {each: self._start_machine(image, each) for each in servers}
        self._zookeeper = f"{network.address_of(network.zookeeper)}:2181"
        for name, text in (("ssh", _SSH), ("scp", _SCP)):
            path = self.programs / name
            path.write_text(text.format(suffix=network.suffix))
            path.chmod(0o755)
        for each in self._machines:
            self.write(each, "/etc/systemd/system/kafka.service", UNIT + _INSTALL)
        self.servers = self.map_addresses(",".join(f"kafka-{each}:9092" for each in self._machines))

    def _start_machine(self, image: str, server: int) -> Container:
        machine = self._network.run(
            image,
            f"kafka-{server}",
            environment={"container": "docker"},
            cap_add=["SYS_ADMIN"],
            security_opt=["seccomp=unconfined", "apparmor=unconfined"],
            cgroupns="host",
            volumes={_CGROUPS: {"bind": _CGROUPS, "mode": "rw"}},
            tmpfs={"/run": "", "/run/lock": "", "/tmp": ""},
        )
        try:
            wait_until(lambda: self._state_of(machine) in _BOOTED, f"the boot of machine {server}", _BOOT_S)
        except TimeoutError as late:
            raise TimeoutError(f"{late}\n{machine.logs(tail=40).decode(errors='replace')}") from None
        return machine

    @staticmethod
    def _state_of(machine: Container) -> str:
        return str(machine.exec_run(["systemctl", "is-system-running"])[1].decode().strip())

    def map_addresses(self, text: str) -> str:
        text = re.sub(
            r"kafka-(\d+):9092",
            lambda found: f"{self._network.address_of(self._machines[int(found[1])])}:9092",
            text,
        )
        return text.replace("zk-1:2181", self._zookeeper)

    def write(self, server: int, path: str, text: str) -> None:
        """Write a file of a machine."""
        draft = self.folder / "draft"
        draft.write_text(text)
        code, told = self.run(f"scp {draft} kafka-{server}:{path}")
        assert code == 0, told

    def write_broker(self, server: int, settings: Mapping[str, str]) -> None:
        """Write server.properties of a broker."""
        own = {
            "broker.id": str(server),
            "listeners": f"PLAINTEXT://kafka-{server}:9092",
            "log.dirs": LOG_DIRS,
            "zookeeper.connect": "zk-1:2181",
        }
        text = self.map_addresses(properties_text({**settings, **own}))
        self.write(server, "/etc/kafka/server.properties", text)

    def ask(self, server: int, command: str) -> str:
        """Return what a command prints on a machine."""
        return self.run(f"ssh kafka-{server} '{command}'")[1].strip()

    def log_tails(self) -> str:
        command = "journalctl --no-pager -n 20 -u kafka -u kafkalite-broker"
        return "\n".join(f"kafka-{each}: {self.ask(each, command)}" for each in self._machines)
