"""What secures a cluster in containers: the folder of `local.secured`, in a volume that all of its servers have.

The volume is filled by a container that is never started, so the engine may be on another machine, and the files are the image's user's.
"""

from __future__ import annotations

import io
import secrets
import shutil
import tarfile
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from kafkalite.local.secured import INSIDE, MECHANISM, ClusterSecurity
from kafkalite.testing.containers.owner import owner_labels

if TYPE_CHECKING:
    import docker
    from testcontainers.core.container import DockerContainer

PLACE: Final = Path("/etc/kafkalite/security")
SECURE_CLIENT_PORT: Final = 2182
_USER_ID: Final = 1000
"""The user of the image."""
_OTHER_JAAS: Final = "listener.name.{}.{}.sasl.jaas.config"


class ContainerSecurity:
    """The volume with the secured cluster's files. `names` are those of its servers."""

    def __init__(self, names: Iterable[str]) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="kafkalite-security-"))
        self._names = tuple(names)
        self.cluster = ClusterSecurity(self._folder, self._names, PLACE)
        self._volume: Final = f"kafkalite-security-{secrets.token_hex(6)}"
        self._client: docker.DockerClient | None = None

    def make(self, client: docker.DockerClient, image: str, host: str) -> None:
        """Make the files, and the volume; containers' ports are at `host`. docker.errors.APIError."""
        self.cluster = ClusterSecurity(self._folder, (*self._names, host), PLACE)
        self.cluster.make()
        self._client = client
        client.volumes.create(self._volume, labels=owner_labels())
        filling = client.containers.create(
            image, labels=owner_labels(), volumes={self._volume: {"bind": str(PLACE), "mode": "rw"}}
        )
        try:
            filling.put_archive(str(PLACE), pack_folder(self._folder))
        finally:
            filling.remove(v=True)

    def close(self) -> None:
        """Remove both; the servers must be gone."""
        if self._client is not None:
            self._client.volumes.get(self._volume).remove(force=True)
            self._client = None
        shutil.rmtree(self._folder, ignore_errors=True)

    def mount(self, container: DockerContainer) -> None:
        """Give a container the files."""
        container.with_volume_mapping(self._volume, str(PLACE), "ro")

    @property
    def zookeeper_variables(self) -> Mapping[str, str]:
        """The variables of a server of the ensemble. Its plain port serves nobody but its own health check."""
        return {
            "ZOOKEEPER_SECURE_CLIENT_PORT": str(SECURE_CLIENT_PORT),
            "ZOOKEEPER_CLIENT_PORT_ADDRESS": "127.0.0.1",
            "ZOOKEEPER_SERVER_CNXN_FACTORY": "org.apache.zookeeper.server.NettyServerCnxnFactory",
            "ZOOKEEPER_SSL_QUORUM": "true",
            "KAFKA_OPTS": self.cluster.java_options_of_zookeeper(),
        }

    def broker_properties(
        self, name: str, inside_port: int, other_port: int, port: int, address: str
    ) -> dict[str, str]:
        """Return the settings of a broker of that name: brokers, containers and clients of this machine have a listener each."""
        settings = self.cluster.security_settings()
        mechanism = MECHANISM.lower()
        return settings | {
            "listeners": f"{INSIDE}://0.0.0.0:{inside_port},CONTAINERS://0.0.0.0:{other_port},CLIENTS://0.0.0.0:{port}",
            "advertised.listeners": f"{INSIDE}://{name}:{inside_port},CONTAINERS://{name}:{other_port},CLIENTS://{address}",
            "listener.security.protocol.map": f"{settings['listener.security.protocol.map']},CONTAINERS:SASL_SSL",
            _OTHER_JAAS.format("containers", mechanism): settings[_OTHER_JAAS.format("clients", mechanism)],
        }


def pack_folder(folder: Path) -> bytes:
    """Return the files of a folder as an archive in which they are the image's user's, and nobody else may read them."""
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as archive:
        for path in sorted(folder.iterdir()):
            entry = archive.gettarinfo(path, path.name)
            entry.uid = entry.gid = _USER_ID
            entry.uname = entry.gname = ""
            entry.mode = 0o600
            with path.open("rb") as file:
                archive.addfile(entry, file)
    return content.getvalue()
