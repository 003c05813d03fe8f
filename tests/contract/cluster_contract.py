"""What `kafkalite.local.contract.Cluster` promises, as tests; one subclass for each kind of cluster."""

from __future__ import annotations

import asyncio
import itertools
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from kafkalite.local.broker_process import wait_until
from kafkalite.local.contract import Cluster
from kafkalite.local.readiness import ask

PROPERTIES = {
    "zookeeper.session.timeout.ms": "2000",
    "replica.lag.time.max.ms": "3000",
    "auto.create.topics.enable": "false",
    "offsets.topic.num.partitions": "1",
    "auto.leader.rebalance.enable": "false",
}
RACKS = ("north", "south", "west")

READ_WITHIN_S = 90
"""A bound against hanging; a client that asked a broker of yesterday backs off before it asks the next."""

_numbers = itertools.count(1)


def create_topic(cluster: Cluster) -> str:
    """One partition with a replica on each of three brokers, all in sync."""
    name = f"contract-{next(_numbers)}"
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0})
    wanted = NewTopic(name, 1, 3, config={"min.insync.replicas": "2"})
    admin.create_topics([wanted], request_timeout=30)[name].result(60)
    cluster.await_isr(name, size=3)
    return name


def write_and_read(cluster: Cluster, topic: str, value: bytes) -> None:
    """A record, acknowledged by all that are in sync, comes back."""
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "acks": "all", "log_level": 0})
    written: list[Any] = []
    producer.produce(topic, value, partition=0, on_delivery=lambda error, message: written.append((error, message)))
    assert producer.flush(30) == 0
    ((error, message),) = written
    assert error is None
    # Nothing is committed: the coordinator may be the broker that a test has cut off.
    settings = {"bootstrap.servers": cluster.bootstrap_servers, "group.id": "contract", "enable.auto.commit": False}
    # By default a consumer that is told that its offset is out of range would wait at the end for ever.
    consumer = Consumer(settings | {"auto.offset.reset": "error", "log_level": 0})
    try:
        consumer.assign([TopicPartition(topic, 0, message.offset())])
        record = consumer.poll(READ_WITHIN_S)
        assert record is not None, f"no record at offset {message.offset()} of {topic} within {READ_WITHIN_S} s"
        assert record.error() is None, record.error()
        assert record.value() == value
    finally:
        consumer.close()


class ClusterContract:
    """The fixture `cluster` is a running cluster of three brokers with PROPERTIES and RACKS, and one ZooKeeper server."""

    @pytest.fixture(autouse=True)
    def repaired(self, cluster: Any) -> Any:
        """A test that fails leaves a whole cluster to the next one."""
        yield
        cluster.heal()
        for broker in cluster.brokers.values():
            cluster.unpause(broker.id)
            if not broker.running:
                cluster.start_broker(broker.id)

    def test_it_is_a_cluster(self, cluster: Cluster) -> None:
        assert isinstance(cluster, Cluster)
        assert cluster.broker_ids == [1, 2, 3]
        assert len(cluster.bootstrap_servers.split(",")) == 3
        assert cluster.controller() in cluster.broker_ids
        with pytest.raises(ValueError, match="brokers= or size="):
            cluster.await_isr("t")

    def test_every_broker_knows_all_of_them_and_its_rack(self, cluster: Any) -> None:
        for broker in cluster.brokers.values():
            found = asyncio.run(ask(broker))
            assert found is not None and found.brokers == {1, 2, 3} and found.controller_id in found.brokers
        with cluster.facts() as facts:
            assert facts.racks() == dict(zip(cluster.broker_ids, RACKS, strict=True))

    def test_a_leader_that_is_killed_is_replaced_and_comes_back_at_its_port(self, cluster: Cluster) -> None:
        topic, addresses = create_topic(cluster), cluster.bootstrap_servers
        victim = cluster.leader_of(topic)
        assert victim in cluster.broker_ids
        write_and_read(cluster, topic, b"before")
        cluster.kill(victim)
        others = [broker_id for broker_id in cluster.broker_ids if broker_id != victim]
        assert sorted(cluster.await_isr(topic, brokers=others)) == others
        assert cluster.leader_of(topic) in others and cluster.controller() in others
        write_and_read(cluster, topic, b"meanwhile")
        cluster.restart(victim)
        assert sorted(cluster.await_isr(topic, size=3)) == cluster.broker_ids
        assert cluster.bootstrap_servers == addresses
        write_and_read(cluster, topic, b"after")

    def test_a_paused_broker_falls_behind_and_catches_up(self, cluster: Cluster) -> None:
        topic = create_topic(cluster)
        victim = cluster.leader_of(topic)
        cluster.pause(victim)
        with pytest.raises(TimeoutError, match="they are"):
            cluster.await_isr(topic, size=0, timeout_s=0.2)
        cluster.await_isr(topic, brokers=set(cluster.broker_ids) - {victim})
        write_and_read(cluster, topic, b"meanwhile")
        cluster.unpause(victim)
        cluster.await_isr(topic, size=3)

    def test_a_clean_stop_moves_leaders_first_and_ends_with_status_0(self, cluster: Cluster) -> None:
        topic = create_topic(cluster)
        leader = cluster.leader_of(topic)
        assert cluster.stop(leader) == 0
        assert cluster.leader_of(topic) not in (leader, -1)
        cluster.start_broker(leader)
        cluster.await_isr(topic, size=3)

    def test_brokers_cut_from_each_other_are_still_reached_by_clients_and_zookeeper(self, cluster: Any) -> None:
        topic = create_topic(cluster)
        leader = cluster.leader_of(topic)
        others = [broker_id for broker_id in cluster.broker_ids if broker_id != leader]
        victim = next(broker_id for broker_id in others if broker_id != cluster.controller())
        cluster.partition(victim, set(cluster.broker_ids) - {victim})
        write_and_read(cluster, topic, b"acknowledged when the leader has given up the victim")
        cluster.await_isr(topic, brokers=set(cluster.broker_ids) - {victim})
        assert asyncio.run(ask(cluster.broker(victim))) is not None
        with cluster.facts() as facts:
            # The others may take it for dead; it registers again, and they accuse nobody to whom they were never connected.
            wait_until(lambda: facts.brokers() == {1, 2, 3}, f"the registration of {victim}", 30)
        cluster.heal()
        cluster.await_isr(topic, size=3)

    def test_a_broker_cut_from_zookeeper_loses_its_session_and_what_it_leads(self, cluster: Any) -> None:
        topic = create_topic(cluster)
        victim = cluster.leader_of(topic)
        cluster.partition([victim], ["zk1"])
        with cluster.facts() as facts:
            wait_until(lambda: victim not in facts.brokers(), f"end of the session of {victim}", 30)
            wait_until(lambda: cluster.leader_of(topic) not in (victim, -1), "another leader", 30)
            cluster.heal()
            wait_until(lambda: victim in facts.brokers(), f"a new session of {victim}", 30)
        cluster.await_isr(topic, size=3)

    def test_a_broker_that_starts_while_it_is_cut_off_stays_cut_off(self, cluster: Any) -> None:
        """From the leader of a partition; not from the controller, without whom nobody starts."""
        controller = cluster.controller()
        topics = (create_topic(cluster) for _ in range(20))
        topic = next(topic for topic in topics if cluster.leader_of(topic) != controller)
        leader = cluster.leader_of(topic)
        victim = next(broker_id for broker_id in cluster.broker_ids if broker_id not in (leader, controller))
        cluster.kill(victim)
        cluster.await_isr(topic, brokers=set(cluster.broker_ids) - {victim})
        cluster.partition({victim}, {leader})
        cluster.restart(victim)
        write_and_read(cluster, topic, b"meanwhile")
        with pytest.raises(TimeoutError):
            cluster.await_isr(topic, size=3, timeout_s=3)
        cluster.heal()
        cluster.await_isr(topic, size=3)

    @pytest.mark.parametrize(
        ("side", "other", "reason"),
        [(1, 9, "no server 9"), ("zk7", 1, "no server 'zk7'"), ([1, 2], [2, 3], "both sides")],
    )
    def test_sides_that_cannot_be(self, cluster: Cluster, side: Any, other: Any, reason: str) -> None:
        with pytest.raises(ValueError, match=reason):
            cluster.partition(side, other)

    def test_logs_are_told_by_server(self, cluster: Cluster) -> None:
        logs = cluster.logs(500)
        for broker_id in cluster.broker_ids:
            assert any(f"broker {broker_id} " in name and "started" in text for name, text in logs.items())

    def test_the_replicas_can_be_read(self, cluster: Cluster) -> None:
        topic = create_topic(cluster)
        write_and_read(cluster, topic, b"x")
        for directories in cluster.log_directories().values():
            assert sum(directory.joinpath(f"{topic}-0").is_dir() for directory in directories) == 1
