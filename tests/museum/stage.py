"""A cluster with what is needed to show a client on it: topics, and a client of today that writes and reads for the comparison."""

from __future__ import annotations

import socket
import struct
import time
import uuid
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from tests.museum.contract import Exhibit
from tests.museum.program import Program

COUNT: Final = 20
TIMEOUT_S: Final = 30


@dataclass(frozen=True)
class Stage:
    """A cluster that clients are shown on. `zookeeper` is empty where there is none."""

    bootstrap: str
    zookeeper: str
    replicas: int = 1
    """Of each partition of the topics that are made."""

    @cached_property
    def admin(self) -> AdminClient:
        return AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 2})

    def create(self, topic: str) -> str:
        """A topic of two partitions, and its name, which nobody else has."""
        name = f"{topic}-{uuid.uuid4().hex[:8]}"
        self.admin.create_topics([NewTopic(name, 2, self.replicas)], operation_timeout=TIMEOUT_S)[name].result(
            TIMEOUT_S
        )
        return name

    def write(self, topic: str, numbers: Sequence[int], codec: str = "none") -> None:
        producer = Producer({"bootstrap.servers": self.bootstrap, "compression.type": codec, "linger.ms": 20})
        failed = []
        for number in numbers:
            producer.produce(
                topic,
                f"value-{number}",
                f"key-{number}",
                number % 2,
                on_delivery=lambda problem, _: failed.append(problem) if problem else None,
            )
        assert producer.flush(TIMEOUT_S) == 0 and not failed, failed

    def read(self, topic: str, count: int) -> list[tuple[str, str]]:
        """Keys and values of so many committed records."""
        consumer = Consumer({"bootstrap.servers": self.bootstrap, "group.id": "museum", "enable.auto.commit": False})
        with closing(consumer):
            consumer.assign([TopicPartition(topic, each, 0) for each in (0, 1)])
            found: list[tuple[str, str]] = []
            deadline = time.monotonic() + TIMEOUT_S
            while len(found) < count and time.monotonic() < deadline:
                if (record := consumer.poll(0.2)) is not None and record.error() is None:
                    found.append(((record.key() or b"").decode(), (record.value() or b"").decode()))
            return sorted(found)

    def _group(self, group: str) -> Consumer:
        return Consumer({"bootstrap.servers": self.bootstrap, "group.id": group, "enable.auto.commit": False})

    def commit(self, topic: str, group: str, offsets: Mapping[int, int]) -> None:
        """For a group without members."""
        with closing(self._group(group)) as consumer:
            wanted = [TopicPartition(topic, partition, offset) for partition, offset in offsets.items()]
            consumer.commit(offsets=wanted, asynchronous=False)

    def committed(self, topic: str, group: str) -> dict[int, int]:
        with closing(self._group(group)) as consumer:
            wanted = [TopicPartition(topic, partition) for partition in (0, 1)]
            return {each.partition: each.offset for each in consumer.committed(wanted, timeout=TIMEOUT_S)}

    def commit_to_zookeeper(self, topic: str, group: str, offsets: Mapping[int, int]) -> None:
        """OffsetCommit of version 0, which no client of today sends."""

        def text(word: str) -> bytes:
            return struct.pack(">h", len(word)) + word.encode()

        partitions = b"".join(struct.pack(">iq", *each) + text("") for each in offsets.items())
        body = text(group) + struct.pack(">i", 1) + text(topic) + struct.pack(">i", len(offsets)) + partitions
        request = struct.pack(">hhi", 8, 0, 1) + text("museum") + body
        host, port = self.bootstrap.split(":")
        with socket.create_connection((host, int(port)), timeout=TIMEOUT_S) as connection:
            connection.sendall(struct.pack(">i", len(request)) + request)
            stream = connection.makefile("rb")
            (size,) = struct.unpack(">i", stream.read(4))
            answer = stream.read(size)
        results = answer[4 + 4 + len(text(topic)) + 4 :]
        codes = [code for _, code in struct.iter_unpack(">ih", results)]
        assert codes == [0] * len(offsets), codes


@dataclass(frozen=True)
class Visit:
    """One exhibit on one stage."""

    exhibit: Exhibit
    stage: Stage
    program: Program

    def topic(self) -> str:
        return self.stage.create(self.exhibit.name)

    def filled(self, codec: str = "none") -> str:
        topic = self.topic()
        self.stage.write(topic, range(COUNT), codec)
        return topic


def values_of(numbers: Sequence[int]) -> list[str]:
    """The values of the records with these numbers, sorted."""
    return sorted(f"value-{number}" for number in numbers)
