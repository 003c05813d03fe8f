"""A server in a container that can be paused, killed and started again, and keeps its port on this machine meanwhile."""

from __future__ import annotations

import atexit
import os
import shutil
import tarfile
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http import HTTPStatus
from ipaddress import ip_network
from pathlib import Path
from typing import Any, Final, Self

import docker.errors
from docker.models.containers import Container
from testcontainers.core.config import ConnectionMode
from testcontainers.core.container import DockerContainer
from testcontainers.core.docker_client import DockerClient
from testcontainers.core.network import Network

import kafkalite
from kafkalite.local.contract import LIVE_CLUSTERS, ShowsLogs
from kafkalite.local.ports import ReservedPort
from kafkalite.testing.archives import extract_all
from kafkalite.testing.containers.neighbours import HEAR, SILENCE
from kafkalite.testing.containers.owner import owner_labels, remove_orphans_once
from zk.servers.server_classes import MissingRequirementError

IMAGE_VARIABLE: Final = "KAFKALITE_IMAGE"
_STOP_TIMEOUT_S: Final = 30
_FREEZE_ATTEMPTS: Final = 5
_NO_HEALTH_CHECK: Final = {"test": ["NONE"]}
"""Nobody asks for it here, and it costs a process in each container every few seconds."""


def default_image() -> str:
    """Return the image of this version, unless KAFKALITE_IMAGE names another."""
    return os.environ.get(IMAGE_VARIABLE) or f"kafkalite:{kafkalite.__version__}"


class MissingImageError(MissingRequirementError):
    """The image is not on this machine; the message names the remedy."""


@contextmanager
def engine_needed() -> Iterator[None]:
    """Raises MissingRequirementError when Docker's engine does not answer."""
    try:
        yield
    except docker.errors.APIError:
        raise
    except docker.errors.DockerException as problem:
        raise MissingRequirementError(
            f"Docker's engine cannot be reached ({problem}); start it, or name another with DOCKER_HOST"
        ) from problem


@contextmanager
def closed_on_failure(cluster: ShowsLogs, close: Callable[[], object]) -> Iterator[None]:
    """Have a cluster that is being started closed at the end of this program, or when the start fails; reports show its logs."""
    LIVE_CLUSTERS.add(cluster)
    atexit.register(close)
    try:
        yield
    except BaseException:
        close()
        raise


def freeze(container: Container) -> None:
    """Pause it; tried again where the kernel took longer to freeze its processes than the container runtime waits, which then gives up."""
    for attempts_left in reversed(range(_FREEZE_ATTEMPTS)):
        try:
            container.pause()
            return
        except docker.errors.APIError as problem:
            if not attempts_left or "unable to freeze" not in str(problem):
                raise


class ServerNetwork:
    """A network for servers: the given one, which is left alone, or one that lives from `create` to `remove`."""

    def __init__(self, given: Network | None) -> None:
        self._own = given is None
        self._created = False
        with engine_needed():
            self.network: Final = given or Network(docker_network_kw={"labels": owner_labels()})

    def create(self) -> None:
        if self._own:
            self.network.create()
            self._created = True

    def remove(self) -> None:
        """Remove the network that `create` made; may be called again."""
        if self._created:
            self._created = False
            self.network.remove()


class ServerContainer(DockerContainer):
    """`name` is its host name, and its alias on `network`. `port` is where its server listens for clients of this machine.

    The container has the same port on this machine from its first start to its end, also while the server is down.
    """

    def __init__(
        self,
        image: str | None,
        name: str,
        port: int,
        variables: Mapping[str, str],
        network: Network | None = None,
        **options: Any,
    ) -> None:
        labels = dict(options.pop("labels", {})) | owner_labels()
        # For `silence`, which acts as root; the server itself is another user and gains nothing by it.
        capabilities = [*options.pop("cap_add", []), "NET_ADMIN"]
        options = {"healthcheck": _NO_HEALTH_CHECK, "hostname": name} | options
        with engine_needed():
            super().__init__(image or default_image(), labels=labels, cap_add=capabilities, **options)
        self.server_name: Final = name
        self._reserved = ReservedPort()
        self._host: str | None = None
        self.ports[str(port)] = self._reserved.number
        self.with_envs(**variables)
        if network is not None:
            self.with_network(network)
            self.with_network_aliases(name)

    @property
    def port(self) -> int:
        """The server's port on the machine at `host`."""
        return self._reserved.number

    @property
    def host(self) -> str:
        """The host at which this machine reaches the ports of containers."""
        if self._host is None:
            self._host = reachable_host(self.get_docker_client(), self._network_name)
        return self._host

    @property
    def _network_name(self) -> str:
        return "bridge" if self._network is None else self._network.name

    @property
    def address(self) -> str:
        return f"{self.host}:{self.port}"

    def start(self) -> Self:
        """Make the container and start it; does not wait for the server. Raises MissingImageError."""
        client = self.get_docker_client().client
        remove_orphans_once(client)
        try:
            client.images.get(self.image)
        except docker.errors.ImageNotFound:
            if self.image == default_image():
                raise MissingImageError(f"there is no image {self.image}; build it with: deploy/build-image") from None
        return super().start()

    def stop(self, force: bool = True, delete_volume: bool = True) -> None:
        """Remove the container, as testcontainers calls it; `shut_down` stops the server only."""
        try:
            super().stop(force, delete_volume)
        except docker.errors.APIError as problem:
            if problem.status_code not in (HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT):  # somebody else removes it
                raise
        finally:
            self._container = None
            self._reserved.release()

    @property
    def state(self) -> str:
        """Docker's word: running, paused, exited; or absent."""
        if self._container is None:
            return "absent"
        self._container.reload()
        return str(self._container.status)

    @property
    def running(self) -> bool:
        """True if there is a process, paused or not."""
        return self.state in ("running", "paused")

    @property
    def exit_status(self) -> int | None:
        """The exit status of a server that has ended, 137 when it was killed; None while it runs."""
        return None if self.running else int(self.get_wrapped_container().attrs["State"]["ExitCode"])

    def pause(self) -> None:
        """Freeze the server: connections stay open, nothing is answered."""
        freeze(self.get_wrapped_container())

    def unpause(self) -> None:
        """Let it go on; nothing happens to one that is not paused."""
        if self.state == "paused":
            self.get_wrapped_container().unpause()

    def kill(self) -> None:
        """Kill the server by SIGKILL; returns when it is gone. Nothing happens to one that is down."""
        if self.running:
            self.unpause()  # docker kills no frozen process
            self.get_wrapped_container().kill()
            self.get_wrapped_container().wait(timeout=_STOP_TIMEOUT_S)

    def shut_down(self, timeout_s: int = _STOP_TIMEOUT_S) -> int:
        """Stop the server by SIGTERM, by SIGKILL when that does not help in time; return the exit status."""
        self.unpause()
        container = self.get_wrapped_container()
        container.stop(timeout=timeout_s)
        return int(container.wait(timeout=_STOP_TIMEOUT_S)["StatusCode"])

    def start_again(self) -> None:
        """Start the server after `kill` or `shut_down`, with its port and data. Does not wait for it to serve."""
        self.get_wrapped_container().start()

    @property
    def network_address(self) -> str:
        """Its IP address on its network; empty while it is down."""
        container = self.get_wrapped_container()
        container.reload()
        return str(container.attrs["NetworkSettings"]["Networks"][self._network_name]["IPAddress"])

    def silence(self, addresses: set[str]) -> None:
        """Let nothing that the container sends reach these addresses."""
        self._change_neighbours(SILENCE, addresses)

    def hear(self, addresses: set[str]) -> None:
        """Undo `silence`."""
        self._change_neighbours(HEAR, addresses)

    def _change_neighbours(self, action: str, addresses: set[str]) -> None:
        if not addresses:
            return
        self._run_command(
            "python3", "-m", "kafkalite.testing.containers.neighbours", action, *sorted(addresses), user="root"
        )

    def _run_command(self, *command: str, user: str = "") -> None:
        """Run a command in the container, by default as the image's user. RuntimeError with its output when it fails."""
        status, output = self.get_wrapped_container().exec_run(list(command), user=user)
        if status != 0:
            raise RuntimeError(f"{self.server_name}: {' '.join(command)}: {output.decode(errors='replace')}")

    def log_tail(self, lines: int = 60) -> str:
        """Return the last lines that the server printed."""
        if self._container is None:
            return ""
        try:
            return bytes(self._container.logs(tail=lines)).decode(errors="replace")
        except docker.errors.APIError as problem:
            return f"no logs: {problem}"

    def copy_directory(self, source: str, destination: Path) -> Path:
        """Copy a directory of the container below `destination` and return the copy; works with one that is down as well."""
        shutil.rmtree(destination, ignore_errors=True)
        destination.mkdir(parents=True)
        chunks, _ = self.get_wrapped_container().get_archive(source)
        with tempfile.TemporaryFile() as archive:
            for chunk in chunks:
                archive.write(chunk)
            archive.seek(0)
            with tarfile.open(fileobj=archive) as found:
                extract_all(found, destination)
        return destination / Path(source).name


def reachable_host(client: DockerClient, network: str) -> str:
    """Return the host at which this machine reaches the ports that containers on `network` publish. Raises RuntimeError.

    From inside a container that is the gateway of their network, by the rules of testcontainers.
    """
    mode = client.get_connection_mode()
    if mode is ConnectionMode.docker_host:
        host = client.host()
        return "127.0.0.1" if host == "localhost" else host
    if mode is ConnectionMode.gateway_ip:
        config = client.client.networks.get(network).attrs["IPAM"]["Config"][0]
        # The default network tells no gateway; as everywhere it is the first address.
        return str(config.get("Gateway") or next(ip_network(config["Subnet"]).hosts()))
    raise RuntimeError(
        f"the connection mode {mode.value} of testcontainers is not supported, because brokers must know their address before "
        "they start; set TESTCONTAINERS_CONNECTION_MODE to docker_host or gateway_ip"
    )
