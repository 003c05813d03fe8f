"""What networks do: cuts between brokers, in one direction, again and again; clients without their leader; answers lost, requests twice."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from kafkalite.client import ClientError, SyncAdmin, SyncConsumer
from kafkalite.client import NewTopic as OurNewTopic
from kafkalite.local.broker_process import wait_until
from kafkalite.local.cluster import LocalCluster
from kafkalite.local.link import Link
from kafkalite.protocol.apis import ApiKey
from tests.system.battery.frame_proxy import FrameProxy
from tests.system.scenario import Scenario

pytestmark = [pytest.mark.system, pytest.mark.timeout(900)]

FLAPS = 120
FLAP_S = 0.2


@pytest.fixture(scope="module")
def cluster(new_cluster: Callable[..., Any]) -> Iterator[LocalCluster]:
    with new_cluster(partitionable=True) as running:
        yield running


def after(scenario: Scenario, workload: Any, seconds: float) -> None:
    """Let the fault last."""
    began_ns = workload.recorder.now_ns()
    wait_until(lambda: workload.recorder.now_ns() - began_ns > seconds * 1e9, f"{seconds} s", seconds + 60)


def test_a_client_is_cut_from_its_leader(scenario: Scenario) -> None:
    """Its requests hang, whole and in both directions; repeated after the cut they are there once (C3 holds idempotent writers to that)."""
    cluster = scenario.cluster
    with Link([cluster.broker(1).address]) as link:
        advertise(scenario, 1, link.connect)
        try:
            workload = scenario.start_workload(
                scenario.create_topic(6),
                kinds=("confluent-idempotent", "kafkalite-idempotent"),
                request_timeout_ms=3_000,
            )
            for direction in ("both", "back", "towards"):
                link.cut(direction)  # type: ignore[arg-type]
                after(scenario, workload, 6)
                link.repair()
                workload.wait_flowing(60)
            scenario.verdict(workload)
        finally:
            link.repair()
            advertise(scenario, 1, cluster.broker(1).address)


def advertise(scenario: Scenario, broker_id: int, address: str) -> None:
    """Let clients reach a broker there; brokers reach each other by another listener."""
    broker = scenario.cluster.broker(broker_id)
    epoch = scenario.facts.broker_epoch(broker_id)
    scenario.cluster.stop(broker_id)
    listeners = broker.properties["advertised.listeners"].split(",")
    broker.properties["advertised.listeners"] = ",".join([f"PLAINTEXT://{address}", *listeners[1:]])
    scenario.start_broker(broker_id)
    scenario.wait_registered_again(broker_id, epoch, 60)


@pytest.mark.parametrize("hears", [False, True])
def test_a_leader_that_others_hear_and_that_hears_nobody(scenario: Scenario, hears: bool) -> None:
    """In one direction only, and ZooKeeper sees everybody: the cluster settles while that lasts, and clients go on."""
    workload = scenario.start_workload(scenario.create_topic(6), request_timeout_ms=5_000)
    topic = workload.topic
    victim = next(leader for leader in scenario.facts.leaders(topic) if leader != scenario.facts.controller())
    others = sorted(scenario.facts.brokers() - {victim})
    sides = (victim, others) if hears else (others, victim)
    scenario.cluster.partition(*sides, one_way=True)
    after(scenario, workload, 15)
    epochs = {partition: state.leader_epoch for partition, state in scenario.facts.states(topic).items()}
    after(scenario, workload, 15)
    later = {partition: state.leader_epoch for partition, state in scenario.facts.states(topic).items()}
    assert sum(later.values()) - sum(epochs.values()) <= 6, f"elections do not end: {epochs}, then {later}"
    scenario.cluster.heal()
    scenario.wait_replicated(topic, 120)
    scenario.verdict(workload)


def test_a_bridge_between_two_that_do_not_see_each_other(scenario: Scenario) -> None:
    workload = scenario.start_workload(scenario.create_topic(6), request_timeout_ms=5_000)
    one, bridge, other = sorted(scenario.facts.brokers())
    scenario.cluster.partition(one, other)
    after(scenario, workload, 20)
    del bridge
    scenario.cluster.heal()
    scenario.wait_replicated(workload.topic, 120)
    scenario.verdict(workload)


def test_a_link_that_flaps(scenario: Scenario) -> None:
    """Two hundred milliseconds on and off: the ISR is not written again and again for that."""
    workload = scenario.start_workload(scenario.create_topic(6))
    topic = workload.topic
    one, other = sorted(scenario.facts.brokers())[:2]
    before = versions(scenario, topic)
    for _ in range(FLAPS):
        scenario.cluster.partition(one, other)
        after(scenario, workload, FLAP_S)
        scenario.cluster.heal()
        after(scenario, workload, FLAP_S)
    writes = versions(scenario, topic) - before
    assert writes < FLAPS / 2, f"{writes} writes of ISRs in {FLAPS} flaps"
    workload.wait_flowing(60)
    scenario.verdict(workload)


def versions(scenario: Scenario, topic: str) -> int:
    """How often the states of its partitions were written."""
    from zk import paths

    client = scenario.facts.client
    return sum(client.exists(paths.partition_state(topic, each)).version for each in scenario.facts.states(topic))


@pytest.fixture(scope="module")
def proxies(cluster: LocalCluster) -> Iterator[dict[int, FrameProxy]]:
    """Clients reach each broker through a proxy that knows requests."""
    made = {}
    for broker in cluster.brokers.values():
        made[broker.id] = FrameProxy(broker.address)
        cluster.stop(broker.id)
        listeners = broker.properties["advertised.listeners"].split(",")
        broker.properties["advertised.listeners"] = ",".join([f"PLAINTEXT://{made[broker.id].address}", *listeners[1:]])
        cluster.start_broker(broker.id)
    yield made
    cluster.close()
    for each in made.values():
        each.close()


def test_answers_are_lost_and_requests_come_twice(
    scenario: Scenario, proxies: dict[int, FrameProxy], rng: random.Random
) -> None:
    """Of every API that our clients repeat by themselves: what was done and not answered is done once, and so is what arrives twice."""
    kinds = ("kafkalite-idempotent", "confluent-idempotent")
    workload = scenario.start_workload(scenario.create_topic(6), kinds=kinds, request_timeout_ms=3_000)
    for _ in range(6):
        for proxy in proxies.values():
            proxy.lose_answer(ApiKey.PRODUCE, rng.randrange(1, 4))
        workload.wait_flowing(60)
        for proxy in proxies.values():
            proxy.repeat(ApiKey.PRODUCE, rng.randrange(1, 4))
        workload.wait_flowing(60)
    struck = sum(proxy.done[ApiKey.PRODUCE] for proxy in proxies.values())
    assert struck > 20, struck
    scenario.verdict(workload)


@pytest.mark.parametrize("fault", ["lost", "twice"])
def test_administration_and_groups_whose_answers_are_lost(
    scenario: Scenario, proxies: dict[int, FrameProxy], fault: str
) -> None:
    """What a program repeats after a lost answer says that it is done already, or does it; a group commits what it read."""
    servers = scenario.cluster.bootstrap_servers
    apis = (
        ApiKey.METADATA,
        ApiKey.FIND_COORDINATOR,
        ApiKey.JOIN_GROUP,
        ApiKey.SYNC_GROUP,
        ApiKey.HEARTBEAT,
        ApiKey.OFFSET_FETCH,
        ApiKey.LIST_OFFSETS,
        ApiKey.FETCH,
        ApiKey.OFFSET_COMMIT,
        ApiKey.CREATE_TOPICS,
        ApiKey.DELETE_TOPICS,
    )
    topic = scenario.create_topic(3)
    workload = scenario.start_workload(topic, 3)
    for api in apis:
        for proxy in proxies.values():
            if fault == "lost":
                proxy.lose_answer(api)
            else:
                proxy.repeat(api)
    name = f"made-{fault}"
    with SyncAdmin(bootstrap_servers=servers, request_timeout_ms=3000, default_api_timeout_ms=60_000) as admin:
        repeated(lambda: admin.create_topics([OurNewTopic(name, 1, 3)]), "TOPIC_ALREADY_EXISTS")
        repeated(lambda: admin.delete_topics([name]), "UNKNOWN_TOPIC_OR_PARTITION")
        wait_until(lambda: name not in admin.list_topics(), "the end of the topic", 60)
    with SyncConsumer(
        topic,
        bootstrap_servers=servers,
        group_id=f"group-{fault}",
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        request_timeout_ms=40_000,
        default_api_timeout_ms=60_000,
    ) as consumer:
        read = 0
        while read < 500:
            found = consumer.poll(timeout_ms=1000)
            read += sum(map(len, found.values()))
            if found:
                consumer.commit()
    scenario.verdict(workload)


def repeated(call: Callable[[], Any], done: str) -> None:
    """A program that tries again: the second time it may be told that it is done."""
    for _ in range(5):
        try:
            call()
            return
        except ClientError as problem:
            if problem.code is not None and problem.code.name == done:
                return
            assert problem.retriable, problem
    raise AssertionError("five times without an outcome")
