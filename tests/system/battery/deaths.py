"""Brokers die, freeze and stand still oftener, longer and at worse moments than the tests of every day can afford."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from kafkalite.failpoints import KILLED_STATUS
from kafkalite.local.broker_process import wait_until
from kafkalite.local.cluster import LocalCluster
from kafkalite.testing.workloads.group_workload import GroupWorkload, judge
from tests.system.scenario import SESSION_S, Scenario
from tests.system.test_groups import OFFSETS_TOPIC, coordinator, finish

pytestmark = [pytest.mark.system, pytest.mark.timeout(900)]

CHASES = 20
FOLLOWER_DEATHS = 5
TOPICS, TOPICS_AT_ONCE = 500, 25
GROUP_PARTITIONS = 4


@pytest.fixture(scope="module")
def cluster(new_cluster: Callable[..., Any]) -> Iterator[LocalCluster]:
    with new_cluster(faults=True) as running:
        yield running


def bring_back(scenario: Scenario, victims: dict[int, int]) -> None:
    """Start what was killed, given the broker epochs of before."""
    for victim, epoch in victims.items():
        scenario.start_broker(victim)
        scenario.wait_registered_again(victim, epoch, 60)


def test_the_leader_is_killed_again_and_again(scenario: Scenario, rng: random.Random) -> None:
    """Whoever leads dies, sometimes before the one that died before is in sync again."""
    workload = scenario.start_workload(scenario.create_topic(1), 1)
    for _ in range(CHASES):
        victim = scenario.facts.leaders(workload.topic)[0]
        epoch = scenario.facts.broker_epoch(victim)
        scenario.cluster.kill(victim)
        if rng.random() < 0.5:
            scenario.wait_led_by_others(workload.topic, {victim}, 60)
        bring_back(scenario, {victim: epoch})
        if rng.random() < 0.7:
            scenario.wait_replicated(workload.topic, 60)
        workload.wait_flowing(60)
        wait_until(lambda: scenario.facts.leaders(workload.topic)[0] >= 0, "a leader", 60)
    scenario.verdict(workload)


def test_a_follower_comes_back_at_any_lag(scenario: Scenario, rng: random.Random) -> None:
    workload = scenario.start_workload(scenario.create_topic(1), 1)
    writer = workload.writers[0]
    for _ in range(FOLLOWER_DEATHS):
        leader = scenario.facts.leaders(workload.topic)[0]
        victim = rng.choice(sorted(scenario.facts.brokers() - {leader}))
        epoch = scenario.facts.broker_epoch(victim)
        scenario.cluster.kill(victim)
        behind = writer.acknowledged + rng.choice([0, 50, 500, 2000])
        wait_until(lambda end=behind: writer.acknowledged >= end, "records that the follower lacks", 120)  # type: ignore[misc]
        bring_back(scenario, {victim: epoch})
        scenario.wait_replicated(workload.topic, 60)
    scenario.verdict(workload)


def test_the_controller_dies_while_topics_are_made(scenario: Scenario, rng: random.Random) -> None:
    """Each topic is made or not, none is half made: whoever is told of a failure may ask again, and finds it or makes it."""
    servers = scenario.cluster.bootstrap_servers
    workload = scenario.start_workload(scenario.create_topic(6))
    names = [f"many-{number}" for number in range(TOPICS)]
    left = set(names)
    failures: list[str] = []

    def make() -> None:
        admin = AdminClient({"bootstrap.servers": servers, "log_level": 0})
        deadline = time.monotonic() + 300
        while left and time.monotonic() < deadline:
            some = sorted(left)[:TOPICS_AT_ONCE]
            asked = admin.create_topics([NewTopic(name, 2, 3) for name in some], request_timeout=10)
            for name, outcome in asked.items():
                try:
                    outcome.result(30)
                    left.discard(name)
                except Exception as problem:
                    if "TOPIC_ALREADY_EXISTS" in str(problem):
                        left.discard(name)

    maker = threading.Thread(target=make, daemon=True)
    maker.start()
    for action in ("controller.written", "controller.writing", "controller.written"):
        victim = scenario.facts.controller()
        epoch = scenario.facts.broker_epoch(victim)
        scenario.cluster.faults.arm(action, f"exit@{rng.randrange(2, 12)}", broker_id=victim)
        scenario.wait_dead(victim, 60)
        bring_back(scenario, {victim: epoch})
    maker.join(310)
    assert not left, f"{len(left)} topics could not be made; {failures}"
    wait_until(lambda: all(len(scenario.facts.states(name)) == 2 for name in names), "states of all partitions", 60)
    wait_until(lambda: all(map(scenario.facts.fully_replicated, names)), "all replicas in sync", 120)
    scenario.verdict(workload)


@pytest.mark.parametrize("point", ["coordinator.appending", "coordinator.appended", "coordinator.committed"])
def test_the_coordinator_dies_between_its_steps(scenario: Scenario, rng: random.Random, point: str) -> None:
    topic = scenario.create_topic(GROUP_PARTITIONS)
    scenario.start_workload(topic, GROUP_PARTITIONS)
    group = GroupWorkload(scenario.cluster.bootstrap_servers, f"group-{topic}", topic, GROUP_PARTITIONS)
    group.start()
    try:
        group.wait_committing(60)
        scenario.wait_replicated(OFFSETS_TOPIC, 60)
        for _ in range(3):
            victim = coordinator(scenario)
            epoch = scenario.facts.broker_epoch(victim)
            scenario.cluster.faults.arm(point, f"exit@{rng.randrange(1, 20)}", broker_id=victim)
            scenario.wait_dead(victim, 60)
            assert scenario.cluster.broker(victim).exit_status == KILLED_STATUS
            group.wait_committing(60)
            assert judge(group.history) == []
            bring_back(scenario, {victim: epoch})
            scenario.wait_replicated(OFFSETS_TOPIC, 60)
        finish(scenario, group)
    finally:
        group.stop()


def test_all_brokers_are_killed_at_once(scenario: Scenario) -> None:
    """The machine goes on, so what was written is there; nobody has to have synced anything."""
    workload = scenario.start_workload(scenario.create_topic(6))
    for _ in range(3):
        epochs = {broker: scenario.facts.broker_epoch(broker) for broker in scenario.cluster.broker_ids}
        for broker in epochs:
            scenario.cluster.broker(broker).kill()
        for broker in epochs:
            scenario.cluster.broker(broker).start()
        for broker, epoch in epochs.items():
            scenario.cluster.broker(broker).wait_started(120)
            scenario.wait_registered_again(broker, epoch, 60)
        scenario.wait_replicated(workload.topic, 60)
        workload.wait_flowing(60)
    scenario.verdict(workload)


def test_the_controller_is_frozen_for_long(scenario: Scenario) -> None:
    """When it wakes it governs no more: what it would have written is refused, what the other decided stays."""
    workload = scenario.start_workload(scenario.create_topic(6))
    victim = scenario.facts.controller()
    epoch = scenario.facts.broker_epoch(victim)
    scenario.cluster.pause(victim)
    frozen_ns = workload.recorder.now_ns()
    wait_until(lambda: scenario.facts.controller() not in (victim, -1), "another controller", 60)
    successor = scenario.facts.controller()
    scenario.wait_led_by_others(workload.topic, {victim}, 60)
    topic = f"meanwhile-{workload.topic}"
    admin = AdminClient({"bootstrap.servers": scenario.cluster.broker(successor).address, "log_level": 0})
    admin.create_topics([NewTopic(topic, 3, 2)], request_timeout=30)[topic].result(60)
    wait_until(lambda: workload.recorder.now_ns() - frozen_ns > 30e9, "thirty seconds", 60)
    states = scenario.facts.states(topic)
    scenario.cluster.resume(victim)
    scenario.wait_registered_again(victim, epoch, 60)
    assert scenario.facts.controller() == successor
    assert {p: (s.leader_epoch, s.controller_epoch) for p, s in scenario.facts.states(topic).items()} == {
        p: (s.leader_epoch, s.controller_epoch) for p, s in states.items()
    }
    scenario.verdict(workload)


def test_rolling_restarts_with_groups(scenario: Scenario) -> None:
    """Three rounds; nobody is told of an error, and commits go on."""
    topic = scenario.create_topic(GROUP_PARTITIONS)
    scenario.start_workload(topic, GROUP_PARTITIONS)
    group = GroupWorkload(scenario.cluster.bootstrap_servers, f"group-{topic}", topic, GROUP_PARTITIONS)
    group.start()
    try:
        group.wait_committing(60)
        for _ in range(3):
            for broker in scenario.cluster.broker_ids:
                epoch = scenario.facts.broker_epoch(broker)
                assert scenario.cluster.stop(broker) == 0
                group.wait_committing(60)
                bring_back(scenario, {broker: epoch})
                scenario.wait_replicated(topic, 60)
                scenario.wait_replicated(OFFSETS_TOPIC, 60)
        finish(scenario, group)
    finally:
        group.stop()


@pytest.mark.parametrize("unclean", [False, True])
def test_only_a_stale_replica_is_left(scenario: Scenario, unclean: bool) -> None:
    """1. A follower leaves the ISR, and the others take records. 2. These die. 3. The stale one is started, alone.

    Without unclean elections the partition waits for an in-sync replica, and nothing is lost; with them it serves on from what the stale
    one has, and the others cut what that never had when they are back.
    """
    config = {"min.insync.replicas": "1", "unclean.leader.election.enable": str(unclean).lower()}
    topic = scenario.create_topic(1, config=config)
    workload = scenario.start_workload(topic, 1)
    leader = scenario.facts.leaders(topic)[0]
    stale, other = sorted(scenario.facts.brokers() - {leader})
    epochs = {broker: scenario.facts.broker_epoch(broker) for broker in scenario.cluster.broker_ids}
    scenario.cluster.kill(stale)
    wait_until(lambda: stale not in scenario.facts.state(topic, 0).isr, "an ISR without the stale replica", 60)
    workload.wait_flowing(60)
    for broker in (other, leader):
        scenario.cluster.kill(broker)
    wait_until(lambda: not scenario.facts.brokers(), "the end of all sessions", 60)
    scenario.cluster.broker(stale).start()
    scenario.wait_registered_again(stale, epochs[stale], 60)
    if unclean:
        wait_until(lambda: scenario.facts.leaders(topic) == [stale], "the unclean election", 60)
    else:
        began_ns = workload.recorder.now_ns()
        wait_until(lambda: workload.recorder.now_ns() - began_ns > 5e9, "five seconds", 30)
        assert scenario.facts.leaders(topic) == [-1]
    bring_back(scenario, {other: epochs[other], leader: epochs[leader]})
    scenario.wait_replicated(topic, 60)
    workload.wait_flowing(60)
    if not unclean:
        scenario.verdict(workload)
        return
    verdict = workload.finish(scenario._history_path(workload))
    allowed = {
        "C1",
        "C4",
        "C5",
        "C6",
        "C7",
        "C9",
    }  # what was acknowledged is gone by order, and its offsets hold others
    assert not [each for each in verdict.violations if each.rule not in allowed], verdict
    assert verdict.judged["C8"], verdict


def test_preferred_leaders_are_elected_again_and_again(scenario: Scenario) -> None:
    from kafkalite.client import ClientError, SyncAdmin

    workload = scenario.start_workload(scenario.create_topic(6))
    with SyncAdmin(bootstrap_servers=scenario.cluster.bootstrap_servers) as admin:
        for turn in range(6):
            broker = scenario.cluster.broker_ids[turn % 3]
            epoch = scenario.facts.broker_epoch(broker)
            assert scenario.cluster.stop(broker) == 0
            bring_back(scenario, {broker: epoch})
            scenario.wait_replicated(workload.topic, 60)
            for _ in range(20):
                try:
                    admin.elect_leaders("preferred", None)
                except ClientError as problem:
                    assert problem.retriable, problem
    workload.wait_flowing(60)
    scenario.verdict(workload)


def test_a_clean_stop_without_another_in_sync_replica_ends(scenario: Scenario) -> None:
    """Nobody can take over; the stop is bounded all the same, and no stale replica is elected."""
    topic = scenario.create_topic(1, config={"min.insync.replicas": "1"})
    workload = scenario.start_workload(topic, 1)
    leader = scenario.facts.leaders(topic)[0]
    epochs = {broker: scenario.facts.broker_epoch(broker) for broker in scenario.cluster.broker_ids}
    others = sorted(scenario.facts.brokers() - {leader})
    for other in others:
        scenario.cluster.kill(other)
    wait_until(lambda: scenario.facts.state(topic, 0).isr == (leader,), "an ISR of the leader alone", 60)
    workload.wait_flowing(60)
    began_s = time.monotonic()
    assert scenario.cluster.stop(leader) == 0
    assert time.monotonic() - began_s < 60
    for other in others:
        scenario.cluster.broker(other).start()
    for other in others:
        scenario.wait_registered_again(other, epochs[other], 60)
    wait_until(lambda: scenario.facts.leaders(topic) == [-1], "a controller that finds nobody in sync", 60)
    bring_back(scenario, {leader: epochs[leader]})
    scenario.verdict(workload)


@pytest.mark.parametrize("times_of_a_session", [1, 3])
def test_the_event_loop_of_a_leader_stands_still(scenario: Scenario, times_of_a_session: int) -> None:
    """ZooKeeper's client has threads of its own: a session outlasts a stall, or it ends and the broker comes back with another."""
    workload = scenario.start_workload(scenario.create_topic(6))
    victim = scenario.facts.leaders(workload.topic)[0]
    scenario.cluster.faults.stall(times_of_a_session * SESSION_S, broker_id=victim)
    workload.wait_flowing(60)
    scenario.wait_replicated(workload.topic, 60)
    workload.wait_flowing(60)
    scenario.verdict(workload)
