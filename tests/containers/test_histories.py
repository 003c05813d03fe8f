"""Brokers in containers are killed, paused, cut off and restarted while clients write and read; the history is judged."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kafkalite.local.broker_process import wait_until
from kafkalite.testing.containers.cluster import KafkaliteCluster
from tests.system.scenario import PROPERTIES, Scenario

ZOOKEEPERS = ("zk1", "zk2", "zk3")

Fault = Callable[[Scenario, int, str], None]


@pytest.fixture(scope="module")
def cluster_options() -> dict[str, Any]:
    return {"brokers": 3, "zookeepers": len(ZOOKEEPERS), "properties": PROPERTIES}


@pytest.fixture
def scenario(cluster: KafkaliteCluster, tmp_path: Path) -> Iterator[Scenario]:
    made = Scenario(cluster, tmp_path)
    yield made
    made.close()


def kill(scenario: Scenario, leader: int, topic: str) -> None:
    scenario.cluster.kill(leader)
    scenario.wait_led_by_others(topic, {leader})
    scenario.cluster.restart(leader)


def pause(scenario: Scenario, leader: int, topic: str) -> None:
    """For longer than its session lasts."""
    scenario.cluster.pause(leader)
    scenario.wait_led_by_others(topic, {leader})
    scenario.cluster.unpause(leader)


def cut_off(scenario: Scenario, leader: int, topic: str) -> None:
    """From everybody but the clients: it must acknowledge nothing while the others go on without it."""
    others = [broker_id for broker_id in scenario.cluster.broker_ids if broker_id != leader]
    scenario.cluster.partition(leader, [*others, *ZOOKEEPERS])
    wait_until(lambda: leader not in scenario.facts.brokers(), f"end of the session of {leader}", 30)
    scenario.wait_led_by_others(topic, {leader})
    scenario.cluster.heal()


def restart(scenario: Scenario, leader: int, topic: str) -> None:
    scenario.cluster.restart(leader)


def lose_zookeeper_leader(scenario: Scenario, leader: int, topic: str) -> None:
    """The brokers go on with what they know, and with their sessions when there is a quorum again."""
    ensemble = scenario.cluster.ensemble
    assert ensemble is not None
    victim = ensemble.wait_quorum()
    ensemble.kill(victim)
    assert ensemble.wait_quorum() != victim
    ensemble.restart(victim)
    ensemble.wait_serving()


@pytest.mark.parametrize("fault", [kill, pause, cut_off, restart, lose_zookeeper_leader])
def test_nothing_acknowledged_is_lost(scenario: Scenario, fault: Fault) -> None:
    workload = scenario.start_workload(scenario.create_topic(3), partitions=3)
    leader = scenario.facts.leaders(workload.topic)[0]
    epoch = scenario.facts.broker_epoch(leader)
    fault(scenario, leader, workload.topic)
    if fault is not lose_zookeeper_leader:
        scenario.wait_registered_again(leader, epoch)
    workload.wait_flowing()
    scenario.verdict(workload)
