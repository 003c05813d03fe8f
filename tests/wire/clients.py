"""Four foreign clients behind one shape: confluent-kafka (librdkafka), kafka-python, aiokafka, and Debian's kcat.

None is changed or configured beyond what a test is about. Consumers read from a given offset of one partition, without a
group, until they have `count` records.
"""

from __future__ import annotations

import asyncio
import subprocess
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol

import aiokafka
import confluent_kafka
import kafka

from tests.conftest import foreign_program

TIMEOUT_S: Final = 20
CODECS: Final = ("none", "gzip", "snappy", "lz4", "zstd")

Headers = tuple[tuple[str, bytes | None], ...]


@dataclass(frozen=True)
class Record:
    """What is sent and what must come back; a timestamp of None is left to the client."""

    key: bytes | None
    value: bytes | None
    headers: Headers = ()
    timestamp_ms: int | None = None


@dataclass(frozen=True)
class Read:
    """A record as a consumer saw it."""

    offset: int
    key: bytes | None
    value: bytes | None
    headers: Headers
    timestamp_ms: int


class Client(Protocol):
    name: str
    free_form: bool
    """Can it send and show any bytes as key and header, and timestamps of the caller's choice?"""
    null_headers: bool
    """Can it send a header whose value is null?"""

    def produce(
        self, servers: str, topic: str, records: Sequence[Record], *, acks: str = "all", codec: str = "none"
    ) -> None:
        """Send to partition 0, in order. Raises when an acknowledgement is refused or missing."""

    def consume(self, servers: str, topic: str, count: int, *, offset: int = 0, partition: int = 0) -> list[Read]:
        """The first `count` records from `offset`. Raises TimeoutError, saying how many came."""


class Confluent:
    name = "confluent-kafka"
    free_form = True
    null_headers = True

    def produce(
        self, servers: str, topic: str, records: Sequence[Record], *, acks: str = "all", codec: str = "none"
    ) -> None:
        errors: list[object] = []
        settings = {"bootstrap.servers": servers, "acks": acks, "compression.type": codec, "linger.ms": 20}
        producer = confluent_kafka.Producer(settings)
        for record in records:
            producer.produce(
                topic,
                value=record.value,
                key=record.key,
                partition=0,
                headers=list(record.headers),
                timestamp=record.timestamp_ms or 0,
                on_delivery=lambda error, message: errors.append(error) if error is not None else None,
            )
        left = producer.flush(TIMEOUT_S)
        assert not errors, errors
        assert left == 0, f"{left} records without an answer"

    def consume(self, servers: str, topic: str, count: int, *, offset: int = 0, partition: int = 0) -> list[Read]:
        settings = {"bootstrap.servers": servers, "group.id": "unused", "enable.auto.commit": False}
        consumer = confluent_kafka.Consumer(settings)
        found: list[Read] = []
        try:
            consumer.assign([confluent_kafka.TopicPartition(topic, partition, offset)])
            deadline = time.monotonic() + TIMEOUT_S
            while len(found) < count:
                message = consumer.poll(0.2)
                if message is not None:
                    assert message.error() is None, message.error()
                    headers = tuple(message.headers() or ())
                    stamp = message.timestamp()[1]
                    found.append(Read(message.offset(), message.key(), message.value(), headers, stamp))
                _check(deadline, found, count)
        finally:
            consumer.close()
        return found


class KafkaPython:
    name = "kafka-python"
    free_form = True
    null_headers = False

    def produce(
        self, servers: str, topic: str, records: Sequence[Record], *, acks: str = "all", codec: str = "none"
    ) -> None:
        producer = kafka.KafkaProducer(
            bootstrap_servers=servers.split(","),
            acks=acks if acks == "all" else int(acks),
            enable_idempotence=acks == "all",
            compression_type=None if codec == "none" else codec,
            linger_ms=20,
        )
        try:
            sent = [
                producer.send(topic, record.value, record.key, list(record.headers), 0, record.timestamp_ms)
                for record in records
            ]
            producer.flush(TIMEOUT_S)
            for each in sent:
                each.get(TIMEOUT_S)
        finally:
            producer.close(TIMEOUT_S)

    def consume(self, servers: str, topic: str, count: int, *, offset: int = 0, partition: int = 0) -> list[Read]:
        consumer = kafka.KafkaConsumer(
            bootstrap_servers=servers.split(","), group_id=None, enable_auto_commit=False, check_crcs=True
        )
        found: list[Read] = []
        try:
            assigned = kafka.TopicPartition(topic, partition)
            consumer.assign([assigned])
            consumer.seek(assigned, offset)
            deadline = time.monotonic() + TIMEOUT_S
            while len(found) < count:
                for batch in consumer.poll(200).values():
                    found += [Read(r.offset, r.key, r.value, _headers(r.headers), r.timestamp) for r in batch]
                _check(deadline, found, count)
        finally:
            consumer.close()
        return found[:count]


class AioKafka:
    name = "aiokafka"
    free_form = True
    null_headers = True

    def produce(
        self, servers: str, topic: str, records: Sequence[Record], *, acks: str = "all", codec: str = "none"
    ) -> None:
        async def run() -> None:
            producer = aiokafka.AIOKafkaProducer(
                bootstrap_servers=servers,
                acks=acks if acks == "all" else int(acks),
                compression_type=None if codec == "none" else codec,
                linger_ms=20,
            )
            await producer.start()
            try:
                for sent in [
                    await producer.send(
                        topic,
                        record.value,
                        record.key,
                        partition=0,
                        timestamp_ms=record.timestamp_ms,
                        headers=list(record.headers),
                    )
                    for record in records
                ]:
                    await sent
            finally:
                await producer.stop()

        asyncio.run(asyncio.wait_for(run(), TIMEOUT_S))

    def consume(self, servers: str, topic: str, count: int, *, offset: int = 0, partition: int = 0) -> list[Read]:
        found: list[Read] = []

        async def run() -> None:
            consumer = aiokafka.AIOKafkaConsumer(
                bootstrap_servers=servers, group_id=None, enable_auto_commit=False, check_crcs=True
            )
            await consumer.start()
            try:
                assigned = aiokafka.TopicPartition(topic, partition)
                consumer.assign([assigned])
                consumer.seek(assigned, offset)
                deadline = time.monotonic() + TIMEOUT_S
                while len(found) < count:
                    for batch in (await consumer.getmany(timeout_ms=200)).values():
                        found.extend(Read(r.offset, r.key, r.value, _headers(r.headers), r.timestamp) for r in batch)
                    _check(deadline, found, count)
            finally:
                await consumer.stop()

        asyncio.run(run())
        return found[:count]


class Kcat:
    name = "kcat"
    free_form = False
    null_headers = False

    def produce(
        self, servers: str, topic: str, records: Sequence[Record], *, acks: str = "all", codec: str = "none"
    ) -> None:
        for record in records:  # one process each, because headers are arguments
            arguments = ["-P", "-b", servers, "-t", topic, "-p", "0", "-z", codec, "-X", f"acks={acks}"]
            for name, value in record.headers:
                arguments += ["-H", f"{name}={(value or b'').decode()}"]
            if record.value is None:  # with -Z what is empty after the key's delimiter is null
                self._run([*arguments, "-Z", "-K", ":"], (record.key or b"") + b":\n")
                continue
            arguments += ["-k", record.key.decode()] if record.key is not None else []
            with tempfile.NamedTemporaryFile() as content:  # a file named as argument is sent whole as one value
                content.write(record.value)
                content.flush()
                self._run([*arguments, content.name])

    def consume(self, servers: str, topic: str, count: int, *, offset: int = 0, partition: int = 0) -> list[Read]:
        lengths_then_bytes = "%o %T %K %S %h\n%k%s"
        source = ["-b", servers, "-t", topic, "-p", str(partition), "-o", str(offset)]
        output = self._run(["-C", "-q", *source, "-c", str(count), "-f", lengths_then_bytes])
        found = []
        while output:
            line, _, output = output.partition(b"\n")
            at, stamp, key_length, value_length, header_text = line.split(b" ", 4)
            key, output = _take(output, int(key_length))
            value, output = _take(output, int(value_length))
            pairs = [pair.partition(b"=") for pair in header_text.split(b",") if pair]
            headers = tuple((name.decode(), text) for name, _, text in pairs)
            found.append(Read(int(at), key, value, headers, int(stamp)))
        return found

    def _run(self, arguments: list[str], stdin: bytes = b"") -> bytes:
        program = foreign_program("kcat", "kcat")
        done = subprocess.run([program, *arguments], input=stdin, capture_output=True, timeout=TIMEOUT_S)
        assert done.returncode == 0, done.stderr.decode(errors="replace")
        return done.stdout


CLIENTS: Final[tuple[Client, ...]] = (Confluent(), KafkaPython(), AioKafka(), Kcat())


def _headers(headers: Sequence[tuple[str, bytes | None]]) -> Headers:
    return tuple((name, value) for name, value in headers)


def _take(data: bytes, length: int) -> tuple[bytes | None, bytes]:
    return (None, data) if length < 0 else (data[:length], data[length:])


def _check(deadline: float, found: list[Read], count: int) -> None:
    if len(found) < count and time.monotonic() > deadline:
        raise TimeoutError(f"{len(found)} of {count} records within {TIMEOUT_S} s")
