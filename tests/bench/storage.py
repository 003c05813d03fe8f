"""Cells about a log for the long run: starting with much data, finding places in it, and upkeep beside producers.

`KAFKALITE_BENCH_GB` says how much data the start-up cells write (2 by default; 10 is what the numbers are about). All cells about
latency compare with the idle broker of the same cluster: the number is how many times longer the 99th percentile gets.
"""

from __future__ import annotations

import os
import statistics
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final

import confluent_kafka
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec  # type: ignore[attr-defined]

from kafkalite.local.broker_process import wait_until
from kafkalite.local.cluster import LocalCluster
from tests.bench.cells import Target, cell, round_trips_ms

GB: Final = float(os.environ.get("KAFKALITE_BENCH_GB", "2"))
TIMEOUT_S: Final = 600.0
_VALUE: Final = os.urandom(1000)


@contextmanager
def broker_of_its_own(target: Target, **properties: str) -> Iterator[Target]:
    settings = {"auto.create.topics.enable": "false", "offsets.topic.num.partitions": "1"}
    settings |= {name.replace("_", "."): text for name, text in properties.items()}
    with LocalCluster(brokers=1, properties=settings, command=target.command) as cluster:
        yield replace(target, cluster=cluster)


def create(target: Target, topic: str, partitions: int = 1, **config: str) -> None:
    settings = {name.replace("_", "."): text for name, text in config.items()}
    admin = AdminClient({"bootstrap.servers": target.servers})
    admin.create_topics([NewTopic(topic, partitions, 1, config=settings)], request_timeout=30)[topic].result(30)


def write(
    target: Target,
    topic: str,
    total_bytes: float,
    *,
    partitions: int = 1,
    keys: int = 0,
    value: bytes = _VALUE,
    first_timestamp: int = 0,
    batch_bytes: int = 1_000_000,
) -> int:
    """Fill a topic; record n has timestamp `first_timestamp` + n when that is given. Returns the records of a partition."""
    settings = {"bootstrap.servers": target.servers, "linger.ms": 5, "batch.size": batch_bytes}
    producer = confluent_kafka.Producer(settings | {"queue.buffering.max.messages": 100_000})
    count = int(total_bytes / len(value) / partitions)
    for number in range(count):
        key = b"key-%d" % (number % keys) if keys else None
        for partition in range(partitions):
            while True:
                try:
                    producer.produce(
                        topic, value, key, partition, timestamp=first_timestamp + number if first_timestamp else 0
                    )
                    break
                except BufferError:
                    producer.poll(0.01)
        if number % 500 == 0:
            producer.poll(0)
    if left := producer.flush(TIMEOUT_S):
        raise TimeoutError(f"{left} records were not acknowledged")
    return count


def p99_ms(target: Target) -> float:
    trips = round_trips_ms(target)
    return trips[len(trips) * 99 // 100]


def start_s(target: Target) -> float:
    broker = target.cluster.brokers[1]
    began = time.perf_counter()
    broker.start()
    wait_until(broker.has_started, "the broker's start", TIMEOUT_S)
    return time.perf_counter() - began


# Start-up


def _start_up(target: Target, *, clean: bool) -> float:
    with broker_of_its_own(target, log_flush_offset_checkpoint_interval_ms="1000") as own:
        create(own, "large", 8)
        write(own, "large", GB * 1e9, partitions=8)
        broker = own.cluster.brokers[1]
        if clean:
            broker.stop(TIMEOUT_S)
        else:
            broker.kill()
        return start_s(own)


@cell(f"start-up-{GB:g}GB-clean", "s")
def start_up_clean(target: Target) -> float:
    return _start_up(target, clean=True)


@cell(f"start-up-{GB:g}GB-unclean", "s")
def start_up_unclean(target: Target) -> float:
    return _start_up(target, clean=False)


# Finding places


def _median_ms(measure: Callable[[int], None], rounds: int = 200) -> float:
    times = []
    for number in range(rounds):
        began = time.perf_counter()
        measure(number)
        times.append(time.perf_counter() - began)
    return sorted(times)[rounds // 2] * 1000


@cell("seek-by-timestamp", "ms")
def seek_by_timestamp(target: Target) -> float:
    """Median of one ListOffsets for a timestamp anywhere in a log of 1 GB."""
    with broker_of_its_own(target, log_message_timestamp_before_max_ms=str(1 << 60)) as own:
        create(own, "seek", segment_bytes="100000000")
        first = int(time.time() * 1000) - 10_000_000
        count = write(own, "seek", 1e9, first_timestamp=first)
        admin = AdminClient({"bootstrap.servers": own.servers})
        place = confluent_kafka.TopicPartition("seek", 0)

        def seek(number: int) -> None:
            wanted = number * 7919 % count
            found = admin.list_offsets({place: OffsetSpec.for_timestamp(first + wanted)})[place].result(30)
            if found.offset != wanted:
                raise RuntimeError(f"{first + wanted} was found at {found.offset}")

        return _median_ms(seek)


def _lookup_us(size_mb: int) -> float:
    """Median of finding an offset in a log of that size, in this process: what a fetch pays before it reads.

    Each of 200 offsets is looked up ten times and the quickest counts: the first look pays for the disk and for caches of the
    processor, which is the price of 10 GB of data and not of the index. The median of the first looks is printed.
    """
    import tempfile
    from random import Random

    from kafkalite.config.topic import TopicConfig
    from kafkalite.protocol.record_batches.records import NewRecord, build_batch
    from kafkalite.storage.disk import OsDisk
    from kafkalite.storage.log.append_checks import AppendOrigin
    from kafkalite.storage.log.recovery import create_log
    from kafkalite.storage.log_directory import LogDirectory
    from kafkalite.types import TopicPartition

    with tempfile.TemporaryDirectory(prefix="kafkalite-bench-") as path:
        directory = LogDirectory(OsDisk(), path, 512)
        log = create_log(
            TopicPartition("t", 0),
            directory,
            str(Path(path) / "t-0"),
            topic_id=bytes(16),
            config=TopicConfig(segment_bytes=100_000_000),
            rng=Random(1),
            now_ms=1,
        )
        batch = build_batch([NewRecord(None, bytes(990), 1_700_000_000_000)] * 10)
        for _ in range(size_mb * 1_000_000 // len(batch)):
            log.append_as_leader(batch, leader_epoch=0, now_ms=1, origin=AppendOrigin.COORDINATOR)
        rng = Random(2)
        offsets = [rng.randrange(log.log_end_offset) for _ in range(200)]
        passes = []
        for _ in range(10):
            times = []
            for offset in offsets:
                began = time.perf_counter()
                log.segments.place_of(offset)
                times.append(time.perf_counter() - began)
            passes.append(times)
        directory.close()
        print(f"{size_mb} MB: {statistics.median(passes[0]) * 1e6:.1f} µs at first sight")
        return statistics.median(map(min, *passes)) * 1e6


@cell("index-lookup-10MB", "µs")
def index_lookup_small(target: Target) -> float:
    return _lookup_us(10)


@cell(f"index-lookup-{GB:g}GB", "µs")
def index_lookup_large(target: Target) -> float:
    return _lookup_us(int(GB * 1000))


# Upkeep beside producers


@cell("p99-while-cleaning", "times idle")
def while_cleaning(target: Target) -> float:
    """The cleaner is kept from its work until the data is there, then works while requests are measured."""
    with broker_of_its_own(
        target, log_cleaner_enable="false", log_cleaner_backoff_ms="100", log_cleaner_min_cleanable_ratio="0.01"
    ) as own:
        create(own, "compacted", cleanup_policy="compact", segment_bytes="50000000")
        write(own, "compacted", 3e8, keys=100_000, value=_VALUE[:100])
        broker = own.cluster.brokers[1]
        idle = p99_ms(own)
        broker.stop(TIMEOUT_S)
        broker.properties["log.cleaner.enable"] = "true"
        start_s(own)
        busy = p99_ms(own)
        if b"compacted-0 compacted from" in broker.log_path.read_bytes():
            raise RuntimeError("the pass ended before the measurement did; write more")
        print(f"p99 {idle:.2f} ms idle, {busy:.2f} ms while cleaning")
        return busy / idle


@cell("p99-while-reading-from-disk", "times from memory")
def while_reading_old(target: Target) -> float:
    """A consumer reads 1 GB that is not in memory, over and over; compared with one that reads it from memory."""
    with broker_of_its_own(target) as own:
        create(own, "old", segment_bytes="100000000")
        count = write(own, "old", 1e9)
        idle = p99_ms(own)
        warm, cold = (_p99_beside_reader(own, count, drop_cache=drop_cache) for drop_cache in (False, True))
        print(f"p99 {idle:.2f} ms idle, {warm:.2f} ms beside a reader from memory, {cold:.2f} ms from the disk")
        return cold / warm


def _p99_beside_reader(target: Target, count: int, *, drop_cache: bool) -> float:
    stop = threading.Event()
    reader = threading.Thread(target=_read_over_and_over, args=(target, count, stop, drop_cache))
    reader.start()
    try:
        return p99_ms(target)
    finally:
        stop.set()
        reader.join()


def _read_over_and_over(target: Target, count: int, stop: threading.Event, drop_cache: bool) -> None:
    files = list(target.cluster.brokers[1].log_dir.glob("old-0/*.log"))
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": target.servers, "group.id": "bench", "enable.auto.commit": False}
    )
    while not stop.is_set():
        for file in files if drop_cache else ():
            descriptor = os.open(file, os.O_RDONLY)
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(descriptor)
        consumer.assign([confluent_kafka.TopicPartition("old", 0, 0)])
        seen = 0
        while seen < count and not stop.is_set():
            seen += len(consumer.consume(2000, 0.5))
    consumer.close()
