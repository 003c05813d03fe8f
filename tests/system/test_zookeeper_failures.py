"""Servers of an ensemble of three die: one is not noticed, a lost quorum stops elections and nothing else."""

from __future__ import annotations

import asyncio

import pytest

from kafkalite.local.broker_process import wait_until
from tests.system.scenario import SESSION_S, Scenario
from zk.ensemble import Ensemble

pytestmark = [pytest.mark.system, pytest.mark.timeout(180)]


@pytest.fixture(scope="module")
def zookeepers() -> int:
    return 3


@pytest.fixture
def ensemble(scenario: Scenario) -> Ensemble:
    ensemble = scenario.cluster.ensemble
    assert ensemble is not None
    return ensemble


@pytest.mark.parametrize("role", ["leader", "follower"])
def test_death_of_one_server(scenario: Scenario, ensemble: Ensemble, role: str) -> None:
    """Clients do not notice; sessions move to the other servers, and the cluster goes on deciding."""
    workload = scenario.start_workload(scenario.create_topic(6))
    roles = asyncio.run(ensemble.roles())
    victim = next(number for number, found in roles.items() if found == role)
    with scenario.measured(workload, f"death of ZooKeeper's {role}", SESSION_S):
        asyncio.run(ensemble.kill(victim))
        asyncio.run(ensemble.wait_quorum())
        workload.wait_flowing()
        while_degraded = scenario.create_topic(1)
    scenario.wait_replicated(while_degraded)
    asyncio.run(ensemble.start_member(victim))
    scenario.verdict(workload)


def test_loss_and_return_of_the_quorum(scenario: Scenario, ensemble: Ensemble) -> None:
    """Existing leaders serve on for several session timeouts; with the quorum elections come back."""
    workload = scenario.start_workload(scenario.create_topic(6))
    leaders = scenario.facts.leaders(workload.topic)
    victims = [number for number, role in asyncio.run(ensemble.roles()).items() if role == "follower"]
    with scenario.measured(workload, "quorum lost", SESSION_S):
        for victim in victims:
            asyncio.run(ensemble.kill(victim))
        lost_ns = workload.recorder.now_ns()
        wait_until(lambda: workload.recorder.now_ns() - lost_ns > 3 * SESSION_S * 1e9, "three session timeouts", 30)
        workload.wait_flowing()
    assert not workload.problems
    for victim in victims:
        asyncio.run(ensemble.start_member(victim, None))
    asyncio.run(ensemble.wait_quorum())
    scenario.wait_replicated(workload.topic)
    workload.wait_flowing()
    # Elections are possible again.
    leader = leaders[0]
    epoch = scenario.facts.broker_epoch(leader)
    scenario.cluster.kill(leader)
    scenario.wait_led_by_others(workload.topic, {leader})
    scenario.start_broker(leader)
    scenario.wait_registered_anew(leader, epoch)
    scenario.verdict(workload)


def test_death_of_a_leader_while_the_quorum_is_lost(scenario: Scenario, ensemble: Ensemble) -> None:
    """Nobody takes over before the quorum is back; the other leaders need no ZooKeeper and nothing is lost."""
    workload = scenario.start_workload(scenario.create_topic(6))
    victim = scenario.facts.leaders(workload.topic)[0]
    epoch = scenario.facts.broker_epoch(victim)
    followers = [number for number, role in asyncio.run(ensemble.roles()).items() if role == "follower"]
    for number in followers:
        asyncio.run(ensemble.kill(number))
    scenario.cluster.kill(victim)
    for number in followers:
        asyncio.run(ensemble.start_member(number, None))
    asyncio.run(ensemble.wait_quorum())
    scenario.wait_led_by_others(workload.topic, {victim})
    workload.wait_flowing()
    scenario.start_broker(victim)
    scenario.wait_registered_anew(victim, epoch)
    scenario.verdict(workload)
