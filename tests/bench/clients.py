"""Our clients against others: the same records to and from the same broker, in turn. `python -m tests.bench.clients`.

Every client has the same batch size, linger and acks, no compression, one partition, and else its own defaults; each record's value is
looked at by the reader. A measurement is a process of its own, and its topic is deleted afterwards, so that all find the same memory
and disk. The rounds go through all clients in turn, so that the machine's moods hit all; medians count. The bars are those that the
client was built to: records/s at least 5 times kafka-python's, twice aiokafka's, half of confluent-kafka's.

Processor time is that of all threads of the client, in user space and in the system. Where others share the machine only that tells.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Coroutine
from typing import Any, Final, NamedTuple

import click
from rich.console import Console
from rich.table import Table

BARS: Final = {"kafka-python": 5.0, "aiokafka": 2.0, "confluent-kafka": 0.5}
OURS: Final = ("kafkalite", "kafkalite sync")
COUNTS: Final = {100: 500_000, 1000: 150_000}
BATCH_BYTES: Final = 128 * 1024
LINGER_MS: Final = 5
_TIMEOUT_S: Final = 120


class Spent(NamedTuple):
    """Seconds, by the clock and of processors: a moment, or what went by since."""

    elapsed_s: float
    worked_s: float


Outcome = tuple[Spent, int]
"""What reading took, and bytes of the values that were seen."""


def _now() -> Spent:
    return Spent(time.perf_counter(), time.process_time())


def _since(began: Spent) -> Spent:
    now = _now()
    return Spent(now.elapsed_s - began.elapsed_s, now.worked_s - began.worked_s)


# producers: seconds from the first record to the last acknowledgement


async def _produce_kafkalite(servers: str, topic: str, count: int, value: bytes) -> Spent:
    from kafkalite.client import Producer

    async with Producer(bootstrap_servers=servers, batch_size=BATCH_BYTES, linger_ms=LINGER_MS) as producer:
        await producer.send_and_wait(topic, value, partition=0)
        began = _now()
        for _ in range(count):
            await producer.send(topic, value, partition=0)
        await producer.flush()
        took = _since(began)
        if producer.statistics()["delivered_records"] != count + 1:
            raise RuntimeError(f"not all records were delivered: {producer.statistics()}")
        return took


def _produce_kafkalite_sync(servers: str, topic: str, count: int, value: bytes) -> Spent:
    from kafkalite.client import SyncProducer

    with SyncProducer(bootstrap_servers=servers, batch_size=BATCH_BYTES, linger_ms=LINGER_MS) as producer:
        producer.send_and_wait(topic, value, partition=0)
        began = _now()
        for _ in range(count):
            producer.send(topic, value, partition=0)
        producer.flush()
        took = _since(began)
        if producer.statistics()["delivered_records"] != count + 1:
            raise RuntimeError(f"not all records were delivered: {producer.statistics()}")
        return took


async def _produce_aiokafka(servers: str, topic: str, count: int, value: bytes) -> Spent:
    from aiokafka import AIOKafkaProducer

    producer = AIOKafkaProducer(
        bootstrap_servers=servers, acks="all", max_batch_size=BATCH_BYTES, linger_ms=LINGER_MS, enable_idempotence=True
    )
    await producer.start()
    try:
        await producer.send_and_wait(topic, value, partition=0)
        began = _now()
        for _ in range(count):
            last = await producer.send(topic, value, partition=0)
        await producer.flush()
        await last
        return _since(began)
    finally:
        await producer.stop()


def _produce_kafka_python(servers: str, topic: str, count: int, value: bytes) -> Spent:
    from kafka import KafkaProducer

    producer = KafkaProducer(
        bootstrap_servers=servers, acks="all", batch_size=BATCH_BYTES, linger_ms=LINGER_MS, enable_idempotence=True
    )
    try:
        producer.send(topic, value, partition=0).get(_TIMEOUT_S)
        began = _now()
        for _ in range(count):
            last = producer.send(topic, value, partition=0)
        producer.flush(_TIMEOUT_S)
        last.get(_TIMEOUT_S)
        return _since(began)
    finally:
        producer.close()


def _produce_confluent(servers: str, topic: str, count: int, value: bytes) -> Spent:
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
    began = _now()
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
    return _since(began)


# consumers: seconds from the first record to the last


async def _consume_kafkalite(servers: str, topic: str, count: int) -> Outcome:
    from kafkalite.client import Consumer, TopicPartition

    async with Consumer(bootstrap_servers=servers, auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        seen = size = 0
        began = _now()
        while seen < count:
            for records in (await consumer.getmany(timeout_ms=1000)).values():
                began = began if seen else _now()
                for record in records:
                    size += len(record.value)
                seen += len(records)
        return _since(began), size


async def _consume_kafkalite_arrays(servers: str, topic: str, count: int) -> Outcome:
    from kafkalite.client import Consumer, TopicPartition

    async with Consumer(bootstrap_servers=servers, auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        seen = size = 0
        began = _now()
        while seen < count:
            for batches in (await consumer.poll_batches(timeout_ms=1000)).values():
                began = began if seen else _now()
                for batch in batches:
                    size += sum(batch.value_ends) - sum(batch.value_starts)
                    seen += len(batch)
        return _since(began), size


def _consume_kafkalite_sync(servers: str, topic: str, count: int) -> Outcome:
    from kafkalite.client import SyncConsumer, TopicPartition

    with SyncConsumer(bootstrap_servers=servers, auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        seen = size = 0
        began = _now()
        while seen < count:
            for records in consumer.poll(timeout_ms=1000).values():
                began = began if seen else _now()
                for record in records:
                    size += len(record.value)
                seen += len(records)
        return _since(began), size


async def _consume_aiokafka(servers: str, topic: str, count: int) -> Outcome:
    from aiokafka import AIOKafkaConsumer, TopicPartition

    consumer = AIOKafkaConsumer(bootstrap_servers=servers, auto_offset_reset="earliest")
    await consumer.start()
    try:
        partition = TopicPartition(topic, 0)
        consumer.assign([partition])
        consumer.seek(partition, 0)
        seen = size = 0
        began = _now()
        while seen < count:
            for records in (await consumer.getmany(timeout_ms=1000, max_records=500)).values():
                began = began if seen else _now()
                for record in records:
                    size += len(record.value)
                seen += len(records)
        return _since(began), size
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
        began = _now()
        while seen < count:
            for records in consumer.poll(timeout_ms=1000).values():
                began = began if seen else _now()
                for record in records:
                    size += len(record.value)
                seen += len(records)
        return _since(began), size
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
        began = _now()
        while seen < count:
            records = consumer.consume(500, 1.0)
            began = began if seen else _now()
            for record in records:
                size += len(record.value())
            seen += len(records)
        return _since(began), size
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
    "kafkalite arrays": _consume_kafkalite_arrays,
    "kafkalite sync": _consume_kafkalite_sync,
    "kafka-python": _consume_kafka_python,
    "aiokafka": _consume_aiokafka,
    "confluent-kafka": _consume_confluent,
}


def _run(outcome: Any) -> Any:
    return asyncio.run(outcome) if isinstance(outcome, Coroutine) else outcome


class Cost(NamedTuple):
    """What a client is measured by."""

    records_per_s: float
    worked_us: float
    """Processor time for a record."""


def measure(direction: str, client: str, servers: str, topic: str, count: int, value_bytes: int) -> Cost:
    """The cost of one client, measured in this process."""
    if direction == "produce":
        took: Spent = _run(PRODUCERS[client](servers, topic, count, bytes(value_bytes)))
    else:
        took, size = _run(CONSUMERS[client](servers, topic, count))
        if size < count * value_bytes:
            raise RuntimeError(f"{client} read {size} bytes of {count * value_bytes}")
    return Cost(count / took.elapsed_s, took.worked_s / count * 1e6)


def measure_apart(*arguments: object) -> Cost:
    """`measure` in a process of its own."""
    command = [sys.executable, "-m", "tests.bench.clients", "--one", json.dumps(arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=3 * _TIMEOUT_S)
    if done.returncode:
        raise RuntimeError(f"{arguments}: {done.stderr[-2000:]}")
    return Cost(*json.loads(done.stdout))


def compare(servers: str, rounds: int, share: float) -> dict[tuple[str, int, str], Cost]:
    """Medians for (direction, value bytes, client)."""
    from confluent_kafka.admin import AdminClient, NewTopic

    admin = AdminClient({"bootstrap.servers": servers})
    *_, read_from = PRODUCERS
    costs: dict[tuple[str, int, str], list[Cost]] = {}
    for value_bytes, whole in COUNTS.items():
        count = max(int(whole * share), 1000)
        for number in range(rounds):
            topic = f"clients-{value_bytes}-{number}-{time.time_ns()}"
            for client in PRODUCERS:
                name = f"{topic}-{client.replace(' ', '-')}"
                admin.create_topics([NewTopic(name, 1, 1)])[name].result(30)
                cost = measure_apart("produce", client, servers, name, count, value_bytes)
                costs.setdefault(("produce", value_bytes, client), []).append(cost)
                if client != read_from:
                    admin.delete_topics([name])[name].result(30)
            read = f"{topic}-{read_from}"
            for client in CONSUMERS:
                cost = measure_apart("consume", client, servers, read, count, value_bytes)
                costs.setdefault(("consume", value_bytes, client), []).append(cost)
            admin.delete_topics([read])[read].result(30)
    return {key: Cost(*map(statistics.median, zip(*each, strict=True))) for key, each in costs.items()}


@click.command()
@click.option("--servers", help="An existing cluster; by default a broker of our own is started.")
@click.option("--rounds", default=3, show_default=True)
@click.option("--share", default=1.0, show_default=True, help="Share of the usual number of records.")
@click.option("--one", hidden=True, help="One measurement, as JSON.")
def main(servers: str | None, rounds: int, share: float, one: str | None) -> None:
    """Compare the clients; exits with 1 when a bar is missed."""
    if one is not None:
        click.echo(json.dumps(measure(*json.loads(one))))
        return
    if servers is not None:
        costs = compare(servers, rounds, share)
    else:
        from kafkalite.local.cluster import LocalCluster

        with LocalCluster(brokers=1, properties={"log.segment.delete.delay.ms": "0"}) as cluster:
            costs = compare(cluster.bootstrap_servers, rounds, share)
    if not show(costs):
        sys.exit(1)


def show(costs: dict[tuple[str, int, str], Cost]) -> bool:
    """Print the table; True if all bars are held."""
    table = Table(
        "direction", "value", "client", "records/s", "µs a record", "of kafkalite's", "kafkalite is", "bar", ""
    )
    held = True
    for (direction, value_bytes, client), cost in costs.items():
        ours = costs[direction, value_bytes, "kafkalite"]
        ratio = ours.records_per_s / cost.records_per_s
        bar = BARS.get(client)
        verdict = "" if bar is None else "held" if ratio >= bar else "MISSED"
        held = held and verdict != "MISSED"
        bar_text = "" if bar is None else f"{bar:g}x"
        worked = f"{cost.worked_us:.2f}", f"{cost.worked_us / ours.worked_us:.2f}x"
        rate = f"{cost.records_per_s:,.0f}"
        table.add_row(direction, f"{value_bytes} B", client, rate, *worked, f"{ratio:.2f}x", bar_text, verdict)
    Console(width=110).print(table)
    return held


if __name__ == "__main__":
    main()
