"""A cluster on this machine as child processes: a ZooKeeper ensemble and brokers, started together and stopped in order.

Below the data directory: `zookeeper/` is the ensemble's, and each broker has `broker-<id>.properties`, `broker-<id>.log` (all that it
prints) and its log directory `broker-<id>/`. A second start over the same directory continues the same cluster, if the ports are given.
Brokers are started at once with ZooKeeper, not after it: they wait for it themselves.
"""

from __future__ import annotations

import asyncio
import ctypes
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kafkalite.client.cluster_client import ClusterClient
from kafkalite.client.errors import ClientError
from kafkalite.client.retry import RetryPolicy
from zk.ensemble import HOST, Ensemble, free_ports

_STOP_TIMEOUT_S = 30.0
_READY_POLL_MS = 20.0
_LOG_TAIL_LINES = 15
_PR_SET_PDEATHSIG = 1
ZOOKEEPER_PORT_OFFSET = 100
"""With a base port, ZooKeeper's client ports begin this far behind it."""


class ClusterStartError(Exception):
    """A process ended, or the cluster was not ready in time; the message says which, with its last lines."""


@dataclass(frozen=True, slots=True)
class ClusterLayout:
    """What is to be started. `base_port` None stands for free ports; `overrides` are settings of every broker."""

    data_dir: Path
    brokers: int = 3
    zookeepers: int = 1
    base_port: int | None = None
    first_broker_id: int = 101
    overrides: Mapping[str, str] = field(default_factory=dict)


class BrokerChild:
    """One broker process."""

    def __init__(self, broker_id: int, port: int, layout: ClusterLayout) -> None:
        self.id = broker_id
        self.port = port
        self.log_path = layout.data_dir / f"broker-{broker_id}.log"
        self.properties_path = layout.data_dir / f"broker-{broker_id}.properties"
        self.log_dir = layout.data_dir / f"broker-{broker_id}"
        self.process: asyncio.subprocess.Process | None = None

    @property
    def address(self) -> str:
        return f"{HOST}:{self.port}"

    @property
    def running(self) -> bool:
        return self.process is not None and self.process.returncode is None

    def log_tail(self) -> str:
        try:
            lines = self.log_path.read_text(errors="replace").splitlines()
        except OSError:
            return ""
        return "\n".join(f"    {line}" for line in lines[-_LOG_TAIL_LINES:])

    async def start(self, properties: Mapping[str, str]) -> None:
        self.properties_path.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
        with self.log_path.open("ab") as log:
            self.process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                "kafkalite",
                "broker",
                "--config",
                str(self.properties_path),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # an interrupt at the terminal is for the parent, which stops brokers first
                preexec_fn=_end_with_parent(),
            )

    async def stop(self) -> None:
        """SIGTERM; SIGKILL for one that does not obey."""
        process = self.process
        if process is None or process.returncode is not None:
            return
        process.terminate()
        try:
            async with asyncio.timeout(_STOP_TIMEOUT_S):
                await process.wait()
        except TimeoutError:
            process.kill()
            await process.wait()


def _end_with_parent() -> Callable[[], object] | None:
    """On Linux the kernel stops a broker whose parent was killed, so that no orphan keeps the port."""
    if sys.platform != "linux":
        return None
    prctl = ctypes.CDLL(None).prctl
    return lambda: prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


class ClusterProcesses:
    """See the module. `start` it, watch `next_death`, `stop` it."""

    def __init__(self, layout: ClusterLayout) -> None:
        """ValueError for numbers of servers or ports that cannot be."""
        if layout.brokers < 1:
            raise ValueError(f"a cluster of {layout.brokers} brokers serves nobody")
        self.layout = layout
        ports = self._ports()
        self._zookeeper_ports = ports[layout.brokers :]
        ids = range(layout.first_broker_id, layout.first_broker_id + layout.brokers)
        self.brokers = [
            BrokerChild(broker_id, port, layout) for broker_id, port in zip(ids, ports[: layout.brokers], strict=True)
        ]
        self.ensemble = Ensemble(layout.data_dir / "zookeeper", layout.zookeepers, client_ports=self._zookeeper_ports)
        self.ready_s = 0.0
        self._reported: set[str] = set()

    def _ports(self) -> list[int]:
        """Of the brokers, then of ZooKeeper."""
        base = self.layout.base_port
        if base is None:
            return free_ports(self.layout.brokers + self.layout.zookeepers)
        if self.layout.brokers > ZOOKEEPER_PORT_OFFSET:
            raise ValueError(
                f"more than {ZOOKEEPER_PORT_OFFSET} brokers need ports of their own: leave --base-port out"
            )
        zookeeper = base + ZOOKEEPER_PORT_OFFSET
        return [*range(base, base + self.layout.brokers), *range(zookeeper, zookeeper + self.layout.zookeepers)]

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(broker.address for broker in self.brokers)

    def to_dict(self) -> dict[str, Any]:
        """What `cluster up -o json` prints."""
        return {
            "bootstrap_servers": self.bootstrap_servers,
            "zookeeper_connect": self.ensemble.connect,
            "brokers": [
                {
                    "id": broker.id,
                    "host": HOST,
                    "port": broker.port,
                    "pid": broker.process.pid if broker.process else None,
                    "log_dir": str(broker.log_dir),
                }
                for broker in self.brokers
            ],
            "zookeepers": [
                {
                    "id": member.number,
                    "client_port": member.ports.client,
                    "pid": member.process.pid if member.process else None,
                }
                for member in self.ensemble.members
            ],
            "ready_s": round(self.ready_s, 3),
        }

    async def start(self, timeout_s: float = 60.0) -> None:
        """Until every broker's metadata has every broker and a controller. ClusterStartError; EnsembleError."""
        loop = asyncio.get_running_loop()
        begun_s = loop.time()
        self.layout.data_dir.mkdir(parents=True, exist_ok=True)
        connect = ",".join(f"{HOST}:{port}" for port in self._zookeeper_ports)
        starting = [
            loop.create_task(self.ensemble.start()),
            *(loop.create_task(broker.start(self._properties(broker, connect))) for broker in self.brokers),
        ]
        try:
            await asyncio.gather(*starting)
            async with asyncio.timeout(timeout_s):
                await self._until_ready()
        except TimeoutError:
            await self.stop()
            tails = "\n".join(f"broker {broker.id}:\n{broker.log_tail()}" for broker in self.brokers)
            raise ClusterStartError(f"the cluster is not ready after {timeout_s:g} s\n{tails}") from None
        except BaseException:
            await asyncio.gather(*starting, return_exceptions=True)
            await self.stop()
            raise
        self.ready_s = loop.time() - begun_s

    def _properties(self, broker: BrokerChild, connect: str) -> dict[str, str]:
        replicas = str(min(3, self.layout.brokers))
        return {
            "broker.id": str(broker.id),
            "listeners": f"PLAINTEXT://{broker.address}",
            "zookeeper.connect": connect,
            "log.dirs": str(broker.log_dir),
            "zookeeper.session.timeout.ms": "6000",
            "group.initial.rebalance.delay.ms": "0",
            "offsets.topic.replication.factor": replicas,
            "transaction.state.log.replication.factor": replicas,
            "transaction.state.log.min.isr": str(min(2, self.layout.brokers)),
            **self.layout.overrides,
        }

    async def _until_ready(self) -> None:
        waiting = [asyncio.ensure_future(self._broker_ready(broker)) for broker in self.brokers]
        deaths = [asyncio.ensure_future(self._ended(broker)) for broker in self.brokers]
        try:
            everything_ready = asyncio.ensure_future(asyncio.wait(waiting))
            await asyncio.wait({everything_ready, *deaths}, return_when=asyncio.FIRST_COMPLETED)
            for broker, death in zip(self.brokers, deaths, strict=True):
                if death.done():
                    raise ClusterStartError(
                        f"broker {broker.id} ended with status {death.result()} before it was ready:\n{broker.log_tail()}"
                    )
        finally:
            for each in [*waiting, *deaths]:
                each.cancel()
            await asyncio.gather(*waiting, *deaths, return_exceptions=True)

    @staticmethod
    async def _ended(broker: BrokerChild) -> int:
        return await broker.process.wait() if broker.process else -1

    async def _broker_ready(self, broker: BrokerChild) -> None:
        """Until this broker's own metadata names all brokers and a controller among them."""
        wanted = {each.id for each in self.brokers}
        cluster = ClusterClient(broker.address, client_id="kafkalite-cluster", retry=RetryPolicy(_READY_POLL_MS, 100))
        try:
            while True:
                try:
                    await cluster.connect()
                    view = cluster.view
                    if wanted <= set(view.brokers) and view.controller_id in view.brokers:
                        return
                except (OSError, ClientError):
                    pass  # not listening yet
                await asyncio.sleep(_READY_POLL_MS / 1000)
        finally:
            await cluster.close()

    def deaths(self) -> list[str]:
        """A line for each child that died since the last call."""
        lines = []
        for broker in self.brokers:
            if broker.process is not None and broker.process.returncode is not None:
                name = f"broker {broker.id}"
                lines.append((name, f"{name} ended with status {broker.process.returncode}:\n{broker.log_tail()}"))
        for member in self.ensemble.members:
            if member.process is not None and not member.running:
                name = f"ZooKeeper server {member.number}"
                lines.append((name, f"{name} ended with status {member.process.returncode}"))
        news = [text for name, text in lines if name not in self._reported]
        self._reported |= {name for name, _ in lines}
        return news

    async def stop(self) -> None:
        """Brokers first, so that they stop cleanly, then ZooKeeper."""
        await asyncio.gather(*(broker.stop() for broker in self.brokers))
        await self.ensemble.stop()
