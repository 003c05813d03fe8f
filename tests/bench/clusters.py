"""Cells about clusters of three brokers: how long a failover takes, and what many partitions cost.

Sessions last 2 s; the gap after a death is counted from the end of the session, because before it nobody may take over. The cells of one
size share a cluster: the first that is asked for measures all, and each value is given once, so that every round measures again.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Final

from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]
from kazoo.protocol.states import WatchedEvent

from kafkalite.local.broker_process import BrokerProcess, wait_until
from kafkalite.local.cluster import LocalCluster
from kafkalite.local.cluster_facts import ClusterFacts
from kafkalite.testing.history.events import SendAcknowledged
from kafkalite.testing.workloads.workload import Workload, longest_gap
from tests.bench.cells import Target, cell
from tests.processor_time import worked_s
from zk import paths

PROPERTIES: Final = {
    "zookeeper.session.timeout.ms": "2000",
    "auto.create.topics.enable": "false",
    "auto.leader.rebalance.enable": "false",
    "offsets.topic.num.partitions": "1",
}
BUSY: Final = 6
FAILOVER_PARTITIONS: Final = 300
SIZES: Final = (500, 2000)
TIMEOUT_S: Final = 120.0


@contextmanager
def cluster_of_three(target: Target) -> Iterator[tuple[LocalCluster, ClusterFacts]]:
    """Brokers of the command that is measured."""
    with (
        LocalCluster(brokers=3, properties=PROPERTIES, command=target.command) as cluster,
        ClusterFacts(cluster.zookeeper_connect) as facts,
    ):
        wait_until(lambda: facts.controller() >= 0, "a controller", TIMEOUT_S)
        yield cluster, facts


def create(cluster: LocalCluster, facts: ClusterFacts, topic: str, partitions: int) -> float:
    """Seconds until all partitions of a topic with factor 3 are led and replicated."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    began = time.perf_counter()
    future = admin.create_topics(
        [NewTopic(topic, partitions, 3)], operation_timeout=TIMEOUT_S, request_timeout=TIMEOUT_S
    )
    future[topic].result(TIMEOUT_S)
    wait_until(lambda: led(cluster, topic, partitions), f"{partitions} leaders of {topic}", TIMEOUT_S)
    return time.perf_counter() - began


def led(cluster: LocalCluster, topic: str, partitions: int) -> bool:
    """Does the metadata of some broker name a living leader for every partition?"""
    found = AdminClient({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0}).list_topics(topic, timeout=10)
    alive = {broker.id for broker in cluster.brokers.values() if broker.running}
    leaders = [partition.leader for partition in found.topics[topic].partitions.values()]
    return len(leaders) == partitions and all(leader in alive for leader in leaders)


class End:
    """The moment at which a znode vanishes."""

    def __init__(self, facts: ClusterFacts, path: str) -> None:
        self.at_ns = 0
        self._seen = threading.Event()
        facts.client.exists(path, watch=self._notice)

    def _notice(self, event: WatchedEvent) -> None:
        self.at_ns = time.monotonic_ns()
        self._seen.set()

    def wait(self) -> int:
        if not self._seen.wait(TIMEOUT_S):
            raise TimeoutError("the session did not end")
        return self.at_ns


# Failover


def failover_gap(target: Target, act: Callable[[LocalCluster, ClusterFacts, Workload], float]) -> float:
    with cluster_of_three(target) as (cluster, facts):
        create(cluster, facts, "idle", FAILOVER_PARTITIONS - BUSY)
        create(cluster, facts, "busy", BUSY)
        workload = Workload(cluster, facts, "busy", BUSY, kinds=("confluent-idempotent",))
        workload.start()
        try:
            return act(cluster, facts, workload)
        finally:
            workload.stop()


def kill_leader(cluster: LocalCluster, facts: ClusterFacts, workload: Workload) -> float:
    controller = facts.controller()
    leaders = facts.leaders("busy")
    victim = next(leader for leader in leaders if leader != controller)
    moved = {partition for partition, leader in enumerate(leaders) if leader == victim}
    end = End(facts, paths.broker(victim))
    cluster.kill(victim)
    ended_ns = end.wait()
    writer = workload.writers[0]
    wait_until(lambda: all(writer.acknowledged_on(each, ended_ns) for each in moved), "new leaders", TIMEOUT_S)
    first: dict[int, int] = {}
    for event in workload.recorder.events:
        if isinstance(event, SendAcknowledged) and event.at_ns > ended_ns and event.partition in moved:
            first.setdefault(event.partition, event.at_ns)
    return (max(first.values()) - ended_ns) / 1e9


def stop_leader(cluster: LocalCluster, facts: ClusterFacts, workload: Workload) -> float:
    since_ns = workload.recorder.now_ns()
    cluster.stop(facts.leaders("busy")[0])
    workload.wait_flowing()
    if workload.problems:
        raise RuntimeError(f"the producer met errors: {workload.problems[:3]}")
    return longest_gap(workload.recorder.events, since_ns, workload.recorder.now_ns()).duration_s


@cell("failover gap after a leader's session, 300 partitions", "s")
def gap_after_death(target: Target) -> float:
    """Until the last of the busy partitions takes records again."""
    return failover_gap(target, kill_leader)


@cell("failover gap at a clean stop, 300 partitions", "s")
def gap_at_stop(target: Target) -> float:
    """The longest time without an acknowledgement on any busy partition."""
    return failover_gap(target, stop_leader)


# Many partitions

_measured: dict[tuple[tuple[str, ...], int], dict[str, float]] = {}
_latest: dict[tuple[tuple[str, ...], int, str], float] = {}


def cpu_s(broker: BrokerProcess) -> float:
    """Processor time that a broker has used."""
    return worked_s(broker.pid)


def idle_cpu_percent(cluster: LocalCluster, seconds: float) -> float:
    """What the three brokers use together while nobody asks for anything, in percent of one processor."""
    settle_s = 2.0
    time.sleep(settle_s)  # measured is a stretch of time: there is no condition to wait for
    before, began = sum(map(cpu_s, cluster.brokers.values())), time.perf_counter()
    time.sleep(max(seconds, 5.0))
    used_s = sum(map(cpu_s, cluster.brokers.values())) - before
    return 100 * used_s / (time.perf_counter() - began)


def controller_failover_s(cluster: LocalCluster, facts: ClusterFacts, partitions: int) -> float:
    """From the end of the dead controller's session until clients are told of living leaders for all partitions."""
    victim = facts.controller()
    end = End(facts, paths.CONTROLLER)
    cluster.kill(victim)
    ended_ns = end.wait()
    wait_until(lambda: led(cluster, "many", partitions), "leaders by the new controller", TIMEOUT_S)
    return (time.monotonic_ns() - ended_ns) / 1e9


def of_size(target: Target, partitions: int, what: str) -> float:
    key = target.command, partitions
    if what not in _measured.get(key, {}):
        with cluster_of_three(target) as (cluster, facts):
            values = {"creation": create(cluster, facts, "many", partitions)}
            values["idle"] = idle_cpu_percent(cluster, target.seconds)
            values["failover"] = controller_failover_s(cluster, facts, partitions)
        _measured[key] = values
    value = _latest[(*key, what)] = _measured[key].pop(what)
    return value


def growth(target: Target, what: str) -> float:
    """The value at the largest size divided by that at the smallest; the number of partitions grows fourfold."""
    values = []
    for size in (SIZES[0], SIZES[-1]):
        known = _latest.get((target.command, size, what))
        values.append(of_size(target, size, what) if known is None else known)
    return values[1] / max(values[0], 1e-3)


def register_sizes() -> None:
    for size in SIZES:
        for what, name, unit in (
            ("creation", f"creation of {size} partitions, factor 3", "s"),
            ("idle", f"idle processor use of three brokers, {size} partitions", "%"),
            ("failover", f"controller failover, {size} partitions", "s"),
        ):
            cell(name, unit)(partial(of_size, partitions=size, what=what))
    for what in ("creation", "idle", "failover"):
        cell(f"{what}: growth from {SIZES[0]} to {SIZES[-1]} partitions", "times")(partial(growth, what=what))


register_sizes()
