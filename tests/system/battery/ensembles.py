"""ZooKeeper freezes and is restarted, alone and together with the brokers."""

from __future__ import annotations

import asyncio

import pytest
from kazoo.exceptions import KazooException

from kafkalite.local.broker_process import wait_until
from kafkalite.testing.workloads.group_workload import GroupWorkload
from tests.system.battery.deaths import GROUP_PARTITIONS, bring_back
from tests.system.scenario import SESSION_S, Scenario
from tests.system.test_groups import OFFSETS_TOPIC, finish
from zk.servers.ensemble import Ensemble

pytestmark = [pytest.mark.system, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def zookeepers() -> int:
    return 3


@pytest.fixture
def ensemble(scenario: Scenario) -> Ensemble:
    ensemble = scenario.cluster.ensemble
    assert ensemble is not None
    return ensemble


def wait_answered(scenario: Scenario) -> None:
    """Until ZooKeeper answers our own session, or gave us another."""

    def answered() -> bool:
        try:
            return bool(scenario.facts.brokers())
        except KazooException:
            return False

    wait_until(answered, "an answer of ZooKeeper", 60)


def test_the_leader_of_zookeeper_is_frozen(scenario: Scenario, ensemble: Ensemble) -> None:
    """The others elect another; brokers on the frozen one move to them, in their sessions or in new ones."""
    workload = scenario.start_workload(scenario.create_topic(6))
    for _ in range(2):
        victim = asyncio.run(ensemble.wait_quorum())
        ensemble.pause(victim)
        try:
            asyncio.run(ensemble.wait_quorum(60))
            workload.wait_flowing(60)
            wait_answered(scenario)
            scenario.create_topic(1)
        finally:
            ensemble.resume(victim)
        asyncio.run(ensemble.wait_quorum(60))
        wait_answered(scenario)
        scenario.wait_replicated(workload.topic, 60)
        workload.wait_flowing(60)
    scenario.verdict(workload)


def test_all_of_zookeeper_is_frozen(scenario: Scenario, ensemble: Ensemble) -> None:
    """Existing leaders serve on for several session timeouts; when ZooKeeper wakes, sessions end or go on, and all is as it was."""
    workload = scenario.start_workload(scenario.create_topic(6))
    for member in ensemble.members:
        ensemble.pause(member.number)
    try:
        began_ns = workload.recorder.now_ns()
        wait_until(lambda: workload.recorder.now_ns() - began_ns > 5 * SESSION_S * 1e9, "five session timeouts", 60)
        workload.wait_flowing(60)
    finally:
        for member in ensemble.members:
            ensemble.resume(member.number)
    asyncio.run(ensemble.wait_quorum(60))
    wait_answered(scenario)
    scenario.wait_replicated(workload.topic, 60)
    workload.wait_flowing(60)
    scenario.create_topic(1)
    scenario.verdict(workload)


def test_zookeeper_is_restarted_server_by_server(scenario: Scenario, ensemble: Ensemble) -> None:
    """No broker loses its session, so nobody is elected anywhere."""
    workload = scenario.start_workload(scenario.create_topic(6))
    epochs = {broker: scenario.facts.broker_epoch(broker) for broker in scenario.cluster.broker_ids}
    for member in ensemble.members:
        asyncio.run(ensemble.restart_member(member.number))
        asyncio.run(ensemble.wait_quorum(60))
        workload.wait_flowing(60)
    kept = [broker for broker, epoch in epochs.items() if scenario.facts.broker_epoch(broker) == epoch]
    print(f"{len(kept)} of {len(epochs)} sessions outlasted the restarts")
    scenario.wait_replicated(workload.topic, 60)
    scenario.verdict(workload)


def test_everything_is_restarted_in_turn(scenario: Scenario, ensemble: Ensemble) -> None:
    """A broker and a ZooKeeper server at a time, twice; commits go on and nobody is told of an error."""
    topic = scenario.create_topic(GROUP_PARTITIONS)
    scenario.start_workload(topic, GROUP_PARTITIONS)
    group = GroupWorkload(scenario.cluster.bootstrap_servers, f"group-{topic}", topic, GROUP_PARTITIONS)
    group.start()
    try:
        group.wait_committing(60)
        for _ in range(2):
            for broker, member in zip(scenario.cluster.broker_ids, ensemble.members, strict=True):
                epoch = scenario.facts.broker_epoch(broker)
                asyncio.run(ensemble.stop_member(member.number))
                assert scenario.cluster.stop(broker) == 0
                group.wait_committing(60)
                asyncio.run(ensemble.start_member(member.number))
                bring_back(scenario, {broker: epoch})
                scenario.wait_replicated(topic, 60)
                scenario.wait_replicated(OFFSETS_TOPIC, 60)
        finish(scenario, group)
    finally:
        group.stop()
