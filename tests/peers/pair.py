"""One cluster of a broker of ours and one of Apache Kafka, whose logs are to agree byte for byte."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import confluent_kafka

from kafkalite.local.broker_process import BROKER_COMMAND, BrokerProcess, wait_until
from kafkalite.local.cluster import LocalCluster
from kafkalite.local.cluster_facts import ClusterFacts

OURS: Final = 1
APACHE: Final = 2


class Pair:
    """The brokers `OURS` and `APACHE`; each is started by the test. `command` runs Apache Kafka's."""

    def __init__(
        self, directory: Path, cluster: LocalCluster, command: Sequence[str], settings: Mapping[str, str]
    ) -> None:
        self.zookeeper_connect = cluster.zookeeper_connect
        self.facts = ClusterFacts(cluster.zookeeper_connect)
        settings = {**settings, "zookeeper.connect": cluster.zookeeper_connect}
        commands = {OURS: BROKER_COMMAND, APACHE: command}
        self.brokers = {number: BrokerProcess(number, directory, settings, commands[number]) for number in commands}
        self.servers = ",".join(broker.address for broker in self.brokers.values())

    def start(self, number: int) -> None:
        self.brokers[number].start()
        self.brokers[number].wait_started(90)

    def await_isr(self, topic: str, brokers: set[int]) -> None:
        """Wait until partition 0 is led, and these are its in-sync replicas."""

        def reached() -> bool:
            state = self.facts.states(topic).get(0)
            return state is not None and state.leader in brokers and set(state.isr) == brokers

        wait_until(reached, f"in-sync replicas {brokers} of {topic}", 60)

    def content(self, number: int, topic: str) -> bytes:
        folder = self.brokers[number].log_dir / f"{topic}-0"
        return b"".join(path.read_bytes() for path in sorted(folder.glob("*.log")))

    def await_same(self, topic: str) -> bytes:
        """Return the bytes of partition 0 once both have the same."""
        wait_until(lambda: self.content(OURS, topic) == self.content(APACHE, topic), f"both have the same {topic}", 30)
        return self.content(OURS, topic)

    def write(self, topic: str, values: Sequence[bytes], **settings: str) -> None:
        """Append records to partition 0, with acks=all."""
        producer = confluent_kafka.Producer({"bootstrap.servers": self.servers, "acks": "all", **settings})
        for value in values:
            producer.produce(topic, value, b"key", partition=0)
        assert producer.flush(60) == 0

    def read(self, topic: str) -> list[bytes | None]:
        """Return the values of partition 0."""
        consumer = confluent_kafka.Consumer({"bootstrap.servers": self.servers, "group.id": "reader"})
        place = confluent_kafka.TopicPartition(topic, 0, 0)
        _, end = consumer.get_watermark_offsets(place, timeout=30, cached=False)
        consumer.assign([place])
        found: list[bytes | None] = []

        def all_read() -> bool:
            found.extend(message.value() for message in consumer.consume(1000, 0.2) if message.error() is None)
            return consumer.position([place])[0].offset >= end  # which counts the end of a transaction too

        wait_until(all_read, f"{topic} is read up to {end}", 60)
        consumer.close()
        return found

    def close(self) -> None:
        for broker in self.brokers.values():
            broker.close()
        self.facts.close()
