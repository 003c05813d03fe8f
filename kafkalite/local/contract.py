"""The operations of every cluster for tests, whether its servers are processes (`LocalCluster`) or containers (`KafkaliteCluster`).

    def test_orders_survive_their_leader(cluster: Cluster) -> None:
        leader = cluster.leader_of("orders", 0)
        cluster.kill(leader)
        ...
        cluster.restart(leader)
        cluster.await_isr("orders", 0, size=3)

Brokers are named by their ids, ZooKeeper servers `zk1`, `zk2` and so on.
"""

from __future__ import annotations

import weakref
from abc import abstractmethod
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol, Self, TypeAlias, runtime_checkable

from kafkalite.local.broker_process import wait_until
from kafkalite.types import NO_BROKER

if TYPE_CHECKING:
    from kafkalite.local.cluster_facts import ClusterFacts
    from zk.security.store_security import StoreSecurity

Node: TypeAlias = int | str
"""A broker's id, or the name of a ZooKeeper server."""


class ShowsLogs(Protocol):
    """An object with logs for the report of a failing test."""

    def logs(self, lines: int = 60) -> dict[str, str]:
        """Return the last lines of each server's output, by a name for a person."""


LIVE_CLUSTERS: Final[weakref.WeakSet[Any]] = weakref.WeakSet()
"""The running clusters, each a `ShowsLogs`; a failing test's report shows their logs."""


@runtime_checkable
class Cluster(ShowsLogs, Protocol):
    """A running cluster; all methods block and none needs an event loop."""

    @property
    def bootstrap_servers(self) -> str:
        """Return host:port of every broker, also of those that are down, for clients on this machine."""

    @property
    def zookeeper_connect(self) -> str:
        """Return the connect string of the ensemble for clients on this machine."""

    @property
    def broker_ids(self) -> list[int]:
        """Return the ids of all brokers, also of those that are down."""

    def start(self) -> Any:
        """Start everything at once and wait until every broker knows all of them and a controller."""

    def close(self) -> Any:
        """Stop everything and remove what is temporary; may be called again."""

    def pause(self, broker_id: int) -> None:
        """Freeze a broker, as a long garbage collection or a suspended machine would."""

    def unpause(self, broker_id: int) -> None:
        """Let a frozen broker go on."""

    def kill(self, broker_id: int) -> None:
        """Kill a broker; returns when its process has ended."""

    def stop(self, broker_id: int) -> int:
        """Stop a broker cleanly and return its exit status."""

    def start_broker(self, broker_id: int) -> None:
        """Start a broker that was stopped or killed, on its old port and data; returns when it serves."""

    def restart(self, broker_id: int) -> None:
        """Stop cleanly what runs, and start; returns when the broker serves."""

    def partition(self, side: Collection[Node] | Node, other: Collection[Node] | Node) -> None:
        """Let nothing pass between two sides, silently, as a broken network would; clients still reach both."""

    def heal(self) -> None:
        """Undo every `partition`."""

    def leader_of(self, topic: str, partition: int = 0) -> int:
        """Return the leader's broker id, NO_BROKER while there is none."""

    def controller(self) -> int:
        """Return the controller's broker id, NO_BROKER while there is none."""

    def await_isr(
        self,
        topic: str,
        partition: int = 0,
        *,
        brokers: Iterable[int] | None = None,
        size: int | None = None,
        timeout_s: float = 30,
    ) -> list[int]:
        """Wait until the in-sync replicas are exactly `brokers`, or `size` many, and one of them leads; return the replicas.

        As in Kafka a follower that lacks nothing stays in sync: one that was cut off leaves after the next record. Raises TimeoutError.
        """

    def log_directories(self) -> dict[int, list[Path]]:
        """Return for each broker the directories with its partitions, for reading; of containers a copy."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *problem: object) -> None: ...


class AskedThroughZooKeeper:
    """Implements `leader_of`, `controller` and `await_isr` through ZooKeeper, for a class with `zookeeper_connect`.

    ZooKeeper is asked and not a broker, because a broker that was paused or cut off still answers with the old state.
    """

    @property
    @abstractmethod
    def zookeeper_connect(self) -> str:
        """Return the ensemble's servers, host:port with commas between."""

    def facts(self) -> ClusterFacts:
        """Return a session with the cluster's ZooKeeper, for a `with` statement."""
        from kafkalite.local.cluster_facts import ClusterFacts  # brings kazoo, which a mere start does not need

        return ClusterFacts(self.zookeeper_connect, self._zookeeper_security())

    def _zookeeper_security(self) -> StoreSecurity:
        """Return the security of sessions with the ensemble."""
        from zk.security.store_security import PLAINTEXT

        return PLAINTEXT

    def leader_of(self, topic: str, partition: int = 0) -> int:
        with self.facts() as facts:
            state = facts.states(topic).get(partition)
            return NO_BROKER if state is None else state.leader

    def controller(self) -> int:
        with self.facts() as facts:
            return facts.controller()

    def await_isr(
        self,
        topic: str,
        partition: int = 0,
        *,
        brokers: Iterable[int] | None = None,
        size: int | None = None,
        timeout_s: float = 30,
    ) -> list[int]:
        wanted = None if brokers is None else set(brokers)
        if (wanted is None) == (size is None):
            raise ValueError("say which brokers are to be in sync, or how many: brokers= or size=")
        found: list[int] = []

        def reached() -> bool:
            state = facts.states(topic).get(partition)
            found[:] = [] if state is None or state.leader not in state.isr else state.isr
            return set(found) == wanted if wanted is not None else len(found) == size

        with self.facts() as facts:
            try:
                wait_until(reached, f"in-sync replicas of {topic}-{partition}: {wanted or size}", timeout_s)
            except TimeoutError as problem:
                raise TimeoutError(f"{problem}; they are {found}") from None
        return found


def broker_settings(replicas: int, zookeeper_connect: str) -> dict[str, str]:
    """Return settings that suit clusters for tests: deaths are noticed soon, and nobody waits for members that will not come."""
    replicas = min(3, max(1, replicas))
    return {
        "zookeeper.connect": zookeeper_connect,
        "zookeeper.session.timeout.ms": "6000",
        "zookeeper.connection.timeout.ms": "30000",  # its default is the session's: too short for a start on a busy machine
        "group.initial.rebalance.delay.ms": "0",
        "offsets.topic.replication.factor": str(replicas),
        "transaction.state.log.replication.factor": str(replicas),
        "transaction.state.log.min.isr": str(min(2, replicas)),
    }


def rack_of(racks: Mapping[int, str] | Iterable[str] | None, broker_id: int, index: int) -> str | None:
    """Return the rack of a broker: by its id in a mapping, or by its index in a list that repeats."""
    if racks is None:
        return None
    if isinstance(racks, Mapping):
        return racks.get(broker_id)
    names = list(racks)
    return names[index % len(names)] if names else None


def nodes(side: Collection[Node] | Node) -> list[Node]:
    """Return one node or several as a list."""
    return [side] if isinstance(side, int | str) else list(side)


def check_sides(side: Collection[Node], other: Collection[Node], known: Collection[Node]) -> None:
    """Raise ValueError for a node of a partition that is not in `known`, and for one that is on both sides."""
    for node in (*side, *other):
        if node not in known:
            raise ValueError(f"there is no server {node!r} in the cluster; there are {list(known)}")
    if both := set(side) & set(other):
        raise ValueError(f"{sorted(map(str, both))} cannot be on both sides of a partition")
