"""Our clients against others: the same records to and from the same broker, in turn. `python -m tests.bench.clients`.

Every client has the same batch size, linger and acks, no compression, one partition, and else its own defaults; each record's value is
looked at by the reader. A measurement is a process of its own, and its topic is deleted afterwards, so that all find the same memory
and disk. The rounds go through all clients in turn, so that the machine's moods hit all; medians count. The bars are those that the
client was built to: records/s at least 5 times kafka-python's, twice aiokafka's, half of confluent-kafka's.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Coroutine
from typing import Any, Final

import click
from rich.console import Console
from rich.table import Table

BARS: Final = {"kafka-python": 5.0, "aiokafka": 2.0, "confluent-kafka": 0.5}
OURS: Final = ("kafkalite", "kafkalite sync")
COUNTS: Final = {100: 500_000, 1000: 150_000}
BATCH_BYTES: Final = 128 * 1024
LINGER_MS: Final = 5
_TIMEOUT_S: Final = 120

Outcome = tuple[float, int]
"""Seconds, and bytes of the values that were seen (consumers)."""


# producers: seconds from the first record to the last acknowledgement


async def _produce_kafkalite(servers: str, topic: str, count: int, value: bytes) -> float:
    from kafkalite.client import Producer

    async with Producer(bootstrap_servers=servers, batch_size=BATCH_BYTES, linger_ms=LINGER_MS) as producer:
        await producer.send_and_wait(topic, value, partition=0)
        began = time.perf_counter()
        for _ in range(count):
            await producer.send(topic, value, partition=0)
        await producer.flush()
        took = time.perf_counter() - began
        if producer.statistics()["delivered_records"] != count + 1:
            raise RuntimeError(f"not all records were delivered: {producer.statistics()}")
        return took


def _produce_kafkalite_sync(servers: str, topic: str, count: int, value: bytes) -> float:
    from kafkalite.client import SyncProducer

    with SyncProducer(bootstrap_servers=servers, batch_size=BATCH_BYTES, linger_ms=LINGER_MS) as producer:
        producer.send_and_wait(topic, value, partition=0)
        began = time.perf_counter()
        for _ in range(count):
            producer.send(topic, value, partition=0)
        producer.flush()
        took = time.perf_counter() - began
        if producer.statistics()["delivered_records"] != count + 1:
            raise RuntimeError(f"not all records were delivered: {producer.statistics()}")
        return took


async def _produce_aiokafka(servers: str, topic: str, count: int, value: bytes) -> float:
    from aiokafka import AIOKafkaProducer

    producer = AIOKafkaProducer(
        bootstrap_servers=servers, acks="all", max_batch_size=BATCH_BYTES, linger_ms=LINGER_MS, enable_idempotence=True
    )
    await producer.start()
    try:
        await producer.send_and_wait(topic, value, partition=0)
        began = time.perf_counter()
        for _ in range(count):
            last = await producer.send(topic, value, partition=0)
        await producer.flush()
        await last
        return time.perf_counter() - began
    finally:
        await producer.stop()


def _produce_kafka_python(servers: str, topic: str, count: int, value: bytes) -> float:
    from kafka import KafkaProducer

    producer = KafkaProducer(
        bootstrap_servers=servers, acks="all", batch_size=BATCH_BYTES, linger_ms=LINGER_MS, enable_idempotence=True
    )
    try:
        producer.send(topic, value, partition=0).get(_TIMEOUT_S)
        began = time.perf_counter()
        for _ in range(count):
            last = producer.send(topic, value, partition=0)
        producer.flush(_TIMEOUT_S)
        last.get(_TIMEOUT_S)
        return time.perf_counter() - began
    finally:
        producer.close()


def _produce_confluent(servers: str, topic: str, count: int, value: bytes) -> float:
    from confluent_kafka import Producer

    settings = {
        "bootstrap.servers": servers,
        "acks": "all",
        "enable.idempotence": True,
        "batch.size": BATCH_BYTES,
        "linger.ms": LINGER_MS,
        "queue.buffering.max.messages": 1_000_000,
    }
    producer = Producer(settings)
    producer.produce(topic, value, partition=0)
    if producer.flush(_TIMEOUT_S):
        raise TimeoutError("the first record was not acknowledged")
    began = time.perf_counter()
    for number in range(count):
        while True:
            try:
                producer.produce(topic, value, partition=0)
                break
            except BufferError:
                producer.poll(0.01)
        if number % 500 == 0:
            producer.poll(0)
    if left := producer.flush(_TIMEOUT_S):
        raise TimeoutError(f"{left} records were not acknowledged")
    return time.perf_counter() - began


# consumers: seconds from the first record to the last


async def _consume_kafkalite(servers: str, topic: str, count: int) -> Outcome:
    from kafkalite.client import Consumer, TopicPartition

    async with Consumer(bootstrap_servers=servers, auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        seen = size = 0
        began = 0.0
        while seen < count:
            for records in (await consumer.getmany(timeout_ms=1000)).values():
                began = began or time.perf_counter()
                for record in records:
                    size += len(record.value)
                seen += len(records)
        return time.perf_counter() - began, size


def _consume_kafkalite_sync(servers: str, topic: str, count: int) -> Outcome:
    from kafkalite.client import SyncConsumer, TopicPartition

    with SyncConsumer(bootstrap_servers=servers, auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        seen = size = 0
        began = 0.0
        while seen < count:
            for records in consumer.poll(timeout_ms=1000).values():
                began = began or time.perf_counter()
                for record in records:
                    size += len(record.value)
                seen += len(records)
        return time.perf_counter() - began, size


async def _consume_aiokafka(servers: str, topic: str, count: int) -> Outcome:
    from aiokafka import AIOKafkaConsumer, TopicPartition

    consumer = AIOKafkaConsumer(bootstrap_servers=servers, auto_offset_reset="earliest")
    await consumer.start()
    try:
        partition = TopicPartition(topic, 0)
        consumer.assign([partition])
        consumer.seek(partition, 0)
        seen = size = 0
        began = 0.0
        while seen < count:
            for records in (await consumer.getmany(timeout_ms=1000, max_records=500)).values():
                began = began or time.perf_counter()
                for record in records:
                    size += len(record.value)
                seen += len(records)
        return time.perf_counter() - began, size
    finally:
        await consumer.stop()


def _consume_kafka_python(servers: str, topic: str, count: int) -> Outcome:
    from kafka import KafkaConsumer, TopicPartition

    consumer = KafkaConsumer(bootstrap_servers=servers, auto_offset_reset="earliest")
    try:
        partition = TopicPartition(topic, 0)
        consumer.assign([partition])
        consumer.seek(partition, 0)
        seen = size = 0
        began = 0.0
        while seen < count:
            for records in consumer.poll(timeout_ms=1000).values():
                began = began or time.perf_counter()
                for record in records:
                    size += len(record.value)
                seen += len(records)
        return time.perf_counter() - began, size
    finally:
        consumer.close()


def _consume_confluent(servers: str, topic: str, count: int) -> Outcome:
    from confluent_kafka import Consumer, TopicPartition

    settings = {
        "bootstrap.servers": servers,
        "group.id": "bench",
        "enable.auto.commit": False,
        # By default it stops fetching for a second whenever 100,000 records wait in it; that pause is not what is measured.
        "queued.min.messages": 1_000_000,
        "fetch.queue.backoff.ms": 1,
    }
    consumer = Consumer(settings)
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        seen = size = 0
        began = 0.0
        while seen < count:
            records = consumer.consume(500, 1.0)
            began = began or time.perf_counter()
            for record in records:
                size += len(record.value())
            seen += len(records)
        return time.perf_counter() - began, size
    finally:
        consumer.close()


PRODUCERS: Final[dict[str, Callable[..., Any]]] = {
    "kafkalite": _produce_kafkalite,
    "kafkalite sync": _produce_kafkalite_sync,
    "kafka-python": _produce_kafka_python,
    "aiokafka": _produce_aiokafka,
    "confluent-kafka": _produce_confluent,
}
CONSUMERS: Final[dict[str, Callable[..., Any]]] = {
    "kafkalite": _consume_kafkalite,
    "kafkalite sync": _consume_kafkalite_sync,
    "kafka-python": _consume_kafka_python,
    "aiokafka": _consume_aiokafka,
    "confluent-kafka": _consume_confluent,
}


def _run(outcome: Any) -> Any:
    return asyncio.run(outcome) if isinstance(outcome, Coroutine) else outcome


def measure(direction: str, client: str, servers: str, topic: str, count: int, value_bytes: int) -> float:
    """Records/s of one client, measured in this process."""
    if direction == "produce":
        return count / float(_run(PRODUCERS[client](servers, topic, count, bytes(value_bytes))))
    took, size = _run(CONSUMERS[client](servers, topic, count))
    if size < count * value_bytes:
        raise RuntimeError(f"{client} read {size} bytes of {count * value_bytes}")
    return count / float(took)


def measure_apart(*arguments: object) -> float:
    """`measure` in a process of its own."""
    command = [sys.executable, "-m", "tests.bench.clients", "--one", json.dumps(arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=3 * _TIMEOUT_S)
    if done.returncode:
        raise RuntimeError(f"{arguments}: {done.stderr[-2000:]}")
    return float(done.stdout)


def compare(servers: str, rounds: int, share: float) -> dict[tuple[str, int, str], float]:
    """Median records/s for (direction, value bytes, client)."""
    from confluent_kafka.admin import AdminClient, NewTopic

    admin = AdminClient({"bootstrap.servers": servers})
    *_, read_from = PRODUCERS
    rates: dict[tuple[str, int, str], list[float]] = {}
    for value_bytes, whole in COUNTS.items():
        count = max(int(whole * share), 1000)
        for number in range(rounds):
            topic = f"clients-{value_bytes}-{number}-{time.time_ns()}"
            for client in PRODUCERS:
                name = f"{topic}-{client.replace(' ', '-')}"
                admin.create_topics([NewTopic(name, 1, 1)])[name].result(30)
                rate = measure_apart("produce", client, servers, name, count, value_bytes)
                rates.setdefault(("produce", value_bytes, client), []).append(rate)
                if client != read_from:
                    admin.delete_topics([name])[name].result(30)
            read = f"{topic}-{read_from}"
            for client in CONSUMERS:
                rate = measure_apart("consume", client, servers, read, count, value_bytes)
                rates.setdefault(("consume", value_bytes, client), []).append(rate)
            admin.delete_topics([read])[read].result(30)
    return {key: statistics.median(each) for key, each in rates.items()}


@click.command()
@click.option("--servers", help="An existing cluster; by default a broker of our own is started.")
@click.option("--rounds", default=3, show_default=True)
@click.option("--share", default=1.0, show_default=True, help="Share of the usual number of records.")
@click.option("--one", hidden=True, help="One measurement, as JSON.")
def main(servers: str | None, rounds: int, share: float, one: str | None) -> None:
    """Compare the clients; exits with 1 when a bar is missed."""
    if one is not None:
        click.echo(measure(*json.loads(one)))
        return
    if servers is not None:
        rates = compare(servers, rounds, share)
    else:
        from kafkalite.local.cluster import LocalCluster

        with LocalCluster(brokers=1, properties={"log.segment.delete.delay.ms": "0"}) as cluster:
            rates = compare(cluster.bootstrap_servers, rounds, share)
    if not show(rates):
        sys.exit(1)


def show(rates: dict[tuple[str, int, str], float]) -> bool:
    """Print the table; are all bars held?"""
    table = Table("direction", "value", "client", "records/s", "kafkalite is", "bar", "")
    held = True
    for (direction, value_bytes, client), rate in rates.items():
        ratio = rates[direction, value_bytes, "kafkalite"] / rate
        bar = BARS.get(client)
        verdict = "" if bar is None else "held" if ratio >= bar else "MISSED"
        held = held and verdict != "MISSED"
        bar_text = "" if bar is None else f"{bar:g}x"
        table.add_row(direction, f"{value_bytes} B", client, f"{rate:,.0f}", f"{ratio:.2f}x", bar_text, verdict)
    Console(width=110).print(table)
    return held


if __name__ == "__main__":
    main()
