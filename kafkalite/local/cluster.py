"""A whole cluster on this machine: real ZooKeeper servers and broker processes, for tests, demonstrations and benchmarks.

    >>> from kafkalite.client import SyncProducer
    >>> from kafkalite.local.cluster import LocalCluster
    >>> with LocalCluster(brokers=3, properties={"default.replication.factor": "3"}) as cluster:
    ...     with SyncProducer(bootstrap_servers=cluster.bootstrap_servers) as producer:
    ...         metadata = producer.send_and_wait("orders", b"one", partition=0)
    ...     leader = cluster.leader_of("orders", 0)
    ...     cluster.kill(leader)
    ...     cluster.restart(leader)
    ...     sorted(cluster.await_isr("orders", 0, size=3))
    [1, 2, 3]

Every process that a cluster started ends with it: at the end of the `with` block, at the end of the interpreter, and on Linux when
the thread that started it ends; brokers of a cluster of several end with the process, because another one forks them
(`warm_brokers`). All methods block and none needs an event loop; in a coroutine call `start` and `close` through
`asyncio.to_thread`.

Below the directory: `zookeeper/` is the ensemble's, and each broker has `broker-<id>.properties`, `broker-<id>.log` (all that it
prints) and its log directory `broker-<id>/`. A second start over the same directory continues the same cluster.
"""

from __future__ import annotations

import asyncio
import atexit
import logging
import shutil
import tempfile
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from kafkalite.extras import require_extra
from kafkalite.local.broker_process import BROKER_COMMAND, BrokerProcess, Inside, check_directory
from kafkalite.local.contract import LIVE_CLUSTERS, AskedThroughZooKeeper, Node, broker_settings, nodes, rack_of
from kafkalite.local.death_watch import DeathWatch
from kafkalite.local.faults import ADDRESS_VARIABLE, SETTINGS, Faults
from kafkalite.local.ports import ReservedPort
from kafkalite.local.readiness import find_controller, until_ready
from kafkalite.local.switchboard import Switchboard
from kafkalite.local.warm_brokers import start_warm
from kafkalite.types import NO_BROKER
from zk.servers.ensemble import HOST, Ensemble, check_size
from zk.size_limits import ENSEMBLE_BYTES

if TYPE_CHECKING:
    from kafkalite.local.secured import ClusterSecurity
    from zk.security.store_security import StoreSecurity

logger = logging.getLogger("kafkalite.local.cluster")

__all__ = ["LIVE_CLUSTERS", "LocalCluster"]

ZOOKEEPER_PORT_OFFSET: Final = 100
"""With a base port, distance of ZooKeeper's first client port."""

HTTP_PORT_OFFSET: Final = 200
"""With a base port, distance of the first status page's port."""


INSIDE_PORT_OFFSET: Final = 300
"""With a base port, distance of the first port between brokers of a secured cluster."""


class LocalCluster(AskedThroughZooKeeper):
    """Brokers `first_broker_id`, `first_broker_id` + 1, ... on one ensemble, with settings fit for tests.

    `properties` are settings of every broker and win over the cluster's own choices. `zookeeper_connect` names an ensemble
    that runs already; then none is started. `directory` receives logs and data and is kept; without one everything lives
    in a temporary directory that goes with the cluster. `command` runs a broker when a properties file's path is appended.
    `base_port` is the first broker's, the others' and ZooKeeper's follow; without it ports are reserved. ValueError for
    numbers of servers or ports that cannot be. With `http` every broker has metrics and a status page, see `BrokerProcess.http_url`.

    `racks` are given out to the brokers in turn, or by broker id. `partitionable` puts proxies between the servers, so that
    `partition` can cut them from each other (on Linux). With `faults` the brokers fail on request: see `Faults`.

    The ZooKeeper session of a broker whose process ends without a clean stop is ended at once, and `tell_death` hears of it, in another
    thread; with `kafkalite.failover.detection=session` among the properties it is left to its timeout.

    `secure` gives it TLS, users, ACLs and a ZooKeeper that only its own reach: see `security` and `kafkalite.local.secured`.
    Raises MissingExtraError where the packages of an HTTP listener are asked for and not installed.
    """

    def __init__(
        self,
        *,
        brokers: int = 3,
        zookeepers: int = 1,
        properties: Mapping[str, str] | None = None,
        directory: Path | None = None,
        zookeeper_connect: str | None = None,
        first_broker_id: int = 1,
        command: Sequence[str] = BROKER_COMMAND,
        start_timeout_s: float = 60,
        base_port: int | None = None,
        http: bool = False,
        racks: Mapping[int, str] | Sequence[str] | None = None,
        partitionable: bool = False,
        faults: bool = False,
        secure: bool = False,
    ) -> None:
        check_size(zookeepers)
        if command is BROKER_COMMAND and http:
            require_extra("server", "a broker with an HTTP listener")
        if secure and (partitionable or zookeeper_connect is not None):
            raise ValueError("a secured cluster has an ensemble of its own, and no proxies between its servers")
        if base_port is not None and brokers > ZOOKEEPER_PORT_OFFSET:
            raise ValueError(
                f"more than {ZOOKEEPER_PORT_OFFSET} brokers leave no place for ZooKeeper behind a base port"
            )
        if directory is not None:
            check_directory(directory.absolute())
        self._broker_ids = range(first_broker_id, first_broker_id + brokers)
        self._properties = dict(properties or {})
        self._zookeepers = zookeepers
        self._given_directory = directory
        self._given_connect = zookeeper_connect
        self._command = command
        self._start_timeout_s = start_timeout_s
        self._base_port = base_port
        self._http = http
        self._racks = racks
        self._partitionable = partitionable
        self._fault_addresses: dict[int, str] | None = {} if faults else None
        self._secure = secure
        self._security: ClusterSecurity | None = None
        self._switchboard: Switchboard | None = None
        self._brokers_connect = ""
        self._side_ports: list[ReservedPort] = []
        """Of ZooKeeper and of status pages."""
        self.tell_death: Callable[[str], object] = logger.info
        self._death_watch = DeathWatch(lambda line: self.tell_death(line))
        self.ensemble: Ensemble | None = None
        self.brokers: dict[int, BrokerProcess] = {}
        self.directory = Path()

    def __enter__(self) -> LocalCluster:
        self.start()
        return self

    def __exit__(self, *problem: object) -> None:
        self.close()

    def start(self, tell: Callable[[str], None] = lambda line: None) -> None:
        """Start everything at once and wait until every broker knows all of them and a controller; `tell` hears of each that is ready.

        TimeoutError, BrokerDied or EnsembleError; nothing is left running then.
        """
        if self._given_directory is not None:
            self._given_directory.mkdir(parents=True, exist_ok=True)
        self.directory = self._given_directory or Path(tempfile.mkdtemp(prefix="kafkalite-"))
        if self._secure:
            from kafkalite.local.secured import ClusterSecurity

            self._security = ClusterSecurity(self.directory / "security")
            self._security.make()
        self._death_watch = DeathWatch(lambda line: self.tell_death(line))
        LIVE_CLUSTERS.add(self)
        atexit.register(self.close)
        if self._partitionable:
            self._switchboard = Switchboard(self._process_ids)
        try:
            asyncio.run(self._start(tell))
        except BaseException:
            self.close()
            raise

    async def _start(self, tell: Callable[[str], None]) -> None:
        """Start brokers beside ZooKeeper, not after it: they load while it starts, and wait for it themselves."""
        waiting = []
        if self._given_connect is None:
            self.ensemble = Ensemble(
                self.directory / "zookeeper",
                self._zookeepers,
                client_ports=self._choose_zookeeper_ports(),
                class_data=True,
                tls=self._security.ensemble_tls() if self._security is not None else None,
            )
            serving = self.ensemble.start(self._start_timeout_s)
            waiting.append(asyncio.ensure_future(_telling(serving, "ZooKeeper serves", tell)))
            await asyncio.sleep(0)  # it has its ports now, and its processes run
        self._brokers_connect = self._connect_of_brokers()
        for broker_id in self._broker_ids:
            self._add(broker_id).start()
        everybody = frozenset(self.brokers)
        for broker in self.brokers.values():
            ready = until_ready(broker, everybody)
            waiting.append(asyncio.ensure_future(_telling(ready, f"broker {broker.id} is ready", tell)))
        try:
            async with asyncio.timeout(self._start_timeout_s):
                await asyncio.gather(*waiting)
                await self._make_users()
        except TimeoutError:
            tails = "\n".join(f"{name}:\n{tail}" for name, tail in self.logs(15).items())
            raise TimeoutError(f"the cluster is not ready after {self._start_timeout_s:g} s\n{tails}") from None
        finally:
            for each in waiting:
                each.cancel()
            await asyncio.gather(*waiting, return_exceptions=True)

    def fixed_ports(self) -> dict[str, range]:
        """Return the ports that follow from the base port, by what listens there; none without one, because free ports are used."""
        if self._base_port is None:
            return {}
        base, brokers = self._base_port, len(self._broker_ids)
        wanted = {
            "brokers": (0, brokers),
            "ZooKeeper": (ZOOKEEPER_PORT_OFFSET, self._zookeepers if self._given_connect is None else 0),
            "status pages": (HTTP_PORT_OFFSET, brokers if self._http else 0),
            "brokers among each other": (INSIDE_PORT_OFFSET, brokers if self._secure else 0),
        }
        return {what: range(base + offset, base + offset + count) for what, (offset, count) in wanted.items() if count}

    async def _make_users(self) -> None:
        if self._security is None:
            return
        from kafkalite.client import Admin

        inside = ",".join(f"{each.inside.host}:{each.inside.port}" for each in self.brokers.values() if each.inside)
        async with Admin(bootstrap_servers=inside, **self._security.admin_options()) as admin:
            await self._security.make_users(admin)

    def _choose_zookeeper_ports(self) -> list[int]:
        if self._base_port is not None:
            return list(self.fixed_ports()["ZooKeeper"])
        return [self._reserve_port() for _ in range(self._zookeepers)]

    def _choose_http_port(self, place: int) -> int | None:
        if not self._http:
            return None
        return self._reserve_port() if self._base_port is None else self._base_port + HTTP_PORT_OFFSET + place

    def _choose_inside_port(self, place: int) -> int:
        return self._reserve_port() if self._base_port is None else self._base_port + INSIDE_PORT_OFFSET + place

    def _reserve_port(self) -> int:
        port = ReservedPort()
        self._side_ports.append(port)
        return port.number

    def close(self, tell: Callable[[str], None] = lambda line: None) -> dict[int, int | None]:
        """Stop every broker, then ZooKeeper; remove a temporary directory.

        A broker is waited for as long as its stop makes progress, which `tell` hears, and killed when there was none for `STUCK_AFTER_S`.
        Returns the brokers that ran and did not stop cleanly, with their exit statuses; None for those that had to be killed.
        """
        atexit.unregister(self.close)
        self._death_watch.close()
        unclean = self._stop_brokers(tell)
        for broker in self.brokers.values():
            broker.close()
        self._death_watch.finish_all()
        if self.ensemble is not None:
            asyncio.run(self.ensemble.stop())
            self.ensemble = None
        if self._switchboard is not None:
            self._switchboard.close()
            self._switchboard = None
        for port in self._side_ports:
            port.release()
        LIVE_CLUSTERS.discard(self)
        if self._given_directory is None and self.directory != Path():
            shutil.rmtree(self.directory, ignore_errors=True)
        return unclean

    def _stop_brokers(self, tell: Callable[[str], None]) -> dict[int, int | None]:
        """Stop the brokers one after the other and the controller last: each can hand over what it leads, and the seat moves at most once.

        All at once, every broker would try to give its partitions to brokers that are on their way out themselves. Without ZooKeeper
        nothing can be handed over, and they need not wait for each other.
        """
        running = [broker for broker in self.brokers.values() if broker.running]
        controller = asyncio.run(find_controller(running)) if len(running) > 1 else NO_BROKER
        unclean: dict[int, int | None] = {}
        if not self._has_quorum():
            for broker in running:
                broker.ask_to_stop()
        for broker in sorted(running, key=lambda broker: broker.id == controller):
            try:
                status = broker.stop(tell=tell)
            except TimeoutError as problem:
                tell(f"{str(problem).splitlines()[0]}; it is killed")
                unclean[broker.id] = None
                broker.kill()
            else:
                if status != 0:
                    unclean[broker.id] = status
        return unclean

    def _has_quorum(self) -> bool:
        """True if ZooKeeper can serve, as far as this cluster controls its servers."""
        if self.ensemble is None:
            return self._given_connect is not None
        serving = sum(member.running and not member.paused for member in self.ensemble.members)
        return 2 * serving > len(self.ensemble.members)

    @property
    def zookeeper_connect(self) -> str:
        if self._given_connect is not None:
            return self._given_connect
        if self.ensemble is None:
            raise RuntimeError("the cluster does not run")
        return self.ensemble.connect

    @property
    def is_secure(self) -> bool:
        return self._secure

    @property
    def security(self) -> ClusterSecurity:
        """Return the security of the cluster. Raises RuntimeError for a cluster that is not `secure`, or not started."""
        if self._security is None:
            raise RuntimeError("this cluster lets everybody in; make it with secure=True")
        return self._security

    def _zookeeper_security(self) -> StoreSecurity:
        return super()._zookeeper_security() if self._security is None else self._security.store_security()

    @property
    def bootstrap_servers(self) -> str:
        """Return host:port of every broker, also of those that are down."""
        return ",".join(broker.address for broker in self.brokers.values())

    @property
    def broker_ids(self) -> list[int]:
        """Return the ids of all brokers, also of those that are down."""
        return list(self.brokers)

    def broker(self, broker_id: int) -> BrokerProcess:
        return self.brokers[broker_id]

    def add_broker(self, broker_id: int) -> BrokerProcess:
        """Add a broker; returns when it serves."""
        broker = self._add(broker_id)
        broker.start()
        broker.wait_started(self._start_timeout_s)
        return broker

    def start_broker(self, broker_id: int) -> None:
        """Start a broker that was stopped or killed, with its old port and log directory; returns when it serves."""
        self.brokers[broker_id].start()
        self.brokers[broker_id].wait_started(self._start_timeout_s)

    def stop(self, broker_id: int) -> int:
        """Stop a broker cleanly and return its exit status. Raises TimeoutError when it does not stop."""
        return self.brokers[broker_id].stop()

    def kill(self, broker_id: int) -> None:
        self.brokers[broker_id].kill()

    def pause(self, broker_id: int) -> None:
        self.brokers[broker_id].pause()

    def unpause(self, broker_id: int) -> None:
        self.brokers[broker_id].resume()

    resume = unpause

    def restart(self, broker_id: int) -> None:
        """Stop a broker cleanly if it runs, then start it; returns when it serves again."""
        self.stop(broker_id)
        self.start_broker(broker_id)

    def partition(
        self, side: Collection[Node] | Node, other: Collection[Node] | Node, *, one_way: bool = False
    ) -> None:
        """Let nothing pass between two sides, brokers or ZooKeeper servers (`zk1`); clients still reach both.

        With `one_way` only what `side` sends to `other` is held back.
        RuntimeError for a cluster that is not `partitionable`.
        """
        if self._switchboard is None:
            raise RuntimeError("this cluster runs without proxies between its servers; make it with partitionable=True")
        self._switchboard.cut(nodes(side), nodes(other), one_way=one_way)

    def heal(self) -> None:
        """Undo every `partition`."""
        if self._switchboard is not None:
            self._switchboard.repair()

    @property
    def faults(self) -> Faults:
        """Return the faults of requests, and failpoints. Raises RuntimeError for a cluster without `faults`."""
        addresses = self._fault_addresses
        if addresses is None:
            raise RuntimeError("the brokers of this cluster have no faults on purpose; make it with faults=True")
        return Faults(lambda: {broker: addresses[broker] for broker in self._process_ids()})

    def log_directories(self) -> dict[int, list[Path]]:
        """Return for each broker the directories with its partitions."""
        return {broker.id: [broker.log_dir] for broker in self.brokers.values()}

    def logs(self, lines: int = 60) -> dict[str, str]:
        """Return the last lines of every broker's output, by a name for the report of a failing test."""
        return {f"broker {broker.id} at {broker.address}": broker.log_tail(lines) for broker in self.brokers.values()}

    def twin_settings(self) -> dict[str, Any]:
        """Return the arguments of a cluster with the same brokers over another directory and ensemble. Raises ValueError where that is
        impossible.
        """
        if self._secure or self._partitionable or "log.dirs" in self._properties:
            raise ValueError(
                "secured and partitionable clusters have no twins, nor have those with log.dirs of their own"
            )
        return {
            "brokers": len(self._broker_ids),
            "properties": self._properties,
            "first_broker_id": self._broker_ids.start,
            "command": self._command,
            "start_timeout_s": self._start_timeout_s,
            "http": self._http,
            "racks": self._racks,
            "faults": self._fault_addresses is not None,
        }

    def _process_ids(self) -> dict[int, int]:
        return {broker.id: broker.pid for broker in self.brokers.values() if broker.running}

    def _connect_of_brokers(self) -> str:
        """Return the connect string of brokers: direct, or through proxies."""
        if self._switchboard is None:
            return self.zookeeper_connect
        servers, slash, chroot = self.zookeeper_connect.partition("/")
        proxies = [self._switchboard.add(f"zk{number}", server) for number, server in enumerate(servers.split(","), 1)]
        return ",".join(proxies) + slash + chroot

    def _listeners(self, broker_id: int, port: int) -> dict[str, str]:
        """Return the listeners of a broker that brokers reach through a proxy, and clients directly."""
        if self._switchboard is None:
            return {}
        internal = f"{HOST}:{self._reserve_port()}"
        return {
            "listeners": f"PLAINTEXT://{HOST}:{port},INTERNAL://{internal}",
            "advertised.listeners": f"PLAINTEXT://{HOST}:{port},INTERNAL://{self._switchboard.add(broker_id, internal)}",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,INTERNAL:PLAINTEXT",
            "inter.broker.listener.name": "INTERNAL",
        }

    def _add(self, broker_id: int) -> BrokerProcess:
        settings = broker_settings(len(self._broker_ids), self._brokers_connect)
        if self._given_connect is None:
            settings["kafkalite.zookeeper.jute.maxbuffer"] = str(ENSEMBLE_BYTES)
        place = broker_id - self._broker_ids.start
        if (rack := rack_of(self._racks, broker_id, place)) is not None:
            settings["broker.rack"] = rack
        broker = BrokerProcess(
            broker_id,
            self.directory,
            settings | self._properties,
            self._command,
            port=None if self._base_port is None else self._base_port + place,
            http_port=self._choose_http_port(place),
        )
        broker.death_watch = self._death_watch
        if len(self._broker_ids) > 1:
            broker.start_process = start_warm  # they import once for all
        broker.properties |= self._listeners(broker_id, broker.port)
        if self._security is not None:
            inside = Inside(HOST, self._choose_inside_port(place), self._security.context())
            # What was asked for wins here too.
            broker.properties = (
                broker.properties | self._security.broker_settings(HOST, broker.port, inside.port) | self._properties
            )
            broker.inside = inside
        if self._fault_addresses is not None:
            self._fault_addresses[broker_id] = f"{HOST}:{self._reserve_port()}"
            broker.environment[ADDRESS_VARIABLE] = self._fault_addresses[broker_id]
            broker.properties |= SETTINGS
        self.brokers[broker_id] = broker
        return broker


async def _telling(waiting: Awaitable[object], done: str, tell: Callable[[str], None]) -> None:
    await waiting
    tell(done)
