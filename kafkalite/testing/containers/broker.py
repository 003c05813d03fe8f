"""One broker in a container."""

from __future__ import annotations

import asyncio
import atexit
import contextlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, Self

from testcontainers.core.network import Network

from kafkalite import NAME
from kafkalite.config.environment import BROKER_DATA, as_variables
from kafkalite.local.broker_process import BrokerDied, Inside
from kafkalite.local.contract import LIVE_CLUSTERS, broker_settings
from kafkalite.local.ports import ReservedPort
from kafkalite.local.readiness import Reachable, ask
from kafkalite.testing.containers.security import PLACE, ContainerSecurity
from kafkalite.testing.containers.server import ServerContainer, closed_on_failure

INTERNAL_PORT: Final = 9092
_EXTERNAL_PORT: Final = 9094
_CONTAINERS_PORT: Final = 9093
"""Of secured brokers, where `INTERNAL_PORT` is for brokers."""
_POLL_S: Final = 0.1
"""A look asks the broker over a new connection, and the engine whether it runs."""

_LISTENERS: Final = {
    "listeners": f"INTERNAL://0.0.0.0:{INTERNAL_PORT},EXTERNAL://0.0.0.0:{_EXTERNAL_PORT}",
    "listener.security.protocol.map": "INTERNAL:PLAINTEXT,EXTERNAL:PLAINTEXT",
    "inter.broker.listener.name": "INTERNAL",
}


class KafkaliteContainer(ServerContainer):
    """A broker with a ZooKeeper of its own in the same container, unless `zookeeper_connect` names one.

        >>> from kafkalite.client import SyncAdmin
        >>> from kafkalite.testing.containers import KafkaliteContainer
        >>> with KafkaliteContainer(properties={"num.partitions": "7"}) as kafka:
        ...     with SyncAdmin(bootstrap_servers=kafka.get_bootstrap_server()) as admin:
        ...         len(admin.describe_cluster().brokers)
        1

    Clients on this machine use `get_bootstrap_server`, containers on the same `network` use `internal_server`. `properties` are
    settings of the broker and win over what is chosen here. `security` is that of its cluster.
    """

    def __init__(
        self,
        image: str | None = None,
        *,
        broker_id: int = 1,
        zookeeper_connect: str | None = None,
        properties: Mapping[str, str] | None = None,
        name: str | None = None,
        network: Network | None = None,
        start_timeout_s: float = 60,
        security: ContainerSecurity | None = None,
        **options: Any,
    ) -> None:
        self.id: Final = broker_id
        super().__init__(image, name or f"broker-{broker_id}", _EXTERNAL_PORT, {}, network, **options)
        self._properties = dict(properties or {})
        self._zookeeper_connect = zookeeper_connect
        self._start_timeout_s = start_timeout_s
        self._security, self._inside = security, None if security is None else ReservedPort()
        if security is not None and self._inside is not None:
            security.mount(self)
            self.ports[str(INTERNAL_PORT)] = self._inside.number

    def start(self) -> Self:
        """Start the broker; returns when it serves. Raises TimeoutError and BrokerDied with the last lines of its log."""
        with closed_on_failure(self, self.stop):
            self.launch()
            self.wait_ready(frozenset({self.id}), self._start_timeout_s)
        return self

    def launch(self) -> None:
        """Start without waiting."""
        self.with_envs(**as_variables(self._all_properties()))
        super().start()

    def stop(self, force: bool = True, delete_volume: bool = True) -> None:
        atexit.unregister(self.stop)
        LIVE_CLUSTERS.discard(self)
        super().stop(force, delete_volume)
        if self._inside is not None:
            self._inside.release()

    def _all_properties(self) -> dict[str, str]:
        own = {"broker.id": str(self.id)}
        if self._security is not None:
            ports = INTERNAL_PORT, _CONTAINERS_PORT, _EXTERNAL_PORT
            own |= self._security.broker_properties(self.server_name, *ports, self.address)
        else:
            own |= _LISTENERS
            own["advertised.listeners"] = f"INTERNAL://{self.internal_server},EXTERNAL://{self.address}"
        settings = own | broker_settings(1, self._zookeeper_connect or "") | self._properties
        if self._zookeeper_connect is None:
            settings.pop("zookeeper.connect")
        return settings

    def get_bootstrap_server(self) -> str:
        """Return host:port for clients on this machine."""
        return self.address

    get_bootstrap_servers = get_bootstrap_server

    @property
    def internal_server(self) -> str:
        """host:port for containers on the same network."""
        return f"{self.server_name}:{INTERNAL_PORT if self._security is None else _CONTAINERS_PORT}"

    def make_users(self) -> None:
        """Give a secured cluster its users, once it serves. RuntimeError."""
        self._run_command(NAME, "cluster", "users", str(PLACE), "-b", f"{self.server_name}:{INTERNAL_PORT}")

    def wait_ready(self, brokers: frozenset[int], timeout_s: float) -> None:
        """Wait until the broker knows all of `brokers` and a controller. Raises TimeoutError, BrokerDied."""
        asyncio.run(self.until_ready(brokers, timeout_s))

    async def until_ready(self, brokers: frozenset[int], timeout_s: float) -> None:
        """Wait as `wait_ready` does, for coroutines."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                while True:
                    found = await ask(self._find_address())
                    if found is not None and found.brokers >= brokers and found.controller_id in found.brokers:
                        return
                    if not await asyncio.to_thread(lambda: self.running):
                        raise BrokerDied(f"broker {self.id} ended with status {self.exit_status}:\n{self.log_tail()}")
                    await asyncio.sleep(_POLL_S)
        raise TimeoutError(f"broker {self.id} is not ready after {timeout_s:g} s\n{self.log_tail()}")

    def _find_address(self) -> Reachable:
        """Return the address at which this machine asks the broker; a secured one with the administrator's certificate."""
        if self._security is None or self._inside is None:
            return self
        return Inside(self.host, self._inside.number, self._security.cluster.context())

    def copy_log_directory(self, destination: Path) -> Path:
        """Copy the directory with the broker's partitions; return the copy."""
        return self.copy_directory(BROKER_DATA, destination)

    def logs(self, lines: int = 60) -> dict[str, str]:
        """Return the last lines of the log, for the report of a failing test."""
        return {f"broker {self.id} at port {self.port}": self.log_tail(lines)}
