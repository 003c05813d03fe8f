"""Cells about consumers before 0.11: what it costs to rewrite records for them, and whom that keeps waiting.

They are bare sockets that send Fetch 2 and look at nothing but offsets. Batches have 16 KiB, as Java's producers make them, of values of
which half can be compressed; what they become is more than a broker of ours keeps, so one consumer finds nothing kept. Compare
with `--against` a command that runs Apache Kafka, as `python -c "from tests.bench.old_consumers import apache; apache()"` prints it.
"""

from __future__ import annotations

import random
import selectors
import shlex
import socket
import struct
import threading
import time
from functools import partial
from typing import Final

import confluent_kafka

from kafkalite.local.cluster import LocalCluster
from tests.bench.cells import Target, cell, check_end_offset, new_topic
from tests.bench.clusters import cpu_s

SIZES: Final = (100, 1000)
CODECS: Final = ("none", "gzip", "snappy", "lz4")
REWRITTEN_BYTES: Final = 48 * 1024 * 1024
MANY: Final = 10
CROWD: Final = 50
FETCH_BYTES: Final = 1 << 20
PROBE_EVERY_S: Final = 0.005

_ENTRY: Final = struct.Struct(">qi")
_filled: dict[tuple[LocalCluster, int, str], tuple[str, int]] = {}


def apache() -> None:
    """Print the command line of a broker of Apache Kafka with the flags of its own start script, and a gigabyte."""
    from tests.bench.tools import FLAGS_OF_KAFKA
    from tests.peers.apache_kafka import fetch

    home = fetch()
    flags = [flag for flag in FLAGS_OF_KAFKA if not flag.startswith("-Xmx")]
    log = f"-Dlog4j.configuration=file:{home / 'log4j-info.properties'}"
    print(shlex.join(["java", "-Xmx1g", "-Xms1g", *flags, log, "-cp", f"{home}/*", "kafka.Kafka"]))


def filled(target: Target, size: int, codec: str) -> tuple[str, int]:
    """(a topic, its records), made once for a broker."""
    key = target.cluster, size, codec
    if key not in _filled:
        topic, count = new_topic(target), REWRITTEN_BYTES // (size + 34)
        settings = {
            "bootstrap.servers": target.servers,
            "compression.type": codec,
            "batch.size": 16384,
            "linger.ms": 50,
        }
        producer = confluent_kafka.Producer(settings)
        chance = random.Random(size)
        values = [chance.randbytes(size // 2) + bytes(size - size // 2) for _ in range(1000)]
        for number in range(count):
            while True:
                try:
                    producer.produce(topic, values[number % 1000])
                    break
                except BufferError:
                    producer.poll(0.01)
        producer.flush(60)
        check_end_offset(target, topic, count)
        _filled[key] = topic, count
    return _filled[key]


class OldConsumer:
    """A socket that reads a topic's partition 0 from the beginning to `end`; `known` says where the next fetch begins."""

    def __init__(self, target: Target, topic: str, end: int, known: dict[int, int]) -> None:
        host, port = target.servers.split(":")
        self.socket = socket.create_connection((host, int(port)))
        self._topic, self._end, self._known = topic.encode(), end, known
        self._offset, self._received, self._missing = 0, bytearray(), 0
        self.ask()

    def ask(self) -> None:
        topic = struct.pack(">h", len(self._topic)) + self._topic
        body = struct.pack(">iiii", -1, 500, 1, 1) + topic + struct.pack(">iiqi", 1, 0, self._offset, FETCH_BYTES)
        head = struct.pack(">hhih", 1, 2, 0, -1)
        self.socket.sendall(struct.pack(">i", len(head) + len(body)) + head + body)

    def read(self) -> bool:
        """Take what is there; False at the end of the topic."""
        part = self.socket.recv(1 << 20)
        if not part:
            raise ConnectionError("the broker closed the connection of an old consumer")
        self._received += part
        if len(self._received) < 4 or len(self._received) < 4 + struct.unpack_from(">i", self._received)[0]:
            return True
        answer, self._received = self._received, bytearray()
        position = 4 + 4 + 4 + 4 + 2 + len(self._topic) + 4
        _, code, _, size = struct.unpack_from(">ihqi", answer, position)
        if code or not size:
            raise RuntimeError(f"an old consumer got {size} bytes and the error {code}")
        self._known[self._offset] = self._known.get(self._offset) or next_offset(answer, position + 18)
        self._offset = self._known[self._offset]
        if self._offset >= self._end:
            self.socket.close()
            return False
        self.ask()
        return True


def next_offset(answer: bytes | bytearray, position: int) -> int:
    """The one behind the last whole message; 0 when there is none."""
    found = 0
    while position + 12 <= len(answer):
        offset, size = _ENTRY.unpack_from(answer, position)
        position += 12 + size
        if position > len(answer) or offset < 0:
            break
        found = offset + 1
    return found


def consume(target: Target, topic: str, count: int, consumers: int) -> float:
    """Seconds in which all of them read all records."""
    known: dict[int, int] = {}
    began = time.perf_counter()
    with selectors.DefaultSelector() as selector:
        for _ in range(consumers):
            each = OldConsumer(target, topic, count, known)
            selector.register(each.socket, selectors.EVENT_READ, each)
        while selector.get_map():
            for key, _ in selector.select():
                if not key.data.read():
                    selector.unregister(key.fileobj)
    return time.perf_counter() - began


def processor_time(target: Target, size: int, codec: str, consumers: int) -> float:
    topic, count = filled(target, size, codec)
    consume(target, topic, count, 1)  # Java compiles what is done often
    broker = target.cluster.broker(1)
    before_s = cpu_s(broker)
    consume(target, topic, count, consumers)
    return (cpu_s(broker) - before_s) / count / consumers * 1e9


def rate(target: Target, size: int, codec: str, consumers: int) -> float:
    topic, count = filled(target, size, codec)
    return count * consumers / consume(target, topic, count, consumers)


def longest_wait(target: Target, codec: str) -> float:
    """Of another client's small requests, while a crowd of old consumers reads."""
    topic, count = filled(target, SIZES[0], codec)
    host, port = target.servers.split(":")
    request, waits_s, is_over = struct.pack(">ihhih", 10, 18, 0, 0, -1), [0.0], threading.Event()

    def probe() -> None:
        with socket.create_connection((host, int(port))) as connection:
            while not is_over.wait(PROBE_EVERY_S):
                began = time.perf_counter()
                connection.sendall(request)
                connection.recv(65536)
                waits_s.append(time.perf_counter() - began)

    prober = threading.Thread(target=probe)
    prober.start()
    try:
        consume(target, topic, count // 4, CROWD)
    finally:
        is_over.set()
        prober.join()
    return sorted(waits_s)[int(len(waits_s) * 0.99)] * 1e3


def register() -> None:
    for size in SIZES:
        for codec in CODECS:
            for consumers in (1, MANY):
                what = f"records of {size} B, {codec}, {consumers} old consumer{'s' * (consumers > 1)}"
                cell(f"processor time: {what}", "ns")(
                    partial(processor_time, size=size, codec=codec, consumers=consumers)
                )
                cell(f"rate: {what}", "records/s", higher_is_better=True)(
                    partial(rate, size=size, codec=codec, consumers=consumers)
                )
    for codec in CODECS:
        cell(f"small requests beside {CROWD} old consumers, {codec}, 99 % within", "ms")(
            partial(longest_wait, codec=codec)
        )


register()
