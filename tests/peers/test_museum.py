"""Old clients on our brokers: a few of the museum, each with what it alone speaks. `python -m tests.museum` shows all of them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest

from kafkalite.local.broker_process import BROKER_COMMAND
from kafkalite.local.cluster import LocalCluster
from tests.conftest import foreign_program
from tests.museum.clusters import PROPERTIES
from tests.museum.contract import Exhibit, exhibits
from tests.museum.environments import prepare
from tests.museum.features import FEATURES
from tests.museum.members import Flow
from tests.museum.program import Program
from tests.museum.stage import Stage, Visit
from tests.peers.apache_kafka import broker_command, wait_for_controller

pytestmark = [pytest.mark.peer, pytest.mark.timeout(900)]  # the first run fetches the clients

SHOWN = {
    "java-0.8.2.2": ["produce-gzip"],
    "java-0.9.0.1": ["produce-lz4", "consume-snappy", "group", "seek", "offsets"],
    "java-0.10.2.2": ["produce-snappy", "consume-lz4", "group", "offsets"],
    "zookeeper-consumer-0.8.2.2": ["consume-gzip", "zookeeper-offsets"],
    "zookeeper-consumer-1.1.1": ["consume", "dual-commit"],
    "kafka-python-2.3.3-api-0.8.1": ["produce-snappy", "consume-gzip", "offsets", "zookeeper-offsets"],
    "kafka-python-2.3.3-api-0.10": ["produce", "consume", "group"],
    "pykafka-2.8.0-balanced": ["group"],
    "pykafka-2.8.0-managed": ["produce-gzip", "consume"],
}
"""Each version of a request, each kind of group and each codec with an old client at least once."""

KNOWN = {each.name: each for each in exhibits()}


def _prepared(*names: str) -> list[Exhibit]:
    foreign_program("java", "openjdk-17-jre-headless")
    foreign_program("mvn", "maven")
    chosen = [KNOWN[name] for name in names]
    problems = prepare(chosen)
    assert not problems, problems
    return chosen


@pytest.fixture(scope="module")
def stage(request: pytest.FixtureRequest) -> Iterator[Stage]:
    _prepared(*SHOWN)  # before any process is started: without Maven there is nothing to do
    command = broker_command() if request.config.getoption("--apache") else BROKER_COMMAND
    with LocalCluster(brokers=1, properties=PROPERTIES, command=command) as cluster:
        wait_for_controller(cluster.bootstrap_servers)
        yield Stage(cluster.bootstrap_servers, cluster.zookeeper_connect)


@pytest.mark.parametrize("name", SHOWN)
def test_an_old_client_does_what_it_can(stage: Stage, name: str) -> None:
    with closing(Program(KNOWN[name], stage.bootstrap, stage.zookeeper)) as program:
        for feature in SHOWN[name]:
            FEATURES[feature](Visit(KNOWN[name], stage, program))


@pytest.mark.parametrize("name", ["zookeeper-consumer-1.1.1", "pykafka-2.8.0-balanced"])
def test_when_a_member_on_zookeeper_is_killed_nothing_is_left_out(stage: Stage, name: str) -> None:
    """Two members whose owners are znodes; one is killed while records flow, the other goes on from what was committed."""
    with (
        closing(Program(KNOWN[name], stage.bootstrap, stage.zookeeper)) as program,
        closing(Flow(Visit(KNOWN[name], stage, program))) as flow,
    ):
        victim, survivor = flow.members
        flow.until_shared()
        flow.write(40)
        victim.kill()
        flow.write(40)
        flow.until_all_read([survivor])
        flow.until_alone(survivor)


@pytest.mark.parametrize("name", ["zookeeper-consumer-0.8.2.2", "zookeeper-consumer-1.1.1"])
def test_when_a_leader_is_killed_an_old_consumer_finds_the_next_one(request: pytest.FixtureRequest, name: str) -> None:
    """Consumers through ZooKeeper look each replica that Metadata 0 names up among the brokers of the answer: one of them is dead."""
    (exhibit,) = _prepared(name)
    command = broker_command() if request.config.getoption("--apache") else BROKER_COMMAND
    properties = PROPERTIES | {"offsets.topic.replication.factor": "2"}
    with LocalCluster(brokers=2, properties=properties, command=command) as cluster:
        wait_for_controller(cluster.bootstrap_servers)
        stage = Stage(cluster.bootstrap_servers, cluster.zookeeper_connect, replicas=2)
        with (
            closing(Program(exhibit, stage.bootstrap, stage.zookeeper)) as program,
            closing(Flow(Visit(exhibit, stage, program))) as flow,
        ):
            flow.until_shared()
            for partition in (0, 1):
                cluster.await_isr(flow.topic, partition, size=2)
            victim = cluster.leader_of(flow.topic, 0)
            cluster.kill(victim)
            (survivor,) = {1, 2} - {victim}
            cluster.await_isr(flow.topic, 0, brokers=[survivor])
            flow.write(40)
            flow.until_all_read(flow.members)
