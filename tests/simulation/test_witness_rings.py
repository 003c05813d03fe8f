"""Witnesses of a large cluster are a ring: who hears whom when parts of it are lost, restarted, or know no heartbeats."""

from __future__ import annotations

import asyncio

import pytest

from kafkalite.broker.failure_detection.heartbeats import HeartbeatLink
from kafkalite.net.connection import Connection
from kafkalite.testing.simulation.cluster import SimulatedCluster
from kafkalite.types import Endpoint
from tests.simulation.detection import create_topic, end_of_registration, outcomes, run, verdicts


@pytest.mark.parametrize("seed", [1, 2])
def test_a_planned_restart_in_a_cluster_with_racks_accuses_nobody(seed: int) -> None:
    """The ring of witnesses shifts and shifts back: whoever is watched again was not silent meanwhile."""

    async def scenario(cluster: SimulatedCluster) -> None:
        await create_topic(cluster, [3, 4, 5, 6, 7, 8, 9, 2])
        await cluster.stop(1)
        await asyncio.sleep(12)
        await cluster.start(1)
        await asyncio.sleep(4)
        assert verdicts(cluster) == {} and outcomes(cluster) == {}

    racks = {broker: f"rack-{broker % 3}" for broker in range(1, 10)}
    run(scenario, brokers=9, seed=seed, racks=racks, detection="evidence")


@pytest.mark.parametrize("brokers", [5, 7, 8, 10])
@pytest.mark.parametrize("how", ["both ways", "refused"])
def test_two_witnesses_on_one_side_are_no_match_for_those_on_the_other(brokers: int, how: str) -> None:
    """Of a ring: who stands farthest away hears none of those that hear the victim."""

    async def scenario(cluster: SimulatedCluster) -> None:
        await create_topic(cluster, list(range(1, brokers + 1)))
        epoch = cluster.broker_epoch(5)
        for other in (3, 4):
            if how == "refused":
                cluster.simulation.network.reject(f"broker-{other}", "broker-5", 1.0)
                cluster.simulation.network.reset(f"broker-{other}", "broker-5")
            else:
                cluster.cut("broker-5", f"broker-{other}")
        await asyncio.sleep(8)
        assert cluster.broker_epoch(5) == epoch

    run(scenario, brokers=brokers, detection="evidence")


@pytest.mark.parametrize("how", ["lost", "refused"])
@pytest.mark.parametrize("brokers", [6, 10, 12])
def test_two_halves_of_a_ring_that_have_lost_each_other_end_no_session(brokers: int, how: str) -> None:
    """Without racks those at the seams hear more than they have lost."""

    async def scenario(cluster: SimulatedCluster) -> None:
        await create_topic(cluster, list(cluster.brokers))
        epochs = {broker: cluster.broker_epoch(broker) for broker in cluster.brokers}
        for one in range(1, brokers // 2 + 1):
            for other in range(brokers // 2 + 1, brokers + 1):
                pair = f"broker-{one}", f"broker-{other}"
                if how == "lost":
                    cluster.cut(*pair)
                else:
                    for source, target in (pair, pair[::-1]):
                        cluster.simulation.network.reject(source, target, 1.0)
                    cluster.simulation.network.reset(*pair)
        await asyncio.sleep(8)
        assert {broker: cluster.broker_epoch(broker) for broker in cluster.brokers} == epochs

    run(scenario, brokers=brokers, detection="evidence")


@pytest.mark.parametrize(("brokers", "racks"), [(9, 3), (12, 3), (12, 4), (8, 0), (12, 0)])
@pytest.mark.parametrize("how", ["killed", "vanished"])
def test_a_rack_that_is_lost_is_found_dead(brokers: int, racks: int, how: str) -> None:
    """The ring shifts when the first one is gone; who watches the others then has never had a connection to them.

    Without racks these are three neighbours.
    """

    async def scenario(cluster: SimulatedCluster) -> None:
        await create_topic(cluster, list(cluster.brokers))
        lost = [broker for broker in cluster.brokers if (broker % racks == 1 if racks else 3 <= broker <= 5)]
        epochs = {broker: cluster.broker_epoch(broker) for broker in lost}
        for broker in lost:
            if how == "vanished":
                for other in cluster.brokers.keys() - {broker}:
                    cluster.cut(f"broker-{broker}", f"broker-{other}")
                store = cluster.brokers[broker].store
                assert store is not None
                store.suspend(60.0)
            else:
                cluster.kill(broker)
        for broker, epoch in epochs.items():
            await end_of_registration(cluster, broker, epoch, 4)

    of_racks = {broker: f"rack-{broker % racks}" for broker in range(1, brokers + 1)} if racks else None
    run(scenario, brokers=brokers, racks=of_racks, detection="evidence")


@pytest.mark.parametrize(("brokers", "foreign", "victim"), [(6, (2, 4, 6), 5), (6, (4, 5, 6), 3), (8, (2, 4), 3)])
def test_brokers_that_know_no_heartbeats_keep_nobody_from_being_found_dead(
    brokers: int, foreign: tuple[int, ...], victim: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in a cluster with Apache Kafka's. Those that are left to watch may be no neighbours of each other."""
    open_connection = HeartbeatLink._open

    async def open_to_ours(self: HeartbeatLink, endpoint: Endpoint) -> Connection:
        if {self._peer, self._sender.broker_id} & set(foreign):
            raise ValueError("no heartbeats")
        return await open_connection(self, endpoint)

    monkeypatch.setattr(HeartbeatLink, "_open", open_to_ours)

    async def scenario(cluster: SimulatedCluster) -> None:
        epoch = cluster.broker_epoch(victim)
        cluster.kill(victim)
        assert await end_of_registration(cluster, victim, epoch, 30) < 0.8

    run(scenario, brokers=brokers, detection="evidence")
