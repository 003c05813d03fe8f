"""A cluster that is brought from Apache Kafka 1.1 to ours, or back: one broker of each, in the inter-broker protocol of the older one.

Each is the controller of the other, leads it and follows it, dies, stops with controlled shutdown, and truncates what the other never had.
At the end ours goes on in the place of Apache Kafka's broker, and with --long Apache Kafka's in the place of ours.
Apache Kafka 2.8 and 3.9 in the same old protocol, and in later ones, with --long.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import confluent_kafka
import pytest
from click.testing import CliRunner, Result
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from kafkalite.cli.main import main
from kafkalite.local.broker_process import BROKER_COMMAND, wait_until
from kafkalite.local.cluster import LocalCluster
from kafkalite.net.connection import Connection
from kafkalite.protocol import messages
from kafkalite.protocol.apis import ApiKey
from kafkalite.types import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from tests.peers import apache_kafka, old_brokers
from tests.peers.pair import APACHE, OURS, Pair
from tests.wire.conftest import wait_until_led
from zk import paths
from zk.znodes import PartitionName, PreferredElection, ReassignPartitions

pytestmark = [pytest.mark.peer, pytest.mark.timeout(400)]

QUICK: Final = ((old_brokers.WITH_SESSIONS, "1.1"),)
"""Releases of Apache Kafka's broker, each with the inter-broker protocol of the cluster."""
LONG: Final = (
    *QUICK,
    (old_brokers.WITH_TOPIC_IDS, "1.1"),
    (old_brokers.WITH_TOPIC_IDS, "2.0-IV0"),
    (old_brokers.WITH_TOPIC_IDS, "2.3"),
    (old_brokers.WITH_TOPIC_IDS, "2.8"),
    (apache_kafka.VERSION, "1.1"),
    (apache_kafka.VERSION, "2.0"),
    (apache_kafka.VERSION, "2.4"),
)
SETTINGS: Final = {
    "zookeeper.session.timeout.ms": "5000",
    "offsets.topic.replication.factor": "2",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.replication.factor": "2",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "1",
    "group.initial.rebalance.delay.ms": "0",
    "auto.leader.rebalance.enable": "false",
    "log.cleaner.enable": "false",
}
APACHES, SHARED, MOVED = "apaches", "shared", "moved"
"""Topics of one partition: Apache Kafka's broker is the first replica, ours is; has one replica, which is moved."""
COUNT: Final = 30


class Upgrade:
    """A pair with what its topics are to hold."""

    def __init__(self, pair: Pair) -> None:
        self.pair = pair
        self.facts = pair.facts
        self.values: dict[str, list[bytes]] = {APACHES: [], SHARED: [], MOVED: []}
        self.committed = confluent_kafka.OFFSET_INVALID

    def write(self, topic: str, *, are_kept: bool = True) -> None:
        """Append records to a topic."""
        prefix = b"kept" if are_kept else b"lost"
        values = [prefix + b"-%d" % (len(self.values[topic]) + number) for number in range(COUNT)]
        wait_until_led(",".join(each.address for each in self.pair.brokers.values() if each.running), topic, 1)
        self.pair.write(topic, values, **{"compression.type": "lz4"})
        if are_kept:
            self.values[topic] += values

    def create_topics(self) -> None:
        admin = AdminClient({"bootstrap.servers": self.pair.servers})
        topics = [
            NewTopic(
                APACHES, 1, replica_assignment=[[APACHE, OURS]], config={"unclean.leader.election.enable": "true"}
            ),
            NewTopic(SHARED, 1, replica_assignment=[[OURS, APACHE]]),
            NewTopic(MOVED, 1, replica_assignment=[[OURS]]),
        ]
        for future in admin.create_topics(topics, request_timeout=30).values():
            future.result(30)
        for topic in self.values:
            self.write(topic)

    def are_in_sync(self) -> None:
        """Both replicas of each topic that has two are in sync and have the same bytes, those of both coordinators too."""
        for topic in (APACHES, SHARED):
            self.pair.await_isr(topic, {OURS, APACHE})
            self.write(topic)
        self.commit_offset()
        self.commit_transaction()
        for topic in (APACHES, SHARED, OFFSETS_TOPIC, TRANSACTIONS_TOPIC):
            self.pair.await_isr(topic, {OURS, APACHE})
            self.pair.await_same(topic)

    def move(self, to: int) -> None:
        """Reassign a partition as tools before KIP-455 do."""
        plan = ReassignPartitions({PartitionName(MOVED, 0): (to,)}).encode()
        self.facts.client.create(paths.REASSIGN_PARTITIONS, plan)
        wait_until(lambda: not self.facts.client.exists(paths.REASSIGN_PARTITIONS), "the end of the reassignment", 30)
        self.pair.await_isr(MOVED, {to})
        left = self.pair.brokers[OURS + APACHE - to].log_dir / f"{MOVED}-0"
        wait_until(lambda: not left.exists(), "the old replica is deleted", 30)
        self.write(MOVED)

    def prefer(self, topic: str, leader: int) -> None:
        """Elect the preferred leader as tools before KIP-460 do."""
        self.facts.client.create(
            paths.PREFERRED_REPLICA_ELECTION, PreferredElection((PartitionName(topic, 0),)).encode()
        )
        wait_until(lambda: self.facts.leaders(topic) == [leader], f"{leader} leads {topic}", 30)

    def create_on_demand(self, topic: str) -> None:
        """Let the broker of ours, which is asked about a topic that there is not, have it created by the controller."""

        async def ask() -> None:
            broker = self.pair.brokers[OURS]
            connection = await Connection.open(broker.host, broker.port, client_id="on demand")
            try:
                await connection.negotiate()
                m = messages.metadata_request
                wanted = m.MetadataRequest(topics=[m.MetadataRequestTopic(name=topic)], allow_auto_topic_creation=True)
                await connection.request(wanted, connection.version_of(ApiKey.METADATA))
            finally:
                connection.close()

        asyncio.run(ask())
        wait_until(lambda: self.facts.fully_replicated(topic), f"{topic} with a leader", 30)

    def commit_offset(self) -> None:
        """Find the last committed offset of a group, and commit the next."""
        consumer = confluent_kafka.Consumer({"bootstrap.servers": self.pair.servers, "group.id": "g"})
        place = confluent_kafka.TopicPartition(SHARED, 0)
        assert consumer.committed([place], timeout=60)[0].offset == self.committed
        self.committed = len(self.values[SHARED])
        place.offset = self.committed
        consumer.commit(offsets=[place], asynchronous=False)
        consumer.close()

    def commit_transaction(self) -> None:
        """Write to both replicated topics in one transaction."""
        settings = {"bootstrap.servers": self.pair.servers, "transactional.id": "t"}
        producer = confluent_kafka.Producer(settings)
        producer.init_transactions(60)
        producer.begin_transaction()
        for topic in (APACHES, SHARED):
            value = b"kept-in-transaction"
            producer.produce(topic, value, partition=0)
            self.values[topic].append(value)
        producer.commit_transaction(60)

    def stop(self, number: int) -> None:
        """Stop a broker cleanly; what it leads with another replica has another leader before it has gone."""
        assert self.pair.brokers[number].stop() in (0, 143)
        for topic in (APACHES, SHARED):
            assert self.facts.leaders(topic) == [OURS + APACHE - number], topic
        wait_until(lambda: number not in self.facts.brokers(), "the end of its session", 30)

    def kill(self, number: int) -> None:
        """Kill a broker; the other one leads what both have."""
        other = OURS + APACHE - number
        self.pair.brokers[number].kill()
        wait_until(
            lambda: self.facts.leaders(APACHES) + self.facts.leaders(SHARED) == [other, other], "its leaders", 30
        )

    def replace(self, number: int) -> None:
        """Kill a broker that is alone, and start the other, which becomes the controller and leads without the last records."""
        other = OURS + APACHE - number
        self.pair.brokers[number].kill()
        self.pair.start(other)
        wait_until(lambda: self.facts.controller() == other, f"broker {other} is the controller", 30)
        wait_until(lambda: self.facts.leaders(APACHES) == [other], "an unclean leader", 30)

    def migrate(self, *words: str) -> Result:
        """Run `kafkalite migrate`, which finds the cluster by the environment."""
        where = {"KAFKALITE_BOOTSTRAP_SERVERS": self.pair.servers, "KAFKALITE_ZOOKEEPER": self.pair.zookeeper_connect}
        return CliRunner(env=where).invoke(main, ["migrate", *words])

    def note_kinds(self, version: str) -> None:
        """The two programs are told apart, and Apache Kafka's release is known."""
        checked = self.migrate("check", "--only", "brokers", "-o", "json")
        assert json.loads(checked.stdout)[0]["found"] == (
            f"Apache Kafka {version.rpartition('.')[0]}: {APACHE}; kafkalite 3.9: {OURS}. 1 of 2 to be replaced by kafkalite"
        )

    def take_evidence(self, moment: str, directory: Path) -> None:
        taken = self.migrate(
            "evidence", moment, str(directory), *(("-t", APACHES, "-t", SHARED) if moment == "before" else ())
        )
        assert taken.exit_code == 0, taken.output

    def swap(self, number: int, command: Sequence[str]) -> None:
        """Let the other program go on with a broker that has ended: its id, its log directories."""
        self.pair.brokers[number].command = command
        self.pair.start(number)
        self.are_in_sync()
        self.prefer(APACHES if number == APACHE else SHARED, number)
        self.are_in_sync()


@contextmanager
def upgrading(directory: Path, version: str, protocol: str) -> Iterator[Upgrade]:
    """A pair with the broker of ours started, which is the controller."""
    if version == apache_kafka.VERSION:
        apache_kafka.fetch()
        command = apache_kafka.broker_command()
    else:
        command = old_brokers.java(version, "kafka.Kafka")
    with LocalCluster(brokers=0, directory=directory) as cluster:
        pair = Pair(directory, cluster, command, SETTINGS | {"inter.broker.protocol.version": protocol})
        try:
            pair.start(OURS)
            yield Upgrade(pair)
        finally:
            pair.close()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    metafunc.parametrize(("version", "protocol"), LONG if metafunc.config.getoption("--long") else QUICK)


def test_each_governs_leads_and_follows_the_other(tmp_path: Path, version: str, protocol: str, long: bool) -> None:
    with upgrading(tmp_path, version, protocol) as upgrade:
        under_our_controller(upgrade, version)
        upgrade.take_evidence("before", tmp_path / "lost")
        upgrade.replace(OURS)
        under_theirs(upgrade)
        upgrade.take_evidence("after", tmp_path / "lost")
        verdict = upgrade.migrate("verify", str(tmp_path / "lost"), "--without-probe", "--problems")
        assert verdict.exit_code == 7 and f"{APACHES}-0, offsets 0 to " in verdict.stdout, verdict.output
        assert SHARED not in verdict.stdout, verdict.output
        upgrade.replace(APACHE)
        under_ours_again(upgrade)
        theirs = upgrade.pair.brokers[APACHE].command
        upgrade.take_evidence("before", tmp_path / "kept")
        upgrade.swap(APACHE, BROKER_COMMAND)
        upgrade.take_evidence("after", tmp_path / "kept")
        verdict = upgrade.migrate("verify", str(tmp_path / "kept"), "--without-probe")
        assert verdict.exit_code == 0, verdict.output
        if long:
            upgrade.stop(OURS)
            upgrade.swap(OURS, theirs)
        for topic, values in upgrade.values.items():
            assert upgrade.pair.read(topic) == values


def under_our_controller(upgrade: Upgrade, version: str) -> None:
    """At the end Apache Kafka's broker has stopped, and ours has records that the other never had."""
    upgrade.pair.start(APACHE)
    apache_kafka.wait_for_controller(upgrade.pair.servers)
    upgrade.create_topics()
    assert upgrade.facts.leaders(APACHES) + upgrade.facts.leaders(SHARED) == [APACHE, OURS]
    upgrade.are_in_sync()
    upgrade.note_kinds(version)
    upgrade.move(APACHE)
    upgrade.stop(APACHE)
    upgrade.write(APACHES, are_kept=False)


def under_theirs(upgrade: Upgrade) -> None:
    """Ours truncates them, is killed when it leads, and stops; Apache Kafka's broker has records that ours never had."""
    upgrade.write(APACHES)
    upgrade.pair.start(OURS)
    upgrade.are_in_sync()
    upgrade.create_on_demand("on-demand")
    upgrade.move(OURS)
    upgrade.prefer(SHARED, OURS)
    upgrade.kill(OURS)
    upgrade.write(SHARED)
    upgrade.pair.start(OURS)
    upgrade.are_in_sync()
    upgrade.prefer(SHARED, OURS)
    upgrade.stop(OURS)
    upgrade.write(APACHES, are_kept=False)


def under_ours_again(upgrade: Upgrade) -> None:
    """Apache Kafka's broker truncates them, and is killed when it leads."""
    upgrade.write(APACHES)
    upgrade.pair.start(APACHE)
    upgrade.are_in_sync()
    upgrade.prefer(APACHES, APACHE)
    upgrade.kill(APACHE)
    upgrade.write(APACHES)
