"""Servers of an ensemble of three die: one is not noticed, a lost quorum stops elections and nothing else."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Iterator

import pytest

from kafkalite.client import ClientError, SyncAdmin
from kafkalite.local.broker_process import wait_until
from tests.simulation.znode_garbage import EVERYWHERE, NONSENSE, SICK, WELL, nonsense, text
from tests.system.garbage_writer import GarbageWriter, notice
from tests.system.scenario import SESSION_S, Scenario
from zk import paths
from zk.servers.ensemble import Ensemble

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
    roles = asyncio.run(ensemble.wait_serving())
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
    victims = [number for number, role in asyncio.run(ensemble.wait_serving()).items() if role == "follower"]
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
    scenario.wait_registered_again(leader, epoch)
    scenario.verdict(workload)


def test_death_of_a_leader_while_the_quorum_is_lost(scenario: Scenario, ensemble: Ensemble) -> None:
    """Nobody takes over before the quorum is back; the other leaders need no ZooKeeper and nothing is lost."""
    workload = scenario.start_workload(scenario.create_topic(6))
    victim = scenario.facts.leaders(workload.topic)[0]
    epoch = scenario.facts.broker_epoch(victim)
    followers = [number for number, role in asyncio.run(ensemble.wait_serving()).items() if role == "follower"]
    for number in followers:
        asyncio.run(ensemble.kill(number))
    scenario.cluster.kill(victim)
    for number in followers:
        asyncio.run(ensemble.start_member(number, None))
    asyncio.run(ensemble.wait_quorum())
    scenario.wait_led_by_others(workload.topic, {victim})
    workload.wait_flowing()
    scenario.start_broker(victim)
    scenario.wait_registered_again(victim, epoch)
    scenario.verdict(workload)


NEARLY_TOO_LONG = b"[" * (1024 * 1024 - 1024)
"""ZooKeeper's own bound has room for it and its path."""
GARBAGE = {"no JSON": b"\0\xff not json", "an unknown version": text({"version": 99})}
NAMED = (paths.topic("broken"), paths.partition_state(SICK, 0), paths.topic_config(SICK), paths.broker(7))
SOME_NONSENSE = (0, NONSENSE // 2)
"""The simulation is given all of it."""
LINES_A_ZNODE = 20
STORM = 600


@pytest.fixture
def writer(scenario: Scenario) -> Iterator[GarbageWriter]:
    with GarbageWriter(scenario.cluster, scenario.facts) as made:
        yield made


def test_garbage_in_every_znode(scenario: Scenario, writer: GarbageWriter) -> None:
    """The others are served meanwhile, lines name what is broken, and mending it is enough."""
    workload = scenario.start_workload(scenario.create_topic(2, name=WELL), 2, kinds=("kafkalite-idempotent",))
    scenario.create_topic(1, name=SICK)
    everywhere = (*EVERYWHERE, paths.PRODUCER_ID_BLOCK, f"{paths.CONSUMERS}/g/offsets/t/0")
    written = 0
    rounds = [dict.fromkeys(everywhere, each) for each in GARBAGE.values()]
    for garbage in (*rounds, dict.fromkeys(NAMED, NEARLY_TOO_LONG), *map(nonsense, SOME_NONSENSE)):
        writer.write(garbage)
        written += len(garbage)
        writer.another_controller()
        workload.wait_flowing()
        writer.mend()
        wait_until(lambda: _is_taken(writer), f"{SICK} is well again", 60)
    problems = writer.problems()
    assert not [each for each in problems if "Traceback" in each]
    assert len(problems) < LINES_A_ZNODE * written
    lines = "\n".join(problems)
    for path in NAMED:
        assert path in lines, f"no line names {path}"
    scenario.verdict(workload)


def _is_taken(writer: GarbageWriter) -> bool:
    try:
        writer.works(SICK)
    except ClientError:
        return False
    return True


def test_a_seat_and_an_epoch_that_cannot_be_read(scenario: Scenario, writer: GarbageWriter) -> None:
    """Leaders serve though nobody can govern, and somebody does when the epoch is mended."""
    workload = scenario.start_workload(scenario.create_topic(2), 2, kinds=("kafkalite-idempotent",))
    for data in (b"", b"[]", NEARLY_TOO_LONG, text({"version": 2, "brokerid": "x"})):
        writer.write({paths.CONTROLLER: data})
        workload.wait_flowing()
        writer.another_controller()
    for data in (b"x", b"9" * 30):
        epoch = writer.epoch()
        writer.epoch_that_cannot_be_read(data)
        workload.wait_flowing()
        writer.mend()
        writer.wait_controller(epoch + 100)
    scenario.create_topic(1)
    assert len(writer.problems()) < 100
    scenario.verdict(workload)


def test_a_storm_of_changed_znodes(scenario: Scenario, writer: GarbageWriter) -> None:
    """Thousands of changes to topics and settings, as fast as ZooKeeper takes them: brokers serve, and find the last one."""
    workload = scenario.start_workload(scenario.create_topic(2), 2, kinds=("kafkalite-idempotent",))
    topic = scenario.create_topic(1)
    client = scenario.facts.client
    assignment = client.get(paths.topic(topic))[0]
    asked = []
    for number in range(STORM):
        config = text({"version": 1, "config": {"min.insync.replicas": "2", "retention.ms": str(1_000_000 + number)}})
        asked.append(client.set_async(paths.topic_config(topic), config))
        asked.append(client.set_async(paths.topic(topic), assignment))
        asked.append(client.create_async(f"{paths.TOPICS}/passing-{number}", b"{"))
        asked.append(client.delete_async(f"{paths.TOPICS}/passing-{number}"))
        if number % 10 == 0:
            asked.append(
                client.create_async(paths.CONFIG_CHANGE_PREFIX, notice(paths.topic_config(topic)), sequence=True)
            )
    for each in asked:
        each.get(60)
    writer.notify(paths.topic_config(topic))
    workload.wait_flowing()
    last = str(1_000_000 + STORM - 1)

    def known() -> bool:
        with SyncAdmin(bootstrap_servers=scenario.cluster.bootstrap_servers) as admin:
            return admin.describe_configs("topic", topic)["retention.ms"].value == last

    wait_until(known, "the last change", 30)
    passing = re.compile(r" /brokers/topics/passing-\d+ ")  # which of them a controller sees depends on its speed
    told = Counter(found[0] if (found := passing.search(line)) else "other" for line in writer.problems())
    assert told.pop("other", 0) < STORM / 10
    assert all(times == 1 for times in told.values()), told
    scenario.create_topic(1)
    scenario.verdict(workload)
