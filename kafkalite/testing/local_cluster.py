"""A whole cluster on this machine: real ZooKeeper servers and broker processes, for tests, demonstrations and benchmarks.

    with LocalCluster(brokers=3) as cluster:
        producer = Producer({"bootstrap.servers": cluster.bootstrap_servers})
        cluster.kill(2)
        cluster.start_broker(2)

Every process that a cluster started ends with it: at the end of the `with` block, at the end of the interpreter, and on Linux when
the thread that started it ends. All methods block and none needs an event loop; in a coroutine call `start` and `close` through
`asyncio.to_thread`.

Below the directory: `zookeeper/` is the ensemble's, and each broker has `broker-<id>.properties`, `broker-<id>.log` (all that it
prints) and its log directory `broker-<id>/`. A second start over the same directory continues the same cluster.
"""

from __future__ import annotations

import asyncio
import atexit
import shutil
import tempfile
import time
import weakref
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Final

from kafkalite.testing.broker_process import BROKER_COMMAND, BrokerProcess
from kafkalite.testing.ports import ReservedPort
from kafkalite.testing.readiness import find_controller, until_ready
from kafkalite.types import NO_BROKER
from zk.ensemble import Ensemble, check_size

__all__ = ["LIVE_CLUSTERS", "LocalCluster"]

LIVE_CLUSTERS: Final[weakref.WeakSet[LocalCluster]] = weakref.WeakSet()
"""Clusters with processes; a failing test's report shows their logs."""


ZOOKEEPER_PORT_OFFSET: Final = 100
"""With a base port, ZooKeeper's client ports begin this far behind it."""

_STOP_TIMEOUT_S: Final = 10.0
"""For all brokers together; who does not obey is killed then."""


class LocalCluster:
    """Brokers `first_broker_id`, `first_broker_id` + 1, ... on one ensemble, with settings fit for tests.

    `properties` are settings of every broker and win over the cluster's own choices. `zookeeper_connect` names an ensemble
    that runs already; then none is started. `directory` receives logs and data and is kept; without one everything lives
    in a temporary directory that goes with the cluster. `command` runs a broker when a properties file's path is appended.
    `base_port` is the first broker's, the others' and ZooKeeper's follow; without it ports are reserved. ValueError for
    numbers of servers or ports that cannot be.
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
    ) -> None:
        check_size(zookeepers)
        if base_port is not None and brokers > ZOOKEEPER_PORT_OFFSET:
            raise ValueError(
                f"more than {ZOOKEEPER_PORT_OFFSET} brokers leave no place for ZooKeeper behind a base port"
            )
        self._broker_ids = range(first_broker_id, first_broker_id + brokers)
        self._properties = dict(properties or {})
        self._zookeepers = zookeepers
        self._given_directory = directory
        self._given_connect = zookeeper_connect
        self._command = command
        self._start_timeout_s = start_timeout_s
        self._base_port = base_port
        self._zookeeper_ports: list[ReservedPort] = []
        self.ensemble: Ensemble | None = None
        self.brokers: dict[int, BrokerProcess] = {}
        self.directory = Path()

    def __enter__(self) -> LocalCluster:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def start(self) -> None:
        """Start everything at once and wait until every broker knows all of them and a controller.

        TimeoutError, BrokerDied or EnsembleError; nothing is left running then.
        """
        if self._given_directory is not None:
            self._given_directory.mkdir(parents=True, exist_ok=True)
        self.directory = self._given_directory or Path(tempfile.mkdtemp(prefix="kafkalite-"))
        LIVE_CLUSTERS.add(self)
        atexit.register(self.close)
        try:
            asyncio.run(self._start())
        except BaseException:
            self.close()
            raise

    async def _start(self) -> None:
        """Brokers are not started after ZooKeeper but beside it: they load while it starts, and wait for it themselves."""
        waiting = []
        if self._given_connect is None:
            self.ensemble = Ensemble(
                self.directory / "zookeeper", self._zookeepers, client_ports=self._choose_zookeeper_ports()
            )
            waiting.append(asyncio.ensure_future(self.ensemble.start(self._start_timeout_s)))
            await asyncio.sleep(0)  # it has its ports now, and its processes run
        for broker_id in self._broker_ids:
            self._add(broker_id).start()
        everybody = frozenset(self.brokers)
        waiting += [asyncio.ensure_future(until_ready(broker, everybody)) for broker in self.brokers.values()]
        try:
            async with asyncio.timeout(self._start_timeout_s):
                await asyncio.gather(*waiting)
        except TimeoutError:
            tails = "\n".join(f"{name}:\n{tail}" for name, tail in self.logs(15).items())
            raise TimeoutError(f"the cluster is not ready after {self._start_timeout_s:g} s\n{tails}") from None
        finally:
            for each in waiting:
                each.cancel()
            await asyncio.gather(*waiting, return_exceptions=True)

    def _choose_zookeeper_ports(self) -> list[int]:
        if self._base_port is not None:
            first = self._base_port + ZOOKEEPER_PORT_OFFSET
            return list(range(first, first + self._zookeepers))
        self._zookeeper_ports = [ReservedPort() for _ in range(self._zookeepers)]
        return [port.number for port in self._zookeeper_ports]

    def close(self) -> dict[int, int | None]:
        """Stop every broker (cleanly where it obeys in time), then ZooKeeper; remove a temporary directory.

        Returns the brokers that ran and did not stop cleanly, with their exit statuses; None for those that had to be killed.
        """
        atexit.unregister(self.close)
        unclean = self._stop_brokers()
        for broker in self.brokers.values():
            broker.close()
        if self.ensemble is not None:
            asyncio.run(self.ensemble.stop())
            self.ensemble = None
        for port in self._zookeeper_ports:
            port.release()
        LIVE_CLUSTERS.discard(self)
        if self._given_directory is None and self.directory != Path():
            shutil.rmtree(self.directory, ignore_errors=True)
        return unclean

    def _stop_brokers(self) -> dict[int, int | None]:
        """One after the other and the controller last: each can hand over what it leads, and the seat moves at most once.

        All at once, every broker would try to give its partitions to brokers that are on their way out themselves.
        """
        deadline_s = time.monotonic() + _STOP_TIMEOUT_S
        running = [broker for broker in self.brokers.values() if broker.running]
        controller = asyncio.run(find_controller(running)) if len(running) > 1 else NO_BROKER
        unclean: dict[int, int | None] = {}
        for broker in sorted(running, key=lambda broker: broker.id == controller):
            try:
                status = broker.stop(max(0.0, deadline_s - time.monotonic()))
            except TimeoutError:
                unclean[broker.id] = None  # `close` kills it
            else:
                if status != 0:
                    unclean[broker.id] = status
        return unclean

    @property
    def zookeeper_connect(self) -> str:
        if self._given_connect is not None:
            return self._given_connect
        if self.ensemble is None:
            raise RuntimeError("the cluster does not run")
        return self.ensemble.connect

    @property
    def bootstrap_servers(self) -> str:
        """host:port of every broker, also of those that are down now."""
        return ",".join(broker.address for broker in self.brokers.values())

    def broker(self, broker_id: int) -> BrokerProcess:
        return self.brokers[broker_id]

    def add_broker(self, broker_id: int) -> BrokerProcess:
        """One more broker; returns when it serves."""
        broker = self._add(broker_id)
        broker.start()
        broker.wait_started(self._start_timeout_s)
        return broker

    def start_broker(self, broker_id: int) -> None:
        """Start a broker that was stopped or killed, with its old port and log directory; returns when it serves."""
        self.brokers[broker_id].start()
        self.brokers[broker_id].wait_started(self._start_timeout_s)

    def stop(self, broker_id: int) -> int:
        """Clean stop; the broker's exit status. TimeoutError when it does not obey."""
        return self.brokers[broker_id].stop()

    def kill(self, broker_id: int) -> None:
        self.brokers[broker_id].kill()

    def pause(self, broker_id: int) -> None:
        self.brokers[broker_id].pause()

    def resume(self, broker_id: int) -> None:
        self.brokers[broker_id].resume()

    def restart(self, broker_id: int) -> None:
        """Clean stop, then start; returns when the broker serves again."""
        self.stop(broker_id)
        self.start_broker(broker_id)

    def logs(self, lines: int = 60) -> dict[str, str]:
        """The last lines of every broker's output, by a name for the report of a failing test."""
        return {f"broker {broker.id} at {broker.address}": broker.log_tail(lines) for broker in self.brokers.values()}

    def _add(self, broker_id: int) -> BrokerProcess:
        replicas = min(3, max(1, len(self._broker_ids)))
        settings = {
            "zookeeper.connect": self.zookeeper_connect,
            # Deaths are noticed soon, and a first rebalance does not wait for members that nobody will start.
            "zookeeper.session.timeout.ms": "6000",
            "group.initial.rebalance.delay.ms": "0",
            "offsets.topic.replication.factor": str(replicas),
            "transaction.state.log.replication.factor": str(replicas),
            "transaction.state.log.min.isr": str(min(2, replicas)),
        }
        port = None if self._base_port is None else self._base_port + broker_id - self._broker_ids.start
        broker = BrokerProcess(broker_id, self.directory, settings | self._properties, self._command, port)
        self.brokers[broker_id] = broker
        return broker
