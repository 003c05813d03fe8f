"""What tests of failure detection share: a cluster, what its brokers have found out of each other, and how they are cut off."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping

from kafkalite.broker.failure_detection.evidence import Evidence
from kafkalite.broker.failure_detection.failure_detection import FailureDetection, Outcome
from kafkalite.client import Admin, NewTopic
from kafkalite.testing.simulation.cluster import SimulatedCluster
from kafkalite.testing.simulation.processes import Simulation
from kafkalite.types import TopicPartition
from zk import paths
from zk.znodes.controller import ControllerSeat

SETTINGS = {"zookeeper.session.timeout.ms": "18000"}


def run(
    scenario: Callable[[SimulatedCluster], Awaitable[None]],
    brokers: int = 3,
    seed: int = 1,
    racks: Mapping[int, str] | None = None,
    **settings: str,
) -> None:
    simulation = Simulation(seed)
    more = {f"kafkalite.failover.{name.replace('_', '.')}": value for name, value in settings.items()}
    cluster = SimulatedCluster(simulation, brokers, SETTINGS | more, racks=dict(racks or {}))

    async def whole() -> None:
        await cluster.start()
        await asyncio.sleep(3)  # of virtual time: all have heard of each other
        await scenario(cluster)

    simulation.run(whole())


def detection(cluster: SimulatedCluster, broker: int) -> FailureDetection:
    app = cluster.brokers[broker].app
    assert app is not None and app.serving is not None
    return app.serving.parts.failure_detection


def verdicts(cluster: SimulatedCluster) -> dict[Evidence, int]:
    of_all = [detection(cluster, each.broker_id).verdicts for each in cluster.running()]
    return {evidence: count for evidence in Evidence if (count := sum(each[evidence] for each in of_all))}


def outcomes(cluster: SimulatedCluster) -> dict[Outcome, int]:
    of_all = [detection(cluster, each.broker_id).outcomes for each in cluster.running()]
    return {outcome: count for outcome in Outcome if (count := sum(each[outcome] for each in of_all))}


async def end_of_registration(cluster: SimulatedCluster, broker: int, epoch: int | None, timeout_s: float) -> float:
    """Wait until the broker is not registered under this epoch any more, and return the seconds that took."""
    loop = asyncio.get_running_loop()
    began_s = loop.time()
    await cluster.until(lambda: cluster.broker_epoch(broker) != epoch, "the end of a registration", timeout_s)
    return loop.time() - began_s


def controller(cluster: SimulatedCluster) -> int:
    data = cluster.read_znode(paths.CONTROLLER)
    assert data is not None
    return ControllerSeat.decode(data).broker_id


def isolate(cluster: SimulatedCluster, broker: int) -> None:
    for other in cluster.brokers.keys() - {broker}:
        cluster.cut(f"broker-{broker}", f"broker-{other}")


async def create_topic(cluster: SimulatedCluster, replicas: list[int], **configs: str) -> TopicPartition:
    async def create() -> None:
        async with Admin(
            bootstrap_servers=cluster.bootstrap_servers, chance=cluster.simulation.chance("admin").random
        ) as admin:
            await admin.create_topics([NewTopic("flights", replica_assignments={0: replicas}, topic_configs=configs)])

    process = cluster.simulation.process("admin")
    await process.run(create())
    process.kill()
    partition = TopicPartition("flights", 0)
    await cluster.until(lambda: not cluster.out_of_sync() and cluster.partition_state(partition), "the topic")
    return partition
