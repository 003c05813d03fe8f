"""Apache Kafka's own TransactionalMessageCopier on our brokers: each record of the input is in the output once and in order, whatever dies.

Copiers read in transactions, abort a third of them of their own accord, and commit offsets with the records. Meanwhile their coordinator is
killed, a copier is, the leader of an output partition is paused for longer than its session, and another one is killed.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from kafkalite.coordinators.placement import partition_for
from kafkalite.local.broker_process import wait_until
from kafkalite.local.cluster import LocalCluster
from kafkalite.types import TRANSACTIONS_TOPIC
from tests.peers.apache_kafka import java_command
from tests.system.scenario import PROPERTIES
from tests.wire.conftest import wait_until_known, wait_until_led

pytestmark = [pytest.mark.peer, pytest.mark.timeout(300)]

RECORDS: Final = 2400
"""In each of the two partitions."""
PER_TRANSACTION: Final = 50
STATE_PARTITIONS: Final = 3
TRANSACTION_TIMEOUT_MS: Final = 30_000
"""A copier that is started again asks for its position before it ends the transaction that the killed one left. While offsets are pending
in that it waits, for a minute at most."""


class Copier:
    """One process that copies one partition of "input" to "output"."""

    def __init__(self, servers: str, partition: int, directory: Path) -> None:
        self.transactional_id = f"copier-{partition}"
        self._log = directory / f"{self.transactional_id}.log"
        self._command = java_command(
            "org.apache.kafka.tools.TransactionalMessageCopier",
            *("--broker-list", servers, "--input-topic", "input", "--input-partition", str(partition)),
            *("--output-topic", "output", "--consumer-group", self.transactional_id),
            *("--transactional-id", self.transactional_id, "--transaction-size", str(PER_TRANSACTION)),
            *("--transaction-timeout", str(TRANSACTION_TIMEOUT_MS), "--enable-random-aborts", "--use-group-metadata"),
        )

    def start(self) -> None:
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(self._command, stdout=log, stderr=log, start_new_session=True)

    @property
    def remaining(self) -> int:
        """Records that are not copied yet, as it says itself."""
        lines = self._log.read_text(errors="replace").splitlines()
        said = [line for line in lines if line.startswith("{") and line.endswith("}")]
        return int(json.loads(said[-1])["remaining"]) if said else RECORDS

    @property
    def status(self) -> int | None:
        return self._process.poll()

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    @property
    def output(self) -> str:
        return self._log.read_text(errors="replace")[-3000:]


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[LocalCluster]:
    settings = PROPERTIES | {
        "transaction.state.log.num.partitions": str(STATE_PARTITIONS),
        "offsets.topic.num.partitions": "3",
        "min.insync.replicas": "2",
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
    }
    with LocalCluster(brokers=3, properties=settings, directory=tmp_path / "cluster") as cluster:
        yield cluster


@pytest.fixture
def copiers(cluster: LocalCluster, tmp_path: Path) -> Iterator[list[Copier]]:
    made = [Copier(cluster.bootstrap_servers, partition, tmp_path) for partition in (0, 1)]
    yield made
    for each in made:
        if each.status is None:
            each.kill()


def fill(servers: str) -> None:
    admin = AdminClient({"bootstrap.servers": servers})
    for future in admin.create_topics([NewTopic(name, 2, 3) for name in ("input", "output")]).values():
        future.result(30)
    for name in ("input", "output"):
        wait_until_known(servers, name, 2)
        wait_until_led(servers, name, 2)
    producer = confluent_kafka.Producer({"bootstrap.servers": servers, "acks": "all"})
    failures: list[object] = []
    for number in range(RECORDS):
        for partition in (0, 1):
            producer.produce("input", b"%d" % number, partition=partition, on_delivery=lambda e, _: failures.append(e))
        producer.poll(0)
    assert producer.flush(60) == 0
    assert not any(failures)


def copied(servers: str, partition: int) -> list[int]:
    """The committed records of the output, up to its end."""
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": "judge",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
        }
    )
    consumer.assign([confluent_kafka.TopicPartition("output", partition, 0)])
    found: list[int] = []
    while True:
        message = consumer.poll(60)
        assert message is not None, "the output does not end: a transaction was left open"
        error = message.error()
        if error is not None:
            if error.code() == confluent_kafka.KafkaError._PARTITION_EOF:
                break
            continue
        found.append(int(message.value() or b"-1"))
    consumer.close()
    return found


def test_each_record_is_copied_once_and_in_order_whatever_dies(cluster: LocalCluster, copiers: list[Copier]) -> None:
    servers = cluster.bootstrap_servers
    fill(servers)
    for each in copiers:
        each.start()
    first, second = copiers

    def killed(broker_id: int) -> None:
        cluster.kill(broker_id)
        progressed(first.remaining)
        cluster.start_broker(broker_id)

    def progressed(before: int) -> None:
        wait_until(lambda: first.remaining < before or first.status == 0, "progress without the broker", 60)

    def coordinator_dies() -> None:
        killed(cluster.leader_of(TRANSACTIONS_TOPIC, partition_for(first.transactional_id, STATE_PARTITIONS)))

    def copier_dies() -> None:
        second.kill()
        second.start()

    def leader_is_paused() -> None:
        leader = cluster.leader_of("output", 0)
        cluster.pause(leader)
        wait_until(lambda: cluster.leader_of("output", 0) not in (leader, -1), "another leader", 60)
        cluster.unpause(leader)  # before the producer's 30 s, in which it waits for an answer of the old one

    def leader_dies() -> None:
        killed(cluster.leader_of("output", 1))

    events: list[Callable[[], None]] = [coordinator_dies, copier_dies, leader_is_paused, leader_dies]
    for number, event in enumerate(events, 1):
        left = RECORDS - RECORDS * number // (len(events) + 2)
        wait_until(lambda left=left: first.remaining <= left or first.status is not None, f"{left} left", 90)  # type: ignore[misc]
        assert first.status in (None, 0), first.output  # a slow test may find it at its end
        event()
    for each in copiers:
        wait_until(lambda each=each: each.status is not None, f"{each.transactional_id} to end", 120)  # type: ignore[misc]
        assert each.status == 0, each.output
    for partition in (0, 1):
        found = copied(servers, partition)
        assert found == list(range(RECORDS)), f"partition {partition}: {len(found)} records"
