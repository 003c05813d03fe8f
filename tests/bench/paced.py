"""The ends of `half_load`, each a program of its own: `python -m tests.bench.paced flood|pace|consume`, which that command runs.

A record's value begins with the moment at which it was due, and that at which it was handed to the client, by the clock that all
processes of a machine share (CLOCK_MONOTONIC). Every record is a request of its own. What an end measured goes to a file of doubles: due,
seconds, due, seconds, ...; the last line of its standard output is a figure. The producer writes a second one, `.sent`, for `journeys`.
"""

from __future__ import annotations

import struct
import time
from array import array
from pathlib import Path
from typing import Any, Final

import click
import confluent_kafka

VALUE_BYTES: Final = 100
SETTINGS: Final[dict[str, Any]] = {
    "acks": "all",
    "linger.ms": 0,
    "batch.num.messages": 1,
    "queue.buffering.max.messages": 1_000_000,
}
TIMEOUT_S: Final = 60.0
_DUE: Final = struct.Struct("d")
_MOMENTS: Final = struct.Struct("dd")
_PADDING: Final = bytes(VALUE_BYTES - _MOMENTS.size)
_UNPACED: Final = 0.0
"""Due at no moment: nobody measures how long it takes."""

_TICK_S: Final = 0.001
_LEAST_WAIT_S: Final = 0.001
"""librdkafka waits in whole milliseconds."""


class Deliveries:
    """What was acknowledged, and when."""

    def __init__(self) -> None:
        self.measured = array("d")
        self.sent = array("d")
        self.count = 0

    def __call__(self, error: confluent_kafka.KafkaError | None, message: confluent_kafka.Message) -> None:
        if error is not None:
            raise RuntimeError(f"a record was not acknowledged: {error}")
        self.count += 1
        due_s, handed_s = _MOMENTS.unpack_from(message.value() or b"")
        if due_s != _UNPACED:
            now_s = time.monotonic()
            self.measured.append(due_s)
            self.measured.append(now_s - due_s)
            self.sent.extend((message.partition() or 0, message.offset() or 0, due_s, handed_s, now_s))


def new_producer(servers: str, topic: str, partitions: int, deliveries: Deliveries) -> confluent_kafka.Producer:
    """It is connected to all leaders."""
    producer = confluent_kafka.Producer(SETTINGS | {"bootstrap.servers": servers, "on_delivery": deliveries})
    for partition in range(partitions):
        producer.produce(topic, _MOMENTS.pack(_UNPACED, _UNPACED) + _PADDING, partition=partition)
    flush(producer)
    return producer


def flush(producer: confluent_kafka.Producer) -> None:
    if left := producer.flush(TIMEOUT_S):
        raise TimeoutError(f"{left} records were not acknowledged")


def flood(servers: str, topic: str, partitions: int, seconds: float, in_flight: int) -> float:
    """Records a second that are acknowledged when so many are always under way; the first quarter of the time warms up."""
    deliveries = Deliveries()
    producer = new_producer(servers, topic, partitions, deliveries)
    value, sent = _MOMENTS.pack(_UNPACED, _UNPACED) + _PADDING, deliveries.count
    first, first_s, now_s = 0, 0.0, time.monotonic()
    warm_s, end_s = now_s + seconds / 4, now_s + seconds
    while now_s < end_s:
        while sent - deliveries.count < in_flight:
            producer.produce(topic, value, partition=sent % partitions)
            sent += 1
        producer.poll(1.0)
        now_s = time.monotonic()
        if not first_s and now_s >= warm_s:
            first, first_s = deliveries.count, now_s
    rate = (deliveries.count - first) / (now_s - first_s)
    flush(producer)
    return rate


def pace(servers: str, topic: str, partitions: int, count: int, rate: float, output: Path) -> float:
    """Send so many records, each when it is due however late those before it are; the share of a processor that this took.

    What became due within a millisecond is sent at its end, as requests of their own, and what was acknowledged is noticed then: to wake up
    for each would take a processor from the brokers.
    """
    deliveries = Deliveries()
    producer = new_producer(servers, topic, partitions, deliveries)
    produce, poll, now, pack = producer.produce, producer.poll, time.monotonic, _MOMENTS.pack
    used_s, begin_s, sent = time.process_time(), now(), 0
    while sent < count:
        now_s = now()
        while sent < count and (due_s := begin_s + sent / rate) <= now_s:
            produce(topic, pack(due_s, now_s) + _PADDING, partition=sent % partitions)
            sent += 1
        poll(0)
        until_s = max(begin_s + sent / rate, now_s + _TICK_S)
        while (left_s := until_s - now()) > 0:
            if left_s > _LEAST_WAIT_S:
                poll(left_s)
            else:
                time.sleep(left_s)
    used_s, took_s = time.process_time() - used_s, now() - begin_s
    flush(producer)
    save(deliveries.measured, output)
    save(deliveries.sent, output.with_suffix(".sent"))
    return used_s / took_s


def consume(servers: str, topic: str, group: str, count: int, output: Path) -> float:
    """Read that many records that were due as a group's member, or 0 for as long as it may run; the share of a processor.

    A line tells that it has its partitions.
    """

    def assigned(consumer: confluent_kafka.Consumer, partitions: list[confluent_kafka.TopicPartition]) -> None:
        print("assigned", flush=True)

    settings = {"bootstrap.servers": servers, "group.id": group, "auto.offset.reset": "earliest"}
    consumer = confluent_kafka.Consumer(settings)
    consumer.subscribe([topic], on_assign=assigned)
    measured, seen = array("d"), 0
    used_s, began_s = time.process_time(), time.monotonic()
    last_s = began_s
    while not count or seen < count:
        message = consumer.poll(1.0)
        if message is None:
            if time.monotonic() - last_s > TIMEOUT_S:
                raise TimeoutError(f"{seen} of {count} records came")
            continue
        if error := message.error():
            raise RuntimeError(str(error))
        last_s = time.monotonic()
        (due_s,) = _DUE.unpack_from(message.value() or b"")
        if due_s == _UNPACED:
            began_s, used_s = last_s, time.process_time()
            continue
        seen += 1
        if count:
            measured.append(due_s)
            measured.append(last_s - due_s)
    used_s, took_s = time.process_time() - used_s, time.monotonic() - began_s
    consumer.close()
    save(measured, output)
    return used_s / took_s


def save(measured: array[float], output: Path) -> None:
    with output.open("wb") as file:
        measured.tofile(file)


@click.group()
def main() -> None:
    """The ends of `half_load`."""


@main.command("flood")
@click.argument("servers")
@click.argument("topic")
@click.argument("partitions", type=int)
@click.argument("seconds", type=float)
@click.argument("in_flight", type=int)
def flood_command(servers: str, topic: str, partitions: int, seconds: float, in_flight: int) -> None:
    print(flood(servers, topic, partitions, seconds, in_flight))


@main.command("pace")
@click.argument("servers")
@click.argument("topic")
@click.argument("partitions", type=int)
@click.argument("count", type=int)
@click.argument("rate", type=float)
@click.argument("output", type=click.Path(path_type=Path))
def pace_command(servers: str, topic: str, partitions: int, count: int, rate: float, output: Path) -> None:
    print(pace(servers, topic, partitions, count, rate, output))


@main.command("consume")
@click.argument("servers")
@click.argument("topic")
@click.argument("group")
@click.argument("count", type=int)
@click.argument("output", type=click.Path(path_type=Path))
def consume_command(servers: str, topic: str, group: str, count: int, output: Path) -> None:
    print(consume(servers, topic, group, count, output))


if __name__ == "__main__":
    main()
