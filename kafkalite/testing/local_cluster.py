"""A whole cluster on this machine: real ZooKeeper servers and broker processes, for tests, demonstrations and benchmarks.

    with LocalCluster(brokers=3) as cluster:
        producer = Producer({"bootstrap.servers": cluster.bootstrap_servers})
        cluster.kill(2)
        cluster.start_broker(2)

Every process that a cluster started ends with it: at the end of the `with` block, or at the end of the interpreter.
All methods block and none needs an event loop; in a coroutine call `start` and `close` through `asyncio.to_thread`.
"""

from __future__ import annotations

import asyncio
import atexit
import shutil
import tempfile
import weakref
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Final

from kafkalite.testing.broker_process import BROKER_COMMAND, BrokerProcess, wait_until
from zk.ensemble import Ensemble

__all__ = ["LIVE_CLUSTERS", "LocalCluster"]

LIVE_CLUSTERS: Final[weakref.WeakSet[LocalCluster]] = weakref.WeakSet()
"""Clusters with processes; a failing test's report shows their logs."""


class LocalCluster:
    """Brokers `first_broker_id`, `first_broker_id` + 1, ... on one ensemble, with settings fit for tests.

    `properties` are settings of every broker and win over the cluster's own choices. `zookeeper_connect` names an ensemble
    that runs already; then none is started. `directory` receives logs and data and is kept; without one everything lives
    in a temporary directory that goes with the cluster. `command` runs a broker when a properties file's path is appended.
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
    ) -> None:
        self._broker_ids = range(first_broker_id, first_broker_id + brokers)
        self._properties = dict(properties or {})
        self._zookeepers = zookeepers
        self._given_directory = directory
        self._given_connect = zookeeper_connect
        self._command = command
        self._start_timeout_s = start_timeout_s
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
        """Start everything and wait until every broker serves. TimeoutError or BrokerDied; nothing is left running then."""
        if self._given_directory is not None:
            self._given_directory.mkdir(parents=True, exist_ok=True)
        self.directory = self._given_directory or Path(tempfile.mkdtemp(prefix="kafkalite-"))
        LIVE_CLUSTERS.add(self)
        atexit.register(self.close)
        try:
            if self._given_connect is None:
                self.ensemble = Ensemble(self.directory / "zookeeper", self._zookeepers)
                asyncio.run(self.ensemble.start())
            for broker_id in self._broker_ids:
                self._add(broker_id).start()
            for broker in self.brokers.values():
                broker.wait_started(self._start_timeout_s)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Stop every broker (cleanly where it obeys in time), then ZooKeeper; remove a temporary directory."""
        atexit.unregister(self.close)
        for broker in self.brokers.values():
            broker.ask_to_stop()
        try:
            wait_until(lambda: not any(broker.running for broker in self.brokers.values()), "stop of all brokers", 10)
        except TimeoutError:
            pass  # `close` kills what is left
        for broker in self.brokers.values():
            broker.close()
        if self.ensemble is not None:
            asyncio.run(self.ensemble.stop())
            self.ensemble = None
        LIVE_CLUSTERS.discard(self)
        if self._given_directory is None and self.directory != Path():
            shutil.rmtree(self.directory, ignore_errors=True)

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
        broker = BrokerProcess(broker_id, self.directory, settings | self._properties, self._command)
        self.brokers[broker_id] = broker
        return broker
