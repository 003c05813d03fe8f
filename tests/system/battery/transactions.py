"""Transactions whose end comes late, whose producer has a successor, or whose time is over while their client is frozen."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from confluent_kafka import Consumer as ForeignConsumer
from confluent_kafka import KafkaError, Producer
from confluent_kafka import TopicPartition as ForeignPartition

from kafkalite.client import AbortableTransactionError, ClientError, FatalTransactionError, SyncAdmin, TopicPartition
from kafkalite.client import Admin as OurAdmin
from kafkalite.client import Producer as OurProducer
from kafkalite.local.broker_process import wait_until
from kafkalite.local.cluster import LocalCluster
from tests.system.scenario import Scenario

pytestmark = [pytest.mark.system, pytest.mark.timeout(600)]

SETTINGS: Final = {
    "transaction.state.log.num.partitions": "1",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
}
PROGRAM: Final = """
import sys
from confluent_kafka import KafkaException, Producer
servers, transactional_id, timeout_ms, topic = sys.argv[1:]
settings = {"bootstrap.servers": servers, "transactional.id": transactional_id, "transaction.timeout.ms": timeout_ms}
producer = Producer(settings)
producer.init_transactions(60)
producer.begin_transaction()
for value in ("a", "b"):
    producer.produce(topic, value)
producer.flush(60)
print("sent", flush=True)
sys.stdin.readline()
try:
    producer.produce(topic, "c")
    producer.commit_transaction(60)
except KafkaException as problem:
    print("refused", problem.args[0].name(), flush=True)
else:
    print("committed", flush=True)
"""


@pytest.fixture(scope="module")
def cluster(new_cluster: Callable[..., Any]) -> Iterator[LocalCluster]:
    with new_cluster(properties=SETTINGS) as running:
        yield running


class FrozenClient:
    """A process in the middle of a transaction, which stands still until `wake`; then it goes on and tells what came of it."""

    def __init__(self, servers: str, transactional_id: str, timeout_ms: int, topic: str, folder: Path) -> None:
        self._errors = folder / f"{transactional_id}.log"
        with self._errors.open("wb") as errors:
            self._process = subprocess.Popen(
                [sys.executable, "-c", PROGRAM, servers, transactional_id, str(timeout_ms), topic],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == "sent\n", self._errors.read_text()
        self._process.send_signal(signal.SIGSTOP)

    def wake(self) -> str:
        self._process.send_signal(signal.SIGCONT)
        said, _ = self._process.communicate("\n", timeout=120)
        return said.strip()

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()


def committed(servers: str, topic: str) -> list[str]:
    """What readers of committed records find in the only partition, which must end for them."""
    settings = {"bootstrap.servers": servers, "group.id": "judge", "enable.partition.eof": True}
    consumer = ForeignConsumer(settings | {"isolation.level": "read_committed"})
    consumer.assign([ForeignPartition(topic, 0, 0)])
    found: list[str] = []
    try:
        while True:
            message = consumer.poll(60)
            assert message is not None, "the partition does not end: a transaction is open"
            error = message.error()
            if error is None:
                found.append((message.value() or b"").decode())
            elif error.code() == KafkaError._PARTITION_EOF:
                return found
    finally:
        consumer.close()


def nothing_is_open(admin: SyncAdmin, topic: str) -> bool:
    partition = TopicPartition(topic, 0)
    states = admin.describe_producers([partition])[partition]
    return all(each.transaction_start_offset is None for each in states)


def test_the_older_of_two_producers_is_fenced_when_it_wakes_up(scenario: Scenario, tmp_path: Path) -> None:
    servers, topic = scenario.cluster.bootstrap_servers, scenario.create_topic(1)
    old = FrozenClient(servers, "two", 60_000, topic, tmp_path)
    try:
        new = Producer({"bootstrap.servers": servers, "transactional.id": "two"})
        new.init_transactions(60)
        new.begin_transaction()
        new.produce(topic, "new")
        new.commit_transaction(60)
        assert old.wake() == "refused _FENCED"
    finally:
        old.close()
    assert committed(servers, topic) == ["new"]
    with SyncAdmin(bootstrap_servers=servers) as admin:
        wait_until(lambda: nothing_is_open(admin, topic), "no open transaction", 60)


def test_a_transaction_times_out_while_its_client_is_frozen(scenario: Scenario, tmp_path: Path) -> None:
    servers, topic = scenario.cluster.bootstrap_servers, scenario.create_topic(1)
    frozen = FrozenClient(servers, "late", 1_000, topic, tmp_path)
    try:
        with SyncAdmin(bootstrap_servers=servers) as admin:
            wait_until(lambda: nothing_is_open(admin, topic), "the transaction to be aborted", 60)
            assert committed(servers, topic) == []
            assert frozen.wake().startswith("refused")
            wait_until(lambda: nothing_is_open(admin, topic), "no open transaction", 60)
    finally:
        frozen.close()
    assert committed(servers, topic) == []


def test_an_end_that_comes_late_ends_the_next_transaction(scenario: Scenario) -> None:
    """The hole that KIP-890's second part closes, and 3.9 has: EndTxn names a producer, and not which of its transactions.

    The late request commits what the next transaction has written so far. What it writes from then on is refused, because the leader asks
    the coordinator, so nothing hangs, and the producer is broken and knows.
    """
    servers, topic = scenario.cluster.bootstrap_servers, scenario.create_topic(1)

    async def run() -> None:
        options: dict[str, Any] = {"bootstrap_servers": servers}
        async with OurAdmin(**options) as admin, OurProducer(transactional_id="hole", **options) as producer:
            await producer.init_transactions()
            await producer.begin_transaction()
            await producer.send_and_wait(topic, b"1", partition=0)
            prepared = await producer.prepare_transaction()
            assert prepared is not None
            await producer.commit_transaction()
            await producer.begin_transaction()
            await producer.send_and_wait(topic, b"2", partition=0)
            await admin.end_transaction(prepared, commit=True)
            with pytest.raises(ClientError):
                while True:  # until the marker is there
                    await producer.send_and_wait(topic, b"3", partition=0)
            with pytest.raises(AbortableTransactionError):
                await producer.commit_transaction()
            with pytest.raises(FatalTransactionError):  # the coordinator has nothing to abort
                await producer.abort_transaction()

    asyncio.run(run())
    assert committed(servers, topic)[:2] == ["1", "2"]
    with SyncAdmin(bootstrap_servers=servers) as admin:
        wait_until(lambda: nothing_is_open(admin, topic), "no open transaction", 60)
