"""Leaders that do not know that they are leaders no more: what only they have never counts, and goes when they return."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from kafkalite.local.broker_process import wait_until
from kafkalite.local.cluster import LocalCluster
from kafkalite.testing.history.replicas import compare_replicas, partition_directories, read_replica
from kafkalite.testing.workloads.direct_writer import DirectWriter
from kafkalite.types import TopicPartition
from tests.system.scenario import Scenario

pytestmark = [pytest.mark.system, pytest.mark.timeout(180)]


@pytest.fixture(scope="module")
def cluster(new_cluster: Callable[..., Any]) -> Iterator[LocalCluster]:
    """Its brokers can be cut from each other and from ZooKeeper; clients always reach them.

    Silence is no evidence here: two followers would end their leader's session at about the time at which it shrinks the ISR.
    """
    with new_cluster(partitionable=True, properties={"kafkalite.failover.silence.ms": "0"}) as running:
        yield running


def log_of(scenario: Scenario, broker_id: int, topic: str) -> tuple[Any, ...]:
    """The batches of partition 0 as they lie in a broker's log directory."""
    found = partition_directories([scenario.cluster.broker(broker_id).log_dir])
    return read_replica(found[TopicPartition(topic, 0)]).batches


@pytest.mark.parametrize("more_records", [0, 40])
def test_unreplicated_records_of_an_old_leader_are_truncated(scenario: Scenario, more_records: int) -> None:
    """1. Followers are frozen, and the leader takes records with acks=1: only it has them.
    2. It dies; the followers wake up inside their sessions, one is elected, and others write the same offsets.
    3. It returns: its records go, and all replicas are equal byte for byte.
    """
    topic = scenario.create_topic(1, config={"min.insync.replicas": "1"})
    workload = scenario.start_workload(topic, partitions=1)
    leader = scenario.facts.leaders(topic)[0]
    followers = sorted(scenario.facts.brokers() - {leader})
    epoch = scenario.facts.broker_epoch(leader)
    port = scenario.cluster.broker(leader).port
    alone = DirectWriter(workload.recorder, "127.0.0.1", port, topic, 0, name=f"alone-{topic}", acks=1)
    for follower in followers:
        scenario.cluster.pause(follower)
    alone.start()
    wait_until(lambda: alone.acknowledged > 5, "records that only the leader has", 1.5)
    scenario.cluster.kill(leader)
    for follower in followers:
        scenario.cluster.resume(follower)
    alone.finish()
    scenario.wait_led_by_others(topic, {leader})
    before = log_of(scenario, leader, topic)
    workload.wait_flowing()
    diverged = [batch for batch in before if batch not in log_of(scenario, followers[0], topic)]
    assert diverged, "the old leader has nothing that the others lack"
    if more_records:
        end = workload.writers[0].acknowledged + more_records
        wait_until(lambda: workload.writers[0].acknowledged > end, f"{more_records} records more", 10)
    scenario.start_broker(leader)
    scenario.wait_registered_again(leader, epoch)
    scenario.verdict(workload)
    after = log_of(scenario, leader, topic)
    assert not [batch for batch in diverged if batch in after], "the old leader kept records that were never replicated"
    log_dirs = {broker.id: [broker.log_dir] for broker in scenario.cluster.brokers.values()}
    compared = compare_replicas(log_dirs, [TopicPartition(topic, 0)])
    assert compared.equal, str(compared)
    assert (compared.replicas, compared.batches) == (3, 3 * len(after))


@pytest.mark.parametrize("role", ["controller", "other"])
def test_leader_cut_off_from_zookeeper_acknowledges_nothing_that_the_new_leader_lacks(
    scenario: Scenario, role: str
) -> None:
    """Clients still reach it, and it thinks that it leads; its followers have left it, and it cannot shrink the ISR.

    It keeps requests until they time out, and its metadata says what was so before: clients go on when they ask another.
    """
    workload = scenario.start_workload(scenario.create_topic(6), request_timeout_ms=2_000)
    topic, controller = workload.topic, scenario.facts.controller()
    partition, victim = next(
        (index, leader)
        for index, leader in enumerate(scenario.facts.leaders(topic))
        if (leader == controller) == (role == "controller")
    )
    epoch = scenario.facts.broker_epoch(victim)
    port = scenario.cluster.broker(victim).port
    stubborn = DirectWriter(workload.recorder, "127.0.0.1", port, topic, partition, name=f"stubborn-{role}-{topic}")
    stubborn.start()
    wait_until(lambda: stubborn.acknowledged > 5, "acknowledgements of the stubborn writer", 10)
    scenario.cluster.partition(victim, "zk1")
    try:
        scenario.wait_led_by_others(topic, {victim})
        workload.wait_flowing()
        moved_ns, answered = workload.recorder.now_ns(), stubborn.answered
        # Longer than replica.lag.time.max.ms: now it would shrink the ISR if it could.
        wait_until(lambda: workload.recorder.now_ns() - moved_ns > 6e9, "two rounds of the ISR check", 30)
        wait_until(lambda: stubborn.answered > answered + 8, "refusals of the isolated leader", 20)
        assert stubborn.last_ack_ns < moved_ns, "the isolated leader acknowledged records after it had been replaced"
        assert stubborn.errors
        workload.wait_flowing()
    finally:
        scenario.cluster.heal()
    scenario.wait_registered_again(victim, epoch)
    stubborn.finish()
    scenario.verdict(workload)


def test_broker_cut_off_for_less_than_its_session_goes_on(scenario: Scenario) -> None:
    """Suspended is not expired: it keeps its registration and what it leads."""
    workload = scenario.start_workload(scenario.create_topic(6))
    leaders = scenario.facts.leaders(workload.topic)
    victim = leaders[0]
    epoch = scenario.facts.broker_epoch(victim)
    with scenario.measured(workload, "short cut", 1.5):
        scenario.cluster.partition(victim, "zk1")
        cut_ns = workload.recorder.now_ns()
        wait_until(lambda: workload.recorder.now_ns() - cut_ns > 0.7e9, "0.7 s", 5)
        scenario.cluster.heal()
        workload.wait_flowing()
    assert scenario.facts.broker_epoch(victim) == epoch
    assert scenario.facts.leaders(workload.topic) == leaders
    scenario.verdict(workload)


def test_brokers_cut_from_each_other_see_zookeeper(scenario: Scenario) -> None:
    """What Kafka 0.8 lost records by.

    1. The leader is cut from its followers and shrinks the ISR to itself. 2. Writes need two replicas, so it refuses them, also from a
    client that does not give up. 3. It dies. 4. The cut ends, and the others may not lead without what was acknowledged.
    """
    workload = scenario.start_workload(scenario.create_topic(3), 3, request_timeout_ms=5_000)
    topic = workload.topic
    leader = scenario.facts.controller()  # who leads elsewhere cannot even ask for another ISR
    partition = scenario.facts.leaders(topic).index(leader)
    others = sorted(scenario.facts.brokers() - {leader})
    port = scenario.cluster.broker(leader).port
    stubborn = DirectWriter(workload.recorder, "127.0.0.1", port, topic, partition, name=f"stubborn-{topic}")
    stubborn.start()
    wait_until(lambda: stubborn.acknowledged > 5, "acknowledgements of the stubborn writer", 30)
    epoch = scenario.facts.broker_epoch(leader)
    scenario.cluster.partition(leader, others)
    wait_until(lambda: len(scenario.facts.state(topic, partition).isr) < 2, "an ISR of one", 60)
    answered, acknowledged = stubborn.answered, stubborn.acknowledged
    wait_until(lambda: stubborn.answered > answered + 8, "answers of the leader without followers", 60)
    assert stubborn.acknowledged == acknowledged, "a record was acknowledged by one replica of two"
    assert "NOT_ENOUGH_REPLICAS" in stubborn.errors
    scenario.cluster.kill(leader)
    stubborn.finish()
    scenario.cluster.heal()
    scenario.start_broker(leader)
    scenario.wait_registered_again(leader, epoch, 60)
    scenario.wait_replicated(topic, 60)
    scenario.verdict(workload)
