"""Apache Kafka's tools that move replicas and leaders, against kafkalite."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import kafka
import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from kafkalite.local.broker_process import wait_until
from kafkalite.local.cluster import LocalCluster
from kafkalite.local.cluster_facts import ClusterFacts
from tests.peers.apache_kafka import fetch
from tests.peers.tool_server import run_tool
from tests.wire.clients import CLIENTS, Record
from tests.wire.conftest import wait_until_known

pytestmark = pytest.mark.peer

TIMEOUT_S = 30
Plan = dict[str, list[list[int]]]


PROPERTIES = {
    "auto.leader.rebalance.enable": "false",
    "kafkalite.failover.detection": "session",  # a dead broker can be named in a plan for as long as its session lives
}


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    fetch()  # before any process is started: without Maven there is nothing to do
    with LocalCluster(brokers=3, properties=PROPERTIES) as running:
        yield running


@pytest.fixture(scope="module")
def facts(cluster: LocalCluster) -> Iterator[ClusterFacts]:
    found = ClusterFacts(cluster.zookeeper_connect)
    yield found
    found.close()


@pytest.fixture(scope="module")
def servers(cluster: LocalCluster) -> str:
    return cluster.bootstrap_servers


@pytest.fixture(scope="module")
def admin(servers: str) -> AdminClient:
    return AdminClient({"bootstrap.servers": servers})


Reassign = Callable[..., str]


@pytest.fixture
def reassign(servers: str, tmp_path: Path) -> Reassign:
    """`reassign(plan, "--execute")` runs the tool with a plan of each topic's replicas by partition."""

    def run(plan: Plan, *action: str) -> str:
        partitions = [
            {"topic": topic, "partition": number, "replicas": replicas}
            for topic, lists in plan.items()
            for number, replicas in enumerate(lists)
        ]
        path = tmp_path / "plan.json"
        path.write_text(json.dumps({"version": 1, "partitions": partitions}))
        base = ("--bootstrap-server", servers, "--reassignment-json-file", str(path))
        return run_tool("kafka-reassign-partitions", *base, *action)

    return run


def make_topic(
    servers: str, admin: AdminClient, facts: ClusterFacts, name: str, assignment: Sequence[list[int]]
) -> str:
    """Once every broker knows it: a tool may ask any of them."""
    wanted = NewTopic(name, num_partitions=len(assignment), replica_assignment=list(assignment))
    admin.create_topics([wanted], request_timeout=TIMEOUT_S, operation_timeout=TIMEOUT_S)[name].result(TIMEOUT_S)
    wait_until(lambda: facts.fully_replicated(name), f"all replicas of {name} in sync", TIMEOUT_S)
    wait_until_known(servers, name, len(assignment))
    return name


def assignment_of(admin: AdminClient, topic: str) -> list[list[int]]:
    partitions = admin.list_topics(topic, timeout=TIMEOUT_S).topics[topic].partitions
    return [list(partitions[number].replicas) for number in sorted(partitions)]


def test_replicas_are_moved_and_the_end_is_verified(
    servers: str, admin: AdminClient, facts: ClusterFacts, reassign: Reassign
) -> None:
    topic = make_topic(servers, admin, facts, "moved", [[1, 2], [2, 3]])
    sent = [Record(b"%d" % number, b"x" * 1000) for number in range(500)]
    CLIENTS[0].produce(servers, topic, sent)
    plan = {topic: [[3, 2], [2, 1]]}
    begun = reassign(plan, "--execute")
    assert "Successfully started partition reassignments for moved-0,moved-1" in begun
    assert '"replicas":[1,2]' in begun, "the tool shows how to go back"
    wait_until(lambda: assignment_of(admin, topic) == plan[topic], f"replicas {plan}", TIMEOUT_S)
    verified = reassign(plan, "--verify")
    for partition in (0, 1):
        assert f"Reassignment of partition {topic}-{partition} is completed." in verified
    assert "No partition reassignments found." in run_tool(
        "kafka-reassign-partitions", "--bootstrap-server", servers, "--list"
    )
    read = CLIENTS[0].consume(servers, topic, len(sent))
    assert [each.key for each in read] == [each.key for each in sent]


def test_a_move_that_cannot_end_is_listed_and_cancelled(
    cluster: LocalCluster, servers: str, admin: AdminClient, facts: ClusterFacts, reassign: Reassign
) -> None:
    """The new replica's broker is killed; while its session lives it can be named in a plan.

    The move is begun by a client that is quicker than the tool's start; the tool finds, reports and cancels it.
    """
    kept, left, victim = sorted(cluster.brokers, key=lambda broker_id: broker_id != facts.controller())
    topic = make_topic(servers, admin, facts, "stuck", [[kept, left]])
    plan = {topic: [[kept, victim]]}
    partition = kafka.TopicPartition(topic, 0)
    mover = kafka.KafkaAdminClient(bootstrap_servers=cluster.broker(kept).address)
    assert not mover.list_partition_reassignments()  # it is connected where it needs to be before the victim goes
    cluster.kill(victim)
    try:
        assert mover.alter_partition_reassignments({partition: [kept, victim]}) == {partition: None}
        listed = run_tool("kafka-reassign-partitions", "--bootstrap-server", servers, "--list")
        assert f"{topic}-0: replicas: {kept},{victim},{left}. adding: {victim}. removing: {left}." in listed
        assert f"Reassignment of partition {topic}-0 is still in progress." in reassign(plan, "--verify")
        # Throttles stay as they are: the tool would take them back from every broker, also from the dead one.
        cancelled = reassign(plan, "--cancel", "--preserve-throttles")
        assert f"Successfully cancelled partition reassignment for: {topic}-0" in cancelled
        wait_until(lambda: assignment_of(admin, topic) == [[kept, left]], "the old replicas", TIMEOUT_S)
    finally:
        mover.close()
        cluster.start_broker(victim)
    wait_until(lambda: len(facts.brokers()) == len(cluster.brokers), "all brokers registered", TIMEOUT_S)


def test_a_plan_is_proposed(servers: str, admin: AdminClient, facts: ClusterFacts, tmp_path: Path) -> None:
    topic = make_topic(servers, admin, facts, "proposed", [[1], [1], [1]])
    path = tmp_path / "topics.json"
    path.write_text(json.dumps({"version": 1, "topics": [{"topic": topic}]}))
    output = run_tool(
        "kafka-reassign-partitions",
        *("--bootstrap-server", servers, "--generate"),
        *("--topics-to-move-json-file", str(path), "--broker-list", "2,3"),
    )
    current, proposed = (json.loads(line)["partitions"] for line in output.splitlines() if line.startswith("{"))
    assert [each["replicas"] for each in current] == [[1], [1], [1]]
    assert {replica for each in proposed for replica in each["replicas"]} == {2, 3}


def test_leaders_return_to_the_preferred_replicas(
    cluster: LocalCluster, servers: str, admin: AdminClient, facts: ClusterFacts
) -> None:
    restarted = next(broker_id for broker_id in cluster.brokers if broker_id != facts.controller())
    order = sorted(cluster.brokers, key=lambda broker_id: broker_id != restarted)
    topic = make_topic(servers, admin, facts, "led", [order, order[1:] + order[:1]])
    cluster.restart(restarted)
    wait_until(lambda: facts.fully_replicated(topic), "all replicas in sync", TIMEOUT_S)
    assert facts.leaders(topic) == [order[1], order[1]]
    preferred = ("--election-type", "preferred", "--topic", topic, "--partition", "0")
    elected = run_tool("kafka-leader-election", "--bootstrap-server", servers, *preferred)
    assert f"Successfully completed leader election (PREFERRED) for partitions {topic}-0" in elected
    assert facts.leaders(topic) == order[:2]
    again = run_tool("kafka-leader-election", "--bootstrap-server", servers, *preferred)
    assert f"Valid replica already elected for partitions {topic}-0" in again
