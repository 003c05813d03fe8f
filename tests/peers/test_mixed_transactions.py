"""One cluster of a broker of ours and one of Apache Kafka: transactions that either coordinates, over partitions and groups of both.

Each asks the other whether a partition is in a transaction, and sends it markers.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from pathlib import Path

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from kafkalite.coordinators.placement import partition_for
from kafkalite.local.broker_process import BROKER_COMMAND, BrokerProcess, wait_until
from kafkalite.local.cluster import LocalCluster
from kafkalite.local.cluster_facts import ClusterFacts
from kafkalite.types import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from tests.peers import apache_kafka
from tests.wire.conftest import wait_until_known, wait_until_led

pytestmark = [pytest.mark.peer, pytest.mark.timeout(300)]

OURS, APACHE = 1, 2
TIMEOUT_S = 60
SETTINGS = {
    "zookeeper.session.timeout.ms": "6000",
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "2",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "2",
    "group.initial.rebalance.delay.ms": "0",
}


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[tuple[str, ClusterFacts]]:
    """(servers, facts)"""
    apache_kafka.fetch()
    with LocalCluster(brokers=0, directory=tmp_path) as ensemble:
        settings = SETTINGS | {"zookeeper.connect": ensemble.zookeeper_connect}
        commands = {OURS: list(BROKER_COMMAND), APACHE: apache_kafka.broker_command()}
        brokers = [BrokerProcess(number, tmp_path, settings, command) for number, command in commands.items()]
        facts = ClusterFacts(ensemble.zookeeper_connect)
        servers = ",".join(broker.address for broker in brokers)
        try:
            for broker in brokers:
                broker.start()
                broker.wait_started(90)
            apache_kafka.wait_for_controller(servers)
            yield servers, facts
        finally:
            for broker in brokers:
                broker.close()
            facts.close()


def no_error(error: confluent_kafka.KafkaError | None, message: confluent_kafka.Message) -> None:
    assert error is None, error


def name_led_by(broker: int, facts: ClusterFacts, topic: str) -> str:
    """A group or transactional id whose partition of the internal topic this broker leads."""
    leaders = {partition: state.leader for partition, state in facts.states(topic).items()}
    return next(name for name in (f"name-{n}" for n in count()) if leaders[partition_for(name, 2)] == broker)


def read(servers: str, partition: int) -> list[bytes]:
    """The committed records of a partition up to its end."""
    settings = {"group.id": "reader", "isolation.level": "read_committed", "enable.partition.eof": True}
    consumer = confluent_kafka.Consumer({"bootstrap.servers": servers} | settings)
    consumer.assign([confluent_kafka.TopicPartition("t", partition, 0)])
    found: list[bytes] = []
    while True:
        message = consumer.poll(TIMEOUT_S)
        assert message is not None, "the partition does not end: a transaction was left open"
        if message.error() is not None:
            break
        found.append(message.value() or b"")
    consumer.close()
    return found


def committed_offset(servers: str, group: str) -> int:
    consumer = confluent_kafka.Consumer({"bootstrap.servers": servers, "group.id": group})
    offset = consumer.committed([confluent_kafka.TopicPartition("t", 0)], timeout=TIMEOUT_S)[0].offset
    consumer.close()
    return int(offset)


def test_each_coordinates_transactions_of_the_other(cluster: tuple[str, ClusterFacts]) -> None:
    servers, facts = cluster
    admin = AdminClient({"bootstrap.servers": servers})
    topic = NewTopic("t", 2, replica_assignment=[[OURS], [APACHE]])
    admin.create_topics([topic], request_timeout=30)["t"].result(30)
    wait_until_known(servers, "t", 2)
    wait_until_led(servers, "t", 2)
    first = confluent_kafka.Producer({"bootstrap.servers": servers, "transactional.id": "makes the topic"})
    first.init_transactions(TIMEOUT_S)
    committed_offset(servers, "makes the topic")
    for name in (TRANSACTIONS_TOPIC, OFFSETS_TOPIC):
        wait_until(lambda name=name: len(facts.states(name)) == 2, f"{name} with leaders", 30)  # type: ignore[misc]
    groups = [name_led_by(broker, facts, OFFSETS_TOPIC) for broker in (OURS, APACHE)]
    expected: list[bytes] = []
    for coordinator in (OURS, APACHE):
        name = name_led_by(coordinator, facts, TRANSACTIONS_TOPIC)
        producer = confluent_kafka.Producer({"bootstrap.servers": servers, "transactional.id": name})
        producer.init_transactions(TIMEOUT_S)
        for number in range(4):
            producer.begin_transaction()
            value = b"%d of %d" % (number, coordinator)
            for partition in (0, 1):
                producer.produce("t", value, partition=partition, on_delivery=no_error)
            assert producer.flush(TIMEOUT_S) == 0
            for group in groups:
                consumer = confluent_kafka.Consumer({"bootstrap.servers": servers, "group.id": group})
                place = confluent_kafka.TopicPartition("t", 0, 10 * coordinator + number)
                producer.send_offsets_to_transaction([place], consumer.consumer_group_metadata(), TIMEOUT_S)
                consumer.close()
            if number % 2:
                producer.abort_transaction(TIMEOUT_S)
            else:
                producer.commit_transaction(TIMEOUT_S)
                expected.append(value)
        assert [committed_offset(servers, group) for group in groups] == [10 * coordinator + 2] * 2
    assert read(servers, 0) == read(servers, 1) == expected
