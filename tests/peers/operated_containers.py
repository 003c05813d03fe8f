"""Brokers in containers of Docker, which an operator replaces by `docker stop` and `docker start`: the names of the page stand for others,
so that nobody else's containers are met.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

import docker
from docker.models.containers import Container

from kafkalite.local.ports import ReservedPort
from kafkalite.testing.containers.owner import owner_labels, remove_orphans_once
from tests.peers.apache_images import USER
from tests.peers.operated_machines import OperatedPlace

LOG_DIRS: Final = "/var/lib/kafka/data"
_READY_S: Final = 120


class ContainerNetwork:
    """A network with a ZooKeeper server of our image, and what is run in it; all of it is removed at the end."""

    def __init__(self, engine: docker.DockerClient, image: str) -> None:
        self.engine, self.suffix = engine, secrets.token_hex(4)
        remove_orphans_once(engine)
        self._volumes: list[str] = []
        self.name = self.named("kafka")
        engine.networks.create(self.name, labels=owner_labels())
        variables = {"ZOOKEEPER_CLIENT_PORT": "2181", "ZOOKEEPER_TICK_TIME": "2000"}
        self.zookeeper = self.run(image, "zookeeper", environment=variables)

    def named(self, name: str) -> str:
        """Return the name that stands for this one here."""
        return f"{name}-{self.suffix}"

    def run(self, image: str, name: str, **options: object) -> Container:
        """Run a container as `docker run --detach` does; other containers reach it by its name here."""
        return self.engine.containers.run(
            image,
            detach=True,
            name=self.named(name),
            hostname=self.named(name),
            network=self.name,
            labels=owner_labels(),
            **options,
        )

    def make_volume(self, name: str, image: str, user: str) -> str:
        """Make a volume whose root a user of that number may write to. Returns its name."""
        volume = self.engine.volumes.create(self.named(name), labels=owner_labels()).name
        self._volumes.append(volume)
        mounts = {volume: {"bind": "/volume", "mode": "rw"}}
        owner = self.run(image, f"{name}-owner", command=["chown", user, "/volume"], user="0", volumes=mounts)
        assert owner.wait(timeout=_READY_S)["StatusCode"] == 0, owner.logs().decode()
        owner.remove(v=True)
        return str(volume)

    def address_of(self, container: Container) -> str:
        """Return the IP address of a container in the network."""
        container.reload()
        return str(container.attrs["NetworkSettings"]["Networks"][self.name]["IPAddress"])

    def containers(self) -> list[Container]:
        """Return all containers whose names are of this network, whoever created them."""
        return [each for each in self.engine.containers.list(all=True) if each.name.endswith(f"-{self.suffix}")]

    def log_tails(self) -> str:
        """Return the last lines of all containers."""
        return "\n".join(f"{each.name}: {each.logs(tail=8).decode(errors='replace')}" for each in self.containers())

    def close(self) -> None:
        """Remove containers, volumes and the network."""
        for each in self.containers():
            each.remove(force=True, v=True)
        for name in self._volumes:
            self.engine.volumes.get(name).remove(force=True)
        self.engine.networks.get(self.name).remove()


class OperatedContainers(OperatedPlace):
    """Brokers of Apache Kafka in containers `kafka-ID`, and a folder from which they are operated by `docker`.

    Their listener OUTSIDE is for clients of this machine, at a port that each keeps; INSIDE is for containers.
    """

    def __init__(
        self, folder: Path, network: ContainerNetwork, brokers: Iterable[int], images: tuple[str, str]
    ) -> None:
        super().__init__(folder)
        self._network, (self._theirs, self._ours) = network, images
        self._ports = {each: ReservedPort() for each in brokers}
        self._zookeeper = f"{network.address_of(network.zookeeper)}:2181"
        self.servers = ",".join(self.map_addresses(f"kafka-{each}:9092") for each in self._ports)

    def map_addresses(self, text: str) -> str:
        text = re.sub(r"kafka-(\d+):9092", lambda found: f"127.0.0.1:{self._ports[int(found[1])].number}", text)
        text = re.sub(r"(kafka|kafkalite)-(\$\w+|\d+)\b(?!\.env)", rf"\1-\2-{self._network.suffix}", text)
        text = text.replace("--network kafka ", f"--network {self._network.name} ").replace(
            "kafkalite:latest", self._ours
        )
        return text.replace("zk-1:2181", self._zookeeper)

    def start_brokers(self, settings: Mapping[str, str]) -> None:
        """Start Apache Kafka in each container, with these settings, a volume of its own and a restart policy."""
        for broker, port in self._ports.items():
            name = self._network.named(f"kafka-{broker}")
            variables = {f"KAFKA_{each.replace('.', '_').upper()}": value for each, value in settings.items()} | {
                "KAFKA_BROKER_ID": str(broker),
                "KAFKA_ZOOKEEPER_CONNECT": f"{self._network.zookeeper.name}:2181",
                "KAFKA_LISTENERS": f"INSIDE://:9092,OUTSIDE://:{port.number}",
                "KAFKA_ADVERTISED_LISTENERS": f"INSIDE://{name}:9092,OUTSIDE://127.0.0.1:{port.number}",
                "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": "INSIDE:PLAINTEXT,OUTSIDE:PLAINTEXT",
                "KAFKA_INTER_BROKER_LISTENER_NAME": "INSIDE",
                "KAFKA_LOG_DIRS": LOG_DIRS,
                "KAFKA_HEAP_OPTS": "-Xmx384m",
            }
            volume = self._network.make_volume(f"logs-{broker}", self._theirs, USER)
            self._network.run(
                self._theirs,
                f"kafka-{broker}",
                environment=variables,
                ports={f"{port.number}/tcp": ("127.0.0.1", port.number)},
                restart_policy={"Name": "unless-stopped"},
                volumes={volume: {"bind": LOG_DIRS, "mode": "rw"}},
            )
        self.await_brokers(len(self._ports), self.servers)

    def container(self, name: str) -> Container:
        """Return a container by its name on the page."""
        return self._network.engine.containers.get(self._network.named(name))

    def log_tails(self) -> str:
        return self._network.log_tails()

    def close(self) -> None:
        super().close()
        for port in self._ports.values():
            port.release()


def exit_status(container: Container) -> int | None:
    """Return the exit status of a container that has ended; None while it runs."""
    container.reload()
    state = container.attrs["State"]
    return None if state["Running"] else int(state["ExitCode"])
