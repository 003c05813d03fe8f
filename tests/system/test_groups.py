"""Coordinators of consumer groups die and stop while their groups commit and rebalance.

`offsets.topic.num.partitions` is 1 in these clusters, so the coordinator is the leader of that partition.
"""

from __future__ import annotations

from collections.abc import Iterator

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient

from kafkalite.local.broker_process import wait_until
from kafkalite.testing.history.events import PartitionAssigned
from kafkalite.testing.workloads.group_workload import MEMBER_SESSION_MS, MEMBERS, GroupWorkload, judge
from tests.system.scenario import SESSION_S, Scenario

pytestmark = [pytest.mark.system, pytest.mark.timeout(240)]

OFFSETS_TOPIC = "__consumer_offsets"
PARTITIONS = 4
TURNS, LONG_TURNS = {"commit": 2, "rebalance": 1}, 6
"""How often the coordinator dies; the second time it is one that had taken over itself. With --long it is oftener."""
STABLE_WITHIN_S = SESSION_S + MEMBER_SESSION_MS / 1000 + 7
"""After the coordinator's death: its session and the election, members that back off before they ask for the new one, and the session of
a member that left while the group was rebalanced: only the next generation is written down, so the new coordinator waits for it."""


@pytest.fixture
def group(scenario: Scenario, request: pytest.FixtureRequest) -> Iterator[GroupWorkload]:
    """A group that commits, each of its members, on a topic with writers.

    librdkafka (2.16) never reads partitions whose OffsetFetch a coordinator refuses with NOT_COORDINATOR, as Apache Kafka's and ours do
    while they stop. So nothing happens to the coordinator before the members know where to begin.
    """
    topic = scenario.create_topic(PARTITIONS)
    scenario.start_workload(topic, PARTITIONS)
    made = GroupWorkload(scenario.cluster.bootstrap_servers, f"group-{topic}", topic, PARTITIONS)
    made.start()
    wait_until(lambda: with_partitions(made) == set(MEMBERS), "partitions for each member", 40)
    made.wait_committing(40)
    scenario.wait_replicated(OFFSETS_TOPIC)
    yield made
    made.stop()


def coordinator(scenario: Scenario) -> int:
    return scenario.facts.leaders(OFFSETS_TOPIC)[0]


def with_partitions(group: GroupWorkload) -> set[str]:
    """The clients of whose members one was ever given a partition."""
    events = list(group.history.recorder.events)
    return {each.member.partition("-")[0] for each in events if isinstance(each, PartitionAssigned)}


def finish(scenario: Scenario, group: GroupWorkload) -> None:
    """Writers stop, members catch up, both histories are judged."""
    topic = group.topic
    (workload,) = scenario._workloads
    scenario.verdict(workload)
    ends = scenario.ends(topic, PARTITIONS)
    group.wait_caught_up(ends, 40)
    # Rule C12 needs members of each client to look at; the last rebalance may be under way still.
    wait_until(
        lambda: with_partitions(group) == {"confluent", "kafkalite"}, "partitions for members of each client", 40
    )
    group.stop()
    assert judge(group.history, ends) == []
    print(f"{len(group.history.acknowledged)} commits in {len(group.history.recorder.events)} events, {ends} records")


def test_the_coordinator_dies_while_members_commit(scenario: Scenario, group: GroupWorkload, long: bool) -> None:
    for _ in range(LONG_TURNS if long else TURNS["commit"]):
        victim = coordinator(scenario)
        epoch = scenario.facts.broker_epoch(victim)
        scenario.cluster.kill(victim)
        took_s = group.wait_committing(STABLE_WITHIN_S)
        print(f"coordinator {victim} killed, commits went on after {took_s:.1f} s")
        scenario.wait_led_by_others(OFFSETS_TOPIC, {victim})
        assert judge(group.history) == []
        scenario.start_broker(victim)
        scenario.wait_registered_again(victim, epoch)
        scenario.wait_replicated(OFFSETS_TOPIC)
    finish(scenario, group)


def test_the_coordinator_dies_while_members_rebalance(scenario: Scenario, group: GroupWorkload, long: bool) -> None:
    """A member joins, and before it has its share the coordinator is gone."""
    servers = scenario.cluster.bootstrap_servers
    for _ in range(LONG_TURNS if long else TURNS["rebalance"]):
        victim = coordinator(scenario)
        epoch = scenario.facts.broker_epoch(victim)
        extra = GroupWorkload(servers, group.group, group.topic, PARTITIONS, members=["kafkalite"])
        extra.history = group.history
        extra.start()
        admin = AdminClient({"bootstrap.servers": servers, "log_level": 0})

        def rebalances(admin: AdminClient = admin) -> bool:
            described = admin.describe_consumer_groups([group.group], request_timeout=5)
            try:
                return described[group.group].result(10).state.name != "STABLE"
            except confluent_kafka.KafkaException:
                return False

        try:
            wait_until(rebalances, "a rebalance", 3)
        except TimeoutError:
            pass  # it was over between two looks
        scenario.cluster.kill(victim)
        group.wait_committing(STABLE_WITHIN_S)
        scenario.start_broker(victim)
        scenario.wait_registered_again(victim, epoch)
        scenario.wait_replicated(OFFSETS_TOPIC)
        extra.stop()
    finish(scenario, group)


def test_coordinators_stop_cleanly_one_after_the_other(scenario: Scenario, group: GroupWorkload) -> None:
    """A clean stop hands the coordinator over; members hardly notice."""
    for victim in tuple(scenario.cluster.brokers):
        epoch = scenario.facts.broker_epoch(victim)
        scenario.cluster.stop(victim)
        assert group.wait_committing(STABLE_WITHIN_S) < 5
        scenario.start_broker(victim)
        scenario.wait_registered_again(victim, epoch)
        scenario.wait_replicated(OFFSETS_TOPIC)
    finish(scenario, group)
