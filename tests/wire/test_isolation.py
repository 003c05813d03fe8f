"""Readers of uncommitted and of committed records differ by exactly what was aborted: every client, every codec, also after deletion
and compaction.

Two transactional producers for each codec write into one partition, turn by turn, so that transactions overlap and most of them end in
batches of another one.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Iterator

import aiokafka
import confluent_kafka
import kafka
import pytest
from confluent_kafka.admin import AdminClient

from kafkalite.client import Consumer
from kafkalite.local.broker_process import wait_until
from kafkalite.types import TopicPartition
from tests.wire.clients import CODECS

TIMEOUT_S = 60
Values = list[bytes]


def by_confluent(servers: str, topic: str, start: int, end: int, isolation: str) -> Values:
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": servers, "group.id": "unused", "isolation.level": isolation, "enable.partition.eof": True}
    )
    consumer.assign([confluent_kafka.TopicPartition(topic, 0, start)])
    found: Values = []
    while True:
        message = consumer.poll(TIMEOUT_S)
        assert message is not None, "nothing came for too long"
        if message.error() is not None:
            assert message.error().code() == confluent_kafka.KafkaError._PARTITION_EOF, message.error()
            consumer.close()
            return found
        found.append(message.value() or b"")


def by_kafka_python(servers: str, topic: str, start: int, end: int, isolation: str) -> Values:
    consumer = kafka.KafkaConsumer(bootstrap_servers=servers, isolation_level=isolation)
    place = kafka.TopicPartition(topic, 0)
    consumer.assign([place])
    consumer.seek(place, start)
    found: Values = []
    while consumer.position(place) < end:
        found += [each.value for records in consumer.poll(1000).values() for each in records]
    consumer.close()
    return found


def by_aiokafka(servers: str, topic: str, start: int, end: int, isolation: str) -> Values:
    async def read() -> Values:
        consumer = aiokafka.AIOKafkaConsumer(bootstrap_servers=servers, isolation_level=isolation)
        await consumer.start()
        place = aiokafka.TopicPartition(topic, 0)
        consumer.assign([place])
        consumer.seek(place, start)
        found: Values = []
        while await consumer.position(place) < end:
            got = await consumer.getmany(timeout_ms=1000)
            found += [each.value for records in got.values() for each in records]
        await consumer.stop()
        return found

    return asyncio.run(asyncio.wait_for(read(), TIMEOUT_S))


def by_ours(servers: str, topic: str, start: int, end: int, isolation: str) -> Values:
    async def read() -> Values:
        async with Consumer(bootstrap_servers=servers, isolation_level=isolation) as consumer:
            place = TopicPartition(topic, 0)
            consumer.assign([place])
            consumer.seek(place, start)
            found: Values = []
            while await consumer.position(place) < end:
                got = await consumer.getmany(timeout_ms=1000)
                found += [each.value or b"" for records in got.values() for each in records]
            return found

    return asyncio.run(asyncio.wait_for(read(), TIMEOUT_S))


READERS: dict[str, Callable[[str, str, int, int, str], Values]] = {
    "confluent-kafka": by_confluent,
    "kafka-python": by_kafka_python,
    "aiokafka": by_aiokafka,
    "kafkalite": by_ours,
}


def end_of_all_transactions(servers: str, topic: str) -> int:
    """Where partition 0 ends, once no transaction is open: producers do not wait for the markers of their last one."""

    def end_for(isolation: str) -> int:
        settings = {"bootstrap.servers": servers, "group.id": "unused", "isolation.level": isolation}
        consumer = confluent_kafka.Consumer(settings)
        place = confluent_kafka.TopicPartition(topic, 0)
        end = consumer.get_watermark_offsets(place, timeout=TIMEOUT_S, cached=False)[1]
        consumer.close()
        return int(end)

    written = end_for("read_uncommitted")
    wait_until(lambda: end_for("read_committed") >= written, "the markers of the last transactions", TIMEOUT_S)
    return end_for("read_uncommitted")


class Written:
    """A topic, where it ends, and (value, was it committed) of its records in the order of their offsets."""

    def __init__(self, servers: str, topic: str) -> None:
        self.topic = topic
        self.end = 0
        self.records: list[tuple[int, bytes, bool]] = []
        numbers = itertools.count()
        for codec in CODECS:
            producers = [
                confluent_kafka.Producer(
                    {
                        "bootstrap.servers": servers,
                        "transactional.id": f"{topic}-{codec}-{number}",
                        "compression.type": codec,
                        "log_level": 0,
                    }
                )
                for number in range(2)
            ]
            for each in producers:
                each.init_transactions(TIMEOUT_S)
            for outcomes in ((True, False), (False, False), (False, True), (True, True)):
                for each in producers:
                    each.begin_transaction()
                for _ in range(2):
                    for each, committed in zip(producers, outcomes, strict=True):
                        self._send(each, [b"%d" % next(numbers) * 30 for _ in range(5)], committed)
                for each, committed in zip(producers, outcomes, strict=True):
                    if committed:
                        each.commit_transaction(TIMEOUT_S)
                    else:
                        each.abort_transaction(TIMEOUT_S)
        self.end = end_of_all_transactions(servers, topic)

    def _send(self, producer: confluent_kafka.Producer, values: Values, committed: bool) -> None:
        def delivered(error: object, message: confluent_kafka.Message) -> None:
            assert error is None, error
            self.records.append((message.offset() or 0, message.value() or b"", committed))

        for value in values:
            producer.produce(self.topic, value, partition=0, on_delivery=delivered)
        assert producer.flush(TIMEOUT_S) == 0

    def expected(self, start: int, isolation: str) -> Values:
        only_committed = isolation == "read_committed"
        return [
            value
            for offset, value, committed in sorted(self.records)
            if offset >= start and (committed or not only_committed)
        ]


@pytest.fixture(scope="module")
def written(servers: str, admin: AdminClient) -> Iterator[Written]:
    topic = "isolation"
    wanted = confluent_kafka.admin.NewTopic(topic, 1, 3)
    admin.create_topics([wanted])[topic].result(TIMEOUT_S)
    yield Written(servers, topic)


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("isolation", ["read_committed", "read_uncommitted"])
def test_readers_differ_by_what_was_aborted(servers: str, written: Written, reader: str, isolation: str) -> None:
    middle = sorted(written.records)[len(written.records) // 2 + 3][0]
    for start in (0, middle):
        found = READERS[reader](servers, written.topic, start, written.end, isolation)
        assert found == written.expected(start, isolation)


def test_what_is_left_after_a_deletion_is_told_apart_too(servers: str, written: Written, admin: AdminClient) -> None:
    """The deletion ends within a transaction that was aborted, so that its beginning is gone and its marker is there."""
    aborted = [offset for offset, _, committed in sorted(written.records) if not committed]
    start = aborted[len(aborted) // 2 + 2]
    place = confluent_kafka.TopicPartition(written.topic, 0, start)
    for deleted in admin.delete_records([place]).values():
        deleted.result(TIMEOUT_S)
    for reader, isolation in itertools.product(READERS, ("read_committed", "read_uncommitted")):
        found = READERS[reader](servers, written.topic, start, written.end, isolation)
        assert found == written.expected(start, isolation), (reader, isolation)


def test_what_is_left_after_compaction_is_told_apart_too(servers: str, admin: AdminClient) -> None:
    """Segments of few records, of which all but the last are compacted; aborted records go, and hide nothing that was committed."""
    topic = "isolation-compacted"
    settings = {"cleanup.policy": "compact", "segment.bytes": "1000", "min.cleanable.dirty.ratio": "0.01"}
    admin.create_topics([confluent_kafka.admin.NewTopic(topic, 1, 3, config=settings)])[topic].result(TIMEOUT_S)
    producer = confluent_kafka.Producer({"bootstrap.servers": servers, "transactional.id": topic})
    producer.init_transactions(TIMEOUT_S)
    committed: Values = []
    aborted: Values = []
    for number in range(40):
        producer.begin_transaction()
        commits = number % 3 == 0
        for key in (b"one", b"two"):
            value = b"%s %d" % (key, number)
            producer.produce(topic, value * 5, key=key, partition=0)
            (committed if commits else aborted).append(value * 5)
        producer.flush(TIMEOUT_S)  # what is aborted before it was sent never is
        if commits:
            producer.commit_transaction(TIMEOUT_S)
        else:
            producer.abort_transaction(TIMEOUT_S)
    end = end_of_all_transactions(servers, topic)

    def is_told_apart() -> bool:
        """By all alike, once the cleaner has nothing more to do."""
        visible = [read(servers, topic, 0, end, "read_committed") for read in READERS.values()]
        everything = [read(servers, topic, 0, end, "read_uncommitted") for read in READERS.values()]
        for found in visible:
            assert set(committed[-2:]) <= set(found) <= set(committed)
        for found in everything:
            assert set(found) <= {*committed, *aborted}
        is_clean = len(visible[0]) < len(committed) and len(everything[0]) < len(committed) + len(aborted)
        differ = [each for each in everything[0] if each in aborted]
        alike = all(each == visible[0] for each in visible) and all(each == everything[0] for each in everything)
        return is_clean and alike and visible[0] == [each for each in everything[0] if each not in differ]

    wait_until(is_told_apart, "the cleaner to have compacted the topic", TIMEOUT_S)
