"""Transactions of unchanged clients: what is committed is seen, what is aborted is not, a zombie is fenced, offsets go with the records."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Iterator
from typing import Any, Protocol

import aiokafka
import confluent_kafka
import kafka
import pytest
from click.testing import CliRunner, Result

from kafkalite.cli.doctor.findings import Finding
from kafkalite.cli.doctor.transactions import check_transactions
from kafkalite.cli.main import main
from kafkalite.client import (
    AbortableTransactionError,
    Admin,
    GroupMetadata,
    ProducerFencedError,
    SyncConsumer,
    SyncProducer,
)
from kafkalite.clock import SystemClock
from kafkalite.types import TopicPartition
from tests.wire.conftest import TopicMaker

TIMEOUT_S = 60


class TransactionalProducer(Protocol):
    """One client's transactional producer, initialized."""

    def begin(self) -> None: ...

    def send(self, topic: str, value: bytes) -> None:
        """To partition 0; acknowledged when it returns."""

    def send_offset(self, topic: str, offset: int, group: str) -> None:
        """The group's offset of partition 0 becomes part of the transaction."""

    def commit(self) -> None: ...

    def abort(self) -> None: ...

    def close(self) -> None: ...


class Librdkafka:
    """confluent-kafka."""

    fenced = (confluent_kafka.KafkaException,)

    def __init__(self, servers: str, transactional_id: str) -> None:
        self._servers = servers
        self._producer = confluent_kafka.Producer(
            {"bootstrap.servers": servers, "transactional.id": transactional_id, "log_level": 0}
        )
        self._producer.init_transactions(TIMEOUT_S)

    def begin(self) -> None:
        self._producer.begin_transaction()

    def send(self, topic: str, value: bytes) -> None:
        failures: list[Any] = []
        self._producer.produce(topic, value, partition=0, on_delivery=lambda error, _: failures.append(error))
        assert self._producer.flush(TIMEOUT_S) == 0
        assert failures == [None], failures

    def send_offset(self, topic: str, offset: int, group: str) -> None:
        consumer = confluent_kafka.Consumer({"bootstrap.servers": self._servers, "group.id": group})
        places = [confluent_kafka.TopicPartition(topic, 0, offset)]
        self._producer.send_offsets_to_transaction(places, consumer.consumer_group_metadata(), TIMEOUT_S)
        consumer.close()

    def commit(self) -> None:
        self._producer.commit_transaction(TIMEOUT_S)

    def abort(self) -> None:
        self._producer.abort_transaction(TIMEOUT_S)

    def close(self) -> None: ...


class KafkaPython:
    """kafka-python."""

    fenced = (kafka.errors.KafkaError,)

    def __init__(self, servers: str, transactional_id: str) -> None:
        self._producer = kafka.KafkaProducer(bootstrap_servers=servers, transactional_id=transactional_id)
        self._producer.init_transactions()

    def begin(self) -> None:
        self._producer.begin_transaction()

    def send(self, topic: str, value: bytes) -> None:
        self._producer.send(topic, value, partition=0).get(TIMEOUT_S)

    def send_offset(self, topic: str, offset: int, group: str) -> None:
        places = {kafka.TopicPartition(topic, 0): kafka.OffsetAndMetadata(offset, "", -1)}
        self._producer.send_offsets_to_transaction(places, group)

    def commit(self) -> None:
        self._producer.commit_transaction()

    def abort(self) -> None:
        self._producer.abort_transaction()

    def close(self) -> None:
        self._producer.close(1)


class Aiokafka:
    """aiokafka, on a loop of its own."""

    fenced = (aiokafka.errors.KafkaError,)

    def __init__(self, servers: str, transactional_id: str) -> None:
        self._loop = asyncio.new_event_loop()

        async def make() -> aiokafka.AIOKafkaProducer:
            producer = aiokafka.AIOKafkaProducer(bootstrap_servers=servers, transactional_id=transactional_id)
            await producer.start()
            return producer

        self._producer = self._run(make())

    def _run(self, coroutine: Any) -> Any:
        return self._loop.run_until_complete(asyncio.wait_for(coroutine, TIMEOUT_S))

    def begin(self) -> None:
        self._run(self._producer.begin_transaction())

    def send(self, topic: str, value: bytes) -> None:
        self._run(self._producer.send_and_wait(topic, value, partition=0))

    def send_offset(self, topic: str, offset: int, group: str) -> None:
        self._run(self._producer.send_offsets_to_transaction({aiokafka.TopicPartition(topic, 0): offset}, group))

    def commit(self) -> None:
        self._run(self._producer.commit_transaction())

    def abort(self) -> None:
        self._run(self._producer.abort_transaction())

    def close(self) -> None:
        self._run(self._producer.stop())
        self._loop.close()


class Ours:
    """kafkalite's blocking producer."""

    fenced = (ProducerFencedError,)

    def __init__(self, servers: str, transactional_id: str) -> None:
        self._producer = SyncProducer(bootstrap_servers=servers, transactional_id=transactional_id)
        self._producer.init_transactions(TIMEOUT_S)
        self.begin, self.commit = self._producer.begin_transaction, self._producer.commit_transaction
        self.abort, self.close = self._producer.abort_transaction, self._producer.close

    def send(self, topic: str, value: bytes) -> None:
        self._producer.send_and_wait(topic, value, partition=0)

    def send_offset(self, topic: str, offset: int, group: str) -> None:
        self._producer.send_offsets_to_transaction({TopicPartition(topic, 0): offset}, group)


CLIENTS: dict[str, Any] = {
    "confluent-kafka": Librdkafka,
    "kafka-python": KafkaPython,
    "aiokafka": Aiokafka,
    "kafkalite": Ours,
}


@pytest.fixture(params=CLIENTS)
def new_producer(request: pytest.FixtureRequest, servers: str) -> Iterator[Callable[[str], TransactionalProducer]]:
    made: list[TransactionalProducer] = []

    def make(transactional_id: str) -> TransactionalProducer:
        made.append(CLIENTS[request.param](servers, f"{request.param}-{transactional_id}"))
        return made[-1]

    yield make
    for each in made:
        each.close()


def read(servers: str, topic: str, count: int, isolation: str = "read_committed") -> list[bytes]:
    """The values of partition 0; what comes after `count` of them too, if it is there."""
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": servers, "group.id": "unused", "isolation.level": isolation, "enable.partition.eof": True}
    )
    consumer.assign([confluent_kafka.TopicPartition(topic, 0, 0)])
    found: list[bytes] = []
    deadline = time.monotonic() + TIMEOUT_S
    at_end = False
    while not (at_end and len(found) >= count) and time.monotonic() < deadline:
        message = consumer.poll(0.5)
        if message is not None and message.error() is None:
            found.append(message.value() or b"")
        elif message is not None:
            at_end = True
    consumer.close()
    return found


def committed_offset(servers: str, topic: str, group: str) -> int:
    """Stable ones: it waits for transactions that have not ended."""
    consumer = confluent_kafka.Consumer({"bootstrap.servers": servers, "group.id": group})
    offset = consumer.committed([confluent_kafka.TopicPartition(topic, 0)], timeout=TIMEOUT_S)[0].offset
    consumer.close()
    return int(offset)


def test_records_and_offsets_are_committed_together_or_not_at_all(
    new_producer: Callable[[str], TransactionalProducer], servers: str, make_topic: TopicMaker
) -> None:
    topic = make_topic()
    producer = new_producer("copies")
    for number, end in enumerate([producer.commit, producer.abort, producer.commit, producer.abort]):
        producer.begin()
        producer.send(topic, b"%d-a" % number)
        producer.send(topic, b"%d-b" % number)
        producer.send_offset(topic, 10 + number, topic)
        end()
    assert read(servers, topic, 4) == [b"0-a", b"0-b", b"2-a", b"2-b"]
    assert len(read(servers, topic, 8, "read_uncommitted")) == 8
    assert committed_offset(servers, topic, topic) == 12


def test_a_zombie_is_fenced(
    new_producer: Callable[[str], TransactionalProducer], servers: str, make_topic: TopicMaker
) -> None:
    topic = make_topic()
    zombie = new_producer("shared")
    zombie.begin()
    zombie.send(topic, b"zombie")
    successor = new_producer("shared")
    successor.begin()
    successor.send(topic, b"successor")
    with pytest.raises(zombie.fenced):  # type: ignore[attr-defined]
        zombie.commit()
    successor.commit()
    assert read(servers, topic, 1) == [b"successor"]


def test_a_copier_of_ours_leaves_each_record_once_and_its_zombie_commits_nothing(
    servers: str, make_topic: TopicMaker
) -> None:
    """Records and offsets go together, also where a member lost its partitions to another (KIP-447)."""
    source, target = make_topic(), make_topic()
    with SyncProducer(bootstrap_servers=servers) as producer:
        for number in range(30):
            producer.send(source, b"%d" % number, partition=0)
    copier = {"bootstrap_servers": servers, "transactional_id": f"copy-{source}"}
    options = {"bootstrap_servers": servers, "auto_offset_reset": "earliest", "isolation_level": "read_committed"}
    reading = {**options, "group_id": source, "enable_auto_commit": False}
    with SyncConsumer(source, **reading) as consumer, SyncProducer(**copier) as producer:
        producer.init_transactions()
        stale: GroupMetadata | None = None
        for attempt in range(4):
            found = consumer.getmany(timeout_ms=TIMEOUT_S * 1000, max_records=10)
            ((place, records),) = found.items()
            producer.begin_transaction()
            for each in records:
                producer.send(target, each.value, partition=0)
            stale = consumer.group_metadata()
            producer.send_offsets_to_transaction({place: records[-1].offset + 1}, stale)
            if attempt == 1:
                producer.flush()  # else what was not sent yet would be dropped
                producer.abort_transaction()
                consumer.seek(place, records[0].offset)
            else:
                producer.commit_transaction()
        producer.begin_transaction()
        lost = GroupMetadata(stale.group_id, stale.generation_id - 1, stale.member_id)
        with pytest.raises(AbortableTransactionError):
            producer.send_offsets_to_transaction({place: 0}, lost)
        producer.abort_transaction()
        assert consumer.committed(place) == 30
    assert read(servers, target, 30) == [b"%d" % number for number in range(30)]
    with SyncConsumer(**options) as consumer:
        place = TopicPartition(target, 0)
        end = consumer.end_offsets([place])[place]
        assert end > 40, "what was aborted, and the markers, have offsets too"
        rows = sum(batch.num_rows for batch in consumer.read_range(place, 0, end))
        assert rows == 30
        consumer.assign([place])
        deadline = time.monotonic() + TIMEOUT_S
        while consumer.position(place) < end and time.monotonic() < deadline:
            consumer.getmany(timeout_ms=200)
        assert consumer.position(place) == end and consumer.lag(place) == 0


def test_a_transaction_that_is_aborted_by_hand(servers: str, make_topic: TopicMaker) -> None:
    topic = make_topic()
    with SyncProducer(bootstrap_servers=servers, transactional_id=f"by-hand-{topic}") as producer:
        producer.init_transactions()
        producer.begin_transaction()
        offset = producer.send_and_wait(topic, b"x", partition=0).offset

        def call(*words: str) -> Result:
            found = ["transaction", *words, "--bootstrap-server", servers]
            return CliRunner().invoke(main, found)

        (found,) = [each.found for each in asyncio.run(examine(servers, 90_000)) if topic in each.found]
        assert found.startswith(f"by-hand-{topic} is Ongoing since ") and found.endswith(f" in {topic}-0")
        assert not [each for each in asyncio.run(examine(servers, 0)) if topic in each.found], "it is open for seconds"
        begun = ["abort", f"{topic}-0", "--start-offset", str(offset)]
        assert call(*begun).exit_code == 2, "a script has to say yes"
        shown = call(*begun, "--dry-run", "-o", "json")
        assert json.loads(shown.stdout)[0]["transaction_start_offset"] == offset
        assert call("find-hanging", topic, "--longest", "0", "--check").exit_code == 0, "its coordinator will end it"
        assert call(*begun, "--yes").exit_code == 0
        assert call(*begun, "--yes").exit_code == 3, "no transaction begins there any more"


async def examine(servers: str, later_ms: int) -> list[Finding]:
    """What doctor finds of transactions, or would find so much later."""
    async with Admin(bootstrap_servers=servers) as admin:
        return await check_transactions(admin, SystemClock().now_ms() + later_ms)
