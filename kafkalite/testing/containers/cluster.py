"""A whole cluster in containers: ZooKeeper servers and brokers on a network of their own."""

from __future__ import annotations

import asyncio
import atexit
import shutil
import tempfile
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

from testcontainers.core.docker_client import DockerClient
from testcontainers.core.network import Network

from kafkalite.local.contract import LIVE_CLUSTERS, AskedThroughZooKeeper, Node, broker_settings, nodes, rack_of
from kafkalite.local.parallel import run_at_once
from kafkalite.testing.containers.broker import KafkaliteContainer
from kafkalite.testing.containers.ensemble import ZooKeeperEnsemble
from kafkalite.testing.containers.network_cuts import NetworkCuts
from kafkalite.testing.containers.security import ContainerSecurity
from kafkalite.testing.containers.server import (
    ServerContainer,
    ServerNetwork,
    closed_on_failure,
    default_image,
    reachable_host,
)

if TYPE_CHECKING:
    from kafkalite.local.secured import ClusterSecurity
    from zk.security.store_security import StoreSecurity

_ADDED_MOST: Final = 16
"""Brokers that a secured cluster may get later: their names are in its certificate."""


class KafkaliteCluster(AskedThroughZooKeeper):
    """Brokers 1, 2, ... on an ensemble of 1, 3 or 5 ZooKeeper servers; see `kafkalite.local.contract.Cluster`.

        >>> from kafkalite.testing.containers import KafkaliteCluster
        >>> with KafkaliteCluster(brokers=2, zookeepers=1, properties={"log.retention.hours": "1"}) as cluster:
        ...     cluster.internal_bootstrap_servers
        ...     cluster.partition(1, [2, "zk1"])
        ...     cluster.heal()
        'broker-1:9092,broker-2:9092'

    Clients on this machine use `bootstrap_servers`, containers on `network` use `internal_bootstrap_servers`. `racks` are given
    out to the brokers in turn, or by broker id. `properties` are settings of every broker and win over the cluster's own
    choices. ValueError for numbers of servers that cannot be. `secure` gives it TLS, users, ACLs and a ZooKeeper that only its own reach:
    see `security` and `kafkalite.local.secured`.
    """

    def __init__(
        self,
        brokers: int = 3,
        zookeepers: int = 1,
        *,
        racks: Mapping[int, str] | Sequence[str] | None = None,
        properties: Mapping[str, str] | None = None,
        image: str | None = None,
        network: Network | None = None,
        first_broker_id: int = 1,
        start_timeout_s: float = 60,
        secure: bool = False,
    ) -> None:
        self._broker_ids = range(first_broker_id, first_broker_id + brokers)
        self._racks = racks
        self._properties = dict(properties or {})
        self._image = image
        self._start_timeout_s = start_timeout_s
        self._network = ServerNetwork(network)
        self.network: Final = self._network.network
        self._secured = ContainerSecurity(self._names(brokers, zookeepers)) if secure else None
        self.ensemble = ZooKeeperEnsemble(zookeepers, image=image, network=self.network, security=self._secured)
        self.brokers: dict[int, KafkaliteContainer] = {}
        self._cuts = NetworkCuts()
        self._copies: Path | None = None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *problem: object) -> None:
        self.close()

    # -- all of it

    def start(self) -> Self:
        """Start all containers at once and wait until every broker knows all of them and a controller.

        Raises TimeoutError, BrokerDied, EnsembleError or MissingImageError; nothing is left running then.
        """
        with closed_on_failure(self, self.close):
            self._network.create()
            if self._secured is not None:
                engine = DockerClient()
                host = reachable_host(engine, self.network.name)
                self._secured.make(engine.client, self._image or default_image(), host)
            starts: list[Callable[[], Any]] = [member.start for member in self.ensemble.prepare()]
            for index, broker_id in enumerate(self._broker_ids):
                starts.append(self._add(broker_id, index).launch)
            run_at_once(starts)
            everybody = frozenset(self.brokers)
            asyncio.run(_until_ready(self.brokers.values(), everybody, self._start_timeout_s))
            self.ensemble.wait_serving(self._start_timeout_s)
            if self._secured is not None:
                next(iter(self.brokers.values())).make_users()
        return self

    def close(self) -> None:
        """Remove everything; may be called again."""
        atexit.unregister(self.close)
        LIVE_CLUSTERS.discard(self)
        brokers, self.brokers = list(self.brokers.values()), {}
        if self._copies is not None:
            shutil.rmtree(self._copies, ignore_errors=True)
            self._copies = None
        try:
            run_at_once([broker.stop for broker in brokers] + [self.ensemble.close])
            if self._secured is not None:
                self._secured.close()
        finally:
            self._network.remove()

    @property
    def broker_ids(self) -> list[int]:
        return list(self.brokers)

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(broker.address for broker in self.brokers.values())

    @property
    def internal_bootstrap_servers(self) -> str:
        """host:port of every broker for containers on `network`."""
        return ",".join(broker.internal_server for broker in self.brokers.values())

    @property
    def zookeeper_connect(self) -> str:
        return self.ensemble.connect

    @property
    def is_secure(self) -> bool:
        return self._secured is not None

    @property
    def security(self) -> ClusterSecurity:
        """The users and certificates that may connect. RuntimeError for a cluster that is not `secure`."""
        if self._secured is None:
            raise RuntimeError("this cluster lets everybody in; make it with secure=True")
        return self._secured.cluster

    def _zookeeper_security(self) -> StoreSecurity:
        return self.security.store_security() if self.is_secure else super()._zookeeper_security()

    # -- one broker

    def broker(self, broker_id: int) -> KafkaliteContainer:
        return self.brokers[broker_id]

    def add_broker(self, broker_id: int) -> KafkaliteContainer:
        """Add one more broker; returns when it serves."""
        broker = self._add(broker_id, len(self.brokers))
        broker.launch()
        self._record_start(broker)
        return broker

    def pause(self, broker_id: int) -> None:
        self.brokers[broker_id].pause()

    def unpause(self, broker_id: int) -> None:
        self.brokers[broker_id].unpause()
        self._cuts.apply(self._servers())

    def kill(self, broker_id: int) -> None:
        self.brokers[broker_id].kill()

    def stop(self, broker_id: int) -> int:
        return self.brokers[broker_id].shut_down()

    def start_broker(self, broker_id: int) -> None:
        broker = self.brokers[broker_id]
        broker.start_again()
        self._record_start(broker)

    def restart(self, broker_id: int) -> None:
        if self.brokers[broker_id].running:
            self.stop(broker_id)
        self.start_broker(broker_id)

    # -- the network

    def partition(self, side: Collection[Node] | Node, other: Collection[Node] | Node) -> None:
        self._cuts.cut(nodes(side), nodes(other), known=self._servers())
        self._cuts.apply(self._servers())

    def heal(self) -> None:
        self._cuts.repair()
        self._cuts.apply(self._servers())

    # -- what is there

    def log_directories(self) -> dict[int, list[Path]]:
        copies = self._copies = self._copies or Path(tempfile.mkdtemp(prefix="kafkalite-copies-"))

        def copy(broker: KafkaliteContainer) -> list[Path]:
            return [broker.copy_log_directory(copies / f"broker-{broker.id}")]

        directories = run_at_once(partial(copy, broker) for broker in self.brokers.values())
        return dict(zip(self.brokers, directories, strict=True))

    def logs(self, lines: int = 60) -> dict[str, str]:
        found: dict[str, str] = {}
        for broker in self.brokers.values():
            found |= broker.logs(lines)
        return found | self.ensemble.logs(lines)

    # -- inside

    def _names(self, brokers: int, zookeepers: int) -> list[str]:
        """Return the names of the servers, and of some that may be added."""
        names = [f"broker-{number + self._broker_ids.start}" for number in range(brokers + _ADDED_MOST)]
        return [*names, *(f"zk{number}" for number in range(1, zookeepers + 1))]

    def _add(self, broker_id: int, index: int) -> KafkaliteContainer:
        settings = broker_settings(len(self._broker_ids), self.ensemble.internal_connect)
        if (rack := rack_of(self._racks, broker_id, index)) is not None:
            settings["broker.rack"] = rack
        broker = self.brokers[broker_id] = KafkaliteContainer(
            self._image,
            broker_id=broker_id,
            zookeeper_connect=self.ensemble.internal_connect,
            properties=settings | self._properties,
            network=self.network,
            security=self._secured,
        )
        return broker

    def _record_start(self, broker: KafkaliteContainer) -> None:
        self._cuts.forget(broker.id)
        self._cuts.apply(self._servers())
        broker.wait_ready(frozenset({broker.id}), self._start_timeout_s)

    def _servers(self) -> dict[Node, ServerContainer]:
        servers: dict[Node, ServerContainer] = {broker.id: broker for broker in self.brokers.values()}
        return servers | {member.server_name: member for member in self.ensemble.members}


async def _until_ready(brokers: Iterable[KafkaliteContainer], everybody: frozenset[int], timeout_s: float) -> None:
    await asyncio.gather(*(broker.until_ready(everybody, timeout_s) for broker in brokers))
