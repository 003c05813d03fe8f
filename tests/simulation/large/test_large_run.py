"""Large clusters under some seeds; `python -m tests.simulation --brokers 100` runs more of them."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from typing import Final

import pytest

from kafkalite.testing.simulation.cluster import SimulatedCluster
from kafkalite.testing.simulation.mass_acts import MASS_FAULTS
from kafkalite.testing.simulation.processes import Simulation
from kafkalite.types import TopicPartition
from tests.simulation.bugs.patching import Bug, Edit, put_in
from tests.simulation.large.plan import REASSIGN_ALL, draw_large, find_racks
from tests.simulation.large.reassigning import place_elsewhere
from tests.simulation.plan import Plan
from tests.simulation.seeds import live

SEEDS: Final = ((12, 1), (12, 3))
"""Numbers of brokers, and seeds."""


@pytest.mark.parametrize("brokers, seed", SEEDS)
def test_promises_hold_in_large_clusters(brokers: int, seed: int) -> None:
    plan = draw_large(seed, brokers)
    result, run = live(plan)
    assert not result.problem, f"{plan}\n{result.problem}"
    assert run.outcome.verdict is not None
    assert set(result.faults) == {each.kind for each in plan.faults}


def test_replicas_that_disregard_racks_are_found() -> None:
    bug = Bug(
        "racks are disregarded",
        "KIP-36: a partition has two replicas in one rack",
        (
            Edit(
                "zk.placement",
                "        rack_is_free = racks[broker] not in used_racks or len(used_racks) == rack_count\n",
                "        rack_is_free = True\n",
            ),
        ),
    )
    with put_in(bug):
        result, _ = live(draw_large(0, 12))
    assert " is on (" in result.problem


def test_a_rack_that_is_lost_is_noticed_before_its_sessions_time_out() -> None:
    """Brokers watched their neighbours by id, so those in the middle of a rack died with all their witnesses."""
    simulation = Simulation(1)
    racks = {broker: f"rack-{(broker - 1) // 5}" for broker in range(1, 16)}
    settings = {"kafkalite.failover.detection": "evidence", "zookeeper.session.timeout.ms": "18000"}
    cluster = SimulatedCluster(simulation, 15, settings, racks=racks)

    async def scenario() -> None:
        await cluster.start()
        await asyncio.sleep(1.0)  # until each has answered its witnesses
        lost = [broker for broker, rack in racks.items() if rack == "rack-1"]
        for broker in lost:
            cluster.kill(broker)
        await cluster.until(lambda: not any(map(cluster.broker_epoch, lost)), "the sessions of a rack end", 5.0)

    simulation.run(scenario())


def test_seeds_draw_every_act_in_both_kinds_of_racks() -> None:
    plans = [draw_large(seed) for seed in range(60)]
    kinds = Counter(each.kind for plan in plans for each in (*plan.faults, *plan.operations))
    assert {*MASS_FAULTS, REASSIGN_ALL, "partition", "kill", "pause", "expire-session", "delete-controller"} <= {*kinds}
    assert {plan.workload["interleaved"] for plan in plans} == {0, 1}
    assert [Plan.parse(str(plan)) for plan in plans] == plans
    for interleaved in (0, 1):
        racks = find_racks(Plan(0, workload={"brokers": 100, "interleaved": interleaved}))
        assert Counter(racks.values()) == {f"rack-{number}": 10 for number in range(10)}


def test_everything_moves_to_other_brokers_in_different_racks() -> None:
    racks = {broker: f"rack-{broker % 4}" for broker in range(12)}
    current = {TopicPartition("t", number): (number % 12, (number + 1) % 12, (number + 2) % 12) for number in range(24)}
    placed = place_elsewhere(current, racks, random.Random(1))
    assert placed.keys() == current.keys()
    for partition, replicas in placed.items():
        assert not {*replicas} & {*current[partition]}
        assert len({racks[each] for each in replicas}) == 3
