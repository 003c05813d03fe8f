"""What is measured: named cells, each a function from a running target to one number.

A cell is registered with `@cell(name, unit)`; later work adds cells here or in modules of its own that `run` imports.
Clients are librdkafka's, so that the client is not what is measured.
"""

from __future__ import annotations

import itertools
import socket
import struct
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import confluent_kafka
from confluent_kafka.admin import AdminClient, NewTopic

from kafkalite.local.broker_process import BROKER_COMMAND, wait_until
from kafkalite.local.cluster import LocalCluster

MB: Final = 1_000_000
_TIMEOUT_S: Final = 60


@dataclass
class Target:
    """One started cluster of one broker, and how it is measured; `seconds` bounds each throughput cell."""

    cluster: LocalCluster
    start_s: float
    seconds: float
    command: tuple[str, ...] = BROKER_COMMAND
    """Runs a broker, for the cells that measure a cluster of their own."""

    @property
    def servers(self) -> str:
        return self.cluster.bootstrap_servers


@dataclass(frozen=True)
class Cell:
    name: str
    unit: str
    higher_is_better: bool
    measure: Callable[[Target], float]


CELLS: Final[dict[str, Cell]] = {}
_topics = itertools.count(1)


def cell(
    name: str, unit: str, *, higher_is_better: bool = False
) -> Callable[[Callable[[Target], float]], Callable[[Target], float]]:
    """Register a measurement under a name that must be new."""

    def register(measure: Callable[[Target], float]) -> Callable[[Target], float]:
        if name in CELLS:
            raise ValueError(f"there are two cells named {name}")
        CELLS[name] = Cell(name, unit, higher_is_better, measure)
        return measure

    return register


def wait_for_controller(servers: str) -> None:
    """Until metadata names a controller: a client that asks an Apache Kafka broker before waits long to ask again."""
    admin = AdminClient({"bootstrap.servers": servers, "log_level": 0})
    wait_until(lambda: admin.list_topics(timeout=_TIMEOUT_S).controller_id >= 0, "a controller", _TIMEOUT_S)


def new_topic(target: Target, partitions: int = 1) -> str:
    topic = f"bench-{next(_topics)}"
    admin = AdminClient({"bootstrap.servers": target.servers, "log_level": 0})
    admin.create_topics([NewTopic(topic, partitions, 1)], request_timeout=30)[topic].result(30)
    return topic


def fill(
    target: Target, topic: str, value_bytes: int, *, acks: str = "1", seconds: float | None = None
) -> tuple[int, float]:
    """Produce for a while; how many records were acknowledged in how many seconds."""
    settings = {
        "bootstrap.servers": target.servers,
        "acks": acks,
        "linger.ms": 5,
        "batch.size": 1_000_000,
        "queue.buffering.max.messages": 200_000,
    }
    producer = confluent_kafka.Producer(settings)
    value = bytes(value_bytes)
    producer.produce(topic, value)  # connections and metadata are not what is measured
    if producer.flush(_TIMEOUT_S):
        raise TimeoutError("the first record was not acknowledged")
    began = time.perf_counter()
    end = began + (target.seconds if seconds is None else seconds)
    sent = 0
    while time.perf_counter() < end:
        try:
            for _ in range(500):
                producer.produce(topic, value)
                sent += 1
            producer.poll(0)
        except BufferError:
            producer.poll(0.005)
    if left := producer.flush(_TIMEOUT_S):
        raise TimeoutError(f"{left} of {sent} records were not acknowledged")
    took_s = time.perf_counter() - began
    check_end_offset(target, topic, sent + 1)  # `flush` also counts refused records as done
    return sent, took_s


def check_end_offset(target: Target, topic: str, expected: int) -> None:
    """Raise RuntimeError unless partition 0 ends at that offset: a rate of records that were not kept is none."""
    consumer = confluent_kafka.Consumer({"bootstrap.servers": target.servers, "group.id": "bench"})
    try:
        asked = confluent_kafka.TopicPartition(topic, 0)
        _, end = consumer.get_watermark_offsets(asked, timeout=_TIMEOUT_S, cached=False)
    finally:
        consumer.close()
    if end != expected:
        raise RuntimeError(f"{topic} ends at offset {end} where {expected} records were sent")


def drain(target: Target, topic: str, count: int, passes: int = 1) -> float:
    """Read the first `count` records of partition 0, `passes` times; the seconds from the first record on."""
    settings = {
        "bootstrap.servers": target.servers,
        "group.id": "bench",
        "enable.auto.commit": False,
        "fetch.message.max.bytes": 4 * 1024 * 1024,
        # By default the client stops fetching for a second whenever 100,000 records wait in it: then both sides are idle,
        # and the pause is measured instead of the broker.
        "queued.min.messages": 1_000_000,
        "queued.max.messages.kbytes": 1_000_000,
        "fetch.queue.backoff.ms": 1,
    }
    consumer = confluent_kafka.Consumer(settings)
    try:
        began = 0.0
        deadline = time.perf_counter() + _TIMEOUT_S
        for _ in range(passes):
            consumer.assign([confluent_kafka.TopicPartition(topic, 0, 0)])
            seen = 0
            while seen < count:
                messages = consumer.consume(min(10_000, count - seen), 1.0)
                began = began or time.perf_counter()
                seen += len(messages)
                if time.perf_counter() > deadline:
                    raise TimeoutError(f"{seen} of {count} records came")
        return time.perf_counter() - began
    finally:
        consumer.close()


def produce_rate(target: Target, value_bytes: int, acks: str = "1") -> float:
    count, seconds = fill(target, new_topic(target), value_bytes, acks=acks)
    return count * value_bytes / seconds / MB


def consume_rate(target: Target, value_bytes: int) -> float:
    topic = new_topic(target)
    count, _ = fill(target, topic, value_bytes)
    return count * value_bytes / drain(target, topic, count) / MB


@cell("produce-100B", "MB/s", higher_is_better=True)
def produce_100(target: Target) -> float:
    return produce_rate(target, 100)


@cell("produce-1kB", "MB/s", higher_is_better=True)
def produce_1000(target: Target) -> float:
    return produce_rate(target, 1000)


@cell("produce-1kB-acks-all", "MB/s", higher_is_better=True)
def produce_1000_all(target: Target) -> float:
    return produce_rate(target, 1000, "all")


@cell("consume-100B", "MB/s", higher_is_better=True)
def consume_100(target: Target) -> float:
    return consume_rate(target, 100)


@cell("consume-1kB", "MB/s", higher_is_better=True)
def consume_1000(target: Target) -> float:
    return consume_rate(target, 1000)


def round_trips_ms(target: Target) -> list[float]:
    """Sorted round trips of requests with one record of 100 bytes each, acks=1, one after the other.

    The request is sent over a plain socket: a client library would add its own threads' wake-ups to each trip.
    """
    topic = new_topic(target)
    fill(target, topic, 100, seconds=0)
    request = captured_produce(topic, bytes(100))
    host, port = target.servers.split(":")
    trips = []
    with socket.create_connection((host, int(port)), _TIMEOUT_S) as peer:
        peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        end = time.perf_counter() + target.seconds
        while time.perf_counter() < end or len(trips) < 100:
            began = time.perf_counter()
            reply = exchange(peer, request)
            trips.append((time.perf_counter() - began) * 1000)
            (error,) = struct.unpack_from(">h", reply, 4 + 4 + 2 + len(topic) + 4 + 4)
            if error:
                raise RuntimeError(f"a produce request was refused with code {error}")
    check_end_offset(target, topic, len(trips) + 1)
    return sorted(trips[len(trips) // 10 :])  # the first tenth warms up


@cell("round-trip-p50", "ms")
def round_trip_p50(target: Target) -> float:
    trips = round_trips_ms(target)
    return trips[len(trips) // 2]


@cell("round-trip-p99", "ms")
def round_trip_p99(target: Target) -> float:
    trips = round_trips_ms(target)
    return trips[len(trips) * 99 // 100]


@cell("start-up", "s")
def start_up(target: Target) -> float:
    return target.start_s


@cell("resident-memory", "MB")
def resident_memory(target: Target) -> float:
    return next(iter(target.cluster.brokers.values())).resident_bytes() / MB


def captured_produce(topic: str, value: bytes, *, partition: int = 0, acks: int = 1) -> bytes:
    """A Produce request of version 3 with one batch of one record, as it goes over the wire."""
    import crc32c  # part of the product's own dependencies; only this cell needs it

    def varint(number: int) -> bytes:
        number = number * 2 if number >= 0 else -number * 2 - 1
        coded = bytearray()
        while number > 127:
            coded.append(number & 127 | 128)
            number >>= 7
        return bytes([*coded, number])

    record = b"\0" + varint(0) + varint(0) + varint(-1) + varint(len(value)) + value + varint(0)
    now_ms = int(time.time() * 1000)
    checked = struct.pack(">hiqqqhii", 0, 0, now_ms, now_ms, -1, -1, -1, 1) + varint(len(record)) + record
    batch = struct.pack(">qiibI", 0, len(checked) + 9, -1, 2, crc32c.crc32c(checked)) + checked
    name = topic.encode()
    body = struct.pack(">hhih", 0, 3, 1, -1) + struct.pack(">hhii", -1, acks, 30_000, 1)
    body += struct.pack(">h", len(name)) + name + struct.pack(">iii", 1, partition, len(batch)) + batch
    return struct.pack(">i", len(body)) + body


def exchange(peer: socket.socket, request: bytes) -> bytes:
    """Send a request and wait; the answer without its length."""
    peer.sendall(request)
    return _receive(peer, struct.unpack(">i", _receive(peer, 4))[0])


def _receive(peer: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        more = peer.recv(count - len(data))
        if not more:
            raise ConnectionError("the broker closed the connection")
        data += more
    return data
