"""Metrics gathered from many machines, and their averages over windows of ten seconds.

    python metrics_windows.py measure --host a      # on each machine: its load each second
    python metrics_windows.py average               # host, window and average, into the topic example-metrics-10s

A window is closed when a reading of its partition is later than its end by the grace, by the readings' own time. What it became and how
far the readings are done with are committed in one transaction: killed at any moment, `average` loses nothing and counts nothing twice.
Open windows are kept nowhere: the committed offset is that of their first reading, and its metadata says which are closed already.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Iterator
from types import SimpleNamespace

from needs import cluster_at

from kafkalite.client import ConsumerRecord, OffsetAndMetadata, SyncConsumer, SyncProducer, TopicPartition

READINGS, AVERAGES = "example-metrics", "example-metrics-10s"
WINDOW_MS, GRACE_MS = 10_000, 2_000


def measure(servers: str, host: str, *readings: tuple[int, float]) -> None:
    """Send readings, each a time in ms since 1970 and a value; without any, the load of this machine each second."""
    with SyncProducer(bootstrap_servers=servers, key_serializer="str", value_serializer="float") as producer:
        for timestamp_ms, value in readings or iter(load_of_this_machine, None):
            producer.send(READINGS, value, key=host, timestamp_ms=timestamp_ms)


def load_of_this_machine() -> tuple[int, float]:
    time.sleep(1)
    return int(time.time() * 1000), os.getloadavg()[0]


class Windows:
    """Those of one partition, each of a host and a start."""

    def __init__(self, committed: OffsetAndMetadata | None) -> None:
        self._open: dict[tuple[str, int], list[ConsumerRecord]] = {}
        self._closed_ms = int(committed.metadata) if committed and committed.metadata else 0

    def add(self, record: ConsumerRecord) -> Iterator[tuple[str, int, float]]:
        """Windows that this reading closes: host, start, average. A reading that comes too late counts nowhere."""
        start_ms = record.timestamp - record.timestamp % WINDOW_MS
        if start_ms >= self._closed_ms:
            self._open.setdefault((record.key, start_ms), []).append(record)
        self._closed_ms = max(self._closed_ms, (record.timestamp - GRACE_MS) // WINDOW_MS * WINDOW_MS)
        for host, start_ms in sorted(each for each in self._open if each[1] < self._closed_ms):
            values = [each.value for each in self._open.pop((host, start_ms))]
            yield host, start_ms, sum(values) / len(values)

    def done(self, next_offset: int) -> OffsetAndMetadata:
        """From where to read when this program begins again, and what is closed."""
        first = min((each[0].offset for each in self._open.values()), default=next_offset)
        return OffsetAndMetadata(first, metadata=str(self._closed_ms))


def average(servers: str, until: str | None = None) -> None:
    """Close windows as their readings come; end behind a reading of the host `until`."""
    partitions: dict[TopicPartition, Windows] = {}

    def forget(moved: set[TopicPartition]) -> None:  # whoever gets them reads again from what is committed
        for place in moved:
            partitions.pop(place, None)

    settings = {"bootstrap_servers": servers, "enable_auto_commit": False, "auto_offset_reset": "earliest"}
    with (
        SyncProducer(bootstrap_servers=servers, transactional_id=AVERAGES, value_serializer="json") as producer,
        SyncConsumer(group_id=AVERAGES, key_deserializer="str", value_deserializer="float", **settings) as consumer,
    ):
        producer.init_transactions()
        calls = dict.fromkeys(("on_partitions_revoked", "on_partitions_lost", "on_partitions_assigned"), forget)
        consumer.subscribe(READINGS, listener=SimpleNamespace(**calls))
        for record in consumer:
            place = record.topic_partition
            if place not in partitions:
                partitions[place] = Windows(consumer.committed_offsets([place])[place])
            if closed := list(partitions[place].add(record)):
                with producer.transaction():
                    for host, start_ms, mean in closed:
                        print(f"{host} {start_ms} {mean:.2f}")
                        producer.send(AVERAGES, {"start_ms": start_ms, "average": mean}, key=host.encode())
                    offsets = {place: partitions[place].done(record.offset + 1)}
                    producer.send_offsets_to_transaction(offsets, consumer.group_metadata())
            if record.key == until:
                return


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("measure", "average"))
    parser.add_argument("--bootstrap-server", default="localhost:9092")
    parser.add_argument("--host", default=os.uname().nodename)
    given = parser.parse_args()
    with cluster_at(given.bootstrap_server, READINGS, AVERAGES):
        average(given.bootstrap_server) if given.what == "average" else measure(given.bootstrap_server, given.host)
