"""Brokers die, stop, freeze and lose their sessions while clients write and read; nothing acknowledged is lost."""

from __future__ import annotations

import pytest

from kafkalite.local.broker_process import wait_until
from kafkalite.testing.workloads.direct_writer import DirectWriter
from kafkalite.testing.workloads.workload import Workload
from tests.system.scenario import SESSION_S, Scenario

pytestmark = [pytest.mark.system, pytest.mark.timeout(180)]

GAP_AFTER_DEATH_S = SESSION_S + 4
"""Session timeout, ZooKeeper's rounding up to its next tick, election, and the clients' backoff; a bound against hanging."""


def kill_and_return(scenario: Scenario, workload: Workload, victims: set[int]) -> None:
    """Kill, go on without the victims, and let them come back."""
    epochs = {victim: scenario.facts.broker_epoch(victim) for victim in victims}
    with scenario.measured(workload, f"death of {victims}", GAP_AFTER_DEATH_S):
        for victim in victims:
            scenario.cluster.kill(victim)
        scenario.wait_led_by_others(workload.topic, victims)
        workload.wait_flowing()
    for victim in victims:
        scenario.start_broker(victim)
        scenario.wait_registered_again(victim, epochs[victim])


@pytest.mark.parametrize("kinds", [("confluent", "kafkalite-idempotent"), ("confluent-idempotent", "kafkalite")])
def test_death_of_a_leader(scenario: Scenario, kinds: tuple[str, ...]) -> None:
    workload = scenario.start_workload(scenario.create_topic(6), kinds=kinds)
    victim = scenario.facts.leaders(workload.topic)[0]
    kill_and_return(scenario, workload, {victim})
    scenario.verdict(workload)


def test_death_of_a_follower(scenario: Scenario) -> None:
    """One partition, so that the victim leads nothing; its death stops the ISR for as long as it is counted in."""
    workload = scenario.start_workload(scenario.create_topic(1), partitions=1)
    leader = scenario.facts.leaders(workload.topic)[0]
    victim = next(id for id in scenario.facts.brokers() if id not in (leader, scenario.facts.controller()))
    kill_and_return(scenario, workload, {victim})
    assert scenario.facts.leaders(workload.topic) == [leader]
    scenario.verdict(workload)


def test_death_of_the_controller(scenario: Scenario) -> None:
    workload = scenario.start_workload(scenario.create_topic(6))
    victim = scenario.facts.controller()
    kill_and_return(scenario, workload, {victim})
    assert scenario.facts.controller() not in (victim, -1)
    scenario.verdict(workload)


def test_death_of_leader_and_controller_at_once(scenario: Scenario) -> None:
    """min.insync.replicas is 1 here: one of three brokers is left to go on."""
    topic = scenario.create_topic(6, config={"min.insync.replicas": "1"})
    workload = scenario.start_workload(topic)
    controller = scenario.facts.controller()
    leader = next(leader for leader in scenario.facts.leaders(topic) if leader != controller)
    kill_and_return(scenario, workload, {leader, controller})
    scenario.verdict(workload)


def test_death_of_leader_and_controller_stops_writes_that_need_two_replicas(scenario: Scenario) -> None:
    """With min.insync.replicas 2 the last broker takes nothing until another one is back; then all goes on."""
    workload = scenario.start_workload(scenario.create_topic(6))
    controller = scenario.facts.controller()
    leader = next(leader for leader in scenario.facts.leaders(workload.topic) if leader != controller)
    victims = {leader, controller}
    epochs = {victim: scenario.facts.broker_epoch(victim) for victim in victims}
    for victim in victims:
        scenario.cluster.kill(victim)
    scenario.wait_led_by_others(workload.topic, victims)
    for victim in victims:
        scenario.start_broker(victim)
        scenario.wait_registered_again(victim, epochs[victim])
    scenario.verdict(workload)


def test_leader_that_comes_back_inside_its_old_session(scenario: Scenario) -> None:
    """It waits for its own stale registration to go, instead of failing."""
    workload = scenario.start_workload(scenario.create_topic(6))
    victim = scenario.facts.leaders(workload.topic)[0]
    epoch = scenario.facts.broker_epoch(victim)
    scenario.cluster.kill(victim)
    scenario.start_broker(victim)
    scenario.wait_registered_again(victim, epoch)
    scenario.verdict(workload)


def test_rolling_restart(scenario: Scenario) -> None:
    """Each broker hands over what it leads before it goes; no producer is told of an error."""
    workload = scenario.start_workload(scenario.create_topic(6))
    for broker_id in sorted(scenario.facts.brokers()):
        epoch = scenario.facts.broker_epoch(broker_id)
        with scenario.measured(workload, f"clean stop of {broker_id}", SESSION_S):
            assert scenario.cluster.stop(broker_id) in (0, 143)
            workload.wait_flowing()
        scenario.start_broker(broker_id)
        scenario.wait_registered_again(broker_id, epoch)
        scenario.wait_replicated(workload.topic)
    scenario.verdict(workload)


@pytest.mark.parametrize("role", ["leader", "leader and controller"])
def test_leader_frozen_for_longer_than_its_session(scenario: Scenario, role: str) -> None:
    """Requests that wait at the frozen leader when it wakes must not be acknowledged: by then others lead, and follow each other.

    What was sent before may be, when all in-sync replicas had it by then and only the answer was left to be given; that it is not lost is
    judged from the history, as always.
    """
    workload = scenario.start_workload(scenario.create_topic(6))
    topic, controller = workload.topic, scenario.facts.controller()
    leaders = scenario.facts.leaders(topic)
    partition, victim = next(
        (index, leader) for index, leader in enumerate(leaders) if (leader == controller) == (role != "leader")
    )
    broker = scenario.cluster.broker(victim)
    stubborn = DirectWriter(
        workload.recorder, "127.0.0.1", broker.port, topic, partition, name=f"stubborn-{role}-{topic}"
    )
    stubborn.start()
    wait_until(lambda: stubborn.acknowledged > 5, "acknowledgements of the stubborn writer", 10)
    epoch = scenario.facts.broker_epoch(victim)
    scenario.cluster.pause(victim)
    paused_ns = workload.recorder.now_ns()
    scenario.wait_led_by_others(topic, {victim})
    # Until they know, followers of the woken leader would still fetch from it, and what it acknowledges then is not lost.
    successor = scenario.cluster.broker(scenario.facts.leaders(topic)[partition])
    direct = DirectWriter(
        workload.recorder, "127.0.0.1", successor.port, topic, partition, name=f"direct-{role}-{topic}"
    )
    direct.start()
    wait_until(lambda: direct.acknowledged > 0, "an acknowledgement of the next leader", 10)
    direct.finish()
    answered = stubborn.answered
    scenario.cluster.resume(victim)
    wait_until(lambda: stubborn.answered > answered + 8, "answers of the woken leader", 20)
    scenario.wait_registered_again(victim, epoch)
    stubborn.finish()
    assert stubborn.last_acknowledged_send_ns < paused_ns, "the old leader acknowledged a record that waited at it"
    assert stubborn.errors, "the old leader refused nothing"
    scenario.verdict(workload)


@pytest.mark.parametrize("role", ["controller", "other"])
def test_forced_expiry_of_a_session(scenario: Scenario, role: str) -> None:
    """The broker, alive and well, loses its registration, comes back with a new epoch, and is fenced in between."""
    workload = scenario.start_workload(scenario.create_topic(6))
    controller = scenario.facts.controller()
    victim = next(id for id in scenario.facts.brokers() if (id == controller) == (role == "controller"))
    epoch = scenario.facts.broker_epoch(victim)
    scenario.facts.expire_session(victim)
    scenario.wait_registered_again(victim, epoch)
    scenario.verdict(workload)


def test_two_of_three_brokers_down_and_back(scenario: Scenario) -> None:
    """With min.insync.replicas 1 the third goes on alone, one death after the other."""
    workload = scenario.start_workload(scenario.create_topic(6, config={"min.insync.replicas": "1"}))
    survivor = scenario.facts.leaders(workload.topic)[0]
    victims = sorted(scenario.facts.brokers() - {survivor})
    epochs = {victim: scenario.facts.broker_epoch(victim) for victim in victims}
    for victim in victims:
        scenario.cluster.kill(victim)
        wait_until(lambda gone=victim: gone not in scenario.facts.brokers(), f"end of {victim}'s session", 20)  # type: ignore[misc]
        workload.wait_flowing()
    assert set(scenario.facts.leaders(workload.topic)) == {survivor}
    for victim in victims:
        scenario.start_broker(victim)
        scenario.wait_registered_again(victim, epochs[victim])
    scenario.verdict(workload)
