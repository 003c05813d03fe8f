"""Transactions of unchanged clients: what is committed is seen, what is aborted is not, a zombie is fenced, offsets go with the records."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from typing import Any, Protocol

import aiokafka
import confluent_kafka
import kafka
import pytest

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


CLIENTS: dict[str, Any] = {"confluent-kafka": Librdkafka, "kafka-python": KafkaPython, "aiokafka": Aiokafka}


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
