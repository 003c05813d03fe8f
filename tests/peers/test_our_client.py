"""Our client against Apache Kafka's broker, and its assignors and encodings against Kafka's Java client."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest

from kafkalite.client import NewTopic, SyncAdmin
from kafkalite.local.cluster import LocalCluster
from tests.peers import apache_kafka
from tests.peers.vectors.record import ask_java
from tests.unit.client.java_vectors import answer, assignor_questions, in_order
from tests.wire import our_client
from tests.wire.our_client import TopicMaker

pytestmark = [pytest.mark.peer, pytest.mark.timeout(300)]

PROPERTIES = {"auto.create.topics.enable": "false", "offsets.topic.num.partitions": "1"}


@pytest.fixture(scope="module")
def servers() -> Iterator[str]:
    with LocalCluster(brokers=1, properties=PROPERTIES, command=apache_kafka.broker_command()) as cluster:
        apache_kafka.wait_for_controller(cluster.bootstrap_servers)
        yield cluster.bootstrap_servers


_numbers = itertools.count(1)


@pytest.fixture
def make_topic(servers: str) -> TopicMaker:
    def make(partitions: int = 1, config: dict[str, str] | None = None) -> str:
        name = f"peer-{next(_numbers)}"
        with SyncAdmin(bootstrap_servers=servers) as admin:
            admin.create_topics([NewTopic(name, partitions, 1, topic_configs=config or {})])
        return name

    return make


@pytest.mark.parametrize("name", our_client.SCENARIOS)
def test_our_client(name: str, servers: str, make_topic: TopicMaker) -> None:
    our_client.SCENARIOS[name](servers, make_topic)


@pytest.mark.parametrize("strategy", our_client.STRATEGIES)
def test_a_group_shares_and_hands_over(strategy: str, servers: str, make_topic: TopicMaker) -> None:
    our_client.a_group_shares_and_hands_over(servers, make_topic, strategy)


def test_assignors_give_what_java_gives_in_new_cases() -> None:
    questions = assignor_questions(seed=2026, count=2000)
    for question, java in zip(questions, ask_java(questions), strict=True):
        ours = answer(question)
        if question.split(" ")[1] == "range":
            ours, java = in_order(ours), in_order(java)
        assert ours == java, question
