"""A cluster with what is needed to show a client on it: topics, and a client of today that writes and reads for the comparison."""

from __future__ import annotations

import time
import uuid
from collections.abc import Sequence
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

    @cached_property
    def admin(self) -> AdminClient:
        return AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 2})

    def create(self, topic: str) -> str:
        """A topic of two partitions, and its name, which nobody else has."""
        name = f"{topic}-{uuid.uuid4().hex[:8]}"
        self.admin.create_topics([NewTopic(name, 2, 1)], operation_timeout=TIMEOUT_S)[name].result(TIMEOUT_S)
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
