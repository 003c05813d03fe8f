"""Partitions added, leaders elected and replicas moved, as the admin clients of others ask for it."""

from __future__ import annotations

from collections.abc import Iterator

import confluent_kafka
import kafka
import pytest
from confluent_kafka import ElectionType, KafkaError
from confluent_kafka.admin import AdminClient, NewPartitions
from kafka.errors import NoReassignmentInProgressError

from kafkalite.local.broker_process import wait_until
from kafkalite.local.cluster import LocalCluster
from kafkalite.local.cluster_facts import ClusterFacts
from tests.wire.clients import CLIENTS, Record
from tests.wire.conftest import TopicMaker, wait_until_known, wait_until_led
from tests.wire.test_refusals import code_of

pytestmark = pytest.mark.wire

TIMEOUT_S = 30


@pytest.fixture
def facts(cluster: LocalCluster) -> Iterator[ClusterFacts]:
    found = ClusterFacts(cluster.zookeeper_connect)
    yield found
    found.close()


@pytest.fixture
def other_admin(servers: str) -> Iterator[kafka.KafkaAdminClient]:
    """kafka-python's: confluent-kafka's cannot move replicas."""
    client = kafka.KafkaAdminClient(bootstrap_servers=servers.split(","))
    yield client
    client.close()


def replicas_of(admin: AdminClient, topic: str, partition: int = 0) -> list[int]:
    return list(admin.list_topics(topic, timeout=TIMEOUT_S).topics[topic].partitions[partition].replicas)


def leader_of(admin: AdminClient, topic: str, partition: int = 0) -> int:
    return int(admin.list_topics(topic, timeout=TIMEOUT_S).topics[topic].partitions[partition].leader)


def test_partitions_can_be_added(servers: str, admin: AdminClient, make_topic: TopicMaker) -> None:
    topic = make_topic(partitions=1)
    CLIENTS[0].produce(servers, topic, [Record(b"k", b"before")])
    admin.create_partitions([NewPartitions(topic, 3)], request_timeout=TIMEOUT_S)[topic].result(TIMEOUT_S)
    wait_until_known(servers, topic, 3)
    wait_until_led(servers, topic, 3)
    found = admin.list_topics(topic, timeout=TIMEOUT_S).topics[topic].partitions
    assert sorted(found) == [0, 1, 2]
    assert all(sorted(partition.replicas) == [1, 2, 3] for partition in found.values())
    producer = confluent_kafka.Producer({"bootstrap.servers": servers, "acks": "all"})
    for partition in (1, 2):
        producer.produce(topic, b"after", partition=partition)
    assert producer.flush(TIMEOUT_S) == 0
    for partition, value in enumerate([b"before", b"after", b"after"]):
        assert [read.value for read in CLIENTS[1].consume(servers, topic, 1, partition=partition)] == [value]


def test_partitions_can_only_grow(admin: AdminClient, make_topic: TopicMaker) -> None:
    topic = make_topic(partitions=2)
    for count in (1, 2):
        answer = admin.create_partitions([NewPartitions(topic, count)], request_timeout=TIMEOUT_S)[topic]
        assert code_of(answer) == KafkaError.INVALID_PARTITIONS
    missing = admin.create_partitions([NewPartitions("nobody-made-this", 2)], request_timeout=TIMEOUT_S)
    assert code_of(missing["nobody-made-this"]) == KafkaError.UNKNOWN_TOPIC_OR_PART
    only_checked = admin.create_partitions([NewPartitions(topic, 3)], validate_only=True, request_timeout=TIMEOUT_S)
    only_checked[topic].result(TIMEOUT_S)
    assert len(admin.list_topics(topic, timeout=TIMEOUT_S).topics[topic].partitions) == 2


def test_new_partitions_can_be_placed_by_hand(servers: str, admin: AdminClient, make_topic: TopicMaker) -> None:
    topic = make_topic(partitions=1, replication=2)
    wanted = NewPartitions(topic, 3, replica_assignment=[[3, 1], [2, 3]])
    admin.create_partitions([wanted], request_timeout=TIMEOUT_S)[topic].result(TIMEOUT_S)
    wait_until_known(servers, topic, 3)
    assert (replicas_of(admin, topic, 1), replicas_of(admin, topic, 2)) == ([3, 1], [2, 3])


def test_the_preferred_leader_is_elected_and_then_no_election_is_needed(
    admin: AdminClient, other_admin: kafka.KafkaAdminClient, facts: ClusterFacts, make_topic: TopicMaker
) -> None:
    topic = make_topic()
    leader = leader_of(admin, topic)
    order = sorted(replicas_of(admin, topic), key=lambda replica: replica == leader)  # the leader is preferred last
    moved = other_admin.alter_partition_reassignments({kafka.TopicPartition(topic, 0): order})
    assert list(moved.values()) == [None]
    wait_until(lambda: replicas_of(admin, topic) == order, f"replicas {order}", TIMEOUT_S)
    assert leader_of(admin, topic) == leader, "another order alone moves no leader"
    wait_until(lambda: facts.fully_replicated(topic), "all replicas in sync", TIMEOUT_S)
    partition, unknown = confluent_kafka.TopicPartition(topic, 0), confluent_kafka.TopicPartition(topic, 7)

    def elect(kind: ElectionType, *partitions: confluent_kafka.TopicPartition) -> dict[int, KafkaError | None]:
        # Without `request_timeout`: releases up to 2.16 at least raise SystemError when one is given.
        answer = admin.elect_leaders(kind, list(partitions)).result(TIMEOUT_S)
        return {tp.partition: error for tp, error in answer.items()}

    answer = elect(ElectionType.PREFERRED, partition, unknown)
    assert answer[0] is None, answer
    assert answer[7] is not None and answer[7].code() == KafkaError.UNKNOWN_TOPIC_OR_PART
    # The controller's broker knew the leader when it answered; another one may be asked here.
    wait_until(lambda: leader_of(admin, topic) == order[0], f"{order[0]} as leader", TIMEOUT_S)
    for kind in (ElectionType.PREFERRED, ElectionType.UNCLEAN):
        again = elect(kind, partition)[0]
        assert again is not None and again.code() == KafkaError.ELECTION_NOT_NEEDED


def test_a_replica_moves_with_its_records(
    servers: str,
    cluster: LocalCluster,
    admin: AdminClient,
    other_admin: kafka.KafkaAdminClient,
    make_topic: TopicMaker,
) -> None:
    topic = make_topic(replication=2)
    partition = kafka.TopicPartition(topic, 0)
    sent = [Record(b"%d" % number, b"x" * 1000) for number in range(500)]
    CLIENTS[0].produce(servers, topic, sent)
    leader, follower = replicas_of(admin, topic)
    (newcomer,) = set(cluster.brokers) - {leader, follower}
    assert other_admin.alter_partition_reassignments({partition: [newcomer, follower]}) == {partition: None}
    wait_until(lambda: not other_admin.list_partition_reassignments(), "end of the reassignment", TIMEOUT_S)
    wait_until(lambda: leader_of(admin, topic) in (newcomer, follower), "a leader among the new replicas", TIMEOUT_S)
    assert replicas_of(admin, topic) == [newcomer, follower]
    segment = f"{topic}-0/{0:020}.log"
    kept, copied = (cluster.broker(each).log_dir / segment for each in (follower, newcomer))
    assert copied.read_bytes() == kept.read_bytes()
    gone = cluster.broker(leader).log_dir / f"{topic}-0"
    wait_until(lambda: not gone.exists(), "deletion of the old replica", TIMEOUT_S)
    read = CLIENTS[0].consume(servers, topic, len(sent))
    assert [(each.key, each.value) for each in read] == [(each.key, each.value) for each in sent]


def test_a_reassignment_that_cannot_end_is_listed_and_can_be_cancelled(
    cluster: LocalCluster,
    admin: AdminClient,
    other_admin: kafka.KafkaAdminClient,
    facts: ClusterFacts,
    make_topic: TopicMaker,
) -> None:
    """The new replica's broker stands still, for less time than it takes to be accused."""
    victim = next(broker_id for broker_id in cluster.brokers if broker_id != facts.controller())
    replicas = sorted(set(cluster.brokers) - {victim})
    topic = make_topic(replication=1)
    partition = kafka.TopicPartition(topic, 0)
    assert other_admin.alter_partition_reassignments({partition: replicas}) == {partition: None}
    wait_until(lambda: not other_admin.list_partition_reassignments(), "replicas away from the victim", TIMEOUT_S)
    assert other_admin.alter_partition_reassignments({partition: None}) == {partition: NoReassignmentInProgressError}
    refused = other_admin.alter_partition_reassignments({partition: [*replicas, 77]})
    assert refused[partition].errno == KafkaError.INVALID_REPLICA_ASSIGNMENT
    cluster.pause(victim)
    try:
        assert other_admin.alter_partition_reassignments({partition: [*replicas, victim]}) == {partition: None}
        listed = other_admin.list_partition_reassignments([partition])[partition]
        assert sorted(listed["replicas"]) == [1, 2, 3]
        assert (listed["adding_replicas"], listed["removing_replicas"]) == ([victim], [])
        assert other_admin.alter_partition_reassignments({partition: None}) == {partition: None}
        assert not other_admin.list_partition_reassignments()
    finally:
        cluster.resume(victim)
    wait_until(lambda: replicas_of(admin, topic) == replicas, f"replicas {replicas}", TIMEOUT_S)
    wait_until(lambda: len(facts.brokers()) == len(cluster.brokers), "all brokers registered", TIMEOUT_S)
    wait_until(lambda: not (cluster.broker(victim).log_dir / f"{topic}-0").exists(), "no replica here", TIMEOUT_S)
